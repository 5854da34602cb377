// SPDX-License-Identifier: Apache-2.0
// Parts of other pages, to show them on this one.

const HEADING = "h1, h2, h3, h4, h5, h6";
const pages = new Map(); // address: a promise of the page

async function load(address) {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${address}: ${answer.status}`);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const link of page.querySelectorAll("article a[href]")) link.href = new URL(link.getAttribute("href"), address).href;
  return page;
}

/** Return copies of the heading that an address with an anchor names, and of everything up to the next one. */
export async function entry(href) {
  const [address, anchor] = href.split("#");
  if (!pages.has(address)) pages.set(address, load(address));
  const page = await pages.get(address).catch((error) => {
    pages.delete(address); // and try again the next time
    throw error;
  });
  const heading = page.getElementById(decodeURIComponent(anchor));
  const parts = [];
  for (let next = heading; next && (next === heading || !next.matches(HEADING)); next = next.nextElementSibling)
    parts.push(document.importNode(next, true));
  for (const part of parts) {
    part.removeAttribute("id"); // each occurs once in a page
    for (const inner of part.querySelectorAll("[id]")) inner.removeAttribute("id");
    for (const link of part.querySelectorAll(".headerlink")) link.remove();
  }
  return parts;
}
