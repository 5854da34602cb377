// SPDX-License-Identifier: Apache-2.0
// <packed-words>: which part of two words is taken out, and how far.

import { FormExplorer, define } from "../explorer.js";

const STEPS = ["shift", "mask", "multiply"]; // of each part; before the first, the register alone is shown

/** The part at a step, and how many of its instructions are done. */
export function reached(step) {
  return { part: Math.max(0, Math.ceil(step / STEPS.length) - 1), done: step ? ((step - 1) % STEPS.length) + 1 : 0 };
}

/** The four bits of each hexadecimal digit. */
function bits(digits) {
  return [...digits].map((digit) => parseInt(digit, 16).toString(2).padStart(4, "0"));
}

class PackedWords extends FormExplorer {
  get timing() {
    return { watch: this, text: (step) => (step ? `part ${reached(step).part}, ${STEPS[reached(step).done - 1]}` : "packed") };
  }

  render({ step }) {
    const { part, done } = reached(step);
    const { by, shifted, mask, masked, read, up, numbers } = this.querySelectorAll("template")[part].dataset;
    const cells = (name) => [...this.querySelectorAll(`.packed__${name} > span:not(.packed__what)`)];
    const place = 3 - (part % 2); // of the bits, in each half, after the shift
    const fill = (name, from, texts, what) => {
      this.querySelector(`.packed__${name}`).classList.toggle("packed--later", done < from);
      cells(name).forEach((cell, i) => (cell.textContent = texts[i]));
      if (what) this.querySelector(`.packed__${name} .packed__what`).textContent = what;
    };
    const take = (name, at) => cells(name).forEach((cell, i) => cell.classList.toggle("packed__taken", i % 4 === at));
    const results = numbers.split("|").map((number) => `${number} / 64`);
    const zero = this.dataset.zero;
    take("register", step ? 3 - part : -1);
    take("shift", place);
    take("mask", place);
    fill("shift", 1, bits(shifted), `≫ ${by}`);
    fill("mask", 2, bits(masked), `& ${mask}`);
    fill("read", 2, read.split("|"));
    fill("numbers", 3, results, `× ${up} − ${zero}/64`);
    this.querySelector("output").textContent = [
      "Eight numbers in a register.",
      `Shift right by ${by} bits.`,
      `Keep 4 bits of each half. As a bfloat16 they are ${read.split("|").reverse().join(" and ")}.`,
      `Multiply by ${up} and subtract ${zero}/64: ${results.reverse().join(" and ")}.`,
    ][done];
  }
}

define("packed-words", PackedWords);
