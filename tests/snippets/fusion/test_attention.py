# SPDX-License-Identifier: Apache-2.0
"""``attention``: result and gradients of torch in float64, whatever the lengths, heads, dtypes and strides, also those
of the incoming gradient; nothing else is touched; the same bits each time; through the custom op and the compiler, too.
"""

import contextlib
import math
from unittest import mock

import pytest
import torch
from compiled import SHARED, compiled
from guards import (
    Guarded,
    check_each_once,
    check_inside,
    handed_out,
    nan_as_on_a_gpu,
    precisions_of_dots,
    recorded_accesses,
    without_memory,
)
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from triton.runtime.interpreter import interpreter_builder as builder

from snippets.fusion import attention as snippet
from snippets.fusion.attention import attention, attention_backward_op, attention_op

SMALL = {"BLOCK_Q": 16, "BLOCK_K": 16, "num_warps": 4, "num_stages": 2}
functions = pytest.mark.parametrize(
    "function",
    [attention, lambda q, k, v, causal=False: attention_op(q, k, v, q.shape[-1] ** -0.5, causal)[0]],
    ids=["function", "op"],
)

LAYOUTS = {  # of a tensor (batch, heads, rows, head_dim) of this shape
    "contiguous": lambda t: t.clone(),
    "rows before heads": lambda t: t.transpose(1, 2).contiguous().transpose(1, 2),
    "one of three": lambda t: torch.stack([-t, t, 2 * t], dim=3)[:, :, :, 1],
    "columns": lambda t: t.mT.contiguous().mT,
    "flipped sign": lambda t: torch._neg_view(-t),
}


def served(device):
    return [dtype for dtype in snippet.DTYPES if device == "cuda" or dtype != torch.bfloat16]


def numbers(*shape, dtype=torch.float32, device="cpu", seed=0, scale=1.0):
    random = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=random, dtype=torch.float64) * scale).to(device, dtype)


def inputs(batch, heads, kv_heads, queries, keys, head_dim=16, dtype=torch.float32, device="cpu", seed=0, scale=1.0):
    """q, k, v and an incoming gradient."""
    rows = (heads, queries), (kv_heads, keys), (kv_heads, keys), (heads, queries)
    options = {"dtype": dtype, "device": device, "scale": scale}
    return [numbers(batch, *shape, head_dim, seed=4 * seed + i, **options) for i, shape in enumerate(rows)]


def gradients(function, q, k, v, grad, **options):
    """Result and three gradients, of leaves that lie in memory as the arguments do."""
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    out = function(*leaves, **options)
    return [out.detach(), *torch.autograd.grad(out, leaves, grad)]


def reference(q, k, v, causal=False, scale=None):
    """By torch; zeros, and no gradient, where a query sees no key."""
    queries, keys = q.shape[2], k.shape[2]
    blind = min(max(queries - keys, 0), queries) if causal or not keys else 0
    blind = queries if not keys else blind
    out = snippet.in_torch(q[:, :, blind:], k, v, causal, scale)
    return torch.cat([torch.zeros_like(q[:, :, :blind]), out], dim=2)


def tolerance(dtype):
    return {torch.float64: 1e-12, torch.float32: 2e-5, torch.float16: 8e-3, torch.bfloat16: 6e-2}[dtype]


def check(function, q, k, v, grad, **options):
    """Compare with torch in float64; errors are against the largest number of a tensor, for sums cancel."""
    found = gradients(function, q, k, v, grad, **options)
    exact = gradients(reference, *(x.double() for x in (q, k, v, grad)), **options)
    for name, actual, expected in zip(("out", "grad_q", "grad_k", "grad_v"), found, exact, strict=True):
        assert (actual.shape, actual.dtype, actual.is_contiguous()) == (expected.shape, q.dtype, True), name
        allowed = tolerance(q.dtype) * max(expected.abs().max().item() if expected.numel() else 0, 1)
        wrong = ((actual.double() - expected).abs() <= allowed).logical_not()  # a NaN is wrong, too
        assert not wrong.any(), f"{name}: {actual[wrong][:3]}, should be {expected[wrong][:3]}"


@contextlib.contextmanager
def tiles_of(tile):
    """Several tiles to each head, though it is short."""
    with mock.patch.object(snippet, "default_tile", lambda *_: tile):
        yield


@settings(max_examples=12, phases=[Phase.explicit, Phase.generate])  # to shrink one takes minutes, interpreted
@example(1, (2, 2), 17, 33, True, ("contiguous",) * 4, 0, None)
@example(1, (1, 1), 33, 17, True, ("contiguous",) * 4, 1, None)  # the first 16 queries see no key
@example(2, (4, 2), 18, 18, True, ("rows before heads", "one of three", "columns", "columns"), 2, None)
@example(1, (1, 1), 5, 32, False, ("flipped sign", "columns", "rows before heads", "one of three"), 3, None)
@given(
    batch=st.integers(1, 2),
    heads=st.sampled_from([(1, 1), (2, 1), (2, 2)]),
    queries=st.integers(1, 35),
    keys=st.integers(1, 35),
    causal=st.booleans(),
    layouts=st.tuples(*[st.sampled_from(list(LAYOUTS))] * 4),
    seed=st.integers(0, 999),
    data=st.data(),
)
def test_as_torch_computes_it_in_float64(device, batch, heads, queries, keys, causal, layouts, seed, data):
    dtype = torch.float32 if data is None else data.draw(st.sampled_from(served(device)))
    given = inputs(batch, *heads, queries, keys, dtype=dtype, device=device, seed=seed)
    given = [LAYOUTS[layout](x) for layout, x in zip(layouts, given, strict=True)]
    with tiles_of(SMALL):
        check(attention, *given, causal=causal)


@pytest.mark.parametrize("head_dim", snippet.HEAD_DIMS)
def test_each_head_dim_by_its_own_tiles(device, head_dim):
    for dtype in served(device):
        given = inputs(1, 1, 1, 7, 70, head_dim, dtype=dtype, device=device)
        check(attention, *given, causal=True)


@pytest.mark.parametrize("head_dim, dtype", [(16, torch.float32), (64, torch.float16)], ids=["pointers", "descriptors"])
@pytest.mark.parametrize("block_q, block_k", [(16, 32), (32, 16)])
def test_tiles_that_are_not_square(device, block_q, block_k, head_dim, dtype):
    with tiles_of(SMALL | {"BLOCK_Q": block_q, "BLOCK_K": block_k}):
        for queries, keys, causal in ((40, 50, True), (50, 40, True), (40, 50, False), (50, 40, False)):
            check(attention, *inputs(1, 1, 1, queries, keys, head_dim, dtype, device), causal=causal)


@pytest.mark.parametrize(
    "queries, keys", [(3, keys) for keys in range(16, 21)] + [(17, 15), (17, 16), (18, 17), (19, 17)]
)
def test_where_the_diagonal_crosses_a_tile(device, queries, keys):
    """Of tiles of 16: which are masked, and which are whole, is right to a row and a column."""
    with tiles_of(SMALL):
        check(attention, *inputs(1, 1, 1, queries, keys, device=device), causal=True)


@pytest.mark.parametrize("scale", [0.3, -2.0, 0.0])
def test_a_scale(device, scale):
    check(attention, *inputs(1, 1, 1, 3, 20, dtype=torch.float64, device=device), scale=scale)


@pytest.mark.parametrize("scale", [-2.0, 0.0])
def test_the_kernels_refuse_a_scale_that_turns_the_order_of_scores(device, scale):
    q, k, v, grad = inputs(1, 1, 1, 3, 4, device=device)
    with pytest.raises(ValueError, match=f"want a scale above 0; got {scale}"):
        attention_op(q, k, v, scale, False)
    with pytest.raises(ValueError, match=f"want a scale above 0; got {scale}"):
        attention_backward_op(grad, q, k, v, q, q[..., 0], scale, False)


def test_scores_that_would_overflow(device):
    """exp(760) is inf, also in float64. The largest score comes last, and all before it vanish beside it."""
    q, k, v, grad = inputs(1, 1, 1, 2, 20, dtype=torch.float64, device=device)
    q.fill_(1)
    k.copy_(torch.arange(20.0).view(20, 1).expand(20, 16) * 10)
    with tiles_of(SMALL):
        check(attention, q, k, v, grad)
        assert torch.equal(attention(q, k, v)[0, 0, 0], v[0, 0, 19])


def test_a_query_that_sees_no_key(device):
    """Zeros, and no gradient: neither NaN nor the mean of all values."""
    q, k, v, grad = inputs(1, 1, 1, 5, 3, device=device)
    out, grad_q, *others = gradients(attention, q, k, v, grad, causal=True)
    assert not out[0, 0, :2].any() and not grad_q[0, 0, :2].any() and out[0, 0, 2:].all()
    grad[0, 0, :2] = 1e6
    for a, b in zip(gradients(attention, q, k, v, grad, causal=True)[2:], others, strict=True):
        assert torch.equal(a, b)


def test_the_number_that_is_kept_of_each_query(device):
    q, k, v, _ = inputs(1, 2, 1, 20, 18, dtype=torch.float64, device=device)
    scores = (q @ k.mT * 0.25).masked_fill(torch.ones(20, 18, device=device).triu(-1) > 0, -math.inf)
    _, lse = snippet.forward(q, k, v, 0.25, True, tile=SMALL)
    assert lse[:, :, :2].isposinf().all() and torch.allclose(lse[:, :, 2:], scores.logsumexp(dim=-1)[:, :, 2:])
    _, lse = snippet.forward(q, k[:, :, :3], v[:, :, :3], 0.25, True, tile=SMALL)  # the first tile goes through no key
    assert lse[:, :, :17].isposinf().all() and lse[:, :, 17:].isfinite().all()


def test_unequal_lengths_against_torch_itself(device):
    q, k, v, _ = inputs(1, 2, 1, 3, 5, dtype=torch.float64, device=device)
    torchs = torch.nn.functional.scaled_dot_product_attention
    seen = torch.ones(3, 5, dtype=torch.bool, device=device).tril(5 - 3)
    assert torch.allclose(attention(q, k, v, causal=True), torchs(q, k, v, attn_mask=seen, enable_gqa=True))
    assert not torch.allclose(attention(q, k, v, causal=True), torchs(q, k, v, is_causal=True, enable_gqa=True))
    q, k, v, _ = inputs(1, 2, 1, 5, 5, dtype=torch.float64, device=device)
    assert torch.allclose(attention(q, k, v, causal=True), torchs(q, k, v, is_causal=True, enable_gqa=True))


def test_nan_reaches_those_who_see_it(device):
    with nan_as_on_a_gpu() if device == "cpu" else contextlib.nullcontext(), tiles_of(SMALL):
        q, k, v, _ = inputs(1, 1, 1, 20, 20, device=device)
        k[0, 0, 3] = math.nan
        out = attention(q, k, v, causal=True)[0, 0]
        assert out[3:].isnan().all() and not out[:3].isnan().any()


def test_the_same_bits_each_time(device):
    given = inputs(1, 4, 1, 20, 20, device=device)
    with tiles_of(SMALL):
        first, second = (gradients(attention, *given, causal=True) for _ in range(2))
    assert all(map(torch.equal, first, second))


def test_gradcheck(device):
    options = {"dtype": torch.float64, "device": device}
    q, k, v, _ = (x.requires_grad_() for x in inputs(1, 2, 1, 3, 4, **options))
    causal = lambda q, k, v: attention(q, k, v, causal=True)
    assert torch.autograd.gradcheck(causal, (q, k, v), fast_mode=True)
    packed = numbers(1, 2, 3, 48, **options).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: attention(*x.chunk(3, dim=3)).mT, (packed,), fast_mode=True)


@functions
def test_an_incoming_gradient_of_any_strides(device, function):
    q, k, v, _ = (x.requires_grad_() for x in inputs(1, 2, 1, 3, 4, device=device))
    weight = numbers(1, 3, 2, 16, device=device)
    losses = {
        "expanded": lambda out: out.sum(),
        "transposed": lambda out: (out.transpose(1, 2) * weight).sum(),
        "columns": lambda out: (out.mT.contiguous() ** 2).sum(),
        "sliced": lambda out: (torch.cat([out, out], dim=3)[..., 3:19] ** 2).sum(),
    }
    for name, loss in losses.items():
        found, wanted = (torch.autograd.grad(loss(f(q, k, v, causal=True)), (q, k, v)) for f in (function, reference))
        assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(found, wanted, strict=True)), name


@functions
def test_a_gradient_for_one_of_the_three(device, function):
    q, k, v, _ = inputs(1, 1, 1, 2, 3, device=device)
    wanted = gradients(reference, q, k, v, torch.ones_like(q))[1:]
    for one, expected in zip((q, k, v), wanted, strict=True):
        one.requires_grad_()
        function(q, k, v).sum().backward()
        assert torch.allclose(one.grad, expected, atol=1e-5)
        one.requires_grad_(False)
    assert not function(q, k, v).requires_grad


def test_the_op_refuses_a_gradient_of_the_gradient(device):
    q, k, v, _ = (x.requires_grad_() for x in inputs(1, 1, 1, 2, 3, device=device))
    out, lse = attention_op(q, k, v, 0.25, False)
    (slope,) = torch.autograd.grad(out.sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match=r"Trying to backward through .*attention_backward"):
        slope.sum().backward()
    assert not lse.requires_grad, "it would be given no gradient"


def test_keeps_no_scores():
    given = [x.requires_grad_() for x in inputs(1, 2, 1, 40, 50)[:3]]
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.numel()) or t, lambda t: t):
        attention(*given)
    assert sorted(saved) == sorted([2 * 40 * 16, 50 * 16, 50 * 16, 2 * 40 * 16, 2 * 40])


def test_float32_is_multiplied_as_float32():
    with precisions_of_dots() as seen:
        gradients(attention, *inputs(1, 1, 1, 2, 3))
    assert seen == {"IEEE"}


# By tensor descriptors, as on a Hopper GPU


@contextlib.contextmanager
def tensors_described():
    """Yield a list that receives the strides and the tile of each tensor that is described to the TMA."""
    seen, describe = [], snippet.describe

    def noted(x, rows):
        made = describe(x, rows)
        seen.append((made.strides, made.block_shape))
        return made

    with mock.patch.object(snippet, "describe", noted):
        yield seen


LEVEL = {  # layouts that the TMA can load, of 16 bits
    "contiguous": LAYOUTS["contiguous"],
    "rows before heads": LAYOUTS["rows before heads"],
    "one of three": LAYOUTS["one of three"],
    "columns": LAYOUTS["columns"],  # copied first
    "rows of 72": lambda t: torch.cat([t, t[..., :8]], dim=3)[..., : t.shape[3]],
    "after 8 others": lambda t: torch.cat([t.new_full((8,), math.nan), t.flatten()])[8:].view(t.shape),
}
NOT_LEVEL = {
    "rows of 65": lambda t: torch.cat([t, t[..., :1]], dim=3)[..., : t.shape[3]],
    "after one other": lambda t: torch.cat([t.new_full((1,), math.nan), t.flatten()])[1:].view(t.shape),
    "one row for all": lambda t: t[:, :, :1].expand(t.shape),
}


@pytest.mark.parametrize("layout", [*LEVEL, *NOT_LEVEL])
@pytest.mark.parametrize("which", range(4))
def test_descriptors_are_for_what_the_tma_can_load(which, layout):
    """For each of q, k, v and grad in its turn. The result must be right either way."""
    given = inputs(1, 2, 2, 3, 3, 64, dtype=torch.float16, seed=which)
    given[which] = (LEVEL | NOT_LEVEL)[layout](given[which])
    with tensors_described() as seen, tiles_of(SMALL):
        check(attention, *given)
    forward, backward = 3, 8  # tensors that are loaded: q, k, v; and by two kernels q, k, v, grad
    assert len(seen) == (forward + backward if layout in LEVEL else forward if which == 3 else 0)
    assert all(block == [1, 1, 16, 64] for _, block in seen)


@pytest.mark.parametrize(
    "head_dim, dtype, on_hopper, described",
    [
        (64, torch.float16, True, 3), (128, torch.float16, True, 3),
        (32, torch.float16, True, 0), (64, torch.float32, True, 0), (64, torch.float16, False, 0),
    ],
)  # fmt: skip
def test_descriptors_are_for_heads_and_gpus_that_gain_by_them(head_dim, dtype, on_hopper, described):
    q, k, v, _ = inputs(1, 1, 1, 2, 3, head_dim, dtype=dtype)
    with tensors_described() as seen, mock.patch.object(snippet, "has_tma", return_value=on_hopper):
        snippet.forward(q, k, v, 0.125, False)
    assert len(seen) == described


@pytest.mark.parametrize(
    "capability, hip, expected", [((9, 0), None, True), ((8, 9), None, False), ((9, 4), "6", False)]
)
def test_which_gpus_use_descriptors(capability, hip, expected):
    with (
        mock.patch.object(torch.cuda, "get_device_capability", return_value=capability),
        mock.patch.object(torch.version, "hip", hip),
    ):
        assert snippet.has_tma.__wrapped__(torch.device("cuda", 0)) is expected


def test_axes_of_one_have_any_strides_and_descriptors_a_good_one():
    """torch leaves the stride of an axis of length 1 as it happens to be."""
    x = torch.zeros(64, dtype=torch.float16).as_strided((1, 1, 1, 64), (3, 0, 5, 1))
    assert snippet.can_be_described(x) and snippet.describe(x, 16).strides == [64, 64, 64, 1]
    x = torch.zeros(5 * 72, dtype=torch.float16).as_strided((1, 1, 5, 64), (3, 0, 72, 1))
    assert snippet.can_be_described(x) and snippet.describe(x, 16).strides == [64, 64, 72, 1]
    assert not snippet.can_be_described(x[:, :, :0]), "it describes no empty tensor"


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("queries, keys", [(16, 16), (17, 33), (33, 17), (1, 20), (20, 1)])
def test_descriptors_and_pointers_give_the_same_bits(queries, keys, causal):
    """Of whole tiles and of others, with grouped heads; in the interpreter, which adds in the same order."""
    q, k, v, grad = inputs(1, 2, 1, queries, keys, 64, dtype=torch.float16)
    q, grad = map(LAYOUTS["rows before heads"], (q, grad))
    found = []
    for described in (True, False):
        with tensors_described() as seen:
            out, lse = snippet.forward(q, k, v, 0.125, causal, SMALL, described)
            made = snippet.backward(grad, q, k, v, out, lse, 0.125, causal, SMALL, described)
        assert bool(seen) == described
        found.append([out, lse, *made])
    assert all(map(torch.equal, *found))
    with tiles_of(SMALL):
        check(attention, q, k, v, grad, causal=causal)


def test_what_lies_behind_a_head_is_not_seen():
    """A tile that goes beyond the last row of a head must not take rows of the next one."""
    q, k, v, grad = inputs(1, 2, 2, 5, 5, 64, dtype=torch.float16)
    wanted = gradients(attention, q, k, v, grad)
    changed = [x.clone() for x in (q, k, v, grad)]
    for x in changed:
        x[:, 1] = math.nan
    for a, b in zip(gradients(attention, *changed), wanted, strict=True):
        assert torch.equal(a[:, 0], b[:, 0])


# What it touches


@pytest.mark.parametrize("head_dim, dtype", [(16, torch.float32), (64, torch.float16)], ids=["pointers", "descriptors"])
def test_nothing_else_is_touched_and_each_result_is_written_once(device, head_dim, dtype):
    """Guard zones around all thirteen tensors, of lengths that fill no tile."""
    shapes = {"q": (1, 2, 19), "k": (1, 1, 21), "v": (1, 1, 21), "grad": (1, 2, 19)}
    shapes = {name: (*shape, head_dim) for name, shape in shapes.items()}
    guarded = lambda shape, dtype=dtype: Guarded(shape, dtype, device, before=64, after=64 * 64, fill=0xFF)
    given = {name: guarded(shape) for name, shape in shapes.items()}
    for each, values in zip(given.values(), inputs(1, 2, 1, 19, 21, head_dim, dtype), strict=True):
        each.tensor.copy_(values)
    q, k, v, grad = (each.tensor for each in given.values())
    out, lse = guarded(shapes["q"]), guarded((1, 2, 19), torch.float32)
    made = [guarded(shapes[name]) for name in "qkv"]
    delta, lse2 = (guarded((1, 2, 19), torch.float32) for _ in range(2))
    seen = lambda: recorded_accesses() if device == "cpu" else contextlib.nullcontext()
    with tiles_of(SMALL):
        with handed_out("empty", out.tensor, lse.tensor), seen() as forward:
            snippet.forward(q, k, v, 0.25, True)
        handed = (
            handed_out("empty", *(each.tensor for each in made)),
            handed_out("empty_like", delta.tensor, lse2.tensor),
        )
        with handed[0], handed[1], seen() as backward:
            snippet.backward(grad, q, k, v, out.tensor, lse.tensor, 0.25, True)
    for each in (*given.values(), out, lse, *made, delta, lse2):
        each.check("a tensor")
        assert not each.tensor.isnan().any()
    if device == "cpu":
        read = {name: each.tensor for name, each in given.items()}
        check_each_once(forward, "store", out=out.tensor, lse=lse.tensor)
        check_inside(forward, "load", **read)
        check_inside(backward, "load", **read, out=out.tensor, lse=lse.tensor, delta=delta.tensor, lse2=lse2.tensor)
        names = dict(zip(("grad_q", "grad_k", "grad_v"), (each.tensor for each in made), strict=True))
        check_each_once(backward, "store", delta=delta.tensor, lse2=lse2.tensor, **names)


def loads(seen, tensor) -> int:
    begin = tensor.data_ptr()
    end = begin + tensor.numel() * tensor.element_size()
    return sum(((a >= begin) & (a < end)).sum().item() for kind, a in seen if kind == "load")


def test_tiles_that_nobody_sees_are_not_loaded():
    """Causal, 64 queries and keys by tiles of 16: 1 + 2 + 3 + 4 tiles of 16, in each of the three kernels."""
    q, k, v, grad = inputs(1, 1, 1, 64, 64)
    for causal, tiles in ((True, 10), (False, 16)):
        with tiles_of(SMALL):
            with recorded_accesses() as seen:
                out, lse = snippet.forward(q, k, v, 0.25, causal)
            assert [loads(seen, x) for x in (q, k, v)] == [64 * 16, tiles * 256, tiles * 256]
            with recorded_accesses() as seen:
                snippet.backward(grad, q, k, v, out, lse, 0.25, causal)
            # by tiles of queries: k and v; by tiles of keys: q and grad; and each its own
            assert [loads(seen, x) for x in (q, k, v, grad)] == [64 * 16 + tiles * 256] * 4
            assert loads(seen, out) == 64 * 16


@pytest.mark.parametrize("causal", [False, True])
def test_the_order_of_tiles(causal):
    """Causal, the last tile of queries sees most keys, so it begins first, forward and backward."""
    q, k, v, grad = inputs(1, 1, 1, 33, 5)
    delta = torch.empty(1, 1, 33)
    with tiles_of(SMALL):
        with recorded_accesses() as forward:
            out, lse = snippet.forward(q, k, v, 0.25, causal)
        with recorded_accesses() as backward, handed_out("empty_like", delta, torch.empty(1, 1, 33)):
            snippet.backward(grad, q, k, v, out, lse, 0.25, causal)
    tiles = [32, 16, 0] if causal else [0, 16, 32]
    for seen, of_each in ((forward, lse), (backward, delta)):
        firsts = [(int(at[0]) - of_each.data_ptr()) // 4 for kind, at in seen if kind == "store"]
        assert [first for first in firsts if 0 <= first < 33] == tiles


@pytest.mark.parametrize("block_q, block_k", [(16, 16), (16, 32), (32, 16)])
@pytest.mark.parametrize("queries, keys", [(40, 40), (40, 24), (16, 20), (24, 40)])
def test_tiles_of_the_gradient_of_keys(queries, keys, block_q, block_k):
    """Causal: a tile that sees nothing is not gone through, and one that sees all is not masked."""
    seen = torch.ones(queries, keys).tril(keys - queries).bool()
    wanted = []
    for key in range(0, keys, block_k):
        for query in range(0, queries, block_q):
            sees_all = key + block_k - 1 <= query + keys - queries  # also of keys after the last one
            wanted += [sees_all] if seen[query : query + block_q, key : key + block_k].any() else []
    dot, select, found = builder.create_dot, builder.create_select, []

    def noted_dot(a, b, *rest):
        if (a.data.shape, b.data.shape) == ((block_k, 64), (64, block_q)):
            found.append(True)  # of the two such products of a tile, the first is masked
        return dot(a, b, *rest)

    def noted_select(condition, *rest):
        if condition.data.shape == (block_k, block_q):
            found[-1] = False
        return select(condition, *rest)

    q, k, v, grad = inputs(1, 1, 1, queries, keys, 64)
    of_each, of_keys = torch.zeros(2, 1, 1, queries), torch.empty(2, *k.shape)
    options = "keys", 0.25, True, SMALL | {"BLOCK_Q": block_q, "BLOCK_K": block_k}, False
    with mock.patch.multiple(builder, create_dot=noted_dot, create_select=noted_select):
        snippet.launch(snippet.grad_k_v_kernel, (q, k, v, grad), (*of_each, *of_keys), (of_keys[0],), *options)
    assert found[0::2] == wanted and found[1::2] == [True] * len(wanted)


def test_offsets_are_computed_in_64_bits():
    """The last tiles of tensors of more than 2**31 elements, which have no memory."""
    far = {"q": 2**30, "k": 2**29, "v": 2**28}
    pointers = [torch.zeros(1) for _ in range(5)]
    strides = [(0, 0, 0)] * 4
    queries, keys = 2**20 + 3, 5
    first = 2**20 // 16
    for place, name in enumerate(far):
        strides[place] = (0, 0, 2**12) if name == "q" else (0, 2**33, 0)
    strides[3] = (0, 2**33, 2**12)
    with recorded_accesses(first_program=(first, 0, 0), memory=False) as seen:
        snippet.attention_kernel[(1,)](
            *pointers, *sum(strides, ()), 1, 1, queries, keys, SCALE=1.0, CAUSAL=False, DESCRIBED=False,
            COMPUTE=snippet.tl.float32, HEAD_DIM=16, BLOCK_Q=16, BLOCK_K=16,
        )  # fmt: skip
    places = [((address - p.data_ptr()) // 4).tolist()[0] for (_, address), p in zip(seen, pointers, strict=True)]
    assert places[0] == 2**20 * 2**12 and places[3] == 2**20 * 2**12 and places[4] == 2**20


def test_offsets_of_sequences_and_heads_are_computed_in_64_bits():
    """Of sequence 4 and head 2**12, whose strides are within 32 bits."""
    batch, head, heads, pointers = 4, 2**12, 2**13, [torch.zeros(1) for _ in range(5)]
    strides = [(2**30 + place, 2**20 + place, 16) for place in range(4)]
    with recorded_accesses(first_program=(batch * heads + head, 0, 0), memory=False) as seen:
        snippet.attention_kernel[(1,)](
            *pointers, *sum(strides, ()), heads, 1, 3, 5, SCALE=1.0, CAUSAL=False, DESCRIBED=False,
            COMPUTE=snippet.tl.float32, HEAD_DIM=16, BLOCK_Q=16, BLOCK_K=16,
        )  # fmt: skip
    places = [((at.min() - p.data_ptr()) // 4).item() for (_, at), p in zip(seen, pointers, strict=True)]
    assert places == [*(batch * one + head * other for one, other, _ in strides), 3 * (batch * heads + head)]


def test_the_numbers_of_each_query_are_found_in_64_bits():
    """In the backward, of sequence 128 and head 5 of 2**13, with 2**12 queries each."""
    batch, head, heads, queries, pointers = 128, 5, 2**13, 2**12, [torch.zeros(1) for _ in range(8)]
    with recorded_accesses(first_program=(batch * heads + head, 0, 0), memory=False) as seen:
        snippet.grad_k_v_kernel[(1,)](
            *pointers, *[0] * 15, heads, 1, queries, 5, SCALE=1.0, CAUSAL=False, DESCRIBED=False,
            COMPUTE=snippet.tl.float32, HEAD_DIM=16, BLOCK_Q=2048, BLOCK_K=16,
        )  # fmt: skip
    first = 4 * (batch * heads + head) * queries
    for one in pointers[4:6]:
        assert any(addresses.min() == one.data_ptr() + first for _, addresses in seen)


@pytest.mark.parametrize(
    "kernel, tensors, numbers",
    [("attention_kernel", 5, [4]), ("grad_q_kernel", 9, [5, 6, 7])],
    ids=["forward", "grad_q"],
)
def test_the_numbers_of_a_tile_of_queries_are_found_in_64_bits(kernel, tensors, numbers):
    """Of sequence 128 and head 5 of 2**13, with 2**12 queries each: one number a query, in a row."""
    pair, queries, pointers = 128 * 2**13 + 5, 2**12, [torch.zeros(1) for _ in range(tensors)]
    strides = {"attention_kernel": 12, "grad_q_kernel": 18}[kernel]
    with recorded_accesses(first_program=(pair * (queries // 2048), 0, 0), memory=False) as seen:
        getattr(snippet, kernel)[(1,)](
            *pointers, *[0] * strides, 2**13, 1, queries, 5, SCALE=1.0, CAUSAL=False, DESCRIBED=False,
            COMPUTE=snippet.tl.float32, HEAD_DIM=16, BLOCK_Q=2048, BLOCK_K=16,
        )  # fmt: skip
    for one in (pointers[place] for place in numbers):
        assert any(addresses.min() == one.data_ptr() + 4 * pair * queries for _, addresses in seen)


# Under torch.compile


def test_under_torch_compile(device):
    torch.compiler.reset()
    backend = "inductor" if device == "cuda" else "aot_eager"
    compiled = torch.compile(
        lambda q, k, v: attention(2 * q, k.mT.contiguous().mT, v, causal=True).transpose(1, 2),
        fullgraph=True, backend=backend,
    )  # fmt: skip
    for queries, keys in ((5, 7), (6, 9)):  # the second may be compiled for any length
        q, k, v, grad = inputs(1, 2, 1, queries, keys, device=device)
        grad = grad.transpose(1, 2).contiguous()
        found = gradients(compiled, q, k, v, grad)
        wanted = gradients(lambda q, k, v: reference(2 * q, k, v, True).transpose(1, 2), q, k, v, grad)
        assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(found, wanted, strict=True))


@pytest.mark.parametrize("layout", ["contiguous", "columns"])
def test_the_op_keeps_what_it_promises_the_compiler(device, layout):
    q, k, v, grad = (LAYOUTS[layout](x) for x in inputs(1, 2, 1, 3, 4, device=device))
    out, lse = attention_op(q, k, v, 0.25, True)
    torch.library.opcheck(attention_backward_op, (grad, q, k, v, out, lse, 0.25, True))
    torch.library.opcheck(attention_op, (*(x.detach().requires_grad_() for x in (q, k, v)), 0.25, True))


# What is refused


def heads(*shape, **options):
    return torch.ones(*shape, **options)


REFUSED = [
    (lambda d: (heads(2, 3, 16), *[heads(1, 2, 3, 16)] * 2), "q must be (batch, heads, rows, head_dim); got the shape"),
    (lambda d: (*[heads(1, 2, 3, 16)] * 2, heads(1, 2, 3, 16).half()), "the same dtype and device; got torch.float32"),
    (lambda d: (heads(1, 2, 3, 16), heads(1, 2, 3, 16), heads(1, 2, 4, 16)), "v must have the shape of k, (1, 2, 3"),
    (lambda d: (heads(2, 2, 3, 16), *[heads(1, 2, 3, 16)] * 2), "the same batch and head_dim; got (2, 2, 3, 16)"),
    (lambda d: (heads(1, 2, 3, 32), *[heads(1, 2, 3, 16)] * 2), "the same batch and head_dim; got (1, 2, 3, 32)"),
    (lambda d: (heads(1, 3, 3, 16), *[heads(1, 2, 3, 16)] * 2), "the 3 heads of q must be a multiple of the 2 of k"),
    (lambda d: (heads(1, 3, 3, 16), *[heads(1, 0, 3, 16)] * 2), "the 3 heads of q must be a multiple of the 0 of k"),
    (lambda d: [heads(1, 1, 3, 24)] * 3, "head_dim 24 is not supported; use one of 16, 32, 64, 128"),
    (lambda d: [heads(1, 1, 3, 16).int()] * 3, "torch.int32 is not supported; use one of"),
]


@functions
@pytest.mark.parametrize("make, fragment", REFUSED)
def test_refuses(device, function, make, fragment):
    with pytest.raises(ValueError) as error:
        function(*(x.to(device) for x in make(device)))
    assert fragment in str(error.value)


def test_a_gradient_of_another_shape_is_refused(device):
    x = torch.ones(1, 1, 2, 16, device=device)
    with pytest.raises(ValueError, match=r"grad must have the shape of q, \(1, 1, 2, 16\); got \(1, 1, 1, 16\)"):
        snippet.backward(x[:, :, :1], x, x, x, x, x[..., 0], 0.25, False)


def test_too_long_and_too_many():
    long = without_memory(1, 1, 2**30 + 1, 16)
    with pytest.raises(ValueError, match="1073741825 queries and 2 keys are too many"):
        snippet.check_arguments(q=long, k=without_memory(1, 1, 2, 16), v=without_memory(1, 1, 2, 16))
    many = without_memory(2**15, 2**16, 1, 16)
    with pytest.raises(ValueError, match=r"2147483648 programs; .* is the limit"):
        snippet.launch(snippet.attention_kernel, (many, many), (), (), "queries", 1.0, False)
    with pytest.raises(ValueError, match="2147483648 programs"):
        snippet.launch(snippet.grad_k_v_kernel, (many, many), (), (), "keys", 1.0, False)


def test_rows_far_apart_are_copied():
    near, far = (torch.zeros(16).as_strided((1, 1, 1, 16), (0, 0, stride, 1)) for stride in (2**23 - 1, 2**23))
    made = mock.Mock(return_value=torch.zeros(1, 1, 1, 16))
    with mock.patch.object(torch.Tensor, "contiguous", made):
        assert snippet.served(near) is near and not made.called
        snippet.served(far)
    assert made.called


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [(0, 1, 1, 2, 3), (1, 0, 0, 2, 3), (1, 0, 3, 2, 3), (1, 1, 1, 0, 3), (1, 1, 1, 2, 0)])
def test_nothing_to_do(device, shape, causal):
    q, k, v, grad = inputs(*shape, device=device)
    found = gradients(attention, q, k, v, grad, causal=causal)
    assert [each.shape for each in found] == [q.shape, q.shape, k.shape, v.shape]
    assert not any(each.any() for each in found)


# The toy, and the file as a script


@pytest.mark.parametrize("block", [1, 2, 4, 16])
def test_the_online_softmax_of_one_query(device, block):
    scores, values = snippet.toy(device)
    for n in range(1, 13):
        maximum, total, accumulator = snippet.state(scores, values, n, block)
        seen = scores[:n].double()
        weights = (seen - seen.max()).exp()
        assert maximum == seen.max()
        assert math.isclose(total, weights.sum().item(), rel_tol=1e-6)
        assert math.isclose(accumulator, (weights * values[:n].double()).sum().item(), rel_tol=1e-6)
        if block == 4:  # what lies behind them is not read
            behind = [torch.cat([x[:n], x.new_full((8,), math.nan)]) for x in (scores, values)]
            assert snippet.state(*behind, n, block) == [maximum, total, accumulator]
    assert snippet.state(scores, values, 0, block) == [-math.inf, 0.0, 0.0]


CODE = """
for described in (False, True):
    for head_dim in (64, 128):
        q, k = (torch.empty(1, heads, 4096, head_dim).bfloat16() for heads in (4, 2))
        out, lse = module.forward(q, k, k, 0.125, True, described=described)
        module.backward(out, q, k, k, out, lse, 0.125, True, described=described)
"""


def test_compiles_to_matrix_units_and_wide_loads():
    """For an H200, without one. By pointers nothing spills, and shared memory suffices on smaller GPUs, too. By
    descriptors some values do by Triton 3.7.1, for three kernels are just below the limit of registers by 3.9."""
    launches = compiled("fusion/attention", CODE)
    assert [launch.kernel for launch in launches] == ["attention_kernel", "grad_q_kernel", "grad_k_v_kernel"] * 4
    by_pointers, described = launches[:6], launches[6:]
    assert all("HGMMA" in launch.sass for launch in launches)
    assert all("LDGSTS.E.BYPASS.128" in launch.sass for launch in by_pointers)
    assert all("UTMALDG" in launch.sass for launch in described)
    assert all(launch.spills == 0 and launch.shared <= 101_376 for launch in by_pointers)
    assert all(launch.spills <= 32 and launch.shared <= SHARED for launch in described)
    assert [launch.options["DESCRIBED"] for launch in launches] == [False] * 6 + [True] * 6


MINUS_INFINITE_SCORES = [  # numbers of a key that makes the score of every query below -inf, head_dim, dtype
    (-math.inf, 32, torch.float32),
    (-3e38, 16, torch.float32),  # finite, but 16 products of it add up beyond float32
    (-math.inf, 64, torch.float16),  # by descriptors
]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("low, head_dim, dtype", MINUS_INFINITE_SCORES)
@pytest.mark.parametrize("keys, first", [(150, 128), (150, 150), (7, 7), (256, 3)])
def test_whole_tiles_of_scores_that_are_minus_infinity(device, keys, first, low, head_dim, dtype, causal):
    """As by torch's ``scaled_dot_product_attention``, which gives zeros where all scores are -inf."""
    q, k, v, grad = inputs(1, 2, 1, 5, keys, head_dim, dtype, device)
    q = q.abs() + 1
    k[:, :, :first] = low
    out, *grads = gradients(attention, q, k, v, grad, causal=causal)
    seen = torch.ones(5, keys, dtype=torch.bool, device=device).tril(keys - 5 if causal else keys)
    seen[:, :first] = False  # their shares are 0
    exact = [x.double() for x in (q, k.where(k > -100, -1), v, grad)]
    by_torch = torch.nn.functional.scaled_dot_product_attention
    wanted, *wanted_grads = gradients(by_torch, *exact, attn_mask=seen, enable_gqa=True)
    assert torch.allclose(out.double(), wanted, atol=tolerance(dtype))
    if low != -math.inf:  # 0 * -inf in grad_q is NaN, in torch, too
        for found, expected in zip(grads, wanted_grads, strict=True):
            assert torch.allclose(found.double(), expected, atol=50 * tolerance(dtype))


# On a GPU alone


@pytest.mark.gpu
@pytest.mark.parametrize("described", [False, True])
def test_more_than_2_to_the_31_elements(described):
    if torch.cuda.mem_get_info()[0] < 60e9:
        pytest.skip("needs 60 GB of free GPU memory")
    q = torch.zeros(2, 2**11, 2**13, 128, dtype=torch.float16, device="cuda")
    k = numbers(1, 1, 64, 128, dtype=torch.float16, device="cuda").expand(2, 1, 64, 128).contiguous()
    q[-1, -1, -3:] = numbers(3, 128, dtype=torch.float16, device="cuda", seed=1)
    out, _ = snippet.forward(q, k, k, 128**-0.5, False, described=described)
    wanted = reference(q[-1:, -1:, -3:].double(), k[-1:].double(), k[-1:].double())
    assert torch.allclose(out[-1:, -1:, -3:].double(), wanted, atol=1e-2)


@pytest.mark.gpu
@pytest.mark.parametrize("head_dim", snippet.HEAD_DIMS)
@pytest.mark.parametrize("dtype", snippet.DTYPES)
def test_lengths_of_models(dtype, head_dim):
    length = 300 if dtype == torch.float64 else 1500
    check(attention, *inputs(2, 8, 2, length, length + 77, head_dim, dtype=dtype, device="cuda"), causal=True)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_in_a_cuda_graph(dtype):
    q, k, v, grad = inputs(1, 4, 2, 300, 300, 64, dtype=dtype, device="cuda")

    def run():
        results = snippet.forward(q, k, v, 0.125, True)
        return *results, *snippet.backward(grad, q, k, v, *results, 0.125, True)

    expected = run()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = run()
    graph.replay()
    assert all(torch.equal(a, b) for a, b in zip(captured, expected, strict=True))


def hopper():
    if not snippet.has_tma(torch.device("cuda", torch.cuda.current_device())):
        pytest.skip("needs a Hopper GPU")


ON_HOPPER = [  # batch, heads, kv_heads, queries, keys
    (1, 1, 1, 1, 1), (1, 2, 1, 1, 300), (2, 3, 3, 63, 65), (2, 4, 2, 128, 128), (1, 8, 2, 129, 127),
    (1, 2, 2, 127, 129), (2, 4, 1, 500, 777), (2, 4, 1, 777, 500), (1, 4, 4, 1024, 1024), (1, 2, 1, 300, 1),
]  # fmt: skip


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", snippet.DESCRIBED_HEAD_DIMS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_by_descriptors_on_hopper(dtype, head_dim, causal):
    """Lengths that fill tiles and others, grouped heads, every layout that the TMA can load."""
    hopper()
    for number, shape in enumerate(ON_HOPPER):
        given = inputs(*shape, head_dim, dtype=dtype, device="cuda", seed=number)
        layouts = [list(LEVEL)[(number + i) % len(LEVEL)] for i in range(4)]
        given = [LEVEL[layout](x) for layout, x in zip(layouts, given, strict=True)]
        with tensors_described() as seen:
            check(attention, *given, causal=causal)
        assert len(seen) == 3 + 8, (shape, layouts)


@pytest.mark.gpu
@pytest.mark.parametrize("head_dim", snippet.DESCRIBED_HEAD_DIMS)
def test_pointers_on_hopper(head_dim):
    """Tensors that the TMA cannot load."""
    for number, layout in enumerate(NOT_LEVEL):
        given = inputs(2, 4, 2, 200, 300, head_dim, dtype=torch.bfloat16, device="cuda", seed=number)
        with tensors_described() as seen:
            check(attention, *map(NOT_LEVEL[layout], given), causal=True)
        assert not seen


@pytest.mark.gpu
def test_queries_that_see_no_key_by_descriptors():
    hopper()
    q, k, v, grad = inputs(1, 2, 1, 300, 100, 64, dtype=torch.bfloat16, device="cuda")
    out, lse = snippet.forward(q, k, v, 0.125, True, described=True)
    grads = snippet.backward(grad, q, k, v, out, lse, 0.125, True, described=True)
    assert not out[:, :, :200].any() and not grads[0][:, :, :200].any() and lse[:, :, :200].isposinf().all()
    assert all(x.isfinite().all() for x in (out, *grads)) and lse[:, :, 200:].isfinite().all()


@pytest.mark.gpu
def test_descriptors_on_another_stream_and_under_torch_compile():
    hopper()
    q, k, v, grad = inputs(1, 4, 2, 300, 300, 64, dtype=torch.bfloat16, device="cuda")
    expected = gradients(attention, q, k, v, grad, causal=True)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        found = gradients(attention, q, k, v, grad, causal=True)
    stream.synchronize()
    assert all(map(torch.equal, found, expected))
    torch.compiler.reset()
    compiled = torch.compile(attention, fullgraph=True, backend="aot_eager")
    found = gradients(compiled, q, k, v, grad, causal=True)
    assert all(map(torch.equal, found, expected))
