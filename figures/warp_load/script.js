// SPDX-License-Identifier: Apache-2.0
// <warp-load>: 32 numbers move to where they lie in memory, and their sectors light up. Counts and rates are recorded.

import { FormExplorer, define } from "../explorer.js";

const SECTOR = 8, ROW = 32, CELL = 10, GAP = 4; // as figures/warp_load/ draws them

/** The sectors that come for a warp's load: those wanted, and with `pairs` their neighbors. */
export function sectors(step, pairs) {
  const wanted = new Set(Array.from({ length: ROW }, (_, lane) => Math.floor((lane * step) / SECTOR)));
  const others = [...wanted].map((sector) => sector ^ 1).filter((sector) => pairs && !wanted.has(sector));
  return { wanted, others: new Set(others) };
}

/** Where an element is drawn, in pixels from the left. */
const across = (element) => (element % ROW) * CELL + Math.floor((element % ROW) / SECTOR) * GAP;

class WarpLoad extends FormExplorer {
  connectedCallback() {
    this.svg = this.querySelector("svg");
    this.memory = [...this.svg.querySelectorAll("rect:not([class])")];
    this.numbers = [...this.svg.querySelectorAll(".warp__number")];
    this.above = Number(this.memory[0].getAttribute("y"));
    super.connectedCallback();
    this.svg.onpointerdown = this.svg.onpointermove = (event) => this.drag(event);
  }

  /** Who drags in memory moves the last number of the warp, as far as there is a step that was measured. */
  drag({ buttons, offsetX, offsetY, pointerId, type }) {
    if (!buttons) return;
    if (type === "pointerdown") this.svg.setPointerCapture(pointerId);
    const scale = this.svg.viewBox.baseVal.width / this.svg.clientWidth;
    const row = Math.floor((offsetY * scale - this.above) / CELL);
    const last = row * ROW + Math.min(Math.floor((offsetX * scale) / (CELL + GAP / SECTOR)), ROW - 1);
    const away = (field) => Math.abs(Math.log(field.value / Math.max(last / (ROW - 1), 1)));
    const nearest = [...this.form.elements.step].reduce((a, b) => (away(b) < away(a) ? b : a));
    if (nearest.checked) return;
    nearest.checked = true;
    this.update();
  }

  render({ step }) {
    const notes = [...this.querySelectorAll(".warp__note")];
    for (const note of notes) note.hidden = Number(note.dataset.step) !== step;
    const { dataset, textContent } = notes.find((note) => !note.hidden);
    const { wanted, others } = sectors(step, dataset.pairs === "true");
    this.memory.forEach((rect, sector) => {
      rect.dataset.look = wanted.has(sector) ? "came" : others.has(sector) ? "with" : "";
    });
    const lines = this.numbers.map((rect, lane) => {
      const x = across(lane * step);
      rect.style.setProperty("--x", x);
      rect.style.setProperty("--y", Math.floor((lane * step) / ROW) * CELL + this.above);
      return `M${across(lane) + CELL / 2} ${CELL}L${x + CELL / 2} ${this.above - 1}`;
    });
    this.svg.querySelector(".warp__lines").setAttribute("d", lines.join(""));
    for (const count of this.querySelectorAll("[data-of]")) count.textContent = dataset[count.dataset.of];
    this.svg.setAttribute("aria-label", dataset.about);
    this.form.querySelector("output").textContent = `${dataset.about} ${textContent}`;
  }
}

define("warp-load", WarpLoad);
