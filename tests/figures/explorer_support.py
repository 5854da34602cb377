# SPDX-License-Identifier: Apache-2.0
"""A page that holds an explorer and nothing else, with the site's own scripts and styles around it."""

import shutil
from contextlib import contextmanager
from pathlib import Path

from tests.site.conftest import ROOT, served

ASSETS = ROOT / "theme" / "assets"


@contextmanager
def page_with(folder: Path, *parts: str):
    """Serve a page of these parts from an empty folder; yields its address."""
    for file in ASSETS.glob("*.*"):
        shutil.copy(file, folder)
    styles = "".join(f'<link rel="stylesheet" href="{file.name}">' for file in sorted(ASSETS.glob("*.css")))
    scripts = "".join(
        f'<script type="module" src="{file.name}"></script>' for file in sorted(ASSETS.glob("*-explorer.js"))
    )
    (folder / "index.html").write_text(
        f"""<!doctype html><html lang="en"><head><meta charset="utf-8">
        <meta name="viewport" content="width=device-width">
        <title>Explorer</title><link rel="icon" href="data:,">{styles}{scripts}
        <style>body {{ margin: 16px; color: var(--ink); background: var(--paper) }}</style></head>
        <body data-md-color-scheme="default"><main class="md-typeset"><h1>Explorer</h1>{"".join(parts)}</main></body>
        </html>""",
        "utf-8",
    )
    with served(folder, folder) as url:
        yield url


def in_scheme(page, scheme):
    page.evaluate("scheme => document.body.dataset.mdColorScheme = scheme", scheme)


def move_and_copy(page, name):
    """Put an element elsewhere on the page, and a copy of it, with the id ``copy``, beside it."""
    page.evaluate("""name => {
        const element = document.querySelector(name), main = document.querySelector("main");
        element.remove();
        main.append(element);
        const copy = element.cloneNode(true);
        copy.id = "copy";
        main.append(copy);
    }""", name)  # fmt: skip
