// SPDX-License-Identifier: Apache-2.0
// <attention-canvas>: programs go through a matrix of scores tile by tile.

import { FormExplorer, define } from "../explorer.js";
import { PARTS, at } from "../online.js";

const WORDS = { load: "scores", maximum: "maximum", rescale: "rescale", add: "add" };

/** The scores that a query's program visits, in whole tiles: -Infinity where the query does not see the key. */
export function seen(row, query, tile, causal) {
  const end = causal ? (Math.floor(query / tile) + 1) * tile : row.length;
  return row.slice(0, end).map((score, key) => (causal && key > query ? -Infinity : score));
}

class AttentionCanvas extends FormExplorer {
  connectedCallback() {
    const numbers = (text) => text.split(" ").map(Number);
    [this.values, this.tile] = [numbers(this.dataset.values), Number(this.dataset.tile)];
    this.rows = [...this.querySelectorAll(".canvas__row")];
    this.scores = this.rows.map((row) => [...row.querySelectorAll("i")].map((cell) => Number(cell.textContent)));
    super.connectedCallback();
  }

  get timing() {
    return { text: (moment) => this.when(moment) };
  }

  when(moment) {
    const tiles = this.scores.length / this.tile;
    if (!moment) return "before the first tile";
    if (moment > 4 * tiles) return "divide";
    return `tile ${Math.floor((moment - 1) / 4) + 1} of ${tiles}: ${WORDS[PARTS[(moment - 1) % 4]]}`;
  }

  render({ moment, mask }) {
    const { tile, values, scores } = this;
    const causal = mask === "causal";
    const canvas = this.querySelector(".canvas");
    if (moment !== this.first.moment) canvas.classList.remove("canvas--first"); // the sums, too
    this.opens = canvas.classList.contains("canvas--first");
    let [rescaled, done] = [0, 0];
    this.rows.forEach((row, query) => {
      const own = seen(scores[query], query, tile, causal);
      const now = at({ scores: own, values, tile, moment });
      const ended = now.part === "end";
      if (now.part === "rescale" && now.old.sum && now.factor < 1) rescaled += 1;
      done += ended;
      const program = row.parentNode;
      program.style.setProperty("--tile", Math.max(now.tile, 0));
      program.classList.toggle("canvas__program--done", ended || !moment);
      const [...parts] = row.children;
      parts.slice(0, scores.length).forEach((cell, key) => {
        const which = Math.floor(key / tile);
        const dark = key >= own.length;
        const added = which < now.tile || ended || (which === now.tile && now.part === "add");
        const state = dark ? "dark" : ended || which < now.tile ? "gone" : which === now.tile ? "now" : "later";
        const hidden = own[key] === -Infinity;
        cell.className = hidden ? `${state} hidden` : state + (state === "now" && !["load", "add"].includes(now.part)
          && scores[query][key] === now.maximum ? " most" : "");
        cell.style.setProperty("--w", added && !dark && !hidden ? Math.exp(scores[query][key] - now.scale).toFixed(3) : 0);
      });
      const [maximum, sum, accumulator, result] = parts.slice(scores.length);
      const moved = now.part === "maximum" && now.maximum > now.old.maximum;
      maximum.textContent = now.maximum === -Infinity ? "–" : now.maximum;
      maximum.className = moved ? "moved" : "";
      const kept = (place, number) => {
        place.textContent = number.toFixed(2);
        place.className = now.part === "rescale" && now.factor < 1 && now.old.sum ? "moved" : "";
      };
      kept(sum, now.sum);
      kept(accumulator, now.accumulator);
      result.textContent = now.sum ? (now.accumulator / now.sum).toFixed(2) : "–";
      result.className = ended ? "" : "so-far";
    });
    this.say(moment, rescaled, done, causal);
  }

  say(moment, rescaled, done, causal) {
    const tiles = this.scores.length / this.tile;
    const part = moment ? PARTS[(moment - 1) % 4] : "begin";
    const visited = causal ? (tiles * (tiles + 1)) / 2 : tiles * tiles;
    const says = {
      begin: "Nothing is computed yet: there is no largest score, and both sums are 0.",
      load: `Each program computes a tile of scores.${causal && done ? " Those that have reached the diagonal are done." : ""}`,
      maximum: `Where a tile brings a larger score, that becomes the query's largest.${
        this.opens ? " Step on to see what that does to the two sums." : ""}`,
      rescale: moment < 5 ? "There is nothing to rescale yet." : rescaled
        ? `In ${rescaled} ${rescaled === 1 ? "row" : "rows"} the largest score grew. All that was added before now counts less: its cells fade, and both sums shrink.`
        : "No largest score grew, so nothing is rescaled.",
      add: "The weights are added to one sum, weights × values to the other, and the tile is forgotten.",
    };
    this.form.querySelector("output").textContent = moment > 4 * tiles
      ? `The second sum divided by the first is the result. ${visited} of ${tiles * tiles} tiles were computed${causal ? ", and the gray ones never were" : ", and no score was stored"}.`
      : says[part];
  }
}

define("attention-canvas", AttentionCanvas);
