// SPDX-License-Identifier: Apache-2.0
// <dropped-twice>: what the backward drops, by its seed. The random numbers of each seed are on the page.

import { FormExplorer, count, define } from "../explorer.js";

const STEPS = ["x", "out", "the seed is kept", "the gradient comes", "gradient of x"];
const SAYS = [
  "Six numbers.",
  "Forward: the seed and an element's index give it a random number u.",
  "Only the seed is kept for the backward pass, not the mask.",
  "Backward: the same seed and indices give the same random numbers.",
];

class DroppedTwice extends FormExplorer {
  get timing() {
    return { text: (step) => STEPS[step], watch: this };
  }

  row(name) {
    return [...this.querySelectorAll(`.dropped__row[data-of="${name}"] i`)];
  }

  render({ step, seed }) {
    for (const part of this.querySelectorAll("[data-from]")) {
      part.classList.toggle("dropped--later", step < part.dataset.from);
    }
    const u = this.querySelector(`[name=seed][value="${seed}"]`).dataset.u.split(" ").map(Number);
    const forward = this.row("u").map((each) => !each.classList.contains("dropped--off"));
    const wrong = u.map((each, i) => each >= this.dataset.p !== forward[i]);
    const show = (name, text) => this.row(name).forEach((cell, i) => {
      cell.classList.toggle("dropped--off", u[i] < this.dataset.p);
      cell.classList.toggle("dropped--wrong", wrong[i]);
      cell.textContent = text(i);
    });
    const grad = this.row("grad");
    show("again", (i) => u[i].toFixed(2));
    show("grad_x", (i) => (u[i] < this.dataset.p ? 0 : grad[i].textContent * this.dataset.scale));
    this.querySelector("span[data-of=seed]").textContent = seed;
    const bad = wrong.filter(Boolean).length;
    const end = bad
      ? `With seed ${seed}, ${count(bad, "gradient")} of ${u.length} ${bad === 1 ? "is" : "are"} wrong, and nothing raises an error.`
      : "The same seed gives the same numbers, so the same elements are dropped.";
    this.querySelector("output").textContent = this.querySelector(".explorer__now").textContent = SAYS[step] ?? end;
  }
}

define("dropped-twice", DroppedTwice);
