// SPDX-License-Identifier: Apache-2.0
// <launch-explorer>: which program touches which element. Its form stands on the page (figures/launch_explorer/).

import { FormExplorer, cdiv, count, define, list, plural } from "../explorer.js";

const range = (length, first = 0) => Array.from({ length }, (_, i) => first + i);

// ---- Launches: what a kernel computes, program by program ----

/** The programs of `offsets = pid * BLOCK_SIZE + arange(0, BLOCK_SIZE); mask = offsets < n`. */
export function launch({ n, block }) {
  return range(cdiv(n, block)).map((pid) => {
    const offsets = range(block, pid * block);
    return { pid: [pid, 0, 0], offsets, mask: offsets.map((offset) => offset < n) };
  });
}

/** The same over a row-major matrix, a block of rows and columns a program; lanes in C order, pid 0 fastest. */
export function launch2d({ rows, columns, blockRows, blockColumns }) {
  return range(cdiv(columns, blockColumns)).flatMap((pid1) =>
    range(cdiv(rows, blockRows)).map((pid0) => {
      const places = range(blockRows * blockColumns).map((lane) => [
        pid0 * blockRows + Math.floor(lane / blockColumns),
        pid1 * blockColumns + (lane % blockColumns),
      ]);
      return {
        pid: [pid0, pid1, 0],
        places,
        offsets: places.map(([r, c]) => r * columns + c),
        mask: places.map(([r, c]) => r < rows && c < columns),
      };
    }),
  );
}

// ---- The element ----

const isPower = ({ name }) => name.startsWith("block");

class LaunchExplorer extends FormExplorer {
  connectedCallback() {
    this.numbers = this.querySelectorAll("[type=number]");
    this.lanes = this.querySelector(".explorer__lanes");
    this.lanes.onclick = ({ target }) => this.choose(target.closest(".lane"));
    this.lanes.onkeydown = (event) => this.key(event);
    super.connectedCallback();
    this.form.oninput = ({ target }) => {
      if (target.type === "number") return; // it is being typed
      const number = target.nextElementSibling;
      if (target.type === "range") number.value = isPower(number) ? 2 ** target.value : target.value;
      this.update();
    };
    this.form.onchange = ({ target }) => target.type === "number" && this.update();
  }

  /** Show what the form says, all numbers corrected, and the lane that is chosen.
      A power of two moves away from the one before: a step of one leads to the next. */
  update(chosen) {
    this.chosen = chosen;
    for (const number of this.numbers) {
      const old = this.sizes?.[number.name] ?? this.first[number.name];
      const value = Math.min(Math.max(Math.round(number.value) || old, number.min), number.max);
      number.value = isPower(number) ? 2 ** (value > old ? Math.ceil : Math.floor)(Math.log2(value)) : value;
      const range = number.previousElementSibling;
      range.value = isPower(number) ? Math.log2(number.value) : value;
      range.ariaValueText = number.value;
    }
    super.update();
  }

  render({ program, ...sizes }) {
    if (JSON.stringify(sizes) !== JSON.stringify(this.sizes)) this.draw(sizes);
    this.form.program.max = this.programs.length - 1; // which corrects its value
    this.point(this.state.program);
  }

  /** Draw all lanes anew. */
  draw(sizes) {
    this.sizes = sizes;
    const flat = (this.flat = sizes.dimensions === 1);
    this.programs = flat ? launch(sizes) : launch2d(sizes);
    for (const field of this.querySelectorAll("[data-dimensions]")) {
      field.hidden = Number(field.dataset.dimensions) !== sizes.dimensions;
    }
    this.play.disabled = this.programs.length === 1;

    const places = [];
    const lane = (program, index) => (offset, lane) => {
      const [r, c] = flat ? [0, offset] : program.places[lane];
      places.push({ index, lane, r, c });
      const [kind, off] = program.mask[lane] ? ["lane", ""] : ["lane lane--off", ", masked off"];
      return `<span role="option" class="${kind}" aria-label="element ${flat ? c : `(${r}, ${c})`}${off}: `
        + `program ${this.name(program)}, lane ${lane}">${offset}</span>`;
    };
    this.lanes.innerHTML = this.programs.map((program, index) =>
      `<div role="group" class="program pid-${index % 8}" aria-label="program ${this.name(program)}">
        <span class="program__name" aria-hidden="true">pid ${this.name(program)}</span>
        <div class="program__lanes" role="presentation">${program.offsets.map(lane(program, index)).join("")}</div>
      </div>`).join("");
    this.cells = new Map(); // by "row,column"
    this.lanes.querySelectorAll(".lane").forEach((cell, i) => {
      cell.at = places[i];
      this.cells.set(`${cell.at.r},${cell.at.c}`, cell);
    });
    this.lanes.classList.toggle("explorer__lanes--flat", flat);
    const { rows, columns, block, blockRows, blockColumns } = sizes;
    const size = (name, value) => this.lanes.style.setProperty(`--${name}`, value);
    size("columns", flat ? Math.min(block, 8) : blockColumns);
    size("down", cdiv(rows, blockRows));
    size("total", flat ? 8 : cdiv(columns, blockColumns) * blockColumns);
  }

  /** Show which program is looked at and which lane is chosen. */
  point(program) {
    const { index, lane } = this.chosen ?? { index: program, lane: 0 };
    [...this.lanes.children].forEach((group, i) => group.classList.toggle("program--current", i === program));
    for (const cell of this.cells.values()) {
      const here = cell.at.index === index && cell.at.lane === lane;
      cell.tabIndex = here ? 0 : -1;
      cell.ariaSelected = here && !!this.chosen;
    }
    const [summary, detail] = this.form.querySelectorAll("output");
    summary.textContent = this.sentence(program);
    detail.textContent = this.chosen ? this.formula(this.chosen) : "Choose a square to see its offset worked out.";
  }

  name({ pid }) {
    return this.flat ? pid[0] : `(${pid[0]}, ${pid[1]})`;
  }

  sentence(program) {
    const { n, block, rows, columns, blockRows, blockColumns } = this.sizes;
    const { places, offsets, mask } = this.programs[program];
    const off = range(mask.length).filter((lane) => !mask[lane]);
    const [lane, offset] = ["lane", "offset"].map((word) => plural(off.length, word));
    const which = off.length > 4 ? `${off.length} of ${mask.length} lanes`
      : `${lane} ${list(off)} (${offset} ${list(off.map((o) => offsets[o]))})`;
    const masked = off.length ? `${which} ${off.length === 1 ? "is" : "are"} masked off.` : "no lane is masked off.";
    const programs = count(this.programs.length, "program");
    const own = block > 8 ? `${offsets[0]} to ${offsets.at(-1)}` : offsets.join(" ");
    return this.flat
      ? `n = ${n}, block ${block}: cdiv(${n}, ${block}) = ${programs}; `
        + `program ${program} has ${plural(block, "offset")} ${own}; ${masked}`
      : `${rows} × ${columns}, block ${blockRows} × ${blockColumns}: `
        + `cdiv(${rows}, ${blockRows}) * cdiv(${columns}, ${blockColumns}) = ${programs}; program `
        + `${this.name(this.programs[program])} starts at row ${places[0][0]}, column ${places[0][1]}; ${masked}`;
  }

  formula({ index, lane, r, c }) {
    const { n, block, rows, columns, blockRows, blockColumns } = this.sizes;
    const program = this.programs[index];
    const sum = (axis, size, at) => `${program.pid[axis]} * ${size} + ${at % size} = ${at}`;
    const how = this.flat
      ? `pid * BLOCK_SIZE + lane = ${sum(0, block, c)}; offset < n is ${c} < ${n}, ${c < n}`
      : `row = ${sum(0, blockRows, r)}, column = ${sum(1, blockColumns, c)}, offset = ${r} * ${columns} + ${c} = `
        + `${program.offsets[lane]}; row < ${rows} is ${r < rows}, column < ${columns} is ${c < columns}`;
    const then = program.mask[lane] ? "it is loaded and stored" : "it is masked off";
    return `Program ${this.name(program)}, lane ${lane}: ${how}: ${then}.`;
  }

  choose(cell) {
    if (!cell) return;
    this.form.program.value = cell.at.index;
    this.update(cell.at);
    cell.focus();
  }

  key(event) {
    const { at } = event.target;
    if (!at || event.ctrlKey || event.metaKey || event.altKey) return;
    const [dr, dc] = this.flat ? [0, this.sizes.block] : [1, 0]; // in a vector: to another program
    const move = (r, c) => this.cells.get(`${at.r + r},${at.c + c}`);
    const all = [...this.cells.values()];
    const keys = {
      ArrowLeft: move(0, -1), ArrowRight: move(0, 1), ArrowUp: move(-dr, -dc), ArrowDown: move(dr, dc),
      Home: all[0], End: all.at(-1), Enter: event.target, " ": event.target,
    };
    if (!(event.key in keys)) return;
    event.preventDefault();
    this.choose(keys[event.key]);
  }
}

define("launch-explorer", LaunchExplorer);
