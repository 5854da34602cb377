// SPDX-License-Identifier: Apache-2.0
// <attention-traffic>: torch's operations go through all scores, one after the other, and store them.

import { FormExplorer, define } from "../explorer.js";

const TWIN = ["", "one", "two", "three", "four"]; // by the operations that a score has been through
const OPERATIONS = [
  "q @ kᵀ reads q and k, and writes every score.",
  "The scale reads all scores back, and writes all of them again.",
  "So does softmax, at its best. (Its maximum and its sum stay on the chip.)",
  "@ v reads all of them a last time, and v, and writes the result.",
];

/** Of torch's operations, how many a column has been through at a moment, and what went through memory so far. */
export function twin(moment, column, tile, counts) {
  const done = Math.floor((moment - 1 - Math.floor(column / tile)) / 4) + 1;
  const went = counts.reduce((sum, count, i) => sum + count * Math.min(Math.max((moment - 4 * i) / 4, 0), 1), 0);
  return { done: Math.min(Math.max(done, 0), counts.length), went };
}

class AttentionTraffic extends FormExplorer {
  connectedCallback() {
    const { torch, ours, tile } = this.dataset;
    [this.torch, this.ours, this.tile] = [torch.split(" ").map(Number), Number(ours), Number(tile)];
    this.cells = [...this.querySelectorAll(".traffic__twin i")];
    this.columns = Math.sqrt(this.cells.length);
    super.connectedCallback();
  }

  get timing() {
    const operations = ["q @ kᵀ", "scale", "softmax", "@ v"];
    return { text: (moment) => (!moment ? "the beginning" : moment === this.last ? "the end" : operations[this.now(moment)]), stops: [0, 4, 8, 12] };
  }

  get last() {
    return Number(this.form.moment.max);
  }

  /** Which operation is at work. */
  now(moment) {
    return Math.min(Math.floor(Math.max(moment - 1, 0) / 4), 3);
  }

  render({ moment }) {
    this.cells.forEach((cell, i) => {
      cell.className = TWIN[twin(moment, i % this.columns, this.tile, this.torch).done];
    });
    this.querySelectorAll(".traffic__operations li").forEach((operation, i) => {
      operation.classList.toggle("traffic__here", i === this.now(moment) && moment > 0 && moment < this.last);
    });
    const all = [this.torch.reduce((a, b) => a + b), this.ours];
    const went = [twin(moment, 0, this.tile, this.torch).went, (all[1] * moment) / this.last];
    this.querySelectorAll(".traffic__bar").forEach((bar, i) => {
      bar.querySelector("i").style.setProperty("--went", (went[i] / all[i]).toFixed(4));
      bar.lastElementChild.textContent = `${Math.round(went[i])} of ${Math.round(all[i])}`;
    });
    const [torch, ours] = went.map(Math.round);
    this.form.querySelector("output").textContent = !moment ? "Nothing has gone through memory yet."
      : moment < this.last ? OPERATIONS[this.now(moment)]
      : `The scores went through memory six times: ${torch} million numbers in all, where our kernel moves ${ours} million.`;
  }
}

define("attention-traffic", AttentionTraffic);
