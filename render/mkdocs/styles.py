# SPDX-License-Identifier: Apache-2.0
"""A hook of MkDocs that joins the style sheets of all pages, Material's and ours, into one.

A browser shows nothing until it has each of them, and a phone needs a trip for each. The theme's main.html links to
the joined one alone.
"""

import re
from pathlib import Path

JOINED = "assets/styles.css"
MATERIALS = ("assets/stylesheets/main.*.min.css", "assets/stylesheets/palette.*.min.css")
# Material's script puts each table into a box that scrolls. Where a rule is for any element by its place among others,
# or for any that follows a table, a browser then styles the whole page anew.
LOST = ".md-typeset table:not([class])+*{margin-top:1.5em}"  # no table is followed by anything once it is in its box
NAMED = {".tabbed-labels>": "label", ".tabbed-content>": ".tabbed-block"}
ours = []


def on_config(config, **_):
    """Take our style sheets out of the settings, so that Material links to none of them."""
    ours[:] = map(str, config.extra_css)
    config.extra_css = []
    return config


def on_post_build(config, **_):
    """Join them in the order in which pages would have named them, for later rules win."""
    site = Path(config.site_dir)
    parts = [path for name in (*MATERIALS, *ours) for path in sorted(site.glob(name))]
    text = named("\n".join(part.read_text("utf-8") for part in parts))
    for part in parts:
        part.unlink()
    Path(site, JOINED).write_text(text, "utf-8")


def named(style: str) -> str:
    """Return Material's rules for tabs with the kind of element that they mean, so that no other is looked at.

    >>> named(".tabbed-labels>:nth-child(2){color:red}")
    '.tabbed-labels>label:nth-child(2){color:red}'
    """
    style = style.replace(LOST, "")
    return re.sub(
        r"(\.tabbed-(?:labels|content)>)(?=:(?:nth|first)-child)", lambda found: found[1] + NAMED[found[1]], style
    )
