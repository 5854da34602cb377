# SPDX-License-Identifier: Apache-2.0
"""Whole files of snippets, colored, to read, copy and download. They need no recording.

What is downloaded runs: a file that needs no other of ours comes as it is, any other one in a zip with those; and where
that is too much to come along with a page, the page says what else it takes.
"""

import ast
import base64
import contextlib
import io
import re
import zipfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

import pygments
from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from recorder.project import ROOT, Snippet, find, read_text, relative
from recorder.recording import sha256, write_atomically
from recorder.source import FUNCTIONS, Module, Statement, imports, modules_of
from render.shown import place_of, way, way_if_there
from render.templates import render

KEPT = ROOT / ".cache/highlighted"
LARGEST = 50_000  # characters of a zip in a page, which compress no further
EPOCH = (1980, 1, 1, 0, 0, 0)  # so that the same files make the same zip


@lru_cache(maxsize=1024)
def highlighted(source: str) -> Markup:
    """Python source as the site's own fences show it; kept in ``.cache/`` from build to build, a sixth of whose time
    the coloring takes."""
    kept = KEPT / f"{sha256(f'{pygments.__version__} {source}')}.html"
    if kept.is_file():
        return Markup(kept.read_text("utf-8"))
    code = highlight(source, PythonLexer(), HtmlFormatter(cssclass="language-python highlight", wrapcode=True))
    code = re.sub(r'<span class="[nw]">([^<]*)</span>', r"\1", code)  # colored as text, a sixth of the page
    with contextlib.suppress(OSError):  # a checkout that nothing can be written to is built all the same
        write_atomically(kept, code)
    return Markup(code)


def file_id(snippet: Snippet) -> str:
    return "file-" + snippet.name.replace("/", "-")


def needed(path: Path) -> list[Path]:
    """The other files of ours that running a file comes to.

    What it imports in functions that its ``main`` never calls can wait, such as what it would measure with; and so can
    all of that in a file that asks by ``find_spec`` whether others are there.
    """
    return list(_needed(path, tuple(modules_of(path).items())))


@lru_cache(maxsize=512)
def _needed(path: Path, modules: tuple[tuple[Path, Module], ...]) -> list[Path]:
    found, seen, module_of = {path}, set(), dict(modules)

    def begin(file: Path) -> None:
        """An import runs what stands outside of functions."""
        found.add(file)
        module = module_of[file]
        for statement in module.statements:
            if isinstance(statement.node, ast.Import | ast.ImportFrom):
                for name in {alias.asname or alias.name for alias in statement.node.names} & module.imported.keys():
                    if (other := module.imported[name][0]) not in found:
                        begin(other)
            elif not isinstance(statement.node, FUNCTIONS) and (file == path or statement in module.always):
                follow(module, statement)

    def follow(module: Module, statement: Statement) -> None:
        for name, attributes in statement.uses.items():
            if name in module.imported:
                file, wanted = module.imported[name]
                if file not in found:
                    begin(file)
                for each in [wanted] if wanted else attributes:
                    reach(module_of[file], each)
            else:
                reach(module, name)

    def reach(module: Module, name: str) -> None:
        if (module.path, name) not in seen:
            seen.add((module.path, name))
            for statement in module.definitions.get(name, []):
                follow(module, statement)

    if "find_spec" in module_of[path].definitions:  # imported there
        seen.add((path, "main"))
    begin(path)
    return sorted(found - {path})


@dataclass(frozen=True)
class Download:
    """What a reader downloads of a snippet, in the page itself."""

    name: str  # vector_add.py, or coalescing.zip
    link: str
    missing: bool = False  # whether it takes more than comes along


def download(snippet: Snippet) -> Download:
    source, others = read_text(snippet.path), needed(snippet.path)
    if others:
        packed = _zip(tuple((relative(path), read_text(path)) for path in (snippet.path, *others)))
        if len(packed) <= LARGEST:
            return Download(f"{snippet.path.stem}.zip", f"data:application/zip;base64,{packed}")
    link = f"data:text/x-python;charset=utf-8,{quote(source)}"
    return Download(snippet.path.name, link, missing=bool(others))


@lru_cache(maxsize=512)
def _zip(files: tuple[tuple[str, str], ...]) -> str:
    """Files, each by its name in a checkout and its text, in base64."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, text in files:
            archive.writestr(zipfile.ZipInfo(name, EPOCH), text, zipfile.ZIP_DEFLATED)
    return base64.b64encode(packed.getvalue()).decode()


def file(snippet: Snippet, page: str = "") -> Markup:
    """The whole file, with what else it takes, to download from a page."""
    others = needed(snippet.path)
    return render(
        "file.html",
        id=file_id(snippet),
        path=relative(snippet.path),
        module=relative(snippet.path).removesuffix(".py").replace("/", "."),
        download=download(snippet),
        needed=[(relative(path), _shown(path, page)) for path in others],
        later=[relative(path) for path in imports(snippet.path) if path not in (snippet.path, *others)],
        checkout=way_if_there(page, "start/install.md", "get-a-checkout"),
        code=highlighted(read_text(snippet.path)),
    )


def _shown(path: Path, page: str) -> str:
    """A link to where a file can be read and downloaded, or nothing."""
    other = find(relative(path))
    place = place_of(other)
    return way(page, place.page, file_id(other)) if place else ""
