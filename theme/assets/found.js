// SPDX-License-Identifier: Apache-2.0
// On a page that the search has found, Material marks the stems that it searched for: "memor" of "memory". Mark the words.

const complete = () => {
  for (const mark of document.querySelectorAll("article mark")) {
    const [rest] = mark.nextSibling?.data?.match(/^[\p{L}\p{N}]+/u) ?? [];
    if (!rest) continue;
    mark.textContent += rest;
    mark.nextSibling.data = mark.nextSibling.data.slice(rest.length);
  }
};
const marks = new MutationObserver(complete);
marks.observe(document.querySelector("article"), { childList: true, subtree: true });
complete();
setTimeout(() => marks.disconnect(), 5000); // Material has long marked by then
