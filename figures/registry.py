# SPDX-License-Identifier: Apache-2.0
"""List the figures: each folder beside this file registers its own by one line above its function."""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from markupsafe import Markup

from recorder.project import RecorderError, nearest

HERE = Path(__file__).parent
COMMENTS = re.compile(r"^ *(?://.*|/\*(?:.|\n)*?\*/)\n", re.M)
FEET = {  # the line under a figure, by what it is drawn from; braces name fields of the recording's provenance
    "output": "{device} · Triton {triton} · torch {torch} · {date}",
    "launches": "{device} · Triton {triton} · torch {torch} · {date}",
    "rows": "{device} · Triton {triton} · torch {torch} · {date}",
    "stages": "Compiled without a GPU · Triton {compiler} · {date}",
}
SHARED = re.compile(r'^import .* from "\.\./(\w+)\.js";$', re.M)  # by a figure's script, of what lies in this folder
PARTS = re.compile(r"\bexplorer__(\w+)|\{% from \"forms.html\" import ([\w, ]+)")  # of a form, by a figure's template
EXPLORER = "At first a run recorded on {date}, Triton {triton}; your changes are computed in your browser"


@dataclass(frozen=True)
class Figure:
    """A way to draw a recording."""

    name: str  # what a page calls it
    draw: Callable[..., Markup]  # takes a recording, and the page's options by name
    of: Literal["output", "launches", "stages", "rows"]  # what it is drawn from
    foot: str  # the line under it
    searched: bool  # whether readers may search for what it shows
    every: bool  # whether it shows all recordings of a snippet
    folder: Path
    places: tuple[str, ...] = ()  # folders of other figures, of which it shows one within its own picture

    @property
    def options(self) -> dict[str, inspect.Parameter]:
        """Return the options that a page may give beside the figure's name; one without a default must be given."""
        return dict(list(inspect.signature(self.draw).parameters.items())[1:])

    @property
    def previewed(self) -> bool:
        """Tell whether a quick run on any machine can preview it."""
        return self.of in ("output", "launches")

    @property
    def styles(self) -> list[str]:
        """Return the style sheets of the figure, in order: first those of what it shares with others."""
        own = [HERE / name / "style.css" for name in self.places] + [self.folder / "style.css"]
        paths = (*self.shared("css"), *self.parts(), *own, *self._for_classes())
        return [_text(path) for path in paths if path.is_file()]

    def styles_for(self, page: str) -> list[str]:
        """Return those that a page needs: ``NAME.css`` beside ``style.css`` is for classes that begin so."""
        spare = [_text(path) for path in self._for_classes() if f'class="{path.stem}' not in page]
        return [style for style in self.styles if style not in spare]

    def _for_classes(self) -> list[Path]:
        return [path for path in sorted(self.folder.glob("*.css")) if path.stem != "style"]

    @property
    def style(self) -> str:
        return "".join(self.styles)

    def parts(self) -> list[Path]:
        """Return the styles of those parts of a form, ``forms/*.css``, that the figure's template has."""
        template = self.folder / "template.html"
        found = PARTS.findall(_text(template)) if template.is_file() else []
        names = {name.strip() for each, macros in found for name in (each, *macros.split(","))}
        return [path for path in sorted((HERE / "forms").glob("*.css")) if path.stem in names]

    @property
    def script(self) -> str:
        """Return the figure's ES module, with what it imports from this folder."""
        return module([self])

    @property
    def own_script(self) -> str:
        """Return the part of the module that is this figure's alone."""
        return _part(self.folder / "script.js") if (self.folder / "script.js").is_file() else ""

    def shared(self, kind: str) -> list[Path]:
        """Return the files of this folder that the figure's script imports, or those of styles beside them."""
        script = self.folder / "script.js"
        names = SHARED.findall(_text(script)) if script.is_file() else []
        return [path for path in (HERE / f"{name}.{kind}" for name in names) if path.is_file()]


def module(figures: Iterable[Figure]) -> str:
    """Return the one ES module of a page's figures: what they share once, then each one's own part, in a block."""
    alive = [each for each in figures if each.own_script]
    shared = dict.fromkeys(path for each in alive for path in each.shared("js"))
    return "\n".join([*(_part(path) for path in shared), *(f"{{\n{each.own_script}\n}}" for each in alive)])


@cache
def _part(path: Path) -> str:
    """Return a script as a part of a module: what another part exports is at hand in it."""
    lines = [line for line in _text(path).splitlines() if not line.startswith("import ")]
    return "\n".join(line.removeprefix("export ") for line in lines)


@cache
def _text(path: Path) -> str:
    """Return a file's text; of a script, without lines of comments, which say why to us and not to a browser."""
    text = path.read_text("utf-8")
    return COMMENTS.sub("", text) if path.suffix == ".js" else text


_known: dict[str, Figure] = {}


def figure(of: str, *, foot="", searched=False, every=False, places: tuple[str, ...] = ()) -> Callable:
    """Register a function as a figure of its name. ``of`` and the rest: see :class:`Figure`."""

    def register(draw: Callable) -> Callable:
        folder = Path(inspect.getsourcefile(draw)).parent
        if of not in FEET:
            raise RecorderError(f"figures/{folder.name}: no figure is drawn from {of!r}{nearest(of, FEET)}")
        _known[draw.__name__] = Figure(draw.__name__, draw, of, foot or FEET[of], searched, every, folder, places)
        return draw

    return register


@cache
def figures() -> dict[str, Figure]:
    """Return all figures by name."""
    for module in pkgutil.iter_modules([str(HERE)]):
        if module.ispkg:
            importlib.import_module(f"figures.{module.name}")
    return dict(_known)
