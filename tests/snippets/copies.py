# SPDX-License-Identifier: Apache-2.0
"""What a copy must be: every bit, each element read once and written once, nothing beside them touched."""

import contextlib
from unittest import mock

import numpy as np
import torch
from guards import Guarded, check_same_bits, recorded_accesses

from snippets.programs.offsets import INTEGERS
from snippets.tools.testing import addresses_of


def touched(accesses, op):
    """The addresses of all accesses, sorted; one that was touched twice counts twice."""
    return np.sort(np.concatenate([np.empty(0, np.int64), *(found for kind, found in accesses if kind == op)]))


def noise(*shape, dtype=torch.int32, device):
    """Any bits, except that a bool is 0 or 1."""
    high = 2 if dtype == torch.bool else 256
    n = int(np.prod(shape)) * dtype.itemsize
    return torch.randint(0, high, (n,), dtype=torch.uint8, device=device).view(dtype).view(shape)


def bits(tensor):
    return tensor.contiguous().view(INTEGERS[tensor.itemsize])


def check_copy(x, run, start=0, **options):
    """Assert that ``run`` copies ``x``, reads each of its elements once, and writes each of the result once.

    The result lies between guard zones, ``start`` bytes behind an address that is aligned for the widest stores.
    """
    expected, size = bits(x), x.itemsize
    guard = 16 * (1 + expected.numel())
    out = Guarded(expected.shape, expected.dtype, x.device, before=guard + start // size, after=guard, fill=0x5A)
    target = out.tensor.view(x.dtype)
    recorder = recorded_accesses() if x.device.type == "cpu" else contextlib.nullcontext()
    with recorder as accesses, mock.patch.object(torch, "empty", return_value=target) as empty:
        result = run(x, **options)
    assert empty.call_count == 1 and empty.call_args == mock.call(x.shape, dtype=x.dtype, device=x.device)
    assert result is target
    out.check("the result")
    check_same_bits(bits(result), expected)
    assert torch.equal(bits(x), expected), "x is only read"
    if accesses is not None:
        assert np.array_equal(touched(accesses, "load"), np.sort(addresses_of(x))), "loads are not those of x"
        assert np.array_equal(touched(accesses, "store"), addresses_of(target)), "stores are not those of the result"
