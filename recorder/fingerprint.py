# SPDX-License-Identifier: Apache-2.0
"""The fingerprint of a snippet: what runs, without what only people read, and what is recorded of it."""

import hashlib
import json
import re

from recorder.project import COMPILER, ROOT, Lab, Snippet, interpreted, triton_of
from recorder.source import reach_of

PINNED = ("torch", "triton", "numpy")


def pins() -> dict[str, str]:
    """The lines of requirements.txt that pin what the interpreter's results depend on."""
    lines = (ROOT / "requirements.txt").read_text("utf-8").splitlines()
    found = {package: [line for line in lines if re.match(rf"{package}\s*==", line)] for package in PINNED}
    return {package: " ".join(lines) for package, lines in found.items()}


def of(snippet: Snippet | Lab, device: str = "cpu") -> str:
    """SHA-256 (hexadecimal) over the syntax trees of a snippet and of the definitions of ours that it reaches.

    And over what its settings say of what is recorded; on a CPU, over the pins; and over the version of the compiler,
    where one has a part in it. Raises ``RecorderError`` for what cannot be followed.
    """
    reach = reach_of(snippet.path)
    parts = [*sorted(reach.definitions), "", *reach.order]
    if isinstance(snippet, Snippet):
        settings = snippet.settings
        parts.append(f"differs: {bool(settings.differs)}")
        if interpreted(device):
            listings = sorted((s.launch, s.targets, s.stages) for s in settings.stages)
            parts.append(json.dumps([settings.launches, settings.compiled, listings]))
        if snippet.compiled_on(device):
            parts.append(f"compiler: {COMPILER}")
    if interpreted(device):
        other = {"triton": f"triton=={version}"} if (version := triton_of(device)) else {}
        parts += [f"{package}: {pin}" for package, pin in (pins() | other).items()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()

