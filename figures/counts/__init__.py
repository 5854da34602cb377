# SPDX-License-Identifier: Apache-2.0
"""Counts or words that a run printed in columns, as a table: rows of one kind under a heading of their own.

Columns are parted by two blanks or more, and the first line names them.
"""

import re
from itertools import groupby

from figures.registry import figure
from figures.templates import render
from recorder import printed
from recorder.project import RecorderError, nearest
from recorder.recording import Recording


@figure(of="output")
def counts(recording: Recording, *, section=..., columns=..., by=None):
    """``columns``: those to show, the first with the rows' names; ``by``: the column with the headings, if any."""
    sections = printed.sections(recording.output)
    if section not in sections:
        raise RecorderError(f"the output has no section {section!r}{nearest(section, sections)}")
    titles, *rows = (re.split(r" {2,}", line.strip()) for line in sections[section].splitlines() if line.strip())
    if unknown := [title for title in (by or columns[0], *columns) if title not in titles]:
        raise RecorderError(f"no column is called {unknown[0]!r}{nearest(unknown[0], titles)}")
    if ragged := next((row for row in rows if len(row) != len(titles)), None):
        raise RecorderError(f"this line has other columns than the first: {'  '.join(ragged)!r}")
    named = [dict(zip(titles, row, strict=True)) for row in rows]
    kinds = groupby(named, key=lambda row: row[by] if by else "")
    groups = [(head, [_cells(row, columns) for row in of]) for head, of in kinds]
    words = not any(cell.isdecimal() for row in named for cell in row.values())
    return render("counts/template.html", label=section, titles=columns, groups=groups, words=words)


def _cells(row: dict[str, str], columns: list[str]) -> list[str]:
    return [f"{int(cell):,}" if cell.isdecimal() else cell for cell in (row[title] for title in columns)]
