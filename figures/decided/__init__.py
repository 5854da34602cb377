# SPDX-License-Identifier: Apache-2.0
"""Languages for kernels, a row each: which decisions one leaves to you, and how many lines the same kernel takes in it.

It takes the recording of ``reference/which_language``, which printed a line such as ``Triton, lines: 15`` for each
language. Who decides what is no result of a run: it stands in ``decided.toml``, the languages in order from those that
leave you least. One of them needs no line, because there is nothing to write: ``torch.compile``.
"""

import tomllib
from functools import cache
from pathlib import Path

from figures.registry import figure
from figures.templates import render
from recorder import printed
from recorder.project import RecorderError
from recorder.recording import Recording

FILE = Path(__file__).parent / "decided.toml"
WHO = {"you": "you write it", "open": "you may say it", "for you": "decided for you"}
NOTHING = "torch.compile"  # it takes the line of PyTorch as it is


@cache
def known() -> tuple[list[dict], dict[str, list[str]]]:
    """Return the decisions, and for each language who takes each. Raise ``RecorderError`` if the file is wrong."""
    read = tomllib.loads(FILE.read_text("utf-8"))
    for language, taken in read["languages"].items():
        if len(taken) != len(read["decision"]) or not set(taken) <= set(WHO):
            raise RecorderError(f"decided.toml: {language} needs one of {', '.join(WHO)} for each decision")
    return read["decision"], read["languages"]


@figure(of="output")
def decided(recording: Recording):
    """Draw who decides, with the lines of each language's kernel, and the same as a table to unfold."""
    decisions, languages = known()
    numbers = printed.numbers(recording.output)
    lines = {language: int(numbers.get(f"{language}, lines", 0)) for language in languages}
    if missing := [language for language, count in lines.items() if not count and language != NOTHING]:
        raise RecorderError(f"{recording.snippet} printed no '{missing[0]}, lines: …'")
    lines[NOTHING] = lines[NOTHING] or 1
    rows = [(name, lines[name], taken) for name, taken in languages.items()]
    label = "; ".join(f"{name}, {plural(count)}: {describe(taken, decisions)}" for name, count, taken in rows)
    cells = [[name, count, *(WHO[who] for who in taken)] for name, count, taken in rows]
    titles = ["Language", "lines", *(each["says"] for each in decisions)]
    return render(
        "decided/template.html", decisions=decisions, rows=rows, who=WHO, label=label, titles=titles, cells=cells,
        most=max(lines.values()),
    )  # fmt: skip


def plural(count: int) -> str:
    return "1 line" if count == 1 else f"{count} lines"


def describe(taken: list[str], decisions: list[dict]) -> str:
    """Say who decides what, decisions of one kind together.

    >>> describe(["you", "open", "you"], [{"short": "tile"}, {"short": "threads"}, {"short": "layout"}])
    'you write tile, layout; you may say threads'
    """
    words = {"you": "you write", "open": "you may say", "for you": "decided for you are"}
    groups = {who: [each["short"] for each, by in zip(decisions, taken, strict=True) if by == who] for who in WHO}
    return "; ".join(f"{words[who]} {', '.join(names)}" for who, names in groups.items() if names)
