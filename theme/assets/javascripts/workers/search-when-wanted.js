// SPDX-License-Identifier: Apache-2.0
// The search's worker, in the place of Material's, whose library takes seconds to index 1.7 MB of text: this one takes a
// fraction of that. It counts as that library does (BM25, a page's
// title and keywords in addition to its text), and answers Material's messages.
// What Material fetches on every page, search/search_index.json, holds the settings of the search and no documents;
// these are in search/documents.json. They come as soon as a reader reaches for the search (theme.js sends a blank query
// then). Until they are here there are no results: those of a part of them would move under the pointer.
// A page that is called what was asked for comes first, and then one that has the whole query as one of its keywords.
// Pages with all words of a query come before those with some of them. A word that occurs nowhere is taken for a similar one.
// A message of an error, pasted whole or in part, finds the entry that is called so.
// A result shows a page's own description, and of a section the sentence that says most of what was asked for.

const [SETUP, READY, QUERY, RESULT] = [0, 1, 2, 3]; // types of Material's messages
const LITTLE = new Set( // what says little of the answer: words of questions, and names that occur in most listings
  ("a an and any are as at be but by can do does each every for from get got how i if in into is it its me my not of " +
    "on or run should so that the then there this to torch triton tl use was what when where which who why will with " +
    "you your").split(" "),
);
const FIELDS = { title: 10, page: 6, text: 1 }; // how much a word counts, by where it is
const ALL = 16; // times that what has all words of a query counts more
const [K, B] = [1.2, 0.5]; // of BM25: how fast a word that is repeated stops to count, and how much a long text is held against it
let query, loading, waiting, ready;

/** The words of a query that say something. */
function meant(query) {
  const all = query.toLowerCase().split(/[^\p{L}\p{N}]+/u).filter(Boolean);
  const some = all.filter((word) => !(/[._]/.test(query) ? /^(tl|triton|torch)$/.test(word) : LITTLE.has(word)));
  return [...new Set(some.length ? some : all)].slice(0, 30);
}

const stem = (word) => word.replace(/(?<=\w{3})(ations?|ions?|ings?|ed|ies|es|s|y|e)$/, "");

let docs, words, stemmed; // all pages and sections; by word: where it occurs; by stem: in how many fields

const split = (text) => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];

/** Count each word of each field. */
function index(all) {
  docs = all;
  words = new Map();
  stemmed = new Map();
  const lengths = {}, known = new Map();
  const counted = (text) => { // titles of pages come again with each section
    if (!known.has(text)) {
      const all = split(text.replace(/<[^>]*>/g, " ").replace(/&\w+;/g, " ")), counts = new Map();
      for (const word of all) counts.set(word, (counts.get(word) ?? 0) + 1);
      known.set(text, { n: all.length, counts });
    }
    return known.get(text);
  };
  for (const [field, boost] of Object.entries(FIELDS)) {
    const parts = docs.map((doc) => counted(doc[field] ?? ""));
    const mean = parts.reduce((sum, { n }) => sum + n, 0) / docs.length || 1;
    parts.forEach(({ n, counts }, i) => {
      const long = K * (1 - B + (B * n) / mean), weight = boost * (docs[i].boost ?? 1);
      for (const [word, count] of counts) {
        if (!words.has(word)) words.set(word, { stem: stem(word), at: [] });
        const { at, stem: of } = words.get(word);
        at.push(i, (weight * (K + 1) * count) / (long + count));
        stemmed.set(of, (stemmed.get(of) ?? 0) + 1);
      }
    });
    if (field === "page") known.clear();
  }
}

const rare = (of) => Math.log(1 + Math.abs((docs.length - stemmed.get(of) + 0.5) / (stemmed.get(of) + 0.5)));

/** How many letters must be changed, put in or left out to make one word of the other. */
function apartBy(one, other) {
  let row = [...other, ""].map((_, i) => i);
  for (let i = 1; i <= one.length; i++) {
    const next = [i];
    for (let j = 1; j <= other.length; j++)
      next[j] = Math.min(next[j - 1] + 1, row[j] + 1, row[j - 1] + (one[i - 1] !== other[j - 1]));
    row = next;
  }
  return row.at(-1);
}

/** Where each word of a query occurs, or, if nowhere, similar ones: maps of how much it counts there. */
function standing(wanted) {
  const of = (word, similar) => {
    const begin = stem(word), most = word.length > 7 ? 2 : 1, found = new Map();
    for (const [other, { stem: of, at }] of words) {
      const is = similar ? word.length > 4 && Math.abs(other.length - word.length) <= most && apartBy(word, other) <= most : other.startsWith(begin);
      if (!is) continue;
      const weight = rare(of) * (of === begin ? 5 : 1);
      for (let i = 0; i < at.length; i += 2) found.set(at[i], (found.get(at[i]) ?? 0) + weight * at[i + 1]);
    }
    return found;
  };
  return wanted.map((word) => {
    const found = of(word, false);
    return found.size ? found : of(word, true);
  });
}

/** Pages, each with what was found of it, the best first. What has all words counts for more than what has some, and a
    page for more than its sections. */
function search(wanted) {
  const hits = new Map();
  for (const map of standing(wanted))
    for (const [i, score] of map) {
      const hit = hits.get(i) ?? { score: 0, n: 0 };
      hits.set(i, { score: hit.score + score, n: hit.n + 1 });
    }
  const scored = [...hits].map(([i, { score, n }]) => {
    const share = n / wanted.length + !docs[i].location.includes("#");
    return { ...docs[i], score: score * (1 + share ** 2) * (n === wanted.length ? ALL : 1) };
  });
  const groups = new Map();
  for (const hit of scored.sort((a, b) => b.score - a.score)) {
    const at = hit.location.split("#")[0];
    if (!groups.has(at)) groups.set(at, []);
    groups.get(at).push(hit);
  }
  for (const [at, parts] of groups)
    if (!parts.some(({ location }) => location === at) && pages.has(at)) parts.push({ ...pages.get(at), score: 0 });
  return [...groups.values()];
}

const ASKS = /^(are|can|do|does|how|is|should|what|when|where|which|why|will)\b|\?\s*$/i;
const ANSWERS = "reference/questions/"; // before others where it has that question, or for any if it is one of the best
const BEST = 5;
const [MOST, PARTS] = [40, 8]; // results that are shown, and what of each page
const ERRORS = "reference/errors/";

let pages, texts; // by address: pages, and the text of every page and section
let called, typed, literal; // the query, in its words and as it is, and whether a page has it for a keyword, to the letter

function answer() {
  waiting = null;
  [called, typed] = [meant(query).join(" "), query.trim()];
  const found = called ? search(meant(query)) : [];
  literal = [...pages.values()].some(isLiteral);
  const answers = (parts, i) => i < BEST && ASKS.test(typed) && parts[0].location.startsWith(ANSWERS);
  const rank = (parts, i) =>
    Math.min(place(parts), parts.some(begins) || parts.some(asks) ? 4 : answers(parts, i) ? 5 : 6);
  const ranked = found.flatMap(apart).map((parts, i) => [rank(parts, i), parts]).sort(([a], [b]) => a - b);
  const items = ranked.slice(0, MOST).map(([, parts], i) => scored(parts, ranked.length - i));
  postMessage({ type: RESULT, data: { items, suggest: suggested() } });
}

/** The word of a title that completes the last word of a query, which Material shows after it. */
function suggested() {
  const last = typed.toLowerCase().match(/[\p{L}\p{N}]{2,}$/u)?.[0];
  if (!last) return [];
  const counts = new Map();
  for (const { title } of pages.values())
    for (const word of split(title)) if (word.startsWith(last)) counts.set(word, (counts.get(word) ?? 0) + 1);
  return [...counts].sort(([, a], [, b]) => a - b).map(([word]) => word).slice(-1);
}

const bare = (title) => title.replace(/<[^>]*>/g, "").trim().toLowerCase(); // without what Material marks
const wordsOf = (title) => split(bare(title));

/** Whether a page or a section is called what was asked for. */
function begins({ title }) {
  const own = bare(title);
  return called.includes(" ") ? own.startsWith(called) || wordsOf(title).join(" ").startsWith(called) : own === called;
}

/** Whether a question has all words of the query. */
const asks = ({ location, title }) => location.startsWith(ANSWERS) && typed.includes(" ") && allIn(title);

/** Whether an entry of the glossary says what was asked for by "what is". */
const defines = ({ location, title }) =>
  location.startsWith("reference/glossary/#") && /^what('s| is| are) /i.test(typed) && same(bare(title), typed);

const stems = (text) => meant(text).map(stem);
const same = (one, other) => String(stems(one).sort()) === String(stems(other).sort());

/** Whether all words of the query occur in a title, in any form. */
const allIn = (title) => stems(typed).every((word) => wordsOf(title).map(stem).includes(word));

/** Whether they do so in the form that was typed. */
const spelled = (title) => meant(typed).every((word) => wordsOf(title).includes(word));

const entry = ({ location }) => location.startsWith(ERRORS) && location.includes("#");

/** How many words the title of an error's entry shares with the message that was asked for, in pieces of two and more,
    and the kind of the error: 0 if they are not about the same. */
function tells(part) {
  if (!entry(part)) return 0;
  const letters = (text) => wordsOf(text).filter((word) => !/^\d+$/.test(word)); // numbers differ from case to case
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
  const all = lesson && allIn(page.title), first = all && (isLesson(page) ? has(page.title) || !literal : spelled(page.title) && !literal);
  if (first) return turn;
  if (parts.some(exact)) return 1;
  if (isKeyword(page)) return 1 + turn;
  return all || (lesson && has(page.title)) ? 2 + turn : keywordBegins(page) ? 3 + turn : Infinity;
}

const has = (title) => meant(typed).every((word) => wordsOf(title).some((other) => other.startsWith(word)));
const keywordBegins = ({ keywords }) =>
  typed.includes(" ") && keywords.split(", ").some((keyword) => keyword.toLowerCase().startsWith(typed.toLowerCase()));
const isLiteral = ({ keywords = "" }) => keywords.toLowerCase().split(", ").includes(typed.toLowerCase());
const isLesson = ({ part = "" }) => part.startsWith("Lesson");
const isKeyword = ({ keywords }) => keywords.split(", ").some((keyword) => same(keyword, typed));

/** Whether a section is called just what was asked for, but for what follows in parentheses. */
const exact = ({ location, title }) => location.includes("#") && wordsOf(title.replace(/\(.*\)$/, "")).join(" ") === called;

/** Whether a section is called just what was asked for, and its page is not. */
function named(part, page) {
  const [own, whole] = [part, page].map(({ title }) => wordsOf(title).join(" "));
  return part !== page && own === called && whole !== called;
}

/** What a result shows: a page's description, or the first of a section's sentences with most words of the query. Code
    and the text of a table are no sentences. */
function excerpt({ location, text }, wanted) {
  const count = (sentence) => {
    const all = wordsOf(sentence);
    return wanted.filter((stem) => all.some((word) => word.startsWith(stem))).length;
  };
  let said = pages.get(location)?.about, most = -1;
  const lines = said ? [] : texts.get(location).replace(/<pre>.*?<\/pre>/gs, "").split(/<\/?(?:p|li|ul|ol|br)>/);
  const plain = lines.map((line) => line.replace(/<[^>]*>/g, "").trim());
  for (const sentence of plain.flatMap((line) => line.split(/(?<=[.?!]”?) (?=[^a-z])/))) {
    const n = /^[^a-z].{40,300}[.?!:)”]$/.test(sentence) ? count(sentence) : -1;
    if (n > most) [said, most] = [sentence, n];
  }
  return said ? `<p>${marked(said, wanted)}</p>` : text;
}

/** A text or a title with the words of the query marked, except inside its tags. */
const marked = (html, wanted) => html.replace(/<[^>]*>|&\w+;|[\p{L}\p{N}]+/gu, (word) =>
  wanted.some((stem) => word.toLowerCase().startsWith(stem)) ? `<mark>${word}</mark>` : word);

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
  return [...new Set([own ?? parts[0], page, ...parts.slice(0, PARTS)])].map((part) => {
    const shown = own ? part === own : itself ? part === page : part.score >= best || part === section;
    const tags = part === page && where ? [where] : undefined;
    return { ...part, title: marked(part.title, wanted), text: excerpt(part, wanted), tags, terms: {}, score: shown ? score : score - 0.5 };
  });
}

async function load() {
  const all = await (await fetch("../../../search/documents.json")).json();
  texts = new Map(all.map(({ location, text }) => [location, text]));
  pages = new Map(all.filter(({ location }) => !location.includes("#")).map((page) => [page.location, page]));
  index(all);
  ready = true;
  soon();
}

function want() {
  const again = () => {
    loading = null;
    if (query) want();
  };
  loading ??= load().catch(() => setTimeout(again, 3000));
}

/** Answer the last of the queries that have come meanwhile: results of the others would flash by. */
function soon() {
  waiting ??= setTimeout(answer);
}

addEventListener("message", ({ data: { type, data } }) => {
  if (type === SETUP) postMessage({ type: READY });
  if (type !== QUERY) return;
  query = data;
  if (ready) soon();
  else if (query) want();
  else if (!loading) postMessage({ type: RESULT, data: { items: [] } });
});
