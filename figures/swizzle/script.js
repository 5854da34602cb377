// SPDX-License-Identifier: Apache-2.0
// <swizzle-explorer>: an order of programs, what they read, what a cache keeps of it, and the race with row-major.

import { FormExplorer, cdiv, count, define } from "../explorer.js";

const range = (length) => Array.from({ length }, (_, i) => i);
const misses = (number) => `${number} ${number === 1 ? "miss" : "misses"}`;

/** The tile of C of every program, as the kernel and tl.swizzle2d have it: [row, column] by pid.
    A GPU counts the programs of a grid with two axes along axis 0 first, tl.swizzle2d along axis 1. */
export function order({ m, n, group, axes }) {
  return range(m * n).map((number) => {
    const pid = axes === 2 ? (number % m) * n + Math.floor(number / m) : number;
    const before = Math.floor(pid / (group * n)) * group; // rows in the groups before
    const rows = Math.min(group, m - before);
    const place = pid % (group * n);
    return [before + (place % rows), Math.floor(place / rows)];
  });
}

/** A run, or its first steps. Resident programs take each step along K together, one after the other;
    the cache drops what was used longest ago. */
export function run({ m, n, k, group, axes, sms, cache }, steps = Infinity) {
  const tiles = order({ m, n, group, axes });
  const hits = tiles.map(() => ({ A: [], B: [] })); // of each program, step by step
  const kept = new Set(); // in the order of their last use
  let [reads, missed, now, resident] = [0, 0];
  for (let step = 0; step < Math.min(steps, k * cdiv(m * n, sms)); step++) {
    const [s, first] = [step % k, Math.floor(step / k) * sms];
    resident = tiles.slice(first, first + sms);
    now = new Map(); // tile: whether it came from memory
    resident.forEach(([i, j], place) => {
      for (const tile of [`A${i},${s}`, `B${s},${j}`]) {
        const hit = kept.delete(tile);
        kept.add(tile);
        if (kept.size > cache) kept.delete(kept.values().next().value);
        now.set(tile, now.get(tile) || !hit);
        hits[first + place][tile[0]].push(hit);
        reads += 1;
        missed += !hit;
      }
    });
  }
  return { tiles, kept, now, resident, hits, reads, misses: missed };
}

/** In how many rows and columns of tiles a wave stands. */
const spread = ({ resident }) => [0, 1].map((axis) => new Set(resident.map((tile) => tile[axis])).size);
const ROW_MAJOR = { group: 1, axes: 1 };

function title({ m, group, axes }) {
  if (axes === 2) return group === 1 ? "2-D, no groups" : `2-D, groups of ${group}`;
  return group === 1 ? "Row-major" : group < m ? `Groups of ${group} rows` : "Column-major";
}

// C with A at its left and B above it. A tile of C is 20 wide, along K half of it.
const edgeOf = (k) => 10 * k + 6;

/** The content of the <svg>. `chosen`: a program whose reads it shows. */
function draw({ tiles, kept, now }, { m, n, k, sms, step }, chosen) {
  const edge = edgeOf(k);
  const paths = {}; // by kind of tile
  const put = (kind, x, y, w, h) => (paths[kind] = `${paths[kind] ?? ""}M${x} ${y}h${w}v${h}h-${w}z`);
  const [row, column] = chosen?.tile ?? [];
  const kind = (tile) => now.has(tile) ? (now.get(tile) ? "miss" : "hit") : kept.has(tile) ? "kept" : "memory";
  const own = (matrix, s) => `own ${chosen.hits[matrix][s] ? "hit" : "miss"}`;
  for (const s of range(k)) {
    for (const i of range(m)) put(i === row ? own("A", s) : kind(`A${i},${s}`), 10 * s, edge + 20 * i, 8, 18);
    for (const j of range(n)) put(j === column ? own("B", s) : kind(`B${s},${j}`), edge + 20 * j, 10 * s, 18, 8);
  }
  const text = (x, y, words, as = "") => `<text${as} x="${x}" y="${y}">${words}</text>`;
  const texts = tiles.map(([i, j], pid) => {
    const wave = Math.floor(pid / sms);
    const away = wave - cdiv(step, k) + 1;
    const here = i === row && j === column;
    const when = here ? "chosen" : away < 0 ? "done" : away ? "later" : "now";
    put(`pid-${wave % 8} ${when}`, edge + 20 * j, edge + 20 * i, 18, 18);
    return text(edge + 20 * j + 9, edge + 20 * i + 12, pid, ` class="${when}"`);
  });
  if (chosen) {
    put("frame", -2, edge + 20 * row - 2, 10 * k + 2, 22);
    put("frame", edge + 20 * column - 2, -2, 22, 10 * k + 2);
  }
  const all = Object.entries(paths).map(([kind, path]) => `<path class="${kind}" d="${path}"></path>`);
  return [...all, ...texts, text(edge - 9, 5 * k + 4, "B"), text(5 * k - 1, edge - 6, "A")].join("");
}

/** Show in a row of the race how far an order has come, and return it in words. */
function race(racer, state, now, end, full) {
  const [name, bar, number] = racer.children;
  name.textContent = title(state);
  number.textContent = `${now.misses} of ${end.misses}`;
  bar.style.setProperty("--now", now.misses / full);
  bar.style.setProperty("--end", end.misses / full);
  const [rows, columns] = spread(now);
  return `${title(state)}. Now: ${count(rows, "row")} of A, ${count(columns, "column")} of B. `
    + `From memory: ${now.misses} of ${now.reads} reads so far, ${end.misses} of ${end.reads} in the end.`;
}

class SwizzleExplorer extends FormExplorer {
  connectedCallback() {
    this.svg = this.querySelector(".swizzle__picture svg");
    this.curve = this.querySelector(".swizzle__curve div");
    this.racers = [...this.querySelectorAll(".swizzle__race p")];
    this.presets = [...this.querySelectorAll("[data-preset]")];
    super.connectedCallback();
    this.svg.onpointermove = (event) => event.pointerType !== "touch" && this.hover(this.under(event));
    this.svg.onpointerleave = () => this.hover();
    this.svg.onclick = (event) => this.choose(this.under(event));
    for (const preset of this.presets) preset.onclick = () => this.set(JSON.parse(preset.dataset.preset));
  }

  get timing() {
    return { text: (step) => `step ${step} of ${this.bar.track.max}` };
  }

  render({ m, n, k, sms, program }) {
    const waves = cdiv(m * n, sms);
    this.form.group.max = m; // which corrects the values
    this.bar.track.max = k * waves;
    this.form.program.max = m * n - 1;
    if (program >= m * n || program < 0) this.form.program.value = "";
    for (const number of this.querySelectorAll("input + b")) number.textContent = number.previousElementSibling.value;
    const { state } = this;
    this.plot(state);
    this.now = run(state, state.step);
    const rowMajor = { ...state, ...ROW_MAJOR };
    const ends = [this.rowMajor, this.runs[state.group - 1]];
    const full = Math.max(...ends.map((end) => end.misses));
    const texts = [[rowMajor, run(rowMajor, state.step)], [state, this.now]].map(
      ([order, now], i) => race(this.racers[i], order, now, ends[i], full));

    const wave = cdiv(state.step, k);
    const first = (wave - 1) * sms;
    const last = Math.min(first + sms, m * n) - 1;
    const programs = first < last ? `programs ${first} to ${last}` : `program ${first}`;
    const [rows, columns] = spread(this.now);
    const [where, both] = this.form.querySelector("output").children;
    where.textContent = `Wave ${wave} of ${waves}, step ${state.step - (wave - 1) * k} of ${k}: ${programs}, `
      + `in ${count(rows, "row")} and ${count(columns, "column")}. `;
    both.textContent = texts.join(" ");
    this.svg.ariaLabel = texts[1];
    const [width, height] = [n, m].map((tiles) => 10 * k + 20 * tiles + 8);
    this.svg.setAttribute("viewBox", `-2 -2 ${width} ${height}`);
    for (const preset of this.presets) {
      const values = Object.entries(JSON.parse(preset.dataset.preset));
      preset.ariaPressed = values.every(([name, value]) => state[name] === value);
    }
    this.point(this.hovered ?? state.program);
  }

  /** The runs of all groups, and the curve of what they read from memory. */
  plot({ m, n, k, sms, cache, axes, group }) {
    const sizes = JSON.stringify([m, n, k, sms, cache, axes]);
    if (sizes !== this.sizes) {
      this.sizes = sizes;
      this.runs = range(m).map((i) => run({ m, n, k, sms, cache, axes, group: i + 1 }));
      this.rowMajor = run({ m, n, k, sms, cache, ...ROW_MAJOR });
      const most = Math.max(...this.runs.map((each) => each.misses));
      const at = this.runs.map((each, i) => [m > 1 ? i / (m - 1) : 0.5, each.misses / most]);
      const line = at.map(([x, y]) => `${x},${1 - y}`).join(" ");
      const dots = at.map(([x, y], i) => `<i style="--x: ${x}; --y: ${y}" data-group="${i + 1}"
        data-misses="${this.runs[i].misses}"></i>`);
      this.curve.innerHTML = `<svg viewBox="0 0 1 1" preserveAspectRatio="none" aria-hidden="true">
        <polyline points="${line}"></polyline></svg>${dots.join("")}`;
    }
    const end = this.runs[group - 1].misses;
    [...this.curve.querySelectorAll("i")].forEach((dot, i) => (dot.className = i === group - 1 ? "swizzle__here" : ""));
    this.form.group.ariaValueText = `${count(group, "row")}: ${end} tiles from memory`;
  }

  /** Show the picture, and in it what one program reads. */
  point(program, live = "polite") {
    const { state } = this;
    const { tiles, hits } = this.runs[state.group - 1];
    const chosen = tiles[program] && { tile: tiles[program], hits: hits[program] };
    this.svg.innerHTML = draw(this.now, state, chosen);
    this.svg.classList.toggle("swizzle--chosen", !!chosen);
    const detail = this.querySelector(".explorer__detail");
    detail.ariaLive = this.bar.playing ? "off" : live; // a screen reader would fall behind
    const [row, column] = chosen?.tile ?? [];
    const share = (all) => {
      const hit = all.filter(Boolean).length;
      return [hit && count(hit, "hit"), hit < all.length && misses(all.length - hit)].filter(Boolean).join(", ");
    };
    detail.textContent = chosen ? `Program ${program}, wave ${Math.floor(program / state.sms) + 1}. `
      + `Row ${row} of A: ${share(chosen.hits.A)}. Column ${column} of B: ${share(chosen.hits.B)}.`
      : "Point at a tile of C, or tap it, to see what its program reads.";
  }

  /** The program whose tile of C is under a pointer, or nothing. */
  under({ clientX, clientY }) {
    const { x, y } = new DOMPoint(clientX, clientY).matrixTransform(this.svg.getScreenCTM().inverse());
    const [i, j] = [y, x].map((at) => Math.floor((at + 1 - edgeOf(this.state.k)) / 20));
    const index = this.now.tiles.findIndex(([row, column]) => row === i && column === j);
    return index < 0 ? undefined : index;
  }

  hover(program) {
    if (program === this.hovered) return;
    this.hovered = program;
    this.point(program ?? this.state.program, "off");
  }

  choose(program) {
    this.form.program.value = program === this.state.program ? "" : program ?? "";
    this.update();
  }

  set(values) {
    for (const [name, value] of Object.entries(values)) this.form[name].value = value;
    this.update();
  }
}

define("swizzle-explorer", SwizzleExplorer);
