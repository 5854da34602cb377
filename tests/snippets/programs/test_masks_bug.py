# SPDX-License-Identifier: Apache-2.0
"""The four wrong kernels are wrong in just the way that the file's docstring says, and in no other."""

import contextlib

import pytest
from guards import recorded_accesses

from snippets.programs import masks_bug as bug


def touched(kernel, x, **constants):
    """Run ``kernel`` on ``x``; return its results and the elements that it loaded, by program."""
    interpreted = x.device.type == "cpu"
    with recorded_accesses() if interpreted else contextlib.nullcontext([]) as accesses:
        results = bug.run(kernel, x, **constants)
    loads = [((a - x.data_ptr()) // x.itemsize).tolist() for op, a in accesses if op == "load"]
    return results, loads if interpreted else None


def test_without_a_mask_each_row_adds_what_lies_behind_it(device):
    x = bug.table(device)
    results, loads = touched(bug.row_sum_no_mask_bug, x, columns=5, BLOCK=8)
    assert results == [15.0 + 10 + 20 + 30, 150.0 + 3 * 7000]
    assert loads in (None, [[*range(8)], [*range(5, 13)]])


def test_without_a_mask_zeros_behind_a_single_row_hide_it(device):
    assert bug.run(bug.row_sum_no_mask_bug, bug.table(device, rows=1, behind=0.0), columns=5, BLOCK=8) == [15.0]
    assert bug.run(bug.row_sum_no_mask_bug, bug.table(device, rows=1), columns=5, BLOCK=8) == [15.0 + 3 * 7000]


def test_other_0_makes_the_maximum_of_negative_numbers_0(device):
    results, loads = touched(bug.row_max_zero_bug, bug.table(device, sign=-1.0), columns=5, BLOCK=8)
    assert results == [0.0, 0.0] and loads in (None, [[*range(5)], [*range(5, 10)]])
    assert touched(bug.row_max_zero_bug, bug.table(device), columns=5, BLOCK=8)[0] == [5.0, 50.0]  # right, by chance


def test_tl_max_drops_nan(device):
    """Which is why ``row_max`` reduces with a function of its own."""
    x = bug.table(device)
    x[0, 2] = float("nan")
    assert bug.run(bug.row_max_zero_bug, x, columns=5, BLOCK=8) == [5.0, 50.0]


def test_without_other_the_product_is_0(device):
    results, loads = touched(bug.row_prod_no_other_bug, bug.table(device), columns=5, BLOCK=8)
    assert results == [0.0, 0.0] and loads in (None, [[*range(5)], [*range(5, 10)]])
    x = bug.table(device).flatten()[:8].view(2, 4)
    assert bug.run(bug.row_prod_no_other_bug, x, columns=4, BLOCK=4)[0] == 24.0  # nothing is off, so it is right


def test_a_block_of_five_does_not_compile_but_one_of_four_does(device):
    with pytest.raises(Exception) as error:
        bug.run(bug.row_sum_columns_bug, bug.table(device), COLUMNS=5)
    assert str(bug.innermost(error.value)) == "arange's range must be a power of 2"
    x = bug.table(device).flatten()[:8].view(2, 4)
    assert bug.run(bug.row_sum_columns_bug, x, COLUMNS=4) == x.sum(dim=1).tolist()


def test_every_wrong_kernel_is_tested_here():
    kernels = {name for name, value in vars(bug).items() if hasattr(value, "fn") and name.endswith("_bug")}
    assert kernels == {"row_sum_no_mask_bug", "row_max_zero_bug", "row_prod_no_other_bug", "row_sum_columns_bug"}
