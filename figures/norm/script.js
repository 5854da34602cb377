// SPDX-License-Identifier: Apache-2.0
// <norm-row>: a row that can be dragged, divided by its size; computed here, by the formulas of `__init__.py`.

import { FormExplorer, define } from "../explorer.js";

const EPS = 1e-12;
const signed = (number) => `${number < 0 ? "−" : "+"}${Math.abs(number).toFixed(3)}`;

/** The size of a row, the row divided by it, and the gradient of the last quotient. */
export function norm(x) {
  const rms = Math.sqrt(x.reduce((sum, each) => sum + each * each, 0) / x.length + EPS);
  const hat = x.map((each) => each / rms);
  const mean = hat.at(-1) / x.length;
  return { rms, hat, slope: hat.map((each, i) => ((i === x.length - 1) - each * mean) / rms) };
}

class NormRow extends FormExplorer {
  get timing() {
    return { text: (scale) => `row × ${scale.toFixed(1)}`, watch: this };
  }

  render({ scale, ...row }) {
    const { top, longest, steepest } = this.dataset;
    const x = Object.keys(row).sort().map((name) => row[name] * scale);
    const { rms, hat, slope } = norm(x);
    this.show("x", x, top, (each) => each.toFixed(1));
    this.show("hat", hat, longest, (each) => each.toFixed(2));
    this.show("slope", slope, steepest, signed);
    const bars = this.querySelector(".norm__row--x").style;
    bars.setProperty("--rms", rms / top);
    bars.setProperty("--scale", scale / Number(this.form.elements.scale.max));
    this.querySelector("[data-of=rms]").textContent = rms.toFixed(2);
    this.querySelector("output").textContent = `rms ${rms.toFixed(2)}, the row divided by it: ${
      hat.map((each) => each.toFixed(2)).join(", ")}; gradient of the last: ${slope.map(signed).join(", ")}.`;
  }

  show(kind, values, most, text) {
    this.querySelectorAll(`.norm__row--${kind} > div`).forEach((each, i) => {
      const bar = each.querySelector("i");
      bar.style.setProperty("--share", Math.min(1, Math.abs(values[i]) / most));
      bar.classList.toggle("norm--down", values[i] < 0);
      each.querySelector("b").textContent = text(values[i]);
    });
  }
}

define("norm-row", NormRow);
