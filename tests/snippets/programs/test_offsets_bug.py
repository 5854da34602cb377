# SPDX-License-Identifier: Apache-2.0
"""The wrong kernels: each passes the test that its author may have had, and fails as the page says."""

import math

import pytest
import torch

from snippets.programs import offsets_bug as bug


def numbers(*shape, device):
    return torch.arange(24, dtype=torch.int32, device=device)[: math.prod(shape)].view(shape)


def test_swapped_strides_pass_for_symmetric_matrices_only(device):
    symmetric = torch.tensor([[0, 1, 2], [1, 3, 4], [2, 4, 5]], dtype=torch.int32, device=device)
    assert torch.equal(bug.copy(bug.swapped_bug, symmetric), symmetric)
    square = numbers(3, 3, device=device)
    assert torch.equal(bug.copy(bug.swapped_bug, square), square.t())
    wrong = bug.copy(bug.swapped_bug, numbers(3, 5, device=device))
    assert wrong[0, 3:].tolist() == [15, 20] and wrong.max() == 22, "what lies behind the matrix"


def test_a_forgotten_stride_passes_for_contiguous_matrices_only(device):
    x = numbers(3, 5, device=device)
    assert torch.equal(bug.copy(bug.forgotten_bug, x), x)
    sliced = numbers(3, 8, device=device)[:, :5]
    assert torch.equal(bug.copy(bug.forgotten_bug, sliced), x), "its rows begin where those of a narrow one would"
    assert not torch.equal(sliced, x)


def test_a_wrong_axis_passes_for_as_many_tiles_across_as_down(device):
    x = numbers(3, 5, device=device)
    assert torch.equal(bug.copy(bug.axis_bug, x), x)
    wide = numbers(2, 8, device=device)
    wrong = bug.copy(bug.axis_bug, wide)
    assert torch.equal(wrong[:, :4], wide[:, :4]) and (wrong[:, 4:] == -1).all()


RIGHT = [[10 * i + j for j in range(1, 6)] for i in range(3)]


@pytest.mark.parametrize(
    "stride, expected",
    [
        (2**30 - 1, RIGHT),
        (2**30, [*RIGHT[:2], [-7] * 5]),
        (2**31, RIGHT),  # such a stride has 64 bits, and so has the product
    ],
)
def test_offsets_in_32_bits_wrap_around_at_2_to_the_31(device, stride, expected):
    """The whole buffer is only promised by the system, not touched: on a CPU this takes next to no memory."""
    if device == "cuda" and torch.cuda.mem_get_info()[0] < 8e9:
        pytest.skip("needs 8 GB of free GPU memory")
    assert bug.copy(bug.overflow_bug, bug.far_rows(stride, device)).tolist() == expected
