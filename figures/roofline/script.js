// SPDX-License-Identifier: Apache-2.0
// <roofline-explorer>: a kernel under its ceiling, and what the ceilings say of one with more arithmetic.
// What was measured stands on the page (figures/roofline/).

import { FormExplorer, define } from "../explorer.js";

const short = (value) => value.toLocaleString("en", { maximumSignificantDigits: 3 });

class RooflineExplorer extends FormExplorer {
  connectedCallback() {
    super.connectedCallback();
    this.onclick = ({ target }) => {
      const point = target.closest("[data-kernel]");
      if (point) this.querySelector(`[value="${point.dataset.kernel}"]`).click();
    };
  }

  render({ kernel, doublings }) {
    const { about, gflop, gbyte, rate, unit, peak } = this.form.querySelector(`[value="${kernel}"]`).dataset;
    const [left, right, low, high] = `${this.dataset.x} ${this.dataset.y}`.split(" ");
    const { slope } = this.dataset;
    const range = this.form.doublings;
    range.max = Math.floor((right - Math.log10(gflop / gbyte)) * Math.log2(10));
    const times = 2 ** Math.min(doublings, range.max);
    range.setAttribute("aria-valuetext", `${times} times`);

    const intensity = (times * gflop) / gbyte;
    const roof = Math.min(intensity * slope, peak);
    const x = (value) => `${(100 * (Math.log10(value) - left)) / (right - left)}%`;
    const y = (value) => `${(100 * (high - Math.log10(value))) / (high - low)}%`;
    const marks = this.querySelector(".roofline__marks");
    const [ring, computed, line] = marks.children;
    marks.removeAttribute("display");
    const put = (mark, values) => Object.entries(values).forEach(([name, value]) => mark.setAttribute(name, value));
    put(ring, { cx: x(gflop / gbyte), cy: y(rate) });
    put(computed, { cx: x(intensity), cy: y(roof) });
    put(line, { x1: x(gflop / gbyte), y1: y(rate), x2: x(intensity), y2: y(roof) });

    const [measured, said] = this.form.querySelectorAll("output");
    measured.textContent = about;
    said.textContent = `Computed, not measured: ${times > 1 ? `${times} times ` : ""}this arithmetic on the same bytes `
      + `is ${short(intensity)} FLOP per byte. At the ceiling of ${intensity * slope < peak ? "memory" : unit}, `
      + `${short(roof)} TFLOP/s, that takes ${short((1000 * times * gflop) / roof)} µs.`;
  }
}

define("roofline-explorer", RooflineExplorer);
