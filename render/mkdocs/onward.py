# SPDX-License-Identifier: Apache-2.0
"""A hook of MkDocs that makes what a page's part *Next* says first the card that leads to the next page.

Without it the part would name that page, and the theme's card below it would do so again.
"""

from mkdocs.plugins import event_priority

NEXT = '<h2 id="next">'
templates = None  # the theme's, which know what the next page asks


def on_env(env, **_):
    global templates
    templates = env


@event_priority(-100)  # when search has read the page, render/mkdocs/search.py
def on_page_context(context, *, page, **_):
    """Put the card in the place of the first paragraph of a part *Next*, where that links to the next page."""
    before, mark, rest = page.content.partition(NEXT)
    heading, end, rest = rest.partition("</h2>")
    said, paragraph, after = rest.partition("</p>")
    if not (mark and paragraph and page.next_page):
        return context
    address = templates.from_string("{{ page.next_page.url | url }}").render(context)
    to_next = f'<a href="{address}"'
    if to_next not in said:
        return context
    template = templates.get_template("partials/onward.html")
    card = template.render({**context, "said": said + paragraph, "to_next": to_next})
    page.content = f"{before}{mark}{heading}{end}\n{card.strip()}{after}"
    return context
