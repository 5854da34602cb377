// SPDX-License-Identifier: Apache-2.0
// <sum-order>: recorded parts added in other orders, as float32.

import { FormExplorer, count, define } from "../explorer.js";

/** The sums in float32 after each part, added one after the other. */
export function running(parts, order) {
  let total = 0;
  return order.map((i) => (total = Math.fround(total + Math.fround(parts[i]))));
}

/** A float32 with as many digits as tell it from its neighbors, as Python's `.9g` writes it. */
export function digits(value) {
  return String(Number(value.toPrecision(9)));
}

/** What the picture says, of the runs up to one. */
export function about(results) {
  const different = new Set(results).size;
  return `Run ${results.length}: the parts add up to ${results.at(-1)}. So far, ${count(different, "different result")}.`;
}

class SumOrder extends FormExplorer {
  get timing() {
    return { watch: this, text: (run) => `run ${run}` };
  }

  render({ run }) {
    const parts = this.dataset.parts.split(" ").map(Number);
    const orders = [...this.querySelectorAll("template")].map((each) => each.dataset.order.split(" ").map(Number));
    const results = orders.slice(0, run).map((order) => digits(running(parts, order).at(-1)));
    const order = orders[run - 1];
    const totals = running(parts, order).map(digits);
    this.querySelectorAll(".order__sums > ol:not(.order__totals) > li").forEach((row, part) => row.style.setProperty("--at", order.indexOf(part)));
    this.querySelectorAll(".order__totals > li").forEach((cell, i) => (cell.textContent = totals[i]));
    const seen = [...new Set(results)].sort((a, b) => a - b);
    this.querySelector(".order__seen ul").replaceChildren(...seen.map((result) => {
      const entry = Object.assign(document.createElement("li"), { textContent: result });
      entry.classList.toggle("order__now", result === results.at(-1));
      return entry;
    }));
    this.querySelector("[role=img]").ariaLabel = this.querySelector("output").textContent = about(results);
  }
}

define("sum-order", SumOrder);
