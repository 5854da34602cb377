# SPDX-License-Identifier: Apache-2.0
"""Strided, gathered and transposed copies: equal to torch's to the bit, and nothing else is touched."""

import contextlib
from unittest import mock

import pytest
import torch
from guards import (
    Guarded,
    check_each_once,
    check_inside,
    check_same_bits,
    handed_out,
    recorded_accesses,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st

from snippets.gpu import coalescing
from snippets.tools.testing import addresses_of

GUARDS = {"before": 64, "after": 4096}


def random_bits(shape, dtype, device):
    size = torch.Size(shape).numel() * dtype.itemsize
    return torch.randint(0, 256, (size,), dtype=torch.uint8).view(dtype).view(shape).to(device)


def run(function, x, *arguments, shape, **options):
    """Call ``function`` on a guarded copy of ``x``; its result, of this shape, is guarded too."""
    x = Guarded.around(x, fill=0xFF, **GUARDS)
    out = Guarded(shape, x.tensor.dtype, x.tensor.device, fill=0x5A, **GUARDS)
    with (
        handed_out("empty", out.tensor),
        recorded_accesses() if x.tensor.device.type == "cpu" else contextlib.nullcontext() as accesses,
    ):
        assert function(x.tensor, *arguments, **options) is out.tensor
    x.check("x"), out.check("the result")
    if accesses is not None:
        check_each_once(accesses, "store", out=out.tensor)
    return x.tensor, out.tensor, accesses


@given(st.integers(1, 70), st.integers(1, 40), st.sampled_from([1, 4, 16]), st.sampled_from(coalescing.DTYPES))
@example(0, 3, 4, torch.float32)
@example(64, 1, 16, torch.int8)
@settings(max_examples=30)
def test_takes_every_cpu(n, step, block_size, dtype):
    check_takes_every(n, step, block_size, dtype, "cpu")


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", coalescing.DTYPES, ids=str)
@pytest.mark.parametrize("n, step", [(1, 1), (1000, 1), (1025, 1), (5000, 2), (40_000, 33), (7, 9)])
def test_takes_every_gpu(n, step, dtype):
    check_takes_every(n, step, 256, dtype, "cuda")


def check_takes_every(n, step, block_size, dtype, device):
    x = random_bits((n,), dtype, device)
    x, out, accesses = run(coalescing.take_every, x, step, shape=(-(-n // step),), block_size=block_size)
    check_same_bits(out, x[::step].contiguous())
    if accesses is not None:
        check_each_once(accesses, "load", x=x[::step])


@given(st.integers(1, 50), st.integers(0, 50), st.sampled_from([torch.int32, torch.int64]), st.data())
@settings(max_examples=25)
def test_gathers_cpu(elements, n, kind, data):
    index = data.draw(st.lists(st.integers(-3, elements + 2), min_size=n, max_size=n))
    check_gathers(elements, torch.tensor(index, dtype=kind), "cpu", block_size=4)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", [torch.int32, torch.int64])
def test_gathers_gpu(kind):
    check_gathers(3000, torch.randint(-100, 3100, (5001,)).to(kind), "cuda", block_size=1024)


def check_gathers(elements, index, device, block_size):
    for dtype in (torch.float32, torch.int8):
        x = random_bits((elements,), dtype, device)
        inside = (index >= 0) & (index < elements)
        expected = torch.where(inside.to(device), x[(index * inside).long().to(device)], torch.zeros((), dtype=dtype))
        guarded = Guarded.around(index.to(device), fill=0x7F, **GUARDS)
        x, out, accesses = run(coalescing.gather, x, guarded.tensor, shape=index.shape, block_size=block_size)
        guarded.check("index")
        check_same_bits(out, expected)
        if accesses is not None:
            loads = check_inside(accesses, "load", x=x, index=guarded.tensor)
            wanted = [x.data_ptr() + i * x.itemsize for i in index[inside].tolist()]
            assert sorted(loads) == sorted([*addresses_of(guarded.tensor), *wanted])


@given(
    st.integers(1, 20), st.integers(1, 20), st.sampled_from([1, 2, 8]), st.sampled_from([1, 4, 16]),
    st.sampled_from(coalescing.DTYPES),
)  # fmt: skip
@example(8, 16, 8, 4, torch.float32)
@settings(max_examples=25)
def test_transposes_cpu(a, b, rows, columns, dtype):
    check_transposes(a, b, rows, columns, dtype, "cpu")


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", coalescing.DTYPES, ids=str)
@pytest.mark.parametrize("rows, columns", [(1, 1024), (64, 64), (32, 8), (1024, 1)])
def test_transposes_gpu(rows, columns, dtype):
    check_transposes(130, 257, rows, columns, dtype, "cuda")


def check_transposes(a, b, rows, columns, dtype, device):
    x = random_bits((a, b), dtype, device)
    x, out, accesses = run(coalescing.transpose, x, shape=(b, a), rows=rows, columns=columns)
    check_same_bits(out, x.T.contiguous())
    if accesses is not None:
        check_each_once(accesses, "load", x=x)


def test_empty(device):
    for shape in ((0, 5), (5, 0)):
        assert coalescing.transpose(torch.ones(shape, device=device)).shape == shape[::-1]
    none = torch.empty(0, dtype=torch.int32, device=device)
    assert coalescing.gather(torch.ones(3, device=device), none).shape == (0,)
    assert coalescing.gather(torch.ones(0, device=device), none + 1).shape == (0,)


def test_offsets_are_computed_in_64_bits():
    x, out = torch.zeros(2, 1)
    with recorded_accesses(first_program=(2**29, 0, 0), memory=False) as seen:
        coalescing.take_every_kernel[(1,)](x, out, 2**31 + 4, 3, BLOCK_SIZE=4)
    offsets = [((a - t.data_ptr()) // 4).tolist() for (_, a), t in zip(seen, (x, out), strict=True)]
    assert offsets == [[3 * (2**31 + i) for i in range(4)], [2**31 + i for i in range(4)]]

    index = torch.zeros(1, dtype=torch.int32)
    with recorded_accesses(first_program=(2**29, 0, 0), memory=False) as seen:
        coalescing.gather_kernel[(1,)](x, index, out, 1, 2**31 + 4, BLOCK_SIZE=4)
    assert ((seen[-1][1] - out.data_ptr()) // 4).tolist() == [2**31 + i for i in range(4)]

    rows, columns = 2**20, 2**12
    with recorded_accesses(first_program=(2**30 - 1, 0, 0), memory=False) as seen:
        coalescing.transpose_kernel[(1,)](x, out, rows, columns, ROWS=2, COLUMNS=2)
    last = rows * columns - 1
    assert ((seen[0][1] - x.data_ptr()) // 4).tolist() == [last - columns - 1, last - columns, last - 1, last]
    assert ((seen[1][1] - out.data_ptr()) // 4).tolist() == [last - rows - 1, last - 1, last - rows, last]


@pytest.mark.parametrize(
    "step, block_size, warps", [(3, 1024, 4), (4, 1024, 32), (4, 64, 2), (9, 16, 1), (4, 2**16, 32)]
)
def test_each_thread_has_one_element_of_a_wide_step(step, block_size, warps):
    with mock.patch.object(coalescing, "take_every_kernel") as kernel:
        coalescing.take_every(torch.ones(9), step, block_size=block_size)
    assert kernel[(1,)].call_args.kwargs["num_warps"] == warps


def test_serves_what_is_at_the_limits(device):
    x = torch.arange(8.0, device=device, requires_grad=True)
    with torch.no_grad():
        assert coalescing.take_every(x, 7, block_size=2**16).tolist() == [0, 7]


def test_refuses_too_many_programs():
    assert coalescing.grid_of(2**31 - 1) == (2**31 - 1,)
    with pytest.raises(ValueError, match="use larger blocks"):
        coalescing.grid_of(2**31)


@pytest.mark.parametrize("step, count", [(1, 4), (2, 8), (4, 16), (8, 32), (32, 32)])
def test_sectors_of_a_warp(step, count):
    assert coalescing.sectors(range(0, 32 * step, step), itemsize=4) == count
