// SPDX-License-Identifier: Apache-2.0
// The search's worker, in the place of Material's, whose library takes seconds to index 1.7 MB of text. Every page starts it,
// so it is small: what finds and ranks, search-ranking.js, comes with the first query, as do the documents.

const [SETUP, READY, QUERY, RESULT] = [0, 1, 2, 3]; // types of Material's messages
let wanted;

function pass() {
  try {
    if (!globalThis.asked) importScripts("search-ranking.js");
  } catch {
    return void setTimeout(pass, 3000); // the network is away
  }
  asked(wanted);
}

addEventListener("message", ({ data: { type, data } }) => {
  if (type === SETUP) postMessage({ type: READY });
  if (type !== QUERY) return;
  wanted = data;
  if (globalThis.asked || wanted) pass();
  else postMessage({ type: RESULT, data: { items: [] } });
});
