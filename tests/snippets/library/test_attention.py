# SPDX-License-Identifier: Apache-2.0
"""Attention to copy: result, lse and gradients of torch in float64 with a mask of who sees what, for every option, and
any shape, dtype and strides, in a batch and packed; what is hidden may be NaN; tiles that nobody sees are not loaded.
"""

import contextlib
import math
from unittest import mock

import pytest
import torch
from compiled import SHARED, compiled
from guards import check_inside, recorded_accesses
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from snippets.library import attention as snippet
from snippets.library.attention import attention, attention_variable, in_torch

SMALL = {"BLOCK_Q": 16, "BLOCK_K": 16, "num_warps": 4, "num_stages": 2}
LAYOUTS = {  # of a tensor (batch, heads, rows, width) of this shape
    "contiguous": lambda t: t.clone(),
    "rows before heads": lambda t: t.transpose(1, 2).contiguous().transpose(1, 2),
    "one of three": lambda t: torch.stack([-t, t, 2 * t], dim=3)[:, :, :, 1],
    "columns": lambda t: t.mT.contiguous().mT,
    "stride 0": lambda t: t[:, :, :1].expand(t.shape),
}
DISTINCT = [name for name in LAYOUTS if name != "stride 0"]


@pytest.fixture
def small_tiles():
    """Several tiles to each head, though it is short."""
    with mock.patch.object(snippet, "default_tile", lambda *_: SMALL):
        yield


def numbers(*shape, dtype=torch.float64, device="cpu", seed=0):
    """Return normal numbers between NaN, so that what is read beyond the ends shows."""
    random = torch.Generator().manual_seed(seed)
    made = torch.randn(shape, generator=random, dtype=torch.float64).to(device, dtype)
    around = made.new_full((16,), math.nan)
    return torch.cat([around, made.flatten(), around])[16 : 16 + made.numel()].view(shape)


def tolerance(dtype):
    return {torch.float64: 1e-10, torch.float32: 5e-5, torch.float16: 1e-2, torch.bfloat16: 6e-2}[dtype]


def with_gradients(function, tensors, grads, **options):
    """Return result, lse, and gradients of the leaves: q, k, v, and sinks if there are such."""
    leaves = [x.detach().requires_grad_() for x in tensors if x is not None]
    if len(leaves) > 3:
        options["sinks"] = leaves[3]
    out, lse = function(*leaves[:3], **options)
    known = torch.where(lse.detach() == -math.inf, 0, lse)  # no gradient where nothing is seen
    outs = [out, known]
    return [
        out.detach(),
        lse.detach(),
        *torch.autograd.grad(outs, leaves, [g.to(o.dtype) for g, o in zip(grads, outs, strict=False)]),
    ]


def compare(found, wanted, dtype):
    names = "out", "lse", "grad_q", "grad_k", "grad_v", "grad_sinks"
    for name, ours, exact in zip(names, found, wanted, strict=False):
        assert ours.shape == exact.shape, name
        same = ours.double() == exact  # -inf, where nothing is seen
        scale = exact[exact.isfinite()].abs().max().clamp(min=1) if exact.isfinite().any() else 1
        near = (ours.double() - exact).abs() <= tolerance(dtype) * scale
        assert (same | near).all(), f"{name}: {ours[~(same | near)][:3]}, should be {exact[~(same | near)][:3]}"


def check(q, k, v, grad, grad_lse, sinks=None, **options):
    """Compare with torch in float64."""
    dtype = q.dtype
    ours = lambda *given, **options: attention(*given, return_lse=True, **options)
    found = with_gradients(ours, (q, k, v, sinks), (grad, grad_lse), **options)
    assert found[0].dtype == dtype and found[0].is_contiguous()
    wide = [None if x is None else x.double() for x in (q, k, v, sinks)]
    options = {name: x.double() if isinstance(x, torch.Tensor) else x for name, x in options.items()}
    compare(found, with_gradients(in_torch, wide, (grad.double(), grad_lse.double()), **options), dtype)


def inputs(batch=1, heads=2, kv_heads=1, queries=20, keys=37, head_dim=16, value_dim=16, **options):
    """Return q, k, v, and the gradients of the result and of lse."""
    shapes = [(heads, queries, head_dim), (kv_heads, keys, head_dim), (kv_heads, keys, value_dim)]
    shapes += [(heads, queries, value_dim), (heads, queries)]
    return [numbers(batch, *shape, seed=i, **options) for i, shape in enumerate(shapes)]


OPTIONS = {
    "none": {},
    "causal": {"causal": True},
    "top left": {"causal": True, "top_left": True},
    "window": {"window": (7, 3)},
    "window, top left": {"window": (20, 2), "top_left": True},
    "left only": {"window": (18, None)},
    "narrow": {"window": (0, 0)},
    "causal window": {"window": (17, None), "causal": True},
    "softcap": {"softcap": 1.5, "scale": 0.7},
    "scale below 0": {"scale": -0.4, "causal": True},
    "scale 0": {"scale": 0.0},
    "slopes": {"slopes": (2,), "causal": True},
    "slopes of a batch": {"slopes": (2, 2), "top_left": True},
    "bias": {"bias": (2, 2, 20, 37), "causal": True},
    "bias of keys": {"bias": (37,), "softcap": 2.0},
    "bias of heads": {"bias": (2, 1, 1), "window": (5, 5)},
    "sinks": {"sinks": True, "causal": True},
    "everything": {
        "window": (9, 4), "softcap": 3.0, "slopes": (2,), "bias": (2, 1, 20, 37), "sinks": True, "scale": 0.5,
    },
}  # fmt: skip


def made(options, dtype, device):
    """Return options with numbers in place of shapes."""
    given = dict(options)
    if "slopes" in given:
        given["alibi_slopes"] = numbers(*given.pop("slopes"), dtype=dtype, device=device, seed=7).abs()
    if "bias" in given:
        given["bias"] = numbers(*given["bias"], dtype=dtype, device=device, seed=8)
    if given.pop("sinks", False):
        given["sinks"] = numbers(2, dtype=dtype, device=device, seed=9)
    return given


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16], ids=["pointers", "descriptors"])
@pytest.mark.parametrize("queries, keys", [(20, 37), (37, 20)])
def test_every_option(device, small_tiles, name, dtype, queries, keys):
    batch = 2 if {"slopes", "bias", "sinks"} & {*OPTIONS[name]} or name == "none" else 1  # no other differs by batch
    sizes = {"batch": batch, "queries": queries, "keys": keys, "dtype": dtype, "device": device}
    sizes |= {"head_dim": 64, "value_dim": 64} if dtype == torch.float16 else {"head_dim": 24, "value_dim": 40}
    options = dict(OPTIONS[name])
    if "bias" in options:  # of 20 queries and 37 keys
        options["bias"] = tuple({20: queries, 37: keys}.get(size, size) for size in options["bias"])
    check(*inputs(**sizes), **made(options, dtype, device))


sizes = st.integers(1, 40)
limits = st.none() | st.integers(0, 45)


@settings(max_examples=15, phases=[Phase.explicit, Phase.generate])  # to shrink one takes minutes, interpreted
@given(
    queries=sizes, keys=sizes, kv_heads=st.integers(1, 2), group=st.integers(1, 2), head_dim=st.integers(1, 40),
    value_dim=st.integers(1, 40), window=st.tuples(limits, limits), causal=st.booleans(), top_left=st.booleans(),
    layouts=st.tuples(*[st.sampled_from(list(LAYOUTS))] * 4), softcap=st.sampled_from([None, 2.0]),
    sinks=st.booleans(), bias=st.booleans(), dtype=st.sampled_from([torch.float16, torch.float32, torch.float64]),
)  # fmt: skip
def test_any_shape_window_layout_and_dtype(
    device, queries, keys, kv_heads, group, head_dim, value_dim, window, causal, top_left, layouts, softcap, sinks,
    bias, dtype,
):  # fmt: skip
    heads = kv_heads * group
    options = {"dtype": dtype, "device": device}
    given = inputs(2, heads, kv_heads, queries, keys, head_dim, value_dim, **options)
    given[:4] = [LAYOUTS[layout](x) for layout, x in zip(layouts, given[:4], strict=True)]
    tensors = {"sinks": numbers(heads, **options)} if sinks else {}
    tensors |= {"bias": numbers(heads, queries, 1, **options)} if bias else {}
    with mock.patch.object(snippet, "default_tile", lambda *_: SMALL):
        check(*given, causal=causal, window=window, top_left=top_left, softcap=softcap, **tensors)


@pytest.mark.parametrize("block_q, block_k", [(16, 32), (32, 16)])
def test_tiles_that_are_not_square(device, block_q, block_k):
    tile = SMALL | {"BLOCK_Q": block_q, "BLOCK_K": block_k}
    with mock.patch.object(snippet, "default_tile", lambda *_: tile):
        for window in ((None, 0), (30, 5), (10, None), (3, 40)):
            check(*inputs(queries=70, keys=90, device=device), window=window)


@pytest.mark.parametrize("limit", [0, 1, 15, 16, 17])
def test_where_a_window_crosses_a_tile(device, small_tiles, limit):
    """Of tiles of 16: which are gone through, and which are whole, is right to a row and a column."""
    for window in ((None, limit), (limit, None)):
        for queries in (33, 34):
            check(*inputs(heads=1, queries=queries, keys=33, device=device), window=window)


# Packed sequences


def packed(lengths_q, lengths_k, heads=2, kv_heads=1, head_dim=16, value_dim=16, after=3, **options):
    """Return q, k, v and gradients of sequences, with rows after the last one."""
    total_q, total_k = sum(lengths_q) + after, sum(lengths_k) + after
    shapes = [(total_q, heads, head_dim), (total_k, kv_heads, head_dim), (total_k, kv_heads, value_dim)]
    shapes += [(total_q, heads, value_dim), (heads, total_q)]
    return [numbers(*shape, seed=i, **options) for i, shape in enumerate(shapes)]


def begins(lengths, device, dtype=torch.int32):
    return torch.tensor([0, *lengths], device=device).cumsum(0).to(dtype)


def by_sequence(lengths_q, lengths_k):
    """Return a function of packed rows that attends sequence by sequence, by torch."""

    def run(q, k, v, sinks=None, **options):
        outs, lses, rows = [], [], [len(q) - sum(lengths_q), len(k) - sum(lengths_k)]
        cut = lambda x, lengths, after: x.transpose(0, 1)[None].split([*lengths, after], dim=2)
        parts = zip(cut(q, lengths_q, rows[0]), cut(k, lengths_k, rows[1]), cut(v, lengths_k, rows[1]), strict=True)
        for i, (one_q, one_k, one_v) in enumerate(parts):
            if i == len(lengths_q):  # what follows the last sequence sees nothing
                one_k, one_v = one_k[:, :, :0], one_v[:, :, :0]
            out, lse = in_torch(one_q, one_k, one_v, sinks=sinks, **options)
            outs.append(out[0].transpose(0, 1))
            lses.append(lse[0])
        return torch.cat(outs), torch.cat(lses, dim=1)

    return run


def check_packed(lengths_q, lengths_k, given, cu_dtype=torch.int32, sinks=None, **options):
    q, k, v, grad, grad_lse = given
    cu = [begins(lengths, q.device, cu_dtype) for lengths in (lengths_q, lengths_k)]
    ours = lambda q, k, v, **options: attention_variable(q, k, v, *cu, return_lse=True, **options)
    found = with_gradients(ours, (q, k, v, sinks), (grad, grad_lse), **options)
    assert all(x.is_contiguous() for x in (found[0], *found[2:]))
    wide = [None if x is None else x.double() for x in (q, k, v, sinks)]
    options = {name: x.double() if isinstance(x, torch.Tensor) else x for name, x in options.items()}
    reference = by_sequence(lengths_q, lengths_k)
    compare(found, with_gradients(reference, wide, (grad.double(), grad_lse.double()), **options), q.dtype)


@pytest.mark.parametrize("name", ["none", "causal", "top left", "window", "softcap", "slopes", "sinks"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16], ids=["pointers", "descriptors"])
def test_every_option_packed(device, small_tiles, name, dtype):
    width = 64 if dtype == torch.float16 else 24
    lengths = [17, 0, 1, 33], [20, 5, 0, 16]
    given = packed(*lengths, head_dim=width, value_dim=width, dtype=dtype, device=device)
    check_packed(*lengths, given, **made(OPTIONS[name], dtype, device))


@settings(max_examples=8, phases=[Phase.explicit, Phase.generate])
@given(
    lengths=st.lists(st.tuples(st.integers(0, 36), st.integers(0, 36)), min_size=1, max_size=4),
    after=st.integers(0, 20), window=st.tuples(limits, limits), top_left=st.booleans(),
    cu_dtype=st.sampled_from([torch.int32, torch.int64]),
)  # fmt: skip
def test_any_lengths(device, lengths, after, window, top_left, cu_dtype):
    of_q, of_k = map(list, zip(*lengths, strict=True))
    given = packed(of_q, of_k, heads=1, after=after, device=device)
    with mock.patch.object(snippet, "default_tile", lambda *_: SMALL):
        check_packed(of_q, of_k, given, cu_dtype, window=window, top_left=top_left)


@pytest.mark.parametrize("cu", [[0, 9, 3, 40], [5, -7, 90, 2], [0, 2**31 - 1, 5, 7]])
def test_wrong_lengths_touch_nothing_else(device, small_tiles, cu):
    q, k, v, _, _ = packed([20], [20], device=device)
    cu = torch.tensor(cu, dtype=torch.int64, device=device)
    seen = recorded_accesses() if device == "cpu" else contextlib.nullcontext()
    with seen:
        out = attention_variable(q, k, v, cu, cu)
    assert out.shape == (23, 2, 16)


# What is hidden may be anything


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["pointers", "descriptors"])
def test_what_a_query_does_not_see_does_not_reach_it(device, small_tiles, bad, dtype):
    """A bad key 20 of 40, in a window of 4 back and 2 ahead: queries 18 to 24 see it, and they see keys 14 to 26."""
    width = 64 if dtype == torch.float16 else 16
    q, k, v, grad, _ = inputs(queries=40, keys=40, head_dim=width, value_dim=width, dtype=dtype, device=device)
    run = lambda k, v: with_gradients(
        lambda *given: attention(*given, window=(4, 2), return_lse=True), (q, k, v), (grad, grad[..., 0])
    )
    wanted = run(k, v)
    for where in "kv":
        k_bad, v_bad = k.clone(), v.clone()
        (k_bad if where == "k" else v_bad)[:, :, 20, 3] = bad
        out, _, grad_q, grad_k, grad_v = run(k_bad, v_bad)
        reached = torch.zeros(40, dtype=torch.bool, device=device)
        reached[18:25] = True
        assert out[:, :, ~reached].equal(wanted[0][:, :, ~reached])
        assert grad_q[:, :, ~reached].equal(wanted[2][:, :, ~reached])
        if where == "v" or math.isnan(bad):  # of an infinite key, the score may be -inf
            assert not out[:, :, reached].isfinite().all(-1).any(), "who sees it must not get a number"
        near = torch.zeros_like(reached)
        near[14:27] = True
        for each, right in ((grad_k, wanted[3]), (grad_v, wanted[4])):
            assert torch.allclose(each[:, :, ~near].float(), right[:, :, ~near].float(), atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["pointers", "descriptors"])
def test_one_sequence_does_not_reach_another(device, small_tiles, dtype):
    """All of the second sequence, and what follows, is NaN: keys, values, queries and gradients."""
    width = 64 if dtype == torch.float16 else 16
    lengths = [19, 9], [21, 9]
    given = packed(*lengths, head_dim=width, value_dim=width, dtype=dtype, device=device)
    cu = [begins(each, device) for each in lengths]
    run = lambda q, k, v, grad, grad_lse: with_gradients(
        lambda *each: attention_variable(*each, *cu, causal=True, return_lse=True), (q, k, v), (grad, grad_lse)
    )
    wanted = run(*given)
    for x, first in zip(given[:4], (19, 21, 21, 19), strict=True):
        x[first:] = math.nan
    found = run(*given)
    assert found[1][:, :19].equal(wanted[1][:, :19])
    for index, first in ((0, 19), (2, 19), (3, 21), (4, 21)):
        assert found[index][:first].equal(wanted[index][:first])
        if index != 0:
            assert found[index][first : first + 9].isnan().any()


def loads(seen, tensor) -> int:
    begin = tensor.data_ptr()
    end = begin + tensor.numel() * tensor.element_size()
    return sum(((a >= begin) & (a < end)).sum().item() for kind, a in seen if kind == "load")


@pytest.mark.parametrize(
    "options, tiles",
    [
        ({}, 16),
        ({"causal": True}, 10),
        ({"window": (16, 0)}, 7),
        ({"window": (17, 0)}, 9),
        ({"window": (15, 16)}, 10),
        ({"window": (0, 0)}, 4),
    ],
)
def test_tiles_that_nobody_sees_are_not_loaded(small_tiles, options, tiles):
    """64 queries and keys by tiles of 16: how many tiles of 16 are gone through, by each of the three kernels."""
    q, k, v, grad, _ = inputs(heads=1, queries=64, keys=64, dtype=torch.float32)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    with recorded_accesses() as seen:
        out = attention(*leaves, **options)
    assert [loads(seen, x) for x in (q, k, v)] == [64 * 16, tiles * 256, tiles * 256]
    with recorded_accesses() as seen:
        out.backward(grad)
    assert [loads(seen, x) for x in (q, k, v, grad)] == [64 * 16 + tiles * 256] * 4


@pytest.mark.parametrize("pack", [False, True], ids=["batch", "packed"])
def test_nothing_else_is_touched(small_tiles, pack):
    """Each load and store is inside of a tensor, with lengths that fill no tile, forward and backward."""
    made = []

    def noted(function):
        def run(*given, **options):
            found = function(*given, **options)
            made.extend(found if isinstance(found, tuple) else [found])
            return found

        return run

    if pack:
        *given, grad, grad_lse = packed([19, 2], [21, 5], after=0)
        options = {"alibi_slopes": numbers(2)}
        given += [begins([19, 2], "cpu"), begins([21, 5], "cpu")]
        function = attention_variable
    else:
        *given, grad, grad_lse = inputs(queries=19, keys=21)
        options = {"alibi_slopes": numbers(2), "bias": numbers(19, 21)}
        function = attention
    leaves = [x.requires_grad_() for x in given[:3]]
    sinks = numbers(2).requires_grad_()
    notes = mock.patch.multiple(snippet, outputs=noted(snippet.outputs), like=noted(snippet.like))
    with notes, mock.patch.object(torch, "empty_like", noted(torch.empty_like)), recorded_accesses() as seen:
        outs = function(*given, window=(9, 3), sinks=sinks, return_lse=True, **options)
        torch.autograd.grad(outs, [*leaves, sinks], [grad, grad_lse])
    tensors = [*given, grad, grad_lse, sinks, *options.values(), *made]
    named = {str(number): x.detach() for number, x in enumerate(tensors)}
    check_inside(seen, "load", **named)
    check_inside(seen, "store", **named)


# PyTorch's manners


def test_equal_inputs_give_equal_bits(device, small_tiles):
    q, k, v, grad, grad_lse = inputs(heads=4, device=device, dtype=torch.float32)
    sinks = numbers(4, device=device, dtype=torch.float32)
    ours = lambda *given, **options: attention(*given, causal=True, return_lse=True, **options)
    first, second = (with_gradients(ours, (q, k, v, sinks), (grad, grad_lse)) for _ in range(2))
    assert all(map(torch.equal, first, second))


def test_gradcheck(device):
    q, k, v, _, _ = (x.requires_grad_() for x in inputs(queries=3, keys=5, device=device))
    sinks = numbers(2, device=device).requires_grad_()
    run = lambda q, k, v, sinks: attention(q, k, v, sinks=sinks, window=(2, 1), softcap=2.0, return_lse=True)
    assert torch.autograd.gradcheck(run, (q, k, v, sinks), fast_mode=True)


def test_one_of_two_results_has_a_gradient(device):
    q, k, v, _, _ = inputs(device=device)
    for index in range(2):
        leaf, wide = q.clone().requires_grad_(), q.clone().requires_grad_()
        attention(leaf, k, v, return_lse=True)[index].sum().backward()
        in_torch(wide, k, v)[index].sum().backward()
        assert torch.allclose(leaf.grad, wide.grad)


def test_functional_gradients_and_what_is_refused_in_words(device):
    q, k, v, _, _ = inputs(device=device)
    loss = lambda q: attention(q, k, v).square().sum()
    leaf = q.clone().requires_grad_()
    assert torch.equal(torch.func.grad(loss)(q), torch.autograd.grad(loss(leaf), leaf)[0])
    with pytest.raises(NotImplementedError, match=r"not mapped by torch\.vmap; it takes a batch"):
        torch.func.vmap(attention)(q[None], k[None], v[None])
    (grad,) = torch.autograd.grad(loss(leaf), leaf, create_graph=True)
    with pytest.raises(RuntimeError, match="no gradient of its gradient"):
        grad.sum().backward()


@pytest.mark.parametrize("name", ["causal", "window", "everything"])
def test_compiled_without_a_break(device, name):
    q, k, v, grad, grad_lse = inputs(batch=2, device=device, dtype=torch.float32)
    options = made(OPTIONS[name], torch.float32, device)
    sinks = options.pop("sinks", None)
    function = lambda *given, **more: attention(*given, return_lse=True, **options, **more)
    backend = "inductor" if device == "cuda" else "aot_eager"
    both = function, torch.compile(function, fullgraph=True, backend=backend)
    found, wanted = (with_gradients(each, (q, k, v, sinks), (grad, grad_lse)) for each in both)
    for a, b in zip(found, wanted, strict=True):
        assert torch.allclose(a, b, atol=1e-5)


def test_packed_and_compiled_without_a_break(device):
    q, k, v, grad, grad_lse = packed([20, 3], [7, 12], device=device, dtype=torch.float32)
    cu = begins([20, 3], device), begins([7, 12], device)
    function = lambda *given: attention_variable(*given, *cu, causal=True, return_lse=True)
    backend = "inductor" if device == "cuda" else "aot_eager"
    both = function, torch.compile(function, fullgraph=True, backend=backend)
    found, wanted = (with_gradients(each, (q, k, v), (grad, grad_lse)) for each in both)
    for a, b in zip(found, wanted, strict=True):
        assert torch.allclose(a, b, atol=1e-5)


def test_autocast_rounds_first_as_torch_does(device):
    q, k, v, _, _ = inputs(dtype=torch.float32, device=device)
    with torch.autocast(device, dtype=torch.float16):
        out = attention(q, k.half(), v.requires_grad_())
    assert out.dtype == torch.float16
    out.sum().backward()
    assert v.grad.dtype == torch.float32
    assert torch.equal(out, attention(q.half(), k.half(), v.half()))


def test_numbers_of_any_kind(device):
    q, k, v, _, _ = inputs(device=device)
    assert torch.equal(attention(q, k, v, scale=torch.tensor(0.25)), attention(q, k, v))
    assert torch.equal(attention(q, k, v, window=(-1, 0), softcap=0), attention(q, k, v, causal=True))
    assert torch.equal(attention(q, k, v, window=(torch.tensor(3), 0)), attention(q, k, v, window=(3, None), causal=1))


@pytest.mark.parametrize("shape", [(0, 2, 1, 2, 3), (1, 0, 0, 2, 3), (1, 2, 1, 0, 3), (1, 2, 1, 2, 0)])
def test_empty(device, shape):
    q, k, v, grad, _ = inputs(*shape, device=device)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    sinks = torch.zeros(shape[1], device=device, dtype=torch.float64, requires_grad=True)
    out = attention(*leaves, causal=True, sinks=sinks)
    out.backward(grad)
    assert out.shape == grad.shape and not out.any()
    assert not any(x.grad.any() for x in (*leaves, sinks))


x = torch.ones(1, 4, 6, 16)
y = torch.ones(1, 2, 6, 16)
cu = torch.tensor([0, 3, 6])
rows = torch.ones(6, 2, 16)
REFUSED = {
    "q must be (batch, heads, rows, width); got the shape (4, 6, 16)": lambda: attention(x[0], x, x),
    "q, k and v are torch.float32, torch.float64 and torch.float32": lambda: attention(x, x.double(), x),
    "q is torch.int32; use one of": lambda: attention(x.int(), x.int(), x.int()),
    "head_dim 264 is not supported; 1 to 256 are": lambda: attention(*[torch.ones(1, 1, 2, 264)] * 3),
    "value_dim 300 is not supported": lambda: attention(x, x, torch.ones(1, 4, 6, 300)),
    "q and k must have the same batch and head_dim": lambda: attention(x, x[..., :8], x),
    "v must have the shape of k but for its width": lambda: attention(x, x, y),
    "the 4 heads of q must be a multiple of the 3": lambda: attention(x, x[:, :3], x[:, :3]),
    "window must be (left, right), whole numbers or None; got 3": lambda: attention(x, x, x, window=3),
    "window must be of numbers from 0 on": lambda: attention(x, x, x, window=(-2, 0)),
    "softcap must be above 0": lambda: attention(x, x, x, softcap=-1.0),
    "scale must be a number, not on a GPU; got 'big'": lambda: attention(x, x, x, scale="big"),
    "sinks must be contiguous, of the shape (4,)": lambda: attention(x, x, x, sinks=torch.ones(2)),
    "alibi_slopes must be of the shape (4,) or (1, 4)": lambda: attention(x, x, x, alibi_slopes=torch.ones(2)),
    "bias must broadcast to (1, 4, 6, 6); got (5, 6)": lambda: attention(x, x, x, bias=torch.ones(5, 6)),
    "bias gets no gradient here; pass bias.detach()": lambda: attention(
        x, x, x, bias=torch.ones(6, 6, requires_grad=True)
    ),
    "pass torch.where(mask, 0.0, -math.inf)": lambda: attention(x, x, x, bias=torch.ones(6, 6) > 0),
    "q is on cpu and k on meta": lambda: attention(x, x.to("meta"), x),
    "cu_seqlens_q must be int32 or int64": lambda: attention_variable(rows, rows, rows, cu.float(), cu),
    "cu_seqlens_q has 3 numbers and cu_seqlens_k 2": lambda: attention_variable(rows, rows, rows, cu, cu[:2]),
    "5000 sequences are too many": lambda: attention_variable(rows, rows, rows, *[torch.zeros(5001).int()] * 2),
    "rounds bfloat16 wrongly": lambda: attention(*[x.bfloat16()] * 3),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refuses_in_words(message):
    with pytest.raises(ValueError) as error:
        REFUSED[message]()
    assert message in str(error.value)


# Compiled

CODE = """
widths = (128, 128), (64, 64), (192, 128), (80, 80), (256, 256)
for number, (head_dim, value_dim) in enumerate(widths):
    module.has_tma = lambda device: number > 0
    make = lambda heads, width: torch.empty(1, heads, 4096, width).bfloat16()
    q, k, v = make(4, head_dim), make(2, head_dim), make(2, value_dim)
    given = None, None, None, None, None, 0.125, None, None, 0, False
    out, lse = module.attention_forward(q, k, v, *given)
    module.attention_backward(out, None, q, k, v, out, lse, *given)
"""


@pytest.mark.long
def test_compiles_to_matrix_units_and_wide_loads():
    launches = compiled("library/attention", CODE)
    assert [launch.kernel for launch in launches] == ["attention_kernel", "grad_q_kernel", "grad_k_v_kernel"] * 5
    assert all("HGMMA" in launch.sass and launch.shared <= SHARED for launch in launches)
    assert all("LDGSTS.E.BYPASS.128" in launch.sass for launch in launches[:3])
    assert all("UTMALDG" in launch.sass for launch in launches[3:])


# On a GPU alone

WIDTHS = [(40, 40), (64, 64), (72, 72), (80, 80), (96, 96), (112, 112), (128, 128), (160, 160), (192, 128), (256, 256)]
WIDTHS += [(23, 6), (64, 16), (100, 7)]  # of which Triton 3.6 makes wrong code, with values in 16 columns


@pytest.mark.gpu
@pytest.mark.parametrize("head_dim, value_dim", WIDTHS)
def test_real_widths(head_dim, value_dim):
    sizes = {"batch": 2, "heads": 4, "kv_heads": 2, "queries": 900, "keys": 977, "device": "cuda"}
    given = inputs(**sizes, head_dim=head_dim, value_dim=value_dim, dtype=torch.bfloat16)
    check(*given, window=(600, 0))


@pytest.mark.gpu
@pytest.mark.parametrize("head_dim", [64, 96, 256])
@pytest.mark.parametrize("dtype", snippet.DTYPES)
def test_real_dtypes(dtype, head_dim):
    length = 150 if dtype == torch.float64 else 900
    sizes = {"batch": 2, "heads": 4, "kv_heads": 2, "queries": length, "keys": length + 77, "device": "cuda"}
    check(*inputs(**sizes, head_dim=head_dim, value_dim=head_dim, dtype=dtype), causal=True)


@pytest.mark.gpu
@pytest.mark.parametrize("head_dim, value_dim", [(64, 64), (128, 128), (192, 128)])
def test_real_lengths_packed(head_dim, value_dim):
    lengths = [300, 0, 1, 1030, 77]
    given = packed(lengths, lengths, 4, 2, head_dim, value_dim, dtype=torch.bfloat16, device="cuda")
    check_packed(lengths, lengths, given, torch.int64, window=(400, 0), sinks=numbers(4, device="cuda").bfloat16())


@pytest.mark.gpu
@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_in_bfloat16(name):
    given = inputs(batch=2, head_dim=128, value_dim=128, dtype=torch.bfloat16, device="cuda")
    check(*given, **made(OPTIONS[name], torch.bfloat16, "cuda"))


@pytest.mark.gpu
def test_more_than_2_to_the_31_elements():
    if torch.cuda.mem_get_info()[0] < 60e9:
        pytest.skip("needs 60 GB of free GPU memory")
    q = torch.zeros(2, 2**11, 2**13, 128, dtype=torch.float16, device="cuda")
    k = numbers(1, 1, 64, 128, dtype=torch.float16, device="cuda").expand(2, 1, 64, 128).contiguous()
    q[-1, -1, -3:] = numbers(3, 128, dtype=torch.float16, device="cuda", seed=1)
    out = attention(q, k, k)
    wanted, _ = in_torch(q[-1:, -1:, -3:].double(), k[-1:].double(), k[-1:].double())
    assert torch.allclose(out[-1:, -1:, -3:].double(), wanted, atol=1e-2)
