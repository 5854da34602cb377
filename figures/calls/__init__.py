# SPDX-License-Identifier: Apache-2.0
"""What compiled functions call, a row each: kernels as blocks, and between two of them a trip to memory.

It is drawn from lines such as ``triton_op, calls: triton_poi_fused_mul_0, rms_norm_kernel_0``, of which each names a
way and what its function calls, in order. A kernel that Inductor wrote has a name of its own kind; any other is ours.
"""

import re
from typing import NamedTuple

from markupsafe import Markup, escape

from figures.registry import figure
from figures.templates import render
from figures.words import plural
from recorder import printed
from recorder.project import RecorderError, nearest
from recorder.recording import Recording

LINE = re.compile(r"(.+), calls: (.+)")
INDUCTOR = re.compile(r"triton_(?:poi|per|red|mm|tem)_")  # pointwise, a reduction of one kind or another, a template


class Call(NamedTuple):
    name: str
    ours: bool
    steps: list[str]  # of what it computes; empty where the calls are neither one nor one for each


class Way(NamedTuple):
    """What one function calls, or several that look the same."""

    name: str
    calls: list[Call]

    @property
    def look(self) -> list[tuple]:
        return [(call.ours, call.steps or call.name) for call in self.calls]

    @property
    def count(self) -> str:
        return plural(len(self.calls), "kernel")


@figure(of="output")
def calls(recording: Recording, *, steps, names=None, title="What the compiled function calls"):
    """``steps``: what is computed, in order; ``names``: what a page calls the ways, by what the run calls them."""
    ways = read(recording.output, steps)
    names = names or {}
    if unknown := [name for name in names if name not in [way.name for way in ways]]:
        raise RecorderError(f"the run printed no calls of {unknown[0]!r}{nearest(unknown[0], [w.name for w in ways])}")
    ways = [way._replace(name=names.get(way.name, way.name)) for way in ways]
    label = "; ".join(f"{way.name}: {way.count}, {', '.join(call.name for call in way.calls)}" for way in ways)
    rows = [[way.name, len(way.calls), Markup("<br>").join(breakable(call.name) for call in way.calls)] for way in ways]
    return render("calls/template.html", title=title, ways=alike(ways), label=f"{title}. {label}", rows=rows)


def read(output: str, steps: list[str]) -> list[Way]:
    """Return the ways, those of fewest calls first. Raise ``RecorderError`` if the run printed none."""
    ways = []
    for line in printed.matching(output.splitlines(), ", calls: "):
        name, called = LINE.fullmatch(line).groups()
        called = called.split(", ")
        parts = [steps] if len(called) == 1 else [[step] for step in steps]
        parts = parts if len(parts) == len(called) else [[]] * len(called)
        ways.append(
            Way(name, [Call(each, not INDUCTOR.match(each), part) for each, part in zip(called, parts, strict=True)])
        )
    return sorted(ways, key=lambda way: len(way.calls))


def alike(ways: list[Way]) -> list[Way]:
    """Join the ways that would be drawn the same, under all their names.

    >>> norm = [Call("norm", True, ["norm"])]
    >>> [way.name for way in alike([Way("one", norm), Way("another", norm), Way("a third", norm), Way("none", [])])]
    ['one, another, a third', 'none']
    """
    drawn: list[Way] = []
    for way in ways:
        same = next((i for i, other in enumerate(drawn) if other.look == way.look), None)
        if same is None:
            drawn.append(way)
        else:
            drawn[same] = drawn[same]._replace(name=f"{drawn[same].name}, {way.name}")
    return drawn


def breakable(name: str) -> Markup:
    """Let a long name break after its underscores and dots."""
    return Markup(re.sub(r"(?<=[_.])(?=\w)", "<wbr>", str(escape(name))))
