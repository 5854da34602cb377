// SPDX-License-Identifier: Apache-2.0
// <scale-blocks>: of which elements, and with which scales.

import { FormExplorer, define } from "../explorer.js";

class ScaleBlocks extends FormExplorer {
  connectedCallback() {
    super.connectedCallback();
    for (const [name, axis] of [["x", "m"], ["w", "n"]]) {
      const grid = this.grid(name);
      const take = (event) => {
        if (event.type === "pointermove" && !event.buttons) return;
        const { left, top, width, height } = grid.getBoundingClientRect();
        const set = (field, share) => {
          const input = this.form.elements[field];
          input.value = Math.floor(share * (Number(input.max) + 1));
        };
        set(axis, (event.clientY - top) / height);
        set("k", (event.clientX - left) / width);
        this.update();
      };
      grid.onpointerdown = grid.onpointermove = take;
    }
  }

  grid(name) {
    return this.querySelector(`.scales__grid[data-of=${name}]`);
  }

  render({ scheme, m, n, k }) {
    const { said, count, ...shared } = this.querySelector(`template[data-scheme=${scheme}]`).dataset;
    const put = (box, r, c, h = 1, w = 1) => {
      for (const [name, value] of Object.entries({ r, c, h, w })) box.style.setProperty(`--${name}`, value);
    };
    const places = ["x", "w"].map((name) => {
      const [tall, wide] = shared[name].split(" ").map(Number);
      const row = name === "x" ? m : n;
      const [grid, scales] = [this.grid(name), this.grid(`${name}-scales`)];
      const [i, j] = [Math.floor(row / tall), Math.floor(k / wide)];
      const [rows, columns] = [Number(this.form.elements[name === "x" ? "m" : "n"].max) + 1, Number(this.form.elements.k.max) + 1];
      put(grid.querySelector(".scales__region"), i * tall, j * wide, tall, wide);
      put(grid.querySelector(".scales__element"), row, k);
      scales.style.setProperty("--rows", rows / tall);
      scales.style.setProperty("--columns", columns / wide);
      put(scales.firstElementChild, i, j);
      return `${name}[${row}, ${k}] has ${name}_scales[${i}, ${j}]`;
    });
    const words = this.querySelector(".scales__said");
    words.firstChild.data = `${said} `;
    words.lastElementChild.textContent = count;
    this.querySelector("output").textContent = `${places.join(", ")}.`;
  }
}

define("scale-blocks", ScaleBlocks);
