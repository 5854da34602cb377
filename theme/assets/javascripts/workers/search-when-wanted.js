// SPDX-License-Identifier: Apache-2.0
// Material's search worker, which gets the documents only when somebody searches: they outweigh most pages.
// What Material fetches on every page, search/search_index.json, holds the settings of the search and no documents;
// these are in search/documents.json. Where a build has not parted the two, Material's worker is alone.

const [SETUP, QUERY] = [0, 2]; // types of Material's messages
let settings = null; // while there are no documents
let query, loading;

const tell = (type, data) => dispatchEvent(new MessageEvent("message", { data: { type, data } }));

async function load() {
  const answer = await fetch("../../../search/documents.json");
  const docs = await answer.json();
  const setup = { ...settings, docs };
  settings = null;
  tell(SETUP, setup);
  setTimeout(() => tell(QUERY, query)); // it sets itself up after this task
}

addEventListener("message", (event) => {
  const { type, data } = event.data;
  if (type === SETUP && !data.docs.length) settings = data;
  if (type === QUERY && data && settings) {
    event.stopImmediatePropagation(); // until there is something to search, and then for the last query
    query = data;
    loading ??= load().catch(() => (loading = null)); // tried again at the next query
  }
});

importScripts(location.search.slice(1));
