// SPDX-License-Identifier: Apache-2.0
// Which lessons a reader has been through, and which exercises are done: remembered in this browser alone, and shown in
// the menu and in the lists.

const READ = "lessons-read", DONE = "exercises-done";
const here = {}; // for private windows, which keep nothing

/** Read each time: another tab, or the page to which one goes back, may have added to it. */
function kept(key) {
  let paths = here[key];
  try { paths = JSON.parse(localStorage.getItem(key)) ?? paths; } catch {}
  return new Set(Array.isArray(paths) ? paths : []);
}

function keep(key, paths) {
  here[key] = [...paths];
  try { localStorage.setItem(key, JSON.stringify(here[key])); } catch {}
}

function show() {
  const read = kept(READ), done = kept(DONE);
  for (const link of document.querySelectorAll(".md-nav--primary a.md-nav__link, a.path__lesson, .exercises a")) {
    link.classList.toggle("lesson-read", read.has(link.pathname));
    link.classList.toggle("exercise-done", done.has(link.pathname));
  }
  for (const button of document.querySelectorAll("button.exercise__done")) {
    const is = done.has(location.pathname);
    button.hidden = false;
    button.setAttribute("aria-pressed", is);
    button.textContent = is ? "✓ Done" : "Mark as done";
  }
  for (const line of document.querySelectorAll(".exercises__count")) {
    const all = [...document.querySelectorAll(".exercises__list a:first-child")];
    line.textContent = `${all.filter((link) => done.has(link.pathname)).length} of ${all.length} done, as you marked them in this browser.`;
    line.hidden = !done.size;
  }
}

document.addEventListener("click", ({target}) => {
  if (!target.closest("button.exercise__done")) return;
  const path = location.pathname, done = kept(DONE);
  if (!done.delete(path)) done.add(path);
  keep(DONE, done);
  show();
});

/** A lesson has been read when its end has been on the screen. */
const end = document.querySelector(".page-head .lesson") && document.querySelector("article h2#next");
if (end)
  new IntersectionObserver((seen) => {
    if (!seen.some((each) => each.isIntersecting)) return;
    keep(READ, kept(READ).add(location.pathname));
    show();
  }).observe(end);

show();
addEventListener("pageshow", (e) => e.persisted && show()); // brought back as it was left
