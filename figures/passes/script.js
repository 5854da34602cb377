// SPDX-License-Identifier: Apache-2.0
// <one-pass>: three ways run at once, each as long as it was measured. All times are on the page.

import { FormExplorer, define } from "../explorer.js";
import { widen } from "../ways.js";

class OnePass extends FormExplorer {
  get timing() {
    return { text: (at) => `${Math.round((at / 100) * this.shown.dataset.longest)} µs`, watch: this };
  }

  get shown() {
    return this.querySelector(`[data-layer="${this.state.layer}"]`);
  }

  render({ layer, at }) {
    for (const each of this.querySelectorAll("[data-layer]")) each.hidden = each.dataset.layer !== layer;
    const longest = Number(this.shown.dataset.longest);
    const now = (at / 100) * longest;
    for (const time of this.shown.querySelectorAll(".ways__time")) {
      const number = time.querySelector("data");
      const us = Number(number.dataset.of);
      widen(time.firstElementChild, Math.min(now, us) / longest);
      time.classList.toggle("passes--runs", now < us);
    }
    this.querySelector("output").textContent = this.shown.ariaLabel;
  }
}

define("one-pass", OnePass);
