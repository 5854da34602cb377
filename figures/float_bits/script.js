// SPDX-License-Identifier: Apache-2.0
// <float-bits>: what is left of a float32 when its last bits are cut off, computed from its recorded bits.

import { FormExplorer, define } from "../explorer.js";

const FRACTION = 23;

/** The number that 32 bits are, as a float32. */
export function valueOf(bits) {
  const view = new DataView(new ArrayBuffer(4));
  view.setUint32(0, parseInt(bits, 2));
  return view.getFloat32(0);
}

/** What is left without the last bits: the bits, the digits that are still right, and those that are not. */
export function cutOff(bits, lost) {
  const left = bits.slice(0, 32 - lost) + "0".repeat(lost);
  const [whole, value] = [bits, left].map((each) => valueOf(each).toFixed(7));
  let same = 0;
  while (same < value.length && whole[same] === value[same]) same++;
  return [left, value.slice(0, same), value.slice(same)];
}

class FloatBits extends FormExplorer {
  get timing() {
    return { watch: this, text: (lost) => `${FRACTION - lost} ${lost === FRACTION - 1 ? "bit" : "bits"}` };
  }

  nameOf(lost) {
    return this.querySelector(`template[data-lost="${lost}"]`)?.innerHTML ?? "";
  }

  render({ lost }) {
    const [, right, wrong] = cutOff(this.dataset.bits, lost);
    this.querySelectorAll(".bits i").forEach((cell, i) => cell.classList.toggle("bits__cut", i >= 32 - lost));
    const name = this.nameOf(lost);
    const say = (of, text) => (this.querySelector(`[data-of=${of}]`).textContent = text);
    say("right", right);
    say("wrong", wrong);
    say("name", name);
    say("kept", FRACTION - lost);
    const as = name && `, as in ${name}`;
    const about = `${FRACTION - lost} of ${FRACTION} bits of the fraction are kept${as}: ${right}${wrong}.`;
    this.querySelector("[role=img]").ariaLabel = about;
    this.querySelector("output").textContent = about;
  }
}

define("float-bits", FloatBits);
