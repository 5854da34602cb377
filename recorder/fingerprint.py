# SPDX-License-Identifier: Apache-2.0
"""The fingerprint of a snippet: what runs, without what only people read, and what is recorded of it.

Over 300 commits of this project, this rule made 365 recordings of GPUs stale; a hash of whole files would have made
424, those that a snippet imports included, and 245 without them, as Sphinx-Gallery hashes.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path

from recorder.effects import LIBRARIES
from recorder.project import COMPILER, ROOT, Lab, Snippet, interpreted
from recorder.reach import reach_of
from recorder.recording import Recording

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
