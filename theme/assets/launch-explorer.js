// SPDX-License-Identifier: Apache-2.0
// <launch-explorer>: which program touches which element. Around a static picture, which stays without JavaScript.

import { list, plural, readAddress, writeAddress } from "./explorer.js";

const range = (length, first = 0) => Array.from({ length }, (_, i) => first + i);
const cdiv = (a, b) => Math.ceil(a / b);

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

// ---- <launch-explorer id n block dimensions rows columns block-rows block-columns switch> ----

const FIELDS = {
  n: ["n", 10, 64],
  block: ["BLOCK_SIZE", 4, 32],
  rows: ["rows", 6, 12],
  columns: ["columns", 10, 12],
  blockRows: ["BLOCK_ROWS", 4, 8],
  blockColumns: ["BLOCK_COLUMNS", 4, 8],
}; // label, value unless given, largest
const NAMES = Object.keys(FIELDS);
const isPower = (name) => name.startsWith("block");

/** The nearest value that a field takes. A power of two moves away from `old`: a step of one leads to the next. */
function fit(name, value, old) {
  value = Math.min(Math.max(Math.round(value) || old, 1), FIELDS[name][2]);
  return isPower(name) ? 2 ** (value > old ? Math.ceil : Math.floor)(Math.log2(value)) : value;
}

function field(name) {
  const [label, , high] = FIELDS[name];
  const ends = isPower(name) ? `min="0" max="${Math.log2(high)}"` : `min="1" max="${high}"`;
  return `<div class="explorer__field"><code aria-hidden="true">${label}</code>
    <input type="range" name="${name}" aria-label="${label}" ${ends}>
    <input type="number" name="${name}" aria-label="${label}, as a number" min="1" max="${high}"></div>`;
}

class LaunchExplorer extends HTMLElement {
  connectedCallback() {
    if (!this.body) this.build();
    this.render();
  }

  disconnectedCallback() {
    this.stop();
  }

  build() {
    this.parameter = this.id || "launch";
    const given = readAddress(this.parameter);
    this.first = { dimensions: this.getAttribute("dimensions") === "2" ? 2 : 1, program: 0 };
    this.state = { ...this.first, program: Math.max(0, Math.floor(given.program)) || 0 };
    for (const name of NAMES) {
      this.first[name] = fit(name, this.getAttribute(name.replace(/[A-Z]/, "-$&")), FIELDS[name][1]);
      this.state[name] = fit(name, given[name], this.first[name]);
    }
    const switchable = this.hasAttribute("switch");
    if (switchable && /^[12]$/.test(given.dimensions)) this.state.dimensions = Number(given.dimensions);

    this.querySelector(":scope > .explorer")?.remove(); // in a copy of an element that was already built
    for (const child of this.children) child.setAttribute("hidden", ""); // an <svg> has no property of that name
    const radio = (d) =>
      `<label><input type="radio" value="${d}" name="${this.parameter}-dimensions"><span>${d}-D</span></label>`;
    const radios = `<fieldset class="explorer__switch"><legend>Dimensions</legend>${radio(1)}${radio(2)}</fieldset>`;
    this.body = document.createElement("div");
    this.body.className = "explorer";
    this.body.innerHTML = `
      ${switchable ? radios : ""}
      <div class="explorer__fields">${NAMES.map(field).join("")}</div>
      <div class="explorer__lanes" role="listbox" aria-label="Lanes, by program"></div>
      <div class="explorer__steps">
        <button type="button">Previous program</button>
        <button type="button">Next program</button>
        <button type="button">Play</button>
      </div>
      <p class="explorer__summary" aria-live="polite"></p>
      <p class="explorer__detail" aria-live="polite"></p>`;
    const find = (name) => this.body.querySelector(`.explorer__${name}`);
    [this.back, this.next, this.play] = find("steps").children;
    [this.lanes, this.summary, this.detail] = ["lanes", "summary", "detail"].map(find);
    this.back.onclick = () => this.step(-1);
    this.next.onclick = () => this.step(1);
    this.play.onclick = () => (this.timer ? this.stop() : this.start());
    this.lanes.onclick = (event) => this.choose(event.target.closest(".lane"));
    this.lanes.onkeydown = (event) => this.key(event);
    this.body.oninput = ({ target: { type, name, value } }) => {
      if (type === "range") this.set({ [name]: isPower(name) ? 2 ** value : Number(value) });
    };
    this.body.onchange = ({ target: { type, name, value } }) => {
      if (type === "number") this.set({ [name]: fit(name, value, this.state[name]) });
      if (type === "radio") this.set({ dimensions: Number(value) });
    };
    this.append(this.body);
  }

  set(change) {
    this.stop();
    this.chosen = null;
    Object.assign(this.state, change);
    this.render();
    this.remember();
  }

  /** Look at a program and, where `chosen` says which, at one of its lanes. */
  show(program, chosen = null) {
    this.chosen = chosen;
    this.state.program = program;
    this.point();
    this.remember();
  }

  remember() {
    writeAddress(this.parameter, this.state, this.first);
  }

  /** Draw everything anew. */
  render() {
    const { state } = this;
    const flat = state.dimensions === 1;
    this.programs = flat ? launch(state) : launch2d(state);
    state.program = Math.min(state.program, this.programs.length - 1);

    for (const input of this.body.querySelectorAll("input")) {
      const { type, name, value } = input;
      if (type === "radio") {
        input.checked = Number(value) === state.dimensions;
        continue;
      }
      input.parentNode.hidden = NAMES.indexOf(name) < 2 !== flat;
      input.value = type === "range" && isPower(name) ? Math.log2(state[name]) : state[name];
      if (type === "range") input.setAttribute("aria-valuetext", state[name]);
    }
    this.play.hidden = matchMedia("(prefers-reduced-motion: reduce)").matches;
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
    const across = cdiv(state.columns, state.blockColumns) * state.blockColumns;
    const size = (name, value) => this.lanes.style.setProperty(`--${name}`, value);
    size("columns", flat ? Math.min(state.block, 8) : state.blockColumns);
    size("down", cdiv(state.rows, state.blockRows));
    size("total", flat ? 8 : across);
    this.point();
  }

  /** Show which program is looked at and which lane is chosen. */
  point() {
    const { program } = this.state;
    const { index, lane } = this.chosen ?? { index: program, lane: 0 };
    [...this.lanes.children].forEach((group, i) => group.classList.toggle("program--current", i === program));
    for (const cell of this.cells.values()) {
      const here = cell.at.index === index && cell.at.lane === lane;
      cell.tabIndex = here ? 0 : -1;
      cell.setAttribute("aria-selected", here && !!this.chosen);
    }
    this.back.disabled = program === 0;
    this.next.disabled = program === this.programs.length - 1;
    this.summary.textContent = this.sentence();
    this.detail.textContent = this.chosen ? this.formula(this.chosen) : "Choose a square to see its offset worked out.";
  }

  name({ pid }) {
    return this.state.dimensions === 1 ? pid[0] : `(${pid[0]}, ${pid[1]})`;
  }

  sentence() {
    const { n, block, rows, columns, program, dimensions, blockRows, blockColumns } = this.state;
    const { places, offsets, mask } = this.programs[program];
    const off = range(mask.length).filter((lane) => !mask[lane]);
    const [lane, offset] = ["lane", "offset"].map((word) => plural(off.length, word));
    const which = off.length > 4 ? `${off.length} of ${mask.length} lanes`
      : `${lane} ${list(off)} (${offset} ${list(off.map((o) => offsets[o]))})`;
    const masked = off.length ? `${which} ${off.length === 1 ? "is" : "are"} masked off.` : "no lane is masked off.";
    const count = `${this.programs.length} ${plural(this.programs.length, "program")}`;
    const own = block > 8 ? `${offsets[0]} to ${offsets.at(-1)}` : offsets.join(" ");
    return dimensions === 1
      ? `n = ${n}, block ${block}: cdiv(${n}, ${block}) = ${count}; `
        + `program ${program} has ${plural(block, "offset")} ${own}; ${masked}`
      : `${rows} × ${columns}, block ${blockRows} × ${blockColumns}: `
        + `cdiv(${rows}, ${blockRows}) * cdiv(${columns}, ${blockColumns}) = ${count}; program `
        + `${this.name(this.programs[program])} starts at row ${places[0][0]}, column ${places[0][1]}; ${masked}`;
  }

  formula({ index, lane, r, c }) {
    const { n, block, rows, columns, dimensions, blockRows, blockColumns } = this.state;
    const program = this.programs[index];
    const sum = (axis, size, at) => `${program.pid[axis]} * ${size} + ${at % size} = ${at}`;
    const how = dimensions === 1
      ? `pid * BLOCK_SIZE + lane = ${sum(0, block, c)}; offset < n is ${c} < ${n}, ${c < n}`
      : `row = ${sum(0, blockRows, r)}, column = ${sum(1, blockColumns, c)}, offset = ${r} * ${columns} + ${c} = `
        + `${program.offsets[lane]}; row < ${rows} is ${r < rows}, column < ${columns} is ${c < columns}`;
    const then = program.mask[lane] ? "it is loaded and stored" : "it is masked off";
    return `Program ${this.name(program)}, lane ${lane}: ${how}: ${then}.`;
  }

  choose(cell) {
    if (!cell) return;
    this.stop();
    this.show(cell.at.index, cell.at);
    cell.focus();
  }

  step(by) {
    this.stop();
    this.show(this.state.program + by);
  }

  key(event) {
    const { at } = event.target;
    if (!at || event.ctrlKey || event.metaKey || event.altKey) return;
    const [dr, dc] = this.state.dimensions === 1 ? [0, this.state.block] : [1, 0]; // in a vector: to another program
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

  start() {
    const last = this.programs.length - 1;
    if (this.state.program === last) this.show(0);
    this.summary.setAttribute("aria-live", "off"); // a screen reader would fall behind
    this.play.textContent = "Stop";
    this.timer = setInterval(() => {
      this.show(this.state.program + 1);
      if (this.state.program === last) this.stop();
    }, 700);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.summary.setAttribute("aria-live", "polite");
    this.play.textContent = "Play";
  }
}

// ---- Definitions ----

if (!customElements.get("launch-explorer")) customElements.define("launch-explorer", LaunchExplorer);
