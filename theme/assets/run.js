// SPDX-License-Identifier: Apache-2.0
// The buttons below code that runs on its page. What they do, run-page.js, is fetched at the first press, or at once where
// a reader has changed the code before.

const make = (tag, given, ...inner) => {
  const made = Object.assign(document.createElement(tag), given);
  made.append(...inner);
  return made;
};

/** Begin each line of a listing with an element that shows its number, for what is said of a run names lines. */
function numberLines(code) {
  const texts = document.createTreeWalker(code, NodeFilter.SHOW_TEXT), begun = [];
  let first = true; // of a line
  while (texts.nextNode()) {
    if (first) begun.push(texts.currentNode);
    const end = texts.currentNode.data.indexOf("\n") + 1;
    first = end > 0;
    if (first && end < texts.currentNode.length) texts.currentNode.splitText(end);
  }
  for (const text of begun) text.before(make("span", { className: "run__number", ariaHidden: true }));
}

const receivers = [...document.querySelectorAll(".run")].map((box, number) => {
  const key = `code:${location.pathname}#${number}`;
  let runner;
  const get = async () => (runner ??= import("./run-page.js").then(({ Runner }) => new Runner(box, key, number)));
  const button = (name, does, className = "") => make("button", { type: "button", textContent: name,
    className: `md-button ${className}`, onclick: async () => {
      if (!runner) state.textContent = "Loading…";
      (await get())[does]();
    } });
  const state = make("span", { className: "run__state", role: "status" }, "Here, in your browser. No GPU needed.");
  const go = button(box.dataset.check ? "Check" : "Run", "run", "md-button--primary");
  const bar = make("div", { className: "run__bar" }, go, button("Edit", "open"), state);
  const listing = box.querySelector(".highlight");
  numberLines(listing.querySelector("code"));
  listing.after(bar); // below is what it did when it was recorded, until it has run
  try { if (localStorage.getItem(key)) get(); } catch {}
  return async (text) => (await get()).receive(text);
});

/** An address may hold code, which is shown and waits to be run: `#code-NUMBER=…`. */
function receive() {
  const [, number, text] = location.hash.match(/^#code-(\d+)=([\w-]+)$/) ?? [];
  receivers[number]?.(text);
}
addEventListener("hashchange", receive);
receive();
