# SPDX-License-Identifier: Apache-2.0
"""One compiler stage of a launch, each line with the line of the kernel that it comes from."""

from figures.registry import figure
from figures.templates import render
from recorder import printed
from recorder.project import ROOT
from recorder.recording import Recording
from recorder.source import line_of

WRAPS = 240  # characters of a line that wraps; longer ones, with a list of a hundred registers, would fill a screen
NAMES = {
    "ttir": "Triton IR",
    "ttgir": "TritonGPU IR",
    "llir": "LLVM IR",
    "ptx": "PTX",
    "sass": "SASS",
    "amdgcn": "AMD assembly",
}


@figure(of="stages")
def stage(recording: Recording, *, launch=None, target=..., stage=..., only=None):
    """``only`` is a regular expression for the lines to show."""
    lines = numbered(recording, launch, target, stage)
    texts = set(printed.matching([text for _, text in lines], only))
    shown = [(number, text) for number, text in lines if text in texts]
    long = any(len(text) > WRAPS for _, text in shown)
    return render("stage/template.html", stage=stage, name=f"{NAMES[stage]} for {target}", lines=shown, long=long)


def numbered(recording: Recording, launch: str | None, target: str, stage: str) -> list[tuple[int, str]]:
    """Return the lines of a stage, each with the line of the kernel's file on which its source stands today, or 0."""
    entry, lines = recording.compiled_from(launch), recording.stage(launch, target, stage)
    path = ROOT / entry.file
    return [(line_of(path, entry.kernel, line.place), line.text) for line in lines]
