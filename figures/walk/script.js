// SPDX-License-Identifier: Apache-2.0
// <walk-explorer>: a program walks along K. All of its moments stand on the page (figures/walk/), in words and drawn;
// this shows one of them.

import { FormExplorer, define } from "../explorer.js";

class WalkExplorer extends FormExplorer {
  connectedCallback() {
    this.picture = this.querySelector(".walk__picture");
    super.connectedCallback();
    this.picture.onclick = ({ target: { dataset } }) => {
      if (!dataset.tile) return;
      this.form.program.value = dataset.tile;
      this.update();
    };
  }

  get timing() {
    return { text: (moment) => `${moment} of ${this.bar.track.max}` };
  }

  render({ program, moment }) {
    for (const part of this.querySelectorAll("[data-program]")) {
      const other = part.dataset.program !== `${program}`;
      if (part instanceof SVGElement) part.setAttribute("display", other ? "none" : "inline");
      else part.hidden = other;
    }
    this.picture.className = `walk__picture pid-${program % 8}`;

    const words = this.querySelectorAll(`ol[data-program="${program}"] li`)[moment];
    const { part, at, sum, share } = words.dataset;
    this.form.querySelector("output").textContent = words.textContent;
    for (const line of this.querySelectorAll(".walk__code span")) {
      line.ariaCurrent = line.dataset.part === part ? "step" : null;
    }
    // Of each step: what is being done in it now, or whether it is over or to come.
    for (const { dataset } of this.picture.querySelectorAll("[data-at]")) {
      const away = dataset.at - at;
      dataset.state = away < 0 ? "done" : away > 0 ? "later" : part;
    }
    this.picture.dataset.part = part;
    this.picture.style.setProperty("--share", share);
    for (const cell of this.picture.querySelectorAll(".walk__cell--known")) cell.textContent = sum;
    this.slide(program, at);
  }

  /** Move the frames of the two tiles to where this step loads them. */
  slide(program, at) {
    const own = this.picture.querySelector(`g[data-program="${program}"]`);
    const frames = own.querySelectorAll(`[data-at="${Math.max(at, 0)}"] .walk__frame`);
    this.picture.querySelectorAll(".walk__moving").forEach((moving, i) => {
      const frame = frames[i];
      if (frames.length === 2) moving.style.transform = `translate(${frame.getAttribute("x")}px, ${frame.getAttribute("y")}px)`;
    });
  }
}

define("walk-explorer", WalkExplorer);
