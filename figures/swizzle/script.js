// SPDX-License-Identifier: Apache-2.0
// <swizzle-explorer>: two orders of the same programs, what they read, and what a cache keeps of it.
// Its first state stands on the page, drawn from a recording (figures/swizzle/).

import { FormExplorer, cdiv, count, define } from "../explorer.js";

/** The tile of C of every program, as the kernel and tl.swizzle2d have it: [row, column] by pid. */
export function order({ m, n, group }) {
  return Array.from({ length: m * n }, (_, pid) => {
    const before = Math.floor(pid / (group * n)) * group; // rows in the groups before
    const rows = Math.min(group, m - before);
    const place = pid % (group * n);
    return [before + (place % rows), Math.floor(place / rows)];
  });
}

/** A run, or its first steps. Resident programs take each step along K together, one after the other;
    the cache drops what was used longest ago. */
export function run({ m, n, k, group, sms, cache }, steps = Infinity) {
  const tiles = order({ m, n, group });
  const kept = new Set(); // in the order of their last use
  let [reads, hits, now, resident] = [0, 0];
  for (let step = 0; step < Math.min(steps, k * cdiv(m * n, sms)); step++) {
    const first = Math.floor(step / k) * sms;
    resident = tiles.slice(first, first + sms);
    now = new Map(); // tile: whether it came from memory
    for (const [i, j] of resident) {
      for (const tile of [`A${i},${step % k}`, `B${step % k},${j}`]) {
        const hit = kept.delete(tile);
        kept.add(tile);
        if (kept.size > cache) kept.delete(kept.values().next().value);
        now.set(tile, now.get(tile) || !hit);
        reads += 1;
        hits += hit;
      }
    }
  }
  return { tiles, kept, now, resident, reads, misses: reads - hits };
}

const text = (x, y, words) => `<text x="${x}" y="${y}">${words}</text>`;

/** C with A at its left and B above it, as the content of an <svg>. A tile of C is 20 wide, along K half of it. */
function draw({ tiles, kept, now }, { m, n, k, sms, step }) {
  const edge = 10 * k + 6;
  const paths = {}; // by kind of tile
  const put = (kind, x, y, w, h) => (paths[kind] = `${paths[kind] ?? ""}M${x} ${y}h${w}v${h}h-${w}z`);
  const kind = (tile) => now.has(tile) ? (now.get(tile) ? "miss" : "hit") : kept.has(tile) ? "kept" : "memory";
  for (let s = 0; s < k; s++) {
    for (let i = 0; i < m; i++) put(kind(`A${i},${s}`), 10 * s, edge + 20 * i, 8, 18);
    for (let j = 0; j < n; j++) put(kind(`B${s},${j}`), edge + 20 * j, 10 * s, 18, 8);
  }
  const texts = tiles.map(([i, j], pid) => {
    const wave = Math.floor(pid / sms);
    const away = wave - cdiv(step, k) + 1;
    put(`pid-${wave % 8} ${away < 0 ? "done" : away ? "later" : "now"}`, edge + 20 * j, edge + 20 * i, 18, 18);
    return text(edge + 20 * j + 9, edge + 20 * i + 12, pid);
  });
  const all = Object.entries(paths).map(([kind, path]) => `<path class="${kind}" d="${path}"></path>`);
  return [...all, ...texts, text(edge - 9, 5 * k + 4, "B"), text(5 * k - 1, edge - 6, "A")].join("");
}

class SwizzleExplorer extends FormExplorer {
  render({ m, n, k, sms }) {
    const waves = cdiv(m * n, sms);
    this.form.group.max = m; // which corrects the values
    this.moment.max = k * waves;
    for (const number of this.querySelectorAll("input + b")) number.textContent = number.previousElementSibling.value;
    const { state } = this;
    const orders = [...this.querySelectorAll(".swizzle__order")];
    const said = orders.map((part, i) => this.show(part, i ? state : { ...state, group: 1 }));

    const wave = cdiv(state.step, k);
    const first = (wave - 1) * sms;
    const last = Math.min(first + sms, m * n) - 1;
    const programs = first < last ? `programs ${first} to ${last}` : `program ${first}`;
    const [where, both] = this.form.querySelector("output").children;
    where.textContent = `Wave ${wave} of ${waves}: ${programs}, step ${state.step - (wave - 1) * k} of ${k} along K.`;
    both.textContent = said.join(" ");
  }

  /** Show the run of one order, and return it in words. */
  show(part, state) {
    const { m, n, k, group, step } = state;
    const [now, end] = [run(state, step), run(state)];
    const [title, svg, bar, caption] = part.children;
    const [rows, columns] = [0, 1].map((axis) => new Set(now.resident.map((tile) => tile[axis])).size);
    title.textContent = group === 1 ? "Row-major" : group < m ? `Groups of ${group} rows` : "Column-major";
    caption.textContent = `Now: ${count(rows, "row")} of A, ${count(columns, "column")} of B. `
      + `From memory: ${now.misses} of ${now.reads} reads so far, ${end.misses} of ${end.reads} in the end.`;
    for (const [name, { misses }] of Object.entries({ now, end })) {
      bar.style.setProperty(`--${name}`, `${(100 * misses) / end.reads}%`);
    }
    const [width, height] = [n, m].map((tiles) => 10 * k + 20 * tiles + 8);
    svg.setAttribute("viewBox", `-2 -2 ${width} ${height}`);
    svg.setAttribute("width", 1.6 * width);
    svg.innerHTML = draw(now, state);
    return (svg.ariaLabel = `${title.textContent}. ${caption.textContent}`);
  }
}

define("swizzle-explorer", SwizzleExplorer);
