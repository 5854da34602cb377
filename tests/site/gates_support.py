# SPDX-License-Identifier: Apache-2.0
"""What the tests of the gates share: a throw-away copy of the project, and a look for requests to other hosts."""

import os
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

from tests.processes import run_python

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("recorder", "snippets", "recordings", "theme", "mkdocs.yml", "pyproject.toml", "requirements.txt")
PARTS += ("requirements-site.txt", "docs/en/programs/vector-add-step-by-step.ipynb", "docs/en/reference/glossary.md")

# Pages of the copy: the lesson's own would do, but these need no change when its prose does.
HOME = "# Home\n\nThe [lesson](programs/vector-add.md#it-runs), the [lab](programs/vector-add-step-by-step.ipynb).\n"
LESSON = """\
# Vector add

It starts {{ cpu: launches[0].grid[0]; d; == 3 }} programs.

```python
--8<-- "programs/vector_add.py:kernel"
```

## It runs

```recording
view: output
device: h200
```

## The whole file

```recording
view: file
```
"""
NAV = """
nav:
  - index.md
  - programs/vector-add.md
  - programs/vector-add-step-by-step.ipynb
  - reference/glossary.md
"""

# In the copy, so that no test depends on whether the recordings here happen to be fresh: say that they are.
REFRESH = """
import json
from recorder import fingerprint, lab, recording
from recorder.project import labs, snippets
for snippet in snippets():
    for device in recording.devices(snippet):
        kept = recording.load(snippet, device)
        kept["provenance"]["fingerprint"] = fingerprint.of(snippet.path, device)
        kept["digest"] = recording.digest(kept)
        recording.write_atomically(recording.path_of(snippet, device), json.dumps(kept))
for script in labs():
    notebook = json.loads(script.notebook.read_text("utf-8"))
    notebook["metadata"]["provenance"]["fingerprint"] = lab.fingerprint(script.path)
    notebook["metadata"]["digest"] = lab.digest(notebook)
    recording.write_atomically(script.notebook, json.dumps(notebook))
"""


class Copy:
    """A copy of the project in which a fault may be planted."""

    def __init__(self, root: Path):
        self.root = root

    def read(self, path: str) -> str:
        return (self.root / path).read_text("utf-8")

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, "utf-8")

    def edit(self, path: str, old: str, new: str) -> None:
        """Replace ``old`` by ``new``. Asserts that it is there: else the test would plant nothing."""
        text = self.read(path)
        assert old in text, f"{path} has no {old!r}"
        self.write(path, text.replace(old, new, 1))

    def append(self, path: str, text: str) -> None:
        self.write(path, self.read(path) + text)

    def line(self, path: str, text: str) -> str:
        """``path:LINE`` of the first line that contains the text."""
        number = next(n for n, line in enumerate(self.read(path).splitlines(), start=1) if text in line)
        return f"{path}:{number}"

    def python(self, *arguments: str, **more: str) -> tuple[int, str]:
        """Exit status and output of Python, started inside the copy, so that it imports what the copy holds.

        ``more`` variables are set in its environment.
        """
        environment = {k: v for k, v in os.environ.items() if k not in ("TRITON_INTERPRET", "PYTHONPATH")}
        environment |= more | {"PYTHONDONTWRITEBYTECODE": "1", "NO_MKDOCS_2_WARNING": "1", "COLUMNS": "200"}
        done = run_python(*arguments, env=environment, cwd=self.root)
        return done.returncode, done.stdout + done.stderr

    def check(self) -> tuple[int, str]:
        return self.python("-m", "recorder", "check")

    def build(self, *options: str) -> tuple[int, str]:
        return self.python("-m", "mkdocs", "build", *options)

    def strict(self) -> tuple[int, str]:
        return self.build("--strict")

    def files(self, folder: str) -> dict[str, bytes]:
        paths = (path for path in (self.root / folder).rglob("*") if path.is_file())
        return {path.relative_to(self.root).as_posix(): path.read_bytes() for path in paths}


def make_copy(target: Path) -> Copy:
    """A small project in ``target``: one lesson with its lab, all else that is no page, and two pages of its own."""
    other_chapters = {path.name for path in (ROOT / "snippets").iterdir()} - {"programs"}
    leave_out = shutil.ignore_patterns("__pycache__", *other_chapters)  # one chapter, and of it one lesson
    for part in PARTS:
        (target / part).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, target / part, ignore=leave_out)
        else:
            shutil.copy(ROOT / part, target / part)
    for part in ("snippets/programs", "recordings/programs"):
        for path in (target / part).iterdir():
            if not path.name.startswith("vector_add") and path.name != "labs":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in (target / "snippets/programs/labs").iterdir():
        if path.name != "vector_add_step_by_step.py":
            path.unlink()
    copy = Copy(target)
    copy.write("pyproject.toml", copy.read("pyproject.toml").partition("[tool.recorder")[0])
    settings, nav, _ = copy.read("mkdocs.yml").partition("\nnav:")
    assert nav
    copy.write("mkdocs.yml", settings + NAV)
    copy.write("docs/en/index.md", HOME)
    copy.write("docs/en/programs/vector-add.md", LESSON)
    status, output = copy.python("-c", REFRESH)
    assert status == 0, output
    return copy


# Requests to other hosts

LOADS = {  # which attributes make a browser load something; `a` is missing: a link is followed by choice
    "img": ("src", "srcset"), "script": ("src",), "iframe": ("src",), "frame": ("src",), "embed": ("src",),
    "source": ("src", "srcset"), "track": ("src",), "audio": ("src",), "video": ("src", "poster"),
    "object": ("data",), "input": ("src",), "image": ("href", "xlink:href"), "use": ("href", "xlink:href"),
    "feimage": ("href", "xlink:href"), "link": ("href", "imagesrcset"), "body": ("background",),
}  # fmt: skip
LINKS = {"stylesheet", "icon", "apple-touch-icon", "mask-icon", "preload", "prefetch", "modulepreload", "preconnect"}
LINKS |= {"dns-prefetch", "manifest"}
OTHER_HOST = re.compile(r"^\s*(?:https?:|wss?:)?//", re.I)
IN_CSS = re.compile(r"""(?:url\(\s*["']?|@import\s+["'])\s*((?:https?:)?//[^"')\s]+)""", re.I)
IN_SCRIPT = re.compile(
    r"""(?:\bimport\b|\bfrom\b|\bfetch\(|\bimport\(|importScripts\(|\.src\s*=|new\s+(?:Worker|WebSocket|EventSource|URL)\()"""
    r"""\s*["'`]((?:https?:|wss?:)?//[^"'`\s]+)""",
)


class _Requests(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found, self.inside = [], None

    def handle_starttag(self, tag, attrs):
        attributes = {name: value or "" for name, value in attrs}
        self.inside = tag if tag in ("style", "script") else None
        if tag != "link" or LINKS & set(attributes.get("rel", "").lower().split()):
            for name in LOADS.get(tag, ()):
                value = attributes.get(name, "")
                values = re.split(r",\s+|,(?=//|http)", value) if "srcset" in name else [value]
                self.found += [(self.getpos()[0], value.strip()) for value in values if OTHER_HOST.match(value)]
        self._code(attributes.get("style", ""), IN_CSS)

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside:
            self._code(data, IN_CSS if self.inside == "style" else IN_SCRIPT)

    def _code(self, text, pattern):
        self.found += [(self.getpos()[0] + text.count("\n", 0, m.start()), m[1]) for m in pattern.finditer(text)]


def other_hosts(site: Path) -> list[str]:
    """``FILE:LINE: ADDRESS`` of everything in a built site that a browser would load from another host."""
    found = []
    for path in sorted(site.rglob("*")):
        if path.suffix not in (".html", ".css", ".js", ".mjs", ".svg"):
            continue
        text = path.read_text("utf-8")
        if path.suffix in (".html", ".svg"):
            parser = _Requests()
            parser.feed(text)
            requests = parser.found
        else:
            pattern = IN_CSS if path.suffix == ".css" else IN_SCRIPT
            requests = [(text.count("\n", 0, match.start()) + 1, match[1]) for match in pattern.finditer(text)]
        found += [f"{path.relative_to(site).as_posix()}:{line}: {address}" for line, address in requests]
    return found
