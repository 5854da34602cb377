# SPDX-License-Identifier: Apache-2.0
"""Each token gets the sum of its experts' results, and each pair one row, whatever tokens choose, strides and shapes.

Integers make every sum exact. What an expert's rows hold reaches no other expert, and nothing outside is touched.
"""

import contextlib
import itertools
from unittest import mock

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from compiled import SHARED, compiled
from guards import (
    Guarded,
    check_each_once,
    check_inside,
    made_among_nans,
    precisions_of_dots,
    promises_kept,
    recorded_accesses,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st
from triton.tools.tensor_descriptor import TensorDescriptor

from snippets.models import experts as module
from snippets.models.experts import Plan, Routing, combine, experts, grouped_matmul, in_torch, most_tiles, plan, route

LAYOUTS = {
    "contiguous": lambda x: x,
    "turned": lambda x: x.mT.contiguous().mT,
    "wider": lambda x: torch.cat([x, torch.full_like(x, 99)], -1)[..., : x.shape[-1]],
    "every second": lambda x: torch.stack([x, 99 - x], -1).flatten(-2)[..., ::2],
    "one late": lambda x: torch.cat([x.new_full((1,), 99), x.flatten()])[1:].view(x.shape),
}
CHOICES = ("any", "one", "few", "equal")


def whole(*shape, dtype=torch.float32, device="cpu", seed=0, most=3):
    """Small integers: every sum of products is exact."""
    random = torch.Generator().manual_seed(seed)
    return torch.randint(-most, most + 1, shape, generator=random).to(device, dtype)


def logits_of(tokens, count, choice="any", seed=0, device="cpu"):
    """Logits by which tokens choose any experts, one above all, few of them, or are undecided."""
    random = torch.Generator().manual_seed(seed)
    logits = torch.rand(tokens, count, generator=random)
    if choice == "one":
        logits[:, count // 2] += 2
    if choice == "few":
        logits[:, : -(-count // 2)] -= 3
    if choice == "equal":
        logits.zero_()
    return logits.to(device)


def check_routing(routing: Routing, logits, top_k):
    tokens, count = logits.shape
    keys = torch.nan_to_num(logits.double().cpu(), nan=1e30, posinf=1e20, neginf=-1e20)
    chosen = keys.sort(dim=1, descending=True, stable=True).indices[:, :top_k]
    assert torch.equal(routing.experts.cpu().long(), chosen)
    expected = torch.softmax(logits.cpu().double().gather(1, chosen), 1)
    assert torch.allclose(routing.weights.cpu().double(), expected, atol=1e-6, equal_nan=True)
    counts = torch.bincount(chosen.flatten(), minlength=count)
    assert routing.offsets.tolist() == [0, *counts.cumsum(0).tolist()]
    pairs = chosen.flatten().sort(stable=True).indices
    assert torch.equal(routing.pairs.cpu().long(), pairs), "by expert, then by token"
    assert torch.equal(routing.rows.cpu().long()[pairs], torch.arange(tokens * top_k))
    assert routing.order.tolist() == sorted(range(count), key=lambda e: (-counts[e], e))


@settings(max_examples=40)
@given(st.integers(0, 200), st.integers(1, 40), st.data(), st.sampled_from(CHOICES), st.sampled_from(list(LAYOUTS)))
@example(130, 256, None, "any", "contiguous")
@example(70, 1, None, "any", "contiguous")
@example(200, 33, None, "equal", "turned")
def test_each_pair_has_its_row(tokens, count, data, choice, layout):
    top_k = data.draw(st.integers(1, min(count, 9))) if data else min(count, 3)
    logits = LAYOUTS[layout](logits_of(tokens, count, choice))
    check_routing(route(logits, top_k), logits, top_k)


def test_experts_differ_whatever_the_logits(device):
    """Also where all are equal, infinite or NaN of either sign; NaN is the largest."""
    inf, nan = float("inf"), float("nan")
    logits = torch.tensor([[nan, 1, inf], [-inf, -inf, -inf], [1, nan, nan], [-0.0, 0.0, -inf]], device=device)
    logits[2, 2:].view(torch.int32)[:] = -1  # NaN with all bits set
    found = route(logits, 3).experts.tolist()
    assert found == [[0, 2, 1], [0, 1, 2], [1, 2, 0], [1, 0, 2]]
    assert route(logits[3:], 2).weights.tolist() == [[0.5, 0.5]]


def test_routes_in_any_dtype(device):
    for dtype in (torch.float16, *([torch.bfloat16] if device == "cuda" else [])):
        logits = torch.randn(50, 8, device=device).to(dtype)
        check_routing(route(logits, 2), logits, 2)


def test_counts_many_blocks(device):
    """More blocks of tokens than are added up in a step: 16 experts, steps of 256 blocks, 64 tokens each."""
    logits = logits_of(64 * 256 + 5, 16, device=device)
    check_routing(route(logits, 1), logits, 1)


@contextlib.contextmanager
def planned(*found):
    with mock.patch.object(module, "plan", lambda *_: Plan(*found)):
        yield


TILES = {
    "swapped": (16, 64, 32, 4, 3, True),
    "small": (16, 64, 32, 4, 3, False),
    "wide": (32, 16, 64, 4, 3, False),
    "as planned": None,
}


def check_product(tokens, count, top_k, K, N, choice, layouts, dtype, tile, device="cpu", gather=True):
    """Compare with float64, in guarded memory; every element is stored once, and loads stay inside."""
    routing = route(logits_of(tokens, count, choice, device=device), top_k)
    x = LAYOUTS[layouts[0]](whole(tokens if gather else tokens * top_k, K, dtype=dtype, device=device))
    w = LAYOUTS[layouts[1]](whole(count, K, N, dtype=dtype, device=device, seed=1))
    made = []

    def guarded(*shape, dtype, device):
        shape = shape[0] if isinstance(shape[0], (tuple, torch.Size)) else shape
        made.append(Guarded(shape, dtype, device, before=64, after=4096, fill=0xFF))
        return made[-1].tensor

    with contextlib.ExitStack() as stack:
        if TILES[tile]:
            stack.enter_context(planned(*TILES[tile]))
        stack.enter_context(mock.patch.object(torch, "empty", guarded))
        accesses = None
        if device == "cpu":
            accesses = stack.enter_context(recorded_accesses())
            stack.enter_context(promises_kept())
        found = grouped_matmul(x, w, routing, gather=gather)
    for buffer in made:
        buffer.check("a new tensor")
    rows = x[routing.pairs.long() // top_k] if gather else x
    expert = torch.repeat_interleave(torch.arange(count, device=device), routing.offsets.diff().long())
    expected = torch.einsum("rk,rkn->rn", rows.double(), w.double()[expert])
    assert torch.equal(found, expected.to(dtype))
    if accesses is not None:
        check_each_once(accesses, "store", out=found)
        if layouts == ("contiguous", "contiguous") and K * x.itemsize % 16 == N * x.itemsize % 16 == 0:
            check_inside(accesses, "load", x=x, w=w, pairs=routing.pairs, offsets=routing.offsets)


@settings(max_examples=60)
@given(
    st.integers(1, 60), st.integers(1, 9), st.data(), st.integers(1, 50), st.integers(1, 50), st.sampled_from(CHOICES),
    st.tuples(st.sampled_from(list(LAYOUTS)), st.sampled_from(list(LAYOUTS))),
    st.sampled_from([torch.float32, torch.float16]), st.sampled_from(list(TILES)), st.booleans(),
)  # fmt: skip
@example(60, 9, None, 48, 40, "any", ("contiguous", "contiguous"), torch.float16, "small", True)
@example(20, 3, None, 96, 40, "any", ("contiguous", "contiguous"), torch.float16, "small", True)
@example(60, 9, None, 48, 40, "few", ("contiguous", "turned"), torch.float16, "swapped", False)
@example(1, 2, None, 48, 40, "any", ("contiguous", "contiguous"), torch.float16, "small", True)
@example(60, 3, None, 40, 48, "one", ("contiguous", "contiguous"), torch.float32, "wide", False)
@example(40, 4, None, 33, 31, "any", ("every second", "one late"), torch.float16, "small", True)
@example(3, 8, None, 24, 72, "any", ("contiguous", "contiguous"), torch.float16, "as planned", False)
def test_grouped_cpu(tokens, count, data, K, N, choice, layouts, dtype, tile, gather):
    top_k = data.draw(st.integers(1, count)) if data else min(2, tokens)
    check_product(tokens, count, top_k, K, N, choice, layouts, dtype, tile, gather=gather)


def test_grouped_in_the_tiles_of_many_rows():
    check_product(70, 1, 2 - 1, 72, 264, "any", ("contiguous", "contiguous"), torch.float16, "as planned")
    check_product(300, 2, 1, 72, 264, "any", ("contiguous", "contiguous"), torch.float16, "as planned", gather=False)


def check_layer(tokens, count, top_k, hidden, inner, choice="any", device="cpu", dtype=torch.float32, tolerance=2e-5):
    random = torch.Generator().manual_seed(3)
    new = lambda *shape, scale=1: (scale * torch.randn(shape, generator=random)).to(device, dtype).requires_grad_()
    logits = logits_of(tokens, count, choice, device=device).to(dtype).requires_grad_()
    given = new(tokens, hidden), logits, new(count, hidden, 2 * inner, scale=0.3), new(count, inner, hidden, scale=0.3)
    exact = [each.detach().double().requires_grad_() for each in given]
    found, wanted = experts(*given, top_k), in_torch(*exact, top_k)
    of = new(*found.shape).detach()
    grads = torch.autograd.grad(found, given, of)
    expected = torch.autograd.grad(wanted, exact, of.double(), allow_unused=True, materialize_grads=True)
    for name, a, b in zip(("out", "x", "logits", "w_in", "w_out"), (found, *grads), (wanted, *expected), strict=True):
        assert a.shape == b.shape and a.dtype == dtype
        scale = max(b.norm().item(), 1e-3 * b.numel() ** 0.5)
        assert (a.double() - b).norm().item() <= tolerance * scale, name
    return given, found, grads


@settings(max_examples=15)
@given(
    st.integers(0, 50), st.integers(1, 9), st.data(), st.integers(1, 40), st.integers(1, 40),
    st.sampled_from(["any", "one", "few"]),  # of equal logits, torch chooses other ones
)  # fmt: skip
@example(40, 5, None, 17, 9, "few")
@example(20, 4, None, 40, 24, "one")
def test_layer_and_its_gradients(tokens, count, data, hidden, inner, choice):
    top_k = data.draw(st.integers(1, count)) if data else 2
    with made_among_nans():
        check_layer(tokens, count, top_k, hidden, inner, choice)


@pytest.mark.parametrize("N", [1, 7, 2100])
def test_combine_and_its_gradients(N):
    """Also of the weights alone, with rows and gradients that lie in gaps of NaN; more columns than a program has."""
    logits = logits_of(9, 4)
    routing = route(logits, 2)
    given = whole(18, N), routing.weights.detach().round(decimals=2), whole(9, N, seed=1)
    y, weights, of = (each.double().requires_grad_() for each in given)
    plain = (y[routing.rows.long()].view(9, 2, N) * weights[:, :, None]).sum(1)
    expected = (plain, *torch.autograd.grad(plain, (y, weights), of))
    gaps = lambda x, more: torch.cat([x, torch.full((len(x), more), torch.nan)], 1)[:, : x.shape[1]]
    y, weights = gaps(given[0], 3).requires_grad_(), given[1].requires_grad_()
    of_gaps = gaps(given[2], 5)
    with recorded_accesses() as accesses:
        found = combine(y, routing._replace(weights=weights))
        grads = torch.autograd.grad(found, (y, weights), of_gaps)
    check_each_once(accesses, "store", out=found, y=grads[0], weights=grads[1])
    check_inside(accesses, "load", y=y, of=of_gaps, weights=weights, rows=routing.rows, pairs=routing.pairs)
    for a, b in zip((found, *grads), expected, strict=True):
        assert torch.allclose(a.double(), b, rtol=1e-5, atol=1e-5)


def far(kernel, program, *arguments, **meta):
    """Where one program of a launch loads and stores, in elements of 4 bytes from a tensor that stands for all."""
    x = torch.zeros(3, dtype=torch.int32)
    given = [x if argument is None else argument for argument in arguments]
    with recorded_accesses(first_program=program, memory=False) as seen:
        kernel[(1,)](*given, **meta)
    return {(op, (int(at.min()) - x.data_ptr()) // 4) for op, at in seen if at.size}


def test_far_rows():
    """Rows that begin beyond 2**31 elements are found: the way to a row has 64 bits."""
    row, stride = 2**20, 2**12
    seen = far(module.combine_kernel, (row, 0, 0), None, None, None, None, 2**12, stride,
               WEIGHTED=False, TOP_K=1, BLOCK=4)  # fmt: skip
    assert ("store", row * 2**12) in seen and ("load", row) in seen
    seen = far(module.combine_backward_kernel, (row, 0, 0), None, None, None, None, None, None, 4, 2**13, stride,
               TOP_K=1, BLOCK=4)  # fmt: skip
    assert {("load", row), ("load", row * stride), ("store", row * 4)} <= seen


def far_loads(kernel, grid, x, *arguments, **meta):
    """Where a launch loads, in elements from ``x``, which stands for what is read.

    Only what is there is loaded, and nothing is stored.
    """
    from triton.runtime.interpreter import interpreter_builder as builder

    given = [x if argument is None else argument for argument in arguments]
    tensors = [getattr(each, "base", each) for each in given if not isinstance(each, int)]
    load, seen = builder.create_masked_load, set()

    def loading(pointers, mask, *rest, **kwargs):
        if isinstance(mask, np.ndarray):  # of a descriptor, which stays inside by itself
            return load(pointers, mask, *rest, **kwargs)
        at = pointers.data.astype(np.int64)
        on = np.broadcast_to(mask.data, at.shape)
        if on.any():
            seen.add((int(at[on].min()) - x.data_ptr()) // 4)
        there = [(each.data_ptr() <= at) & (at < each.data_ptr() + 4 * each.numel()) for each in tensors]
        there = (mask.data & np.any(there, axis=0)).reshape(at.shape)
        return load(pointers, type(mask)(there, mask.dtype), *rest, **kwargs)

    nothing = lambda *arguments, **options: None
    with mock.patch.multiple(builder, create_masked_load=loading, create_masked_store=nothing):
        kernel[grid](*given, **meta)
    return seen


def test_far_tokens():
    """Rows of tokens and of pairs are found where memory is far: 2**20 rows of 2**12 elements."""
    x, pairs = torch.zeros(16, 16), torch.full((1,), 2**20, dtype=torch.int32)
    found = lambda kernel, *arguments, **meta: far_loads(kernel, (1, 1), x, *arguments, TOP_K=1, **meta)
    small = {"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 16, "GROUP_M": 8, "UNIT": 1}
    small |= {"INDEX": tl.int64, "PRECISION": "ieee"}
    combined = found(module.combine_kernel, None, pairs, None, None, 4, 2**12, WEIGHTED=False, BLOCK=4)
    assert 2**32 in combined
    backward = (None, None, pairs, None, None, None, 4, 2**12, 4)
    assert 2**32 in found(module.combine_backward_kernel, *backward, BLOCK=4)
    offsets, order = torch.tensor([0, 1], dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    described = TensorDescriptor(torch.ones(1, 16, 16), [1, 16, 16], [256, 16, 1], [1, 16, 16])
    assert 2**32 in found(
        module.grouped_kernel, None, described, torch.zeros(1, 16), pairs, offsets, 2**12, 1, 16, 16, EXPERTS=2,
        X_DESCRIBED=False, W_ALONG_K=False, K_EVEN=True, SWAPPED=False, FLATTEN=False, N_UNIT=1, **small,
    )  # fmt: skip
    given = None, None, torch.zeros(16, 16), pairs, offsets, order
    more = {"X_DESCRIBED": False, "GRAD_DESCRIBED": False}
    assert 2**32 in found(module.weight_gradient_kernel, *given, 2**12, 16, 16, 16, **more, **small)
    offsets += 2**20
    rows = far_loads(module.weight_gradient_kernel, (1,), x, *given, 16, 2**12, 16, 16, TOP_K=0, **more, **small)
    assert {2**24, 2**32} <= rows


@triton.jit
def find_kernel(offsets_ptr, out_ptr, experts, tiles_n, EXPERTS: tl.constexpr, GROUP_M: tl.constexpr):
    until = module.tiles_until(offsets_ptr, experts, EXPERTS, 4)
    tile = tl.program_id(axis=0)
    expert, begin, rows, pid_m, pid_n = module.find(tile, until, offsets_ptr, tiles_n, 4, GROUP_M)
    out_ptr += tile * 6
    tl.store(out_ptr, expert)
    tl.store(out_ptr + 1, begin)
    tl.store(out_ptr + 2, rows)
    tl.store(out_ptr + 3, pid_m)
    tl.store(out_ptr + 4, pid_n)
    tl.store(out_ptr + 5, tl.max(until, axis=0))


@given(st.lists(st.integers(0, 30), min_size=1, max_size=6), st.integers(1, 4), st.sampled_from([1, 2, 3]))
@example([27, 0, 5, 0, 16], 3, 2)
def test_tiles_come_expert_by_expert_in_the_grouped_order(counts, tiles_n, group):
    offsets, expected = torch.tensor([0, *counts]).cumsum(0).to(torch.int32), []
    total = sum(-(-rows // 4) for rows in counts)
    for expert, rows in enumerate(counts):
        tiles_m = -(-rows // 4)
        for first in range(0, tiles_m, group):
            for n in range(tiles_n):
                for m in range(first, min(first + group, tiles_m)):
                    expected.append((expert, int(offsets[expert]), rows, m, n, total))
    if expected:
        out = torch.zeros(len(expected), 6, dtype=torch.int32)
        find_kernel[(len(expected),)](offsets, out, len(counts), tiles_n, EXPERTS=8, GROUP_M=group)
        assert [tuple(row) for row in out.tolist()] == expected


def test_products_of_the_weights_gradients_are_in_float32():
    """300 * 300 is too large for float16."""
    routing = route(torch.zeros(1, 1), 1)
    weights = routing.weights.detach().requires_grad_()
    out = combine(torch.full((1, 3), 300.0).half(), routing._replace(weights=weights))
    assert torch.autograd.grad(out, weights, torch.full((1, 3), 300.0).half())[0].item() == 270000


@pytest.mark.parametrize("gather", [True, False])
@pytest.mark.parametrize("K, N", [(24, 40), (17, 9)])
def test_the_weights_gradient_reads_and_stores_what_is_there(gather, K, N):
    routing = route(logits_of(21, 4), 2)
    x, grad = whole(21 if gather else 42, K), whole(42, N, seed=1)
    with recorded_accesses() as accesses:
        found = module.weight_gradient(x, grad, routing, gather)
    check_each_once(accesses, "store", out=found)
    given = {name: getattr(routing, name) for name in ("pairs", "offsets", "order")}
    check_inside(accesses, "load", x=x, grad=grad, **given)
    rows = x[routing.pairs.long() // 2] if gather else x
    ends = routing.offsets.tolist()
    for expert, (begin, end) in enumerate(itertools.pairwise(ends)):
        assert torch.equal(found[expert], rows[begin:end].T @ grad[begin:end])


def test_gradients_in_float16():
    check_layer(70, 4, 2, 64, 24, dtype=torch.float16, tolerance=2e-3)


def test_gradients_of_any_strides():
    """Of .sum(), of a part of torch.cat, of .t(): with strides of 0, gaps, and turned."""
    random = torch.Generator().manual_seed(0)
    x, w = (torch.randn(shape, generator=random).requires_grad_() for shape in ((12, 8), (3, 8, 16)))
    routing = route(logits_of(12, 3), 2)
    rows = routing.pairs.long() // 2
    expert = torch.repeat_interleave(torch.arange(3), routing.offsets.diff().long())
    of = torch.randn(24, 16, generator=random)
    for use in (
        lambda y: y.sum(),
        lambda y: (torch.cat((y, y), 1) * torch.cat((of, -2 * of), 1)).sum(),
        lambda y: (y.t() * of.t()).sum(),
    ):
        found = torch.autograd.grad(use(grouped_matmul(x, w, routing, gather=True)), (x, w))
        wanted = torch.autograd.grad(use(torch.einsum("rk,rkn->rn", x[rows], w[expert])), (x, w))
        for a, b in zip(found, wanted, strict=True):
            assert torch.allclose(a, b, rtol=1e-4, atol=1e-4)
    y = torch.randn(24, 5, generator=random).requires_grad_()
    for use in (lambda out: out.sum(), lambda out: (out.t() * of[:12, :5].t()).sum()):
        (found,) = torch.autograd.grad(use(combine(y, routing)), y)
        plain = (y.view(24, 5)[routing.rows.long()].view(12, 2, 5) * routing.weights[:, :, None]).sum(1)
        (wanted,) = torch.autograd.grad(use(plain), y)
        assert torch.allclose(found, wanted, atol=1e-5)


def test_only_what_is_asked_for_is_computed():
    routing = route(logits_of(6, 2), 1)
    for needs, other in ((0, "weight_gradient"), (1, "add_up")):
        given = [torch.randn(6, 4), torch.randn(2, 4, 3)]
        given[needs].requires_grad_()
        with mock.patch.object(module, other, side_effect=AssertionError(other)):
            grouped_matmul(*given, routing, gather=True).sum().backward()
        assert given[needs].grad.shape == given[needs].shape and given[1 - needs].grad is None


def test_what_one_expert_gets_reaches_no_other(device):
    """NaN in the rows of an expert, in its weight and in their gradients: all others' results stay as they were."""
    tokens, count, top_k = 40, 5, 1
    routing = route(logits_of(tokens, count, device=device), top_k)
    for bad in range(count):
        x, w = whole(tokens, 24, device=device), whole(count, 24, 16, device=device, seed=1)
        x[routing.experts[:, 0] == bad], w[bad] = torch.nan, torch.nan
        x.requires_grad_(), w.requires_grad_()
        found = grouped_matmul(x, w, routing, gather=True)
        begin, end = routing.offsets[bad : bad + 2].tolist()
        mine = torch.zeros(tokens, dtype=torch.bool, device=device)
        mine[begin:end] = True
        assert found[mine].isnan().all() and not found[~mine].isnan().any()
        of_x, of_w = torch.autograd.grad(found, (x, w), torch.where(mine[:, None], torch.nan, 1.0).expand(found.shape))
        theirs = torch.arange(count, device=device) != bad
        assert of_w[bad].isnan().all() and not of_w[theirs].isnan().any()
        assert torch.equal(of_x.isnan().all(1), routing.experts[:, 0] == bad)


def test_an_expert_without_rows_has_a_gradient_of_zeros():
    _, _, (_, _, of_in, of_out) = check_layer(10, 6, 2, 8, 4, "few")
    assert not of_in[:3].any() and not of_out[:3].any() and of_in[3:].any()


def test_empty(device):
    for tokens, hidden, inner in ((0, 8, 4), (5, 0, 4), (5, 8, 0)):
        given = [
            torch.ones(shape, device=device, requires_grad=True)
            for shape in ((tokens, hidden), (tokens, 3), (3, hidden, 2 * inner), (3, inner, hidden))
        ]
        out = experts(*given, 2)
        assert out.shape == (tokens, hidden) and not out.any()
        for each, grad in zip(given, torch.autograd.grad(out.sum(), given), strict=True):
            assert grad.shape == each.shape and not grad.any()


def test_sums_are_in_float32():
    routing = route(torch.zeros(1, 4), 4)
    y = torch.tensor([[60000.0], [60000.0], [-60000.0], [4.0]]).half()
    assert combine(y, routing).item() == pytest.approx(15001, abs=8)


@pytest.mark.parametrize("precision, meant", [("highest", "IEEE"), ("high", "TF32")])
def test_the_precision_reaches_the_products(precision, meant):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        with precisions_of_dots() as seen, mock.patch.object(module, "plan", wraps=plan) as asked:
            check_layer(4, 2, 1, 8, 4)
    finally:
        torch.set_float32_matmul_precision(before)
    assert {name.upper() for name in seen} == {meant}
    assert {call.args[3] for call in asked.call_args_list} == {precision == "highest"}


@given(st.integers(1, 10_000_000), st.integers(1, 256), st.sampled_from([2, 4]), st.booleans())
def test_plans_can_be_served(rows, count, size, by_hand):
    found = plan(rows, count, size, by_hand and size == 4)
    for side in found[:3]:
        assert side >= 16 and side & (side - 1) == 0
    assert found.num_stages * (found.block_m + found.block_n) * found.block_k * size <= SHARED
    assert found.block_k * size <= 256 * 2 and found.block_n <= 256


@given(st.lists(st.integers(0, 40), min_size=1, max_size=9), st.sampled_from([1, 4, 16]))
def test_there_is_a_program_for_each_tile(counts, block):
    rows, tiles = sum(counts), sum(-(-count // block) for count in counts)
    assert tiles <= most_tiles(rows, len(counts), block) <= rows
    some = min(rows, len(counts))
    worst = [rows - some + 1, *[1] * (some - 1)] if some else []
    assert most_tiles(rows, len(counts), block) == sum(-(-count // block) for count in worst)


def test_64_bits_where_it_takes_them():
    x = torch.empty(1).expand(2**10, 2)
    for stride, wanted in ((2**20, tl.int32), (2**21, tl.int64)):
        with mock.patch.object(torch.Tensor, "stride", lambda self, axis, stride=stride: stride):
            assert module.index(x) == wanted


def test_keeps_what_a_descriptor_can_have():
    for made, along_k, same in (
        (torch.ones(2, 8, 12), False, True),
        (torch.ones(2, 12, 8).mT, True, True),
        (torch.ones(2, 8, 16)[:, :, :12], False, True),
        (torch.ones(2, 8, 10), False, False),
        (torch.ones(2, 8, 12)[:, :, ::2], False, False),
        (torch.ones(1, 8, 12).expand(2, 8, 12), False, False),
        (torch.ones(2 * 8 * 12 + 1)[1:].view(2, 8, 12), False, False),
    ):
        found, turned = module.as_described(made)
        assert turned == along_k and (found.data_ptr() == made.data_ptr()) == same
        assert torch.equal(found.mT if turned else found, made)
        assert found.stride(2) == 1 and not found.stride(1) * 4 % 16 and not found.stride(0) * 4 % 16


# Refusals

X, W = torch.ones(3, 8), torch.ones(4, 8, 5)


@pytest.fixture(scope="module")
def routing():
    return route(torch.zeros(3, 4), 2)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda _: route(torch.zeros(3), 1), r"logits must have 2 axes; got the shape \(3,\)"),
        (lambda _: route(torch.zeros(3, 257), 1), "logits has 257 experts; at most 256"),
        (lambda _: route(torch.zeros(3, 4), 0), "top_k must be an int from 1 to the 4 experts of logits; got 0"),
        (lambda _: route(torch.zeros(3, 4), 5), "top_k must be an int from 1 to the 4 experts of logits; got 5"),
        (lambda _: route(torch.zeros(3, 4), 1.0), "top_k must be an int"),
        (lambda _: route(torch.zeros(3, 4).double(), 1), "dtype torch.float64 is not supported; use one of"),
        (lambda _: route(torch.zeros(3, 4).bfloat16(), 1), "interpreter multiplies bfloat16 wrongly"),
        (lambda _: route(torch.zeros(3, 4, device="meta"), 1), "logits is on meta; kernels run on"),
        (lambda _: route(torch.zeros(3, 4).to_sparse(), 1), r"logits is torch.sparse_coo; pass logits.to_dense\(\)"),
        (lambda _: route(torch._neg_view(torch.zeros(3, 4)), 1), r"negated lazily; pass logits.resolve_neg\(\)"),
        (lambda _: route(torch.zeros(1).expand(2**28, 8), 8), r"must be below 2\*\*31"),
        (lambda r: grouped_matmul(X, W, r), r"x must be \(6, K\) and weight \(4, K, N\).*got \(3, 8\)"),
        (lambda r: grouped_matmul(X[:2], W, r, gather=True), r"x must be \(3, K\)"),
        (lambda r: grouped_matmul(X, W[:3], r, gather=True), r"weight \(4, K, N\)"),
        (lambda r: grouped_matmul(X[:, 1:], W, r, gather=True), r"got \(3, 7\) and \(4, 8, 5\)"),
        (lambda r: grouped_matmul(X.half(), W, r, gather=True), "x and weight must be of one dtype"),
        (lambda r: grouped_matmul(X[0], W, r, gather=True), "x must have 2 axes"),
        (lambda r: grouped_matmul(X, W[0], r, gather=True), "weight must have 3 axes"),
        (lambda r: grouped_matmul(X, W[:, :, :1].expand(4, 8, 2**23 + 1), r, gather=True), "8388608 at most"),
        (lambda r: combine(X, r), r"y must be \(6, N\) for this routing"),
        (lambda r: combine(torch.ones(6), r), "y must have 2 axes"),
        (lambda r: combine(torch.ones(6, 1).expand(6, 2**23 + 1), r), "8388608 at most"),
    ],
)
def test_refuses(call, words, routing):
    with pytest.raises(ValueError, match=words):
        call(routing)


def test_no_second_gradient():
    x, w = X.clone().requires_grad_(), W.clone().requires_grad_()
    logits = torch.randn(3, 4, requires_grad=True)
    routing = route(logits, 2)
    out = combine(grouped_matmul(x, w, routing, gather=True), routing)
    for each in (x, logits):
        with pytest.raises(RuntimeError, match="no gradient of their gradient"):
            torch.autograd.grad(out.sum(), each, create_graph=True)
    with pytest.raises(RuntimeError, match="no gradient of their gradient"):
        torch.autograd.grad(routing.weights[:, 0].sum(), logits, create_graph=True)


def test_under_torch_compile(device):
    given = [torch.randn(shape, device=device) for shape in ((5, 8), (5, 4), (4, 8, 12), (4, 6, 8))]
    compiled = torch.compile(lambda x, *rest: experts(x + 1, *rest, 2) * 2, backend="eager")
    assert torch.equal(compiled(*given), experts(given[0] + 1, *given[1:], 2) * 2)


CODE = """
module.check_tensors = lambda *given, **named: None
ints = lambda *shape: torch.empty(shape, dtype=torch.int32)
def routing(tokens, top_k, experts):
    pairs = tokens * top_k
    return module.Routing(torch.empty(tokens, top_k), ints(tokens, top_k), ints(pairs), ints(pairs), ints(experts + 1),
                          ints(experts))
for tokens, top_k, experts in ((16384, 2, 8), (16, 2, 8)):
    of = routing(tokens, top_k, experts)
    rows, w = torch.empty(tokens * top_k, 1024).bfloat16(), torch.empty(8, 1024, 512).bfloat16()
    module.multiply(rows[:tokens], w, of, True)
    module.multiply(rows, w, of, False)
    module.multiply(rows, w.mT.contiguous().mT, of, False)
    module.weight_gradient(rows[:tokens], rows[:, :512].contiguous(), of, True)
for experts, top_k in ((8, 2), (128, 8)):
    module.choose(torch.empty(4096, experts), top_k)
"""


def test_compiles_to_wide_loads_and_matrix_units():
    """For an H200, without one: wgmma, loads of 16 bytes, nothing spills but in what gives rows their places."""
    launches = compiled("models/experts", CODE)
    for launch in launches:
        assert launch.shared <= SHARED
        if launch.kernel in ("grouped_kernel", "weight_gradient_kernel"):
            assert "HGMMA" in launch.sass and launch.spills == 0
            assert launch.widths("LDGSTS") <= {128} or launch.kernel == "weight_gradient_kernel"
        else:
            assert launch.spills <= 8
    assert [launch.kernel for launch in launches[:4]] == ["grouped_kernel"] * 3 + ["weight_gradient_kernel"]


# On a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "shape", [(1000, 8, 2, 256, 512), (300, 128, 8, 128, 96), (200, 5, 3, 72, 40), (16, 8, 2, 64, 9)]
)
def test_right_gpu(shape, dtype):
    for choice in ("any", "one", "few"):
        check_layer(*shape, choice, "cuda", dtype, tolerance=2e-2 if dtype == torch.bfloat16 else 3e-3)


@pytest.mark.gpu
def test_right_gpu_in_float32():
    before = torch.get_float32_matmul_precision()
    try:
        for precision, tolerance in (("highest", 1e-5), ("high", 3e-3)):
            torch.set_float32_matmul_precision(precision)
            check_layer(300, 8, 2, 128, 72, device="cuda", tolerance=tolerance)
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.gpu
def test_in_a_graph_without_a_wait_the_same_bits():
    given, found, _ = check_layer(500, 16, 4, 256, 128, "one", "cuda", torch.bfloat16, tolerance=2e-2)
    given, of = [x.detach() for x in given], torch.randn_like(found)

    def run():
        leaves = [x.detach().requires_grad_() for x in given]  # what a graph differentiates must be made in it
        out = experts(*leaves, 4)
        return out.detach(), *torch.autograd.grad(out, leaves, of)

    expected = run()
    torch.cuda.set_sync_debug_mode("error")
    try:
        again = run()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        replayed = run()
    graph.replay()
    torch.cuda.synchronize()
    for results in zip(expected, again, replayed, strict=True):
        assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])


@pytest.mark.gpu
def test_more_than_2_31_elements_gpu():
    x = torch.zeros(2**17 + 3, 2**14, dtype=torch.float16, device="cuda")
    x[-1] = 1
    logits = torch.zeros(len(x), 2, device="cuda")
    logits[-1, 1] = 1
    w = torch.ones(2, 2**14, 16, dtype=torch.float16, device="cuda") / 2**14
    y = grouped_matmul(x, w, route(logits, 1), gather=True)
    assert y[-1].tolist() == [1] * 16 and not y[:-1].any()
