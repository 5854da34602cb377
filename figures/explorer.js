// SPDX-License-Identifier: Apache-2.0
// What the explorers share: words, the page's address as the place of their state, stepping and playing.

export const plural = (number, word) => (number === 1 ? word : `${word}s`);
export const count = (number, word) => `${number} ${plural(number, word)}`;
export const list = (values) => values.join(", ").replace(/, (?=[^,]*$)/, " and ");
export const cdiv = (a, b) => Math.ceil(a / b);
export const define = (name, element) => customElements.get(name) || customElements.define(name, element);

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

/** An element whose state is what its form says, kept in the address. `render(state)` shows it.
    A button with `data-plays` leads the field of that name to its end, those with `data-step` a step on or back. */
export class FormExplorer extends HTMLElement {
  connectedCallback() {
    this.form = this.querySelector("form");
    for (const part of this.querySelectorAll("[hidden]")) part.hidden = false; // of no use without a script
    if (!this.first) {
      this.first = this.state;
      const asked = readAddress(this.id);
      for (const [name, value] of Object.entries(this.first)) {
        const field = this.form.elements[name];
        // A slider would take its middle for what is no number.
        field.value = asked[name] && !(field.type === "range" && isNaN(asked[name])) ? asked[name] : value;
        field.value ||= value; // of a list that has no such entry
      }
    }
    this.form.onsubmit = () => false;
    this.form.oninput = () => this.update();
    this.play = this.querySelector("[data-plays]");
    if (this.play) this.tie();
    this.update();
  }

  disconnectedCallback() {
    if (this.play) this.stop();
  }

  /** By name; numbers as numbers. */
  get state() {
    const all = [...new FormData(this.form)];
    return Object.fromEntries(all.map(([name, value]) => [name, isNaN(value || "-") ? value : Number(value)]));
  }

  update() {
    this.render(this.state);
    for (const button of this.steps ?? []) {
      button.disabled = button.dataset.step > 0 ? this.over : this.moment.value === this.moment.min;
    }
    writeAddress(this.id, this.state, this.first);
  }

  tie() {
    this.moment = this.form.elements[this.play.dataset.plays];
    this.steps = this.querySelectorAll("[data-step]");
    this.play.hidden = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.play.onclick = () => (this.timer ? this.stop() : this.start());
    for (const button of this.steps) button.onclick = () => this.move(button.dataset.step);
    this.form.onpointerdown = this.form.onkeydown = ({ target }) => target === this.play || this.stop();
    this.stop();
  }

  /** Whether there is nothing left to play. */
  get over() {
    return this.moment.value === this.moment.max;
  }

  move(by) {
    this.moment.stepUp(by);
    this.update();
  }

  start() {
    if (this.over) this.moment.value = this.moment.min;
    this.say("Stop", "off"); // a screen reader would fall behind
    this.timer = setInterval(() => {
      this.move(1);
      if (this.over) this.stop();
    }, this.play.dataset.pace);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.say("Play", "polite");
  }

  say(button, live) {
    this.play.textContent = button;
    this.form.querySelector("output").ariaLive = live;
  }
}
