# SPDX-License-Identifier: Apache-2.0
"""A page that holds an explorer and nothing else, with the styles and scripts that a page of the site has."""

import shutil
from contextlib import contextmanager
from pathlib import Path

from figures.registry import HERE, figures
from tests.chromium import ROOT, served

ASSETS = ROOT / "theme" / "assets"
SHEETS = ("tokens.css", "theme.css", "recording.css", "stage.css")  # the last where a page has a stage: main.html


@contextmanager
def page_with(folder: Path, figure: str, *parts: str):
    """Serve a page of these parts, which are of one figure, from an empty folder; yields its address."""
    for file in ASSETS.glob("*.css"):
        shutil.copy(file, folder)
    shutil.copytree(HERE, folder / "figures", ignore=lambda _, names: [n for n in names if n == "__pycache__"])
    links = "".join(f'<link rel="stylesheet" href="{name}">' for name in SHEETS)
    drawn = figures()[figure]
    (folder / "index.html").write_text(
        f"""<!doctype html><html lang="en"><head><meta charset="utf-8">
        <meta name="viewport" content="width=device-width">
        <title>Explorer</title><link rel="icon" href="data:,">{links}<style>{drawn.style}</style>
        <style>body {{ margin: 16px; color: var(--ink); background: var(--paper) }}</style></head>
        <body data-md-color-scheme="default"><main class="md-typeset"><h1>Explorer</h1>{"".join(parts)}</main>
        <script type="module">{drawn.script}</script></body></html>""",
        "utf-8",
    )
    with served(folder, folder) as url:
        yield url


def call(page, folder: str, expression: str, arguments: list) -> list:
    """For each of the arguments, what an expression is in which it is ``a``, and a figure's module is ``it``.

    The module in the page itself exports nothing.
    """
    script = f"const it = await import('/figures/{folder}/script.js'); return all.map(a => {expression})"
    return page.evaluate(f"async all => {{ {script} }}", arguments)


def by_hand(page):
    """Stop the clock of a page; returns a function that lets so many milliseconds pass there."""
    page.clock.install(time=0)
    page.clock.pause_at(1000)
    return page.clock.run_for


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
