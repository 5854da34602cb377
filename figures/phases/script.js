// SPDX-License-Identifier: Apache-2.0
// <phases-explorer>: all of its pictures and sentences stand on the page (figures/phases/); this shows one of them.

import { FormExplorer, define } from "../explorer.js";

class PhasesExplorer extends FormExplorer {
  get timing() {
    return { text: (tick) => `tick ${tick}`, watch: this.querySelector(".phases") };
  }

  render({ case: shown, tick }) {
    for (const picture of this.querySelectorAll("[data-case]")) {
      picture.hidden = picture.dataset.case !== `${shown}`;
      picture.querySelector("ol").hidden = true; // its sentences are said one at a time
      if (!picture.hidden) this.form.querySelector("output").textContent = picture.querySelectorAll("li")[tick].textContent;
    }
    const { max } = this.form.tick;
    this.querySelector(".phases").style.setProperty("--at", tick / max);
  }
}

define("phases-explorer", PhasesExplorer);
