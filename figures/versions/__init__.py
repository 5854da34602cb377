# SPDX-License-Identifier: Apache-2.0
"""What ``@triton.jit`` makes of a function: an object that keeps its text, and a compiled version for each kind of
arguments.

It takes a snippet that launches one kernel several times. A version's column says what Triton saw of each argument, as
far as the code depends on it, and how wide its loads came out. What differs from the first version stands out.
"""

import re
from collections import Counter
from collections.abc import Iterable

from figures.registry import figure
from figures.templates import render
from recorder.project import ROOT, RecorderError, read_text
from recorder.recording import Compiled, Launch, Recording
from recorder.source import lines_of

LOAD = re.compile(r"\bld\.global(?:\.\w+)*?(?:\.v(\d))?\.b(\d+)\b")


@figure(of="stages")
def versions(recording: Recording, *, launch=None, target="sm_90"):
    """``launch``: one of the kernel; the versions of all its launches are shown whose PTX was kept."""
    kernel = recording.compiled_from(launch)
    kept = [
        name
        for entry in recording.compiled
        if entry.kernel == kernel.kernel and target in entry.targets and "ptx" in entry.targets[target].stages
        for name in entry.launches[:1]
    ]
    if len(kept) < 2:
        raise RecorderError(f"{kernel.kernel} has fewer than two compiled versions whose PTX was kept for {target}")
    launches = [recording.launch(name) for name in kept]
    return render(
        "versions/template.html",
        name=kernel.kernel,
        source=_source(kernel),
        versions=[
            {
                "sizes": ", ".join(f"{key} = {value:,}" for key, value in _sizes(one)),
                "seen": seen(one),
                "loads": loads(line.text for line in recording.stage(name, target, "ptx")),
            }
            for name, one in zip(kept, launches, strict=True)
        ],
    )


def _source(kernel: Compiled) -> list[str]:
    """Return the kernel's lines as they stand, without those that are comments alone."""
    path = ROOT / kernel.file
    text = read_text(path).splitlines()
    lines = [text[number - 1] for number in lines_of(path, kernel.kernel)]
    return [line for line in lines if not line.lstrip().startswith("#")]


def _sizes(launch: Launch) -> list[tuple[str, int]]:
    """Return the arguments that are numbers, but for constants."""
    return [
        (name, value)
        for name, value in launch.arguments.items()
        if isinstance(value, int) and name not in launch.constexprs
    ]


def seen(launch: Launch) -> dict[str, str]:
    """Return what the code depends on, of each argument."""
    return {
        name: f"{value:,}, a constant" if name in launch.constexprs else _seen(value)
        for name, value in launch.arguments.items()
    }


def _seen(value: int | dict) -> str:
    if isinstance(value, dict):
        return f"{value['dtype']}, {value['alignment']}-byte aligned"
    return "1" if value == 1 else "multiple of 16" if value % 16 == 0 else "not a multiple of 16"


def loads(ptx: Iterable[str]) -> str:
    """Return how many loads there are of each width.

    >>> loads(["@%p1 ld.global.v4.b32 { %r1 }", "@%p1 ld.global.b32 { %r2 }", "ld.global.b32 { %r3 }"])
    '1 × 16 bytes, 2 × 4 bytes'
    """
    found = (LOAD.search(line) for line in ptx)
    widths = Counter(int(each[1] or 1) * int(each[2]) // 8 for each in found if each)
    return ", ".join(f"{count} × {width} bytes" for width, count in sorted(widths.items(), reverse=True))
