# SPDX-License-Identifier: Apache-2.0
"""The three wrong kernels are wrong in just the way that the file's docstring says, and in no other."""

import contextlib

import numpy as np
import pytest
import torch
from guards import recorded_accesses

from snippets.programs import vector_add_bug as bug

N, BLOCK = 10, 4
SUM = [101.0 * i for i in range(N)]


def launch(kernel, device, **constants):
    """Run ``kernel`` on the first 10 elements of the buffers of 12, and return the buffers and what was touched."""
    buffers = bug.buffers(device)
    with recorded_accesses() if device == "cpu" else contextlib.nullcontext([]) as accesses:
        kernel[(3,)](*(buffer[:N] for buffer in buffers), N, **constants)
    return buffers, accesses


def touched(accesses, op, buffer):
    """The elements of ``buffer`` that ``op`` touched, in order."""
    addresses = np.concatenate([found for kind, found in accesses if kind == op])
    elements = (addresses - buffer.data_ptr()) // buffer.itemsize
    return sorted(elements[(elements >= 0) & (elements < buffer.numel())].tolist())


def test_buffers_are_as_described(device):
    x, y, out = bug.buffers(device)
    assert all(buffer.shape == (12,) and buffer.dtype == torch.float32 for buffer in (x, y, out))
    assert (x + y)[:N].tolist() == SUM
    assert not {-1.0} & set((x + y).tolist()) and out.tolist() == [-1.0] * 12


def test_without_a_mask_the_results_are_right_and_the_elements_behind_them_lost(device):
    (x, y, out), accesses = launch(bug.add_kernel_no_mask_bug, device, BLOCK_SIZE=BLOCK)
    assert out[:N].tolist() == SUM  # which is why it survives its first test
    assert out[N:].tolist() == [7700.0, 7700.0]  # the sum of what belonged to somebody else
    if device == "cpu":
        everything = list(range(12))
        assert touched(accesses, "load", x) == touched(accesses, "load", y) == everything
        assert touched(accesses, "store", out) == everything
        assert sum(len(addresses) for _, addresses in accesses) == 36  # so none strayed beyond the buffers


def test_a_block_of_three_does_not_compile(device):
    x, y, out = bug.buffers(device)
    with pytest.raises(Exception) as error:
        bug.add_kernel_three_bug[(4,)](x[:N], y[:N], out[:N], N)
    cause = bug.innermost(error.value)
    assert type(cause) is ValueError and str(cause) == "arange's range must be a power of 2"
    assert out.tolist() == [-1.0] * 12


def test_pid_times_n_leaves_most_elements_unwritten(device):
    (_, _, out), accesses = launch(bug.add_kernel_offset_bug, device, BLOCK_SIZE=BLOCK)
    assert out[:BLOCK].tolist() == SUM[:BLOCK]  # pid 0 is right, for 0 * n is 0 * BLOCK_SIZE
    assert out[BLOCK:].tolist() == [-1.0] * (12 - BLOCK)
    assert N - BLOCK > N / 2, "most"
    if device == "cpu":
        assert touched(accesses, "store", out) == list(range(BLOCK))


def test_every_wrong_kernel_is_named_so_and_tested_here():
    kernels = {name for name, value in vars(bug).items() if hasattr(value, "fn") and value.fn.__name__ == name}
    assert kernels == {"add_kernel_no_mask_bug", "add_kernel_three_bug", "add_kernel_offset_bug"}
