// SPDX-License-Identifier: Apache-2.0
// Code that runs on its page: Run, or Check for an exercise; Edit, Reset, Stop. Nothing is sent. What a reader writes is
// kept in this browser alone.

const base = new URL("..", import.meta.url).href; // of the site
const make = (tag, given = {}, ...inner) => {
  const made = Object.assign(document.createElement(tag), given);
  made.append(...inner);
  return made;
};
document.head.append(make("link", { rel: "stylesheet", href: `${base}assets/run-page.css` }));
let worker, running; // one for all code of a page, and whose turn it is

async function started() {
  if (worker) return worker;
  const text = await (await fetch(`${base}assets/run-worker.js`)).text();
  const address = URL.createObjectURL(new Blob([`const BASE = ${JSON.stringify(base)};\n`, text], { type: "text/javascript" }));
  worker = new Worker(address, { type: "module" });
  worker.onmessage = ({ data }) => running?.hear(data);
  worker.onerror = (event) => running?.hear({ failed: event.message || "Python could not be loaded" });
  return worker;
}

function stopped() {
  worker?.terminate();
  worker = undefined;
}

/** A picture that Python drew, of which only shapes and texts are kept: code may have had a hand in it. */
function drawn(svg) {
  const picture = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
  const kept = new Set(["svg", "title", "desc", "defs", "pattern", "path", "rect", "circle", "text", "g"]);
  for (const part of [picture, ...picture.querySelectorAll("*")]) {
    if (!kept.has(part.localName)) part.remove();
    for (const { name } of [...part.attributes]) if (/^on|href/i.test(name)) part.removeAttribute(name);
  }
  return document.importNode(picture, true);
}

export class Runner {
  constructor(box, key) {
    this.box = box;
    this.key = key;
    this.check = box.dataset.check;
    [this.file, this.section] = (box.dataset.of ?? "").split(":"); // a section of a file, which is run whole
    this.listing = box.querySelector(".highlight");
    this.given = this.listing.querySelector("code").textContent.replace(/\n$/, "");
    const bar = box.querySelector(".run__bar");
    [this.go, this.edit] = bar.children;
    this.state = bar.querySelector("[role=status]");
    const button = (name, does) => make("button", { type: "button", textContent: name, className: "md-button", hidden: true,
      onclick: () => does.call(this) });
    this.reset = button("Reset", this.again);
    this.stop = button("Stop", this.end);
    this.state.before(this.reset, this.stop);
    this.result = make("div", { className: "run__result", tabIndex: -1, hidden: true });
    box.append(this.result);
    const kept = this.kept();
    if (kept && kept !== this.given) this.open(kept);
  }

  kept() {
    try { return localStorage.getItem(this.key); } catch { return null; }
  }

  keep(text) {
    this.reset.hidden = text === this.given;
    try { text === this.given ? localStorage.removeItem(this.key) : localStorage.setItem(this.key, text); } catch {}
  }

  get text() {
    return this.editor ? this.editor.state.doc.toString() : this.given;
  }

  async open(text = this.given) {
    if (this.editor) return;
    this.edit.disabled = true;
    const [{ EditorState }, view, commands, { python }, language] = await Promise.all([
      import("@codemirror/state"), import("@codemirror/view"), import("@codemirror/commands"),
      import("@codemirror/lang-python"), import("@codemirror/language")]);
    const { EditorView, keymap } = view;
    const colors = language.HighlightStyle.define(await styles());
    this.editor = new EditorView({
      doc: text,
      extensions: [
        view.lineNumbers(), commands.history(), view.drawSelection(), language.indentOnInput(), language.bracketMatching(),
        language.indentUnit.of("    "), EditorState.tabSize.of(4), python(), language.syntaxHighlighting(colors),
        keymap.of([{ key: "Mod-Enter", run: () => (this.run(), true) }, ...commands.defaultKeymap, ...commands.historyKeymap]),
        matchMedia("(max-width: 40em)").matches ? EditorView.lineWrapping : [],
        EditorView.contentAttributes.of({ "aria-label": "The code, to be edited" }),
        EditorView.updateListener.of(({ docChanged }) => docChanged && this.keep(this.text)),
      ],
    });
    this.listing.hidden = true;
    this.listing.after(make("div", { className: "run__editor" }, this.editor.dom));
    this.edit.hidden = true;
    this.state.textContent = "Ctrl+Enter runs it; Tab leaves the editor.";
    this.keep(this.text);
    if (text === this.given) this.editor.focus();
  }

  again() {
    this.editor.dispatch({ changes: { from: 0, to: this.editor.state.doc.length, insert: this.given } });
    this.result.hidden = true;
    this.state.textContent = "";
    this.go.focus();
  }

  async run() {
    if (running) return;
    running = this;
    this.go.disabled = true;
    this.stop.hidden = false;
    this.result.hidden = false;
    this.output = make("pre", { className: "output run__output" }, make("code"));
    this.output.hidden = true;
    this.result.replaceChildren(this.output);
    this.state.textContent = worker ? "" : "Loading Python, a few megabytes, once…";
    this.long = setTimeout(() => { this.state.textContent = "Still at it. Stop?"; }, 20000);
    try {
      if (this.file) this.whole ??= await (await fetch(`${base}snippets/${this.file}`)).text();
      (await started()).postMessage({ text: this.text, check: this.check, whole: this.whole ?? "", section: this.section ?? "" });
    } catch (error) {
      stopped();
      this.hear({ failed: error.message });
    }
  }

  end() {
    stopped();
    this.done("Stopped.");
  }

  done(says) {
    clearTimeout(this.long);
    running = undefined;
    this.go.disabled = false;
    this.stop.hidden = true;
    this.state.textContent = says;
  }

  hear({ state, out, failed, answer, took }) {
    if (state) this.state.textContent = state;
    if (out) {
      this.output.hidden = false;
      this.output.firstChild.append(out);
    }
    if (failed) {
      stopped();
      this.done("It did not run.");
      this.say(`${failed}`, "wrong");
    }
    if (answer) {
      const says = took < 1000 ? `${Math.round(took)} ms` : `${(took / 1000).toFixed(1)} s`;
      this.check ? this.judged(answer, says) : this.ran(answer, says);
    }
  }

  say(text, kind) {
    this.result.append(make("pre", { className: `output run__says run__says--${kind}` }, make("code", { textContent: text })));
  }

  ran({ error, troubles, more, pictures, shown, launches }, took) {
    if (error) this.say(error, "wrong");
    if (troubles.length) this.say([...troubles, ...(more ? [`… and ${more} more`] : [])].join("\n\n"), "wrong");
    if (pictures.length) this.show(pictures, shown);
    const what = launches ? `, ${launches} launch${launches > 1 ? "es" : ""}` : "";
    const how = error ? ", and raised an error" : troubles.length ? ", and went out of bounds" : "";
    this.done(`Ran in your browser: ${took}${what}${how}.`);
  }

  /** The last launch, one line of the kernel at a time. */
  show(pictures, shown) {
    const place = make("div", { className: "run__picture" });
    const choose = (number) => {
      place.replaceChildren(drawn(pictures[number].svg));
      for (const [i, button] of buttons.entries()) button.setAttribute("aria-pressed", i === number);
    };
    const buttons = pictures.map(({ code }, i) => make("button", { type: "button", textContent: code, onclick: () => choose(i) }));
    const lines = make("div", { className: "run__lines", role: "group", ariaLabel: "What to see of the launch" }, ...buttons);
    this.result.append(lines, place);
    choose(shown);
  }

  judged({ passed, stage, failed, text, svg, timed }, took) {
    const list = make("ul", { className: "run__stages" }, ...passed.map((name) => make("li", { textContent: `✓ ${name}` })));
    if (failed) list.append(make("li", { className: "run__failed", textContent: `✗ ${failed}` }));
    this.result.append(list);
    if (stage) this.say(text, "wrong");
    if (svg) this.result.append(make("div", { className: "run__picture" }, drawn(svg)));
    if (!stage) {
      this.say(`Right.${timed ? " Whether it is fast enough, only a GPU can tell: run the command below." : ""}`, "right");
      const done = this.box.parentElement.querySelector("button.exercise__done[aria-pressed=false]");
      if (done) done.click();
    }
    this.done(`Checked in your browser: ${took}.`);
  }
}

/** The site's own colors of code, by what the editor calls each thing. */
async function styles() {
  const { tags } = await import("@lezer/highlight");
  const color = (name) => `var(--md-code-hl-${name}-color)`;
  return [
    { tag: [tags.keyword, tags.controlKeyword, tags.definitionKeyword, tags.moduleKeyword], color: color("keyword") },
    { tag: [tags.function(tags.variableName), tags.function(tags.definition(tags.variableName))], color: color("function") },
    { tag: [tags.string, tags.special(tags.string)], color: color("string") },
    { tag: [tags.number, tags.bool, tags.null], color: color("number") },
    { tag: tags.meta, color: color("keyword") },
    { tag: tags.comment, color: color("comment") },
    { tag: [tags.operator, tags.punctuation], color: color("operator") },
  ];
}
