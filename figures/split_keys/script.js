// SPDX-License-Identifier: Apache-2.0
// <split-keys>: programs go through their parts of the keys at once; a second kernel combines them.

import { FormExplorer, count, define } from "../explorer.js";
import { at } from "../online.js";
import { Cells } from "../machine.js";

const TILE = 1;
const COLORS = 8; // of programs, in turn

/** What each part has kept after so many steps, a key at a step. */
export function kept({ scores, parts, steps }) {
  const each = scores.length / parts;
  const values = scores.map((_, key) => key + 1);
  return Array.from({ length: parts }, (_, part) => {
    const own = (all) => all.slice(part * each, (part + 1) * each);
    return at({ scores: own(scores), values: own(values), tile: TILE, moment: 4 * Math.min(steps, each / TILE) });
  });
}

/** The factor of each part, and both sums together. */
export function combined(all) {
  const maximum = Math.max(...all.map((part) => part.maximum));
  const factors = all.map((part) => Math.exp(part.maximum - maximum));
  const sum = (name) => all.reduce((before, part, i) => before + factors[i] * part[name], 0);
  return { maximum, factors, sum: sum("sum"), accumulator: sum("accumulator") };
}

class SplitKeys extends FormExplorer {
  connectedCallback() {
    this.keys = [...this.querySelectorAll(".split__keys i")];
    this.scores = this.keys.map((key) => Number(key.textContent));
    this.cells = new Cells(this.querySelector(".machine"));
    super.connectedCallback();
  }

  get timing() {
    return { text: (moment) => this.when(moment) };
  }

  /** How many steps the programs take, and the last moment. */
  get spans() {
    const { parts } = this.state;
    const steps = this.scores.length / TILE / parts;
    return { steps, last: steps + (parts > 1 ? 2 : 1) };
  }

  when(moment) {
    const { steps, last } = this.spans;
    if (!moment) return "the beginning";
    if (moment <= steps) return `step ${moment} of ${steps}`;
    return moment < last ? "combine" : "the result";
  }

  render({ parts, moment: asked }) {
    const { steps, last } = this.spans;
    const track = this.bar?.track ?? this.form.moment;
    const ended = this.last === undefined || asked >= this.last;
    this.last = last;
    track.max = last; // which corrects its value
    if (ended && asked >= last) track.value = last;
    if (ended && this.shown && this.shown !== parts && !this.bar.playing) track.value = last;
    this.shown = parts;
    if (this.bar) this.bar.seconds = last * 1.2;
    const moment = Number(track.value);
    const each = this.scores.length / parts;
    const all = kept({ scores: this.scores, parts, steps: moment });
    const together = combined(all);

    this.querySelector(".split").style.setProperty("--parts", parts);
    this.querySelector(".split").classList.toggle("split--many", parts > COLORS);
    const alone = this.scores.length / TILE;
    this.querySelector(".split__says").textContent = parts === 1 ? `One program, ${alone} steps`
      : `${parts} programs at once, ${count(steps, "step")} instead of ${alone}`;
    this.keys.forEach((key, i) => {
      const step = Math.floor((i % each) / TILE) + 1;
      const state = step < moment || moment > steps ? "gone" : step === moment ? "now" : "later";
      key.className = `pid-${Math.floor(i / each) % COLORS} ${state}${i % each ? "" : " first"}`;
    });
    const combining = parts > 1 && moment > steps;
    this.querySelectorAll(".split__part").forEach((card, i) => {
      card.hidden = i >= parts;
      if (card.hidden) return;
      const [maximum, sum, accumulator, factor] = card.children;
      const part = all[i];
      maximum.textContent = part.maximum === -Infinity ? "–" : part.maximum;
      const bar = (place, number, most) => {
        place.textContent = number.toFixed(each === 1 ? 0 : 2); // of one key, both are whole
        place.style.setProperty("--bar", (number / most).toFixed(3));
      };
      bar(sum, part.sum, 3.2);
      bar(accumulator, part.accumulator, 40);
      factor.textContent = combining ? together.factors[i].toFixed(2) : "";
      factor.style.setProperty("--w", combining ? together.factors[i].toFixed(3) : 0);
    });
    const said = this.querySelector(".split__together");
    const [accumulator, sum] = said.querySelectorAll("em");
    const there = moment > steps && (parts === 1 || combining);
    sum.textContent = there ? together.sum.toFixed(4) : "–";
    accumulator.textContent = there ? together.accumulator.toFixed(4) : "–";
    said.querySelector("strong").textContent = moment === last ? (together.accumulator / together.sum).toFixed(4) : "–";

    const heads = Number(this.dataset.heads);
    const busy = Math.min(heads * parts, this.cells.cells.length);
    this.cells.cells.forEach((_, i) => (i < busy ? this.cells.set(i, `pid-${Math.floor(i / heads) % COLORS} on`, Math.min(moment / steps, 1))
      : this.cells.set(i, "off")));
    this.querySelector(".split__busy").textContent = `${busy} of ${this.cells.cells.length}`;
    this.querySelector(".split__product").textContent = `${parts} × ${heads} = ${heads * parts}`;
    this.form.querySelector("output").textContent = this.sentence(parts, moment, steps, last);
  }

  sentence(parts, moment, steps, last) {
    if (!moment) return `${count(parts, "program")} for ${this.scores.length} keys, with ${count(steps, "step")} of one key each.`;
    if (moment <= steps) {
      return parts === 1 ? "One program goes through all the keys, step after step, and the rest of the GPU is idle."
        : `All ${parts} programs take a step at the same time, and each keeps its own largest score.`;
    }
    if (moment < last) return "A second kernel finds the largest score of all, and multiplies both sums of each part by its weight.";
    return parts === 1 ? `After ${steps} steps, the second sum divided by the first is the result.`
      : `${count(steps, "step")} and a second kernel give the same result as ${this.scores.length / TILE} steps of one program.`;
  }
}

define("split-keys", SplitKeys);
