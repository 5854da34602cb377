// SPDX-License-Identifier: Apache-2.0
// <schedule-explorer>: when each program of a launch ran, and on which SM. All of it stands
// on the page (figures/schedule/), and follows what is chosen: launch, moment, program.

import { FormExplorer, count, define, list, plural } from "../explorer.js";

class ScheduleExplorer extends FormExplorer {
  over = false; // a launch may end before the slider does, which serves all launches

  connectedCallback() {
    this.svg = this.querySelector("svg.schedule");
    this.stops = [...this.querySelectorAll(".schedule__launches span")];
    this.launches = [...this.svg.querySelectorAll("[data-name]")];
    this.lists = [...this.querySelectorAll("pre")].map(({ textContent }) =>
      textContent.trim().split("\n").slice(1).map((line) => {
        const [number, sm, place, begin, end] = line.trim().split(/\s+/).map(Number);
        return { number, sm, place, begin, end };
      }));
    super.connectedCallback();
    this.svg.onpointerdown = (event) => this.take(event);
    this.stops.forEach((stop, launch) => {
      stop.onclick = () => {
        this.form.launch.value = launch;
        this.update();
      };
    });
  }

  render({ launch, time, program }) {
    const { label, about, places } = this.launches[launch].dataset;
    this.programs = this.lists[launch];
    this.launches.forEach((other, i) => other.setAttribute("display", i === launch ? "inline" : "none"));
    this.stops.forEach((stop, i) => stop.classList.toggle("schedule__chosen", i === launch));
    this.form.launch.setAttribute("aria-valuetext", `${count(this.programs.length, "program")}: ${label}`);
    this.svg.setAttribute("aria-label", `${label}: ${about}`);
    this.querySelector(".schedule__about").textContent = about;

    const on = this.programs.filter(({ begin, end }) => begin <= time && time < end);
    const used = new Set(on.map(({ sm }) => sm)).size;
    const waiting = this.programs.filter(({ begin }) => begin > time).length;
    this.over = !on.length && !waiting;
    this.form.time.setAttribute("aria-valuetext", `${time} µs`);
    const [later, chosen] = this.querySelectorAll(".schedule__plot i");
    const across = (value) => `${(100 * value) / this.form.time.max}%`;
    later.style.left = across(time);
    const [summary, detail] = this.form.querySelectorAll("output");
    summary.textContent = `At ${time} µs: ${this.over ? "all have ended."
      : `${count(on.length, "program")} on ${count(used, "SM")}, ${waiting} waiting; `
        + `idle: ${count(this.dataset.sms - used, "SM")}.`}`;

    const { sm, place, begin, end } = this.programs[program] ?? {};
    chosen.hidden = sm === undefined;
    const others = this.programs.filter((other) => other.sm === sm).map(({ number }) => number);
    detail.textContent = chosen.hidden
      ? `Choose a program from 0 to ${this.programs.length - 1}, by its number or its bar.`
      : `Program ${program} ran on SM ${sm} from ${begin} to ${end} µs, ${(end - begin).toFixed(1)} µs long. `
        + `This SM ran ${plural(others.length, "program")} ${list(others)}.`;
    chosen.style.inset = `${(100 * (sm + place / places)) / this.dataset.sms}% auto auto ${across(begin)}`;
    chosen.style.width = across(end - begin);
  }

  /** Drag the moment across the picture; a click chooses a program. */
  take({ pointerId, clientX, button }) {
    if (button) return;
    let moved = false;
    this.svg.setPointerCapture(pointerId);
    this.svg.onpointermove = (event) => {
      moved ||= Math.abs(event.clientX - clientX) > 4;
      if (!moved) return;
      this.form.time.value = this.timeAt(event);
      this.update();
    };
    this.svg.onpointerup = (event) => moved || this.point(event);
    this.svg.onlostpointercapture = () => {
      this.svg.onpointermove = this.svg.onpointerup = null;
    };
  }

  timeAt({ clientX }) {
    const { left, width } = this.svg.getBoundingClientRect();
    return ((clientX - left) / width) * this.form.time.max;
  }

  /** Choose the program that is nearest to where somebody pointed. */
  point(event) {
    const { top, height } = this.svg.getBoundingClientRect();
    const time = this.timeAt(event);
    const row = ((event.clientY - top) / height) * this.dataset.sms - 0.5;
    const away = ({ sm, begin, end }) => Math.abs(sm - row) * 1e6 + Math.max(begin - time, time - end, 0);
    this.form.program.value = this.programs.reduce((a, b) => (away(b) < away(a) ? b : a)).number;
    this.update();
  }
}

define("schedule-explorer", ScheduleExplorer);
