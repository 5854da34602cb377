// SPDX-License-Identifier: Apache-2.0
// What the explorers share: words, and the page's address as the place of their state.

export const plural = (count, word) => (count === 1 ? word : `${word}s`);
export const list = (values) => values.join(", ").replace(/, (?=[^,]*$)/, " and ");

/** The query parameters `prefix.name` of the page's address. */
export function readAddress(prefix) {
  const all = [...new URLSearchParams(location.search)];
  return Object.fromEntries(all.map(([key, value]) => [key.replace(`${prefix}.`, ""), value]));
}

/** Put values into the address, except those that are as at first. */
export function writeAddress(prefix, values, first) {
  const url = new URL(location);
  for (const [name, value] of Object.entries(values)) {
    if (value === first[name]) url.searchParams.delete(`${prefix}.${name}`);
    else url.searchParams.set(`${prefix}.${name}`, value);
  }
  if (url.href !== location.href) history.replaceState(history.state, "", url);
}

/** An element whose state is what its form says, kept in the address. `render(state)` shows it. */
export class FormExplorer extends HTMLElement {
  connectedCallback() {
    this.form = this.querySelector("form");
    for (const part of this.querySelectorAll("[hidden]")) part.hidden = false; // of no use without a script
    if (!this.first) {
      this.first = this.state;
      const asked = readAddress(this.id);
      for (const [name, value] of Object.entries(this.first)) {
        const field = this.form.elements[name];
        field.value = asked[name] ?? value;
        field.value ||= value; // of a list that has no such entry
      }
    }
    this.form.onsubmit = () => false;
    this.form.oninput = () => this.update();
    this.update();
  }

  get state() {
    return Object.fromEntries(new FormData(this.form));
  }

  update() {
    this.render(this.state);
    writeAddress(this.id, this.state, this.first);
  }
}
