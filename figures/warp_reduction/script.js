// SPDX-License-Identifier: Apache-2.0
// <warp-reduction>: threads of a warp add up their numbers, a shuffle a step.
// All numbers stand on the page (figures/warp_reduction/); this shows those of a step, and where one came from.

import { FormExplorer, define } from "../explorer.js";

/** The lines that lead to a thread, back from a step, as the path of an <svg>: a tree, which doubles in each step. */
export function tree({ threads, thread, step }) {
  let [path, all] = ["", [thread]];
  for (let at = step; at > 0; at--) {
    const distance = threads >> at;
    const ends = all.flatMap((end) => [[end, end], [end ^ distance, end]]);
    path += ends.map(([from, to]) => `M${at - 0.5} ${from + 0.5}L${at + 0.5} ${to + 0.5}`).join("");
    all = ends.map(([from]) => from);
  }
  return path;
}

class WarpReduction extends FormExplorer {
  connectedCallback() {
    this.warps = [...this.querySelectorAll(".reduction__warp")];
    for (const warp of this.warps) {
      warp.onclick = ({ target }) => {
        const row = target.closest("tbody tr");
        if (!row) return;
        this.form.thread.value = row.rowIndex - 1;
        this.update();
      };
    }
    super.connectedCallback();
    this.querySelector(".explorer__switch").onchange = () => this.bar.settle();
  }

  get timing() {
    return { text: (step) => `${step} of ${this.bar.track.max}`, watch: this.form };
  }

  render({ threads }) {
    const steps = Math.log2(threads);
    const { thread: field } = this.form;
    this.bar.track.max = steps; // which corrects its value
    Object.assign(this.bar, { rest: steps, seconds: 1.5 * steps });
    field.max = threads - 1;
    if (field.value !== "" || document.activeElement !== field) { // else it is being typed
      field.value = Math.min(Math.max(Math.round(field.value), 0), field.max);
    }
    const { step } = this.state;
    const [thread, other] = [Number(field.value), field.value ^ (threads >> step)];

    for (const warp of this.warps) warp.hidden = warp.dataset.threads !== `${threads}`;
    const warp = this.warps.find(({ hidden }) => !hidden);
    for (const { dataset } of warp.querySelectorAll("[data-at]")) {
      const away = dataset.at - step;
      dataset.state = away < 0 ? "done" : away > 0 ? "later" : "now";
    }
    const { rows } = warp.querySelector("tbody");
    [...rows].forEach((row, i) => row.classList.toggle("reduction__chosen", i === thread));
    warp.querySelector(".reduction__tree").setAttribute("d", tree({ threads, thread, step }));

    const held = (who, at) => rows[who].cells[at + 1].textContent;
    const describe = () => `Step ${step} of ${steps}: thread ${thread} adds the ${held(other, step - 1)} of thread ${other}, `
      + `${threads >> step} away: ${held(thread, step - 1)} + ${held(other, step - 1)} = `
      + `${held(thread, step)}${step === steps ? ", as in all threads" : ""}.`;
    this.form.querySelector("output").textContent = step ? describe()
      : `Each thread holds a number, thread ${thread} the ${held(thread, 0)}. ${steps} steps add up all ${threads}.`;
  }
}

define("warp-reduction", WarpReduction);
