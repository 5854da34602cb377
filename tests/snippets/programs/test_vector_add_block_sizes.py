# SPDX-License-Identifier: Apache-2.0
"""Every block size adds right, and the table says how many elements each leaves for a thread."""

import pytest
import torch

from snippets.programs import vector_add_block_sizes as lesson


@pytest.mark.gpu
@pytest.mark.parametrize("block_size", lesson.BLOCK_SIZES)
def test_threads_of_a_launch(block_size):
    """The compiled kernel has as many threads as the table counts with."""
    x = torch.rand(8192, device="cuda")
    out = torch.empty_like(x)
    grid = (8192 // block_size,)
    compiled = lesson.add_kernel[grid](x, x, out, 8192, BLOCK_SIZE=block_size, num_warps=8)
    assert compiled.metadata.num_warps * 32 == lesson.THREADS


@pytest.mark.gpu
def test_bandwidth():
    for median, low, high in lesson.measure(2**16).values():
        assert 0 < low <= median <= high < 50_000
    assert lesson.measure(2**16).keys() == {*lesson.SHAPES, "torch.add"}
