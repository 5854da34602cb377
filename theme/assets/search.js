// SPDX-License-Identifier: Apache-2.0
// What the search offers before there is a question and where nothing was found, and its keys: Down and Up go from result to
// result, Right unfolds what else was found on a result's page, and Left folds it. It comes when somebody reaches for the
// search.

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

// Where nothing was found: words of titles, of the glossary and of keywords that are spelled almost so, and where to look.
const ELSEWHERE = { Glossary: "reference/glossary/", Questions: "reference/questions/", "Error messages": "reference/errors/", "Cheat sheet": "reference/cheat-sheet/", Playground: "practice/playground/" };
const found = document.querySelector(".md-search-result");
let words; // a promise of all such words and terms

async function known() {
  const all = await (await fetch(site("search/documents.json"))).json(), terms = new Map();
  const add = (term) => term.length > 2 && !/[<&]/.test(term) && terms.set(term.toLowerCase(), term);
  for (const { location, title, keywords } of all) {
    const page = !location.includes("#");
    if (page) for (const word of title.split(/[^\p{L}\p{N}_-]+/u)) add(word);
    if (page) for (const term of keywords.split(", ")) add(term);
    if (location.startsWith("reference/glossary/#")) add(title);
  }
  return [...terms.values()];
}

/** How alike two words are: 1 if they are the same, 0 if they share nothing. */
function alike(one, other) {
  let row = [...other, ""].map((_, i) => i), before;
  for (let i = 1; i <= one.length; i++) {
    const next = [i];
    for (let j = 1; j <= other.length; j++) {
      next[j] = Math.min(next[j - 1] + 1, row[j] + 1, row[j - 1] + (one[i - 1] !== other[j - 1]));
      if (before && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1]) next[j] = Math.min(next[j], before[j - 2] + 1); // two that changed places
    }
    [before, row] = [row, next];
  }
  return 1 - row.at(-1) / Math.max(one.length, other.length);
}

async function near(query) {
  words ??= known();
  const all = await words.catch(() => (words = undefined)) ?? [];
  const asked = new Set([query, ...query.split(/[^\p{L}\p{N}_]+/u)].filter((word) => word.length > 2));
  const close = all.map((term) => [Math.max(0, ...[...asked].map((word) => alike(word, term.toLowerCase()))), term]);
  return close.filter(([by]) => by >= 0.5).sort(([a], [b]) => b - a).slice(0, 4).map(([, term]) => term);
}

let missed; // the query for which it stands
async function help() {
  const query = input.value.trim().toLowerCase(), said = found.querySelector(".md-search-result__meta").textContent;
  const none = query && !found.querySelector(".md-search-result__item") && !/…|\d/.test(said);
  if (!none || query !== missed) found.querySelector(".search-offer")?.remove();
  if (!none || query === missed) return void (missed = none ? query : undefined);
  missed = query;
  const terms = await near(query);
  if (missed !== query) return;
  const button = (term) => make("button", { type: "button", textContent: term, tabIndex: -1, onclick: () => ask(term) });
  const meant = terms.length ? [make("p", {}, "Did you mean"), make("div", {}, ...terms.map(button))] : [];
  const links = Object.entries(ELSEWHERE).map(([name, path]) => link([name, site(path)]));
  found.append(make("div", { className: "search-offer search-offer--none" }, ...meant, make("p", {}, terms.length ? "Or look here" : "Try another word, or look here"), make("div", {}, ...links)));
}
new MutationObserver(help).observe(found.querySelector(".md-search-result__meta"), { childList: true, characterData: true, subtree: true });
new MutationObserver(help).observe(found.querySelector(".md-search-result__list"), { childList: true });

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
