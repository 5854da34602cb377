// SPDX-License-Identifier: Apache-2.0
// <state-chunks>: states go from chunk to chunk, then all chunks fill their triangles at once.

import { FormExplorer, count, define, write } from "../explorer.js";

const COLORS = 8; // of programs, in turn

/** How much of each step is left at the last one. */
export const left = ({ steps, decay }) => Array.from({ length: steps }, (_, s) => decay ** (steps - 1 - s));

/** Which keys a query meets in its own chunk, counted over all queries. */
export const meetings = ({ steps, chunk }) => ((steps / chunk) * chunk * (chunk + 1)) / 2;

class StateChunks extends FormExplorer {
  connectedCallback() {
    this.steps = Number(this.dataset.steps);
    const number = (cell, name) => Number(cell.style.getPropertyValue(name));
    this.cells = [...this.querySelectorAll(".state__picture i")].map((cell) => [cell, number(cell, "--t"), number(cell, "--s")]);
    this.states = [...this.querySelectorAll(".state__picture b")];
    super.connectedCallback();
  }

  get timing() {
    return { text: (moment) => this.when(moment), watch: this.querySelector(".state") };
  }

  get chunks() {
    return this.steps / this.state.chunk;
  }

  when(moment) {
    if (!moment) return "the beginning";
    if (moment > this.chunks) return "all results";
    return `state ${moment} of ${this.chunks}`;
  }

  render({ chunk, decay, moment: asked }) {
    const { chunks } = this;
    const track = this.bar?.track ?? this.form.moment;
    const ended = asked >= (this.last ?? Number(track.defaultValue));
    this.last = chunks + 1;
    track.max = this.last; // which corrects its value
    if (ended && !this.bar?.playing) track.value = this.last;
    if (this.bar) {
      this.bar.rest = this.last;
      this.bar.seconds = 1.5 + this.last * 0.7;
    }
    const moment = Number(track.value);
    const done = moment > chunks;
    this.states.forEach((state, t) => {
      state.hidden = t % chunk > 0;
      state.className = t / chunk < moment ? "there" : "";
    });
    for (const [cell, t, s] of this.cells) {
      const own = Math.floor(t / chunk);
      const met = own === Math.floor(s / chunk);
      // A dot is there as soon as the state before its chunk holds the key.
      const there = met ? done : own < moment;
      cell.className = `pid-${own % COLORS} ${met ? "met" : "told"}${there ? "" : " later"}`;
      cell.style.setProperty("--left", (decay ** (t - s)).toFixed(3));
    }
    const say = (name, text) => write(this.querySelector(`[data-of=${name}]`), text);
    say("chain", chunks);
    say("chained", chunks === 1 ? "state, and no chain" : "states, one after the other");
    say("met", meetings({ steps: this.steps, chunk }));
    const share = 100 * left({ steps: this.steps, decay })[0];
    say("left", `${share < 0.1 ? "< 0.1" : share.toFixed(share < 99.95 ? 1 : 0)} %`);
    write(this.querySelector(".state__decay-now"), decay.toFixed(2));
    write(this.querySelector(".explorer__summary"), this.sentence(chunk, moment, done));
  }

  sentence(chunk, moment, done) {
    if (!moment) return `${this.steps} steps, in ${count(this.chunks, "chunk")}. Nothing is known yet.`;
    if (!done && moment === 1) return "The first chunk begins with an empty state.";
    if (!done) return `The state before step ${(moment - 1) * chunk}: it has faded, and the last chunk’s keys and values are in it.`;
    if (chunk === 1) return "One step after the other: a long chain, and hardly anything that could be done at once.";
    if (chunk === this.steps) return "A single chunk is attention: no chain at all, but every query meets every earlier key.";
    return `A chain of ${this.chunks} states; then all chunks fill their triangles at once.`;
  }
}

define("state-chunks", StateChunks);
