// SPDX-License-Identifier: Apache-2.0
// What the explorers share: words, a state in the address, the bar of time.

export const plural = (number, word) => (number === 1 ? word : `${word}s`);
export const count = (number, word) => `${number} ${plural(number, word)}`;
export const list = (values) => values.join(", ").replace(/, (?=[^,]*$)/, " and ");
export const cdiv = (a, b) => Math.ceil(a / b);
export const define = (name, element) => customElements.get(name) || customElements.define(name, element);

/** Write a text into an element that holds nothing else. Its text node stays: for a new one the browser would lay out all
    that is in the same container. */
export function write(element, text) {
  const node = element.firstChild ?? element.appendChild(new Text());
  if (node.data !== `${text}`) node.data = text;
}

/** The query parameters `prefix.name` of the page's address. */
function readAddress(prefix) {
  const all = [...new URLSearchParams(location.search)];
  return Object.fromEntries(all.map(([key, value]) => [key.replace(`${prefix}.`, ""), value]));
}

/** Put values into the address, except those that are as at first. */
function writeAddress(prefix, values, first) {
  const url = new URL(location);
  for (const [name, value] of Object.entries(values)) {
    if (value === first[name]) url.searchParams.delete(`${prefix}.${name}`);
    else url.searchParams.set(`${prefix}.${name}`, value);
  }
  if (url.href !== location.href) history.replaceState(history.state, "", url);
}

/** The bar of time below a picture (macro `time_bar` of forms.html): play, step back, step, a track to drag.
    Its track, a slider, holds the moment; its value on the page is the one on which it comes to rest.
    `draw(moment, playing)` shows a moment; `text(moment)` says it in a word or two. Call `show()` once, when all is ready.
    Nothing plays before a reader asks for it: the picture at rest is the one that says most, and who has begun to read it
    must not lose it. `stops`: the moments to which the buttons lead; by default, a step of the track further.
    `watch`: the picture. */
export class TimeBar {
  constructor(bar, { draw, text = String, stops, watch = bar.previousElementSibling }) {
    Object.assign(this, { bar, draw, text, stops, playing: false, seconds: bar.dataset.seconds });
    this.track = bar.querySelector("input");
    [this.toggle, this.back, this.on] = bar.querySelectorAll("button");
    this.rest = Number(this.track.defaultValue);
    this.parked = this.value === this.rest; // where it came to rest, not where a reader put it
    bar.hidden = false;
    this.track.oninput = (event) => {
      event.stopPropagation(); // or a form would draw it again
      this.hold();
      this.show();
    };
    this.track.onkeydown = (event) => {
      if (event.key !== " ") return;
      event.preventDefault();
      this.toggle.click();
    };
    // Whoever drags a value while it plays wants to see what that does to this moment.
    bar.closest("form")?.addEventListener("input", ({ target }) => target.type === "range" && this.stop(), true);
    this.toggle.onclick = () => (this.playing ? this.stop() : this.play());
    this.back.onclick = () => this.step(-1);
    this.on.onclick = () => this.step(1);
    this.still = this.toggle.hidden = matchMedia("(prefers-reduced-motion: reduce)").matches;
    // The bar of what a screen shows whole would only cover it.
    new ResizeObserver(() => bar.classList.toggle("time-bar--sticky", watch.offsetHeight > innerHeight - 120)).observe(watch);
  }

  get value() {
    return Number(this.track.value);
  }

  set value(moment) {
    this.track.value = moment; // which corrects it
  }

  get ends() {
    return [Number(this.track.min), Number(this.track.max)];
  }

  show() {
    this.draw(this.value, this.playing);
    this.say();
  }

  say() {
    const [min, max] = this.ends;
    const words = this.text(this.value);
    this.track.ariaValueText = words;
    write(this.bar.lastElementChild, words);
    this.bar.style.setProperty("--at", (this.value - min) / (max - min || 1));
    this.bar.classList.toggle("time-bar--playing", this.playing);
    this.toggle.ariaLabel = this.playing ? "Pause" : "Play";
    // Not `disabled`, which would take the focus.
    this.back.ariaDisabled = String(this.value <= min);
    this.on.ariaDisabled = String(this.value >= max);
  }

  /** Show where it rests, after a choice that makes another picture. */
  settle() {
    this.stop();
    this.parked = true;
    this.value = this.rest;
    this.show();
  }

  /** Play from the beginning to where it rests; where nothing may move, be there at once. */
  again() {
    this.settle();
    if (!this.still) this.play(this.rest);
  }

  /** Play to the end, or until a moment; from the beginning if it is there already, or came to rest by itself. */
  play(until) {
    this.stop();
    if (this.parked || this.value >= (until ?? this.ends[1])) [this.value] = this.ends;
    this.parked = false;
    this.playing = true;
    const step = Number(this.track.step) || 1;
    let [at, before, drawn] = [this.value, undefined, 0];
    const frame = (now) => {
      const [min, max] = this.ends; // another field may have changed it
      const last = Math.min(until ?? max, max);
      const passed = Math.min(now - (before ?? now), 100) / 1000; // no leap after the page was hidden
      at = Math.min(at + (passed / this.seconds) * (max - min), last);
      before = now;
      this.frame = requestAnimationFrame(frame);
      if (at < last && now - drawn < 32) return; // smooth, and a phone can keep up
      drawn = now;
      const shown = this.track.value;
      this.value = at < last ? min + Math.floor((at - min) / step + 1e-6) * step : last;
      if (at === last) {
        this.stop();
        this.parked = true;
      } else if (this.track.value !== shown) this.show();
    };
    this.frame = requestAnimationFrame(frame);
    this.show();
  }

  stop() {
    cancelAnimationFrame(this.frame);
    if (!this.playing) return;
    this.playing = false;
    this.show();
  }

  /** Stay where a reader wants it. */
  hold() {
    this.stop();
    this.parked = false;
  }

  step(by) {
    this.hold();
    const { value, stops } = this;
    if (!stops) this.track.stepUp(by);
    else if (by > 0) this.value = stops.find((stop) => stop > value) ?? this.ends[1];
    else this.value = stops.findLast((stop) => stop < value) ?? this.ends[0];
    this.show();
  }
}

/** An element whose state is what its form says, kept in the address. `render(state)` shows it.
    A bar of time is one of its fields, and `timing` says how it is said and stepped. */
export class FormExplorer extends HTMLElement {
  connectedCallback() {
    this.form = this.querySelector("form");
    for (const part of this.querySelectorAll("[hidden]")) part.hidden = false; // of no use without a script
    const asked = readAddress(this.id);
    if (!this.first) {
      this.first = this.state;
      for (const [name, value] of Object.entries(this.first)) {
        const field = this.form.elements[name];
        // A slider would take its middle for what is no number.
        field.value = asked[name] && !(field.type === "range" && isNaN(asked[name])) ? asked[name] : value;
        field.value ||= value; // of a list that has no such entry
      }
    }
    this.form.onsubmit = () => false;
    this.form.oninput = () => this.update();
    const bar = this.querySelector(".time-bar");
    if (bar) this.bar = new TimeBar(bar, { draw: () => this.update(), ...this.timing });
    this.update();
  }

  disconnectedCallback() {
    this.bar?.stop();
  }

  /** By name; numbers as numbers. */
  get state() {
    const all = [...new FormData(this.form)];
    return Object.fromEntries(all.map(([name, value]) => [name, isNaN(value || "-") ? value : Number(value)]));
  }

  update() {
    this.render(this.state);
    if (this.bar) {
      this.bar.say();
      const said = this.form.querySelector("output");
      if (said) said.ariaLive = this.bar.playing ? "off" : "polite"; // a screen reader would fall behind
      if (this.bar.playing) return; // the address keeps what somebody chose
    }
    writeAddress(this.id, this.state, this.first);
  }
}
