// SPDX-License-Identifier: Apache-2.0
// Which lessons a reader has been through: remembered in this browser alone, and shown in the menu.

const KEY = "lessons-read";
let read = new Set();
try { read = new Set(JSON.parse(localStorage.getItem(KEY)) ?? []); } catch {} // private windows keep nothing

function mark() {
  for (const link of document.querySelectorAll(".md-nav--primary a.md-nav__link, a.path__lesson"))
    link.classList.toggle("lesson-read", read.has(link.pathname));
}

/** A lesson has been read when its end has been on the screen. */
const watch = new IntersectionObserver((seen) => {
  if (!seen.some((each) => each.isIntersecting)) return;
  read.add(location.pathname);
  try { localStorage.setItem(KEY, JSON.stringify([...read])); } catch {}
  mark();
});

function begin() {
  watch.disconnect();
  const end = document.querySelector(".page-head .lesson") && document.querySelector("article h2#next");
  if (end) watch.observe(end);
  mark();
}

if (window.document$) document$.subscribe(begin); // each page, also where Material only replaces the last one
else begin();
