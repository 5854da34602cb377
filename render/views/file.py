# SPDX-License-Identifier: Apache-2.0
"""The views ``file`` and ``download``: a snippet's whole file to read, copy and download, with the files it needs."""

from pathlib import Path

from markupsafe import Markup

from recorder.project import find, relative
from recorder.reach import needed
from recorder.source import imports
from render.code import download as offer
from render.code import file_id, link_to_file
from render.links import place_of, way, way_if_there
from render.page import Page
from render.templates import render
from render.views.registry import view


@view
def file(page: Page, of: str | None = None) -> Markup:
    """Return a snippet's whole file, folded, with links to the files that it needs.

    ``of`` defaults to the page's own snippet.
    """
    snippet = page.snippet(of)
    page.files[snippet] = None
    others = needed(snippet.path)
    return render(
        "file.html",
        id=file_id(snippet),
        path=relative(snippet.path),
        module=relative(snippet.path).removesuffix(".py").replace("/", "."),
        download=offer(snippet, page.name),
        needed=[(relative(path), _link_to_page(path, page.name)) for path in others],
        later=[relative(path) for path in imports(snippet.path) if path not in (snippet.path, *others)],
        checkout=way_if_there(page.name, "start/install.md", "get-a-checkout"),
        colored=link_to_file(page.name, snippet.path.with_suffix(".html")),
    )


@view
def download(page: Page, of: str | None = None) -> Markup:
    """Return a button that downloads a snippet's file, or a zip of it and of the files that it needs.

    ``of`` defaults to the page's own snippet. The page shows the file elsewhere, by the view ``file``.
    """
    return render("download.html", download=offer(page.snippet(of), page.name))


def _link_to_page(path: Path, page: str) -> str:
    """Return a link to where a file can be read and downloaded, or nothing where no page shows it."""
    other = find(relative(path))
    place = place_of(other)
    return way(page, place.page, file_id(other)) if place else ""
