// SPDX-License-Identifier: Apache-2.0
// <window-reads>: a stencil's loads one after the other, and where each finds its elements.

import { FormExplorer, count, define, write } from "../explorer.js";

const COLORS = 8; // of programs, in turn

/** All loads, in the order of programs: whose it is, and the elements; -1 for a lane outside of the picture. */
export function loads({ side, tile, window }) {
  const reach = Math.floor(window / 2);
  const all = [];
  const across = side / tile;
  for (let program = 0; program < across ** 2; program++) {
    const [top, left] = [Math.floor(program / across) * tile, (program % across) * tile];
    for (let down = -reach; down <= reach; down++) {
      for (let right = -reach; right <= reach; right++) {
        const lanes = [];
        for (let i = 0; i < tile ** 2; i++) {
          const [row, column] = [top + down + Math.floor(i / tile), left + right + (i % tile)];
          lanes.push([row, column]);
        }
        all.push({ program, lanes });
      }
    }
  }
  return all;
}

/** What is known after so many loads: by element how often and by whom it was loaded, where loads found theirs, and
    where those of the last one did. */
export function walk({ side, tile, window, done }) {
  const times = Array(side ** 2).fill(0);
  const had = Array.from(times, () => new Set());
  const found = { memory: 0, l2: 0, l1: 0 };
  let last = new Map();
  for (const { program, lanes } of loads({ side, tile, window }).slice(0, done)) {
    last = new Map();
    for (const [row, column] of lanes) {
      if (Math.min(row, column) < 0 || Math.max(row, column) >= side) {
        last.set(`${row} ${column}`, "off");
        continue;
      }
      const place = row * side + column;
      const level = had[place].has(program) ? "l1" : had[place].size ? "l2" : "memory";
      found[level] += 1;
      times[place] += 1;
      had[place].add(program);
      last.set(`${row} ${column}`, level);
    }
  }
  return { times, programs: had.map((each) => each.size), found, last };
}

class WindowReads extends FormExplorer {
  connectedCallback() {
    const { side, window } = this.dataset;
    [this.side, this.window] = [Number(side), Number(window)];
    this.cells = [...this.querySelectorAll(".reads__x i")];
    this.results = [...this.querySelectorAll(".reads__out i")];
    this.results.forEach((cell, place) => (cell.onpointerenter = cell.onclick = () => this.point(place)));
    this.querySelector(".reads__out").onpointerleave = () => this.point(-1);
    super.connectedCallback();
  }

  get timing() {
    return { text: (moment) => this.when(moment), watch: this.querySelector(".reads") };
  }

  /** Program and load of a moment; after its loads a program stores. */
  at(moment) {
    const each = this.window ** 2 + 1;
    const program = Math.floor((moment - 1) / each);
    return { program, load: moment ? ((moment - 1) % each) + 1 : 0, stores: moment > 0 && moment % each === 0 };
  }

  when(moment) {
    if (!moment) return "the beginning";
    const { program, load, stores } = this.at(moment);
    return stores ? `program ${program} stores` : `program ${program}, load ${load}`;
  }

  /** Frame what a result reads. */
  point(place) {
    const reach = Math.floor(this.window / 2);
    const [row, column] = [Math.floor(place / this.side), place % this.side];
    const wide = this.side + 2 * reach;
    this.cells.forEach((cell, i) => {
      const away = Math.max(Math.abs(Math.floor(i / wide) - reach - row), Math.abs((i % wide) - reach - column));
      cell.classList.toggle("reads--seen", place >= 0 && away <= reach);
    });
    this.results.forEach((cell, i) => cell.classList.toggle("reads--seen", i === place));
  }

  render({ tile, moment: asked }) {
    const { side, window } = this;
    const programs = (side / tile) ** 2;
    const each = window ** 2 + 1;
    const track = this.bar?.track ?? this.form.moment;
    const ended = asked >= (this.last ?? Number(track.defaultValue));
    this.last = programs * each;
    track.max = this.last; // which corrects its value
    if (ended && !this.bar?.playing) track.value = this.last;
    if (this.bar) {
      this.bar.rest = this.last;
      this.bar.seconds = Math.min(4 + this.last * 0.25, 24);
    }
    const moment = Number(track.value);
    const { program, load, stores } = this.at(moment);
    const done = moment - Math.floor(moment / each);
    const { times, programs: by, found, last } = walk({ side, tile, window, done });
    this.paint({ times, by, last: stores || !moment ? new Map() : last });
    const stored = Math.floor(moment / each);
    this.results.forEach((cell, place) => {
      const owner = Math.floor(Math.floor(place / side) / tile) * (side / tile) + Math.floor((place % side) / tile);
      const seen = cell.classList.contains("reads--seen") ? " reads--seen" : "";
      cell.className = `pid-${owner % COLORS}${owner < stored ? "" : owner === program && moment ? " mine" : " later"}${seen}`;
    });
    const all = loads({ side, tile, window }).flatMap(({ lanes }) => lanes)
      .filter((lane) => Math.min(...lane) >= 0 && Math.max(...lane) < side).length;
    for (const [level, number] of Object.entries(found)) {
      write(this.querySelector(`[data-of=${level}]`), number);
      this.querySelector(`.reads__bar .reads--${level}`).style.setProperty("--share", (number / all).toFixed(4));
    }
    write(this.querySelector("[data-of=all]"), found.memory + found.l2 + found.l1);
    write(this.querySelector(".explorer__summary"), this.sentence({ moment, program, load, stores, found, last }));
  }

  paint({ times, by, last }) {
    const reach = Math.floor(this.window / 2);
    const wide = this.side + 2 * reach;
    this.cells.forEach((cell, i) => {
      const [row, column] = [Math.floor(i / wide) - reach, (i % wide) - reach];
      const level = last.get(`${row} ${column}`);
      const inside = Math.min(row, column) >= 0 && Math.max(row, column) < this.side;
      const place = row * this.side + column;
      const seen = cell.classList.contains("reads--seen") ? " reads--seen" : "";
      const kind = !inside ? "ring" : level ? "" : by[place] > 1 ? "shared" : by[place] ? "had" : "new";
      cell.className = `${kind}${level ? ` now reads--${level}` : ""}${seen}`;
      if (inside) write(cell, times[place] || "");
    });
  }

  sentence({ moment, program, load, stores, found, last }) {
    if (!moment) return "Nothing has been loaded yet. Play, step, or drag the bar.";
    const sum = found.memory + found.l2 + found.l1;
    if (moment >= this.last) {
      return `All done: the loads asked for ${sum} elements. The picture has ${found.memory}, so each was asked for ${(sum / found.memory).toFixed(1)} times on average.`;
    }
    if (stores) return `Program ${program} divides its sums by ${this.window ** 2} and stores its results.`;
    const levels = [...last.values()];
    const here = levels.filter((level) => level !== "off").length;
    const fresh = levels.filter((level) => level === "memory").length;
    const off = levels.length - here;
    return `Program ${program}, load ${load} of ${this.window ** 2}: ${count(here, "element")}, ${fresh} of them for the first time`
      + `${off ? `; ${off} masked off, outside of the picture` : ""}.`;
  }
}

define("window-reads", WindowReads);
