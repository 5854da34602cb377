// SPDX-License-Identifier: Apache-2.0
// <layout-explorer>: which thread holds which element of a block, in which register.
// Its form stands on the page (figures/layout_explorer/).

import { FormExplorer, count, define, list, plural } from "../explorer.js";

const WARP = 32; // threads
const SHADES = [22, 32, 42, 52]; // of warps 0, 1, 2, 3, and again, in percent

// ---- The layout of a block of neighboring float32, as the compiler chooses it ----

/** `each`: elements side by side in a thread, at most 16 bytes; `tile`: elements until the pattern repeats. */
export function layout({ block, warps, warp = WARP }) {
  const threads = warp * warps;
  const each = Math.min(4, Math.max(1, Math.floor(block / threads)));
  return { block, threads, each, tile: each * threads };
}

/** The elements that a thread holds, by register. */
export function held({ block, each, tile }, thread) {
  const pieces = Math.max(1, block / tile);
  return Array.from({ length: pieces * each }, (_, register) =>
    (Math.floor(register / each) * tile + thread * each + (register % each)) % block);
}

/** The threads that hold an element: several if there are fewer elements than threads. */
export function holders({ block, threads, each, tile }, element) {
  const holding = [];
  for (let thread = Math.floor((element % tile) / each); thread < threads; thread += block / each) holding.push(thread);
  return holding;
}

// ---- The element ----

const isPower = ({ name }) => name === "block" || name === "warps";
const span = (first, length) => (length === 1 ? `${first}` : `${first}–${first + length - 1}`);

class LayoutExplorer extends FormExplorer {
  connectedCallback() {
    this.numbers = this.querySelectorAll("[type=number]");
    this.rows = this.querySelector(".layout__rows");
    this.rows.onpointermove = (event) => event.pointerType !== "touch" && this.hover(event);
    this.rows.onpointerleave = () => this.leave();
    this.rows.onclick = (event) => this.choose(this.under(event));
    this.registers = this.querySelector(".layout__registers > div");
    this.registers.onclick = ({ target }) => {
      const cell = target.closest("b");
      if (cell) this.choose({ element: Number(cell.dataset.element) });
    };
    this.arrows = this.querySelectorAll(".layout__registers > button");
    this.arrows.forEach((arrow, i) => (arrow.onclick = () => {
      this.registers.scrollBy({ left: (i ? 0.8 : -0.8) * this.registers.clientWidth });
    }));
    this.registers.onscroll = () => this.edges();
    this.watcher ??= new ResizeObserver(() => this.edges());
    this.watcher.observe(this.registers);
    super.connectedCallback();
    this.form.oninput = ({ target }) => {
      if (target.type === "number") return; // it is being typed
      const number = target.nextElementSibling;
      if (isPower(number)) this.leave(); // of the place that is only pointed at, nothing stays
      number.value = isPower(number) ? 2 ** target.value : target.value;
      this.update(number.name);
    };
    this.form.onchange = ({ target }) => {
      if (target.type !== "number") return;
      if (isPower(target)) this.leave();
      this.update(target.name);
    };
  }

  /** Show what the form says, all numbers corrected, so that the thread holds the element. `changed`: by the reader.
      A power of two moves away from the one before: a step of one leads to the next. */
  update(changed) {
    const { block, warps, thread, element } = this.form;
    for (const number of this.numbers) {
      // Of what the numbers before it, already corrected, leave.
      if (number === thread) number.max = WARP * warps.value - 1;
      if (number === element) number.max = block.value - 1;
      const old = this.shown?.[number.name] ?? this.first[number.name];
      const value = Math.min(Math.max(number.value === "" ? old : Math.round(number.value), number.min), number.max);
      number.value = isPower(number) ? 2 ** (value > old ? Math.ceil : Math.floor)(Math.log2(value)) : value;
    }
    const now = layout(this.state);
    if (!held(now, Number(thread.value)).includes(Number(element.value))) {
      if (changed === "element") [thread.value] = holders(now, Number(element.value));
      else [element.value] = held(now, Number(thread.value));
    }
    this.pointed = false;
    for (const number of this.numbers) this.slide(number);
    super.update();
  }

  /** The slider of a number says the same. */
  slide(number) {
    const range = number.previousElementSibling;
    if (!isPower(number)) range.max = number.max;
    range.value = isPower(number) ? Math.log2(number.value) : number.value;
    range.ariaValueText = number.value;
  }

  render(state) {
    const { block, warps } = (this.shown = state);
    if (block !== this.sizes?.block || warps !== this.sizes.warps) this.draw({ block, warps });
    this.point(state);
  }

  /** Draw all boxes anew. */
  draw(sizes) {
    this.sizes = sizes;
    const now = (this.layout = layout(sizes));
    const { block, threads, each } = now;
    const across = each * WARP;
    const rows = Array.from({ length: Math.ceil(block / across) }, (_, row) => row * across);
    const columns = Array.from({ length: WARP }, (_, i) => `<small>+${i}</small>`).join("");
    const head = `<div class="layout__head"><span>first thread</span><div><em>the ${WARP} threads of a warp</em>${columns}</div>`
      + "<var>elements</var></div>";
    this.rows.innerHTML = head + rows.map((first) => {
      const firsts = holders(now, first); // threads
      const warps = firsts.map((thread) => Math.floor(thread / WARP));
      return `<div class="layout__row" style="--shade: ${SHADES[warps[0] % SHADES.length]}%">`
        + `<span><span>${plural(warps.length, "warp")} ${warps.join(", ")}</span><var>${firsts.join(", ")}</var></span>`
        + `<div>${"<i></i>".repeat(WARP)}</div><var>${span(first, across)}</var></div>`;
    }).join("");
    this.boxes = [...this.rows.querySelectorAll("i")];
    this.columns = [...this.rows.querySelectorAll(".layout__head small")];
    this.rows.classList.toggle("layout__rows--shared", block < threads);
    this.rows.style.setProperty("--rows", rows.length);
    this.rows.style.setProperty("--each", each);

    const own = block / threads;
    const share = own < 1 ? `each element is held by ${1 / own} threads.`
      : `${own} each, in ${count(own / each, "load")} of ${4 * each} bytes.`;
    const [summary] = this.form.querySelectorAll("output");
    const dealt = `${count(sizes.warps, "warp")} × ${WARP} = ${threads} threads`;
    summary.textContent = `A block of ${block.toLocaleString("en")} elements, dealt to ${dealt}: ${share}`;
    this.rows.ariaLabel = summary.textContent;
    this.querySelector(".layout__line code").textContent = `#ttg.blocked<{sizePerThread = [${each}], `
      + `threadsPerWarp = [${WARP}], warpsPerCTA = [${sizes.warps}], order = [0]}>`;
  }

  /** Show a thread, all that it holds, and one element of that. */
  point({ thread, element }, live = "polite") {
    const { each } = this.layout;
    const own = held(this.layout, thread);
    const names = holders(this.layout, element); // two may share a box
    for (const box of this.rows.querySelectorAll(".layout__held")) box.className = box.innerHTML = "";
    for (let i = 0; i < own.length; i += each) {
      const box = this.boxes[own[i] / each];
      box.className = "layout__held";
      box.innerHTML = `<span>${plural(names.length, "thread")} ${names.join(", ")}</span>`;
    }
    this.columns.forEach((column, i) => (column.className = i === thread % WARP ? "layout__column" : ""));
    const here = this.boxes[Math.floor(element / each)];
    here.className += " layout__here";
    here.style.setProperty("--at", element % each);
    this.list(thread, own, element);
    const [, detail] = this.form.querySelectorAll("output");
    detail.ariaLive = live; // a screen reader would fall behind a pointer
    detail.textContent = this.sentence(thread, element, own);
  }

  /** Show the registers of a thread, those that one instruction loads side by side. */
  list(thread, own, element) {
    const { each } = this.layout;
    const cells = own.map((held, i) => {
      const here = held === element ? ' aria-current="true"' : "";
      return `<b data-element="${held}"${here}><span>${held}</span><small>${i}</small></b>`;
    });
    const pieces = [];
    for (let i = 0; i < own.length; i += each) pieces.push(`<span>${cells.slice(i, i + each).join("")}</span>`);
    this.registers.innerHTML = pieces.join("");
    this.registers.ariaLabel = `Registers of thread ${thread}, and their elements`;
    const { offsetLeft, offsetWidth } = this.registers.querySelector("[aria-current]");
    this.registers.scrollLeft = offsetLeft + offsetWidth / 2 - this.registers.clientWidth / 2;
    this.edges();
  }

  /** Where the strip of registers goes on, it fades, under an arrow. */
  edges() {
    const { scrollLeft, scrollWidth, clientWidth } = this.registers;
    this.registers.tabIndex = scrollWidth > clientWidth ? 0 : -1; // to scroll by keys
    const more = [scrollLeft > 1, scrollLeft + clientWidth < scrollWidth - 1];
    this.arrows.forEach((arrow, i) => (arrow.hidden = !more[i]));
    ["--before", "--after"].forEach((edge, i) => this.registers.style.setProperty(edge, more[i] ? "3rem" : "0px"));
  }

  sentence(thread, element, own) {
    const { each } = this.layout;
    const pieces = [];
    for (let i = 0; i < own.length; i += each) pieces.push(`${span(own[i], each)} in ${span(i, each)}`);
    pieces[0] = `${plural(each, "element")} ${pieces[0].replace(" in", ` in ${plural(each, "register")}`)}`;
    if (pieces.length > 2) pieces.splice(1, pieces.length - 2, "…");
    const others = holders(this.layout, element);
    const who = others.length > 1 ? ` of threads ${list(others)}` : "";
    return `Thread ${thread} of warp ${Math.floor(thread / WARP)}: ${pieces.join(", ")}. `
      + `Element ${element} is in register ${own.indexOf(element)}${who}.`;
  }

  /** The thread and the element under a pointer, or nothing. */
  under({ target, clientX }) {
    const box = target.closest(".layout__row i");
    if (!box) return null;
    const { each } = this.layout;
    const { left, width } = box.getBoundingClientRect();
    const within = Math.min(Math.max(Math.floor(((clientX - left) / width) * each), 0), each - 1);
    const element = this.boxes.indexOf(box) * each + within;
    return { thread: holders(this.layout, element)[0], element };
  }

  hover(event) {
    const place = this.under(event);
    if (!place) return;
    this.point(place, "off");
    this.pointed = true;
    this.fill(place);
  }

  /** Show again what was chosen, after what was only pointed at. */
  leave() {
    if (!this.pointed) return;
    this.pointed = false;
    const { thread, element } = this.shown;
    this.fill({ thread, element });
    this.point(this.shown);
  }

  choose(place) {
    if (!place) return;
    this.fill(place);
    this.update();
  }

  /** Say a place in its fields. */
  fill(place) {
    for (const [name, value] of Object.entries(place)) {
      this.form[name].value = value;
      this.slide(this.form[name]);
    }
  }
}

define("layout-explorer", LayoutExplorer);
