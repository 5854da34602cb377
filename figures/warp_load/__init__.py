# SPDX-License-Identifier: Apache-2.0
"""`<warp-load>`: the 32 numbers that a warp loads at once, and the sectors of memory that must come for them.

It takes the useful GB/s by ``step`` of ``gpu/coalescing_measured``, and beside them, from ``counted``, what the GPU's
counters saw at the same steps, on this GPU if it was counted there: sectors for a load of the warp (``one``), and bytes
from memory for each number (``memory``). A row of the picture is 128 bytes, four sectors of eight float32.
``script.js`` moves the numbers.
"""

from dataclasses import dataclass

from markupsafe import Markup

from figures.registry import figure
from figures.svg import element
from figures.templates import render
from recorder import recording
from recorder.project import RecorderError, find
from recorder.recording import Recording

LANES, SECTOR, ROW = 32, 8, 32  # float32: of a warp's load, a sector, and a row of the picture
STORED = 4  # bytes that the copy stores for each number, side by side at every step
CELL, GAP = 10, 4  # pixels of an element, and from a sector to the next
ABOVE = 38  # pixels from the warp to memory


@dataclass(frozen=True)
class Step:
    step: int
    rate: float  # useful GB/s
    sectors: int  # of a load, counted
    memory: float  # bytes that came from memory for each number, counted
    least: float  # the same at the smallest step

    @property
    def about(self) -> str:
        apart = "side by side," if self.step == 1 else f"{self.step} apart,"
        return (
            f"32 numbers, {apart} touch {self.sectors} sectors. "
            f"Memory sends {self.memory:.0f} bytes for each 4-byte number, "
            f"and the copy reaches {self.rate:,.0f} useful GB/s."
        )

    @property
    def more(self) -> str:
        """Say how much is moved for each number, loaded and stored, beside the smallest step."""
        if self.step == 1:
            return ""
        times = (self.memory + STORED) / (self.least + STORED)
        moved = f"{self.memory:.0f} + {STORED}"
        return f" {moved} bytes move where step 1 moves {self.least:.0f} + {STORED}: about {times:.1f} times as much."

    @property
    def note(self) -> str:
        """Say what becomes of what comes."""
        if self.pairs:
            return "Memory sends sectors in pairs, so half of what arrives was never asked for."
        if self.sectors == LANES:
            return "Each number has a sector to itself and uses 4 of its 32 bytes."
        if (used := 4 * LANES // self.sectors) < 4 * SECTOR:
            return f"Only {used} of each sector's 32 bytes are wanted."
        return "Every byte that arrives is wanted."

    @property
    def pairs(self) -> bool:
        """Tell whether sectors came from memory that no lane wanted: their neighbors in a pair."""
        return self.memory > 1.2 * self.sectors * 4 * SECTOR / LANES


@figure(of="rows")
def warp_load(
    seen: Recording, *, name="strides", lines=("four", "one"), counted="gpu/coalescing_counted", first=16, id="warp"
) -> Markup:
    """``lines``: the kernels of ``name``, of which the faster one counts; ``first``: the step with which it begins."""
    rates = seen.benchmark(name, *lines).medians()
    devices = recording.devices(find(counted))
    counter = recording.load(find(counted), seen.device if seen.device in devices else devices[0])
    counts = counter.benchmark("steps", "one", "memory").medians()
    steps = [
        Step(step, max(row[line] for line in lines), round(counts[step].one), counts[step].memory, counts[1].memory)
        for step, row in sorted(rates.items())
        if step in counts and step * LANES <= ROW * LANES
    ]
    if not steps:
        raise RecorderError(f"{counted} has none of the steps of {seen.snippet}")
    for each in steps:
        if (drawn := len(touched(each.step))) != each.sectors:
            raise RecorderError(f"at step {each.step} the picture has {drawn} sectors, the counters saw {each.sectors}")
    chosen = next((each for each in steps if each.step == first), None)
    if not chosen:
        known = ", ".join(str(each.step) for each in steps)
        raise RecorderError(f"first must be one of the steps {known}, not {first!r}")
    fastest = max(each.rate for each in steps)
    return render(
        "warp_load/template.html",
        id=id,
        picture=draw(chosen),
        steps=steps,
        first=chosen,
        stored=STORED,
        counter=counter.provenance.device,
        speeds={
            each.step: {"share": each.rate / fastest, "said": f"{each.rate:,.0f}", "label": each.step} for each in steps
        },
        rows=[
            (each.step, each.sectors, f"{each.memory:.0f}", f"{4 / each.memory:.0%}", f"{each.rate:,.0f}")
            for each in steps
        ],
    )


def touched(step: int) -> set[int]:
    """Return the sectors in which the numbers of a warp lie.

    >>> len(touched(1)), len(touched(4)), len(touched(32))
    (4, 16, 32)
    """
    return {lane * step // SECTOR for lane in range(LANES)}


def place(element: int) -> tuple[int, int]:
    """Return the pixels at which an element is drawn, from memory's corner."""
    row, column = divmod(element, ROW)
    return column * CELL + column // SECTOR * GAP, row * CELL


def lines_to(step: int) -> str:
    """Return the path of the lines that lead from each lane to the column in which its number lies."""
    middle = CELL // 2
    ends = ((place(lane)[0] + middle, place(lane * step)[0] + middle) for lane in range(LANES))
    return "".join(f"M{lane} {CELL}L{number} {ABOVE - 1}" for lane, number in ends)


def draw(step: Step) -> Markup:
    """Draw memory in sectors, those that come and those that do not, and the numbers of the warp in it."""
    came = touched(step.step)
    parts = []
    for sector in range(LANES * ROW // SECTOR):
        x, y = place(sector * SECTOR)
        look = "came" if sector in came else "with" if step.pairs and sector ^ 1 in came else None
        place_and_size = {"x": x, "y": y + ABOVE, "width": SECTOR * CELL - 1, "height": CELL - 1}
        parts.append(element("rect", **place_and_size, rx=1.5, data_look=look))
    for lane in range(LANES):
        parts.append(element("rect", x=place(lane)[0], width=CELL - 1, height=CELL - 1, rx=1.5, class_="warp__lane"))
    parts.append(element("path", d=lines_to(step.step), class_="warp__lines"))
    for lane in range(LANES):
        x, y = place(lane * step.step)
        at = {"style": f"--x: {x}; --y: {y + ABOVE}"}
        parts.append(element("rect", width=CELL - 1, height=CELL - 1, rx=1.5, class_="warp__number", **at))
    width, height = ROW * CELL + 3 * GAP, ABOVE + LANES * CELL
    return element("svg", *parts, viewBox=f"0 0 {width} {height}", role="img", aria_label=step.about)
