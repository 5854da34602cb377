# SPDX-License-Identifier: Apache-2.0
"""What the solutions reach on a GPU: ``measured.json``, which ``python -m tests.practice.on_a_gpu`` writes.

The least that a spec asks for rests on it. An entry is of a solution as it was: its fingerprint says whether it still
is. Needs no torch.
"""

import ast
import copy
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from .exercise import PRACTICE, Exercise

MEASURED = PRACTICE / "measured.json"


@dataclass(frozen=True)
class Reached:
    """The speed of a solution, as a share of what its spec names: the median of each process."""

    against: str
    shares: tuple[float, ...]
    fingerprint: str


@dataclass(frozen=True)
class Measured:
    where: dict[str, str]  # GPU, driver, versions, date
    solutions: dict[str, Reached]  # by the exercise's name
    slow: dict[str, tuple[str, ...]]  # wrong solutions that are right, and failed for want of speed


def read(path: Path = MEASURED) -> Measured | None:
    """What the file holds, or None where there is none. Raises ValueError where it cannot be used."""
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text("utf-8"))
        solutions = {
            name: Reached(entry["against"], tuple(entry["shares"]), entry["fingerprint"])
            for name, entry in found["solutions"].items()
        }
        return Measured(found["where"], solutions, {name: tuple(slow) for name, slow in found["slow"].items()})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} cannot be used: {error!r}; python -m tests.practice.on_a_gpu writes it") from error


def least(exercise: Exercise) -> float:
    """The share that its spec asks for, read without torch."""
    (speed,) = [keyword.value for keyword in exercise.spec_call().keywords if keyword.arg == "speed"]
    return next(ast.literal_eval(keyword.value) for keyword in speed.keywords if keyword.arg == "least")


def fingerprint(exercise: Exercise) -> str:
    """Of what is timed: solution, inputs, size and rival; not of comments, nor of the least that is asked for."""
    spec = copy.deepcopy(exercise.spec_call())  # of which others are given the same
    timed = [keyword.value for keyword in spec.keywords if keyword.arg in ("inputs", "speed")]
    for call in timed:
        if isinstance(call, ast.Call):
            call.keywords = [keyword for keyword in call.keywords if keyword.arg != "least"]
    functions = [node for node in ast.parse(exercise.spec_text).body if isinstance(node, ast.FunctionDef)]
    parts = (*functions, *timed, _bare(ast.parse(exercise.solution)))
    text = [ast.unparse(part) for part in parts]  # which is the same under all versions of Python, as ast.dump is not
    return hashlib.sha256("\n".join(text).encode()).hexdigest()[:16]


def _bare(tree: ast.Module) -> ast.Module:
    """Without docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return tree
