// SPDX-License-Identifier: Apache-2.0
// Lets the search index wait until somebody searches: it outweighs most pages.

{
  const wanted = new Promise((resolve) => {
    if (/[?&][hq]=/.test(location.search)) resolve(); // found by a search, so Material marks the words
    addEventListener("focusin", ({ target }) => target.closest(".md-search") && resolve());
  });
  const { open, send } = XMLHttpRequest.prototype;
  XMLHttpRequest.prototype.open = function (method, url, ...rest) {
    this.ready = String(url).endsWith("/search_index.json") ? wanted : null;
    open.call(this, method, url, ...rest);
  };
  XMLHttpRequest.prototype.send = function (body) {
    if (this.ready) this.ready.then(() => send.call(this, body));
    else send.call(this, body);
  };
}
