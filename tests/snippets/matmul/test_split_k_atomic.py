# SPDX-License-Identifier: Apache-2.0
"""Atomic additions give the right sums, and, on a GPU, not the same bits every time."""

import contextlib
from unittest import mock

import numpy as np
import pytest
import torch
from guards import Guarded, check_inside, precisions_of_dots, recorded_accesses, without_memory
from hypothesis import example, given, settings
from hypothesis import strategies as st

from snippets.matmul import split_k_atomic
from snippets.matmul.split_k_atomic import matmul
from snippets.tools.testing import addresses_of

SMALL = {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 16}


@contextlib.contextmanager
def recorded_atomics():
    """Yield a list that receives the address of each lane of each atomic addition, in the interpreter."""
    from triton.runtime.interpreter import interpreter_builder as builder

    found, atomic = [], builder.create_atomic_rmw

    def note(op, pointers, value, mask, *rest):
        found.extend(pointers.data[np.broadcast_to(mask.data, pointers.data.shape).astype(bool)].astype(int))
        return atomic(op, pointers, value, mask, *rest)

    with mock.patch.object(builder, "create_atomic_rmw", note):
        yield found


def check(M, N, K, parts, device="cpu", dtype=torch.float32, transposed=False, blocks=SMALL):
    random = torch.Generator().manual_seed(M + N)
    whole = lambda *shape: torch.randint(-3, 4, shape, generator=random).to(device, dtype)
    a, b = (whole(K, M).T, whole(N, K).T) if transposed else (whole(M, K), whole(K, N))
    out = Guarded((M, N), torch.float32, device, before=64, after=256, fill=0xFF)
    out.tensor.zero_()
    recorded = recorded_accesses() if device == "cpu" else mock.MagicMock()
    added = recorded_atomics() if device == "cpu" else mock.MagicMock()
    with mock.patch.object(torch, "zeros", return_value=out.tensor), recorded as accesses, added as additions:
        c = matmul(a, b, parts=parts, blocks=blocks)
    out.check("c")
    assert c.dtype == dtype and torch.equal(c, (a.double() @ b.double()).to(dtype))
    if device == "cpu":
        check_inside(accesses, "load", a=a, b=b)
        assert sorted(additions) == sorted([*addresses_of(out.tensor)] * parts)  # even of zeros, none is outside


@settings(max_examples=6)
@given(
    st.integers(1, 40), st.integers(1, 70), st.integers(0, 60), st.integers(1, 5),
    st.sampled_from([torch.float32, torch.float16]), st.booleans(),
)  # fmt: skip
@example(17, 33, 50, 2, torch.float32, False)
@example(17, 33, 50, 7, torch.float16, True)  # more parts than steps
@example(40, 100, 64, 3, torch.float32, False)
def test_ragged_cpu(M, N, K, parts, dtype, transposed):
    check(M, N, K, parts, "cpu", dtype, transposed)


@pytest.mark.parametrize("sides", [(16, 64, 32), (32, 16, 16)])  # the last step counts in BLOCK_K, whatever is larger
def test_another_tile_cpu(sides):
    check(40, 70, 50, 2, blocks=dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), sides, strict=True)))


def test_steps_are_shared_evenly():
    """Part 1 of 3 does the steps 1, 4, 7 …"""
    a, b = torch.ones(16, 160), torch.ones(160, 32)
    with recorded_accesses() as accesses:
        matmul(a, b, parts=3, blocks=SMALL)
    columns = [int(at[0] - a.data_ptr()) // 4 // 16 for op, at in accesses[::2]]
    assert columns == [0, 3, 6, 9, 1, 4, 7, 2, 5, 8]


def test_offsets_are_computed_in_64_bits():
    x, far = torch.zeros(4), 2**30
    for i in range(4):
        strides = [far if i == j else 1 for j in range(4)]
        with recorded_accesses(memory=False) as seen, mock.patch.object(torch.Tensor, "data_ptr", x.data_ptr):
            from triton.runtime.interpreter import interpreter_builder as builder

            with mock.patch.object(builder, "create_atomic_rmw", lambda *args: args[2]):
                split_k_atomic.matmul_kernel[(1, 1)](x, x, x, 16, 16, 32, *strides, PARTS=1, **SMALL)
        farthest = max(int(abs(at - x.data_ptr()).max()) // 4 for _, at in seen)
        least = (31 if i in (1, 2) else 15) * far
        assert least <= farthest < least + 64


@pytest.mark.parametrize(
    "a, b, options, fragment",
    [
        (torch.ones(2, 3), torch.ones(2, 3), {"parts": 1}, "(2, 3) of torch.float32"),
        (torch.ones(2, 3), torch.ones(3, 2), {"parts": 0}, "got 0"),
        (torch.ones(2, 3), torch.ones(3, 2), {"parts": 65_536}, "got 65536"),
        (torch.ones(2, 3), torch.ones(3, 2), {"parts": 1.5}, "got 1.5"),
    ],
)
def test_refuses(a, b, options, fragment):
    with pytest.raises(ValueError) as error:
        matmul(a, b, **options)
    assert fragment in str(error.value)


def launched(M, N, K, parts, **blocks):
    """The grid of a launch that computes nothing."""
    a, b = without_memory(M, K), without_memory(K, N)
    with mock.patch.object(split_k_atomic, "matmul_kernel") as kernel, mock.patch.object(torch, "zeros"):
        matmul(a, b, parts=parts, blocks=SMALL | blocks)
    return kernel.__getitem__.call_args.args[0]


def test_steps_and_programs_are_counted_in_32_bits():
    most = 2**30 - 2**15
    assert launched(16, 32, most - 1, 2**15 + 1, BLOCK_K=2**15) == (1, 2**15 + 1)
    with pytest.raises(ValueError, match="too large for 32769 parts"):
        launched(16, 32, most, 2**15 + 1, BLOCK_K=2**15)
    assert launched(2**20, 2**20 - 32, 1, 65_535) == (2**31 - 2**16, 65_535)
    with pytest.raises(ValueError, match="too many tiles"):
        launched(2**20, 2**20, 1, 1)


def test_empty(device):
    assert matmul(torch.ones(0, 3, device=device), torch.ones(3, 2, device=device), parts=2).shape == (0, 2)
    assert matmul(torch.ones(1, 0, device=device), torch.ones(0, 2, device=device), parts=2).tolist() == [[0, 0]]


def test_float32_is_multiplied_as_float32():
    with precisions_of_dots() as seen:
        matmul(torch.ones(2, 90), torch.ones(90, 3), parts=2, blocks=SMALL)
    assert seen == {"IEEE"}


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_right_gpu(dtype):
    for M, N, K, parts in ((300, 200, 1000, 7), (1, 33, 64, 2), (128, 128, 4096, 16)):
        check(M, N, K, parts, "cuda", dtype, blocks=split_k_atomic.BLOCKS | {"BLOCK_K": 16})


@pytest.mark.gpu
def test_results_differ():
    assert split_k_atomic.results.fn(8, "atomic_results") > 1 == split_k_atomic.results.fn(8, "ordered_results")
