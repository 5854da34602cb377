# SPDX-License-Identifier: Apache-2.0
"""A hook of MkDocs: Material's own files, amended where they made a page's start slow.

A browser keeps a list, made from all selectors, of what each kind of change to a page can touch. A selector that ends
in ``*``, or in a bare ``:nth-child()``, can touch everything, so that a change of its kind styled the whole page, six
times at a lesson's start; with an element's name in front, it touches a few. To see which selector it was, record a
trace of the category ``disabled-by-default-devtools.timeline.invalidationTracking``.

Raises:
    PluginError: A file of Material is not as it was when this was written. See then whether its new one still needs it.
"""

from pathlib import Path

from mkdocs.exceptions import PluginError

PARAGRAPHS = ":is(p,ul,ol,dl,div,pre)"
POINTED_AT = 'L(h(i,"pointerenter"),h(i,"focus")).pipe(Ee(1),b(()=>'  # in RxJS: merge, fromEvent, take, switchMap
AMENDED = {
    "assets/stylesheets/main.*.min.css": {
        # A change to any element's class counts as one to a table's. And nothing follows one, alone in its box.
        ".md-typeset table:not([class])+*{margin-top:1.5em}": "",
        **{
            f"table:not([class]) {cell}>:{child}": f"table:not([class]) {cell}>{PARAGRAPHS}:{child}"
            for cell in ("td", "th")
            for child in ("first-child", "last-child")
        },
        # So does a new element anywhere, of which a tab may become the second, and so on.
        "~.tabbed-labels>:": "~.tabbed-labels>label:",
        "~.tabbed-content>:": "~.tabbed-content>div:",
    },
    # The bundle sets and takes this attribute at a page's start, too. A reader's click sets the class, by theme.js.
    "assets/stylesheets/palette.*.min.css": {"[data-md-color-switching] ": ".switching "},
    # For each change to this <meta> a browser styles everything anew: twice at a page's start. theme.js does it.
    "assets/javascripts/bundle.*.min.js": {
        '{name:"color-scheme"}': '{name:"said-by-theme-js"}',
        # What shows when one points at a claim, or at a link to the glossary, was made for each at the page's start: a
        # third of what its scripts did then. It is made when one first points at it.
        ".map(i=>Xe(i,{viewport$:r}))": f".map(i=>{POINTED_AT}Xe(i,{{viewport$:r}}))))",
        'M("a",e).map(i=>Jn(i,t))': f'M("a[data-preview]",e).map(i=>{POINTED_AT}Jn(i,t))))',
        # What is made of the content comes after what is made of all around it, in a task of its own (in RxJS:
        # subscribeOn(asyncScheduler)), so that a tap is answered in between.
        (content := "oi(e,{sitemap$:qi,viewport$:ke,target$:Ht,print$:Ni})"): f"{content}.pipe(et(pe))",
    },
}


def on_post_build(config, **_):
    for pattern, changes in AMENDED.items():
        found = sorted(Path(config.site_dir).glob(pattern))
        if len(found) != 1:
            raise PluginError(f"{len(found)} files are called {pattern}, should be 1: bring {__name__} up to date")
        text = found[0].read_text("utf-8")
        for old, new in changes.items():
            if old not in text:
                raise PluginError(f"{found[0].name} has no {old!r} now: bring {__name__} up to date")
            text = text.replace(old, new)
        found[0].write_text(text, "utf-8")
