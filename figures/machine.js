// SPDX-License-Identifier: Apache-2.0
// The machine (machine.html): cells, each of which waits, runs, has ended or has no work.

/** The cells of a grid of multiprocessors or of a matrix of tiles. */
export class Cells {
  constructor(grid) {
    this.cells = [...grid.children];
    this.shown = [];
    this.marked = [];
  }

  /** Give a cell its class, and say how far it has come, from 0 to 1; `beside` is the second program of a
      multiprocessor that has two. Nothing is touched that stays as it is. */
  set(i, name, at, beside) {
    const [far, second] = [at, beside].map((part) => (part === undefined ? "" : `${Math.round(part * 20) / 20}`));
    const wanted = `${name} ${far} ${second}`;
    if (this.shown[i] === wanted) return;
    this.shown[i] = wanted;
    const cell = this.cells[i];
    if (cell.className !== name) cell.className = name;
    if (!far) cell.removeAttribute("style");
    else cell.style.setProperty("--at", far);
    if (second) cell.style.setProperty("--beside", second);
  }

  /** Show a program in its cell at a moment. */
  show(i, { begin, end, turn }, time) {
    if (time < begin) this.set(i, "wait");
    else if (time >= end) this.set(i, `pid-${turn % 8} done`);
    else this.set(i, `pid-${turn % 8} on`, (time - begin) / (end - begin));
  }

  /** Show, on a grid of multiprocessors, those programs that run at a moment. */
  work(running, time) {
    const here = this.cells.map(() => []);
    for (const program of running) here[program.sm].push(program);
    here.forEach(([first, second], sm) => {
      if (!first) return this.set(sm, "off");
      const [at, beside] = [first, second].map((each) => each && (time - each.begin) / (each.end - each.begin));
      this.set(sm, `pid-${(second ?? first).turn % 8} on${second ? " two" : ""}`, at, beside);
    });
  }

  /** The number of the cell that an event is about, if it is one of these. */
  under({ target }) {
    const i = this.cells.indexOf(target);
    return i < 0 ? undefined : i;
  }

  /** Mark these cells, and no others. */
  mark(...all) {
    for (const i of this.marked) this.cells[i].removeAttribute("data-here");
    for (const i of all) this.cells[i].setAttribute("data-here", "");
    this.marked = all;
  }
}

/** Whole numbers that stand one after the other, in base 36: rows of so many places each. */
export function unpack(text, places) {
  const width = places.reduce((sum, each) => sum + each);
  return Array.from({ length: text.length / width }, (_, row) => {
    let at = row * width;
    return places.map((each) => parseInt(text.slice(at, (at += each)), 36));
  });
}
