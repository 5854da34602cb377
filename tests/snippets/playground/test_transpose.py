# SPDX-License-Identifier: Apache-2.0
"""Tiles that reach beyond an edge move what is inside."""

import pytest
import torch
import triton
from guards import Guarded, check_each_once, recorded_accesses

from snippets.playground import transpose


@pytest.mark.parametrize(("rows", "columns", "tile"), [(5, 6, 4), (8, 8, 8), (1, 9, 2)])
def test_rows_become_columns(rows, columns, tile):
    numbers = torch.arange(rows * columns).reshape(rows, columns)
    x = Guarded.around(numbers, before=64, after=64, fill=0xFF)
    out = Guarded.around(torch.full((columns, rows), -1), before=64, after=64, fill=0xFF)
    grid = triton.cdiv(rows, tile), triton.cdiv(columns, tile)
    with recorded_accesses() as accesses:
        transpose.transpose_kernel[grid](x.tensor, out.tensor, rows, columns, TILE=tile)
    assert torch.equal(out.tensor, numbers.t())
    check_each_once(accesses, "load", x=x.tensor)
    check_each_once(accesses, "store", out=out.tensor)
