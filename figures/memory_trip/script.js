// SPDX-License-Identifier: Apache-2.0
// <memory-trip>: a load sinks to the level where its number is found, and comes back. All depths stand on the page.

import { FormExplorer, define } from "../explorer.js";

/** How far below the surface a load is after so many nanoseconds, if its answer takes `ns`; both in nanoseconds. */
export const depthAt = (time, ns) => Math.max(0, ns - Math.abs(2 * time - ns));

const THUMB = 22; // pixels, as in style.css

class MemoryTrip extends FormExplorer {
  connectedCallback() {
    this.sea = this.querySelector(".trip");
    this.sizes = [...this.querySelectorAll(".trip__sizes span")];
    this.stops = this.sizes.map((stop) => ({ label: stop.textContent, ...stop.dataset }));
    this.dots = [...this.querySelectorAll(".trip__dot")];
    super.connectedCallback();
    this.querySelector(".trip__sea").onclick = ({ clientX }) => this.send(clientX);
  }

  /** Read as much as stands above a place that was clicked, and send a load there. */
  send(clientX) {
    const { left, width } = this.form.size.getBoundingClientRect();
    const share = (clientX - left - THUMB / 2) / (width - THUMB);
    if (share > 1.02) return; // the host's shelf has no size
    this.form.size.value = Math.round(share * (this.stops.length - 1));
    this.bar.again();
    this.update();
  }

  get timing() {
    return { text: (time) => `${time.toLocaleString("en")} ns`, stops: [0, ...this.dots.slice(0, -1).map(({ dataset }) => Number(dataset.ns))] };
  }

  render({ size, time }) {
    const { label, ns, said, where } = this.stops[size];
    const scale = this.dataset.depth / this.dataset.deepest;
    const share = size / (this.stops.length - 1);
    this.dots.at(-1).dataset.ns = ns;
    this.sea.style.setProperty("--mine", `calc(var(--from) + (var(--to) - var(--from)) * ${share})`);
    this.sea.style.setProperty("--deep", ns * scale);
    for (const dot of this.dots) dot.style.setProperty("--now", (depthAt(time, dot.dataset.ns) * scale).toFixed(1));
    this.querySelector(".trip__mine").textContent = label; // in place of what stands there
    this.sizes.forEach((each, i) => (each.style.visibility = Math.abs(i - size) < 4 ? "hidden" : ""));
    this.form.size.setAttribute("aria-valuetext", label);
    this.form.querySelector("output").textContent =
      `${label}, read over and over: found in ${where}. Each load waits ${said} ns.`;
  }
}

define("memory-trip", MemoryTrip);
