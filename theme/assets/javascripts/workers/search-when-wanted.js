// SPDX-License-Identifier: Apache-2.0
// Material's search worker, which gets the documents only when somebody searches: they outweigh most pages.
// What Material fetches on every page, search/search_index.json, holds the settings of the search and no documents;
// these are in search/documents.json. Where a build has not parted the two, Material's worker gets them at once.
// They come as soon as a reader reaches for the search (theme.js sends a blank query then). Until they are here there
// are no results: those of a part of them would move under the pointer.
// A page that is called what was asked for comes first, and then one that has the whole query as one of its keywords.
// And a query is put so that pages with all of its words come first, and those with some of them only if none has all.
// A message of an error, pasted whole or in part, finds the entry that is called so.
// A result shows a page's own description, and of a section the sentence that says most of what was asked for: Material
// would show the first two paragraphs with any of its words.

const [SETUP, QUERY, RESULT] = [0, 2, 3]; // types of Material's messages
const LITTLE = new Set( // what says little of the answer: words of questions, and names that stand in most listings
  ("a an and any are as at be but by can do does each every for from get got how i if in into is it its me my not of " +
    "on or run should so that the then there this to torch triton tl use was what when where which who why will with " +
    "you your").split(" "),
);
let settings = null; // while there are no documents
let query, loading, waiting;

/** The words of a query that say something. */
function meant(query) {
  const all = query.toLowerCase().split(/[^\p{L}\p{N}]+/u).filter(Boolean);
  const some = all.filter((word) => !(/[._]/.test(query) ? /^(tl|triton|torch)$/.test(word) : LITTLE.has(word)));
  return [...new Set(some.length ? some : all)];
}

const stem = (word) => word.replace(/(?<=\w{3})(ations?|ions?|ings?|ed|ies|es|s|y|e)$/, "");

/** What is asked of lunr: pages with all words, then those with any; where there are none, those with a similar one. */
function ways(query) {
  const put = (form) => meant(query).map(form).join(" ");
  const begin = (word) => `${stem(word)}*`;
  return [
    [put((word) => `+${begin(word)} ${word}^4`), put((word) => `${begin(word)} ${word}^4`)],
    [put((word) => (word.length > 4 ? `${word}~${word.length > 7 ? 2 : 1}` : `${word}*`))],
  ];
}

const ASKS = /^(are|can|do|does|how|is|should|what|when|where|which|why|will)\b|\?\s*$/i;
const ANSWERS = "reference/questions/"; // before others where it has that question, or for any if it is one of the best
const BEST = 5;
const ERRORS = "reference/errors/";

let pages, texts; // by address: pages, and the text of every page and section
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
  const rank = (parts, i) =>
    Math.min(place(parts), parts.some(begins) || parts.some(asks) ? 4 : answers(parts, i) ? 5 : 6);
  const ranked = found.flatMap(apart).map((parts, i) => [rank(parts, i), parts]).sort(([a], [b]) => a - b);
  const items = ranked.map(([, parts], i) => scored(parts, ranked.length - i));
  answer({ ...message, data: { ...message.data, items } });
};

const bare = (title) => title.replace(/<[^>]*>/g, "").trim().toLowerCase(); // without what Material marks
const words = (title) => bare(title).split(/[^\p{L}\p{N}]+/u).filter(Boolean);

/** Whether a page or a section is called what was asked for. */
function begins({ title }) {
  const own = bare(title);
  return called.includes(" ") ? own.startsWith(called) || words(title).join(" ").startsWith(called) : own === called;
}

/** Whether a question has all words of the query. */
const asks = ({ location, title }) => location.startsWith(ANSWERS) && typed.includes(" ") && allIn(title);

/** Whether an entry of the glossary says what was asked for by "what is". */
const defines = ({ location, title }) =>
  location.startsWith("reference/glossary/#") && /^what('s| is| are) /i.test(typed) && same(bare(title), typed);

const stems = (text) => meant(text).map(stem);
const same = (one, other) => String(stems(one).sort()) === String(stems(other).sort());

/** Whether all words of the query stand in a title, in any form. */
const allIn = (title) => stems(typed).every((word) => words(title).map(stem).includes(word));

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
  const told = parts.map((part) => tells(part) || Number(entry(part) && exact(part))), best = Math.max(...told);
  if (!best) return [parts];
  const own = parts[told.indexOf(best)];
  return [[own], parts.filter((part) => part !== own)].filter((group) => group.length);
}

/** Whether a page is the exercise that was asked for as such, by words of its title or address. */
const exercise = ({ location, title }) =>
  typed.match(/exercise|practice/i) && meant(typed)[1] && /^practice/.test(location) && has(`exercises ${location}${title}`);

/** Where a page belongs for what it is called: first an error's or a term's own entry, or the exercise or the lesson
    of a number that was asked for, then pages with all words of the query, in any form, those with a section that is
    called so, those of which it is a keyword, those with words that begin so, and those with a keyword that does. */
function place(parts) {
  const page = pages.get(parts[0].location.split("#")[0]), turn = (page.turn + 1) / (pages.size + 1);
  const itself =
    (parts.length === 1 && (tells(parts[0]) || (entry(parts[0]) && exact(parts[0])))) ||
    exercise(parts[0]) || parts.some(defines);
  if (itself || page.part.toLowerCase() === typed.toLowerCase()) return 0;
  const lesson = !page.location.startsWith("practice/"); // which is what who searches for a word wants
  if (lesson && allIn(page.title)) return turn;
  if (parts.some(exact)) return 1;
  return isKeyword(page) ? 1 + turn : lesson && has(page.title) ? 2 + turn : keywordBegins(page) ? 3 + turn : Infinity;
}

const has = (title) => meant(typed).every((word) => words(title).some((other) => other.startsWith(word)));
const keywordBegins = ({ keywords }) =>
  typed.includes(" ") && keywords.split(", ").some((keyword) => keyword.toLowerCase().startsWith(typed.toLowerCase()));
const isKeyword = ({ keywords }) => keywords.split(", ").some((keyword) => same(keyword, typed));

/** Whether a section is called just what was asked for, but for what follows in parentheses. */
const exact = ({ location, title }) => location.includes("#") && words(title.replace(/\(.*\)$/, "")).join(" ") === called;

/** Whether a section is called just what was asked for, and its page is not. */
function named(part, page) {
  const [own, whole] = [part, page].map(({ title }) => words(title).join(" "));
  return part !== page && own === called && whole !== called;
}

/** What a result shows: a page's description, or the first of a section's sentences with most words of the query. Code
    and the text of a table are no sentences. */
function excerpt({ location, text }, wanted) {
  const count = (sentence) => {
    const all = words(sentence);
    return wanted.filter((stem) => all.some((word) => word.startsWith(stem))).length;
  };
  let said = pages.get(location)?.about, most = -1;
  const lines = said ? [] : texts.get(location).replace(/<pre>.*?<\/pre>/gs, "").split(/<\/?(?:p|li|ul|ol|br)>/);
  const plain = lines.map((line) => line.replace(/<[^>]*>/g, "").trim());
  for (const sentence of plain.flatMap((line) => line.split(/(?<=[.?!]”?) (?=[^a-z])/))) {
    const n = /^[^a-z].{40,300}[.?!:)”]$/.test(sentence) ? count(sentence) : -1;
    if (n > most) [said, most] = [sentence, n];
  }
  const marked = said?.replace(/[\p{L}\p{N}]+/gu, (word) => (count(word) ? `<mark>${word}</mark>` : word));
  return marked ? `<p>${marked}</p>` : text;
}

/** A page and its sections, so that the Enter key leads to the first of all results (Material takes the highest score),
    and that a section is shown under each page (Material folds those with less than the first's): the section of that
    name, if there is one, and then Enter leads there. A page with the query in its title shows what it is about instead.
    The page says which part of the course it is, as a tag. */
function scored(parts, score) {
  const best = parts[0].score, page = parts.find(({ location }) => !location.includes("#")) ?? parts[0];
  const own = parts.find((part) => named(part, page));
  const section = own ?? parts.find(({ location }) => location.includes("#"));
  const { part: where } = pages.get(page.location.split("#")[0]), wanted = stems(typed);
  const itself = allIn(page.title) && parts.includes(page);
  return [...new Set([own ?? parts[0], ...parts])].map((part) => {
    const shown = own ? part === own : itself ? part === page : part.score >= best || part === section;
    const tags = part === page && where ? [where] : undefined;
    return { ...part, text: excerpt(part, wanted), tags, score: shown ? score : score - 0.5 };
  });
}

const tell = (type, data) => dispatchEvent(new MessageEvent("message", { data: { type, data } }));

async function load() {
  const docs = await (await fetch("../../../search/documents.json")).json();
  texts = new Map(docs.map(({ location, text }) => [location, text]));
  pages = new Map(docs.filter(({ location }) => !location.includes("#")).map((page) => [page.location, page]));
  const setup = { ...settings, docs };
  settings = null;
  tell(SETUP, setup);
  setTimeout(soon); // it sets itself up after this task
}

function want() {
  const again = () => {
    loading = null;
    if (query) want();
  };
  loading ??= load().catch(() => setTimeout(again, 3000));
}

/** Ask for the last of the queries that have come meanwhile: results of the others would flash by. */
function soon() {
  waiting ??= setTimeout(ask);
}

/** Ask Material for what a reader has typed. */
function ask() {
  waiting = null;
  [[first, otherwise], found, called, typed] = [ways(query), [], meant(query).join(" "), query.trim()];
  tell(QUERY, first.shift());
}

addEventListener("message", (event) => {
  const { type, data } = event.data;
  if (type === SETUP && !data.docs.length) settings = data;
  if (type !== QUERY || !event.isTrusted) return; // what is told to Material by us
  event.stopImmediatePropagation();
  query = data;
  if (!settings) soon();
  else if (query) want();
  else if (!loading) answer({ type: RESULT, data: { items: [] } });
});

importScripts(location.search.slice(1));
lunr.Builder.prototype.b = function () { this._b = 0.5; }; // Material's none favors long sections, whatever they are of
