// SPDX-License-Identifier: Apache-2.0
// <outlier-bars>: how large the large number is, and for how many there is a scale.

import { FormExplorer, define } from "../explorer.js";

const [LARGEST, LEAST_NORMAL, LEAST, LOW, HIGH] = [448, 2 ** -6, 2 ** -9, -10, 20];

/** The nearest float8_e4m3fn, from halfway the even one. */
export function e4m3(x) {
  if (!x) return 0;
  const step = 2 ** (Math.max(Math.floor(Math.log2(Math.abs(x))), -6) - 3);
  const down = Math.floor(x / step);
  const rest = x / step - down;
  return Math.max(-LARGEST, Math.min((rest > 0.5 || (rest === 0.5 && down % 2) ? down + 1 : down) * step, LARGEST));
}

/** Of ten numbers, with a scale for each so many: what comes back of each, and how it fares. */
export function bars(numbers, size) {
  return numbers.map((number, i) => {
    const first = i - (i % size);
    const scale = Math.fround(Math.max(...numbers.slice(first, first + size).map((n) => Math.fround(Math.abs(n)))) / LARGEST);
    const q = e4m3(Math.fround(Math.fround(number) / scale));
    return [Math.fround(q * scale), !q ? "lost" : Math.abs(q) < LEAST_NORMAL ? "coarse" : "kept"];
  });
}

export function height(number) {
  return Math.min(Math.max((Math.log2(Math.abs(number)) - LOW) / (HIGH - LOW), 0), 1);
}

export function brief(number) {
  if (Math.abs(number) >= 9999.5) return `${Math.round(number / 1000)}k`;
  const text = Math.abs(number) < 99.5 ? String(Number(number.toPrecision(2))) : number.toFixed(0);
  return number ? text.replace("0.", ".").replace("-", "−") : "0";
}

const raised = (power) => [...String(power)].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("");

class OutlierBars extends FormExplorer {
  connectedCallback() {
    this.numbers = this.dataset.numbers.split(" ").map(Number);
    super.connectedCallback();
    const chart = this.querySelector(".outlier__chart");
    const drag = ({ clientY, buttons, type }) => {
      if (type !== "pointerdown" && !buttons) return;
      const { top, height: tall } = chart.getBoundingClientRect();
      this.bar.hold();
      this.bar.value = Math.round(LOW + (1 - (clientY - top) / tall) * (HIGH - LOW));
      this.bar.show();
    };
    const large = chart.querySelector(".outlier__large");
    large.onpointerdown = (event) => (large.setPointerCapture(event.pointerId), drag(event));
    large.onpointermove = drag;
  }

  get timing() {
    return { watch: this, text: (power) => `2${raised(power)}` };
  }

  render({ power, scheme }) {
    const numbers = this.numbers.map((number, i) => (i === Number(this.dataset.grows) ? 2 ** power : number));
    const size = scheme === "one" ? 10 : 5;
    const found = bars(numbers, size);
    const cells = (row) => this.querySelectorAll(`.outlier__row${row} b`);
    const [was, is] = [cells(":not(.outlier__back)"), cells(".outlier__back")];
    this.querySelectorAll(".outlier__bar").forEach((bar, i) => {
      const [back, state] = found[i];
      for (const each of ["kept", "coarse", "lost"]) {
        for (const element of [bar, is[i]]) element.classList.toggle(`outlier--${each}`, each === state);
      }
      bar.style.setProperty("--share", height(numbers[i]).toFixed(4));
      was[i].textContent = brief(numbers[i]);
      is[i].textContent = brief(back);
    });
    this.querySelectorAll(".outlier__window").forEach((part, i) => {
      part.hidden = i * size >= 10;
      part.classList.toggle("outlier__window--half", size === 5);
      if (part.hidden) return;
      const largest = Math.max(...numbers.slice(i * size, i * size + size).map(Math.abs));
      const at = { top: largest, normal: (largest * LEAST_NORMAL) / LARGEST, least: (largest * LEAST) / LARGEST };
      for (const [name, number] of Object.entries(at)) part.style.setProperty(`--${name}`, height(number).toFixed(4));
    });
    const count = (state) => found.filter((each) => each[1] === state).length;
    this.querySelector("output").textContent = `${count("lost")} of 10 numbers became zero, and ${count("coarse")} lost some of their precision.`;
  }
}

define("outlier-bars", OutlierBars);
