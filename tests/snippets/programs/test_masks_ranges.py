# SPDX-License-Identifier: Apache-2.0
"""Ways round powers of two and slices: equal to indexing in torch, and nothing else is touched."""

import contextlib
import math

import pytest
import torch
from guards import Guarded, check_each_once, check_same_bits, handed_out, recorded_accesses

from snippets.programs import masks_ranges


def run(function, x, *arguments, results):
    """Call ``function`` on a guarded copy of ``x``; its results, of the shapes ``results``, are guarded too."""
    x = Guarded.around(x, before=64, after=64, fill=0xFF)
    outs = [Guarded(shape, x.tensor.dtype, x.tensor.device, before=64, after=64, fill=0x5A) for shape in results]
    with (
        handed_out("empty", *(out.tensor for out in outs)),
        recorded_accesses() if x.tensor.device.type == "cpu" else contextlib.nullcontext() as accesses,
    ):
        returned = function(x.tensor, *arguments)
    x.check("x")
    for out in outs:
        out.check("a result")
    if accesses is not None:
        check_each_once(accesses, "load", x=x.tensor)
        check_each_once(accesses, "store", **{f"out{i}": out.tensor for i, out in enumerate(outs)})
    return returned


@pytest.mark.parametrize("columns", [3, 5, 6, 12, 17, 48])
def test_rows_of_two_ranges(device, columns):
    for rows in (1, 3):
        for dtype in masks_ranges.DTYPES:
            x = torch.arange(1, rows * columns + 1, device=device).view(rows, columns).to(dtype)
            check_same_bits(run(masks_ranges.row_sum_two_ranges, x, results=[(rows,)]), x.sum(dim=1, dtype=dtype))
    assert masks_ranges.row_sum_two_ranges(torch.empty(0, 12, device=device)).shape == (0,)


def test_rows_past_2_to_the_31_elements():
    x, out = torch.zeros(2, 1)
    with recorded_accesses(first_program=(2**30, 0, 0), memory=False) as seen:
        masks_ranges.row_sum_two_ranges_kernel[(1,)](x, out, FIRST=2, SECOND=1)
    offsets = [((a - t.data_ptr()) // 4).tolist() for (_, a), t in zip(seen, (x, x, out), strict=True)]
    assert offsets == [[3 * 2**30, 3 * 2**30 + 1], [3 * 2**30 + 2], [2**30]]


@pytest.mark.parametrize("n", [1, 2, 4, 16])
def test_pieces_of_a_block(device, n):
    for dtype in masks_ranges.DTYPES:
        x = torch.arange(1, n + 1, device=device).to(dtype)
        for k in (k for k in (1, 2, 4, 16) if k <= n):
            check_same_bits(run(masks_ranges.front, x, k, results=[(k,)]), x[:k])
        for i in range(n):
            check_same_bits(run(masks_ranges.element, x, i, results=[()]), x[i])
        if n > 1:
            first, second = run(masks_ranges.halves, x, results=[(n // 2,)] * 2)
            check_same_bits(first, x[: n // 2]), check_same_bits(second, x[n // 2 :])


def test_serves_what_is_at_the_limits(device):
    x = torch.arange(2**13, device=device)
    assert masks_ranges.element(x, 2**13 - 1).item() == 2**13 - 1
    assert masks_ranges.row_sum_two_ranges(torch.ones(1, 2**15 + 1, device=device)).item() == 2**15 + 1
    with torch.no_grad():
        assert masks_ranges.element(torch.ones(4, device=device, requires_grad=True), 0).item() == 1


def test_an_element_beside_nan_and_infinity(device):
    x = torch.tensor([math.nan, 2.0, math.inf, -math.inf], device=device)
    assert masks_ranges.element(x, 1).item() == 2.0 and masks_ranges.element(x, 2).item() == math.inf
    assert masks_ranges.element(x, 0).isnan()
