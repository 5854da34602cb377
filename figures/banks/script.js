// SPDX-License-Identifier: Apache-2.0
// <banks-explorer>: in which bank a tile's elements lie, and how often an access asks each bank. Its form stands on the
// page (figures/banks/), which has the same rules in Python.

import { FormExplorer, count, define } from "../explorer.js";

const BANKS = 32;
const SIDE = 32; // of the tile
const PIECE = 4; // words that a thread takes at once
const EIGHT = 8; // rows of a wavefront of these

const all = Array.from({ length: SIDE }, (_, i) => i);

/** The words from a row's beginning to the next. */
export const width = ({ kind, pad }) => (kind === "padded" ? SIDE + pad : SIDE);

/** What a row's columns are xored with. */
export const flip = ({ kind, vec, per_phase, max_phase }, row) =>
  (kind === "swizzled" ? ((Math.floor(row / per_phase) % max_phase) * vec) % SIDE : 0);

export const word = (stored, row, column) => row * width(stored) + (column ^ flip(stored, row));

/** Lines of 32 words. */
const lines = (stored) => Math.ceil((width(stored) * SIDE) / BANKS);

/** Why 16 bytes of a row can't be read at once; nothing if they can. */
export function torn(stored) {
  if (stored.kind === "swizzled" && stored.vec < PIECE) return "16 bytes of a row don’t stay side by side";
  return width(stored) % PIECE ? "rows don’t begin at multiples of 16 bytes" : "";
}

/** The elements that are read at once. */
export function accessed({ read, row, column }) {
  if (read === "row") return all.map((each) => [row, each]);
  if (read === "column") return all.map((each) => [each, column]);
  const [rows, columns] = [row - (row % EIGHT), column - (column % PIECE)];
  return all.map((i) => [rows + Math.floor(i / PIECE), columns + (i % PIECE)]);
}

/** How many words each bank is asked for; none if the access can't be made. */
export function queues(state) {
  const asked = all.map(() => 0);
  if (state.read === "pieces" && torn(state)) return asked;
  for (const [row, column] of accessed(state)) asked[word(state, row, column) % BANKS] += 1;
  return asked;
}

export function summary(state) {
  const asked = queues(state);
  const most = Math.max(...asked);
  if (!most) return `Not at once: ${torn(state)}.`;
  if (most === 1) return "1 wavefront: no bank is asked for more than one word.";
  return `${count(most, "wavefront")}: bank ${asked.indexOf(most)} is asked for ${most} words, and gives one at a time.`;
}

/** Where an element is. */
export function detail(state) {
  const { kind, row, column } = state;
  const [place, by] = [word(state, row, column), flip(state, row)];
  const at = column ^ by;
  const xored = kind === "swizzled" ? `: ${column} xor ${by} is ${at}. Word` : ": word";
  return `Row ${row}, column ${column}${xored} ${row} · ${width(state)} + ${at} = ${place}, bank ${place % BANKS}.`;
}

/** The squares of words as an SVG path; what stands one below another in one piece. */
export function outline(words) {
  const runs = [];
  for (const each of words) {
    const last = runs.at(-1);
    if (last && last[0] + last[1] * BANKS === each) last[1] += 1;
    else runs.push([each, 1]);
  }
  return runs.map(([each, many]) => `M${each % BANKS} ${Math.floor(each / BANKS)}h1v${many}h-1z`).join("");
}

export function line({ kind, pad, vec, per_phase, max_phase }) {
  if (kind === "padded") return `gl.PaddedSharedLayout.with_identity_for([[32, ${pad}]], [32, 32], order=[1, 0])`;
  const numbers = kind === "swizzled" ? [vec, per_phase, max_phase] : [1, 1, 1];
  return `gl.SwizzledSharedLayout(${numbers.join(", ")}, order=[1, 0])`;
}

class BanksExplorer extends FormExplorer {
  connectedCallback() {
    this.words = this.querySelector(".banks__words");
    this.svg = this.words.querySelector("svg");
    this.columns = [...this.svg.children];
    this.chosen = this.columns.pop();
    this.bars = [...this.querySelector(".banks__queues").children];
    this.words.onclick = (event) => this.choose(event);
    super.connectedCallback();
  }

  /** Choose the element that lies where somebody pointed. */
  choose({ clientX, clientY }) {
    const box = this.words.getBoundingClientRect();
    const state = this.state;
    const bank = Math.floor(((clientX - box.left) / box.width) * BANKS);
    const place = Math.floor(((clientY - box.top) / box.height) * lines(state)) * BANKS + bank;
    const row = Math.floor(place / width(state));
    const at = place % width(state);
    if (row >= SIDE || at >= SIDE) return; // of padding
    this.form.row.value = row;
    this.form.column.value = at ^ flip(state, row);
    this.update();
  }

  render(state) {
    for (const group of this.querySelectorAll(".banks__of")) group.hidden = group.dataset.kind !== state.kind;
    this.svg.setAttribute("viewBox", `0 0 ${BANKS} ${lines(state)}`);
    this.words.style.setProperty("--lines", lines(state));
    this.columns.forEach((path, column) => path.setAttribute("d", outline(all.map((row) => word(state, row, column)))));
    this.chosen.setAttribute("d", outline(accessed(state).map(([row, column]) => word(state, row, column))));
    queues(state).forEach((many, bank) => this.bars[bank].style.setProperty("--n", many));
    const [said, where] = this.form.querySelectorAll("output");
    said.textContent = summary(state);
    where.textContent = detail(state);
    this.querySelector(".banks__memory").ariaLabel = `Shared memory, 32 banks side by side. ${said.textContent}`;
    this.querySelector(".banks__line code").textContent = line(state);
  }
}

define("banks-explorer", BanksExplorer);
