// SPDX-License-Identifier: Apache-2.0
// <time-line>: a hand that goes through a recorded timeline, and what host and GPU do at that moment.

import { TimeBar, define } from "../explorer.js";

/** What a lane does at a moment: `spans` are its bars, of a call each. */
export function doing(spans, moment) {
  const on = spans.find(([, , begin, end]) => begin <= moment && moment < end);
  if (on) return ["busy", on[1]];
  return spans.some(([, , , end]) => end > moment) ? ["waits"] : ["done"];
}

class TimeLine extends HTMLElement {
  connectedCallback() {
    const spans = JSON.parse(this.dataset.spans);
    const of = (lane) => spans.filter(([name]) => name === lane);
    const hand = this.querySelector(".timeline__hand");
    const now = this.querySelector(".timeline__now");
    hand.hidden = now.hidden = false;
    const bar = this.querySelector(".time-bar");
    const ends = [...new Set(spans.flatMap(([, , begin, end]) => [Math.ceil(begin), Math.ceil(end)]))].sort((a, b) => a - b);
    const last = Math.max(...spans.map(([, , , end]) => end));
    this.bar = new TimeBar(bar, {
      watch: this,
      stops: ends,
      text: (moment) => `${moment.toLocaleString("en-US")} ${this.dataset.unit}`,
      draw: (moment) => {
        hand.style.setProperty("--at", Math.min(moment / last, 1));
        const [host, gpu] = ["host", "GPU"].map((lane) => doing(of(lane), moment));
        const says = { busy: (call) => `is busy with call ${call}`, waits: () => "waits", done: () => "is done" };
        now.textContent = `The host ${says[host[0]](host[1])}; the GPU ${says[gpu[0]](gpu[1])}.`;
      },
    });
    this.bar.show();
  }

  disconnectedCallback() {
    this.bar.stop();
  }
}

define("time-line", TimeLine);
