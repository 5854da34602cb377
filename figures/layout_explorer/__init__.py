# SPDX-License-Identifier: Apache-2.0
"""`<layout-explorer>`: which thread holds which element of a block, in which register, by block and num_warps.

It begins as a recorded layout. For the others it repeats the compiler's rule for neighboring float32: four of them, 16
bytes, side by side in a thread, or as many as there are for each thread, and at least one. The rule and the sliders go
no further than Triton confirms for ``add_kernel`` on sm_90: 256 to 4,096 elements on 1 to 16 warps.
``tests/figures/test_layout_explorer.py`` compiles all of these, and reads the recorded ones. A register is counted as
the compiler's layouts do, from 0 for each thread and each block; in the assembly it has another number.
"""

from markupsafe import Markup

from figures.layout.blocked import Layout, parse
from figures.registry import figure
from figures.templates import render
from figures.words import numbered
from recorder.project import RecorderError
from recorder.recording import Recording

BLOCKS, WARPS = (256, 4096), (1, 16)  # what the sliders reach
SHADES = 22, 32, 42, 52  # of warps 0, 1, 2, 3, and again, in percent
WARP, NEIGHBORS = 32, 4  # threads; float32 in the 16 bytes that a thread loads at once
FOOT = "At first as compiled without a GPU by Triton {compiler}, {date}; your changes are computed in your browser"


@figure(of="stages", foot=FOOT)
def threads(recording: Recording, *, launch=None, target="sm_90", thread=1, id="layout") -> Markup:
    """Draw the explorer with the layout of a launch's first access; ``thread``: the one that is chosen at first."""
    drawn = parse("\n".join(line.text for line in recording.stage(launch, target, "ttgir")))
    if drawn != expected(drawn.shape[0], drawn.number_of_threads // WARP):
        raise RecorderError(f"the launch has the layout {drawn}, which this explorer does not compute")
    if not 0 <= thread < drawn.number_of_threads:
        raise RecorderError(f"there is no thread {thread!r} in this program")
    block, last = drawn.shape[0], drawn.number_of_threads - 1
    powers = [("BLOCK_SIZE", "block", block, BLOCKS), ("num_warps", "warps", drawn.warps[0], WARPS)]
    places = [("thread", "thread", thread, last), ("element", "element", drawn.held(thread)[0][0], block - 1)]
    fields = [
        # A slider of a block moves from one power of two to the next; what was recorded is in its reach.
        *(_field(*field, min(least, field[2]), most, power=True) for *field, (least, most) in powers),
        *(_field(*field, 0, most) for *field, most in places),
    ]
    rows = _rows(drawn)
    here = next(box for row in rows for box in row["boxes"] if thread in box)
    shown = {"rows": rows, "here": here, "each": drawn.per_thread[0], "thread": thread}
    return render("layout_explorer/template.html", id=id, layout=drawn, fields=fields, **shown)


def _rows(drawn: Layout) -> list[dict]:
    """Return the rows of boxes, each of which is the threads that hold its elements."""
    (block,), (each,), holders = drawn.shape, drawn.per_thread, drawn.holders()
    rows = []
    for first in range(0, block, each * WARP):
        boxes = [holders[(at,)] for at in range(first, min(first + each * WARP, block), each)]
        warps = [thread // WARP for thread in boxes[0]]
        rows.append(
            {
                "boxes": boxes,
                "warps": numbered("warp", warps),
                "threads": ", ".join(map(str, boxes[0])),
                "elements": f"{first}–{first + each * WARP - 1}",
                "shade": SHADES[warps[0] % len(SHADES)],
            }
        )
    return rows


def expected(block: int, warps: int) -> Layout:
    """Return the layout of a block of neighboring float32, as the compiler chooses it."""
    each = min(NEIGHBORS, max(1, block // (WARP * warps)))
    return Layout((block,), (each,), (WARP,), (warps,), (0,))


def _field(label: str, name: str, value: int, least: int, most: int, *, power: bool = False) -> dict:
    ends = {"min": least.bit_length() - 1, "max": most.bit_length() - 1} if power else {"min": least, "max": most}
    return {"label": label, "name": name, "value": value, "min": least, "max": most, "slider": ends}
