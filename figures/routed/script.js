// SPDX-License-Identifier: Apache-2.0
// <routed-tokens>: squares take their place among the tokens or among the experts' rows, as the moment says.

import { FormExplorer, define } from "../explorer.js";

class RoutedTokens extends FormExplorer {
  connectedCallback() {
    this.moments = JSON.parse(this.querySelector("script").textContent); // a name, a word for the bar, a sentence
    super.connectedCallback();
  }

  get timing() {
    return { text: (moment) => this.moments[moment][1] };
  }

  render({ routing, moment }) {
    const [name, , said] = this.moments[moment];
    for (const picture of this.querySelectorAll(".routed")) {
      picture.hidden = picture.dataset.routing !== routing;
      picture.className = `routed routed--${name}`;
    }
    this.form.querySelector("output").textContent = said;
  }
}

define("routed-tokens", RoutedTokens);
