# SPDX-License-Identifier: Apache-2.0
"""What the coach answers to the wrong solutions that ship: ``answers.json``.

``python -m tests.practice.answers`` writes it. For each exercise: which check caught each wrong solution, but for
those that only a GPU can tell; and of one of them the whole answer, which its page shows. Needs no torch.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from .exercise import PRACTICE

ANSWERS = PRACTICE / "answers.json"
MENDED_BY = "python -m tests.practice.answers"


@dataclass(frozen=True)
class Answered:
    caught: dict[str, str]  # wrong solution: the check that found something, a key of finding.STAGES
    shown: str  # the one whose answer this is
    answer: tuple[str, ...]  # lines, as a terminal prints them
    launch: dict | None  # what its picture shows


@dataclass(frozen=True)
class Answers:
    where: dict[str, str]  # versions, date
    exercises: dict[str, Answered]


def read(path: Path = ANSWERS) -> Answers:
    """What the file holds. Raises ValueError where it cannot be used."""
    try:
        found = json.loads(path.read_text("utf-8"))
        exercises = {
            name: Answered(entry["caught"], entry["shown"], tuple(entry["answer"]), entry["launch"])
            for name, entry in found["exercises"].items()
        }
        return Answers(found["where"], exercises)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} cannot be used: {error!r}; {MENDED_BY} writes it") from error


def text(answers: Answers) -> str:
    """The file: one line an entry's part, so that a change reads well."""
    line = lambda value: json.dumps(value, ensure_ascii=False)
    entries = []
    for name, entry in sorted(answers.exercises.items()):
        parts = ",\n".join(f"   {line(key)}: {line(value)}" for key, value in asdict(entry).items() if key != "answer")
        answer = ",\n".join(f"    {line(each)}" for each in entry.answer)
        entries.append(f'  {line(name)}: {{\n{parts},\n   "answer": [\n{answer}\n   ]\n  }}')
    return f'{{\n "where": {line(answers.where)},\n "exercises": {{\n' + ",\n".join(entries) + "\n }\n}\n"
