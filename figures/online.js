// SPDX-License-Identifier: Apache-2.0
// Online softmax, moment by moment: what a program keeps while it goes through scores tile by tile.

export const PARTS = ["load", "maximum", "rescale", "add"]; // of a tile

/** What is kept at a moment: 0 is before all, then each tile has four, and the last one divides. A score may be
    -Infinity: nobody sees it. `scale` is the maximum to which the weights belong that have been added. */
export function at({ scores, values, tile, moment }) {
  const tiles = Math.ceil(scores.length / tile);
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
