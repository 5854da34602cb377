// SPDX-License-Identifier: Apache-2.0
// <token-race>: recorded races of tokens, one after the other, and how often each token came in first.

import { FormExplorer, count, define } from "../explorer.js";

/** What the picture says, of the races up to one. */
export function about(drawn, chances) {
  const times = (token) => drawn.filter((each) => each === token).length;
  const counts = chances.map((chance, token) => `${token} was drawn ${count(times(token), "time")} (${(100 * chance).toFixed(0)}% expected)`);
  return `Race ${drawn.length}: token ${drawn.at(-1)} arrives first. So far ${counts.join(", ")}.`;
}

class TokenRace extends FormExplorer {
  get timing() {
    return { watch: this, text: (run) => `race ${run}` };
  }

  render({ run }) {
    const races = [...this.querySelectorAll("template")].slice(0, run);
    const drawn = races.map((race) => Number(race.dataset.first));
    const waits = races.at(-1).dataset.waits.split(" ");
    const rows = [...this.querySelectorAll("li")];
    rows.forEach((row, token) => {
      const times = drawn.filter((each) => each === token).length;
      row.classList.toggle("race__first", token === drawn.at(-1));
      row.style.setProperty("--wait", Math.min(waits[token] / this.dataset.longest, 1));
      row.style.setProperty("--share", times / run);
      row.querySelector(".race__lane span").textContent = waits[token];
      row.querySelector(".race__tally span").textContent = times;
    });
    const chances = rows.map((row) => Number(row.dataset.chance));
    this.querySelector("[role=img]").ariaLabel = this.querySelector("output").textContent = about(drawn, chances);
  }
}

define("token-race", TokenRace);
