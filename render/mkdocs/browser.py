# SPDX-License-Identifier: Apache-2.0
"""A hook of MkDocs that brings what runs kernels in a reader's browser: Python, the model of Triton, an editor.

Python is Pyodide, and the editor is CodeMirror, both from the registry of npm, as they are there; their digests are
pinned here. They are kept under ``.cache/browser`` and served by the site itself, and a page fetches them only when
somebody presses *Run*. Where they cannot be had, the build says so in one line, and pages have no such button.
"""

import logging
import zipfile
from pathlib import Path

from recorder.project import ROOT, read_text
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
EDITOR = {  # by the name that its modules import: version, module, digest
    "@codemirror/state": ("6.7.6", "dist/index.js", "kAz+AncRtKuIknedxT1bq4XwXv4UowhbkHU1myPrtVb/jZtImWuV5BXzv5vK6i3kYACsdiZiQKFQQ5Mq7elW8w=="),
    "@codemirror/view": ("6.43.15", "dist/index.js", "HHsfpqFeHyXLs983pSRe38Xajs0vFWZQ2BuX0m7Ki8w3jZ5iD8cuR3lBz2/5/X53Dhf32SBHKh6rtSTB6tKeGw=="),
    "@codemirror/commands": ("6.11.1", "dist/index.js", "O/4hG3SC1YwcmQ0d2UVNDs+AsaNWd1iHVxbTeEBuqH+6bExAiPK3iS/BvpY6rZGURALv4ZD3sIgcCmRvw3ehBg=="),
    "@codemirror/language": ("6.13.1", "dist/index.js", "zfvU2r3TyylQLMj/te+5CnQ0rSqZi8B1oTCBbQkagcLW4Xc6imab6qN+pEJhsuNOLaJqiRyBXp9UhWA1DhVvDw=="),
    "@codemirror/streamparser": ("6.0.0", "dist/index.js", "JTFPF6xrfjt0mnfGPgzcLiMwYmvIyNaoizp8BYzv8FE8KrT6GBGDZ190rtt+O7Wke3gG/MFHyiY9YGNeimof4w=="),
    "@codemirror/lang-python": ("6.2.1", "dist/index.js", "IRjC8RUBhn9mGR9ywecNhB51yePWCGgvHfY1lWN/Mrp3cKuHr0isDKia+9HnvhiWNnMpbGhWrkhuWOc09exRyw=="),
    "@codemirror/autocomplete": ("6.20.4", "dist/index.js", "yF8RhOf2SXlg00+qtupzLhrglcas61boqaONiNcbPIebHCpJocpqTBA6dyrtUrQO47hqyTdeob/3XnYilT7TaQ=="),
    "@lezer/common": ("1.5.5", "dist/index.js", "Pw7PVCndruF1pb3ebCxpSVpkMHSDjwRCLcTRw+RizUKco5QbWylwq2g4lnG/RYN7yTTQDXE9F77MwtkAyphrjg=="),
    "@lezer/highlight": ("1.2.5", "dist/index.js", "O1GMVKgtf5YspFaRzpmqkVgMtIk2HG9uMAbH6wdAIdNh3TVzCsch/+cRi+6l2//UGDKe6NB9BW3cvuR5ezMQ0w=="),
    "@lezer/lr": ("1.4.12", "dist/index.js", "On9HU4oMMiHPMkQDgoTnGahjgG5n/MkN38CgG77sMraKLL+3JBbeQNi1FcCXV9QRqwF9/BUXP3caHyJC1fBOTQ=="),
    "@lezer/python": ("1.1.19", "dist/index.js", "MhQIURHRytsNzP/YXnqpYKW6la6voAH3kyplTOOiCdjyFY6cWWGFVmYVdHIPrElqSDf4iCDktQCockB9FxuhzQ=="),
    "style-mod": ("4.1.5", "src/style-mod.js", "WQ2llCZa9sZSkJA+aOwpg5DkfbAXFKGh//t3MRTBeruFiSBC+GXUmbBzrw3bXyboCWAbtCW9InDfBsXrRD/rAg=="),
    "w3c-keyname": ("2.2.8", "index.js", "dpojBhNsCNN7T82Tm7k26A6G9ML3NkhDsnw9n/eoxSRlVBB4CEtIQ/KTCLI2Fwf3ataSXRhYFkQi3SlnFwPvPQ=="),
    "crelt": ("1.0.7", "index.js", "aK6BbWfhf4U/wCcLHKPJl/xa6VkVstRaPywWtMKGwuOLc/wZTyQYuoxgvZnNsBvv7Kg3YTBQYYBCggcviQczuA=="),
    "@marijn/find-cluster-break": ("1.0.4", "src/index.js", "Wy0V7+SGUjnF9/TkiM1hKVDPj7jKXduPNboMVtHTA8dySMURWqfg/JZ9E2Sq8JgSJmkl7k7Qe9FLeMSrSraWmQ=="),
}  # fmt: skip
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
    with zipfile.ZipFile(folder / "model.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted((ROOT / "browser").glob("*.py")):
            name = zipfile.ZipInfo(f"browser/{path.name}", EPOCH)
            archive.writestr(name, read_text(path), zipfile.ZIP_DEFLATED)


def made() -> bool:
    return all((CACHE / name).exists() for name in FILES)


def make() -> None:
    """Fetch what is not in the cache, or raise ``Missing``."""
    if made():
        return
    python = fetch(PYODIDE)
    for name in PYTHON:
        _keep(f"pyodide/{name}", member(python, name))
    for name, (version, module, digest) in EDITOR.items():
        packed = fetch(Package(f"{name}/-/{name.rpartition('/')[2]}-{version}.tgz", f"sha512-{digest}"))
        _keep(f"editor/{name}.js", member(packed, module))


def _keep(name: str, content: bytes) -> None:
    (CACHE / name).parent.mkdir(parents=True, exist_ok=True)
    keep(CACHE / name, content)
