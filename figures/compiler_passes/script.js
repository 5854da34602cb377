// SPDX-License-Identifier: Apache-2.0
// <compiler-passes>: time leads through the passes that matter. What each wrote stands on the page.

import { FormExplorer, define } from "../explorer.js";

class CompilerPasses extends FormExplorer {
  get timing() {
    return {
      text: (moment) => `${moment + 1} of ${this.form.pass.length}`,
      watch: this,
      draw: (moment) => {
        this.form.pass[moment].checked = true;
        this.update();
      },
    };
  }

  render({ pass }) {
    if (this.bar && this.bar.value !== pass) {
      this.bar.value = pass; // somebody chose it in the list
      this.bar.hold();
    }
    for (const mark of this.querySelectorAll("[data-mark]")) {
      mark.toggleAttribute("data-here", Number(mark.dataset.mark) === pass);
    }
  }
}

define("compiler-passes", CompilerPasses);
