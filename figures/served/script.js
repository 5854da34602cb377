// SPDX-License-Identifier: Apache-2.0
// <served-call>: which functions of a package ran, on the machine that is chosen.

import { FormExplorer, define } from "../explorer.js";

class ServedCall extends FormExplorer {
  render({ machine }) {
    const { given, imported, ran, says, error } = this.querySelector(`[name=machine][value="${machine}"]`).dataset;
    const order = ran.split("|");
    for (const part of this.querySelectorAll("[data-file]")) {
      part.classList.toggle("served--read", imported.split("|").includes(part.dataset.file));
    }
    for (const part of this.querySelectorAll("[data-run]")) {
      const place = order.indexOf(part.dataset.run);
      part.classList.toggle("served--ran", place >= 0);
      part.firstElementChild.textContent = place < 0 ? "" : place + 1;
    }
    const write = (name, text) => (this.querySelector(`[data-of=${name}]`).textContent = text);
    write("given", `${given}:`);
    write("says", says);
    write("error", error);
    this.querySelector("output").textContent = `${given}: ${says}${error}`;
  }
}

define("served-call", ServedCall);
