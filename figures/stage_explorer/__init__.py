# SPDX-License-Identifier: Apache-2.0
"""``<stage-explorer>``: the kernel beside every compiler stage, all lines in the color of the line they come from.

``instructions``: what an instruction is called, and what it does. Lines without one, such as headings and comments,
are folded until a reader asks for them.
"""

import json

from markupsafe import Markup

from figures.registry import figure
from figures.stage import NAMES, numbered
from figures.stage_explorer import instructions
from figures.svg import COLORS
from figures.templates import render
from recorder.project import ROOT, RecorderError, read_text
from recorder.recording import Compiled, Recording
from recorder.source import lines_of

SHORT = NAMES | {"ttir": "TTIR", "ttgir": "TTGIR", "amdgcn": "AMD assembly"}  # on the strip


@figure(of="stages")
def stages(recording: Recording, *, launch=None, targets=None, target="sm_90", stage="ptx", line="tl.load"):
    """``target`` and ``stage`` are those that it begins with; ``line``: with the first of the kernel that has this."""
    recording.stage(launch, target, stage)
    entry = recording.compiled_from(launch)
    shown = {name: _code(recording, launch, name) for name in targets or entry.targets}
    every = [(stage, code) for codes in shown.values() for stage, code in codes.items()]
    first, source = shown[target][stage], _kernel(entry)
    traced = sorted({number for _, code in every for number in code["lines"] if number})
    chosen = next((number for number, text in source if line in text and number in traced), traced[0])
    data = {"targets": shown, "sentences": {stage: _sentences(shown, stage) for stage, _ in every}}
    return render(
        "stage_explorer/template.html",
        id=f"stages-{entry.launches[0].replace('[', '-').rstrip(']')}",
        targets=list(shown),
        target=target,
        stages={name: _label(name, shown[target].get(name)) for name in NAMES if name in dict(every)},
        stage=stage,
        first=first,
        chosen=chosen,
        hues={number: i % COLORS for i, number in enumerate(traced)},
        source=[(number, text, None, text.lstrip().startswith("#")) for number, text in source],
        shown=[(*line, line[-1] is None) for line in _lines(first)],
        data=Markup(
            json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c").replace("&", "\\u0026")
        ),
    )


def _label(stage: str, code: dict | None) -> Markup:
    """Return the text of a stage on the strip of stages. The script updates the number of lines for another target."""
    return Markup("<strong>{}</strong><small>{}</small>").format(
        SHORT[stage], f"{len(code['lines'])} lines" if code else ""
    )


def _code(recording: Recording, launch: str | None, target: str) -> dict[str, dict]:
    """Return the data that the explorer's script reads of a launch for a target, by stage."""
    code = recording.code(launch, target)
    if missing := [stage for stage in code.digests if stage not in code.stages]:
        recording.stage(launch, target, missing[0])  # which says what to declare
    if code.error:
        raise RecorderError(f"the launch does not compile for {target}: {code.error.splitlines()[-1]}")
    stages = {}
    for stage in code.stages:
        lines = numbered(recording, launch, target, stage)
        stages[stage] = {
            "name": NAMES[stage],
            "facts": f"{NAMES[stage]} for {target}: {code.registers} registers per thread, {code.spills} spilled, "
            f"{code.shared} bytes of shared memory.",
            "text": code.text(stage),
            "lines": [number for number, _ in lines],
            "names": [instructions.find(stage, text) for _, text in lines],
        }
    return stages


def _sentences(shown: dict, stage: str) -> dict[str, str]:
    """Return what the instructions of a stage do, by name, for all targets."""
    codes = [codes[stage] for codes in shown.values() if stage in codes]
    names = sorted({text[slice(*place)] for code in codes for _, text, place in _lines(code) if place})
    return {name: instructions.explain(stage, name) for name in names}


def _lines(code: dict) -> list[tuple]:
    """Return for each line of a stage the kernel's line that it comes from, its text, and its instruction's place."""
    return list(zip(code["lines"], code["text"].split("\n"), code["names"], strict=True))


def _kernel(entry: Compiled) -> list[tuple[int, str]]:
    """Return the lines of the kernel as they stand, with their numbers."""
    path = ROOT / entry.file
    text = read_text(path).splitlines()
    return [(number, text[number - 1]) for number in lines_of(path, entry.kernel) if "--8<--" not in text[number - 1]]
