// SPDX-License-Identifier: Apache-2.0
// Code that runs on its page: Run, or Check for an exercise; Edit, Reset, Stop. Nothing is sent. What a reader writes is
// kept in this browser alone.

const base = new URL("..", import.meta.url).href; // of the site
const make = (tag, given = {}, ...inner) => {
  const made = Object.assign(document.createElement(tag), given);
  made.append(...inner);
  return made;
};
const style = (path) => document.head.append(make("link", { rel: "stylesheet", href: `${base}assets/${path}` }));
style("run-page.css");
const ONCE = " (only the first time takes this long)";
let worker, running; // one for all code of a page, and whose turn it is
let loading = `Loading Python, a few megabytes${ONCE}…`; // how far the worker is, until it has Python

async function started() {
  if (worker) return worker;
  const text = await (await fetch(`${base}assets/run-worker.js`)).text();
  const address = URL.createObjectURL(new Blob([`const BASE = ${JSON.stringify(base)};\n`, text], { type: "text/javascript" }));
  worker = new Worker(address, { type: "module" });
  worker.onmessage = ({ data }) => {
    if (data.loading) data.state = loading = `${data.loading}${ONCE}…`;
    else loading = "";
    running?.hear(data);
  };
  worker.onerror = (event) => running?.hear({ failed: event.message || "Python could not be loaded" });
  return worker;
}

function stopped() {
  worker?.terminate();
  worker = undefined;
  loading = "Starting Python…"; // which the browser has kept
}

/** Have Python come while a reader writes. */
const warm = async () => worker || (await started()).postMessage({});

/** The first gap of an exercise that holds no more code than when it was given: its number, line and what it is for. */
function emptyGap(text, given) {
  const gaps = (whole) => [...whole.matchAll(/^[ \t]*# gap (\d+)\b:?[ \t]*(.*)\n([^]*?)^[ \t]*# end of gap \1[ \t]*$/gm)];
  const code = (lines) => lines.split("\n").map((line) => line.replace(/(^|\s)#.*/, "").trim()).filter(Boolean).join("\n");
  const begun = new Map(gaps(given).map(([, number, , inner]) => [number, code(inner)]));
  const left = gaps(text).find(([, number, , inner]) => begun.get(number) === code(inner));
  return left && { number: left[1], about: left[2], line: text.slice(0, left.index).split("\n").length };
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

const LARGEST = 100_000; // characters of a shared text

/** A text as an address can hold it, and back. */
export async function packed(text) {
  const bytes = await new Response(new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"))).bytes();
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replace(/=*$/, "");
}

export async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (each) => each.charCodeAt(0));
  let found = "";
  const parts = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw")).pipeThrough(new TextDecoderStream());
  for await (const part of parts) {
    found += part;
    if (found.length > LARGEST) throw new Error("too long");
  }
  return found;
}

export class Runner {
  constructor(box, key, number) {
    this.box = box;
    this.key = key;
    this.number = number; // of the code on its page
    this.check = box.dataset.check;
    [this.file, this.section] = (box.dataset.of ?? "").split(":"); // a section of a file, which is run whole
    this.listing = box.querySelector(".highlight");
    this.given = this.listing.querySelector("code").textContent.trimEnd();
    const bar = box.querySelector(".run__bar");
    [this.go, this.edit] = bar.children;
    this.state = bar.querySelector("[role=status]");
    const button = (name, does) => make("button", { type: "button", textContent: name, className: "md-button", hidden: true,
      onclick: () => does.call(this) });
    this.reset = button("Reset", this.again);
    this.stop = button("Stop", this.end);
    this.link = button("Copy link", this.share);
    this.link.hidden = false;
    this.go.after(this.stop);
    this.edit.after(this.reset);
    this.state.before(this.link);
    this.result = make("div", { className: "run__result", tabIndex: -1, hidden: true });
    box.append(this.result);
    const kept = this.kept();
    if (kept && kept !== this.given) this.open(kept);
  }

  kept() {
    try { return localStorage.getItem(this.key); } catch { return null; }
  }

  keep(text) {
    this.reset.disabled = text === this.given;
    try { text === this.given ? localStorage.removeItem(this.key) : localStorage.setItem(this.key, text); } catch {}
  }

  get text() {
    return this.editor ? this.editor.state.doc.toString() : this.given;
  }

  /** Show a text that somebody put into an address. It runs when the reader says so, and is kept once it is changed. */
  async receive(packedText) {
    let text;
    try {
      text = await unpacked(packedText);
    } catch {
      this.state.textContent = "The code in this link can't be read. Was the link cut off?";
      return;
    }
    if (this.editor) this.write(text);
    else await this.open(text, true);
    this.reset.disabled = text === this.given;
    this.reveal();
    this.box.scrollIntoView({ block: "start" });
    this.state.textContent = "This code came with the link. Read it before you run it.";
  }

  /** Open the tab that it is in, if any. */
  reveal() {
    const tab = this.box.closest(".tabbed-block");
    if (!tab) return;
    const number = [...tab.parentElement.children].indexOf(tab);
    tab.closest(".tabbed-set").querySelectorAll(":scope > input")[number].checked = true;
  }

  /** Put the code into an address, and that where it can be pasted from. */
  async share() {
    const address = `${location.origin}${location.pathname}#code-${this.number}=${await packed(this.text)}`;
    try {
      await navigator.clipboard.writeText(address);
      this.state.textContent = "Link copied. It holds the code.";
    } catch {
      history.replaceState(null, "", address);
      this.state.textContent = "The address of this page now holds the code.";
    }
  }

  write(text) {
    this.writing = true; // not the reader
    this.editor.dispatch({ changes: { from: 0, to: this.editor.state.doc.length, insert: text } });
    this.writing = false;
  }

  async open(text = this.given, shared = false) {
    if (this.editor) return;
    this.edit.disabled = true;
    if (!shared && text === this.given) warm().catch(() => {}); // whoever opens it will want to run it
    const [{ EditorState, StateEffect, StateField }, view, commands, { python }, language] = await Promise.all([
      import("@codemirror/state"), import("@codemirror/view"), import("@codemirror/commands"),
      import("@codemirror/lang-python"), import("@codemirror/language")]);
    const { Decoration, EditorView, keymap } = view;
    const put = StateEffect.define(), sign = Decoration.line({ class: "run__fault", attributes: { title: "The message says what is wrong with this line." } });
    const marks = StateField.define({
      create: () => Decoration.none,
      update: (now, { effects, docChanged }) => effects.find((each) => each.is(put))?.value ?? (docChanged ? Decoration.none : now),
      provide: (field) => EditorView.decorations.from(field),
    });
    this.sign = (lines) => {
      const { doc } = this.editor.state;
      const at = lines.filter((line) => line <= doc.lines).map((line) => sign.range(doc.line(line).from));
      this.editor.dispatch({ effects: put.of(Decoration.set(at)) });
    };
    const colors = language.HighlightStyle.define(await styles());
    this.editor = new EditorView({
      doc: text,
      extensions: [
        view.lineNumbers(), commands.history(), view.drawSelection(), language.indentOnInput(), language.bracketMatching(),
        language.indentUnit.of("    "), EditorState.tabSize.of(4), python(), language.syntaxHighlighting(colors), marks,
        keymap.of([{ key: "Mod-Enter", run: () => (this.run(), true) }, ...commands.defaultKeymap, ...commands.historyKeymap]),
        matchMedia("(max-width: 40em)").matches ? EditorView.lineWrapping : [],
        EditorView.contentAttributes.of({ "aria-label": "The code, to be edited" }),
        EditorView.updateListener.of(({ docChanged }) => docChanged && !this.writing && this.keep(this.text)),
      ],
    });
    this.listing.hidden = true;
    this.listing.after(make("div", { className: "run__editor" }, this.editor.dom));
    this.edit.hidden = true;
    this.reset.hidden = false;
    this.state.textContent = matchMedia("(pointer: coarse)").matches ? "" : "Ctrl+Enter runs it; Tab leaves the editor.";
    if (!shared) this.keep(this.text);
    if (this.ran === text) this.mark(this.faults);
    if (text === this.given) this.editor.focus();
  }

  /** Mark lines of the editor, or of the listing until there is one. */
  mark(lines) {
    if (this.editor) this.sign(lines);
    else this.listing.querySelectorAll(".run__number").forEach((each, i) => each.classList.toggle("run__fault", lines.includes(i + 1)));
  }

  again() {
    this.write(this.given);
    this.keep(this.given);
    this.result.hidden = true;
    this.state.textContent = "";
    this.go.focus();
  }

  /** Run it, the programs of a launch in order or, by a seed, in another one. */
  async run(seed) {
    if (running) return;
    const empty = this.check && this.box.hasAttribute("data-gaps") && emptyGap(this.text, this.given);
    if (empty) return this.unfilled(empty);
    running = this;
    this.go.disabled = true;
    this.began = performance.now();
    this.answered = false;
    this.faults = []; // the lines that the answer is about
    this.mark([]);
    this.waiting = setTimeout(() => this.swap(this.go, this.stop), 300); // what is done at once needs no other button
    this.box.classList.add("run--busy"); // what the last run gave, or the recorded one, stays there until this one is done
    this.output = make("pre", { className: "output run__output" }, make("code"));
    this.output.hidden = true;
    this.found = make("div", { className: "run__found" }, this.output);
    this.state.textContent = loading;
    try {
      if (this.file) this.whole ??= await (await fetch(`${base}snippets/${this.file}`)).text();
      this.seed = seed;
      this.ran = this.text;
      const asked = { text: this.ran, seed, check: this.check, whole: this.whole ?? "", section: this.section ?? "" };
      (await started()).postMessage(asked);
    } catch (error) {
      stopped();
      this.hear({ failed: error.message });
    }
  }

  /** Say at once, without Python, that a gap is empty. */
  unfilled({ number, about, line }) {
    this.output = make("pre", { hidden: true });
    this.found = make("div", { className: "run__found" });
    this.say(`Gap ${number} is still empty, on line ${line}: ${about}`, "wrong");
    this.ran = this.text;
    this.mark(this.faults = [line]);
    this.done("Nothing to check yet.");
    warm().catch(() => {}); // the next press will say so
  }

  /** Have one button in the place of another, with the focus that it had. */
  swap(from, to) {
    const focused = from === document.activeElement || this.go === document.activeElement;
    [from.hidden, to.hidden] = [true, false];
    if (focused) to.focus();
  }

  end() {
    if (this.answered) return; // and is about to be shown
    stopped();
    const took = Math.max(1, Math.round((performance.now() - this.began) / 1000));
    this.done(`Stopped the ${this.check ? "check" : "run"} after ${took} s. Your code is kept.`);
  }

  /** Have what was printed wrap as on other pages: what is set in columns or drawn shrinks, and other lines hang. */
  settle() {
    const code = this.output.firstChild, lines = code.textContent.split("\n");
    const columns = Math.max(...lines.map(({ length }) => length));
    if (columns <= 28) return;
    const full = lines.filter(({ length }) => length === columns).length, gaps = lines.filter((line) => /\S {2,}\S/.test(line)).length;
    if (full > 2 || gaps > 1) {
      code.className = "in-columns";
      code.style.cssText = `--columns: ${columns}; --kept: ${columns}`;
    } else {
      code.replaceChildren(...lines.flatMap((line, i) => {
        const end = i < lines.length - 1 ? "\n" : "";
        if (line.length <= 28) return line + end;
        const long = make("span", { className: "long" }, line + end);
        long.style.setProperty("--in", line.search(/\S|$/) + 4);
        return long;
      }));
    }
  }

  /** Put what this run has found so far in the place of what the last one did. */
  replace() {
    if (this.found.isConnected) return;
    const focused = this.result.contains(document.activeElement);
    this.box.classList.remove("run--busy");
    this.result.hidden = false;
    this.result.replaceChildren(this.found);
    if (focused) (this.found.querySelector(".run__lines--last") ?? this.go).focus({ preventScroll: true }); // which began it
  }

  done(says) {
    if (!this.output.hidden) this.settle();
    this.replace();
    clearTimeout(this.long);
    clearTimeout(this.waiting);
    running = undefined;
    this.go.disabled = false;
    if (this.go.hidden) this.swap(this.stop, this.go);
    this.state.textContent = says;
    // It may be below the screen. If a reader already sees what there is to see, nothing moves.
    const seen = this.found.querySelector(".story .time-bar") ?? this.result, { top, bottom } = seen.getBoundingClientRect();
    if (seen === this.result ? top > innerHeight - 120 : bottom > innerHeight) {
      const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
      seen.scrollIntoView({ block: "nearest", behavior: still ? "instant" : "smooth" });
    }
  }

  hear({ state, out, failed, answer, took }) {
    if (state) {
      this.state.textContent = state;
      this.since = performance.now();
      clearTimeout(this.long);
      if (!loading) this.long = setTimeout(() => { this.state.textContent = `${state} Still at it. Stop?`; }, 20000);
    }
    if (out) {
      this.output.hidden = false;
      this.output.firstChild.append(out);
      if (performance.now() - this.since > 1000) this.replace(); // of a long run, each line is news
    }
    if (failed) {
      stopped();
      this.say(`${failed}`, "wrong");
      this.done("It did not run.");
    }
    if (answer) {
      this.answered = true;
      const says = took < 1000 ? `${Math.round(took)} ms` : `${(took / 1000).toFixed(1)} s`;
      this.faults = answer.lines;
      if (this.text === this.ran) this.mark(this.faults);
      this.check ? this.judged(answer, says) : this.told(answer, says);
    }
  }

  /** Say a text, in which indented lines are code, and so is whatever is between backticks. */
  say(text, kind) {
    const box = make("div", { className: `run__says run__says--${kind}` });
    const texts = text.replace(/([^.:?!\n])\n(?=\S)/g, "$1 "); // a sentence that goes on
    for (const line of texts.split("\n").filter((each) => each.trim())) {
      const last = box.lastElementChild, code = line.match(/^ {2,4}(.*)/)?.[1];
      if (code && last?.localName === "pre") last.append(`\n${code}`);
      else if (code) box.append(make("pre", {}, code));
      else box.append(make("p", {}, ...line.split("`").map((part, i) => (i % 2 ? make("code", { textContent: part }) : part))));
    }
    this.found.append(box);
    return box;
  }

  async told({ error, troubles, more, pictures, shown, launches, order, story }, took) {
    if (error) this.say(error, "wrong");
    if (troubles.length) this.say([...troubles, ...(more ? [`… and ${more} more`] : [])].join("\n\n"), "out");
    const what = launches ? `, ${launches} launch${launches > 1 ? "es" : ""}` : "";
    const how = error ? ", and raised an error" : troubles.length ? ", and went out of bounds" : "";
    const turns = this.seed === undefined ? "" : ` The programs came in the order ${order.slice(0, 8).join(", ")}${order[8] ? " …" : ""}.`;
    try {
      if (pictures.length) await this.show(pictures, shown, order, story, troubles.length > 0);
    } finally {
      this.done(`Ran in your browser: ${took}${what}${how}.${turns}`);
    }
  }

  /** The last launch: step by step, or one line of the kernel at a time. */
  async show(pictures, shown, order, story, wrong) {
    const place = make("div", { className: "run__picture" }), views = [], buttons = [];
    const add = (name, draw, className = "") => {
      const number = views.push(draw) - 1;
      buttons.push(make("button", { type: "button", textContent: name, className, onclick: () => choose(number) }));
    };
    const choose = (number) => {
      place.replaceChildren(views[number]());
      for (const [i, button] of buttons.entries()) button.setAttribute("aria-pressed", i === number);
    };
    if (story) {
      const told = await storyOf(story);
      add("Step by step", () => told, "run__lines--first");
    }
    for (const { line, code, svg } of pictures) { // by the number of its line, and where it has room for no more, its beginning
      add(`${line}: ${code.split("(")[0]}`, () => drawn(svg));
      buttons.at(-1).title = code;
    }
    const lines = make("div", { className: "run__lines", role: "group", ariaLabel: "What to see of the launch" }, ...buttons);
    if (order.length > 1) {
      const other = () => this.run(Math.floor(Math.random() * 2 ** 31));
      lines.append(make("button", { type: "button", className: "run__lines--last", textContent: "Run in another order", onclick: other }));
    }
    this.found.append(lines, place, ...(story ? [this.output] : [])); // what happens is seen first, then what it printed
    choose(story && !wrong ? 0 : shown + Boolean(story));
  }

  judged({ passed, stage, failed, text, svg, timed }, took) {
    const list = make("ul", { className: "run__stages" }, ...passed.map((name) => make("li", { textContent: `✓ ${name}` })));
    if (failed) list.append(make("li", { className: "run__failed", textContent: `✗ ${failed}` }));
    this.found.append(list);
    if (stage) this.say(text, /bounds/.test(failed) ? "out" : "wrong");
    if (svg) this.found.append(make("div", { className: "run__picture" }, drawn(svg)));
    if (!stage) {
      const said = this.say("Right.", "right");
      if (timed) said.append(make("p", { className: "run__done" }, "Whether it is fast enough, only a GPU can tell: run the command below."));
      const next = document.querySelector("a.onward__next");
      if (next) said.append(make("p", {}, "Next: ", make("a", { href: next.href, textContent: next.querySelector("b").textContent })));
      const done = this.box.parentElement.querySelector("button.exercise__done[aria-pressed=false]");
      if (done) done.click();
    }
    this.done(`Checked in your browser: ${took}.`);
  }
}

let parts; // of the picture of a launch, step by step

async function storyOf(told) {
  const html = fetch(`${base}assets/browser/story.txt`).then((answer) => answer.text());
  if (!parts && !document.querySelector(".explorer")) style("browser/explorer.css"); // which pages with explorers bring
  parts ??= Promise.all([import("./run-story.js"), html]);
  const [{ story }, form] = await parts;
  return story(told, form);
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
