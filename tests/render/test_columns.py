# SPDX-License-Identifier: Apache-2.0
"""What pages show of snippets, and of the package to download, has at most 76 columns, so that it fits by the menu."""

import re
import textwrap

from recorder.project import ROOT, read_text
from render.config import docs, pages
from render.labs import is_lab

COLUMNS = 76
SHOWN = re.compile(r'--8<--\s+"([^":]+):([\w-]+)"')
# Whose lines are quoted, by a recording's output or by what explains a mutant; these go when that is renewed.
QUOTED = re.compile(r"_bug$|_minimal$|^tools/(bench|debugging|races|testing)|^gpu/(memory_two|schedule_waiting)")
ALSO = ["start/recurrence_measured"]
MOST_LEFT = 28  # lines of all others that have no place to break: one word, a doctest, a summary


def section(file: str, name: str) -> list[str]:
    text = read_text(ROOT / file if file.startswith("template/") else ROOT / "snippets" / file)
    inside = re.search(rf"\[start:\s*{name}\s*\].*\n(?s:(.+?))^.*\[end:\s*{name}\s*\]", text, re.M)[1]
    lines = textwrap.dedent(inside).splitlines()
    return [line.removesuffix("  # fmt: skip") for line in lines if "--8<--" not in line]


def test_listings_fit():
    texts = [read_text(docs() / page) for page in pages() if not is_lab(page)]
    shown = {match.groups() for text in texts for match in SHOWN.finditer(text)}
    assert len(shown) > 100
    kept = {(f, s) for f, s in shown if not QUOTED.search(f.removesuffix(".py")) and f.removesuffix(".py") not in ALSO}
    long = sorted({f"{f}: {line}" for f, s in kept for line in section(f, s) if len(line) > COLUMNS})
    assert len(long) <= MOST_LEFT, "\n".join(long)
