# SPDX-License-Identifier: Apache-2.0
"""Change the menu in mkdocs.yml: add a page to it, and number its lessons in the order in which they stand."""

import itertools
import re

from recorder.project import ROOT, RecorderError
from recorder.recording import write_atomically

LESSON = re.compile(r"""^(?P<start> *- ["']?)\d+(?P<rest>\. .+)$""", re.M)


def add(page: str, title: str) -> str:
    """Return mkdocs.yml with a page behind the last one of its chapter, as a lesson if that section has lessons.

    A chapter may be in several sections; take the one with most of its pages. Raise ``RecorderError`` if none has any.
    """
    chapter = page.partition("/")[0]
    text = (ROOT / "mkdocs.yml").read_text("utf-8")
    entry = re.compile(rf"( *)- (?:.*: )?{chapter}/\S+$")
    sections, section = {}, None  # the lines of each section that name a page of the chapter
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        if re.match(r"nav:| +- .*:$", line):
            section = number
        elif section is not None and entry.match(line):
            sections.setdefault(section, []).append(number)
    if not sections:
        raise RecorderError(f"the menu in mkdocs.yml has no page of {chapter}/ behind which {page} could stand")
    pages = max(sections.values(), key=len)
    lesson = any(LESSON.match(lines[number]) for number in pages)
    indent = entry.match(lines[pages[-1]])[1]
    lines.insert(pages[-1] + 1, f"{indent}- {f'0. {title}: ' if lesson else ''}{page}\n")
    return _numbered("".join(lines))


def number() -> int:
    """Number the lessons in the menu anew and return how many there are."""
    text = _numbered((ROOT / "mkdocs.yml").read_text("utf-8"))
    write_atomically(ROOT / "mkdocs.yml", text)
    return len(LESSON.findall(text.partition("\nnav:")[2]))


def _numbered(text: str) -> str:
    head, nav, menu = text.partition("\nnav:")
    count = itertools.count(1)
    return head + nav + LESSON.sub(lambda line: f"{line['start']}{next(count)}{line['rest']}", menu)
