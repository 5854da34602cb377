// SPDX-License-Identifier: Apache-2.0
// Show what an element offers when the pointer or the keyboard comes to it: its title as a tooltip; or, for a link to the
// glossary, the term's entry. Everything is made when it is wanted: most pages have hundreds of such elements.

const GLOSSARY = new URL("../reference/glossary/", import.meta.url);
const TERM = "article a[href*='#']:not(.headerlink)";
const CLAIM = ".claim";
const LINGER = 250; // ms before a box goes, in which the pointer may travel to it
const GAP = 8; // px between an element and its box
const HEADER = 48; // px that the header covers

let host = null; // the element whose box is shown, or on its way
let box = null;
let title = ""; // of the host, which has none meanwhile: the browser would show it a second time
let leaving = 0; // a timer
let finger = false; // whether a finger pointed last: then it means nothing where a mouse is, or seems to be
let tapped = null; // the host that it tapped, whose box stays until it taps elsewhere

const isTerm = (element) => element.matches(TERM) && element.pathname === GLOSSARY.pathname;

function hostAt(element) {
  if (host?.contains(element) || box?.contains(element)) return host;
  const link = element.closest(TERM);
  return link && isTerm(link) ? link : element.closest("body [title]:not(.md-search *)"); // whose box would cover a result
}

/** A pointer, a tap or the focus is at this element now. */
function comeTo(element) {
  clearTimeout(leaving);
  const next = hostAt(element);
  if (next && next !== host) show(next);
  else if (!next && host) leave();
}

function leave() {
  clearTimeout(leaving);
  leaving = setTimeout(() => {
    const hovered = !finger && (host?.matches(":hover") || box?.matches(":hover"));
    if (!hovered && host !== tapped && !host?.matches(":focus-visible")) hide();
  }, LINGER);
}

async function show(next) {
  hide();
  host = next;
  if (!isTerm(next)) {
    title = next.title;
    next.removeAttribute("title");
    attach("tooltip", title, !finger && next.matches(CLAIM) && title.includes("snippets/") ? " (click to read it)" : "");
    next.setAttribute("aria-describedby", box.id);
    return;
  }
  const { entry } = await import("./preview.js");
  const parts = await entry(next.href).catch(() => []); // without a network the link is still there
  if (host !== next || !parts.length) return;
  attach("dialog", ...parts);
  box.ariaLabel = next.textContent;
  next.setAttribute("aria-haspopup", "dialog");
  next.setAttribute("aria-controls", box.id);
}

function attach(role, ...content) {
  box = document.createElement("div");
  box.id = "tooltip";
  box.role = role;
  box.className = "tooltip md-typeset";
  box.append(...content);
  document.body.append(box);
  place();
}

/** Put the box under its host; above it a preview where there is more room, and what a finger asked for or a number's
 * source if it fits, because what comes next to tap or to read is below. Neither covers the menus. */
function place() {
  const at = host.getBoundingClientRect(), { width, height } = box.getBoundingClientRect();
  const preview = box.role === "dialog", claim = host.matches(CLAIM);
  const column = (claim && host.closest("article")?.getBoundingClientRect()) || { left: 0, right: document.documentElement.clientWidth };
  const x = preview ? at.left : at.left + (at.width - width) / 2;
  const above = preview ? at.top > innerHeight / 2 : (finger || claim) && at.top - GAP - height > HEADER;
  const y = above ? at.top - GAP - height : at.bottom + GAP;
  box.style.left = `${scrollX + Math.max(column.left + GAP, Math.min(x, column.right - GAP - width))}px`;
  box.style.top = `${scrollY + y}px`;
}

function hide() {
  clearTimeout(leaving);
  for (const name of ["aria-describedby", "aria-haspopup", "aria-controls"]) host?.removeAttribute(name);
  if (title && !host.title) host.title = title; // which may have changed: see the switch of GPUs
  box?.remove();
  host = box = tapped = null;
  title = "";
}

/** A number leads to the script that gave it: below on the page, or else on its own. */
addEventListener("click", ({ target }) => {
  const claim = target.closest?.(CLAIM), file = claim && /\bsnippets\/(\S+\.py)/.exec(claim.title || title)?.[1];
  if (!file || finger || String(getSelection())) return; // a tap shows where it is from
  const name = file.replace(/\.py$/, ""), id = `file-${name.replaceAll("/", "-")}`;
  hide();
  location.href = document.getElementById(id) ? `#${id}` : new URL(`../snippets/${name}.html`, import.meta.url);
});

// After a tap, browsers send events of a mouse, and then leave the mouse where it was before.
for (const event of ["pointerdown", "pointermove"]) {
  addEventListener(event, (e) => {
    finger = e.pointerType === "touch";
    if (!finger) tapped = null;
  });
}
addEventListener("pointerup", (e) => {
  if (!finger) return;
  comeTo(e.target);
  tapped = hostAt(e.target);
});
addEventListener("mouseover", (e) => finger || comeTo(e.target));
document.documentElement.addEventListener("mouseleave", leave);
addEventListener("focusin", (e) => e.target.matches(":focus-visible") && comeTo(e.target));
addEventListener("focusout", leave);
addEventListener("keydown", (e) => e.key === "Escape" && hide());
addEventListener("click", () => host && !host.checkVisibility() && hide()); // a button that gave way to another
// A box moves with the page, but not with what scrolls inside of it.
addEventListener("scroll", (e) => e.target !== document && e.target.contains(host) && hide(), true);
