// SPDX-License-Identifier: Apache-2.0
// <logit-chunks>: which chunk of the scores is in memory, and what has become of it.

import { FormExplorer, define } from "../explorer.js";

const STEPS = ["scores", "gradient", "used"];

class LogitChunks extends FormExplorer {
  get timing() {
    return { text: (step) => `chunk ${Math.floor(step / STEPS.length) + 1} of ${this.dataset.count}`, watch: this };
  }

  render({ step }) {
    const chunk = Math.floor(step / STEPS.length);
    const kind = STEPS[step % STEPS.length];
    this.querySelectorAll(".chunks__place i").forEach((each, i) => {
      each.className = i < chunk ? "chunks--gone" : i > chunk ? "" : `chunks--${kind === "used" ? "gradient" : kind}`;
    });
    const done = (chunk + (kind === "used")) / this.dataset.count;
    for (const held of this.querySelectorAll(".chunks__held i")) held.style.setProperty("--share", done);
    const said = this.querySelectorAll("template")[step % STEPS.length].dataset.said;
    this.querySelector("[data-of=chunk]").textContent = chunk + 1;
    this.querySelector("[data-of=step]").textContent = said;
    this.querySelector("output").textContent = `Chunk ${chunk + 1}: ${said}.`;
  }
}

define("logit-chunks", LogitChunks);
