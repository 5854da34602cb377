# SPDX-License-Identifier: Apache-2.0
"""`<climb-figure>`: one kernel on its way to cuBLAS's speed: a list of its steps, whose bars say how fast each is.

Beside it stands what one step changed, its tile and its lines; under More, its place under the roofline.

It takes the recording of ``matmul/cublas``, whose table ``ladder`` has the steps at 8,192, and reads two more of the
same device: ``tiles`` of ``matmul/untiled_measured``, at 2,048, and ``ceilings`` of ``gpu/roofline``. ``steps.toml``
names the steps; the lines of code that it shows must stand in the snippets' files, in that order, or it is an error.

There, to the right: operations for each byte that reaches a multiprocessor, which is what a larger tile changes;
counted by ncu for the steps at 2,048, by arithmetic from the tile (and there the two agree) at 8,192. Upward:
operations a second.
"""

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from math import log10
from pathlib import Path

from markupsafe import Markup

from figures.registry import figure
from figures.templates import render
from recorder import recording as recordings
from recorder.project import RecorderError, Snippet, find
from recorder.recording import Recording

STEPS = Path(__file__).parent / "steps.toml"
LEFT, RIGHT, LOW, HIGH = -1.6, 2.6, -1.0, 3.4  # the axes, as powers of ten
SIZES = {"tiles": 2048, "ladder": 8192}
SCALE = 1.06  # of cuBLAS's speed, the end of the bars' axis
WINDOW = 256  # elements along each side of the part of c that is drawn


@dataclass(frozen=True)
class Step:
    """A step of the climb."""

    name: str  # beside its bar
    title: str  # what it changes
    tile: tuple[int, int]
    order: list[list[int]]
    code: list[tuple[str, bool]]  # lines, and whether each is new in this step
    snippet: str
    size: int
    rate: float  # TFLOP/s
    share: float  # of cuBLAS's speed
    intensity: float  # FLOP for each byte that reaches a multiprocessor

    @property
    def x(self) -> float:
        return (log10(self.intensity) - LEFT) / (RIGHT - LEFT)

    @property
    def y(self) -> float:
        return (HIGH - log10(self.rate)) / (HIGH - LOW)

    @property
    def percent(self) -> str:
        return f"{self.share:.0%}" if self.share >= 0.01 else f"{self.share:.2%}"

    @property
    def operations(self) -> str:
        """Return how many there are for each byte that reaches a multiprocessor."""
        return short(self.intensity)

    @property
    def sentence(self) -> str:
        n, tiles = f"{self.size:,}", "many tiles" if self.snippet == "matmul/persistent" else "one tile"
        what = "one element" if self.tile == (1, 1) else f"{tiles} of {self.tile[0]} × {self.tile[1]}"
        return (
            f"{n} × {n} × {n}, {what} per program: {short(self.rate)} TFLOP/s, {self.percent} of cuBLAS’s speed, at "
            f"{self.operations} operations per byte delivered."
        )


def short(value: float) -> str:
    return f"{value:.2g}" if value < 10 else f"{value:,.0f}"


@figure(of="rows")
def climb(recording: Recording, *, id="climb") -> Markup:
    """The steps from a program for each element to the speed of cuBLAS."""
    steps = read(recording)
    roof = _beside("gpu/roofline", recording).benchmark("ceilings", "rate").medians()
    slope, peak = roof["copy"].rate / 1000, roof["bf16"].rate
    across = lambda intensity: (log10(intensity) - LEFT) / (RIGHT - LEFT)
    up = lambda rate: (HIGH - log10(rate)) / (HIGH - LOW)
    return render(
        "climb/template.html",
        id=id,
        steps=steps,
        last=len(steps) - 1,
        window=WINDOW,
        slope=[(across(10**LEFT), up(slope * 10**LEFT)), (across(peak / slope), up(peak))],
        copy=f"{1000 * slope:,.0f} GB/s",
        peak=up(peak),
        peak_rate=f"{peak:.0f}",
        ticks=[(up(rate), f"{rate:g}") for rate in (1, 10, 100)],
        bytes=[(across(intensity), f"{intensity:g}") for intensity in (0.1, 1, 10, 100)],
        scale=SCALE,
        rows=[
            [i, s.title, f"{s.size:,}", f"{s.tile[0]} × {s.tile[1]}", short(s.intensity), short(s.rate), s.percent]
            for i, s in enumerate(steps, 1)
        ],
    )


def read(recording: Recording) -> list[Step]:
    """Return the steps. Raise ``RecorderError`` if a table lacks one, or a snippet a line that is shown."""
    ladder = recording.benchmark("ladder", "rate", "share").medians()
    tiles = _beside("matmul/untiled_measured", recording).benchmark("tiles", "arrived", "ms", "share").medians()
    found, code, snippet = [], [], ""
    for step in tomllib.loads(STEPS.read_text("utf-8"))["step"]:
        if "lines" in step:
            snippet = step["snippet"]
            code = [(line[2:], line.startswith("+")) for line in step["lines"].splitlines()]
            check(Snippet(snippet), [line for line, _ in code])
        else:
            code = [(line, False) for line, _ in code]
        m, n = step["tile"]
        table, size = (tiles, SIZES["tiles"]) if step["row"] in tiles else (ladder, SIZES["ladder"])
        if step["row"] not in table:
            raise RecorderError(f"the table has no row {step['row']!r}")
        row = table[step["row"]]
        if table is tiles:
            rate, share, intensity = 2 * size**3 / row.ms / 1e9, row.share / 100, 2 * size**3 / row.arrived / 1e9
        else:
            rate, share, intensity = row.rate, row.share, m * n / (m + n)
        found.append(
            Step(
                step["name"], step["title"], (m, n), step.get("order", []), code, snippet, size, rate, share, intensity
            )
        )
    return found


def _beside(name: str, recording: Recording) -> Recording:
    return recordings.load(find(name), recording.device)


def check(snippet: Snippet, lines: list[str]) -> None:
    """Raise ``RecorderError`` unless these lines stand in the snippet's file, in this order; comments are left out.

    In a line, ``…`` stands for what is left out of it."""
    there = iter(_lines(snippet))
    for line in lines:
        whole = re.compile(".+".join(map(re.escape, line.strip().split("…"))))
        if not any(map(whole.fullmatch, there)):  # goes on from the line that was found
            raise RecorderError(f"snippets/{snippet.name}.py has no such line, or not in this order: {line.strip()}")


@cache
def _lines(snippet: Snippet) -> list[str]:
    return [line.partition("  # ")[0].strip() for line in snippet.path.read_text("utf-8").splitlines()]
