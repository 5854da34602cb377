// SPDX-License-Identifier: Apache-2.0
// <fused-layer>: the bytes and the times of a layer, by the length of its sums. All of them are on the page.

import { FormExplorer, define } from "../explorer.js";
import { widen } from "../ways.js";

class FusedLayer extends FormExplorer {
  get layers() {
    return [...this.querySelectorAll("template")].map((each) => each.dataset);
  }

  get timing() {
    return { text: (moment) => `K = ${Number(this.layers[moment].k).toLocaleString("en-US")}`, watch: this };
  }

  render({ k }) {
    const layer = this.layers[k];
    for (const part of this.querySelectorAll(".ways__bytes i")) {
      const share = layer[part.dataset.of] / this.dataset.most;
      widen(part, share);
      part.toggleAttribute("data-narrow", share < 0.13); // its name would not fit a phone: it stands above
    }
    widen(this.querySelector("[data-of=share]"), layer.one / layer.two);
    for (const number of this.querySelectorAll("data")) {
      number.textContent = Math.round(layer[number.dataset.of]).toLocaleString("en-US");
    }
    this.querySelector("[role=img]").ariaLabel = layer.about;
    this.querySelector("output").textContent = layer.about;
  }
}

define("fused-layer", FusedLayer);
