// SPDX-License-Identifier: Apache-2.0
// <blocked-explorer>: which thread of a warp holds which elements of a tile. Its form stands on the page
// (figures/blocked/), which has the same rule in Python.

import { FormExplorer, define } from "../explorer.js";

const SIDES = [16, 32]; // of the tile: rows, columns
const WARP = 32; // threads
const WIDEST = 4; // float32 in the 16 bytes that a thread loads at once
const SECTOR = 8; // float32 in the 32 bytes that memory gives at once

/** Row and column of the elements that a thread holds, by register. */
export function held({ size, threads, order }, thread) {
  const repeats = SIDES.map((side, axis) => Math.max(1, side / (size[axis] * threads[axis])));
  const registers = size[0] * size[1] * repeats[0] * repeats[1];
  return Array.from({ length: registers }, (_, register) => {
    const place = [0, 0];
    let lane = thread;
    for (const axis of order) {
      place[axis] = (lane % threads[axis]) * size[axis] + (register % size[axis]);
      lane = Math.floor(lane / threads[axis]);
      register = Math.floor(register / size[axis]);
    }
    for (const axis of order) { // the pattern is repeated along the first axis, then along the other
      const again = register % repeats[axis];
      place[axis] = (place[axis] + again * size[axis] * threads[axis]) % SIDES[axis];
      register = Math.floor(register / repeats[axis]);
    }
    return place;
  });
}

/** The elements of a load: registers in a row whose elements are neighbors in memory. */
export function width(layout) {
  const own = held(layout, 0);
  const [[row, column]] = own;
  let run = 1;
  while (run < own.length && own[run][0] === row && own[run][1] === column + run) run += 1;
  return Math.min(WIDEST, run);
}

const index = ([row, column]) => row * SIDES[1] + column;
const span = (word, first, many) => (many === 1 ? `${word} ${first}` : `${word}s ${first}–${first + many - 1}`);

/** What the first load takes from memory: the elements, and a sentence. */
export function firstLoad(layout) {
  const wide = width(layout);
  const all = Array.from({ length: WARP }, (_, thread) => held(layout, thread).slice(0, wide)).flat();
  const elements = new Set(all.map(index));
  const sectors = new Set(all.map((place) => Math.floor(index(place) / SECTOR))).size;
  const [used, fetched] = [4 * elements.size, 4 * SECTOR * sectors];
  const share = used === fetched ? "all of which are used" : `of which ${used} are used`;
  const sentence = `One load of the warp takes ${4 * wide} bytes for each thread: ${sectors} sectors of 32 bytes, `
    + `${fetched.toLocaleString("en")} bytes, ${share}.`;
  return { elements, sentence };
}

/** Which elements a thread holds, in pieces of neighbors. */
export function detail(layout, thread) {
  const pieces = [];
  held(layout, thread).forEach(([row, column], register) => {
    const last = pieces.at(-1);
    if (last && last.row === row && last.column + last.many === column) last.many += 1;
    else pieces.push({ register, row, column, many: 1 });
  });
  const words = pieces.map(({ register, row, column, many }) =>
    `row ${row}, ${span("column", column, many)}, in ${span("register", register, many)}`);
  if (words.length > 2) words.splice(1, words.length - 2, "…");
  const copies = (WARP * held(layout, thread).length) / (SIDES[0] * SIDES[1]);
  return `Thread ${thread} holds ${words.join("; ")}.${copies > 1 ? ` ${copies} threads hold each element.` : ""}`;
}

const numbers = (text) => text.split(",").map(Number);

class BlockedExplorer extends FormExplorer {
  connectedCallback() {
    this.tile = this.querySelector(".blocked__tile");
    this.cells = [...this.tile.children];
    this.tile.onclick = ({ target }) => {
      if (!this.cells.includes(target)) return;
      this.form.thread.value = this.owner[this.cells.indexOf(target)];
      this.update();
    };
    super.connectedCallback();
  }

  render({ size, threads, order, thread }) {
    const layout = { size: numbers(size), threads: numbers(threads), order: numbers(order) };
    const { elements, sentence } = firstLoad(layout);
    this.owner = [];
    for (let each = WARP - 1; each >= 0; each -= 1) {
      for (const place of held(layout, each)) this.owner[index(place)] = each;
    }
    const own = new Set(held(layout, thread).map(index));
    this.cells.forEach((cell, i) => {
      cell.textContent = this.owner[i];
      cell.classList.toggle("blocked__loaded", elements.has(i));
      cell.classList.toggle("blocked__own", own.has(i));
    });
    const [summary, said] = this.form.querySelectorAll("output");
    summary.textContent = sentence;
    said.textContent = detail(layout, thread);
    this.tile.ariaLabel = `A tile of 16 rows and 32 columns. ${said.textContent}`;
    const [a, b, c] = [size, threads, order].map((text) => `[${text.replace(",", ", ")}]`);
    this.querySelector(".blocked__line code").textContent = `gl.BlockedLayout(${a}, ${b}, [1, 1], order=${c})`;
  }
}

define("blocked-explorer", BlockedExplorer);
