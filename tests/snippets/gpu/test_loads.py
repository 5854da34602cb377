# SPDX-License-Identifier: Apache-2.0
"""The product is right with every number of stages, and the compiler puts loads where the page says that it does."""

import contextlib
from unittest import mock

import pytest
import torch
from compiled import compiled
from guards import Guarded, check_each_once, handed_out, recorded_accesses, without_memory
from hypothesis import example, given, settings
from hypothesis import strategies as st

from snippets.gpu import loads

LOADS = """
from snippets.gpu.fusion_bytes import matmul_kernel
x = torch.zeros(64, dtype=torch.float16)
for stages in (1, 3):
    arguments = x, x, x, 128, 128, 128, 128, 1, 128, 1
    matmul_kernel[(1,)](*arguments, RELU=False, **module.TILE, num_warps=8, num_stages=stages)
"""


@settings(max_examples=15)
@given(st.integers(1, 130), st.integers(1, 130), st.integers(1, 130), st.sampled_from(loads.STAGES))
@example(128, 128, 64, 3)
@example(129, 257, 3, 1)
@example(257, 129, 3, 1)
def test_product_cpu(M, N, K, num_stages):
    check(M, N, K, num_stages, "cpu")


@pytest.mark.gpu
@pytest.mark.parametrize("num_stages", loads.STAGES)
@pytest.mark.parametrize("M, N, K", [(1, 1, 1), (128, 128, 64), (129, 200, 65), (300, 17, 1000)])
def test_product_gpu(M, N, K, num_stages):
    check(M, N, K, num_stages, "cuda")


def check(M, N, K, num_stages, device):
    x = torch.randint(-2, 3, (M, K), device=device).half()
    w = torch.randint(-2, 3, (K, N), device=device).half()
    with handed_out("empty", out := torch.empty(M, N, dtype=torch.float16, device=device)):
        assert loads.product(x, w, num_stages=num_stages) is out
    assert torch.equal(out.double(), x.double() @ w.double())


def test_empty(device):
    x = torch.ones(0, 3, dtype=torch.float16, device=device)
    w = torch.ones(3, 2, dtype=torch.float16, device=device)
    assert loads.product(x, w, num_stages=3).shape == (0, 2)
    assert loads.product(w.T[:, :0].contiguous(), w[:0].contiguous(), num_stages=3).tolist() == [[0, 0], [0, 0]]


def test_where_the_compiler_puts_the_loads():
    expected = [True, False, True, False], [False, True, False, True]
    for launch, there in zip(compiled("gpu/loads", LOADS), expected, strict=True):
        texts = (launch.ttgir, "tt.load"), (launch.ttgir, "async_copy_global_to_local")
        texts += (launch.ptx, "ld.global"), (launch.ptx, "cp.async.cg")
        assert [name in text for text, name in texts] == there


@given(st.integers(1, 5), st.integers(1, 70), st.sampled_from(loads.WARPS))
@settings(max_examples=20)
def test_center_cpu(rows, columns, num_warps):
    check_center(rows, columns, num_warps, "cpu")


@pytest.mark.gpu
@pytest.mark.parametrize("num_warps", loads.WARPS)
@pytest.mark.parametrize("rows, columns", [(1, 1), (3, 1000), (5, 4097), (2, loads.WIDEST)])
def test_center_gpu(rows, columns, num_warps):
    check_center(rows, columns, num_warps, "cuda")


def check_center(rows, columns, num_warps, device):
    x = torch.randn(rows, columns, device=device) + 3
    x = Guarded.around(x, before=64, after=2**15, fill=0xFF)
    out = Guarded((rows, columns), torch.float32, device, before=64, after=2**15, fill=0x5A)
    with (
        mock.patch.object(torch, "empty_like", return_value=out.tensor),
        recorded_accesses() if device == "cpu" else contextlib.nullcontext() as accesses,
    ):
        assert loads.center(x.tensor, num_warps=num_warps) is out.tensor
    x.check("x"), out.check("the result")
    expected = x.tensor.double() - x.tensor.double().mean(dim=1, keepdim=True)
    assert torch.allclose(out.tensor.double(), expected, rtol=1e-5, atol=1e-4)
    if accesses is not None:
        check_each_once(accesses, "load", x=x.tensor)
        check_each_once(accesses, "store", out=out.tensor)


def test_offsets_of_rows_are_computed_in_64_bits():
    x, out = torch.zeros(2, 1)
    with recorded_accesses(first_program=(2**20, 0, 0), memory=False) as seen:
        loads.center_kernel[(1,)](x, out, 2**12, BLOCK=2**12)
    assert [(a[0] - t.data_ptr()) // 4 for (_, a), t in zip(seen, (x, out), strict=True)] == [2**32, 2**32]


def test_center_serves_what_is_at_the_limits():
    with mock.patch.object(loads, "center_kernel") as kernel:
        for shape in ((2**31 - 1, 1), (1, loads.WIDEST)):
            loads.center(without_memory(*shape))
        with pytest.raises(ValueError, match="rows at most"):
            loads.center(without_memory(2**31, 1))
    assert kernel.__getitem__.call_args_list == [mock.call((2**31 - 1,)), mock.call((1,))]


@pytest.mark.gpu
def test_benchmarks_run():
    for rate in (loads.ahead.fn(256, "stages_3"), loads.spills.fn(8, "rate")):
        median, low, high = rate
        assert 0 < low <= median <= high
    assert loads.spills.fn(1, "spilled") > 0 == loads.spills.fn(16, "spilled")
