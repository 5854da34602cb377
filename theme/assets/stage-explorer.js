// SPDX-License-Identifier: Apache-2.0
// <stage-explorer>: a kernel above every stage of its compilation, line tied to line.
// The page holds its first state as plain HTML and all stages as JSON; see `stages` in recorder/views.py.

class StageExplorer extends HTMLElement {
  connectedCallback() {
    if (this.data) return;
    this.data = JSON.parse(this.querySelector("template").content.textContent);
    const asked = new URLSearchParams(location.search);
    const choose = (what, known) => {
      const wanted = asked.get(`${this.id}.${what}`);
      return known.includes(wanted) ? wanted : this.getAttribute(what);
    };
    this.target = choose("target", Object.keys(this.data));
    this.stage = choose("stage", Object.keys(this.data[this.target].stages));
    this.shown = `${this.getAttribute("target")} ${this.getAttribute("stage")}`; // as the page was built
    this.source = this.querySelector(".stages__source");
    this.code = this.querySelector(".stages__code");
    this.addControls();
    this.show();
    this.tie();
  }

  addControls() {
    const controls = document.createElement("div");
    controls.className = "stages__controls";
    controls.innerHTML =
      `<label>Target <select></select></label><fieldset><legend>Stage</legend></fieldset><p role="status"></p>`;
    this.prepend(controls);
    const select = controls.querySelector("select");
    select.append(...Object.keys(this.data).map((name) => new Option(name, name, false, name === this.target)));
    select.addEventListener("change", () => {
      this.target = select.value;
      this.show(true);
    });
    this.stageBox = controls.querySelector("fieldset");
    this.stageBox.addEventListener("change", (event) => {
      this.stage = event.target.value;
      this.show(true);
    });
    this.status = controls.querySelector("p");
  }

  /** Show the chosen stage of the chosen target; AMD's targets have other last stages than NVIDIA's. */
  show(remember = false) {
    const { stages, registers, spills, shared } = this.data[this.target];
    if (!stages[this.stage]) this.stage = Object.keys(stages).at(-1);
    if (this.stageBox.dataset.target !== this.target) {
      this.stageBox.dataset.target = this.target;
      this.stageBox.querySelectorAll("label").forEach((label) => label.remove());
      for (const [key, { name }] of Object.entries(stages)) {
        const label = document.createElement("label");
        const input = Object.assign(document.createElement("input"), { type: "radio", name: `${this.id}-stage`, value: key });
        label.append(input, ` ${name}`);
        this.stageBox.append(label);
      }
    }
    this.stageBox.querySelector(`[value="${this.stage}"]`).checked = true;
    const { name, text, lines } = stages[this.stage];
    this.code.className = `stages__code stage--${this.stage}`;
    this.code.ariaLabel = `${name} for ${this.target}`;
    if (this.shown !== `${this.target} ${this.stage}`) {
      this.shown = `${this.target} ${this.stage}`;
      // Not firstChild: Material puts its copy button before the code.
      this.code.querySelector("code").replaceChildren(...text.split("\n").map((line, i) => codeLine(lines[i], line)));
      this.code.scrollTop = 0;
    }
    this.facts = `${name} for ${this.target}: ${registers} registers a thread, ${spills} spilled, ${shared} bytes of shared memory.`;
    this.status.textContent = this.facts;
    if (this.pinned) this.mark(this.pinned, true);
    if (remember) {
      const url = new URL(location);
      url.searchParams.set(`${this.id}.target`, this.target);
      url.searchParams.set(`${this.id}.stage`, this.stage);
      history.replaceState(history.state, "", url);
    }
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
    this.source.addEventListener("mouseover", (event) => this.pinned || this.mark(lineAt(event), true));
    this.source.addEventListener("mouseleave", () => this.pinned || this.mark());
    this.code.addEventListener("mouseover", (event) => this.pinned || this.mark(lineAt(event)));
    this.code.addEventListener("mouseleave", () => this.pinned || this.mark());
    for (const pane of [this.source, this.code])
      pane.addEventListener("click", (event) => lineAt(event) && pin(lineAt(event)));
    this.source.addEventListener("keydown", (event) => {
      if ((event.key === "Enter" || event.key === " ") && lineAt(event)) {
        event.preventDefault();
        pin(lineAt(event));
      }
    });
  }

  mark(number, scroll = false) {
    this.querySelectorAll(".is-tied").forEach((line) => line.classList.remove("is-tied"));
    const tied = number ? this.querySelectorAll(`[data-line="${number}"]`) : [];
    tied.forEach((line) => line.classList.add("is-tied"));
    const inCode = [...tied].filter((line) => this.code.contains(line));
    const count = inCode.length === 1 ? "1 line" : `${inCode.length} lines`;
    this.status.textContent = number ? `Line ${number} became ${count} here.` : this.facts;
    if (scroll && inCode.length) {
      const { offsetTop, offsetHeight } = inCode[0];
      const { scrollTop, clientHeight } = this.code;
      if (offsetTop < scrollTop || offsetTop + offsetHeight > scrollTop + clientHeight) this.code.scrollTop = offsetTop - 40;
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

customElements.get("stage-explorer") || customElements.define("stage-explorer", StageExplorer);
