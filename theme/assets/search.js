// SPDX-License-Identifier: Apache-2.0
// What the search offers before there is a question, and its keys: Down and Up go from result to result, Right unfolds what
// else was found on a result's page, and Left folds it. It comes when somebody reaches for the search.

const site = (path) => new URL(`../${path}`, import.meta.url).href;
const make = (tag, given = {}, ...inner) => {
  const made = Object.assign(document.createElement(tag), given);
  made.append(...inner);
  return made;
};
const PLACES = { Install: "start/install/", "Error messages": "reference/errors/", "Cheat sheet": "reference/cheat-sheet/" };
const QUERIES = ["mask", "out of shared memory", "matmul not accurate"];
const input = document.querySelector(".md-search__input");

function ask(query) {
  input.value = query;
  input.focus();
  for (const type of ["input", "keyup"]) input.dispatchEvent(new Event(type, { bubbles: true }));
}

/** The lesson that was opened last, as progress.js keeps it. */
function last() {
  try {
    const { path, name, at } = JSON.parse(localStorage.getItem("lesson-last"));
    return path === location.pathname ? [] : [[`Continue: ${name}`, path + (at ? `#${at}` : "")]];
  } catch {
    return [];
  }
}

const link = ([textContent, href]) => make("a", { href, textContent, tabIndex: -1 });
const places = [...last(), ...Object.entries(PLACES).map(([name, path]) => [name, site(path)])];
const queries = QUERIES.map((query) => make("button", { type: "button", textContent: query, tabIndex: -1, onclick: () => ask(query) }));
const offer = () => document.querySelector(".md-search__scrollwrap").prepend(
  make("div", { className: "search-offer" }, make("p", {}, "Go to"), make("div", {}, ...places.map(link)), make("p", {}, "Or try"), make("div", {}, ...queries)),
);
document.head.append(make("link", { rel: "stylesheet", href: site("assets/search.css"), onload: offer }));

const stops = () =>
  [...document.querySelectorAll(".search-offer :is(a, button), .md-search-result__link")].filter((each) => each.checkVisibility({ visibilityProperty: true }));

addEventListener("keydown", (e) => {
  const here = document.activeElement;
  if (!document.getElementById("__search").checked || e.isComposing || e.ctrlKey || e.metaKey || e.altKey) return;
  if (here === input && e.key !== "ArrowDown" && e.key !== "ArrowUp") return;
  const all = [input, ...stops()], at = all.indexOf(here), more = here.closest(".md-search-result__item")?.querySelector("details");
  if (at < 0) return;
  if (e.key === "ArrowDown" || e.key === "ArrowUp") all.at((at + (e.key === "ArrowDown" ? 1 : -1)) % all.length).focus();
  else if (e.key === "ArrowRight" && more) more.open = true;
  else if (e.key === "ArrowLeft" && more) {
    if (more.contains(here)) more.parentElement.querySelector("a").focus();
    more.open = false;
  } else if (e.key !== "Enter" || !here.closest(".search-offer")) return;
  else here.click();
  e.preventDefault();
  e.stopImmediatePropagation(); // Material stops at what unfolds more, too
}, true);
