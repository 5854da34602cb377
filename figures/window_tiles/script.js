// SPDX-License-Identifier: Apache-2.0
// <window-tiles>: which tiles of scores a window leaves to compute; drag the window's edge in the picture.

import { FormExplorer, count, define, write } from "../explorer.js";

const KINDS = ["whole", "part", "off"];

/** Whether a query sees a key. */
export const sees = ({ window, causal }, query, key) =>
  Math.abs(query - key) < window && (key <= query || !causal);

/** The weights of a query: of the sink, 0 without one, and of each key. */
export function weights({ scores, query, sink = -Infinity, ...state }) {
  const powers = [sink, ...scores.map((score, key) => (sees(state, query, key) ? score : -Infinity))].map(Math.exp);
  const total = powers.reduce((a, b) => a + b);
  return powers.map((power) => power / total);
}

/** What a program does with each tile of keys, by the four edges that the kernel computed. */
export const kinds = ([start, whole, wholeEnd, end], tile, tiles) =>
  Array.from({ length: tiles }, (_, i) => i * tile).map((key) =>
    key < start || key >= end ? "off" : key >= whole && key < wholeEnd ? "whole" : "part");

class WindowTiles extends FormExplorer {
  connectedCallback() {
    const { tile, sink, scores, edges } = this.dataset;
    [this.tile, this.sink] = [Number(tile), Number(sink)];
    this.scores = scores.split(" ").map((row) => [...row].map(Number));
    this.edges = edges.split(" ");
    this.rows = [...this.querySelectorAll(".seen__row")];
    const picture = this.querySelector(".seen__picture");
    picture.onpointerdown = (event) => {
      this.dragged = this.from(event);
      if (this.dragged) picture.setPointerCapture(event.pointerId);
      this.drag(event);
    };
    picture.onpointermove = (event) => this.drag(event);
    picture.onpointerup = picture.onpointercancel = () => (this.dragged = false);
    super.connectedCallback();
  }

  /** The query and the key under a pointer, which may be beside the picture. */
  from({ clientX, clientY }) {
    const box = (element) => element.getBoundingClientRect();
    const [top, bottom] = [box(this.rows[0]), box(this.rows.at(-1))];
    const [first, last] = [box(this.rows[0].children[1]), box(this.rows[0].children[this.rows.length])];
    const place = (at, begin, end) => Math.floor(((at - begin) / (end - begin)) * this.scores.length);
    const query = place(clientY, top.top, bottom.bottom);
    return query in this.scores ? { query, key: place(clientX, first.left, last.right) } : null;
  }

  drag(event) {
    const found = this.dragged && this.from(event);
    if (!found) return;
    const { window, sees: way } = this.form.elements;
    const away = way.value === "causal" ? found.query - found.key : Math.abs(found.query - found.key);
    window.value = Math.min(Math.max(away, 0), this.scores.length - 1) + 1;
    this.update();
  }

  /** What the programs were told for this window. */
  told({ window, causal }) {
    const tiles = this.rows.length;
    const text = this.edges[causal ? 0 : 1].slice((window - 1) * tiles * 4, window * tiles * 4);
    return this.rows.map((_, i) => [...text.slice(4 * i, 4 * i + 4)].map((digit) => parseInt(digit, 36)));
  }

  render({ window, sees: way, sink: sunk }) {
    const { tile, scores } = this;
    const state = { window, causal: way === "causal" };
    const sink = sunk === "sink" ? this.sink : -Infinity;
    const counts = { whole: 0, part: 0, off: 0 };
    const told = this.told(state);
    let lost = 0;
    this.rows.forEach((row, i) => {
      const [well, ...tiles] = row.children;
      const edges = tiles.pop();
      const own = Array.from({ length: tile }, (_, k) => weights({ scores: scores[i * tile + k], query: i * tile + k, sink, ...state }));
      [...well.children].forEach((cell, k) => {
        cell.style.setProperty("--w", own[k][0].toFixed(3));
        lost += own[k][0];
      });
      kinds(told[i], tile, tiles.length).forEach((kind, j) => {
        counts[kind] += 1;
        tiles[j].className = kind;
        [...tiles[j].children].forEach((cell, place) => {
          const [query, key] = [i * tile + Math.floor(place / tile), j * tile + (place % tile)];
          const seen = kind !== "off" && sees(state, query, key);
          cell.className = kind === "off" || seen ? "" : "hidden";
          if (seen) cell.style.setProperty("--w", own[query - i * tile][1 + key].toFixed(3));
          else cell.removeAttribute("style");
        });
      });
      write(edges, `${told[i][0]} … ${told[i][3]}`);
    });
    this.classList.toggle("seen--sink", sunk === "sink");
    this.show(counts, state, lost);
  }

  show(counts, { window, causal }, lost) {
    const all = this.rows.length ** 2;
    const visited = all - counts.off;
    write(this.querySelector(".seen__count strong"), visited);
    write(this.querySelector(".seen__window b"), window);
    KINDS.forEach((kind, i) => {
      write(this.querySelectorAll(".seen__key strong")[i], counts[kind]);
      this.querySelectorAll(".seen__bar i")[i].style.setProperty("--share", counts[kind] / all);
    });
    const [start, , , end] = this.told({ window, causal }).at(-1);
    const sinks = lost ? ` The sink gets ${Math.round((100 * lost) / this.scores.length)}% of all the weight.` : "";
    write(
      this.form.querySelector("output"),
      `A query sees ${window} of the keys${causal ? " at most" : " to each side at most, its own among them"}. `
        + `The last program begins at key ${start} and ends before key ${end}.${sinks}`,
    );
    this.form.elements.window.ariaValueText = `${count(window, "key")}: ${visited} of ${all} tiles`;
  }
}

define("window-tiles", WindowTiles);
