# SPDX-License-Identifier: Apache-2.0
"""Masks: reductions of rows of any length and strides, padding and a store that picks; nothing else is touched."""

import contextlib
import math
from unittest import mock

import numpy as np
import pytest
import torch
from guards import (
    Guarded,
    check_each_once,
    check_inside,
    check_same_bits,
    nan_as_on_a_gpu,
    recorded_accesses,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from snippets.programs import masks
from snippets.tools.testing import addresses_of, sum_tolerance

REDUCTIONS = {masks.row_sum: torch.sum, masks.row_max: torch.amax, masks.row_prod: torch.prod}
KERNELS = {
    masks.row_sum: (masks.row_sum_kernel, {}),
    masks.row_max: (masks.row_max_kernel, {"LOWEST": -math.inf}),
    masks.row_prod: (masks.row_prod_kernel, {}),
}
functions = pytest.mark.parametrize("function", REDUCTIONS, ids=lambda function: function.__name__)


def served(device):
    return [dtype for dtype in masks.DTYPES if device == "cuda" or dtype != torch.bfloat16]


def recording(device):
    """The list of accesses in the interpreter; on a GPU there is none."""
    return recorded_accesses() if device == "cpu" else contextlib.nullcontext()


def placed(x, layout):
    """``x`` inside of a larger buffer of NaN (or -1), with gaps, transposed or every second column."""
    rows, columns = x.shape
    shape, view = {
        "contiguous": ((rows, columns), lambda b: b),
        "gaps": ((rows + 2, columns + 3), lambda b: b[1 : rows + 1, 2 : columns + 2]),
        "transposed": ((columns + 1, rows + 2), lambda b: b[:columns, 1 : rows + 1].t()),
        "every second": ((rows, 2 * columns), lambda b: b[:, ::2]),
    }[layout]
    buffer = Guarded(shape, x.dtype, x.device, before=64, after=64, fill=0xFF)
    placed = view(buffer.tensor)
    placed.copy_(x)
    return buffer, placed


def reduced(function, x, tile, layout="contiguous"):
    """Reduce ``x`` in surroundings that show any stray access, and return the result."""
    buffer, x = placed(x, layout)
    before = buffer.bytes.clone()
    dtype = x.dtype if x.is_floating_point() or function is masks.row_max else torch.int64
    out = Guarded((len(x),), dtype, x.device, before=64, after=64, fill=0x5A)
    empty, given = torch.empty, []

    def first_guarded(*args, **kwargs):  # the first tensor that the function asks for is its result
        if given:
            return empty(*args, **kwargs)
        given.append((args, kwargs))
        return out.tensor

    with mock.patch.object(torch, "empty", first_guarded), recording(x.device.type) as accesses:
        result = function(x, tile=tile)
    assert result is out.tensor and given == [((len(x),), {"dtype": dtype, "device": x.device})]
    out.check("the result")
    assert torch.equal(buffer.bytes, before), "x is only read"
    if accesses is not None:
        check_each_once(accesses, "load", x=x)
        check_each_once(accesses, "store", out=out.tensor)
    return result


def check(function, x, tile, layout="contiguous"):
    actual = reduced(function, x, tile, layout)
    if not x.is_floating_point() or function is masks.row_max:
        expected = REDUCTIONS[function](x, dim=1) if x.numel() else actual.fill_(0)
        assert actual.dtype == expected.dtype and torch.equal(actual.nan_to_num(77), expected.nan_to_num(77))
        return
    computed = torch.float64 if x.dtype == torch.float64 else torch.float32
    for row, value in zip(x, actual.tolist(), strict=True):
        exact = REDUCTIONS[function](row.double()).item()
        result = exact if x.dtype == torch.float64 else torch.tensor(exact).to(x.dtype).item()
        if not math.isfinite(result):
            assert value == result or (math.isnan(value) and math.isnan(result))
            continue
        additions = len(row) + 12
        if function is masks.row_sum:
            bound = sum_tolerance(row, additions, computed)
        else:
            bound = additions * torch.finfo(computed).eps * abs(exact)
        assert abs(value - exact) <= bound + torch.finfo(x.dtype).eps * abs(exact) + torch.finfo(x.dtype).tiny


def numbers(shape, dtype, device, seed):
    """Positive and negative numbers whose products stay finite; integers that use the whole of their type."""
    random = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        x = torch.rand(shape, generator=random, dtype=torch.float64) + 0.5
        return (x * (torch.randint(0, 2, shape, generator=random) * 2 - 1)).to(device, dtype)
    info = torch.iinfo(dtype)
    return torch.randint(info.min, info.max, shape, generator=random, dtype=dtype).to(device)


# Rows


@functions
def test_rows_shorter_and_longer_than_the_tile(device, function):
    for rows, columns in ((1, 1), (2, 5), (3, 4), (5, 9), (4, 13)):
        x = numbers((rows, columns), torch.float32, device, seed=columns)
        check(function, x, (2, 4))
        check(function, -x.abs(), (4, 8), "gaps")  # the maximum is below 0: `other` must not be 0


@functions
@pytest.mark.parametrize("layout", ["gaps", "transposed", "every second"])
def test_strides(device, function, layout):
    check(function, numbers((3, 6), torch.float32, device, seed=1), (2, 4), layout)


@functions
def test_dtypes(device, function):
    for dtype in served(device):
        x = numbers((3, 5), dtype, device, seed=2)
        check(function, x, (2, 4))
        lowest = -math.inf if dtype.is_floating_point else torch.iinfo(dtype).min
        check(function, torch.full_like(x, lowest), (2, 4))  # nothing is larger than `other`, and that must do


@settings(max_examples=40)
@given(
    shape=st.tuples(st.integers(1, 9), st.integers(1, 40)),
    tile=st.sampled_from([(1, 1), (1, 16), (2, 8), (4, 4), (8, 2), (16, 64), None]),
    layout=st.sampled_from(["contiguous", "gaps", "transposed", "every second"]),
    seed=st.integers(0, 999),
    data=st.data(),
)
def test_reduces_as_torch_does(device, shape, tile, layout, seed, data):
    function = data.draw(st.sampled_from(list(REDUCTIONS)))
    dtype = data.draw(st.sampled_from(served(device)))
    if tile == (1, 1):
        shape = min(shape[0], 3), min(shape[1], 9)
    check(function, numbers(shape, dtype, device, seed), tile, layout)


@functions
def test_nan_stays_in_its_row(device, function):
    for column in range(5):
        for dtype in (torch.float16, torch.float32, torch.float64):
            x = numbers((4, 5), dtype, device, seed=3)
            x[1, column] = x[3, column] = math.nan
            with nan_as_on_a_gpu() if device == "cpu" else contextlib.nullcontext():
                actual = reduced(function, x, (2, 4))
            assert actual.isnan().tolist() == [False, True, False, True]


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_infinities(device):
    inf = math.inf
    x = torch.tensor([[inf, 1.0, 2.0], [-inf, 1.0, 2.0], [inf, -inf, 1.0], [-inf, -inf, -inf]], device=device)
    assert reduced(masks.row_sum, x, (2, 2)).tolist()[:2] == [inf, -inf]
    assert reduced(masks.row_sum, x, (2, 2))[2].isnan()
    assert reduced(masks.row_max, x, (2, 2)).tolist() == [inf, 2.0, inf, -inf]
    assert reduced(masks.row_prod, x, (2, 2)).tolist() == [inf, -inf, -inf, -inf]


def test_integers_are_added_and_multiplied_in_64_bits(device):
    x = torch.full((2, 3), 127, dtype=torch.int8, device=device)
    assert masks.row_sum(x).tolist() == [381] * 2
    assert masks.row_prod(x).tolist() == [127**3] * 2
    top = torch.tensor([[2**62, 2**62]], device=device)
    assert masks.row_sum(top).tolist() == [-(2**63)]


def test_half_precision_is_added_in_single(device):
    x = torch.ones(1, 4096, dtype=torch.float16, device=device)  # in float16, 2048 + 1 is 2048
    assert masks.row_sum(x, tile=(1, 1)).item() == 4096 if device == "cuda" else True
    assert masks.row_sum(x, tile=(1, 16)).item() == 4096


@functions
def test_nothing_to_reduce(device, function):
    assert function(torch.empty(0, 5, device=device)).shape == (0,)
    if function is masks.row_max:
        for rows in (0, 3):
            with pytest.raises(ValueError, match="no columns has no maximum"):
                function(torch.empty(rows, 0, device=device))
    else:
        assert function(torch.empty(3, 0, device=device)).tolist() == [float(function is masks.row_prod)] * 3


@functions
def test_offsets_are_computed_in_64_bits(function):
    kernel, constants = KERNELS[function]
    x, out = torch.zeros(2, 1)
    dtype = masks.TRITON[torch.float32]
    with recorded_accesses(first_program=(2**30, 0, 0), memory=False) as seen:  # rows from 2**31 on
        kernel[(1,)](x, out, 2**31 + 1, 1, 3, 1, **constants, DTYPE=dtype, ROWS=2, COLUMNS=2)
    assert [((a - t.data_ptr()) // 4).tolist() for (_, a), t in zip(seen, (x, out), strict=True)] == [
        [3 * 2**31],
        [2**31],
    ]
    with recorded_accesses(memory=False) as seen:
        kernel[(1,)](x, out, 1, 4, 1, 2**30, **constants, DTYPE=dtype, ROWS=1, COLUMNS=2)
    loads = np.concatenate([addresses for op, addresses in seen if op == "load"])
    assert ((loads - x.data_ptr()) // 4).tolist() == [0, 2**30, 2**31, 3 * 2**30]


def test_blocks_past_2_to_the_31_elements():
    x, out = torch.full((1,), -1.0), torch.zeros(1)
    for kernel, arguments, expected in (
        (masks.pad_kernel, (x, out, 2**31 + 3), [3, 4]),
        (masks.relu_kernel, (x, 2**31 + 3), [3, 3]),  # what is off memory is loaded as 0, which is stored again
    ):
        options = {"OTHER": 0} if kernel is masks.pad_kernel else {}
        with recorded_accesses(first_program=(2**29, 0, 0), memory=False) as seen:
            kernel[(1,)](*arguments, **options, BLOCK_SIZE=4)
        target = out if kernel is masks.pad_kernel else x
        offsets = [((a - t.data_ptr()) // 4).tolist() for (_, a), t in zip(seen, (x, target), strict=True)]
        assert offsets == [[2**31 + i for i in range(n)] for n in expected]


# Padding


def padded(x, other, block_size):
    guarded = Guarded.around(x, before=64, after=block_size, fill=0xFF)
    blocks = -(-len(x) // block_size)
    out = Guarded((blocks * block_size,), x.dtype, x.device, before=64, after=block_size, fill=0x5A)
    with (
        mock.patch.object(torch, "empty", return_value=out.tensor) as empty,
        recording(x.device.type) as accesses,
    ):
        result = masks.pad(guarded.tensor, other=other, block_size=block_size)
    assert result is out.tensor
    assert empty.call_args_list == [mock.call(blocks * block_size, dtype=x.dtype, device=x.device)]
    out.check("the result"), guarded.check("x")
    if accesses is not None:
        check_each_once(accesses, "load", x=guarded.tensor)
        check_each_once(accesses, "store", out=out.tensor)
    return result


def test_pads_to_whole_blocks(device):
    for n in (0, 1, 3, 4, 5, 8, 9):
        x = torch.arange(1.0, n + 1, device=device)
        missing = -n % 4
        check_same_bits(padded(x, -7, 4), torch.cat([x, torch.full((missing,), -7.0, device=device)]))


@pytest.mark.parametrize("block_size", [1, 2**16])
def test_smallest_and_largest_blocks(device, block_size):
    x = torch.arange(-2.0, 3.0, device=device)
    missing = -5 % block_size
    check_same_bits(padded(x, -7, block_size), torch.cat([x, torch.full((missing,), -7.0, device=device)]))
    check_same_bits(relued(x, block_size), x.clamp(min=0))


@pytest.mark.parametrize("tile", [(1, 2**16), (2**16, 1)])
def test_largest_tiles(device, tile):
    check(masks.row_sum, numbers((2, 3), torch.float32, device, seed=4), tile)


def test_takes_what_requires_a_gradient_where_none_is_computed(device):
    with torch.no_grad():
        assert masks.row_sum(ones(2, 3, device=device, requires_grad=True)).tolist() == [3, 3]


def test_pads_with_what_the_dtype_holds(device):
    for dtype in served(device):
        info = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
        for other in (info.min, info.max, *((math.inf, -math.inf, math.nan) if dtype.is_floating_point else ())):
            if dtype == torch.float64 and math.isfinite(other):
                other = math.copysign(2.0**100, other)
            x = torch.tensor([3, 1, 4], device=device).to(dtype)
            expected = torch.tensor([3.0, 1.0, 4.0, other], dtype=torch.float64) if dtype.is_floating_point else None
            expected = torch.tensor([3, 1, 4, other]) if expected is None else expected
            check_same_bits(padded(x, other, 4), expected.to(device, dtype))


@pytest.mark.parametrize("other", [0.5, 128, -129, True + 0.0])
def test_pad_refuses_what_the_dtype_does_not_hold(device, other):
    with pytest.raises(ValueError, match=r"other must be an integer that torch\.int8 holds"):
        masks.pad(torch.ones(3, dtype=torch.int8, device=device), other=other)


@pytest.mark.parametrize("other", [0.1, 1e300])
def test_pad_refuses_what_a_constant_does_not_hold(device, other):
    with pytest.raises(ValueError, match="a constant in a kernel is a float32"):
        masks.pad(torch.ones(3, dtype=torch.float64, device=device), other=other)


@pytest.mark.parametrize("other", [None, "0", np.int64(3), torch.tensor(2.0)])
@pytest.mark.parametrize("dtype", [torch.int32, torch.float32])
def test_pad_refuses_what_is_no_number(device, dtype, other):
    with pytest.raises(ValueError, match=f"other must be a number of Python's; got .*{type(other).__name__}"):
        masks.pad(torch.ones(3, dtype=dtype, device=device), other=other)


# A store that picks its elements


def relued(x, block_size):
    guarded = Guarded.around(x, before=64, after=block_size, fill=0xFF)
    with recording(x.device.type) as accesses:
        result = masks.relu_(guarded.tensor, block_size=block_size)
    assert result is guarded.tensor
    guarded.check("x")
    if accesses is not None:
        check_each_once(accesses, "load", x=guarded.tensor)
        stored = check_inside(accesses, "store", x=guarded.tensor)
        assert sorted(stored) == sorted(addresses_of(guarded.tensor)[(x <= 0).numpy()])  # and no other is written
    return result


def test_zeros_what_is_not_positive_and_writes_nothing_else(device):
    for dtype in served(device):
        for n in (0, 1, 3, 4, 5, 9):
            x = numbers((n,), dtype, device, seed=n)
            expected = torch.where(x <= 0, torch.zeros_like(x), x)
            check_same_bits(relued(x, 4), expected)
    special = torch.tensor([math.nan, -0.0, 0.0, -math.inf, math.inf, -1e-45], device=device)
    check_same_bits(relued(special, 4), torch.tensor([math.nan, 0.0, 0.0, 0.0, math.inf, 0.0], device=device))


# Refusals


def ones(*shape, device, **kwargs):
    return torch.ones(*shape, device=device, **kwargs)


# The file as a script


@pytest.mark.gpu
def test_more_than_2_to_the_31_elements():
    if torch.cuda.mem_get_info()[0] < 3e9:
        pytest.skip("needs 3 GB of free GPU memory")
    x = torch.ones(2**21 + 1, 1025, dtype=torch.int8, device="cuda")
    x[-1] = 3
    assert masks.row_sum(x)[-2:].tolist() == [1025, 3 * 1025]
    assert masks.row_max(x)[-2:].tolist() == [1, 3]
