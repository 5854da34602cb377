// SPDX-License-Identifier: Apache-2.0
// <there-and-back>: how far an element has come, and its numbers, all of which are on the page.

import { FormExplorer, define } from "../explorer.js";

class ThereAndBack extends FormExplorer {
  get timing() {
    return { text: (step) => `step ${step + 1} of ${this.said.length}`, watch: this };
  }

  get said() {
    return [...this.querySelectorAll("template[data-said]")].map((each) => each.dataset.said);
  }

  render({ step, element }) {
    for (const part of this.querySelectorAll("[data-from]")) {
      part.classList.toggle("there--later", step < part.dataset.from);
    }
    const values = this.querySelectorAll("template[data-x]")[element].dataset;
    for (const number of this.querySelectorAll("[data-of]")) number.textContent = values[number.dataset.of];
    this.querySelector(".explorer__now").textContent = this.said[step];
    const { x, y, out, grad_x, grad_y } = values;
    this.querySelector("output").textContent =
      `${this.said[step]} x ${x}, y ${y}, out ${out}, grad_x ${grad_x}, grad_y ${grad_y}.`;
  }
}

define("there-and-back", ThereAndBack);
