// SPDX-License-Identifier: Apache-2.0
// A launch that has just run, one load or store after the other: what small tensors held, and who changed it.

import { TimeBar, count, list, write } from "./browser/explorer.js";

const NUMBERS = 64; // elements of a tensor that have room for their values
const WIDEST = 64; // columns of a matrix that fit side by side
const VERBS = { load: "reads", store: "stores", atomic: "changes" };
const make = (tag, className = "") => Object.assign(document.createElement(tag), { className });

/** Where these elements of a tensor are: `3 to 5 and 8`, or in a matrix of so many columns `0 to 1, 3 to 5`. */
function where(offsets, columns) {
  if (!columns) return ranges(offsets);
  const [row, column] = [(at) => Math.floor(at / columns), (at) => ((at % columns) + columns) % columns];
  const [rows, across] = [new Set(offsets.map(row)), new Set(offsets.map(column))];
  const tile = rows.size * across.size === new Set(offsets).size; // and not here and there
  return tile ? `${ranges([...rows])}, ${ranges([...across])}` : ranges(offsets);
}

/** `3 to 5 and 8` of 3, 4, 5 and 8. */
function ranges(offsets) {
  const all = [...new Set(offsets)].sort((a, b) => a - b), found = [];
  for (const each of all) {
    if (found.length && found.at(-1)[1] === each - 1) found.at(-1)[1] = each;
    else found.push([each, each]);
  }
  return list(found.slice(0, 6).map(([first, last]) => (first === last ? first : `${first} to ${last}`)))
    + (found.length > 6 ? " …" : "");
}

class Strip {
  constructor({ name, shape, values }) {
    Object.assign(this, { name, values });
    this.element = make("div", "story__tensor");
    const title = make("code");
    title.textContent = name;
    this.grid = make("div", `story__cells${values.length > NUMBERS ? " story__cells--small" : ""}`);
    const [rows, columns] = shape;
    if (shape.length === 2 && columns <= WIDEST && rows * columns === values.length) {
      this.columns = columns;
      this.grid.style.gridTemplateColumns = `repeat(${columns}, minmax(0, var(--cell)))`;
    }
    this.cells = values.map(() => this.grid.appendChild(make("i")));
    this.element.append(title, this.grid);
  }

  /** Show what these steps have left, the last of which is the present one. */
  draw(steps) {
    const now = [...this.values], by = [];
    for (const { name, op, program, offsets, on, outside, values } of steps) {
      if (name !== this.name || op === "load") continue;
      offsets.forEach((at, lane) => {
        if (!on[lane] || outside.includes(lane)) return;
        now[at] = values[lane];
        by[at] = program;
      });
    }
    const step = steps.at(-1)?.name === this.name ? steps.at(-1) : undefined;
    const classes = now.map((_, at) => (by[at] === undefined ? "story__untouched" : `story__stored pid-${by[at] % 8}`));
    for (const stray of this.grid.querySelectorAll(".story__stray")) stray.remove();
    step?.offsets.forEach((at, lane) => {
      if (step.outside.includes(lane)) {
        const stray = this.grid.appendChild(make("i", "story__stray"));
        stray.textContent = at;
      } else if (!step.on[lane]) {
        if (classes[at]) classes[at] += " story__off";
      } else classes[at] = `story__${step.op === "load" ? "read" : "stored"} pid-${step.program % 8} story__here`;
    });
    this.cells.forEach((cell, at) => {
      if (cell.className !== classes[at]) cell.className = classes[at];
      const text = now.length > NUMBERS ? "" : now[at];
      if (cell.textContent !== text) cell.textContent = text;
    });
  }
}

/** Return an element that tells the story: as the model of Triton gives it, in the form of `story.html`. */
export function story({ tensors, steps }, html) {
  const box = make("div");
  box.innerHTML = html;
  const strips = tensors.map((each) => new Strip(each));
  box.querySelector(".story__tensors").append(...strips.map(({ element }) => element));
  box.querySelector(".story__strays").hidden = !steps.some(({ outside }) => outside.length);
  const said = box.querySelector(".story__now"), bar = box.querySelector(".time-bar");
  const track = bar.querySelector("input");
  for (const name of ["max", "value"]) track.setAttribute(name, steps.length);
  bar.dataset.seconds = Math.min(Math.max(steps.length * 0.5, 3), 12);
  const columns = Object.fromEntries(strips.map((each) => [each.name, each.columns]));
  const draw = (at, playing) => {
    for (const strip of strips) strip.draw(steps.slice(0, at));
    said.replaceChildren(...(at ? told(steps[at - 1], columns) : ["Before the launch."]));
    if (!playing) write(box.querySelector("output"), said.textContent); // else a screen reader would fall behind
  };
  const time = new TimeBar(bar, { draw, text: (at) => `${at} of ${count(steps.length, "step")}` });
  box.firstElementChild.onsubmit = () => false;
  time.show();
  return box;
}

function told({ pid, line, here, code, op, name, offsets, on, outside }, columns) {
  const active = offsets.filter((_, lane) => on[lane]), off = offsets.length - active.length;
  const what = active.length ? `${VERBS[op]} ${name}[${where(active, columns[name])}]` : `touches nothing of ${name}`;
  const more = [];
  if (off) more.push(`${count(off, "lane")} masked off`);
  if (outside.length) more.push(`${count(outside.length, "lane")} out of bounds`);
  const source = make("code");
  source.textContent = code;
  return [`Program ${pid} ${what}${more.length ? ` (${list(more)})` : ""}${here ? `, line ${line}: ` : ": "}`, source];
}
