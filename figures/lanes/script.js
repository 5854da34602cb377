// SPDX-License-Identifier: Apache-2.0
// <lane-rows>: all that it can show is on the page; it shows what was chosen, or what there is at a step.

import { FormExplorer, define } from "../explorer.js";

class LaneRows extends FormExplorer {
  get steps() {
    return [...this.querySelectorAll("template")];
  }

  get timing() {
    return { text: (step) => this.steps[step - 1].dataset.step, watch: this };
  }

  render({ reduction, other, step }) {
    const said = this.querySelector("output");
    if (step) {
      for (const part of this.querySelectorAll("[data-at]")) part.classList.toggle("lanes--later", part.dataset.at > step);
      said.textContent = this.querySelector("[role=img]").ariaLabel = this.steps[step - 1].innerHTML;
      return;
    }
    for (const picture of this.querySelectorAll("[data-for]")) {
      const shown = picture.dataset.for === `${reduction} ${other}`;
      picture.classList.toggle("lanes--away", !shown);
      if (shown) said.textContent = picture.ariaLabel;
    }
  }
}

define("lane-rows", LaneRows);
