# SPDX-License-Identifier: Apache-2.0
"""`<one-pass>`: what SwiGLU and RoPE move and how long they take: op by op, by torch.compile, and by our kernel.

It takes a benchmark of milliseconds by case, with a line for each of the three ways. The bytes are counted: a step of a
way reads and writes so many elements for each element of the result; tables that all heads share are left out.
"""

from dataclasses import dataclass

from figures.registry import figure
from figures.templates import render
from recorder.project import RecorderError, nearest
from recorder.recording import Recording

SIZE = 2  # bytes of a bfloat16
WAYS = {"torch": "PyTorch", "compiled": "torch.compile", "ours": "Our kernel"}
Parts = tuple[tuple[str, str, float], ...]  # loaded or stored, what, and elements for each of the result
STEPS: dict[str, dict[str, tuple[str, Parts]]] = {
    "SwiGLU": {
        "torch": (
            "two kernels",
            (("loaded", "x", 1), ("stored", "silu(x)", 1), ("loaded", "silu(x), y", 2), ("stored", "result", 1)),
        ),
        "compiled": ("one kernel", (("loaded", "x, y", 2), ("stored", "result", 1))),
        "ours": ("one kernel", (("loaded", "x, y", 2), ("stored", "result", 1))),
    },
    "RoPE": {
        "torch": (
            "ten kernels",
            (
                *(("loaded", "x", 1), ("stored", "· cos", 1)),
                *(("loaded", "", 0.5), ("stored", "", 0.5)),  # half of the columns, negated
                *(("loaded", "", 1), ("stored", "swap", 1)),
                *(("loaded", "", 1), ("stored", "· sin", 1)),
                *(("loaded", "both", 2), ("stored", "sum", 1)),
            ),
        ),
        "compiled": ("two kernels", (("loaded", "x", 1), ("loaded", "again", 1), ("stored", "result", 1))),
        "ours": ("one kernel", (("loaded", "x", 1), ("stored", "result", 1))),
    },
}


@dataclass(frozen=True)
class Way:
    """One way to a result; its time in µs."""

    name: str
    words: str
    parts: list[tuple[str, str, float, str]]  # as `ways.html` takes them
    us: float

    @property
    def mb(self) -> float:
        return sum(mb for _, _, mb, _ in self.parts)


@dataclass(frozen=True)
class Layer:
    name: str
    ways: list[Way]

    @property
    def longest(self) -> float:
        return max(way.us for way in self.ways)

    @property
    def most(self) -> float:
        return max(way.mb for way in self.ways)

    @property
    def about(self) -> str:
        said = (f"{way.name} moves {way.mb:,.0f} MB in {way.us:,.0f} µs in {way.words}" for way in self.ways)
        return f"{self.name}: {'; '.join(said)}."


@figure(of="rows")
def passes(recording: Recording, *, name="forward", swiglu=..., rope=..., rows=..., columns=..., id="passes"):
    """``swiglu`` and ``rope``: the cases, each with ``rows`` times ``columns`` elements in its result."""
    measured = recording.benchmark(name, *WAYS).medians()
    mb = SIZE * rows * columns / 1e6
    layers = []
    for layer, case in (("SwiGLU", swiglu), ("RoPE", rope)):
        if case not in measured:
            raise RecorderError(f"{name!r} has no case {case!r}{nearest(case, measured)}")
        steps = STEPS[layer]
        layers.append(
            Layer(
                layer,
                [
                    Way(WAYS[way], words, [(*each[:2], mb * each[2], "") for each in parts], 1e3 * measured[case][way])
                    for way, (words, parts) in steps.items()
                ],
            )
        )
    return render(
        "passes/template.html",
        id=id,
        layers=layers,
        titles=["layer", "way", "kernels", "MB", "µs"],
        rows=[[x.name, w.name, w.words, f"{w.mb:,.0f}", f"{w.us:,.1f}"] for x in layers for w in x.ways],
    )
