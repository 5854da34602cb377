// SPDX-License-Identifier: Apache-2.0
// <pipeline-explorer>: lanes of time, a tank of buffers. All times stand on the page (figures/pipeline/), as recorded.

import { FormExplorer, count, define } from "../explorer.js";

const times = (bar) => ["--b", "--e"].map((name) => Number(bar.style.getPropertyValue(name)));

class PipelineExplorer extends FormExplorer {
  connectedCallback() {
    this.launches = [...this.querySelectorAll("[data-launch]")];
    this.tank = this.querySelector(".tank__walls");
    super.connectedCallback();
    if (this.tank) this.tank.onpointerdown = this.tank.onpointermove = (event) => this.fill(event);
  }

  get timing() {
    return { text: (time) => `${(time / 1000).toFixed(1)} µs` };
  }

  /** Who drags in the tank asks for as many buffers as reach up to there. */
  fill({ buttons, clientY, pointerId, type }) {
    if (!buttons) return;
    if (type === "pointerdown") this.tank.setPointerCapture(pointerId);
    const { bottom, height } = this.tank.getBoundingClientRect();
    const part = (name) => Number(this.tank.parentElement.style.getPropertyValue(name));
    const bytes = ((bottom - clientY) / height) * part("--limit") - part("--rest");
    const fields = [...this.form.elements.stages];
    const wanted = Math.min(Math.max(Math.ceil(bytes / part("--stage")), 1), fields.length);
    if (this.state.stages === wanted) return;
    fields[wanted - 1].checked = true;
    this.update();
  }

  render({ stages, time }) {
    this.form.style.setProperty("--now", time);
    const lines = [];
    for (const launch of this.launches) {
      launch.hidden = stages !== undefined && Number(launch.dataset.launch) !== stages;
      if (!launch.hidden) lines.push(this.say(launch, time));
    }
    this.form.querySelector("output").textContent = lines.join("\n");
    if (this.tank) this.pour(stages, time);
    // What is refused takes no time. The bar and the axis keep their place.
    const refused = this.launches.some((launch) => !launch.hidden && launch.dataset.refused !== undefined);
    if (refused) this.bar.stop();
    this.bar.bar.style.visibility = refused ? "hidden" : "";
    this.form.classList.toggle("pipeline--refused", refused);
  }

  /** What has been multiplied so far, in words. */
  say(launch, time) {
    if (launch.dataset.refused !== undefined || time >= this.form.elements.time.max) return launch.dataset.about;
    const unit = launch.querySelector(".lanes--unit");
    const bars = (kind) => [...(unit ?? launch).querySelectorAll(`.lanes__${kind}`)].map(times);
    const finished = bars("multiplied").filter(([, end]) => end <= time).length;
    const [name] = launch.dataset.about.split(":");
    if (!unit) return `${name}: ${count(finished, "product")} finished`;
    const waited = bars("waits").reduce((sum, [begin, end]) => sum + Math.max(0, Math.min(end, time) - begin), 0);
    const share = Math.round((100 * waited) / (time || 1));
    return `${name}: after ${(time / 1000).toFixed(1)} µs, `
      + `${count(finished, "step")} multiplied; waited ${share}% of the time.`;
  }

  /** Show what is in each buffer at this time. */
  pour(stages, time) {
    const shown = this.launches.find((launch) => !launch.hidden);
    const lanes = [...shown.querySelectorAll(".lanes--buffer")];
    this.tank.classList.toggle("tank--over", !lanes.length);
    for (const buffer of this.tank.querySelectorAll("[data-buffer]")) {
      const number = Number(buffer.dataset.buffer);
      buffer.hidden = number > stages;
      const bars = [...(lanes[number - 1]?.querySelectorAll("i") ?? [])];
      const now = bars.find((bar) => { const [begin, end] = times(bar); return begin <= time && time < end; });
      buffer.dataset.holds = now?.className.match(/lanes__(\w+)/)[1] ?? "nothing";
    }
  }
}

define("pipeline-explorer", PipelineExplorer);
