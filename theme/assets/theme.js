// SPDX-License-Identifier: Apache-2.0
// What Material leaves out for keyboards and screen readers.

const PICTURE = ".recording__view:has(> .launch-pictures)"; // its table scrolls by itself
const SCROLLING = `.md-typeset :is(pre > code, .md-typeset__scrollwrap, table[class], ${PICTURE})`;
let waiting = false;

const reached = (e) => e.matches("[tabindex]") || e.closest(`[tabindex]:not(${PICTURE})`);
const folded = (e) => e.closest("details:not([open])"); // measuring it would cost a layout
const compared = (e) => e.querySelector("[data-numbers]"); // scrolls on a phone, which is not known before it is laid out
const scrolls = (e) => e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight || compared(e);

// The menu of a narrow screen has a label in place of a button, which Tab does not reach.
const drawer = () => document.getElementById("__drawer");

function menuButton() {
  const label = document.querySelector("label.md-header__button[for=__drawer]");
  if (!label) return document.querySelector(".menu-button");
  const button = document.createElement("button");
  button.className = `${label.className} menu-button`;
  button.ariaLabel = "Menu";
  button.append(...label.childNodes);
  button.addEventListener("click", () => drawer().click());
  label.replaceWith(button);
  return button;
}

function complete() {
  waiting = false;
  menuButton().ariaExpanded = String(drawer().checked);
  const search = document.querySelector(".md-search");
  search?.setAttribute("aria-label", search.querySelector("input").placeholder);
  search?.querySelector(".md-search-result__meta").setAttribute("role", "status"); // says how many results there are
  for (const block of document.querySelectorAll(SCROLLING))
    if (!reached(block) && !folded(block) && scrolls(block)) block.tabIndex = 0;
}

// One landmark a code block would hide the two that matter.
function copyButtonsAreNoLandmarks() {
  for (const nav of document.querySelectorAll("nav.md-code__nav:not([role])")) nav.setAttribute("role", "none");
}

function soon() {
  if (!waiting) requestAnimationFrame(complete);
  waiting = true;
}

// Material takes the tabindex of code away where nothing hovers, and content comes that was fetched. A figure that plays
// changes words only, many times a second: measuring the page's code each time would hold up the picture.
const matters = ({ type, addedNodes }) => type === "attributes" || [...addedNodes].some((node) => node instanceof Element);
new MutationObserver((all) => {
  if (!all.some(matters)) return;
  copyButtonsAreNoLandmarks();  // at once: a screen reader may look before the next frame
  soon();
}).observe(document.body, { subtree: true, childList: true, attributeFilter: ["tabindex"] });
addEventListener("resize", soon);
addEventListener("toggle", soon, true);
addEventListener("change", soon);
copyButtonsAreNoLandmarks();
soon();

// A long menu opens where its page is.
addEventListener("change", (e) => {
  const here = document.querySelector(".menu [aria-current]");
  if (e.target !== drawer() || !here) return;
  const { top, bottom } = here.getBoundingClientRect();
  if (bottom > innerHeight) here.closest(".md-sidebar__scrollwrap").scrollTop += top - innerHeight / 2;
});

addEventListener("keydown", (e) => {
  if (e.key !== "Escape" || !drawer().checked) return;
  drawer().click();
  menuButton().focus();
});

// Without the heights of everything above it (theme.css guesses them), a link would miss its place.
const layOut = () => document.documentElement.classList.add("laid-out");
if (location.hash) layOut();
addEventListener("click", (e) => e.target.closest("a[href*='#']") && layOut(), true);

// To the heading itself: the browser would only scroll.
addEventListener("click", (e) => {
  if (!e.target.closest(".md-skip")) return;
  e.preventDefault();
  e.stopPropagation();
  const h1 = document.querySelector("h1");
  h1.tabIndex = -1;
  h1.focus();
  scrollTo(0, 0);
}, true);

// A whole file comes when it is unfolded; where it does not come, the link to it stays.
addEventListener("toggle", async (e) => {
  const link = e.target.open && e.target.querySelector(":scope > .whole-file__code a");
  if (!link) return;
  const answer = await fetch(link.href).catch(() => null);
  if (!answer?.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  link.parentElement.replaceWith(page.querySelector(".highlight"));
}, true);

// Whoever follows a link to a file wants to read it; and a link to what comes after a lesson, to see that.
function unfold() {
  const part = location.hash.length > 1 && document.querySelector(`[id="${CSS.escape(location.hash.slice(1))}"]`);
  if (!part) return;
  const file = part.matches(".recording--file") && part.querySelector("details");
  if (file) file.open = true;
  const behind = part.closest(".behind:not([open])");
  if (!behind) return;
  behind.open = true;
  part.scrollIntoView();
}
addEventListener("hashchange", unfold);
unfold();

// Who reaches for the search will want its documents, which the worker gets at the first query: a blank is one.
function wanted(e) {
  const box = document.querySelector(".md-search__input");
  if (box && e.target.closest?.(".md-search, [for=__search]")) import("./search.js"); // what it offers before a question
  if (!box || box.value || !e.target.closest?.(".md-search, [for=__search]")) return;
  for (const value of [" ", ""]) {
    box.value = value;
    box.dispatchEvent(new Event("keyup"));
  }
}
for (const type of ["pointerover", "focusin"]) addEventListener(type, wanted);

// Until they are here, it says that it looks for them.
// Material looks when a key is let go, so what a mouse or a phone pastes would wait for one.
addEventListener("input", (e) => {
  if (!e.target.matches(".md-search__input")) return;
  e.target.dispatchEvent(new Event("keyup"));
  const said = document.querySelector(".md-search-result__meta");
  if (said && !document.querySelector(".md-search-result__item")) said.textContent = e.target.value ? "Searching…" : "";
});

// An Enter that comes before the results is remembered, and follows the first of them when they come.
let early = ""; // the query that it was meant for
addEventListener("keydown", (e) => {
  const { key, target } = e;
  if (!target.matches?.(".md-search__input") || !target.value || document.querySelector(".md-search-result__item")) return;
  if (key === "Enter") e.preventDefault(); // before Material knows of the search, it would send the form: the page anew
  early = key === "Enter" ? target.value : key === "Escape" ? "" : early;
});
const results = document.querySelector(".md-search-result__list");
if (results) new MutationObserver(() => {
  const input = document.activeElement;
  if (!early || !results.children.length) return;
  const same = input.value === early;
  early = "";
  if (same) input.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
}).observe(results, { childList: true });
