# SPDX-License-Identifier: Apache-2.0
"""Where things lie and what they are called: one name for a lesson, in all four places."""

import difflib
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path


class RecorderError(Exception):
    """Something named by a person does not exist or cannot be used; the message says what, and what to do."""


def _root() -> Path:
    """The checkout around the working directory, else the one that this file belongs to."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "mkdocs.yml").is_file() and (folder / "snippets").is_dir():
            return folder
    return Path(__file__).resolve().parent.parent


ROOT = _root()


def relative(path: Path) -> str:
    """``path`` from the root of the project, with forward slashes, as recordings and messages spell it."""
    return path.relative_to(ROOT).as_posix()


OTHER_TRITON = "cpu-triton-"  # "cpu-triton-3.8.0": the interpreter of a Triton that is not the pinned one


def triton_of(device: str) -> str | None:
    """The version of Triton in the name of a device, or None if it is the pinned one's, or a GPU's."""
    return device.removeprefix(OTHER_TRITON) if device.startswith(OTHER_TRITON) else None


def interpreted(device: str) -> bool:
    return device == "cpu" or device.startswith(OTHER_TRITON)


@dataclass(frozen=True)
class Settings:
    """How a snippet is recorded, where it is not as usual: its table ``[tool.recorder.snippets]`` in pyproject.toml."""

    devices: list[str] = field(default_factory=lambda: ["cpu", "gpu"])  # kinds of device that it runs on
    differs: str = ""  # why its output is not the same on every device, or in every run
    stages: bool = True  # whether its launches are compiled for all targets
    triton: list[str] = field(default_factory=list)  # other versions of Triton to run it under, in the interpreter
    replay: bool = True  # whether `check --replay` runs it again; not so for what asks the network


@lru_cache
def _settings(text: str) -> dict[str, Settings]:
    known = [setting.name for setting in fields(Settings)]
    tables = tomllib.loads(text).get("tool", {}).get("recorder", {}).get("snippets", {})
    names = [snippet.name for snippet in snippets()]
    for name, table in tables.items():
        if name not in names:
            raise RecorderError(f"pyproject.toml has recorder settings for {name!r}{nearest(name, names)}")
        if unknown := [setting for setting in table if setting not in known]:
            raise RecorderError(
                f"pyproject.toml, {name}: no setting is called {unknown[0]!r}{nearest(unknown[0], known)}"
            )
    return {name: Settings(**table) for name, table in tables.items()}


@dataclass(frozen=True, order=True)
class Snippet:
    name: str  # "programs/vector_add"

    @property
    def path(self) -> Path:
        return ROOT / "snippets" / f"{self.name}.py"

    @property
    def recordings(self) -> Path:
        return ROOT / "recordings" / self.name

    @property
    def module(self) -> str:
        return "snippets." + self.name.replace("/", ".")

    @property
    def settings(self) -> Settings:
        return _settings((ROOT / "pyproject.toml").read_text("utf-8")).get(self.name, Settings())

    def runs_on(self, device: str) -> bool:
        if version := triton_of(device):
            return version in self.settings.triton
        return ("cpu" if device == "cpu" else "gpu") in self.settings.devices


@dataclass(frozen=True, order=True)
class Lab:
    name: str  # "programs/labs/vector_add_step_by_step"

    @property
    def path(self) -> Path:
        return ROOT / "snippets" / f"{self.name}.py"

    @property
    def notebook(self) -> Path:
        chapter, _, lab = self.name.partition("/labs/")
        return ROOT / "docs" / "en" / chapter / f"{lab.replace('_', '-')}.ipynb"


def _names() -> list[str]:
    folder = ROOT / "snippets"
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.py"))


def snippets() -> list[Snippet]:
    return [Snippet(name) for name in _names() if _is_snippet(name)]


def _is_snippet(name: str) -> bool:
    return "/labs/" not in name and not name.endswith("__init__")


def labs() -> list[Lab]:
    return [Lab(name) for name in _names() if "/labs/" in name]


def find(name: str) -> Snippet:
    """The snippet of this name, which may also be given as a path to its file."""
    snippet = Snippet(name.removeprefix("snippets/").removesuffix(".py"))
    if not snippet.path.is_file() or not _is_snippet(snippet.name):
        known = [each.name for each in snippets()]
        raise RecorderError(f"there is no snippet {snippet.name!r}{nearest(snippet.name, known)}")
    return snippet


def snippet_of_page(page: str) -> str:
    """The name of the snippet that belongs to a page: ``programs/vector-add.md`` to ``programs/vector_add``."""
    return page.removesuffix(".md").replace("-", "_")


def nearest(wrong: str, known: Iterable[str]) -> str:
    """The end of an error message: the names most like the wrong one, or all that exist."""
    known = [str(name) for name in known]
    close = difflib.get_close_matches(str(wrong), known, n=3, cutoff=0.5) or known[:12]
    return f"; the nearest that exist: {', '.join(close)}" if close else "; none exist yet"
