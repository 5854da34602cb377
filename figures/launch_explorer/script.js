// SPDX-License-Identifier: Apache-2.0
// <launch-explorer>: which program touches which element, and what each line of the kernel is for one lane.
// Its form, with the kernel's lines, stands on the page (figures/launch_explorer/).

import { FormExplorer, cdiv, count, define, list } from "../explorer.js";

const ROW = 16; // squares, so that the picture keeps its height; where there is less room they stand in two rows of 8
const range = (length, first = 0) => Array.from({ length }, (_, i) => first + i);
const clamp = (value, most) => Math.min(Math.max(Math.round(value) || 0, 0), most);

/** The programs of `offsets = pid * BLOCK_SIZE + arange(0, BLOCK_SIZE); mask = offsets < n`. */
export function launch({ n, block }) {
  return range(cdiv(n, block)).map((pid) => {
    const offsets = range(block, pid * block);
    return { pid, offsets, mask: offsets.map((offset) => offset < n) };
  });
}

/** What all squares show, by what the chosen line does. */
const SHOWN = {
  pid: () => "Squares show pid.",
  offsets: () => "Squares show offsets.",
  mask: () => "Squares show the mask, true or false.",
  load: (tensor) => `Outlined: loaded from ${tensor}.`,
  store: (tensor) => `Filled: stored to ${tensor}.`,
};

class LaunchExplorer extends FormExplorer {
  connectedCallback() {
    this.strip = this.querySelector(".launch__strip");
    this.end = this.querySelector(".launch__end");
    this.switch = this.querySelector("button");
    this.lines = [...this.querySelectorAll("[name=line]")];
    [this.summary, this.detail] = this.querySelectorAll("output");
    this.lengths = [...this.querySelectorAll("button.launch__length")];
    for (const button of this.lengths) {
      button.disabled = false; // of no use without a script
      button.onclick = () => {
        this.form.n.value = button.dataset.n;
        this.form.block.value = button.dataset.block;
        this.update();
      };
    }
    super.connectedCallback();
    this.switch.onclick = () => {
      this.form.mask.value = this.bare ? "on" : "off";
      this.update();
    };
    this.strip.onclick = ({ target }) => this.choose(target.closest(".lane"));
    this.strip.onkeydown = (event) => this.key(event);
    this.strip.onpointerdown = (event) => this.take(event);
    this.strip.onpointerover = ({ target, pointerType }) => {
      const lane = target.closest(".lane");
      if (lane && pointerType !== "touch" && !this.dragged) this.point(this.lanes.indexOf(lane), "off");
    };
    this.strip.onpointerleave = () => this.point(this.state.element);
  }

  /** Show what the form says, corrected. Whoever sends lanes out of bounds sees the first of them. */
  render({ n, block, mask, element }) {
    const [before, bare] = [this.sizes, mask === "off"];
    const changed = before && (n !== before.n || block !== before.block || bare !== this.bare);
    if (n !== before?.n || block !== before.block) this.draw({ n, block });
    this.bare = bare;
    this.form.mask.value = bare ? "off" : "on";
    this.form.element.value = clamp(changed && bare && n < this.lanes.length ? n : element, this.lanes.length - 1);
    this.classList.toggle("launch--bare", this.bare);
    this.switch.textContent = this.bare ? "Restore the mask" : "Remove the mask";
    for (const button of this.lengths) {
      button.ariaPressed = Number(button.dataset.n) === n && Number(button.dataset.block) === block;
    }
    this.highlight();
    this.point(this.state.element);
  }

  /** Draw all squares anew: the lanes of each program, and what follows in memory until the row is full. */
  draw({ n, block }) {
    this.sizes = { n, block };
    this.programs = launch(this.sizes);
    const lanes = this.programs.length * block;
    const after = range(ROW - lanes, lanes);
    this.strip.innerHTML = this.programs.map(({ pid, offsets }) =>
      `<div role="group" class="pid-${pid % 8}" aria-label="program ${pid}">
        ${offsets.map((offset) => `<span role="option" data-pid="${pid}"><var>${offset}</var></span>`).join("")}
      </div>`).join("") + after.map((offset) => `<span aria-hidden="true"><var>${offset}</var></span>`).join("");
    this.strip.classList.toggle("launch__strip--ones", block === 1);
    this.squares = [...this.strip.querySelectorAll("span")];
    this.lanes = this.squares.slice(0, lanes);
    this.squares[n].append(this.end);
    this.end.dataset.n = n;
  }

  /** What becomes of an element: on, masked off, or out of bounds. */
  fate(offset) {
    return offset < this.sizes.n ? "on" : this.bare ? "out" : "off";
  }

  /** Show in each square what the chosen line is for its lane. */
  highlight() {
    const { n, block } = this.sizes;
    const { kind } = this.line.dataset;
    this.lanes.forEach((lane, offset) => {
      const [pid, fate] = [Math.floor(offset / block), this.fate(offset)];
      const here = offset === this.state.element;
      lane.className = `lane lane--${fate} lane--${kind}`;
      lane.firstChild.textContent = { pid, mask: offset < n ? "T" : "F" }[kind] ?? offset;
      const suffix = { on: "", off: ", masked off", out: ", out of bounds" }[fate];
      lane.ariaLabel = `element ${offset}${suffix}: program ${pid}, lane ${offset % block}`;
      lane.ariaSelected = here;
      lane.tabIndex = here ? 0 : -1;
    });
    const idle = this.lanes.length - n;
    this.summary.textContent = `${count(this.programs.length, "program")}, `
      + (this.bare ? `${idle || "none"} out of bounds` : `${idle ? count(idle, "lane") : "no lane"} off`);
  }

  get line() {
    return this.lines.find(({ checked }) => checked);
  }

  /** Show one lane, and what each line is for it. */
  point(offset, live = "polite") {
    const { n, block } = this.sizes;
    const [pid, lane, fate] = [Math.floor(offset / block), offset % block, this.fate(offset)];
    this.squares.forEach((square, i) => {
      square.classList.toggle("lane--here", i === offset);
      square.classList.toggle("lane--current", i === pid * block);
    });
    for (const line of this.lines) {
      const { kind, tensor, shown } = line.dataset;
      const values = { pid, block, lane, offset, n, tensor };
      const value = shown.replace(/{(\w+)}/g, (_, name) => values[name]);
      const result = { offsets: ` = ${offset}`, mask: ` is ${offset < n ? "True" : "False"}` }[kind] ?? "";
      const touches = kind === "load" || kind === "store";
      const output = line.parentElement.lastElementChild;
      const removed = kind === "mask" && this.bare;
      output.textContent = removed ? "" : touches && fate === "off" ? "off" : value + result;
      output.className = touches ? `launch__${fate}` : "";
    }
    const { kind, tensor } = this.line.dataset;
    this.detail.ariaLive = live; // a screen reader would fall behind a pointer
    this.detail.textContent = `${SHOWN[kind](tensor)} Program ${pid}, lane ${lane} ${this.does(offset, fate)}.`;
  }

  does(offset, fate) {
    if (fate === "off") return "is masked off: it touches nothing";
    const touched = (which) => list(this.lines.filter(({ dataset: { kind } }) => kind === which)
      .map(({ dataset: { tensor } }) => `${tensor}[${offset}]`));
    const parts = [["loads", touched("load")], ["stores", touched("store")]].filter(([, what]) => what);
    const done = parts.map((part) => part.join(" ")).join(", ");
    return fate === "out" ? `${done}: out of bounds` : done;
  }

  choose(lane) {
    if (!lane) return;
    this.form.element.value = this.lanes.indexOf(lane);
    this.update();
    lane.focus();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const [at, { block }] = [this.state.element, this.sizes];
    const keys = {
      ArrowLeft: at - 1, ArrowRight: at + 1, ArrowUp: at - block, ArrowDown: at + block, // to another program
      Home: 0, End: this.lanes.length - 1,
    };
    if (!(event.key in keys)) return;
    event.preventDefault();
    this.choose(this.lanes[keys[event.key]]);
  }

  /** Take hold of the end of the tensors. */
  take(event) {
    if (event.target !== this.end) return;
    event.preventDefault();
    this.strip.setPointerCapture(event.pointerId); // for its square will be drawn anew
    this.dragged = true;
    this.strip.onpointermove = (event) => this.drag(event);
    this.strip.onlostpointercapture = () => {
      this.dragged = false;
      this.strip.onpointermove = null;
    };
  }

  /** Put the end where it is nearest to a pointer: at the left of a square, or at the right of a row's last. */
  drag({ clientX, clientY }) {
    const ends = this.squares.flatMap((square, i) => {
      const { left, right, top, bottom } = square.getBoundingClientRect();
      const row = Math.max(top - clientY, clientY - bottom, 0) * 100;
      return [[i, row + Math.abs(clientX - left)], [i + 1, row + Math.abs(clientX - right)]];
    });
    const [n] = ends.reduce((a, b) => (b[1] < a[1] ? b : a));
    this.form.n.value = n; // which corrects it
    if (this.state.n !== this.sizes.n) this.update();
  }
}

define("launch-explorer", LaunchExplorer);
