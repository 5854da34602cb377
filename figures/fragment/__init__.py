# SPDX-License-Identifier: Apache-2.0
"""Draw which thread of a warp has which element of wgmma's result, and in which of its registers (``fragment``).

A warp has 16 rows of the accumulator; their first eight columns are drawn, for the pattern begins again every eight.
``tests/figures/test_fragment.py`` compares all elements with those of Triton's ``NVMMADistributedLayout``.
Source: the register fragment of ``wgmma`` in NVIDIA's PTX ISA.
"""

from markupsafe import Markup

from figures.registry import figure
from figures.templates import render
from recorder.project import RecorderError
from recorder.recording import Recording

WARP, ROWS, HALF, COLUMNS = 32, 16, 8, 8  # threads; rows of a warp, and of half of them; columns of the pattern
PAIR = 2  # neighbors of a row that a thread has
FOOT = "Drawn by the rule in the text, which a test compares with Triton’s layout"


def holder(row: int, column: int) -> tuple[int, int]:
    """Return the thread that has an element of a tile, and the register that it has it in.

    >>> holder(9, 5)
    (6, 3)
    """
    warp, inside = divmod(row, ROWS)
    low, line = divmod(inside, HALF)
    again, across = divmod(column, COLUMNS)
    pair, side = divmod(across, PAIR)
    thread = warp * WARP + line * (COLUMNS // PAIR) + pair
    return thread, again * 2 * PAIR + low * PAIR + side


def sentence(row: int, column: int) -> str:
    """Say where the elements are that share a thread with this one.

    >>> sentence(9, 5)
    'Thread 6 has columns 4 and 5 of row 1, in registers 0 and 1, and of row 9, in registers 2 and 3.'
    """
    thread, _ = holder(row, column)
    first, left = row % HALF, column - column % PAIR
    return (
        f"Thread {thread} has columns {left} and {left + 1} of row {first}, in registers 0 and 1, and of row "
        f"{first + HALF}, in registers 2 and 3."
    )


@figure(of="output", foot=FOOT)
def fragment(recording: Recording, *, row=9, column=5) -> Markup:
    """``row``, ``column``: the element that is framed; what else its thread has is darker."""
    if not (0 <= row < ROWS and 0 <= column < COLUMNS):
        raise RecorderError(f"row must be below {ROWS} and column below {COLUMNS}; got {row!r} and {column!r}")
    chosen, in_register = holder(row, column)
    cells = [
        [
            {"thread": thread, "register": register, "own": thread == chosen, "framed": (m, n) == (row, column)}
            for n in range(COLUMNS)
            for thread, register in [holder(m, n)]
        ]
        for m in range(ROWS)
    ]
    return render(
        "fragment/template.html", cells=cells, half=HALF, columns=COLUMNS, thread=chosen, register=in_register,
        row=row, column=column, said=sentence(row, column),
    )  # fmt: skip
