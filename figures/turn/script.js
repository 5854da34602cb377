// SPDX-License-Identifier: Apache-2.0
// <turn-explorer>: all of its parts and sentences stand on the page (figures/turn/); this shows one moment of them.

import { FormExplorer, define } from "../explorer.js";

class TurnExplorer extends FormExplorer {
  get timing() {
    const names = [...this.querySelectorAll("option")].map((option) => option.value);
    return { text: (moment) => names[moment], watch: this.querySelector(".turn") };
  }

  render({ moment, specialize }) {
    for (const panel of this.querySelectorAll("[data-case]")) {
      const special = panel.dataset.case.endsWith("warp_specialize");
      panel.hidden = panel.dataset.case !== "H200" && special !== (specialize === "yes");
      const sentences = [...panel.querySelectorAll("li")];
      sentences.forEach((sentence, i) => (sentence.hidden = i !== moment));
      const { works, waits } = sentences[moment].dataset;
      for (const part of panel.querySelectorAll("[data-part]")) {
        part.classList.toggle("turn--on", works.split(" ").includes(part.dataset.part));
        part.classList.toggle("turn--waits", waits.split(" ").includes(part.dataset.part));
      }
    }
  }
}

define("turn-explorer", TurnExplorer);
