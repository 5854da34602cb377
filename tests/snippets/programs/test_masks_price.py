# SPDX-License-Identifier: Apache-2.0
"""Three copies, with a mask in no program, in every one, in the last: equal to the bit, and nothing else is touched."""

import contextlib
from unittest import mock

import pytest
import torch
from guards import Guarded, check_each_once, check_same_bits, recorded_accesses, without_memory

from snippets.programs import masks_price

masks = pytest.mark.parametrize("mask", masks_price.KERNELS)


def check(x, mask, block_size, start=0):
    x = Guarded.around(x, before=64 + start, after=block_size, fill=0xFF)
    out = Guarded(x.tensor.shape, x.tensor.dtype, x.tensor.device, before=64, after=block_size, fill=0x5A)
    with (
        mock.patch.object(torch, "empty_like", return_value=out.tensor),
        recorded_accesses() if x.tensor.device.type == "cpu" else contextlib.nullcontext() as accesses,
    ):
        assert masks_price.copy(x.tensor, mask=mask, block_size=block_size) is out.tensor
    x.check("x"), out.check("the copy")
    check_same_bits(out.tensor, x.tensor)
    if accesses is not None:
        check_each_once(accesses, "load", x=x.tensor)
        check_each_once(accesses, "store", out=out.tensor)


@masks
@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 8, 11, 12, 32])
def test_copies_around_the_edges_of_a_block(device, mask, n):
    if mask != "none" or n % 4 == 0:
        check(torch.arange(1.0, n + 1, device=device), mask, block_size=4)


@masks
@pytest.mark.parametrize("dtype", masks_price.DTYPES, ids=str)
def test_any_bits_of_any_dtype(device, mask, dtype):
    torch.manual_seed(0)
    n = 64 if mask == "none" else 51
    x = torch.randint(0, 256, (n * dtype.itemsize,), dtype=torch.uint8).view(dtype).to(device)
    for start in (0, 1):
        check(x, mask, block_size=16, start=start)
    assert masks_price.copy(x, mask="last").shape == (n,)


@masks
def test_offsets_are_computed_in_64_bits(mask):
    x, out = torch.zeros(2, 1)
    for n, offsets in ((2**31 + 2, 2), (2**31 + 4, 4)):
        if mask == "none" and offsets < 4:
            continue
        with recorded_accesses(first_program=(2**29, 0, 0), memory=False) as seen:
            masks_price.KERNELS[mask][(1,)](x, out, n, BLOCK_SIZE=4)
        for (_, addresses), tensor in zip(seen, (x, out), strict=True):
            assert ((addresses - tensor.data_ptr()) // 4).tolist() == [2**31 + i for i in range(offsets)]


@pytest.mark.parametrize("n, unmasked", [(8, 2), (9, 2), (7, 1), (4, 1), (3, 0)])
def test_the_last_program_alone_has_a_mask(n, unmasked):
    from triton.runtime.interpreter import interpreter_builder as builder

    with (
        mock.patch.object(builder, "create_load", wraps=builder.create_load) as loads,  # those without a mask
        mock.patch.object(builder, "create_store", wraps=builder.create_store) as stores,
    ):
        masks_price.copy(torch.arange(float(n)), mask="last", block_size=4)
    assert loads.call_count == stores.call_count == unmasked


def test_serves_what_is_at_the_limits(device):
    x = torch.arange(6.0, device=device, requires_grad=True)
    for block_size in (1, 2**16):
        with torch.no_grad():
            assert masks_price.copy(x, block_size=block_size).tolist() == [0, 1, 2, 3, 4, 5]


def test_as_many_programs_as_cuda_has():
    kernel = mock.MagicMock()
    with mock.patch.dict(masks_price.KERNELS, every=kernel):
        masks_price.copy(without_memory(2**31 - 1), mask="every", block_size=1)
        with pytest.raises(ValueError, match="too many for block_size 1"):
            masks_price.copy(without_memory(2**31), mask="every", block_size=1)
    assert kernel.__getitem__.call_args_list == [mock.call((2**31 - 1,))]


@pytest.mark.gpu
def test_benchmarks_run():
    for line in masks_price.LINES:
        median, low, high = masks_price.price.fn(n=2**16, line=line)
        assert 0 < low <= median <= high
        assert masks_price.gigabytes_per_second(2**16, torch.uint8, line)[0] > 0


@pytest.mark.gpu
def test_more_than_2_to_the_31_elements():
    if torch.cuda.mem_get_info()[0] < 5e9:
        pytest.skip("needs 5 GB of free GPU memory")
    x = torch.zeros(2**31 + 5, dtype=torch.int8, device="cuda")
    x[-5:] = torch.arange(1, 6)
    for mask in ("every", "last"):
        assert masks_price.copy(x, mask=mask)[-6:].tolist() == [0, 1, 2, 3, 4, 5]
