# SPDX-License-Identifier: Apache-2.0
"""Look at a page with axe, in both color schemes: at one of each look of text, and at one of each kind of block.

axe takes seconds for the thousands of elements of a page, nearly all of which are like some that it has seen. What was
seen is known by a ``Seen``, which tests of many pages share. A page is not fit for other tests after this.
"""

from dataclasses import dataclass, field

import pytest

# Two texts of the same color and size upon the same backgrounds have the same contrast: mark one of each look.
MARK_COLORS = """known => {
    const looks = new Map(), elements = new Map();
    const behind = element => {
        if (!element) return "";
        if (!looks.has(element)) {
            const { backgroundColor, backgroundImage, opacity } = getComputedStyle(element);
            const own = [backgroundColor, backgroundImage, opacity].join();
            looks.set(element, behind(element.parentElement) + (own === "rgba(0, 0, 0, 0),none,1" ? "" : `|${own}`));
        }
        return looks.get(element);
    };
    for (const element of document.body.querySelectorAll("*")) {
        if (![...element.childNodes].some(node => node.nodeType === Node.TEXT_NODE && node.data.trim())) continue;
        const { color, fontSize, fontWeight, textDecorationLine, textShadow } = getComputedStyle(element);
        const around = getComputedStyle(element.parentElement).color;
        const visible = element.checkVisibility({ visibilityProperty: true, opacityProperty: true });
        const text = [element.tagName, color, fontSize, fontWeight, textDecorationLine, textShadow, around, visible];
        elements.set(text + behind(element), element);
    }
    known.forEach(text => elements.delete(text));
    elements.forEach(element => { element.dataset.colors = ""; });  // not sooner: each change makes styles out of date
    return [...elements.keys()];
}"""
# What is left of code when one of each look is marked is text to axe; its thousands of elements would take it seconds.
MELT_CODE = """() => {
    const KEPT = "[data-colors], [tabindex='0']"; // what the keyboard reaches stays
    for (const part of document.querySelectorAll("pre code *")) {
        if (!part.matches(KEPT) && !part.querySelector(KEPT)) part.replaceWith(part.textContent);
    }
}"""
# Two blocks of the same elements, with the same attributes, are the same to axe: leave out what a page before had.
DROP_BLOCKS = """known => {
    const BLOCKS =
        "article > *, article section > *, article details > *, article :is(li, tr, .tabbed-block > *), .jp-Cell";
    const KEPT = "[data-colors], h1, h2, h3, h4, h5, h6, link, style"; // the order of headings counts, and looks stay
    const VALUES = ["aria-hidden", "class", "role", "scope", "tabindex", "type"]; // of others, whether there is any
    const says = ({ name, value }) => name + (VALUES.includes(name) ? `=${value}` : value && "=…");
    const own = part => [...part.attributes].filter(each => each.name !== "data-colors").map(says).sort();
    const element = part =>
        [part.parentElement.localName, part.localName, ...own(part), part.textContent.trim() && "text"].join(" ");
    const kind = block => [...new Set([block, ...block.querySelectorAll("*")].map(element))].sort().join();
    const before = new Set(known), seen = new Set(known);
    for (const block of document.querySelectorAll(BLOCKS)) {
        if (!block.isConnected) continue;
        const like = kind(block), kept = block.matches(KEPT) || block.querySelector(KEPT);
        if (before.has(like) && !kept) block.remove();
        seen.add(like);
    }
    return [...seen];
}"""
OF_MARKED = [
    {"id": "color-contrast", "selector": "[data-colors]"},
    {"id": "link-in-text-block", "selector": "a[data-colors]"},
]
RULES = {  # by scheme; the first also has what no scheme changes, and what is too small to touch
    "default": {"rules": {"target-size": {"enabled": True}}},
    "slate": {"runOnly": [rule["id"] for rule in OF_MARKED]},
}


# What was left out brings other blocks into view, which get a button to copy, and a place among what Tab reaches.
SETTLED = """async () => {
    for (let frame = 0; frame < 3; frame++) await new Promise(requestAnimationFrame);
}"""


@dataclass
class Seen:
    """What axe has found nothing wrong with: looks of text, and kinds of blocks."""

    looks: set[str] = field(default_factory=set)
    blocks: set[str] = field(default_factory=set)


def in_scheme(page, scheme):
    page.evaluate("scheme => document.body.dataset.mdColorScheme = scheme", scheme)
    page.evaluate("""async () => {  // what fades from one color to the other has neither
        const fades = document.getAnimations().filter(each => each instanceof CSSTransition);
        await Promise.all(fades.map(each => each.finished.catch(() => {})));
    }""")


def assert_accessible(page, seen: Seen | None = None):
    """Let axe look at what ``seen`` does not know of a page, in both schemes."""
    axe, seen = pytest.importorskip("axe_playwright_python.sync_playwright"), seen or Seen()
    page.evaluate("document.documentElement.classList.add('laid-out')")  # else what is below lies as it was guessed
    page.evaluate(axe.Axe().axe_script)
    page.evaluate("rules => axe.configure({ rules })", OF_MARKED)
    looks = {}
    for scheme in reversed(RULES):
        in_scheme(page, scheme)
        looks[scheme] = set(page.evaluate(MARK_COLORS, [*seen.looks]))
    page.evaluate(MELT_CODE)
    blocks = set(page.evaluate(DROP_BLOCKS, [*seen.blocks]))
    page.evaluate(SETTLED)
    for scheme, rules in RULES.items():
        if scheme == "slate" and not looks[scheme]:
            continue  # all that it can change has been seen
        in_scheme(page, scheme)
        options = {"resultTypes": ["violations"], "preload": False, **rules}
        results = axe.AxeResults(page.evaluate("options => axe.run(document, options)", options))
        assert results.violations_count == 0, f"{scheme}: {results.generate_report()}"
    seen.looks.update(*looks.values())
    seen.blocks.update(blocks)
