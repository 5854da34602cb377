// SPDX-License-Identifier: Apache-2.0
// <strides-explorer>: the way to an element along the line of memory, by the strides of a view.

import { FormExplorer, define } from "../explorer.js";

const STEP = 40; // as in __init__.py

/** The way to an element: of what stride each jump is, where it begins and where it ends. */
export function jumps(row, column, stride) {
  const start = row * stride.row;
  const by = (kind, times, from) => Array.from({ length: times }, (_, i) => (
    [kind, from + i * stride[kind], from + (i + 1) * stride[kind]]));
  return [...by("row", row, 0), ...by("column", column, start)];
}

/** The square to which a key leads: up and down a row, left and right a column, Home and End along the row. */
export function toward(key, [row, column], { rows, columns }) {
  const within = (value, size) => Math.min(Math.max(value, 0), size - 1);
  const to = {
    ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
    Home: [row, 0], End: [row, columns - 1],
  }[key];
  return to && [within(to[0], rows), within(to[1], columns)];
}

const arc = ([kind, start, end]) => `<path class="strides--${kind}" d="M${(start + 0.5) * STEP} 64Q${
  ((start + end + 1) / 2) * STEP} ${64 - 2 * (18 + Math.min((end - start) * 7, 40))} ${(end + 0.5) * STEP} 64"/>`;

class StridesExplorer extends FormExplorer {
  connectedCallback() {
    super.connectedCallback();
    const matrix = this.querySelector(".strides__matrix");
    matrix.onkeydown = (event) => { // else both arrows would go through the squares one after another
      const modified = event.altKey || event.ctrlKey || event.metaKey || event.shiftKey;
      const place = event.target.value.split("-").map(Number);
      const to = !modified && toward(event.key, place, this.views[this.state.view]);
      if (!to) return;
      event.preventDefault();
      const field = matrix.querySelector(`[value="${to.join("-")}"]`);
      field.focus();
      field.click();
    };
    this.querySelector(".strides__line").onclick = ({ target }) => {
      const { element } = target.closest("i")?.dataset ?? {};
      if (element) this.querySelector(`[value="${element}"]`).click();
    };
  }

  get views() {
    return [...this.querySelectorAll("template")].map(({ dataset }) => (
      Object.fromEntries(Object.entries(dataset).map(([name, value]) => [name, Number(value)]))));
  }

  render({ view, element }) {
    const { rows, columns, row: stride_row, column: stride_column, before, places } = this.views[view];
    let [row, column] = element.split("-").map(Number);
    // A transposed matrix has the same element at another place; a smaller one may not have it at all.
    if (row >= rows || column >= columns) [row, column] = column < rows && row < columns ? [column, row]
      : [Math.min(row, rows - 1), Math.min(column, columns - 1)];
    const at = (r, c) => r * stride_row + c * stride_column;
    const here = at(row, column);

    const elements = {}; // by offset
    for (const label of this.querySelectorAll(".strides__matrix label")) {
      const field = label.firstElementChild;
      const [r, c] = field.value.split("-").map(Number);
      const inside = r < rows && c < columns;
      field.disabled = !inside;
      label.classList.toggle("strides--away", !inside);
      label.lastElementChild.textContent = at(r, c);
      if (inside) elements[at(r, c)] = field.value;
      if (r === row && c === column) field.checked = true;
    }
    const way = jumps(row, column, { row: stride_row, column: stride_column });
    const ends = new Set(way.flatMap(([, ...both]) => both));
    this.querySelectorAll(".strides__line i").forEach((place, i) => {
      const offset = i - before;
      place.className = i >= places ? "strides--away" : offset in elements ? "strides--in" : "";
      place.dataset.element = elements[offset] ?? "";
      place.classList.toggle("strides--here", offset === here);
      place.classList.toggle("strides--end", ends.has(offset));
      place.firstElementChild.textContent = offset < 0 ? "" : offset;
    });
    this.querySelector(".strides__memory").style.setProperty("--most", places);
    this.querySelector(".strides__matrix").style.setProperty("--rows", rows);
    const picture = this.querySelector("svg");
    picture.setAttribute("viewBox", `0 0 ${places * STEP} 66`);
    picture.innerHTML = way.map(([kind, ...ends]) => arc([kind, ...ends.map((end) => end + before)])).join("");
    this.querySelector(".strides__what").textContent = `row ${row}, column ${column}`;
    const [down, across, sum] = this.querySelector(".strides__terms").children;
    down.textContent = `${row} · ${stride_row}`;
    across.textContent = `${column} · ${stride_column}`;
    sum.textContent = here;
    const [one, two] = this.querySelectorAll(".strides__note b");
    one.textContent = stride_row;
    two.textContent = stride_column;
    this.querySelector("output").textContent = (
      `Row ${row}, column ${column}: ${row} times ${stride_row} plus ${column} times ${stride_column} is ${here}.`);
  }
}

define("strides-explorer", StridesExplorer);
