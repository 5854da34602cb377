// SPDX-License-Identifier: Apache-2.0
// <stage-explorer>: a kernel beside every stage of its compilation, line tied to line.
// The page holds its first state as plain HTML and all stages as JSON.

import { FormExplorer, count, define } from "../explorer.js";

class StageExplorer extends FormExplorer {
  connectedCallback() {
    if (!this.data) {
      this.data = JSON.parse(this.querySelector("template").content.textContent);
      this.source = this.querySelector(".stages__source");
      this.code = this.querySelector(".stages__code");
      this.outputs = this.querySelectorAll("output");
      this.hues = {};
      for (const line of this.source.querySelectorAll("[data-line]")) {
        this.hues[line.dataset.line] = line.className.match(/hue-\d/)[0];
      }
      this.tieTo(this.source);
      this.tieTo(this.code);
    }
    super.connectedCallback();
  }

  /** Show the chosen stage of the chosen target, and what became of the chosen line. */
  render({ target, stage, lines }) {
    const stages = this.data.targets[target];
    for (const input of this.form.stage) { // AMD's targets have other last stages than NVIDIA's
      input.disabled = input.parentNode.hidden = !stages[input.value];
      if (stages[input.value]) {
        input.nextSibling.lastChild.textContent = count(stages[input.value].lines.length, "line");
      }
    }
    if (!stages[stage]) stage = this.form.stage.value = Object.keys(stages).at(-1);
    if (!this.hues[this.form.line.value]) this.form.line.value = this.first.line;
    this.now = stages[stage];
    this.sentences = this.data.sentences[stage];
    this.code.className = `stages__code stage--${stage}`;
    this.source.parentNode.className = `stages stages--${lines}`;
    this.code.ariaLabel = `${this.now.name} for ${target}`;
    const shown = this.shown ?? `${this.first.target},${this.first.stage}`; // as the page was built
    this.shown = `${target},${stage}`;
    if (this.shown !== shown) {
      const { text, lines, names } = this.now;
      const made = text.split("\n").map((line, i) => codeLine(line, lines[i], names[i], this.hues[lines[i]]));
      this.code.querySelector("code").replaceChildren(...made); // not firstChild: Material puts its copy button there
      this.code.scrollTop = 0;
    }
    for (const pane of [this.source, this.code]) this.reach(pane);
    this.show();
  }

  /** Every line of a pane that says something can be pointed at, and is a button; the arrow keys lead from one to the
      next, so that the pane is one stop of the tab key. */
  reach(pane) {
    pane.removeAttribute("tabindex"); // which let the keyboard scroll
    const lines = this.linesOf(pane);
    for (const line of lines) {
      line.setAttribute("role", "button");
      line.tabIndex = -1;
      line.setAttribute("aria-pressed", String(line.dataset.line === this.form.line.value));
    }
    const first = lines.find((line) => line.ariaPressed === "true") ?? lines[0];
    if (first) first.tabIndex = 0;
  }

  linesOf(pane) {
    return [...pane.querySelectorAll(pane === this.source ? "[data-line]" : ".code-line:not(.code-line--rest)")];
  }

  /** Point at a line to see its counterparts and what it does; click it, or press Enter on it, to keep that. */
  tieTo(pane) {
    const lineAt = ({ target }) => target.closest?.("[role=button]");
    const choose = (line) => {
      if (!line) return;
      this.form.line.value = line.dataset.line ?? this.form.line.value;
      this.update();
      this.show(line);
    };
    pane.onpointerover = (event) => event.pointerType !== "touch" && this.show(lineAt(event), "off");
    pane.onpointerleave = (event) => event.pointerType !== "touch" && this.show();
    pane.addEventListener("focusin", (event) => {
      const line = lineAt(event);
      if (!line) return;
      for (const other of this.linesOf(pane)) other.tabIndex = other === line ? 0 : -1;
      this.show(line);
    });
    pane.addEventListener("focusout", () => this.show());
    pane.onclick = (event) => choose(lineAt(event));
    pane.onkeydown = (event) => {
      const here = lineAt(event);
      const lines = this.linesOf(pane);
      const at = lines.indexOf(here);
      const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: lines.length - 1 }[event.key];
      if (event.key === "Enter" || event.key === " ") choose(here);
      else if (to === undefined) return;
      else lines[to]?.focus();
      event.preventDefault();
    };
  }

  /** Mark what belongs to a line that somebody points at, or else to the chosen one, and say what it is. */
  show(line, live = "polite") {
    const number = line ? line.dataset.line : this.form.line.value;
    for (const other of this.querySelectorAll(".code-line")) {
      other.classList.toggle("is-tied", other.dataset.line === number && number !== undefined);
      other.classList.toggle("is-pointed", other === line);
    }
    const tied = this.linesOf(this.code).filter((other) => other.dataset.line === number);
    const [summary, detail] = this.outputs;
    summary.ariaLive = detail.ariaLive = live;
    summary.textContent = number
      ? `Line ${number} became ${tied.length ? count(tied.length, "instruction") : "no instruction"} here.`
      : "No line of the kernel became this.";
    const name = this.code.contains(line) && line.querySelector("strong").textContent;
    const code = Object.assign(document.createElement("code"), { textContent: name });
    if (name) detail.replaceChildren(code, ` ${this.sentences[name] ?? ""}`);
    else detail.textContent = `${this.now.facts} Point at an instruction to see what it does.`;
    if (!this.code.contains(line) && tied.length) showMost(this.code, tied);
  }
}

/** Scroll a pane, and nothing else, to where it shows the most of these lines, unless it shows them all. */
function showMost(pane, lines) {
  const room = pane.clientHeight;
  const end = (line) => line.offsetTop + line.offsetHeight;
  if (lines[0].offsetTop >= pane.scrollTop && end(lines.at(-1)) <= pane.scrollTop + room) return;
  const shown = (first) => lines.filter((line) => line.offsetTop >= first.offsetTop && end(line) <= first.offsetTop + room);
  const first = lines.reduce((a, b) => (shown(b).length > shown(a).length ? b : a));
  const height = end(shown(first).at(-1) ?? first) - first.offsetTop;
  pane.scrollTop = first.offsetTop - Math.max((room - height) / 2, 0);
}

function codeLine(text, number, place, hue) {
  const make = (tag, className, content) => {
    const element = document.createElement(tag);
    if (className) element.className = className;
    element.append(...content);
    return element;
  };
  const [begin, end] = place ?? [0, 0];
  const name = place ? [make("strong", "", [text.slice(begin, end)])] : [];
  const margin = make("span", "code-line__number", [number || ""]);
  const kind = `code-line${hue ? ` ${hue}` : ""}${place ? "" : " code-line--rest"}`;
  const line = make("span", kind, [margin, text.slice(0, begin), ...name, `${text.slice(end)}\n`]);
  if (hue) line.dataset.line = number;
  return line;
}

define("stage-explorer", StageExplorer);
