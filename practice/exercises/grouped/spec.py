# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise grouped."""

import torch
from coach.spec import Spec

TILE = 16


def numbers(tile_of):
    """A function like the reader's: the number of each tile's program, where ``tile_of`` says which tile it takes."""

    def order(c, group):
        tiles_m, tiles_n = -(-c.shape[0] // TILE), -(-c.shape[1] // TILE)
        out = torch.zeros(tiles_m, tiles_n, dtype=torch.int32, device=c.device)
        for pid in range(tiles_m * tiles_n):
            row, column = tile_of(pid, tiles_m, tiles_n, group)
            if row < tiles_m and column < tiles_n:
                out[row, column] = pid
        return out

    return order


def grouped(pid, tiles_m, tiles_n, group):
    first = pid // (group * tiles_n) * group
    rows = min(tiles_m - first, group)
    within = pid % (group * tiles_n)
    return first + within % rows, within // rows


def all_groups_alike(pid, tiles_m, tiles_n, group):
    within = pid % (group * tiles_n)
    return pid // (group * tiles_n) * group + within % group, within // group


def groups_of_columns(pid, tiles_m, tiles_n, group):
    column, row = grouped(pid, tiles_n, tiles_m, group)
    return row, column


def group_as_row(pid, tiles_m, tiles_n, group):
    rows = min(tiles_m - pid // (group * tiles_n), group)
    within = pid % (group * tiles_n)
    return pid // (group * tiles_n) + within % rows, within // rows


def exchanged(pid, tiles_m, tiles_n, group):
    first = pid // (group * tiles_n) * group
    rows = min(tiles_m - first, group)
    within = pid % (group * tiles_n)
    return first + within // rows, within % rows


def full_columns(pid, tiles_m, tiles_n, group):
    return grouped(pid, tiles_m, tiles_n, group)[0], pid % (group * tiles_n) // group


SPEC = Spec(
    title="The grouped order",
    kind="gap",
    lesson="matmul/grouped.md",
    goal="Turn a program's number into the row and the column of its tile, going through the rows in groups, so "
    "that every tile is taken exactly once.",
    hints=(
        "How many programs does a group have? So which group is program 14 in, and what is that group's first row?",
        "5 × 4 tiles, step by step: matmul/grouped.md#the-code",
        "rows = tl.minimum(tiles_m - first_m, GROUP_M)",
    ),
    function="order",
    signature=("c", "group"),
    inputs=lambda size, rng: {"c": torch.zeros(size["m"], size["n"]), "group": size["group"]},
    reference=numbers(grouped),
    sizes=(
        {"m": 80, "n": 64, "group": 3},
        {"m": 144, "n": 144, "group": 3},
        {"m": 40, "n": 50, "group": 8},
        {"m": 60, "n": 33, "group": 1},
        {"m": 100, "n": 30, "group": 4},
    ),
    awkward=("m", "n"),
    blocks={"m": TILE, "n": TILE},
    layouts=(),
    mistaken={
        "That is row-major order. Within a group, go down GROUP_M rows before you move to the next column.": numbers(
            lambda pid, tiles_m, tiles_n, group: (pid // tiles_n, pid % tiles_n)
        ),
        "That is column-major order, as if there were one group. When does a group end?": numbers(
            lambda pid, tiles_m, tiles_n, group: (pid % tiles_m, pid // tiles_m)
        ),
        "Programs of the last group take rows that do not exist, and some tiles are left out. How many rows "
        "does it have?": (numbers(all_groups_alike)),
        "Those are groups of columns, but a group has GROUP_M rows.": numbers(groups_of_columns),
        "Within a group, one of `//` and `%` gives the row, the other the column. Which one changes with "
        "every program?": (numbers(exchanged)),
        "In the last group, move to the next column after as many programs as that group has rows.": numbers(
            full_columns
        ),
        "Group 1 begins at row 1, group 2 at row 2. How many rows apart should groups begin?": numbers(group_as_row),
    },
    twice=True,  # a tile that two programs take is told as a wrong number: that says more
    most_launches=1,
)
