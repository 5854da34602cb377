# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise same_sum."""

import torch
from coach.spec import Spec


def only(x, rows):
    """The sum of some rows, of which one may count several times."""
    return sum((x[row].double().sum() for row in rows), torch.zeros((), dtype=torch.float64)).float().reshape(1)


SPEC = Spec(
    title="The same sum each time",
    kind="gap",
    lesson="gpu/schedule.md",
    also=("pytorch/determinism.md",),
    goal="Programs run in no promised order, and a sum of floats depends on the order of its terms. So let a few "
    "programs take the rows in turn and store one sum each, and let a second launch add those up.",
    hints=(
        "With 3 programs, program 1 takes rows 1, 4 and 7. Where does its loop begin, how large is a step, and where "
        "does it end?",
        "Why the programs don't all add to one number: gpu/schedule.md#no-promised-order. How a program finds out "
        "how many there are, with tl.num_programs: programs/vector-add-step-by-step.ipynb#does-the-order-matter",
        "for row in range(pid, rows, programs):",
    ),
    function="total",
    signature=("x", "programs"),
    # Whole numbers, so that the sum is the same in every order; mostly positive, so that each row counts.
    inputs=lambda size, rng: {
        "x": torch.randint(-2, 20, (size["rows"], size["columns"]), generator=rng).float(),
        "programs": size["programs"],
    },
    reference=lambda x, programs: x.sum().reshape(1),
    another=lambda x, programs: {"x": -x - 4096.5},  # negative, no whole numbers, more digits than float16 has
    sizes=(
        {"rows": 8, "columns": 5, "programs": 3},
        {"rows": 5, "columns": 4, "programs": 4},
        {"rows": 2, "columns": 3, "programs": 5},
        {"rows": 6, "columns": 9, "programs": 1},
        {"rows": 100, "columns": 2, "programs": 70},
    ),
    last=({"rows": 1030, "columns": 1, "programs": 1030},),
    awkward=("rows", "columns"),
    blocks={"rows": 4, "columns": 16},
    smallest=1,
    strides="refused",
    mistaken={
        "The last row is missing. Python's `range` ends before its second number: is that `rows`?": (
            lambda x, programs: only(x, range(len(x) - 1))
        ),
        "Each program takes one row. Where is the loop over the others?": lambda x, programs: only(
            x, range(min(programs, len(x)))
        ),
        "Every program begins at row 0, so all of them add up the same rows.": lambda x, programs: only(
            x, [*range(0, len(x), programs)] * programs
        ),
        "Programs take each other's rows: each begins at its own, and then takes all that follow. How large "
        "is a step?": (lambda x, programs: only(x, [row for pid in range(programs) for row in range(pid, len(x))])),
        "Each program adds up all rows. Which are its own?": lambda x, programs: only(x, [*range(len(x))] * programs),
        "The rows left over after dealing them out evenly are missing. Who takes them?": (
            lambda x, programs: only(x, range(len(x) // programs * programs))
        ),
        "Each program's sum is that of its last row. Is every row added to the ones before?": lambda x, programs: only(
            x, [row for row in range(len(x)) if row + programs >= len(x)]
        ),
        "Every row that is added is row 0. Do the offsets of the load use the row?": lambda x, programs: only(
            x, [0] * len(x)
        ),
        "Each program adds its first row again and again. Does `row` move the offsets of the load?": (
            lambda x, programs: only(x, [row % programs for row in range(len(x))])
        ),
        **{
            f"That is the sum of the first {block} programs. Does the block of the second launch hold all of them?": (
                lambda x, programs, block=block: only(x, [row for row in range(len(x)) if row % programs < block])
            )
            for block in (64, 1024)
        },
        "That is the sum of program 0. Does the second launch add up those of all programs?": lambda x, programs: only(
            x, range(0, len(x), programs)
        ),
    },
    ordered="Let one program load all sums and store the total.",
    most_reads={"x": 1},
    most_launches=2,
)
