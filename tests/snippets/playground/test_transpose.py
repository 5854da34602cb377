# SPDX-License-Identifier: Apache-2.0
"""Tiles that reach beyond an edge move what is inside."""

import pytest
import torch
import triton

from snippets.playground import transpose

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize(("rows", "columns", "tile"), [(5, 6, 4), (8, 8, 8), (1, 9, 2)])
def test_rows_become_columns(rows, columns, tile):
    x = torch.arange(rows * columns, device=DEVICE).reshape(rows, columns)
    out = torch.full((columns, rows), -1, device=DEVICE)
    grid = triton.cdiv(rows, tile), triton.cdiv(columns, tile)
    transpose.transpose_kernel[grid](x, out, rows, columns, TILE=tile)
    assert torch.equal(out, x.t())
