# SPDX-License-Identifier: Apache-2.0
"""What tests of snippets share: the checks of the lesson *Testing a kernel*, and what is about this repository only."""

import importlib.util
import os
from pathlib import Path

from snippets.tools.testing import (  # noqa: F401  for the tests to import from here
    Guarded,
    check_each_once,
    check_inside,
    check_same_bits,
    recorded_accesses,
)


def load_file(path: Path):
    """Import a Python file that is not on the path, such as a mutated snippet."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def mutate(source: Path, target: Path, old: str, new: str) -> Path:
    """Copy ``source`` to ``target`` with every ``old`` replaced; fail if there is none, for then nothing is mutated."""
    text = source.read_text("utf-8")
    assert old in text, f"{source.name} no longer contains {old!r}: bring the table of mutants up to date"
    target.write_text(text.replace(old, new), "utf-8")
    return target


def environment(device: str, **more: str) -> dict[str, str]:
    """This process's environment for a child process that runs kernels on ``device``."""
    kept = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    return kept | ({"TRITON_INTERPRET": "1"} if device == "cpu" else {}) | more
