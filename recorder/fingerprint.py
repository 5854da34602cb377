# SPDX-License-Identifier: Apache-2.0
"""The fingerprint of a snippet or an exercise: what runs, without what only people read, and what is recorded of it.

Over 300 commits of this project, this rule made 365 recordings of GPUs stale; a hash of whole files would have made
424, those that a snippet imports included, and 245 without them, as Sphinx-Gallery hashes.
"""

import ast
import hashlib
import json
import re
import tomllib
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from recorder.effects import LIBRARIES
from recorder.project import COMPILER, ROOT, Exercise, Lab, Snippet, interpreted, read_text
from recorder.reach import reach_of
from recorder.recording import Recording
from recorder.source import spell, tree_of

ALIASES = {"PIL": "pillow", "yaml": "pyyaml", "bs4": "beautifulsoup4"}  # packages with another name in Python
SHOWN = re.compile(r"\.py\W{0,3}(?:, line )?\d|\bline \d|\bat \d+:\d")  # a place in a source file, as messages give it


def pins(packages: Iterable[str] = ()) -> dict[str, str]:
    """Return the lines of requirements.txt that pin what the interpreter's results depend on, and other packages."""
    lines = _requirements(ROOT / "requirements.txt")
    pinned = {}
    for package in (*LIBRARIES, *sorted(packages)):
        spelled = re.escape(ALIASES.get(package, package)).replace("_", "[-_.]")
        pinned[package] = " ".join(line for line in lines if re.match(rf"{spelled}\s*==", line, re.I))
    return {package: line for package, line in pinned.items() if line or package in LIBRARIES}


def _requirements(file: Path) -> list[str]:
    """Return the lines of a requirements file and of those that it includes."""
    lines = file.read_text("utf-8").splitlines() if file.is_file() else []
    others = (line.removeprefix("-r ") for line in lines if line.startswith("-r "))
    return lines + [line for other in others for line in _requirements(file.parent / other.strip())]


def shown(made: Recording) -> bool:
    """Return whether a recording shows a place in a source file."""
    errors = (code.error for compiled in made.compiled for code in compiled.targets.values())
    return any(map(SHOWN.search, (made.output, *errors)))


def of(snippet: Snippet | Lab, device: str = "cpu", made: Recording | None = None) -> str:
    """Return the SHA-256 (hexadecimal) of the code of a snippet and of the definitions of ours that it reaches.

    It covers the syntax trees; what the code reads of its text, and the lines that the recording ``made`` shows; the
    settings for what is recorded; on a CPU, the pins of the imported packages; and the version of the compiler, if one
    has a part in it. Raise ``RecorderError`` for what cannot be followed.
    """
    if isinstance(snippet, Exercise):
        parts = _checked(snippet) if interpreted(device) else _timed(snippet)
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()
    reach = reach_of(snippet.path)
    own, *others = reach.order
    parts = [*sorted(reach.definitions), "", *own]
    for order in others:
        parts += ["", *order]
    parts += reach.read(shown=made is not None and shown(made))
    if isinstance(snippet, Snippet):
        settings = snippet.settings
        parts.append(f"differs: {bool(settings.differs)}")
        if interpreted(device):
            listings = sorted((s.launch, s.targets, s.stages) for s in settings.stages)
            parts.append(json.dumps([settings.launches, settings.compiled, listings]))
        elif settings.processes != 1:
            parts.append(f"processes: {settings.processes}")
        if snippet.compiled_on(device):
            parts.append(f"compiler: {COMPILER}")
    if interpreted(device):
        version = snippet.triton_on(device) if isinstance(snippet, Snippet) else None
        other = {"triton": f"triton=={version}"} if version else {}
        parts += [f"{package}: {pin}" for package, pin in (pins(reach.packages() - {*LIBRARIES}) | other).items()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


# ---- Exercises ----

COACH = ROOT / "practice/coach"
READ = ("title", "kind", "lesson", "also", "goal", "hints")  # fields of a Spec that people read and no check does
READERS = ("desk", "notebook", "pages", "progress", "serve", "svg")  # modules of the coach that check nothing


def _checked(exercise: Exercise) -> list[str]:
    """Return what checking wrong solutions comes to: the exercise's files, the coach, and the pins.

    The solution counts with its comments, for answers quote its lines by their numbers.
    """
    functions, fields = _spec(exercise)
    differences = tomllib.loads(read_text(exercise.path / "wrong.toml"))
    coach = tuple(path for path in sorted(COACH.rglob("*.py")) if path.stem not in READERS)
    return [
        read_text(exercise.path / "solution.py"),
        *functions,
        *(spell(field) for name, field in fields.items() if name not in READ),
        json.dumps({name: {k: v for k, v in table.items() if k != "why"} for name, table in differences.items()}),
        *_definitions(tuple((path, path.stat().st_mtime_ns) for path in coach)),
        *(f"{package}: {pin}" for package, pin in pins().items()),
    ]


def _timed(exercise: Exercise) -> list[str]:
    """Return what timing a solution comes to: solution, inputs, size and rival, what is too slow, and how it is timed.

    The least that is asked for is no part of it.
    """
    functions, fields = _spec(exercise)
    rival = [spell(keyword) for keyword in fields["speed"].keywords if keyword.arg != "least"]
    differences = tomllib.loads(read_text(exercise.path / "wrong.toml"))
    slow = {name: table["replace"] for name, table in differences.items() if table.get("gpu")}
    timing = COACH / "speed.py"
    return [
        spell(tree_of(exercise.path / "solution.py")),
        *functions,
        *(spell(fields["inputs"]), *rival),
        json.dumps(slow),
        *_definitions(((timing, timing.stat().st_mtime_ns),)),
    ]


def _spec(exercise: Exercise) -> tuple[list[str], dict[str, ast.expr]]:
    """Return the functions of ``spec.py``, and the fields of ``SPEC = Spec(…)``."""
    functions, fields = [], {}
    for node in tree_of(exercise.settings_file).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "SPEC":
            fields = {keyword.arg: keyword.value for keyword in node.value.keywords}
        else:
            functions.append(spell(node))
    return functions, fields


@lru_cache(maxsize=8)
def _definitions(files: tuple[tuple[Path, int], ...]) -> list[str]:
    """Return the definitions of files with their times of change, sorted, so that moving one changes nothing."""
    nodes = (node for file, _ in files for node in tree_of(file).body)
    return sorted(spell(node) for node in nodes if not isinstance(node, ast.Import | ast.ImportFrom))
