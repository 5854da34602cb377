// SPDX-License-Identifier: Apache-2.0
// <schedule-explorer>: when each program of a launch ran, and on which SM. All of it stands
// on the page (figures/schedule/), and follows what is chosen: launch, moment, program.

import { FormExplorer, count, define, list, plural } from "../explorer.js";
import { Cells } from "../machine.js";

class ScheduleExplorer extends FormExplorer {
  connectedCallback() {
    this.svg = this.querySelector("svg.schedule");
    this.plot = this.querySelector(".schedule__plot");
    this.machine = new Cells(this.querySelector(".machine"));
    this.launches = [...this.svg.querySelectorAll("[data-name]")];
    this.lists = [...this.querySelectorAll("pre")].map(({ textContent }) =>
      textContent.trim().split("\n").slice(1).map((line) => {
        const [number, sm, place, begin, end] = line.trim().split(/\s+/).map(Number);
        return { number, sm, place, begin, end };
      }));
    for (const programs of this.lists) { // whose turn it was in its place
      const before = {};
      for (const program of [...programs].sort((a, b) => a.begin - b.begin)) {
        const place = `${program.sm},${program.place}`;
        program.turn = before[place] = (before[place] ?? -1) + 1;
      }
    }
    this.pace ??= this.querySelector(".time-bar").dataset.seconds / this.dataset.end;
    super.connectedCallback();
    this.querySelector(".schedule__launches").onchange = () => this.bar.settle();
    this.svg.onpointerdown = (event) => this.take(event);
    this.querySelector(".cells").onclick = (event) => this.pick(this.machine.under(event));
  }

  get timing() {
    return { text: (time) => `${time} µs` };
  }

  render({ launch, time, program }) {
    const { label, about, places, rest, last } = this.launches[launch].dataset;
    this.programs = this.lists[launch];
    this.launches.forEach((other, i) => other.setAttribute("display", i === launch ? "inline" : "none"));
    Object.assign(this.bar, { rest: Number(rest), seconds: this.pace * last }); // all launches at one pace
    this.bar.track.max = last; // which corrects its value
    this.style.setProperty("--last", last / this.dataset.end);
    time = this.bar.value;
    this.svg.setAttribute("aria-label", `${label}: ${about}`);
    this.querySelector(".schedule__about").textContent = about;

    const on = this.programs.filter(({ begin, end }) => begin <= time && time < end);
    const used = new Set(on.map(({ sm }) => sm)).size;
    const waiting = this.programs.filter(({ begin }) => begin > time).length;
    this.machine.work(on, time);
    this.querySelector(".schedule__machine strong").textContent = used;
    const chosen = this.plot.querySelector("i + i");
    const across = (value) => `${(100 * value) / this.dataset.end}%`;
    this.plot.style.setProperty("--at", time / this.dataset.end);
    this.querySelector(".schedule__beside").style.visibility = places > 1 ? "" : "hidden"; // it keeps its place
    this.plot.classList.toggle("schedule__plot--playing", this.bar.playing);
    const [summary, detail] = this.form.querySelectorAll("output");
    summary.textContent = `At ${time} µs: ${on.length || waiting
      ? `${count(on.length, "program")} on ${count(used, "SM")}, ${waiting} waiting; `
        + `idle: ${count(this.dataset.sms - used, "SM")}.`
      : "all have ended."}`;

    const { sm, begin, end } = this.programs[program] ?? {};
    chosen.hidden = sm === undefined;
    this.machine.mark(...(chosen.hidden ? [] : [sm]));
    const others = this.programs.filter((other) => other.sm === sm).map(({ number }) => number);
    detail.textContent = chosen.hidden
      ? `Choose a program from 0 to ${this.programs.length - 1}: type its number, or click its bar or its square.`
      : `Program ${program} ran on SM ${sm} from ${begin} to ${end} µs, for ${(end - begin).toFixed(1)} µs. `
        + `This SM ran ${plural(others.length, "program")} ${list(others)}.`;
    chosen.style.inset = `${(100 * sm) / this.dataset.sms}% auto auto ${across(begin)}`;
    chosen.style.width = across(end - begin);
  }

  /** Drag the moment across the picture; a click chooses a program. */
  take({ pointerId, clientX, button }) {
    if (button) return;
    let moved = false;
    this.svg.setPointerCapture(pointerId);
    this.svg.onpointermove = (event) => {
      moved ||= Math.abs(event.clientX - clientX) > 4;
      if (!moved) return;
      this.bar.hold();
      this.bar.value = this.timeAt(event);
      this.update();
    };
    this.svg.onpointerup = (event) => moved || this.point(event);
    this.svg.onlostpointercapture = () => {
      this.svg.onpointermove = this.svg.onpointerup = null;
    };
  }

  timeAt({ clientX }) {
    const { left, width } = this.svg.getBoundingClientRect();
    return ((clientX - left) / width) * this.dataset.end;
  }

  /** Choose the program that is nearest to where somebody pointed. */
  point(event) {
    const { top, height } = this.svg.getBoundingClientRect();
    const time = this.timeAt(event);
    const row = ((event.clientY - top) / height) * this.dataset.sms - 0.5;
    const away = ({ sm, begin, end }) => Math.abs(sm - row) * 1e6 + Math.max(begin - time, time - end, 0);
    this.choose(this.programs.reduce((a, b) => (away(b) < away(a) ? b : a)));
  }

  /** Choose the program that runs on a multiprocessor, or was the last to. */
  pick(sm) {
    const program = this.programs.findLast((each) => each.sm === sm && each.begin <= this.bar.value);
    if (program) this.choose(program);
  }

  choose({ number }) {
    this.form.program.value = number;
    this.querySelector(".explorer__more").open = true;
    this.update();
  }
}

define("schedule-explorer", ScheduleExplorer);
