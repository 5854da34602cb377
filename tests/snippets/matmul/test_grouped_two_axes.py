# SPDX-License-Identifier: Apache-2.0
"""On two axes each tile is taken once, in the order that the page says; and it prints what pages take from it."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from recorder import printed
from snippets.matmul import grouped_two_axes as axes

SIDES = st.integers(1, 9)


@given(SIDES, SIDES, SIDES)
def test_each_tile_is_taken_once(tiles_m, tiles_n, group):
    taken = axes.numbered(tiles_m, tiles_n, group)
    assert taken.dtype == torch.int32  # which is what a kernel's pids are
    assert sorted(taken.flatten().tolist()) == list(range(tiles_m * tiles_n))


@given(SIDES, SIDES)
def test_without_groups_column_by_column(tiles_m, tiles_n):
    expected = torch.arange(tiles_m * tiles_n, dtype=torch.int32).view(tiles_n, tiles_m).T
    assert torch.equal(axes.numbered(tiles_m, tiles_n, 1), expected)
    assert axes.in_order(expected) == [(m, n) for n in range(tiles_n) for m in range(tiles_m)]


def test_the_first_nine_stand_apart(device):
    assert axes.in_order(axes.numbered(9, 9, 3, device=device))[:9] == [(m, n) for m in (0, 3, 6) for n in (0, 3, 6)]


def test_prints_what_the_page_shows(capsys):
    axes.main()
    said = capsys.readouterr().out
    assert "tiles that differ: 0" in said
    sections = printed.sections(said)
    for label, read in (
        ("9 × 9, two axes, tl.swizzle2d", 54), ("9 × 9, one axis, groups of 3", 54),
        ("9 × 10, two axes, tl.swizzle2d", 108), ("9 × 10, one axis, groups of 3", 54),
    ):  # fmt: skip
        assert f"{label}, the first nine read: {read}" in sections[label].splitlines()
