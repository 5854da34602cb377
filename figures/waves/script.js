// SPDX-License-Identifier: Apache-2.0
// <waves-explorer>: a launch of a matrix product at any moment, and what one program did.

import { FormExplorer, count, define, write } from "../explorer.js";
import { Cells, unpack } from "../machine.js";

/** The programs of a launch, by number; `turn` counts those before it on its multiprocessor. */
function read(line) {
  const [label, text] = line.split(":");
  const programs = unpack(text, [2, 3, 3, 2]).map(([sm, begin, length, tile], number) =>
    ({ number, sm, tile, begin: begin / 10, end: (begin + length) / 10 }));
  const before = {};
  for (const program of [...programs].sort((a, b) => a.begin - b.begin)) {
    program.turn = before[program.sm] = (before[program.sm] ?? -1) + 1;
  }
  return { label, programs };
}

class WavesExplorer extends FormExplorer {
  connectedCallback() {
    this.stops = JSON.parse(this.dataset.stops);
    this.launches = this.querySelector("template").content.textContent.trim().split("\n").map(read);
    this.columns = Number(this.dataset.columns);
    this.pointed = null; // by nobody yet
    this.picture = this.querySelector(".waves");
    [this.done, this.busy] = this.picture.querySelectorAll("strong");
    this.matrix = new Cells(this.picture.querySelector(".matrix"));
    this.machine = new Cells(this.picture.querySelector(".machine"));
    this.lines = [".waves__a", ".waves__b"].map((name) => [...this.picture.querySelector(name).children]);
    super.connectedCallback();
    // Home says "watch them run", and nobody has begun to read this picture.
    if (this.className && this.bar.parked) this.bar.again();
    this.picture.onpointerover = (event) => event.pointerType !== "touch" && this.hover(this.under(event));
    this.picture.onpointerleave = () => this.hover();
    this.picture.onclick = (event) => this.choose(this.under(event));
  }

  get timing() {
    return { text: (time) => `${Math.round(time)} µs` };
  }

  render({ order = 0, time, program }) {
    const launch = this.launches[order] ?? this.launches[0];
    const running = launch.programs.filter(({ begin, end }) => begin <= time && time < end);
    const ended = launch.programs.filter(({ end }) => end <= time).length;
    for (const each of launch.programs) this.matrix.show(each.tile, each, time);
    this.machine.work(running, time);
    const reads = [new Set(running.map((each) => this.place(each)[0])), new Set(running.map((each) => this.place(each)[1]))];
    this.lines.forEach((line, axis) => line.forEach((cell, i) => cell.classList.toggle("on", reads[axis].has(i))));
    write(this.done, ended);
    write(this.busy, running.length);
    const [rows, columns] = reads.map(({ size }) => size);
    this.picture.ariaLabel = `${launch.label}, after ${time} µs: ${count(running.length, "program")} at work on `
      + `${count(rows, "row")} of A and ${count(columns, "column")} of B, ${ended} done, `
      + `${launch.programs.length - ended - running.length} waiting.`;
    const said = this.querySelector(".waves__reads");
    if (said) write(said, `${count(rows, "row")} of A + ${count(columns, "column")} of B`);
    this.launch = launch;
    this.bar.stops = this.stops[order];
    this.point(this.hovered ?? program);
  }

  /** In which row and column of tiles a program works. */
  place({ tile }) {
    return [Math.floor(tile / this.columns), tile % this.columns];
  }

  /** The program whose tile an event is about; of a multiprocessor, the one that runs there, or the last before. */
  under(event) {
    const [tile, sm] = [this.matrix.under(event), this.machine.under(event)];
    const { programs } = this.launch;
    if (tile !== undefined) return programs.findIndex((program) => program.tile === tile);
    return programs.findLast((program) => program.sm === sm && program.begin <= this.bar.value)?.number;
  }

  /** Mark a program: its tile, its multiprocessor, what it reads; and say what it did. */
  point(number) {
    const { programs } = this.launch;
    const program = number === "" ? undefined : programs[number];
    if (this.pointed === program) return;
    this.pointed = program;
    const place = program ? this.place(program) : [];
    this.matrix.mark(...(program ? [program.tile] : []));
    this.machine.mark(...(program ? [program.sm] : []));
    this.lines.forEach((line, axis) => line.forEach((cell, i) => cell.toggleAttribute("data-here", i === place[axis])));
    const detail = this.querySelector(".explorer__detail");
    if (!detail) return;
    detail.ariaLive = this.bar.playing || this.hovered !== undefined ? "off" : "polite"; // a screen reader would fall behind
    if (!program) {
      detail.textContent = "Point at a tile or a multiprocessor, or tap it, to see its program.";
      return;
    }
    detail.textContent = `Program ${number} computes the tile in row ${place[0]}, column ${place[1]}, on multiprocessor ${program.sm}, `
      + `from ${program.begin} to ${program.end} µs.`;
  }

  hover(number) {
    this.hovered = number;
    this.point(number ?? this.state.program);
  }

  choose(number) {
    const { program } = this.form;
    if (!program) return; // in its compact form
    program.value = number === undefined || `${number}` === program.value ? "" : number;
    this.hovered = undefined;
    this.update();
  }
}

define("waves-explorer", WavesExplorer);
