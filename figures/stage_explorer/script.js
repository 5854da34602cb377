// SPDX-License-Identifier: Apache-2.0
// <stage-explorer>: a kernel above every stage of its compilation, line tied to line.
// The page holds its first state as plain HTML and all stages as JSON.

import { FormExplorer, count, define } from "../explorer.js";

class StageExplorer extends FormExplorer {
  connectedCallback() {
    if (!this.data) {
      this.data = JSON.parse(this.querySelector("template").content.textContent);
      this.source = this.querySelector(".stages__source");
      this.code = this.querySelector(".stages__code");
      this.status = this.querySelector("output");
      this.tie();
    }
    super.connectedCallback();
  }

  /** Show the chosen stage of the chosen target; AMD's targets have other last stages than NVIDIA's. */
  render({ target, stage }) {
    const { stages, registers, spills, shared } = this.data[target];
    for (const input of this.form.stage) input.disabled = input.parentNode.hidden = !stages[input.value];
    if (!stages[stage]) stage = this.form.stage.value = Object.keys(stages).at(-1);
    const { name, text, lines } = stages[stage];
    this.code.className = `stages__code stage--${stage}`;
    this.code.ariaLabel = `${name} for ${target}`;
    const shown = this.shown ?? Object.values(this.first).join(); // as the page was built
    this.shown = `${target},${stage}`;
    if (this.shown !== shown) {
      // Not firstChild: Material puts its copy button before the code.
      this.code.querySelector("code").replaceChildren(...text.split("\n").map((line, i) => codeLine(lines[i], line)));
      this.code.scrollTop = 0;
    }
    this.facts = `${name} for ${target}: ${registers} registers a thread, ${spills} spilled, `
      + `${shared} bytes of shared memory.`;
    this.status.textContent = this.facts;
    if (this.pinned) this.mark(this.pinned, true);
  }

  /** Point at a line to see its counterparts; click it, or press Enter on it, to keep them marked. */
  tie() {
    for (const line of this.source.querySelectorAll("[data-line]")) {
      line.tabIndex = 0;
      line.setAttribute("role", "button");
      line.setAttribute("aria-pressed", "false");
    }
    const lineAt = (event) => event.target.closest?.("[data-line]")?.dataset.line;
    const pin = (number) => {
      this.pinned = this.pinned === number ? undefined : number;
      for (const line of this.source.querySelectorAll("[data-line]"))
        line.setAttribute("aria-pressed", String(line.dataset.line === this.pinned));
      this.mark(this.pinned, true);
    };
    this.onmouseover = (event) => this.pinned || this.mark(lineAt(event), this.source.contains(event.target));
    this.onmouseleave = () => this.pinned || this.mark();
    this.onclick = (event) => lineAt(event) && pin(lineAt(event));
    this.source.onkeydown = (event) => {
      if ((event.key === "Enter" || event.key === " ") && lineAt(event)) {
        event.preventDefault();
        pin(lineAt(event));
      }
    };
  }

  mark(number, scroll = false) {
    this.querySelectorAll(".is-tied").forEach((line) => line.classList.remove("is-tied"));
    const tied = number ? this.querySelectorAll(`[data-line="${number}"]`) : [];
    tied.forEach((line) => line.classList.add("is-tied"));
    const inCode = [...tied].filter((line) => this.code.contains(line));
    this.status.textContent = number ? `Line ${number} became ${count(inCode.length, "line")} here.` : this.facts;
    if (scroll && inCode.length) {
      const { offsetTop, offsetHeight } = inCode[0];
      const { scrollTop, clientHeight } = this.code;
      const below = offsetTop + offsetHeight - clientHeight > scrollTop;
      if (offsetTop < scrollTop || below) this.code.scrollTop = offsetTop - 40;
    }
  }
}

function codeLine(number, text) {
  const line = document.createElement("span");
  line.className = "code-line";
  if (number) line.dataset.line = number;
  const margin = document.createElement("span");
  margin.className = "code-line__number";
  margin.textContent = number || "";
  line.append(margin, `${text}\n`);
  return line;
}

define("stage-explorer", StageExplorer);
