# SPDX-License-Identifier: Apache-2.0
"""A hook of MkDocs that brings what runs kernels in a reader's browser: Python, the model of Triton, an editor.

Python is Pyodide, and the editor is CodeMirror, both from the registry of npm, as they are there; their digests are
pinned here. They are kept under ``.cache/browser`` and served by the site itself, and a page fetches them only when
somebody presses *Run*. Where they cannot be had, the build says so in one line, and pages have no such button.
"""

import logging
import tomllib
import zipfile
from pathlib import Path

from figures.templates import HERE as FIGURES
from recorder.project import ROOT
from render import templates
from render.code import EPOCH
from render.mkdocs.npm import Missing, Package, fetch, keep, member

CACHE = ROOT / ".cache/browser"
FOLDER = "assets/browser"  # on the site
log = logging.getLogger("mkdocs.browser")

PYODIDE = Package(
    "pyodide/-/pyodide-314.0.7.tgz",
    "sha512-0YvXxEhfEdpLfb/XkM2BFAeMROq0iMUX2bzzH9pOttyMcWkwq+HbE5uyuGD82LN7y2q+SNvi/6V5JEsOlD2R1A==",
)
PYTHON = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
EDITOR = tomllib.loads(Path(__file__).with_name("editor.toml").read_text("utf-8"))  # by the names that modules import
FILES = [f"pyodide/{name}" for name in PYTHON] + [f"editor/{name}.js" for name in EDITOR]


def on_startup(**_):
    """Fetch it now, so that the one line about what is missing stands at the top."""
    try:
        make()
    except Missing as reason:
        log.info(f"Pages have no button that runs a kernel: {reason}.")


def on_env(env, **_):
    """Tell pages where the editor's modules are, if there are any."""
    env.globals["editor"] = {name: f"{FOLDER}/editor/{name}.js" for name in EDITOR} if made() else {}


def on_post_build(config, **_):
    if not made():
        return
    folder = Path(config.site_dir, FOLDER)
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((CACHE / name).read_bytes())
    fetched = sum((CACHE / f"pyodide/{name}").stat().st_size for name in PYTHON if name.endswith((".wasm", ".zip")))
    (folder / "bytes.txt").write_text(str(fetched), "utf-8")  # so that a page can say how much of it has come
    for name in ("explorer.js", "explorer.css"):  # the bar of time, which a launch that has run is given
        (folder / name).write_text((FIGURES / name).read_text("utf-8"), "utf-8")
    (folder / "story.txt").write_text(templates.render("story.html"), "utf-8")
    with zipfile.ZipFile(folder / "model.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted((ROOT / "browser").glob("*.py")):
            name = zipfile.ZipInfo(f"browser/{path.name}", EPOCH)
            archive.writestr(name, path.read_text("utf-8"), zipfile.ZIP_DEFLATED)


def made() -> bool:
    return all((CACHE / name).exists() for name in FILES)


def make() -> None:
    """Fetch what is not in the cache, or raise ``Missing``."""
    if made():
        return
    python = fetch(PYODIDE)
    for name in PYTHON:
        _keep(f"pyodide/{name}", member(python, name))
    for name, each in EDITOR.items():
        packed = fetch(Package(f"{name}/-/{name.rpartition('/')[2]}-{each['version']}.tgz", each["digest"]))
        _keep(f"editor/{name}.js", member(packed, each["module"]))


def _keep(name: str, content: bytes) -> None:
    (CACHE / name).parent.mkdir(parents=True, exist_ok=True)
    keep(CACHE / name, content)
