# SPDX-License-Identifier: Apache-2.0
"""A hook of MkDocs that joins the style sheets of all pages, Material's and ours, into one.

A browser shows nothing until it has each of them, and a phone needs a trip for each. The theme's main.html links to
the joined one alone.
"""

from pathlib import Path

JOINED = "assets/styles.css"
MATERIALS = ("assets/stylesheets/main.*.min.css", "assets/stylesheets/palette.*.min.css")
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
    text = "\n".join(part.read_text("utf-8") for part in parts)
    for part in parts:
        part.unlink()
    Path(site, JOINED).write_text(text, "utf-8")
