// SPDX-License-Identifier: Apache-2.0
// Material's search worker, which gets the documents only when somebody searches: they outweigh most pages.
// What Material fetches on every page, search/search_index.json, holds the settings of the search and no documents;
// these are in search/documents.json. Where a build has not parted the two, Material's worker gets them at once.
// While they load, the pages and errors that are called so are the answer: search/titles.json, which is small.
// They keep the first places, in the same order, when the documents are there: a reader's Enter goes where they saw it go.
// A page that has the whole query as one of its keywords comes right behind those that are called so.
// And a query is put so that pages with all of its words come first, and those with some of them only if none has all. A
// message of an error, pasted whole or in part, finds the entry that is called so.

const [SETUP, QUERY, RESULT] = [0, 2, 3]; // types of Material's messages
const LITTLE = new Set( // what says little of the answer: words of questions, and names that stand in most listings
  ("a an and any are as at be but by can do does for from get got how i if in into is it its me my not of on or run should " +
    "so that the " +
    "then there this to torch triton tl use was what when where which who why will with you your").split(" "),
);
let settings = null; // while there are no documents
let query, loading;

/** The words of a query that say something. */
function meant(query) {
  const all = query.toLowerCase().split(/[^\p{L}\p{N}]+/u).filter(Boolean);
  const some = all.filter((word) => !(/[._]/.test(query) ? /^(tl|triton|torch)$/.test(word) : LITTLE.has(word)));
  return [...new Set(some.length ? some : all)];
}

/** What is asked of lunr: pages with all words, then those with any; where there are none, those with a similar one. */
function ways(query) {
  const put = (form) => meant(query).map(form).join(" ");
  const begin = (word) => `${word.replace(/(?<=\w{3})(ations?|ions?|ings?|ed|ies|es|s|y|e)$/, "")}*`;
  return [
    [put((word) => `+${begin(word)} ${word}^4`), put((word) => `${begin(word)} ${word}^4`)],
    [put((word) => (word.length > 4 ? `${word}~${word.length > 7 ? 2 : 1}` : `${word}*`))],
  ];
}

const ASKS = /^(are|can|do|does|how|is|should|what|when|where|which|why|will)\b|\?\s*$/i;
const ANSWERS = "reference/questions/"; // comes before others where a query is a question, if it is one of the best
const BEST = 5;
const ERRORS = "reference/errors/";

let titles = []; // of pages, errors and terms: where, what it is called, and a page's keywords; the first is shown first
// Of one query: what is asked, what if that finds nothing, what was found, and the query, in its words and as it is.
let first, otherwise, found, called, typed;
const answer = postMessage;
postMessage = (message) => {
  if (message.type !== RESULT || !found) return answer(message);
  const known = new Set(found.map(([page]) => page.location.split("#")[0]));
  found.push(...message.data.items.filter(([page]) => !known.has(page.location.split("#")[0])));
  if (!first.length && !found.length) [first, otherwise] = [otherwise, []];
  if (first.length) return tell(QUERY, first.shift());
  const answers = (parts, i) => i < BEST && ASKS.test(typed) && parts[0].location.startsWith(ANSWERS);
  const rank = (parts, i) => Math.min(place(parts), parts.some(begins) ? 3 : answers(parts, i) ? 4 : 5);
  const ranked = found.flatMap(apart).map((parts, i) => [rank(parts, i), parts]).sort(([a], [b]) => a - b);
  const items = ranked.map(([, parts], i) => scored(parts, ranked.length - i));
  answer({ ...message, data: { ...message.data, items } });
};

const words = (text) => text.replace(/<[^>]*>/g, "").toLowerCase().split(/[^\p{L}\p{N}]+/u).filter(Boolean);

/** Whether a page or a section is called what was asked for. */
function begins({ title }) {
  const bare = title.replace(/<[^>]*>/g, "").trim().toLowerCase();
  return called.includes(" ") ? bare.startsWith(called) || words(title).join(" ").startsWith(called) : bare === called;
}

const entry = ({ location }) => location.startsWith(ERRORS) && location.includes("#");

/** How many words the title of an error's entry shares with the message that was asked for, in pieces of two and more,
    and the kind of the error: 0 if they are not about the same. */
function tells(part) {
  if (!entry(part)) return 0;
  const letters = (text) => words(text).filter((word) => !/^\d+$/.test(word)); // numbers differ from case to case
  const [a, b] = [letters(part.title), letters(typed)];
  let same = 0;
  for (let i = 0, longest; i < a.length; i += Math.max(1, longest)) {
    longest = 0;
    for (let j = 0; j < b.length; j++) {
      let n = 0;
      while (i + n < a.length && a[i + n] === b[j + n]) n++;
      longest = Math.max(longest, n);
    }
    if (longest > 1 || a[i].endsWith("error")) same += longest;
    else if (longest && a.length === 1 && a[0].length > 12) return 1; // a long name is a message
  }
  return same > 2 && same >= 0.4 * Math.min(a.length, b.length) ? same : 0;
}

/** A page as it was found, but the error's entry that the message is about is a result of its own. */
function apart(parts) {
  const told = parts.map(tells), best = Math.max(...told);
  if (!best) return [parts];
  const own = parts[told.indexOf(best)];
  return [[own], parts.filter((part) => part !== own)].filter((group) => group.length);
}

/** Whether a page is the exercise that was asked for as such, by words of its title or address. */
const exercise = ({ location, title }) =>
  typed.match(/exercise|practice/i) && meant(typed)[1] && /^practice/.test(location) && has(`exercises ${location}${title}`);

/** Where a page belongs for what it is called: first an error's own entry, or the exercise that was asked for, then pages
    with all words of the query, those of which it is a keyword, and those with words that begin so. */
function place(parts) {
  if ((parts.length === 1 && tells(parts[0])) || exercise(parts[0])) return 0;
  const { location } = parts[0];
  const i = titles.findIndex(([page]) => page === location.split("#")[0]);
  if (i < 0) return Infinity;
  const [, title, keywords] = titles[i], turn = (i + 1) / (titles.length + 1);
  const lesson = !/#|^practice\//.test(location); // which is what who searches for a word wants
  if (lesson && meant(typed).every((word) => words(title).includes(word))) return turn;
  return isKeyword({ keywords }) ? 1 + turn : lesson && has(title) ? 2 + turn : Infinity;
}

const has = (title) => meant(typed).every((word) => words(title).some((other) => other.startsWith(word)));
const isKeyword = ({ keywords = "" }) => keywords.toLowerCase().split(", ").includes(typed.toLowerCase());

/** Whether a section is called just what was asked for, and its page is not. */
function named(part, page) {
  const [own, whole] = [part, page].map(({ title }) => words(title).join(" ").replace(/^\d+ /, ""));
  return part !== page && own === called && whole !== called;
}

/** A page and its sections, so that the Enter key leads to the first of all results (Material takes the highest score),
    and that a section is shown under each page (Material folds those with less than the best score): the section of that
    name, if there is one, and then Enter leads there. */
function scored(parts, score) {
  const best = parts[0].score, page = parts.find(({ location }) => !location.includes("#")) ?? parts[0];
  const own = parts.find((part) => named(part, page));
  const section = own ?? parts.find(({ location }) => location.includes("#"));
  const sorted = own ? [...new Set([parts[0], own, ...parts])] : parts;
  return sorted.map((part, i) => {
    const shown = own ? i < 2 : part.score >= best || part === section;
    return { ...part, score: part === own ? score + 0.1 : shown ? score : score - 0.5 };
  });
}

const tell = (type, data) => dispatchEvent(new MessageEvent("message", { data: { type, data } }));

/** Answer from the titles alone. */
async function answerByTitles() {
  titles = await (await fetch("../../../search/titles.json")).json();
  const parts = titles.map(([location, title, keywords]) => ({ location, title, keywords, text: "", terms: {} }))
    .filter((part) => isKeyword(part) || has(part.title) || tells(part) || exercise(part));
  parts.sort((a, b) => place([a]) - place([b]) || tells(b) - tells(a)); // Infinity less itself is no number
  const items = parts.slice(0, 10).map((part, i) => [{ ...part, score: 10 - i }]);
  if (items.length) answer({ type: RESULT, data: { items } });
}

async function load() {
  const first = answerByTitles().catch(() => {});
  const docs = await (await fetch("../../../search/documents.json")).json();
  await first; // to set up takes this thread a second
  const setup = { ...settings, docs };
  settings = null;
  tell(SETUP, setup);
  setTimeout(() => tell(QUERY, query)); // it sets itself up after this task
}

addEventListener("message", (event) => {
  const { type, data } = event.data;
  if (type === QUERY && data && event.isTrusted) { // the reader's: what follows is told to Material by us
    [[first, otherwise], found, called, typed] = [ways(data), [], meant(data).join(" "), data.trim()];
    event.stopImmediatePropagation();
    return tell(QUERY, first.shift());
  }
  if (type === SETUP && !data.docs.length) settings = data;
  if (type === QUERY && data && settings) {
    event.stopImmediatePropagation(); // until there is something to search, and then for the last query
    query = data;
    loading ??= load().catch(() => (loading = null)); // tried again at the next query
  }
});

importScripts(location.search.slice(1));
lunr.Builder.prototype.b = function () { this._b = 0.5; }; // Material's none favors long sections, whatever they are of
