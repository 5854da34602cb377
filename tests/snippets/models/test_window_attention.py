# SPDX-License-Identifier: Apache-2.0
"""``window_attention``: what a sum over the seen keys is in float64, whatever the window, lengths, heads, dtypes and
strides; and no tile is loaded that nobody sees."""

import math
from unittest import mock

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from guards import (
    Guarded,
    check_each_once,
    check_inside,
    handed_out,
    precisions_of_dots,
    recorded_accesses,
    without_memory,
)
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from snippets.fusion import attention as plain
from snippets.models import window_attention as snippet
from snippets.models.window_attention import window_attention

SMALL = {"BLOCK_Q": 16, "BLOCK_K": 16, "num_warps": 4, "num_stages": 2}
LAYOUTS = {
    "contiguous": lambda t: t.clone(),
    "rows before heads": lambda t: t.transpose(1, 2).contiguous().transpose(1, 2),
    "one of three": lambda t: torch.stack([-t, t, 2 * t], dim=3)[:, :, :, 1],
    "columns": lambda t: t.mT.contiguous().mT,
    "rows of 17": lambda t: torch.cat([t, t[..., :1]], dim=3)[..., : t.shape[3]],
}


def inputs(heads, kv_heads, queries, keys, head_dim=16, dtype=torch.float32, device="cpu", seed=0, batch=2):
    random = torch.Generator().manual_seed(seed)
    shapes = (heads, queries), (kv_heads, keys), (kv_heads, keys)
    return [torch.randn(batch, *rows, head_dim, generator=random).to(device, dtype) for rows in shapes]


def reference(q, k, v, window=None, causal=True, sinks=None, softcap=None, scale=None):
    """Query by query, in NumPy."""
    q, k, v = (x.detach().double().cpu().numpy() for x in (q, k, v))
    out = np.zeros(q.shape)
    (batch, heads, queries, head_dim), keys = q.shape, k.shape[2]
    scale = head_dim**-0.5 if scale is None else scale
    for b, h, i in np.ndindex(batch, heads, queries):
        kv, place = h * k.shape[1] // heads, i + keys - queries
        reach = queries + keys if window is None else window
        seen = [j for j in range(keys) if abs(place - j) < reach and (j <= place or not causal)]
        if not seen:
            continue
        score = k[b, kv, seen] @ q[b, h, i] * scale
        if softcap is not None:
            score = softcap * np.tanh(score / softcap)
        largest = max(score.max(), -math.inf if sinks is None else sinks[h].item())
        weight = np.exp(score - largest)
        total = weight.sum() + (0 if sinks is None else math.exp(sinks[h].item() - largest))
        out[b, h, i] = weight @ v[b, kv, seen] / total
    return torch.from_numpy(out)


def check(q, k, v, **options):
    found, exact = window_attention(q, k, v, **options), reference(q, k, v, **options)
    assert (found.shape, found.dtype, found.is_contiguous()) == (q.shape, q.dtype, True)
    tolerance = {torch.float32: 2e-5, torch.float16: 8e-3, torch.bfloat16: 6e-2}[q.dtype]
    assert torch.allclose(found.double().cpu(), exact, rtol=tolerance, atol=tolerance)


def tiles_of(**tile):
    """Several tiles to each head, though it is short."""
    return mock.patch.object(plain, "default_tile", lambda *_: SMALL | tile)


@settings(max_examples=12, phases=[Phase.explicit, Phase.generate])
@example((1, 1), 33, 17, 5, True, None, None, ("contiguous",) * 3, 1)  # the first 16 queries see no key
@example((2, 1), 18, 35, 1000, True, 1.5, -1.0, ("columns", "one of three", "rows of 17"), 2)
@example((1, 1), 5, 32, 0, True, None, 0.5, ("contiguous",) * 3, 3)
@example((1, 1), 40, 50, 3, False, None, None, ("rows before heads",) * 3, 4)
@example((1, 1), 50, 48, 1, True, None, None, ("contiguous",) * 3, 5)
@given(
    heads=st.sampled_from([(1, 1), (2, 1), (2, 2)]),
    queries=st.integers(1, 50),
    keys=st.integers(1, 50),
    window=st.one_of(st.none(), st.integers(0, 60)),
    causal=st.booleans(),
    softcap=st.sampled_from([None, 1.5]),
    sink=st.sampled_from([None, 0.5, 30.0, -math.inf]),
    layouts=st.tuples(*[st.sampled_from(list(LAYOUTS))] * 3),
    seed=st.integers(0, 999),
)
def test_as_numpy_computes_it_in_float64(device, heads, queries, keys, window, causal, softcap, sink, layouts, seed):
    given = inputs(*heads, queries, keys, device=device, seed=seed)
    given = [LAYOUTS[layout](x) for layout, x in zip(layouts, given, strict=True)]
    sinks = None if sink is None else sink - torch.arange(heads[0], device=device)
    with tiles_of():
        check(*given, window=window, causal=causal, softcap=softcap, sinks=sinks)


@pytest.mark.parametrize("block_q, block_k", [(16, 32), (32, 16)])
@pytest.mark.parametrize("causal", [True, False])
def test_every_window_to_a_row(device, block_q, block_k, causal):
    """Where a tile begins to be seen, and to be seen wholly: each window, and lengths that fill no tile."""
    with tiles_of(BLOCK_Q=block_q, BLOCK_K=block_k):
        for window in (*range(0, 70, 3), 16, 17, 31, 32, 47, 49):
            check(*inputs(1, 1, 61, 67, device=device, batch=1), window=window, causal=causal)


@pytest.mark.parametrize("head_dim", plain.HEAD_DIMS)
def test_each_head_dim_by_its_own_tiles(device, head_dim):
    for dtype in plain.DTYPES if device == "cuda" else (torch.float16, torch.float32):
        given = inputs(2, 1, 70, 200, head_dim, dtype, device, batch=1)
        check(*given, window=33, softcap=20.0, sinks=torch.tensor([0.3, -0.3], device=device, dtype=dtype))


def test_by_descriptors_and_by_pointers_alike(device):
    q, k, v = inputs(1, 1, 70, 90, 64, torch.float16, device, batch=1)
    found = window_attention(q, k, v, window=20)
    with mock.patch.object(plain, "use_descriptors", lambda *_: False):
        other = window_attention(q, k, v, window=20)
    assert torch.allclose(found, other, rtol=2e-3, atol=2e-3)


def test_a_scale(device):
    check(*inputs(1, 1, 9, 20, device=device), window=4, scale=0.7, softcap=3.0)


def test_a_sink_takes_its_share_and_a_large_softcap_changes_nothing(device):
    q, k, v = inputs(1, 1, 20, 20, device=device)
    plain_result = window_attention(q, k, v, window=5)
    assert torch.allclose(window_attention(q, k, v, window=5, softcap=1e4), plain_result, atol=1e-3)
    below = window_attention(q, k, v, window=5, sinks=torch.tensor([-math.inf], device=device))
    assert torch.allclose(below, plain_result, atol=1e-6)
    halved = window_attention(0 * q, k, v, window=1, sinks=torch.zeros(1, device=device))
    assert torch.allclose(halved, v / 2)


def test_scores_that_would_overflow(device):
    """exp(90) is inf in float32. The largest score comes last, and all before it vanish beside it."""
    q, k, v = inputs(1, 1, 40, 40, device=device, batch=1)
    q.fill_(1)
    k.copy_(torch.arange(40.0).view(40, 1).expand(40, 16) * 10)
    with tiles_of():
        check(q, k, v, window=25)
        check(q, k, v, window=25, sinks=torch.tensor([300.0], device=device))


def test_float32_is_multiplied_as_float32():
    with precisions_of_dots() as seen:
        window_attention(*inputs(1, 1, 2, 3))
    assert seen == {"IEEE"}


def test_sinks_of_another_dtype(device):
    """They are multiplied by log2(e) in float32: in float16 that would show."""
    check(*inputs(2, 1, 20, 20, device=device), window=5, sinks=torch.tensor([5.3, 3.7], device=device).half())


def test_only_sinks_are_seen(device):
    q, k, v = inputs(1, 1, 20, 3, device=device)
    assert not window_attention(q, k, v, window=2, sinks=torch.ones(1, device=device))[:, :, :16].any()


@pytest.mark.parametrize("shape", [(0, 1, 1, 2, 3), (1, 0, 0, 2, 3), (1, 1, 1, 0, 3), (1, 1, 1, 2, 0)])
def test_nothing_to_do(device, shape):
    batch, *rest = shape
    q, k, v = inputs(*rest, device=device, batch=batch)
    out = window_attention(q, k, v, window=2)
    assert out.shape == q.shape and not out.any()


@pytest.mark.parametrize("queries, keys", [(64, 64), (40, 70), (70, 40), (1, 64), (33, 33)])
@pytest.mark.parametrize("block_q, block_k", [(16, 16), (32, 16), (16, 32)])
def test_edges_are_those_of_what_is_seen_and_what_is_seen_wholly(device, queries, keys, block_q, block_k):
    """Tile by tile. Rows of a tile that are past the last query count as well: their places go on."""
    tiles = -(-queries // block_q)
    out = torch.empty(tiles, 4, dtype=torch.int32, device=device)

    @triton.jit
    def kernel(out_ptr, queries, keys, left, right, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr):
        pid = tl.program_id(axis=0)
        edges = snippet.tiles_seen(pid * BLOCK_Q, queries, keys, left, right, BLOCK_Q, BLOCK_K)
        for i in tl.static_range(4):
            tl.store(out_ptr + 4 * pid + i, edges[i])

    for window in (1, 2, 15, 16, 17, 18, 33, 80):
        for causal in (True, False):
            left, right = snippet.reach(window, causal, queries + keys)
            kernel[(tiles,)](out, queries, keys, left, right, BLOCK_Q=block_q, BLOCK_K=block_k)
            for tile, (start, whole, whole_end, end) in enumerate(out.tolist()):
                place = np.arange(tile * block_q, (tile + 1) * block_q)[:, None] + keys - queries
                key = np.arange(-(-keys // block_k) * block_k)
                seen = (place - key <= left) & (place - key >= -right) & (key < keys)
                by_tile = seen.reshape(block_q, -1, block_k)
                any_seen, all_seen = by_tile.any(axis=(0, 2)), by_tile.all(axis=(0, 2))
                visited = [i * block_k for i in np.flatnonzero(any_seen)]
                assert list(range(start, end, block_k)) == visited
                unmasked = [i * block_k for i in np.flatnonzero(all_seen)]
                assert list(range(whole, whole_end, block_k)) == unmasked
                parts = [*range(start, whole, block_k), *range(whole, whole_end, block_k)]
                assert [*parts, *range(whole_end, end, block_k)] == visited


def loads_of(seen, x) -> int:
    """How many elements of a tensor were loaded."""
    inside = lambda at: (at >= x.data_ptr()) & (at < x.data_ptr() + x.nbytes)
    return sum(int(inside(at).sum()) for kind, at in seen if kind == "load")


@pytest.mark.parametrize(
    "window, causal, tiles",
    [(96, True, 21), (17, True, 11), (18, True, 15), (1, True, 6), (1, False, 6), (17, False, 16), (96, False, 36)],
)
def test_tiles_that_nobody_sees_are_not_loaded(window, causal, tiles):
    """Of 6 by 6 tiles. A query 16 keys after the first of a tile sees it still with a window of 17."""
    q, k, v = inputs(1, 1, 96, 96, batch=1)
    with tiles_of(), recorded_accesses() as seen:
        window_attention(q, k, v, window=window, causal=causal)
    assert [loads_of(seen, x) for x in (q, k, v)] == [96 * 16, tiles * 256, tiles * 256]


@pytest.mark.parametrize("head_dim, dtype", [(16, torch.float32), (64, torch.float16)], ids=["pointers", "descriptors"])
def test_nothing_else_is_touched_and_each_result_is_written_once(head_dim, dtype):
    guarded = lambda *shape: Guarded(shape, dtype, "cpu", before=64, after=64 * 64, fill=0xFF)
    values = inputs(2, 1, 19, 41, head_dim, dtype, batch=1)
    given = [guarded(*x.shape) for x in values]
    for each, x in zip(given, values, strict=True):
        each.tensor.copy_(x)
    q, k, v = (each.tensor for each in given)
    out, sinks = guarded(*q.shape), torch.zeros(2)
    with tiles_of(), handed_out("empty", out.tensor), recorded_accesses() as seen:
        window_attention(q, k, v, window=9, sinks=sinks)
    for each in (*given, out):
        each.check("a tensor")
        assert not each.tensor.isnan().any()
    check_each_once(seen, "store", out=out.tensor)
    check_inside(seen, "load", q=q, k=k, v=v, sinks=sinks)


def test_the_same_code_for_every_window(device):
    if device == "cpu":
        pytest.skip("the interpreter compiles nothing")
    given = inputs(1, 1, 50, 50, device=device)
    window_attention(*given, window=5)
    kernel = snippet.window_attention_kernel
    before = sum(len(cache[0]) for cache in kernel.device_caches.values())
    for window in (6, 16, 1, None):
        window_attention(*given, window=window)
    assert sum(len(cache[0]) for cache in kernel.device_caches.values()) == before


def test_too_many_programs():
    many = without_memory(2**15, 2**16, 1, 16)
    with tiles_of(), pytest.raises(ValueError, match=r"takes 2147483648 programs, of 2\*\*31 - 1 at most"):
        snippet.launch(snippet.window_attention_kernel, many, many, many, many, None, 1, 0, 1.0, None)


def ones(*shape, **options):
    return torch.ones(*shape, **options)


REFUSED = [
    ({"window": -1}, "window must be None, or a whole number from 0; got -1"),
    ({"window": 2.5}, "window must be None, or a whole number from 0; got 2.5"),
    ({"softcap": 0.0}, "softcap must be None, or finite and above 0; got 0.0"),
    ({"softcap": math.inf}, "softcap must be None, or finite and above 0; got inf"),
    ({"sinks": ones(3)}, "sinks must be floating, (2,), a number for each head"),
    ({"sinks": ones(2).int()}, "got torch.int32, (2,)"),
    ({"scale": -1.0}, "scale must be above 0; got -1.0"),
]


@pytest.mark.parametrize("options, fragment", REFUSED)
def test_refuses(device, options, fragment):
    q = ones(1, 2, 3, 16, device=device)
    options = {name: x.to(device) if isinstance(x, torch.Tensor) else x for name, x in options.items()}
    with pytest.raises(ValueError) as error:
        window_attention(q, q, q, **options)
    assert fragment in str(error.value)


def test_a_gradient_is_refused(device):
    q, sinks = ones(1, 2, 3, 16, device=device), ones(2, device=device, requires_grad=True)
    with pytest.raises(ValueError, match=r"q, k, v or sinks requires a gradient, which library/attention\.py has"):
        window_attention(q, q, q, sinks=sinks)
    with torch.no_grad():
        window_attention(q, q, q, sinks=sinks)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("head_dim", [64, 128])
def test_lengths_of_models(dtype, head_dim):
    q, k, v = inputs(8, 2, 1500, 1577, head_dim, dtype, "cuda")
    for options in ({"window": 128, "sinks": torch.randn(8, device="cuda")}, {"window": 500, "softcap": 30.0}):
        exact = snippet.in_torch(q, k, v, **options)
        found = window_attention(q, k, v, **options).double()
        assert torch.allclose(found, exact, rtol=2e-2, atol=2e-2)
