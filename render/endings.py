# SPDX-License-Identifier: Apache-2.0
"""What a lesson has behind it, its sources, how sure it is and the whole files, in one fold before its part *Next*."""

import re

NEXT = '<h2 id="next">'
BEHIND = re.compile(r'<h2 id="(sources|the-whole-files?|the-file-behind-the-picture|the-kernels-file)"')
DOUBTS = '<details class="info">'
NAMES = {  # of what there is, in the order in which a summary lists it
    '<h2 id="sources"': "sources",
    DOUBTS: "how sure it is",
    '<div class="recording recording--file"': "the whole files",
}


def with_fold(text: str) -> str:
    """Return a lesson's HTML with the parts before *Next* folded into one, and any other page's as it is.

    >>> with_fold('<h2 id="try-it">…<h2 id="sources">…<h2 id="next">…')
    '<h2 id="try-it">…<details class="behind"><summary>Sources</summary><h2 id="sources">…</details>\\n<h2 id="next">…'
    """
    before, following, after = text.partition(NEXT)
    parts = [match.start() for match in re.finditer("<h2 ", before)]
    behind = [start for start in parts if BEHIND.match(before, start)]
    if not following or not behind or behind != parts[-len(behind) :]:
        return text
    start = _doubts(before, behind[0])
    folded = before[start:]
    listed = [name for mark, name in NAMES.items() if mark in folded] or ["more"]
    summary = (", ".join(listed[:-1]) + " and " if listed[1:] else "") + listed[-1]
    summary = summary[0].upper() + summary[1:]
    return f'{before[:start]}<details class="behind"><summary>{summary}</summary>{folded}</details>\n{NEXT}{after}'


def _doubts(text: str, end: int) -> int:
    """Return where the folds begin that say how sure a page is, if they stand right before ``end``; else ``end``."""
    while text[:end].rstrip().endswith("</details>"):
        start = text.rfind(DOUBTS, 0, end)
        if start < 0 or not _is_one(text[start:end]):
            break
        end = start
    return end


def _is_one(text: str) -> bool:
    """Return whether a text is one fold with what is in it, and nothing after."""
    depth = 0
    for match in re.finditer(r"<(/?)details\b", text.rstrip()):
        depth += -1 if match[1] else 1
        if depth == 0:
            return not text.rstrip()[match.end() :].strip("> ")
    return False
