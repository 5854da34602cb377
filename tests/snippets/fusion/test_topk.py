# SPDX-License-Identifier: Apache-2.0
"""Values, columns and gradients are those of a stable sort in torch, whatever shape, dtype and strides, with NaN,
infinities and zeros of both signs; nothing else is touched."""

import contextlib
import math
from unittest import mock

import numpy as np
import pytest
import torch
from compiled import compiled
from guards import (
    Guarded,
    check_each_once,
    check_inside,
    check_same_bits,
    handed_out,
    recorded_accesses,
)
from hypothesis import example, given
from hypothesis import strategies as st

from snippets.fusion import topk as snippet
from snippets.fusion.topk import Plan, topk

LAYOUTS = {
    "contiguous": lambda t: t.clone(),
    "gaps": lambda t: torch.cat([t, t], dim=-1).clone()[..., : t.shape[-1]],
    "turned": lambda t: t.transpose(0, -1).contiguous().transpose(0, -1),
    "flipped sign": lambda t: torch._neg_view(-t),
    "every other": lambda t: torch.stack([t, t], dim=-1).clone()[..., 0],
    "stride 0": lambda t: t[:1].clone().expand(t.shape) if len(t) else t,
}
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, -math.nan, 1e-7, -1e-7, 65504.0, -65504.0]
PLANS = [None, Plan(1, 4, 1), Plan(2, 8, 1), Plan(4, 16, 1)]


@contextlib.contextmanager
def quick():
    """In the interpreter: ``tl.xor_sum``, which it computes element by element, by NumPy."""
    from triton.runtime.interpreter import ReduceOps

    slow = ReduceOps.generic_reduce

    def reduce(self, input):
        if self.combine_fn is snippet.tl.standard._xor_combine and self.axis is not None:
            (x,) = input
            data = np.bitwise_xor.reduce(x.handle.data, axis=self.axis, keepdims=self.keep_dims)
            return [self.to_tensor(data, x.dtype)]
        return slow(self, input)

    with mock.patch.object(ReduceOps, "generic_reduce", reduce):
        yield


@pytest.fixture(autouse=True, scope="module")
def _quick():
    with quick():
        yield


def wanted(x, k):
    """In torch a stable sort keeps equal ones in order, and takes a NaN for the largest: on a CPU, of either sign."""
    indices = x.cpu().double().sort(dim=-1, descending=True, stable=True).indices.to(x.device)
    return x.gather(-1, indices[..., :k]), indices[..., :k]


def numbers(shape, dtype, device, seed=0, special=False, grid=4):  # bfloat16 also in the interpreter: only bits move
    random = torch.Generator().manual_seed(seed)
    x = (torch.randn(shape, generator=random) * grid).round() / grid
    if special:
        which = torch.randint(3 * len(SPECIAL), shape, generator=random)
        for i, value in enumerate(SPECIAL):
            x[which == i] = value
    return x.to(device, dtype)


def planned(by):
    return mock.patch.object(
        snippet, "plan", lambda rows, columns, k: by._replace(block=max(by.block, snippet.kept(k)))
    )


@pytest.mark.long  # a GPU's kernels are compiled, for each block and dtype
@example((3, 9), 9, 1, ["turned", "stride 0"], 0, torch.float32, True)
@example((3, 2, 16), 3, 2, ["gaps", "turned"], 0, torch.float16, True)
@example((2, 33), 5, 1, ["contiguous", "every other"], 0, torch.bfloat16, True)
@example((2, 8), 1, 0, ["flipped sign", "contiguous"], 0, torch.float32, True)
@given(
    shape=st.tuples(st.integers(0, 5), st.integers(0, 33))
    | st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 20))
    | st.tuples(st.integers(0, 40)),
    k=st.integers(0, 40),
    by=st.sampled_from(range(len(PLANS))),
    layouts=st.lists(st.sampled_from(list(LAYOUTS)), min_size=2, max_size=2),
    seed=st.integers(0, 999),
    dtype=st.sampled_from(list(snippet.INTEGERS)),
    special=st.booleans(),
)
def test_as_a_stable_sort(device, shape, k, by, layouts, seed, dtype, special):
    k = min(k, shape[-1])
    x = LAYOUTS[layouts[0]](numbers(shape, dtype, device, seed, special)).detach().requires_grad_()
    with planned(PLANS[by]) if PLANS[by] else contextlib.nullcontext():
        values, indices = topk(x, k)
    exact = wanted(x.detach(), k)
    assert torch.equal(indices, exact[1])
    check_same_bits(values.detach(), exact[0].detach())
    grad = LAYOUTS[layouts[1]](numbers((*shape[:-1], k), dtype, device, seed + 1))
    (found,) = torch.autograd.grad(values, x, grad)
    assert torch.equal(found, torch.zeros_like(found).scatter(-1, indices, grad)) and found.is_contiguous()


@pytest.mark.parametrize("dtype", snippet.INTEGERS)
def test_what_is_large(device, dtype):
    x = torch.tensor([[*SPECIAL, 3.0]], dtype=dtype, device=device)
    values, indices = topk(x, x.shape[1])
    exact = wanted(x, x.shape[1])
    assert torch.equal(indices, exact[1])
    check_same_bits(values, exact[0])
    assert values[0, :3].isnan().tolist() == [True, True, False] and indices[0, :2].tolist() == [4, 5]


@pytest.mark.parametrize("dtype", snippet.INTEGERS)
def test_numbers_that_differ_by_their_last_bit(device, dtype):
    bits = torch.tensor([[6, 7, 8, 9], [7, 6, 9, 8]], dtype=snippet.INTEGERS[dtype][0], device=device)
    _, indices = topk(bits.view(dtype), 4)
    assert indices.tolist() == [[3, 2, 1, 0], [2, 3, 0, 1]]


def test_all_infinitely_small(device):
    """Lanes that are off are smaller still."""
    x = torch.full((3, 5), -math.inf, device=device)
    for dtype in snippet.INTEGERS:
        values, indices = topk(x.to(dtype), 5)
        assert indices.tolist() == [[0, 1, 2, 3, 4]] * 3 and (values == -math.inf).all()


def test_keys_by_hand_order_as_the_kernel_does():
    x = torch.tensor([1.0, 5.0, -7.0, 5.0, -0.0, 0.0, -math.inf, math.inf], dtype=torch.float16)
    keys = [snippet.key_of(value, column) for column, value in enumerate(x.tolist())]
    assert sorted(range(8), key=lambda i: -keys[i]) == wanted(x, 8)[1].tolist()


@pytest.mark.parametrize("columns", [2**16, 2**16 + 1])
def test_columns_of_16_bits_and_more(device, columns):
    """A row of 16-bit numbers has keys of 32 bits as long as its columns have 16."""
    x = torch.zeros(1, columns, dtype=torch.float16, device=device)
    x[0, -1], x[0, 7] = 2.0, 1.0
    # in the interpreter, sorting so much takes too long
    by_numpy = mock.patch.object(snippet.tl, "topk", top_by_numpy) if device == "cpu" else contextlib.nullcontext()
    with mock.patch.object(snippet, "plan", lambda *_: Plan(1, 2**16 if device == "cpu" else 2048, 8)), by_numpy:
        values, indices = topk(x, 2)
    assert indices.tolist() == [[columns - 1, 7]] and values.tolist() == [[2.0, 1.0]]


def top_by_numpy(keys, k):
    keys.handle.data = np.sort(keys.handle.data, axis=-1)[:, ::-1][:, :k]
    return snippet.tl.core.tensor(keys.handle, snippet.tl.block_type(keys.dtype, [len(keys.handle.data), k]))


def test_plans():
    for columns in (1, 2, 128, 1000, 4096, 4097, 10**6):
        for k in {1, 2, min(8, columns), min(columns, 65), min(columns, snippet.MOST)}:
            by, kept = snippet.plan(10**4, columns, k), snippet.kept(k)
            assert snippet.plan(1, columns, k).rows == 1
            assert kept >= max(k, 2) and by.block >= kept and 1 <= by.num_warps <= 8
            assert by.rows * by.block <= 4096 and by.block & (by.block - 1) == kept & (kept - 1) == 0


# Nothing else is touched


@pytest.mark.parametrize("shape, k", [((3, 5), 2), ((2, 16), 3), ((1, 1), 1)], ids=str)
def test_each_element_is_touched_once_and_nothing_else(device, shape, k):
    x = Guarded.around(numbers(shape, torch.float32, device), before=64, after=64, fill=0x7F)
    values = Guarded((shape[0], k), torch.float32, device, before=64, after=64, fill=0xFF)
    indices = Guarded((shape[0], k), torch.int64, device, before=64, after=64, fill=0xFF)
    seen = recorded_accesses() if device == "cpu" else contextlib.nullcontext()
    with handed_out("empty", values.tensor, indices.tensor), seen as accesses:
        snippet.topk_forward(x.tensor, k, Plan(2, 4, 1))
    if device == "cpu":
        check_each_once(accesses, "store", values=values.tensor, indices=indices.tensor)
        loaded = check_inside(accesses, "load", x=x.tensor)
        assert loaded.size == shape[0] * (shape[1] + k)
    for each in (x, values, indices):
        each.check("a tensor")


@pytest.mark.parametrize("rows_of_a_program", [1, 2])
def test_offsets_are_computed_in_64_bits(rows_of_a_program):
    x, values, indices = torch.zeros(1, dtype=torch.int32), torch.zeros(1), torch.zeros(1, dtype=torch.int64)
    first = 2**30  # row, of 8 columns
    with recorded_accesses(first_program=(first // rows_of_a_program, 0, 0), memory=False) as seen:
        snippet.topk_kernel[(1,)](
            x, values.view(torch.int32), indices, 2**31 - 1, 1, 2,
            INFINITY=0x7F800000, KEY=snippet.tl.int64, UNIT=8, ROWS=rows_of_a_program, BLOCK=8, K=2,
        )  # fmt: skip
    begins = [(first + i) * 8 for i in range(rows_of_a_program)]
    loads = [((found - x.data_ptr()) // 4).tolist() for op, found in seen if op == "load"]
    assert loads[0] == [begin + i for begin in begins for i in range(8)]
    assert set(loads[1]) <= set(loads[0]) and len(loads[1]) == 2 * rows_of_a_program
    stores = [int(found[0]) for op, found in seen if op == "store"]
    assert stores == [values.data_ptr() + 4 * first * 2, indices.data_ptr() + 8 * first * 2]


# As PyTorch calls it


@pytest.mark.filterwarnings("ignore:Input #0 requires gradient and is not a double")
def test_gradients(device):
    """In float32, where these differences are exact; the gradient has one, too."""
    x = (torch.randperm(14, device=device).view(2, 7) / 8).requires_grad_()
    exact = {"eps": 1 / 64, "atol": 0.0, "rtol": 0.0}
    assert torch.autograd.gradcheck(lambda x: topk(x, 3)[0], (x,), **exact)
    (grad,) = torch.autograd.grad(topk(x, 3)[0].square().sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(grad.sum(), x)
    assert torch.equal(second, 2.0 * torch.zeros_like(x).scatter(-1, wanted(x, 3)[1], 1.0))


def test_indices_have_no_gradient(device):
    x = numbers((2, 5), torch.float32, device).requires_grad_()
    values, indices = topk(x, 2)
    assert not indices.requires_grad and values.requires_grad


CODE = """
for shape, k, dtype in (((9, 1000), 1, torch.bfloat16), ((9, 5000), 8, torch.float32)):
    module.topk_forward(torch.empty(shape, dtype=dtype), k)
"""


def test_compiles_to_wide_loads_and_spills_nothing():
    small, large = compiled("fusion/topk", CODE)
    assert (small.widest("LDG"), small.options["KEY"], small.spills) == (128, "int32", 0)
    assert (large.widest("LDG"), large.options["KEY"], large.spills) == (128, "int64", 0)


# On a GPU alone


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", snippet.INTEGERS)
@pytest.mark.parametrize(
    "shape, k",
    [((1000, 128), 8), ((300, 1000), 1), ((70, 3000), 50), ((17, 4096), 8), ((3, 100_000), 8), ((5, 2000), 1024)],
    ids=str,
)
def test_real_sizes(shape, k, dtype):
    for special in (False, True):
        x = numbers(shape, dtype, "cuda", special=special, grid=50)
        found, exact = topk(x, k), wanted(x, k)
        assert torch.equal(found[1], exact[1])
        check_same_bits(found[0], exact[0])


@pytest.mark.gpu
def test_more_than_2_to_the_31_elements():
    if torch.cuda.mem_get_info()[0] < 20e9:
        pytest.skip("needs 20 GB of free GPU memory")
    x = torch.zeros(2**31 // 4096 + 3, 4096, dtype=torch.float16, device="cuda")
    x[-1] = numbers((4096,), torch.float16, "cuda", grid=50)
    values, indices = topk(x, 8)
    exact = wanted(x[-1:], 8)
    assert torch.equal(indices[-1:], exact[1])
    check_same_bits(values[-1:], exact[0])
    assert not values[:-1].any() and torch.equal(indices[0].cpu(), torch.arange(8))


@pytest.mark.gpu
def test_in_a_cuda_graph():
    x = numbers((100, 1000), torch.float32, "cuda", grid=1000).requires_grad_()

    def run():
        values, indices = topk(x, 8)
        return values.detach(), indices, *torch.autograd.grad(values, x, torch.ones_like(values))

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        expected = run()
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = run()
    graph.replay()
    for a, b in zip(captured, expected, strict=True):
        assert torch.equal(a, b)
