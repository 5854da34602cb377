# SPDX-License-Identifier: Apache-2.0
"""Masks, ``other`` and pointers are broadcast as in NumPy, lanes that are off touch nothing, and ``other`` is cast."""

import numpy as np
import pytest
import torch
from guards import Guarded

from snippets.programs import masks_shapes


@pytest.mark.parametrize("columns", [1, 3, 4])
def test_a_mask_of_one_row_and_an_other_of_one_column(device, columns):
    x = Guarded.around(torch.arange(1, 2 * columns + 1, device=device), before=64, after=64, fill=0x5A)
    out = Guarded((2, 4), torch.int64, x.tensor.device, before=64, after=64, fill=0x5A)
    masks_shapes.tile_kernel[(1,)](x.tensor, out.tensor, columns)
    row, column = np.ogrid[:2, :4]
    offsets = np.minimum(row * columns + column, 2 * columns - 1)
    expected = np.where(column < columns, x.tensor.cpu().numpy()[offsets], -10 * (row + 1))
    assert out.tensor.tolist() == expected.tolist()
    x.check("x")
    out.check("out")


def test_one_row_of_pointers_is_loaded_by_each_row_that_is_on(device):
    x, out = torch.tensor([5, 6, 7, 8], device=device), torch.empty(2, 4, dtype=torch.int64, device=device)
    masks_shapes.rows_kernel[(1,)](x, out)
    assert out.tolist() == [[5, 6, 7, 8], [-1] * 4]


@pytest.mark.parametrize(
    ("dtype", "other", "held"), [(torch.int32, 2.7, 2), (torch.uint8, -1, 255), (torch.float32, 2.5, 2.5)]
)
def test_other_is_cast_to_the_dtype_of_the_tensor(device, dtype, other, held):
    x = torch.ones(4, dtype=dtype, device=device)
    out = torch.empty_like(x)
    masks_shapes.cast_kernel[(1,)](x, out, OTHER=other)
    assert out.tolist() == [1, 1, 1, held]
