// SPDX-License-Identifier: Apache-2.0
// <roofline-explorer>: kernels under a roof, to drag, and what the roof says of them.
// What was measured stands on the page (figures/roofline/).

import { FormExplorer, define } from "../explorer.js";

// ---- What a roof says ----

const PREFIXES = "kMGTP";
const digits = (value) => Math.min(Math.max(2 - Math.floor(Math.log10(value)), 0), 20); // so that three count
const short = (value) => value.toLocaleString("en", { maximumFractionDigits: digits(value) });

/** A number as people write it, such as 1e9, 1,000 or 137 G; NaN for anything else, and for what is not above zero. */
export function read(text) {
  const [, number, prefix] = /^\s*([\d.,]*\d(?:e[+-]?\d+)?)\s*([kMGTP]?)\s*$/i.exec(text) ?? [];
  const power = prefix ? PREFIXES.toLowerCase().indexOf(prefix.toLowerCase()) + 1 : 0;
  const value = Number(number?.replaceAll(",", "")) * 1000 ** power;
  return value > 0 && value < Infinity ? value : NaN;
}

/** The same the other way around: three digits that count, and a prefix. */
export function written(value) {
  const power = Math.min(Math.max(Math.floor(Math.log10(value) / 3), 0), PREFIXES.length);
  return `${short(value / 1000 ** power)} ${power ? PREFIXES[power - 1] : ""}`;
}

/** Of FLOP and bytes, in µs if they are known, under a memory of `copy` GB/s and units of `peak` TFLOP/s: operations
    for each byte, how many TFLOP/s the roof allows there, the least µs, and which share of the roof is reached. */
export function limits({ flop, bytes, us }, { copy, peak }) {
  const intensity = flop / bytes;
  const slope = (intensity * copy) / 1000;
  const roof = Math.min(slope, peak);
  const least = flop / roof / 1e6;
  const takes = us || least;
  return { intensity, roof, least, us: takes, rate: flop / takes / 1e6, share: least / takes, byMemory: slope < peak };
}

// ---- The element ----

const within = (value, least, most) => Math.min(Math.max(value, least), most);

class RooflineExplorer extends FormExplorer {
  connectedCallback() {
    this.svg = this.querySelector("svg.roofline");
    this.handle = this.querySelector(".roofline__handle");
    const [left, right, low, high] = `${this.dataset.x} ${this.dataset.y}`.split(" ").map(Number);
    this.axes = { left, right, low, high };
    this.key = [...this.querySelectorAll(".roofline__key li")];
    for (const row of this.key) row.onclick = () => this.choose(row);
    super.connectedCallback();
    this.querySelector(".roofline__plot").onpointerdown = (event) => this.take(event);
    this.handle.onkeydown = (event) => this.step(event);
    const { kernel, ...typed } = this.state;
    const { kernel: _, ...first } = this.first;
    if (JSON.stringify(typed) !== JSON.stringify(first)) this.querySelector(".roofline__more").open = true;
    this.form.onchange = ({ target }) => {
      if (target.value.startsWith("own")) this.querySelector(".roofline__more").open = true; // to be typed there
      if (target === this.form.kernel) this.set({ flop: "", bytes: "", us: "" });
      if (target === this.form.gpu) this.set({ gbs: "", tflops: "" });
    };
  }

  render(state) {
    const kernel = this.form.kernel.selectedOptions[0].dataset;
    const gpu = this.form.gpu.selectedOptions[0].dataset;
    const typed = ({ name }) => read(String(state[name] ?? ""));
    const { flop, bytes, us, gbs, tflops } = this.form;
    const roof = { copy: typed(gbs) || Number(gpu.copy), peak: typed(tflops) || Number(gpu[kernel.unit]) };
    const work = { flop: typed(flop) || Number(kernel.flop), bytes: typed(bytes) || Number(kernel.bytes) };
    // A time was measured of the kernel as it is, on the GPU that it ran on; else it is as short as the roof allows.
    const asRun = kernel.us && state.gpu === "measured" && !(typed(flop) || typed(bytes) || typed(us));
    const now = (this.now = { ...work, ...roof, ...limits({ ...work, us: asRun ? Number(kernel.us) : typed(us) }, roof) });

    for (const [input, value] of [[flop, now.flop], [bytes, now.bytes], [us, now.us], [gbs, now.copy], [tflops, now.peak]]) {
      input.placeholder = input === flop || input === bytes ? written(value).trim() : short(value);
      input.ariaInvalid = String(input.value !== "" && !typed(input));
    }
    for (const input of [gbs, tflops]) input.parentNode.hidden = state.gpu !== "own";
    for (const row of this.key) row.toggleAttribute("data-chosen", Number(row.dataset.kernel) === state.kernel);
    this.draw(kernel, state.gpu === "measured" ? null : `dashed, not run: ${short(now.peak)} TFLOP/s`);
    this.say(kernel, gpu, asRun);
  }

  draw(kernel, other) {
    const { left, right, low, high } = this.axes;
    const x = (value) => `${within((100 * (Math.log10(value) - left)) / (right - left), 0, 100)}%`;
    const y = (value) => `${within((100 * (high - Math.log10(value))) / (high - low), 0, 100)}%`;
    const put = (shape, values) => Object.entries(values).forEach(([name, value]) => shape.setAttribute(name, value));
    const { intensity, rate, copy, peak } = this.now;
    const marks = this.querySelector(".roofline__marks");
    const [ring, line, roof] = marks.children;
    marks.removeAttribute("display");
    this.handle.style.left = x(intensity);
    this.handle.style.top = y(rate);
    const measured = kernel.us && { cx: x(kernel.flop / kernel.bytes), cy: y(kernel.flop / kernel.us / 1e6) };
    const moved = measured && (intensity !== kernel.flop / kernel.bytes || rate !== kernel.flop / kernel.us / 1e6);
    this.handle.classList.toggle("roofline__handle--moved", Boolean(moved || !measured));
    for (const shape of [ring, line]) shape.setAttribute("display", moved ? "inline" : "none");
    if (measured) {
      put(ring, measured);
      put(line, { x1: measured.cx, y1: measured.cy, x2: x(intensity), y2: y(rate) });
    }
    roof.setAttribute("display", other ? "inline" : "none");
    const [slope, flat, label] = roof.children;
    const ridge = (1000 * peak) / copy;
    const from = Math.max(10 ** left, (1000 * 10 ** low) / copy);
    put(slope, { x1: x(from), y1: y((from * copy) / 1000), x2: x(ridge), y2: y(peak) });
    put(flat, { x1: x(ridge), x2: "100%", y1: y(peak), y2: y(peak) });
    label.textContent = other;
  }

  say(kernel, gpu, asRun) {
    const { flop, bytes, intensity, roof, rate, least, us, share, byMemory } = this.now;
    const handle = this.handle;
    handle.ariaValueMin = 10 ** this.axes.left;
    handle.ariaValueMax = 10 ** this.axes.right;
    handle.ariaValueNow = intensity;
    handle.ariaValueText = `${short(intensity)} FLOP per byte, ${short(rate)} TFLOP/s`;
    const [summary, detail] = this.form.querySelectorAll("output");
    summary.textContent = kernel.about;
    if (asRun) {
      detail.textContent = `At the roof it would take ${short(least)} µs. Drag its dot, or type other numbers below.`;
      return;
    }
    const limit = byMemory ? "memory" : `${kernel.unit} arithmetic`;
    detail.textContent = `Computed, not measured: ${written(flop)}FLOP on ${written(bytes)}B are ${short(intensity)} FLOP `
      + `per byte. There, ${limit} ${gpu.of} allows ${short(roof)} TFLOP/s: at least ${short(least)} µs.`;
    if (share < 0.995) detail.textContent += ` In ${short(us)} µs it reaches ${short(100 * share)}% of that.`;
    if (share > 1.005) {
      detail.textContent += ` In ${short(us)} µs it would be above the roof: is a number wrong, or the data still in a cache?`;
    }
  }

  set(values) {
    for (const [name, value] of Object.entries(values)) this.form[name].value = value;
    this.update();
  }

  /** Take the dot that somebody points at, and drag it. */
  take(event) {
    const point = event.target.closest("[data-kernel]");
    if (event.button || !(point || event.target === this.handle)) return;
    if (point) this.choose(point.matches("i") ? this.nearest(event) : point); // or its number
    event.preventDefault(); // else it would mark text
    this.handle.setPointerCapture(event.pointerId);
    const { clientX, clientY } = event;
    let moved = false;
    this.handle.onpointermove = (to) => {
      moved ||= Math.hypot(to.clientX - clientX, to.clientY - clientY) > 3; // or it is a click
      if (moved) this.drag(to);
    };
    this.handle.onlostpointercapture = () => {
      this.handle.onpointermove = null;
    };
  }

  choose({ dataset }) {
    this.form.kernel.value = dataset.kernel;
    this.set({ flop: "", bytes: "", us: "" });
  }

  /** The dot that is nearest to where somebody pointed; what can be taken of two that are close together overlaps. */
  nearest({ clientX, clientY }) {
    const away = (point) => {
      const { x, y, width, height } = point.getBoundingClientRect();
      return Math.hypot(x + width / 2 - clientX, y + height / 2 - clientY);
    };
    return [...this.querySelectorAll(".roofline__dot")].reduce((a, b) => (away(b) < away(a) ? b : a));
  }

  /** Move the chosen dot under a pointer, or under the roof above that. More to the right is more arithmetic on the same
      bytes, higher is faster. */
  drag({ clientX, clientY }) {
    const { x, y, width, height } = this.svg.getBoundingClientRect();
    const { left, right, low, high } = this.axes;
    const { bytes, copy, peak } = this.now;
    const intensity = 10 ** (left + within((clientX - x) / width, 0, 1) * (right - left));
    const rate = 10 ** (high - within((clientY - y) / height, 0, 1) * (high - low));
    this.move(intensity * bytes, (intensity * bytes) / rate / 1e6, { copy, peak });
  }

  /** Arrow keys: twice or half the arithmetic in the same time, if the roof allows it; or faster, or slower. Page up and
      down: ten times or a tenth of the arithmetic; home and end: the least and the most that the picture has. */
  step(event) {
    const { flop, bytes, us } = this.now;
    const to = {
      ArrowRight: [2 * flop], ArrowLeft: [flop / 2], ArrowUp: [flop, 0.8], ArrowDown: [flop, 1.25],
      PageUp: [10 * flop], PageDown: [flop / 10],
      Home: [10 ** this.axes.left * bytes], End: [10 ** this.axes.right * bytes],
    }[event.key];
    if (!to) return;
    event.preventDefault(); // the page stays where it is
    const [work, slower = 1] = to;
    this.move(work, us * slower, this.now);
  }

  move(flop, us, roof) {
    const { least } = limits({ flop, bytes: this.now.bytes }, roof);
    this.set({ flop: written(flop).trim(), us: us > least * 1.005 ? Number(us.toPrecision(3)) : "" });
  }
}

define("roofline-explorer", RooflineExplorer);
