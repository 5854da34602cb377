# SPDX-License-Identifier: Apache-2.0
"""The view ``ledger``: everything that was recorded, by chapter, with where and when, and whether it is current."""

from collections import Counter

from markupsafe import Markup

from figures.registry import FEET
from figures.words import plural
from recorder import judge, lab, recording
from recorder.project import labs, relative, snippets
from render.page import Page
from render.templates import render
from render.views.frame import where
from render.views.registry import view


@view
def ledger(page: Page) -> Markup:
    """Return every snippet and lab with its recordings: device, versions, date, and whether each is current."""
    chapters = {}
    for snippet in snippets():
        faults = {problem.path: problem.fault for problem in judge.problems(snippet)}
        for device in recording.devices(snippet):
            state = faults.get(relative(recording.path_of(snippet, device)), "current")
            _enter(chapters, snippet.name, where(recording.load(snippet, device).provenance), state)
    for script in labs():
        if script.notebook.is_file():
            made = lab.read(script.notebook)["metadata"]["provenance"]
            _enter(chapters, script.name, FEET["rows"].format(**made), lab.status(script).replace("fresh", "current"))
    counted = {chapter: (_counted(entries), entries) for chapter, entries in sorted(chapters.items())}
    return render("ledger.html", chapters=counted)


def _enter(chapters: dict, name: str, place: str, state: str) -> None:
    chapters.setdefault(name.partition("/")[0], {}).setdefault(name, []).append((place, state))


def _counted(entries: dict) -> str:
    """Return a summary such as ``31 files ran, 62 recordings, all current``."""
    states = [state for lines in entries.values() for _, state in lines]
    others = Counter(state for state in states if state != "current")
    judged = ", ".join(f"{count} {state}" for state, count in others.items()) or "all current"
    return f"{plural(len(entries), 'file')} ran, {plural(len(states), 'recording')}, {judged}"
