# SPDX-License-Identifier: Apache-2.0
"""The product with scales for blocks of a few rows: exact where numbers are whole, in any number of parts."""

from unittest import mock

import numpy as np
import pytest
import torch
import triton.language as tl
from compiled import SHARED, compiled
from guards import Guarded, check_each_once, handed_out, recorded_accesses, without_memory
from hypothesis import example, given, settings
from hypothesis import strategies as st

from snippets.models import block_scales_few_rows as module
from snippets.models.block_scales import E4M3
from snippets.models.block_scales_few_rows import Config, block_scaled_few_rows, choose_config, product


@pytest.fixture(autouse=True)
def has_float8(request):
    if request.node.get_closest_marker("gpu") and torch.cuda.get_device_capability() < (8, 9):
        pytest.skip("this GPU has no matrix units for float8")


def up(size, block=128):
    return -(-size // block)


def operands(M, N, K, device="cpu", seed=0):
    """Whole numbers and powers of two, no two neighbors alike, of which products and sums are exact."""
    generator = torch.Generator().manual_seed(seed)
    whole = lambda rows: torch.randint(-3, 4, (rows, K), generator=generator).float().to(E4M3)
    step = lambda rows: torch.randint(1, 3, (rows, up(K)), generator=generator)
    powers = lambda each: 2.0 ** ((each.cumsum(0) + each.cumsum(1)) % 5 - 2)
    given = whole(M), whole(N), powers(step(M)).t().contiguous().t(), powers(step(up(N)))
    return tuple(each.to(device) for each in given)


def expected(x, w, x_scales, w_scales):
    def far(scales, tall, like):
        return scales.double().repeat_interleave(tall, 0).repeat_interleave(128, 1)[: len(like), : like.shape[1]]

    return (x.double() * far(x_scales, 1, x)) @ (w.double() * far(w_scales, 128, w)).t()


@settings(max_examples=25)
@given(st.integers(1, 64), st.integers(1, 200), st.integers(1, 700), st.sampled_from([16, 64, 128]), st.integers(1, 4))
@example(16, 256, 640, 128, 5)
@example(1, 1, 1, 16, 1)
@example(3, 129, 385, 64, 3)
def test_exact_in_any_number_of_parts(device, M, N, K, block_n, parts):
    given = operands(M, N, K, device)
    config = Config(max(16, 1 << (M - 1).bit_length()), block_n, min(parts, up(K)), 4, 2)
    assert torch.equal(product(*given, torch.float32, config=config).double(), expected(*given))


def test_all_strides(device):
    x, w, x_scales, w_scales = operands(5, 130, 300, device)
    wide = [torch.stack([s, s, s], 1)[:, 1] for s in (x_scales, w_scales)]
    y = product(x.t().contiguous().t(), w.t().contiguous().t(), *wide, torch.float32, config=Config(16, 32, 2, 4, 2))
    assert torch.equal(y.double(), expected(x, w, x_scales, w_scales))


def test_each_result_is_stored_once_and_nothing_beyond():
    M, N, K, config = 5, 70, 640, Config(16, 32, 3, 4, 2)
    given = operands(M, N, K)
    y = Guarded((M, N), torch.float32, "cpu", before=64, after=2**11, fill=0x5A)
    sums = Guarded((3 * 3 * 32 * 16,), torch.float32, "cpu", before=64, after=64, fill=0x5A)
    with recorded_accesses() as accesses, handed_out("empty", y.tensor, sums.tensor):
        product(*given, torch.float32, config=config)
    y.check("the result"), sums.check("the sums")
    counts = module.counters(torch.device("cpu"), 3)
    assert not counts.any(), "ready for the next launch"
    begin, end = counts.data_ptr(), counts.data_ptr() + counts.nbytes
    stores = [(op, at) for op, at in accesses if op == "store" and not begin <= at.min() < end]
    check_each_once(stores, "store", y=y.tensor, sums=sums.tensor)


def test_parts_are_added_in_the_order_of_k():
    """1, 2**25 and -2**25 give 0 in this order, 1 in the reverse."""
    x = torch.ones(1, 384).to(E4M3)
    w = torch.zeros(16, 384).to(E4M3)
    w[:, ::128] = torch.ones(16, 3).to(E4M3)
    scales = torch.tensor([[1.0, 2.0**25, -(2.0**25)]])
    in_parts = lambda scales: product(x, w, scales, torch.ones(1, 3), torch.float32, config=Config(16, 16, 3, 4, 2))
    assert not in_parts(scales).any() and (in_parts(scales.flip(1)) == 1).all()


def test_far_scales_and_results():
    """The ways to a row's scales, to a square's, to a result and to a part's sums have 64 bits."""
    from triton.runtime.interpreter import TensorHandle
    from triton.runtime.interpreter import interpreter_builder as builder

    x, w, base = torch.zeros(16, 128).to(E4M3), torch.zeros(16, 128).to(E4M3), torch.ones(1)
    count = torch.zeros(2**23, dtype=torch.int32)
    described = lambda t: module.TensorDescriptor(t, list(t.shape), [t.stride(0), 1], [16, 128])
    zeros = lambda desc, *_: TensorHandle(np.zeros(desc.block_shape, np.uint8), tl.float8e4nv)
    with (
        mock.patch.object(builder, "create_descriptor_load", zeros),
        recorded_accesses(first_program=(2**23 - 1, 1, 0), memory=False) as accesses,
    ):
        module.block_scaled_few_rows_kernel[(1,)](
            described(x), described(w), base, base, count, base, base, 16, 2**28, 512, 2**28, 2**30, 2**20, 2**31, 2,
            ROWS=16, BLOCK_N=16, SPLIT=True, AHEAD=2,
        )  # fmt: skip
    at = [(op, (each - base.data_ptr()) // 4) for op, each in accesses]
    assert at[0][1].tolist() == [2**28 * row + 2 * 2**30 for row in range(16)], "from the third step on"
    assert at[1][1].tolist() == [2**20 * (2**20 - 1) + 2 * 2**31]
    store = next(each for op, each in at if op == "store")
    assert store.min() == ((2**23 - 1) * 2 + 1) * 256


@pytest.mark.parametrize("M, N, K", [(0, 3, 4), (3, 0, 4), (3, 4, 0)])
def test_empty(device, M, N, K):
    y = block_scaled_few_rows(*operands(M, N, K, device), torch.float32)
    assert y.shape == (M, N) and not y.any()


def test_refuses():
    x, w, x_scales, w_scales = operands(65, 8, 16)
    with pytest.raises(ValueError, match=r"x has 65 rows; for more than 64 there is block_scales\.block_scaled_matmul"):
        block_scaled_few_rows(x, w, x_scales, w_scales, torch.float32)
    with pytest.raises(ValueError, match=r"x must be of .*: see quantize"):
        block_scaled_few_rows(x[:2].float(), w, x_scales[:2], w_scales, torch.float32)
    eight = without_memory(64, 1, dtype=E4M3)
    scales = without_memory(64, 1), without_memory(2**23, 1)
    module.block_scales.check_arguments(eight, without_memory(2**30, 1, dtype=E4M3), *scales, torch.float32)


def test_configurations():
    """A program for each multiprocessor and at most two; beyond one, a program has 16 steps along K."""
    for M in (1, 16, 17, 64):
        for N in (1, 64, 2048, 7168, 2**17):
            for K in (1, 128, 300, 2048, 18432):
                found = choose_config(M, N, K, 132)
                tiles, steps, parts = up(N, found.block_n), up(K), found.parts
                assert M <= found.rows <= max(16, 2 * M - 1) and found.block_n <= 128
                assert parts == 1 or (parts * tiles <= 2 * 132 and 4 * parts <= steps)
                assert parts * tiles <= 132 or parts == 1 or 16 * parts <= steps
                assert found.num_stages * ((found.rows + found.block_n) * 128 + 4 * (found.rows + 1)) < SHARED
    shapes = ((7168, 2048), (4096, 14336), (7168, 18432), (4096, 2048), (512, 2**20))
    assert [choose_config(16, *shape, 132).parts for shape in shapes] == [1, 4, 2, 2, 33]


@pytest.mark.parametrize("out_dtype", [torch.float16, torch.float32])
def test_asks_for_a_configuration_by_the_shape(out_dtype):
    given, config = operands(3, 40, 600), Config(16, 16, 2, 4, 2)
    with mock.patch.object(module, "choose_config", return_value=config) as choose:
        y = block_scaled_few_rows(*given, out_dtype)
    assert choose.call_args == mock.call(3, 40, 600, module.multiprocessors(y.device))
    assert y.dtype == out_dtype and torch.equal(y, expected(*given).to(out_dtype))


CODE = """
from snippets.models.block_scales_few_rows import product
for M in (1, 64):
    x, w = torch.empty(M, 2048, dtype=torch.float8_e4m3fn), torch.empty(4096, 2048, dtype=torch.float8_e4m3fn)
    product(x, w, torch.empty(16, M).t(), torch.empty(32, 16), torch.bfloat16)
"""


def test_compiles_to_matrix_units_and_tma():
    for launch in compiled("models/block_scales_few_rows", CODE):
        assert launch.shared <= SHARED and launch.spills == 0
        assert "wgmma.mma_async.sync.aligned.m64" in launch.ptx and "e4m3" in launch.ptx and "UTMALDG" in launch.sass


@pytest.mark.gpu
@pytest.mark.parametrize("M, N, K", [(1, 7168, 2048), (16, 4096, 14336), (7, 1001, 1000), (64, 300, 18432)])
def test_right_gpu(M, N, K):
    given = operands(M, N, K, "cuda")
    first = block_scaled_few_rows(*given)
    assert torch.equal(first, expected(*given).bfloat16())
    for _ in range(20):  # the counts are ready, and the order is the same
        assert torch.equal(block_scaled_few_rows(*given), first)


@pytest.mark.gpu
def test_in_a_graph_gpu():
    given = operands(16, 4096, 4096, "cuda")
    block_scaled_few_rows(*given)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = block_scaled_few_rows(*given)
    for _ in range(3):
        y.zero_()
        graph.replay()
        assert torch.equal(y, expected(*given).bfloat16())
