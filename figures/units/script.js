// SPDX-License-Identifier: Apache-2.0
// <units-explorer>: all of its parts and sentences stand on the page (figures/units/); this shows one moment of them.

import { FormExplorer, define } from "../explorer.js";

class UnitsExplorer extends FormExplorer {
  get timing() {
    const names = [...this.querySelectorAll("option")].map((option) => option.value);
    return { text: (moment) => names[moment], watch: this.querySelector(".units") };
  }

  render({ moment, specialize }) {
    for (const panel of this.querySelectorAll("[data-case]")) {
      const special = panel.dataset.case.endsWith("warp_specialize");
      panel.hidden = panel.dataset.case !== "H200" && special !== (specialize === "yes");
      const sentences = [...panel.querySelectorAll("li")];
      sentences.forEach((sentence, i) => (sentence.hidden = i !== moment));
      const { works, waits } = sentences[moment].dataset;
      for (const part of panel.querySelectorAll("[data-part]")) {
        part.classList.toggle("units--on", works.split(" ").includes(part.dataset.part));
        part.classList.toggle("units--waits", waits.split(" ").includes(part.dataset.part));
      }
    }
  }
}

define("units-explorer", UnitsExplorer);
