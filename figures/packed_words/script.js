// SPDX-License-Identifier: Apache-2.0
// <packed-words>: which part of two words is taken out, and how far.

import { FormExplorer, define } from "../explorer.js";

const STEPS = ["shift", "mask", "subtract"]; // of each part; before the first, the register alone is shown

/** The part at a step, and how many of its instructions are done. */
export function reached(step) {
  return { part: Math.max(0, Math.ceil(step / STEPS.length) - 1), done: step ? ((step - 1) % STEPS.length) + 1 : 0 };
}

/** The four bits of each hexadecimal digit. */
export function bits(digits) {
  return [...digits].map((digit) => parseInt(digit, 16).toString(2).padStart(4, "0"));
}

class PackedWords extends FormExplorer {
  get timing() {
    return { watch: this, text: (step) => (step ? `part ${reached(step).part}, ${STEPS[reached(step).done - 1]}` : "packed") };
  }

  render({ step }) {
    const { part, done } = reached(step);
    const { shifted, magic, sums, numbers } = this.querySelectorAll("template")[part].dataset;
    const cells = (name) => [...this.querySelectorAll(`.packed__${name} > span:not(.packed__what)`)];
    const fill = (name, texts, from) => {
      this.querySelector(`.packed__${name}`).classList.toggle("packed--later", done < from);
      cells(name).forEach((cell, i) => (cell.textContent = texts[i]));
    };
    cells("register").forEach((cell, i) => cell.classList.toggle("packed__taken", step > 0 && i % 4 === 3 - part));
    fill("shift", bits(shifted), 1);
    this.querySelector(".packed__shift .packed__what").textContent = `≫ ${4 * part}`;
    fill("mask", bits(magic), 2);
    fill("sums", sums.split(" ").map((sum) => `128 + ${sum - 128}`), 2);
    fill("numbers", numbers.split(" "), 3);
    const [high, low] = numbers.split(" ");
    const said = [
      "Eight numbers in a register.",
      `Shift right by ${4 * part} bits: part ${part} of both words is at the right end of its half.`,
      `Keep its 4 bits and set those of 128: ${sums.split(" ").reverse().join(" and ")}.`,
      `Subtract: ${low} and ${high}.`,
    ];
    this.querySelector("output").textContent = said[done];
  }
}

define("packed-words", PackedWords);
