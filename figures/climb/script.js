// SPDX-License-Identifier: Apache-2.0
// <climb-figure>: a step moves the tile, the dot and the lines together.

import { FormExplorer, define } from "../explorer.js";

class ClimbFigure extends FormExplorer {
  connectedCallback() {
    this.codes = [...this.querySelectorAll(".climb__code ol")];
    this.bars = [...this.querySelectorAll(".climb__steps button")];
    this.picture = this.querySelector(".climb");
    super.connectedCallback();
    this.bars.forEach((bar, step) => {
      bar.disabled = false;
      bar.onclick = () => this.show(step);
      bar.onkeydown = (event) => { // a toolbar: one stop for Tab, arrows move within
        const [before, after] = [step - 1, step + 1];
        const keys = { ArrowUp: before, ArrowLeft: before, ArrowDown: after, ArrowRight: after };
        const next = { ...keys, Home: 0, End: this.bars.length - 1 }[event.key];
        if (!this.bars[next]) return;
        event.preventDefault();
        this.show(next);
        this.bars[next].focus();
      };
    });
  }

  show(step) {
    this.bar.hold();
    this.bar.value = step;
    this.update();
  }

  get timing() {
    return { text: (step) => `step ${step + 1} of ${this.codes.length}` };
  }

  render({ step }) {
    const find = (name) => this.querySelector(`.climb__${name}`);
    const { title, operations, tile, order, about } = this.codes[step].dataset;
    this.codes.forEach((code, i) => { code.hidden = i !== step; });
    const [high, wide] = tile.split(" ").map((side) => Number(side) / 256);
    this.picture.style.setProperty("--high", high);
    this.picture.style.setProperty("--wide", wide);
    this.picture.style.setProperty("--grid", high < 0.01 ? 0 : 1); // too fine to be drawn
    find("what").textContent = title;
    find("gain").firstChild.textContent = operations;
    this.bars.forEach((bar, i) => {
      bar.classList.toggle("climb__later", i > step);
      bar.ariaCurrent = i === step ? "step" : "false";
      bar.tabIndex = i === step ? 0 : -1;
    });
    const numbers = JSON.parse(order);
    find("order").style.visibility = numbers.length ? "" : "hidden";
    [...find("c").querySelectorAll("em")].forEach((label, i) => {
      label.textContent = numbers[Math.floor(i / 2)]?.[i % 2] ?? "";
    });
    const dots = [...this.querySelectorAll(".climb__dot")];
    dots.forEach((dot, i) => dot.classList.toggle("climb__dot--later", i > step));
    find("here").style.cssText = dots[step].style.cssText;
    const passed = dots.slice(0, step + 1).map(({ style }) => `${10 * parseFloat(style.left)},${10 * parseFloat(style.top)}`);
    this.querySelector("polyline").setAttribute("points", passed.join(" "));
    this.form.querySelector("output").textContent = about;
  }
}

define("climb-figure", ClimbFigure);
