// SPDX-License-Identifier: Apache-2.0
// <online-softmax>: scores arrive tile by tile. It begins as recorded (figures/online_softmax/) and computes the rest.

import { FormExplorer, cdiv, define, list } from "../explorer.js";

const text = (number) => (number === -Infinity ? "−∞" : `${number}`);
const fixed = (number, digits = 4) => number.toFixed(digits);
const PARTS = ["load", "maximum", "rescale", "add"]; // of a tile

/** The state of online softmax at a moment: 0 is before all, then each tile has four, and the last one divides.
    `scale` is the maximum to which the weights belong that have been added. */
export function at({ scores, values, tile, moment }) {
  const tiles = cdiv(scores.length, tile);
  let [maximum, scale, sum, accumulator] = [-Infinity, -Infinity, 0, 0];
  let now = { part: "begin", tile: -1, maximum, scale, sum, accumulator };
  for (let i = 0; i < Math.min(moment, 4 * tiles); i++) {
    const [part, number] = [PARTS[i % 4], Math.floor(i / 4)];
    const old = { maximum, sum, accumulator };
    const own = scores.slice(number * tile, (number + 1) * tile);
    const factor = Math.exp(scale - maximum);
    if (part === "maximum") maximum = Math.max(maximum, ...own);
    if (part === "rescale") {
      [scale, sum, accumulator] = [maximum, sum * factor, accumulator * factor];
    }
    if (part === "add") {
      own.forEach((score, j) => {
        const weight = Math.exp(score - maximum);
        sum += weight;
        accumulator += weight * values[number * tile + j];
      });
    }
    now = { part, tile: number, own, old, factor, maximum, scale, sum, accumulator };
  }
  return moment > 4 * tiles ? { ...now, part: "end" } : now;
}

/** What happens, in words. */
function describe({ part, tile, own, old, factor, maximum }) {
  const grew = part !== "begin" && maximum > old.maximum;
  switch (part) {
    case "begin": return "No score has been seen: the maximum is −∞, sum and accumulator are 0.";
    case "load": return `Tile ${tile + 1} arrives, with the scores ${list(own)}.`;
    case "maximum": return `The largest of the tile is ${Math.max(...own)}. `
      + (grew ? `The maximum moves from ${text(old.maximum)} to ${maximum}.` : `The maximum stays ${maximum}.`);
    case "rescale": return factor === 1 ? "The maximum has not moved: sum and accumulator are multiplied by e⁰ = 1."
      : tile ? `Old weights belong to the old maximum: sum and accumulator are multiplied by ${fixed(factor)}.`
        : "There are no old weights yet: sum and accumulator stay 0.";
    case "add": return "The weights of the tile are added to the sum, and each times its value to the accumulator.";
    default: return "All tiles have been seen. The accumulator divided by the sum is the result.";
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
    this.values = [...this.querySelectorAll(".online__values .online__number")].map((value) => Number(value.textContent));
    super.connectedCallback();
    this.form.onreset = () => setTimeout(() => this.update()); // when it has been reset
  }

  render({ tile }) {
    const { state, values } = this;
    const scores = values.map((_, i) => state[`score${i}`]);
    const ended = this.last !== undefined && Number(this.moment.value) >= this.last;
    this.last = 4 * cdiv(scores.length, tile) + 1;
    this.moment.max = this.last; // which corrects its value
    if (ended) this.moment.value = this.last;
    const now = at({ scores, values, tile, moment: Number(this.moment.value) });

    const added = (now.tile + (["add", "end"].includes(now.part) ? 1 : 0)) * tile; // those whose weights are in the sums
    for (const part of this.querySelectorAll("[data-column]")) {
      const i = Number(part.dataset.column);
      const away = Math.floor(i / tile) - now.tile;
      part.dataset.state = now.part === "end" || away < 0 ? "done" : away > 0 ? "later" : "now";
      part.classList.toggle("online__first", i % tile === 0);
      const bar = part.querySelector("i");
      if (!bar) continue;
      const weight = i < added ? Math.exp(scores[i] - now.scale) : 0;
      bar.style.setProperty("--weight", fixed(weight));
      part.querySelector(".online__number").textContent = i < added ? fixed(weight, 2).replace(/^0/, "") : "";
    }
    this.querySelectorAll(".online__scores .online__number").forEach((label, i) => { label.textContent = scores[i]; });
    const line = this.querySelector(".online__maximum");
    line.classList.toggle("online__maximum--none", now.maximum === -Infinity);
    line.firstElementChild.textContent = `maximum ${text(now.maximum)}`;
    this.querySelector(".online").style.setProperty("--maximum", Math.max(now.maximum, 0));

    const show = (name, what) => {
      const row = this.querySelector(`[data-of="${name}"]`);
      row.querySelector("dd").textContent = what;
      row.classList.toggle("online__now", this.touched(now, name));
    };
    const from = now.part === "maximum" && now.maximum > now.old.maximum ? `${text(now.old.maximum)} → ` : "";
    show("maximum", from + text(now.maximum));
    show("sum", step(now, "sum", now.sum));
    show("accumulator", step(now, "accumulator", now.accumulator));
    show("result", now.part === "end" ? `${fixed(now.accumulator)} / ${fixed(now.sum)} = ${fixed(now.accumulator / now.sum)}` : "");
    this.form.querySelector("output").textContent = describe(now);
  }

  start() {
    super.start();
    this.update(); // the beginning, at once
  }

  touched({ part }, name) {
    if (name === "maximum" || name === "result") return part === (name === "result" ? "end" : name);
    return part === "rescale" || part === "add";
  }
}

define("online-softmax", OnlineSoftmax);
