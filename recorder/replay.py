# SPDX-License-Identifier: Apache-2.0
"""Run again what needs no GPU, and compare with what is recorded."""

import tempfile
from pathlib import Path

import msgspec

from recorder import lab, recording, runner
from recorder.project import Lab, RecorderError, Snippet, labs, relative, snippets
from recorder.recording import Recording


def replay(progress) -> list[str]:
    """What comes out differently now: of every snippet in the interpreter, of every lab and of every chart."""
    found = []
    for snippet in snippets():
        for device in recording.devices(snippet):
            if runner.draw_charts(recording.load(snippet, device)) != recording.charts(snippet, device):
                path = relative(recording.path_of(snippet, device))
                found.append(f"{path}: its charts are drawn otherwise now; mend: python -m recorder draw")
        if "cpu" in recording.devices(snippet) and snippet.settings.replay:
            found += _again(snippet, progress)
    for script in labs():
        found += _again(script, progress)
    return found


def _again(job: Snippet | Lab, progress) -> list[str]:
    progress.step(f"{job.name} on cpu, again")
    try:
        if isinstance(job, Lab):
            changed = _lab_differences(job)
        else:
            changed = differences(recording.load(job, "cpu"), runner.record(job, "cpu", progress=progress))
    except RecorderError as error:
        changed = [str(error)]
    progress.done("NOT as recorded" if changed else "as recorded")
    return [f"{job.name}: {part}" for part in changed]


def _lab_differences(script: Lab) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        again = Path(folder) / "again.ipynb"
        lab.build(script, again, timeout=runner.TIME_LIMIT)
        old, new = (lab.cells(path) for path in (script.notebook, again))
    return [] if old == new else [_first_difference(old, new, "cells")]


def differences(old: Recording, new: Recording) -> list[str]:
    """Where two recordings of one snippet on one device first differ, a line a part; versions and dates apart."""
    parts = ["launched", "launches", "pictures"]
    if not Snippet(old.snippet).settings.differs:
        parts.insert(0, "output")
    if old.provenance.triton == new.provenance.triton:
        parts.append("compiled")  # another Triton may well compile to other code
    before, now = _comparable(old), _comparable(new)
    return [_first_difference(before[part], now[part], part) for part in parts if before[part] != now[part]]


def _comparable(made: Recording) -> dict:
    """A recording as plain values; of compiled code, digests stand for the text, in which registers have numbers."""
    plain = msgspec.to_builtins(msgspec.structs.replace(made, compiled=[]))
    plain = {"launched": {}, "launches": {}, "pictures": {}, **plain}
    plain["compiled"] = [
        {**msgspec.to_builtins(entry), "targets": {
            target: msgspec.to_builtins(msgspec.structs.replace(code, stages={})) | {"shown": sorted(code.stages)}
            for target, code in entry.targets.items()
        }}
        for entry in made.compiled
    ]  # fmt: skip
    return plain


def _first_difference(old, new, at: str) -> str:
    if isinstance(old, str) and isinstance(new, str) and "\n" in old + new:
        lines, now = (dict(enumerate(text.split("\n"), 1)) for text in (old, new))
        return _first_difference(lines, now, f"{at} line ")
    if isinstance(old, list | tuple) and isinstance(new, list | tuple):
        old, new = dict(enumerate(old)), dict(enumerate(new))
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            if old.get(key) != new.get(key):
                return _first_difference(old.get(key), new.get(key), f"{at}{'' if at.endswith(' ') else '.'}{key}")
    return f"{at} was {str(old)[:100]!r}, is {str(new)[:100]!r}"
