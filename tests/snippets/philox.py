# SPDX-License-Identifier: Apache-2.0
"""Philox in NumPy, the mask of dropout that follows from it, and ones for a kernel to drop."""

import contextlib
from unittest import mock

import numpy as np
import torch


def philox(seed: int, counter: np.ndarray, high: int = 0) -> np.ndarray:
    """Philox4x32-10: four 32-bit numbers for each counter; ``(..., 4)``. ``high``: the upper half of the counters."""
    low = np.uint64(0xFFFFFFFF)
    c0, c1 = counter.astype(np.uint64) & low, counter.astype(np.uint64) >> np.uint64(32)
    c2, c3 = (np.full_like(c0, high >> shift & 0xFFFFFFFF) for shift in (0, 32))
    k0, k1 = (np.uint64(seed >> shift & 0xFFFFFFFF) for shift in (0, 32))
    for _ in range(10):
        a, b = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = (b >> np.uint64(32)) ^ c1 ^ k0, b & low, (a >> np.uint64(32)) ^ c3 ^ k1, a & low
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & low, (k1 + np.uint64(0xBB67AE85)) & low
    return np.stack([c0, c1, c2, c3], axis=-1)


def uniform(bits: np.ndarray) -> np.ndarray:
    signed = bits.astype(np.uint32).view(np.int32)
    return np.where(signed < 0, ~signed, signed).astype(np.float32) * np.float32(4.6566127342e-10)


def expected_keep(seed: int, shape, p: float, first: int = 0) -> torch.Tensor:
    """The mask of elements ``first`` and on: 16 bits each, the lower half of a word before the upper one."""
    n = int(np.prod(shape))
    words = philox(seed, np.arange(first // 8, (first + n + 7) // 8))
    bits = np.stack([words & np.uint64(0xFFFF), words >> np.uint64(16)], axis=-1).ravel()[first % 8 :][:n]
    return torch.from_numpy(bits >= round(p * 65536)).view(shape)


@contextlib.contextmanager
def ones_from_anywhere(seed):
    """In the interpreter: yield a list of what is stored. Loads give ones, but for that of the seed."""
    from triton.runtime.interpreter import interpreter_builder as builder

    stored, load = [], builder.create_masked_load

    def ones(pointers, mask, *rest, **kwargs):
        if int(pointers.data.flat[0]) == seed.data_ptr():
            return load(pointers, mask, *rest, **kwargs)
        loaded = load(pointers, type(mask)(np.zeros_like(mask.data), mask.dtype), *rest, **kwargs)
        loaded.data = np.ones_like(loaded.data)
        return loaded

    def note(pointers, value, mask, *rest, **kwargs):
        stored.append((pointers.data[mask.data], value.data[mask.data]))

    with mock.patch.multiple(builder, create_masked_load=ones, create_masked_store=note):
        yield stored
