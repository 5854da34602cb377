// SPDX-License-Identifier: Apache-2.0
// <online-softmax>: scores arrive tile by tile. It begins as recorded (figures/online_softmax/) and computes the rest.

import { FormExplorer, cdiv, define, list } from "../explorer.js";
import { at } from "../online.js";

const text = (number) => (number === -Infinity ? "−∞" : `${number}`);
const fixed = (number, digits = 4) => number.toFixed(digits);
const short = (number) => fixed(number, 2).replace(/^0/, "");

/** What happens, in words. `what`: what is multiplied; `word`: for the scores that arrive together. */
function describe({ part, tile, own, old, factor, maximum }, what, word) {
  const grew = part !== "begin" && maximum > old.maximum;
  switch (part) {
    case "load": return `${word} ${tile + 1} arrives, with the scores ${list(own)}.`;
    case "maximum": return `Its largest score is ${Math.max(...own)}, so the maximum `
      + (grew ? `moves from ${text(old.maximum)} to ${maximum}.` : `stays ${maximum}.`);
    case "rescale": return factor === 1 ? `The maximum hasn't moved, so ${what} multiplied by e⁰ = 1.`
      : tile ? `The old weights belong to the old maximum, so ${what} multiplied by ${fixed(factor)}.`
        : `There are no old weights yet, so ${what} 0.`;
    default: return "";
  }
}

/** How a sum came about in this moment. */
function step({ part, old, factor }, name, value) {
  if (part === "rescale") return `${fixed(old[name])} · ${fixed(factor)} = ${fixed(value)}`;
  if (part === "add") return `${fixed(old[name])} + ${fixed(value - old[name])} = ${fixed(value)}`;
  return fixed(value);
}

class OnlineSoftmax extends FormExplorer {
  connectedCallback() {
    const values = [...this.querySelectorAll(".online__values .online__number")];
    this.weighs = Boolean(this.querySelector("[data-of=accumulator]")); // values; else it writes shares
    this.values = values.map((value) => (this.weighs ? Number(value.textContent) : 0));
    super.connectedCallback();
    this.form.onreset = () => setTimeout(() => this.update()); // when it has been reset
  }

  get timing() {
    return { text: (moment) => this.when(moment) };
  }

  when(moment) {
    const { tile } = this.state;
    const tiles = cdiv(this.values.length, tile);
    const word = this.weighs ? "tile" : "block";
    if (!moment) return "the beginning";
    if (moment <= 4 * tiles) return `${word} ${Math.floor((moment - 1) / 4) + 1} of ${tiles}`;
    return this.weighs ? "the end" : `pass 2, block ${moment - 4 * tiles}`;
  }

  render({ tile, moment: asked }) {
    const { state, values, weighs } = this;
    const scores = values.map((_, i) => state[`score${i}`]);
    const tiles = cdiv(scores.length, tile);
    const track = this.bar?.track ?? this.form.moment;
    const ended = this.last !== undefined && asked >= this.last;
    this.last = 4 * tiles + (weighs ? 1 : tiles);
    track.max = this.last; // which corrects its value
    if (ended) track.value = this.last;
    const moment = Number(track.value);
    const now = at({ scores, values, tile, moment });
    const written = weighs ? 0 : Math.max(moment - 4 * tiles, 0); // blocks, in the second pass

    const added = (now.tile + (["add", "end"].includes(now.part) ? 1 : 0)) * tile; // those whose weights are in the sums
    for (const part of this.querySelectorAll("[data-column]")) {
      const i = Number(part.dataset.column);
      const which = Math.floor(i / tile);
      const away = which - (written ? written - 1 : now.tile);
      part.dataset.state = (now.part === "end" && weighs) || (away < 0) ? "done" : away > 0 ? (written ? "done" : "later") : "now";
      part.classList.toggle("online__first", i % tile === 0);
      const bar = part.querySelector("i");
      if (!bar) continue;
      const weight = i < added ? Math.exp(scores[i] - now.scale) : 0;
      bar.style.setProperty("--weight", fixed(weight));
      part.querySelector(".online__number").textContent = i < added ? short(weight) : "";
    }
    this.querySelectorAll(".online__scores .online__number").forEach((label, i) => { label.textContent = scores[i]; });
    if (!weighs) {
      this.querySelectorAll(".online__values .online__number").forEach((label, i) => {
        label.textContent = i < written * tile ? short(Math.exp(scores[i] - now.maximum) / now.sum) : "·";
        label.classList.toggle("online__blank", i >= written * tile);
      });
    }
    const line = this.querySelector(".online__maximum");
    line.classList.toggle("online__maximum--none", now.maximum === -Infinity);
    line.firstElementChild.textContent = `maximum ${text(now.maximum)}`;
    this.querySelector(".online").style.setProperty("--maximum", Math.max(now.maximum, 0));

    const show = (name, what, here) => {
      const row = this.querySelector(`[data-of="${name}"]`);
      if (!row) return;
      row.querySelector("dd").textContent = what;
      row.classList.toggle("online__now", here);
    };
    const moving = ["rescale", "add"].includes(now.part);
    const from = now.part === "maximum" && now.maximum > now.old.maximum ? `${text(now.old.maximum)} → ` : "";
    show("maximum", from + text(now.maximum), now.part === "maximum");
    show("sum", step(now, "sum", now.sum), moving);
    show("accumulator", step(now, "accumulator", now.accumulator), moving);
    show("result", now.part === "end" ? `${fixed(now.accumulator)} / ${fixed(now.sum)} = ${fixed(now.accumulator / now.sum)}` : "", now.part === "end");
    show("traffic", `${Math.min((now.tile + 1) * tile, scores.length) + written * tile} read, ${written * tile} written`, written > 0);
    this.form.querySelector("output").textContent = this.sentence(now, written, tiles);
  }

  sentence(now, written, tiles) {
    const { weighs } = this;
    if (written) {
      return written < tiles ? `The maximum and the sum are final now. Block ${written} is loaded again, and its shares are written.`
        : "Every share is written. Each score was read twice, and each share written once.";
    }
    if (now.part === "add") {
      return weighs ? "The weights of the tile are added to the sum, and each times its value to the accumulator."
        : "The weights of the block are added to the sum, and the block is forgotten.";
    }
    if (now.part === "end") return "All tiles have been seen. The accumulator divided by the sum is the result.";
    if (now.part === "begin") return `No score has been seen yet. The maximum is −∞, and ${weighs ? "sum and accumulator are" : "the sum is"} 0.`;
    const what = now.part === "rescale" && !now.tile && now.factor !== 1 ? (weighs ? "sum and accumulator stay" : "the sum stays")
      : weighs ? "sum and accumulator are" : "the sum is";
    return describe(now, what, weighs ? "Tile" : "Block");
  }
}

define("online-softmax", OnlineSoftmax);
