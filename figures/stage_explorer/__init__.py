# SPDX-License-Identifier: Apache-2.0
"""``<stage-explorer>``: the kernel beside every compiler stage, line tied to line."""

import json

from markupsafe import Markup

from figures.registry import figure
from figures.stage import NAMES, numbered
from figures.templates import render
from recorder.project import ROOT, RecorderError, read_text
from recorder.recording import Compiled, Recording
from recorder.source import lines_of


@figure(of="stages")
def stages(recording: Recording, *, launch=0, targets=None, target="sm_90", stage="ptx"):
    """``target`` and ``stage`` are those that it begins with."""
    recording.stage(launch, target, stage)
    targets = targets or list(recording.compiled_from(launch).targets)
    shown = {name: _code(recording, launch, name) for name in targets}
    first = shown[target]["stages"][stage]
    known = {name: NAMES[name] for code in shown.values() for name in code["stages"]}  # in the order of compilation
    return render(
        "stage_explorer/template.html",
        id=f"stages-{launch}",
        targets=targets,
        target=target,
        stages=known,
        stage=stage,
        source=_kernel(recording.compiled_from(launch)),
        shown=zip(first["lines"], first["text"].splitlines(), strict=True),
        # In a template, not in a script: under instant navigation Material runs every script that it finds.
        data=Markup(json.dumps(shown, separators=(",", ":")).replace("<", "\\u003c").replace("&", "\\u0026")),
    )


def _code(recording: Recording, launch: int, target: str) -> dict:
    """What the explorer's script reads of a launch for a target."""
    code = recording.code(launch, target)
    if missing := [stage for stage in code.digests if stage not in code.stages]:
        recording.stage(launch, target, missing[0])  # which says what to declare
    if code.error:
        raise RecorderError(f"launch {launch} does not compile for {target}: {code.error.splitlines()[-1]}")
    stages = {}
    for stage in code.stages:
        lines = numbered(recording, launch, target, stage)
        stages[stage] = {"name": NAMES[stage], "text": code.text(stage), "lines": [number for number, _ in lines]}
    return {"registers": code.registers, "spills": code.spills, "shared": code.shared, "stages": stages}


def _kernel(entry: Compiled) -> list[tuple[int, str]]:
    """The lines of the kernel as they stand, with their numbers."""
    path = ROOT / entry.file
    text = read_text(path).splitlines()
    return [(number, text[number - 1]) for number in lines_of(path, entry.kernel) if "--8<--" not in text[number - 1]]
