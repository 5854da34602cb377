# SPDX-License-Identifier: Apache-2.0
"""``decode_attention``: torch's result in float64, whatever the lengths, groups, pages, strides and number of parts;
nothing behind a length is read, each key once; the same bits each time; no gradient; through the compiler, too.
"""

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
    handed_out,
    nan_as_on_a_gpu,
    precisions_of_dots,
    recorded_accesses,
    without_memory,
)
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from snippets.fusion import decoding as snippet
from snippets.fusion.decoding import choose_splits, decode_attention, decode_attention_op
from snippets.tools.testing import addresses_of

SMALL = 16, 16, 4, 2  # a tile


def op(q, k, v, lengths=None, page_table=None, causal=False, scale=None, splits=None):
    return decode_attention_op(q, k, v, lengths, page_table, causal, scale or q.shape[-1] ** -0.5, splits)


functions = pytest.mark.parametrize("function", [decode_attention, op], ids=["function", "op"])

QUERIES = {  # layouts of a tensor (batch, heads, queries, head_dim)
    "contiguous": lambda t: t.clone(),
    "queries before heads": lambda t: t.transpose(1, 2).contiguous().transpose(1, 2),
    "columns": lambda t: t.mT.contiguous().mT,
    "flipped sign": lambda t: torch._neg_view(-t),
}
KEYS = {  # of one whose rows must hold together: keys or pages
    "contiguous": lambda t: t.clone(),
    "heads and rows swapped": lambda t: t.transpose(1, 2).contiguous().transpose(1, 2),
    "one of three": lambda t: torch.stack([-t, t, 2 * t], dim=3)[:, :, :, 1],
    "every second": lambda t: torch.stack([t, -t], dim=1).flatten(0, 1)[::2],
}


def served(device):
    return [dtype for dtype in snippet.DTYPES if device == "cuda" or dtype != torch.bfloat16]


def numbers(*shape, dtype=torch.float32, device="cpu", seed=0):
    random = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=random, dtype=torch.float64).to(device, dtype)


def inputs(batch, heads, kv_heads, queries, keys, head_dim=16, dtype=torch.float32, device="cpu", seed=0):
    """q, k and v."""
    shapes = (heads, queries), (kv_heads, keys), (kv_heads, keys)
    options = {"dtype": dtype, "device": device}
    return [numbers(batch, *shape, head_dim, seed=3 * seed + i, **options) for i, shape in enumerate(shapes)]


def paged(k, v, page_size, device="cpu", seed=0, spare=2, dtype=torch.int32):
    """The same keys and values in pages, in a random order between pages of NaN, and the table."""
    batch, kv_heads, keys, head_dim = k.shape
    pages = -(-keys // page_size)
    random = torch.Generator().manual_seed(seed)
    table = torch.randperm(batch * pages + spare, generator=random)[: batch * pages].view(batch, pages).to(device)
    caches = []
    for x in (k, v):
        cache = torch.full((batch * pages + spare, page_size, kv_heads, head_dim), math.nan, device=device).to(x.dtype)
        rows = torch.full((batch, pages * page_size, kv_heads, head_dim), math.nan, device=device, dtype=x.dtype)
        rows[:, :keys] = x.transpose(1, 2)
        cache[table] = rows.view(batch, pages, page_size, kv_heads, head_dim)
        caches.append(cache)
    return *caches, table.to(dtype)


def tolerance(dtype):
    return {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]


def check(found, q, k, v, **options):
    """Compare with torch in float64."""
    exact = snippet.in_torch(*(x.double() for x in (q, k, v)), **options)
    assert (found.shape, found.dtype, found.is_contiguous()) == (q.shape, q.dtype, True)
    allowed = tolerance(q.dtype) * max(exact.abs().max().item() if exact.numel() else 0, 1)
    wrong = ((found.double() - exact).abs() <= allowed).logical_not()  # a NaN is wrong, too
    assert not wrong.any(), f"{found[wrong][:3]}, should be {exact[wrong][:3]}"


@contextlib.contextmanager
def tiles_of(tile=SMALL):
    """Several tiles to each part, though it is short."""
    with mock.patch.object(snippet, "default_tile", lambda *_: tile):
        yield


@settings(max_examples=30, phases=[Phase.explicit, Phase.generate])  # to shrink one takes minutes, interpreted
@example(2, (4, 2), 1, 50, [50, 0], False, 3, None, ("contiguous",) * 3, 0, None)
@example(3, (2, 1), 3, 70, [-5, 2, 99], True, 2, None, ("queries before heads", "one of three", "contiguous"), 1, None)
@example(2, (2, 2), 2, 40, [33, 7], True, 4, 5, ("columns", "heads and rows swapped", "contiguous"), 2, None)
@example(1, (20, 1), 1, 33, None, False, 1, 16, ("flipped sign", "every second", "one of three"), 3, None)  # two tiles
@given(
    batch=st.integers(1, 3),
    heads=st.sampled_from([(1, 1), (4, 1), (4, 2), (3, 3), (18, 1)]),
    queries=st.integers(1, 4),
    keys=st.integers(1, 90),
    lengths=st.none() | st.lists(st.integers(-1, 95), min_size=3, max_size=3),
    causal=st.booleans(),
    splits=st.none() | st.integers(1, 5),
    page_size=st.none() | st.sampled_from([1, 3, 16, 20]),
    layouts=st.tuples(st.sampled_from(list(QUERIES)), *[st.sampled_from(list(KEYS))] * 2),
    seed=st.integers(0, 999),
    data=st.data(),
)
def test_as_torch_computes_it_in_float64(
    device, batch, heads, queries, keys, lengths, causal, splits, page_size, layouts, seed, data
):
    dtype = torch.float32 if data is None else data.draw(st.sampled_from(served(device)))
    q, k, v = inputs(batch, *heads, queries, keys, dtype=dtype, device=device, seed=seed)
    options = {"causal": causal}
    integers = [torch.int32, torch.int64]
    if lengths:
        options["lengths"] = torch.tensor(lengths[:batch], device=device, dtype=integers[seed % 2])
    given = k, v, None
    if page_size:
        given = paged(k, v, page_size, device, seed, dtype=integers[seed // 2 % 2])
        options["lengths"] = options.get("lengths", torch.full((batch,), keys, device=device)).clamp(max=keys)
    given = [QUERIES[layouts[0]](q), KEYS[layouts[1]](given[0]), KEYS[layouts[2]](given[1]), given[2]]
    with tiles_of():
        found = decode_attention(*given[:3], page_table=given[3], splits=splits, **options)
    check(found, q, k, v, **options)


@pytest.mark.parametrize("head_dim", snippet.HEAD_DIMS)
def test_each_head_dim_by_its_own_tiles(device, head_dim):
    for dtype in served(device):
        q, k, v = inputs(1, 2, 1, 1, 150, head_dim, dtype=dtype, device=device)
        check(decode_attention(q, k, v, splits=2), q, k, v)


@pytest.mark.parametrize("scale", [0.3, -2.0, 0.0])
def test_a_scale(device, scale):
    q, k, v = inputs(1, 2, 1, 1, 40, dtype=torch.float64, device=device)
    check(decode_attention(q, k, v, scale=scale, splits=2), q, k, v, scale=scale)


@pytest.mark.parametrize("largest", [0, 1, 2])
def test_scores_that_would_overflow(device, largest):
    """exp(760) is inf, also in float64. One part has the largest scores, and the others vanish beside it."""
    q, k, v = inputs(1, 1, 1, 1, 48, dtype=torch.float64, device=device)
    q.fill_(1)
    k.copy_(torch.arange(48.0).roll(16 * largest + 16).view(48, 1).expand(48, 16) * 100)
    with tiles_of():
        found = decode_attention(q, k, v, splits=3)
    assert torch.equal(found[0, 0, 0], v[0, 0, 16 * largest + 15])


@functions
@pytest.mark.parametrize("splits", [None, 1, 3])
def test_an_empty_sequence(device, function, splits):
    """Zeros, though the values are NaN; and so without any key at all."""
    q, k, v = inputs(3, 2, 1, 1, 40, device=device)
    k[1], v[1] = math.nan, math.nan
    lengths = torch.tensor([40, 0, 3], device=device)
    found = function(q, k, v, lengths=lengths, splits=splits)
    assert not found[1].any() and not found.isnan().any()
    check(found, q, k, v, lengths=lengths)
    assert not function(q, k[:, :, :0], v[:, :, :0], splits=splits).any()


def test_lengths_out_of_range(device):
    """Below 0 is none, above the most is the most, also where 32 bits would make something else of it."""
    q, k, v = inputs(4, 1, 1, 1, 40, device=device)
    lengths = torch.tensor([5 - 2**33, -1, 2**33 + 5, 41], device=device)
    with tiles_of():
        for splits in (1, 2):
            found = decode_attention(q, k, v, lengths=lengths, splits=splits)
            assert not found[:2].any()
            check(found, q, k, v, lengths=lengths)


@pytest.mark.parametrize("shift", [0, -2000])
@pytest.mark.parametrize("block", [2, 4, 8])
def test_parts_that_are_combined_a_few_at_a_time(device, block, shift):
    """The largest maximum comes late, perhaps far below 0, and the first parts have seen no key."""
    splits, dtype = 7, torch.float64
    part, total = numbers(2, splits, 16, dtype=dtype, device=device), numbers(2, splits, device=device).double().abs()
    maximum = torch.tensor([[-math.inf, -math.inf, 1, 3, -2, 9, 8], [-math.inf] * 7], dtype=dtype, device=device)
    total[maximum.isinf()], part[maximum.isinf()] = 0, 0
    out = torch.empty(2, 16, dtype=dtype, device=device)
    snippet.combine_kernel[(2,)](
        part, maximum + shift, total, out, splits, COMPUTE=snippet.tl.float64, HEAD_DIM=16, BLOCK=block
    )  # fmt: skip
    factor = (maximum[0] - 9).exp()
    assert torch.allclose(out[0], factor @ part[0] / (factor @ total[0]), rtol=1e-12) and not out[1].any()


def test_first_queries_that_see_no_key(device):
    q, k, v = inputs(1, 2, 1, 5, 3, device=device)
    for splits in (1, 2):
        found = decode_attention(q, k, v, causal=True, splits=splits)
        assert not found[0, :, :2].any() and found[0, :, 2:].all()
        check(found, q, k, v, causal=True)


def test_as_torchs_own_function(device):
    q, k, v = inputs(2, 6, 2, 1, 100, dtype=torch.float64, device=device)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    assert torch.allclose(decode_attention(q, k, v, splits=3), expected)


def test_what_lies_behind_a_length_is_not_read(device):
    """It may be NaN, and the table may name pages that do not exist."""
    q, k, v = inputs(2, 2, 1, 1, 40, device=device)
    lengths = torch.tensor([21, 33], device=device)
    behind = torch.arange(40, device=device) >= lengths[:, None]
    k[behind[:, None].expand(2, 1, 40)], v[behind[:, None].expand(2, 1, 40)] = math.nan, math.nan
    cache_k, cache_v, table = paged(k, v, 4, device)
    table[0, 6:], table[1, 9:] = 2**30, -1
    with tiles_of():
        plain = decode_attention(q, k, v, lengths=lengths, splits=3)
        in_pages = decode_attention(q, cache_k, cache_v, lengths=lengths, page_table=table, splits=3)
    assert torch.equal(plain, in_pages)
    check(plain, q, k.nan_to_num(), v.nan_to_num(), lengths=lengths)


def test_pages_that_two_sequences_share(device):
    """As a common beginning of two texts; and a table that is part of a wider one."""
    q, k, v = inputs(2, 2, 1, 1, 12, device=device)
    k[1, :, :8], v[1, :, :8] = k[0, :, :8], v[0, :, :8]
    cache_k, cache_v, table = paged(k, v, 4, device)
    table[1, :2] = table[0, :2]
    wide = torch.full((2, 7), -1, dtype=torch.int32, device=device)
    wide[:, 2:5] = table
    check(decode_attention(q, cache_k, cache_v, page_table=wide[:, 2:5], splits=2), q, k, v)


def test_nan_reaches_those_who_see_it(device):
    with nan_as_on_a_gpu() if device == "cpu" else contextlib.nullcontext(), tiles_of():
        q, k, v = inputs(2, 1, 1, 1, 40, device=device)
        k[1, 0, 3] = math.nan
        for splits in (1, 3):
            found = decode_attention(q, k, v, splits=splits)
            assert found[1].isnan().all() and not found[0].isnan().any()


def test_the_same_bits_each_time_and_in_any_batch(device):
    q, k, v = inputs(3, 4, 2, 1, 80, device=device)
    with tiles_of():
        first, second, alone = (decode_attention(*(x[i] for x in (q, k, v)), splits=3) for i in (..., ..., slice(1, 2)))
    assert torch.equal(first, second) and torch.equal(first[1:2], alone)


def test_float32_is_multiplied_as_float32():
    with precisions_of_dots() as seen:
        decode_attention(*inputs(1, 1, 1, 1, 3))
    assert seen == {"IEEE"}


# How many parts


def test_the_number_of_parts():
    most = snippet.MOST_SPLITS
    assert choose_splits(1, 2) == 1 and choose_splits(1, 10**6) <= most, "a part has two steps at least"
    for multiprocessors in (1, 20, 132):
        room = snippet.TOGETHER * multiprocessors
        for programs in (1, 3, room - 1, room, room + 1, 3 * room + 7):
            splits = choose_splits(programs, 10**6, multiprocessors)
            shares = [programs * n / (-(-programs * n // room) * room) for n in range(1, most + 1)]
            enough = [share >= 0.95 * max(shares) for share in shares]
            assert enough[splits - 1] and not any(enough[: splits - 1])


def test_parts_are_chosen_from_what_is_there(device):
    """From heads of keys, tiles of a group, the longest sequence and multiprocessors; not from lengths on the GPU."""
    chosen = []
    q, k, v = inputs(2, 40, 2, 1, 100, device=device)
    cache_k, cache_v, table = paged(k, v, 16, device)
    choose = mock.patch.object(snippet, "choose_splits", lambda *given: chosen.append(given) or 1)
    count = mock.patch.object(snippet, "multiprocessors_of", lambda device: (device.type, 7))
    with tiles_of(), choose, count:
        decode_attention(q, k, v, lengths=torch.tensor([1, 1], device=device))
        decode_attention(q, cache_k, cache_v, page_table=table)
    assert chosen == [(2 * 2 * 2, 7, (device, 7))] * 2
    assert snippet.multiprocessors_of(torch.device("cpu")) == 132


@pytest.mark.parametrize("splits, steps", [(1, 5), (3, 5), (5, 5), (7, 5)])
def test_each_key_is_read_once_by_a_whole_group(splits, steps):
    """And each part has as many steps as any other, or one more: also those of a short sequence."""
    q, k, v = inputs(2, 8, 2, 2, 16 * steps - 3)
    lengths = torch.tensor([16 * steps - 3, 20])
    read = [x[b, :, :n].contiguous() for b, n in enumerate(lengths.tolist()) for x in (k, v)]
    with tiles_of(), recorded_accesses() as seen:
        decode_attention(q, k, v, lengths=lengths, splits=splits)
    loads = np.concatenate([at for kind, at in seen if kind == "load"])
    for x in (k, v):
        wanted = np.sort(np.concatenate([addresses_of(x[b, :, :n]) for b, n in enumerate(lengths.tolist())]))
        begin = x.data_ptr()
        found = np.sort(loads[(loads >= begin) & (loads < begin + x.numel() * x.itemsize)])
        assert np.array_equal(found, wanted)
    assert sum(x.numel() for x in read) == 2 * 2 * 16 * lengths.sum()
    # of the programs of the first sequence, how many tiles of k each loads
    per_program, current = [], 0
    for kind, at in seen:
        if kind == "load" and at.size and k.data_ptr() <= at[0] < k.data_ptr() + k[0].numel() * 4:
            current += 1
        elif kind == "store" and current:
            per_program.append(current), (current := 0)
    if splits > 1:
        assert max(per_program) - min(per_program) <= 1 or splits > steps
        assert sum(per_program) == 2 * steps


# What it touches


@pytest.mark.parametrize("splits", [1, 3])
def test_nothing_else_is_touched_and_each_result_is_written_once(device, splits):
    """Guard zones around all tensors, of lengths that fill no tile, with pages."""
    q, k, v = inputs(2, 6, 2, 1, 37)
    cache_k, cache_v, table = paged(k, v, 5, spare=0)
    lengths = torch.tensor([18, 37], dtype=torch.int32)
    zones = {"before": 64, "after": 16 * 64, "fill": 0xFF}
    given = [Guarded.around(x.to(device), **zones) for x in (q, cache_k, cache_v, lengths, table)]
    zones |= {"device": device}
    made = [Guarded((2, 6, 1, 16), torch.float32, **zones)]
    if splits > 1:
        made += [
            Guarded((2, 6, 1, splits, 16), torch.float32, **zones),
            Guarded((2, 2, 6, 1, splits), torch.float32, **zones),
        ]
    seen = recorded_accesses() if device == "cpu" else contextlib.nullcontext()
    with tiles_of(), handed_out("empty", *(each.tensor for each in made)), seen as accesses:
        names = ("q", "k", "v", "lengths", "page_table")
        found = decode_attention(**dict(zip(names, (each.tensor for each in given), strict=True)), splits=splits)
    for each in (*given, *made):
        each.check("a tensor")
    check(found, *(x.to(device) for x in (q, k, v)), lengths=lengths.to(device))
    if device == "cpu":
        check_each_once(accesses, "store", **{str(i): each.tensor for i, each in enumerate(made)})
        check_inside(accesses, "load", **{str(i): each.tensor for i, each in enumerate([*given, *made[1:]])})


def test_offsets_are_computed_in_64_bits():
    """Of sequence 2**17, in tensors without memory: where q, k and v begin, and where the result goes."""
    batch, at = 2**17, []
    tensors = [torch.zeros(1) for _ in range(4)]
    strides = 2**20, 0, 0, 2**21, 0, 2**27, 2**22, 0, 2**28, 0
    with recorded_accesses(first_program=(batch, 0, 0), memory=False) as seen:
        snippet.parts_kernel[(1,)](
            *tensors[:3], None, None, tensors[3], None, None, *strides, 1, 1, 1, 17, 1, 1,
            SCALE=1.0, CAUSAL=False, PAGE_SIZE=1, WHOLE=True, COMPUTE=snippet.tl.float32,
            HEAD_DIM=16, ROWS=16, BLOCK=16,
        )  # fmt: skip
    order = [tensors[i] for i in (0, 1, 2, 1, 2, 3)]  # q, then k and v of two tiles, then the result
    at = [((each.max() - x.data_ptr()) // 4).item() for (_, each), x in zip(seen, order, strict=True)]
    q, k, v, out = batch * 2**20 + 15, batch * 2**21 + 15, batch * 2**22 + 15, batch * 16 + 15
    assert at == [q, k + 15 * 2**27, v + 15 * 2**28, k + 16 * 2**27, v + 16 * 2**28, out]


def test_offsets_of_heads_and_queries_are_computed_in_64_bits():
    """Of the last of 2**17 heads, and of its 16 queries, whose strides are within 32 bits."""
    tensors, last = [torch.zeros(1) for _ in range(4)], 2**17 - 1
    strides = 0, 2**15, 2**28, 0, 2**16, 16, 0, 2**17, 16, 0
    with recorded_accesses(first_program=(last, 0, 0), memory=False) as seen:
        snippet.parts_kernel[(1,)](
            *tensors[:3], None, None, tensors[3], None, None, *strides, last + 1, 1, 16, 1, 1, 1,
            SCALE=1.0, CAUSAL=False, PAGE_SIZE=1, WHOLE=True, COMPUTE=snippet.tl.float32,
            HEAD_DIM=16, ROWS=16, BLOCK=16,
        )  # fmt: skip
    found = [((each.max() - x.data_ptr()) // 4).item() for (_, each), x in zip(seen, tensors, strict=True)]
    assert found[:3] == [last * 2**15 + 15 * 2**28 + 15, last * 2**16 + 15, last * 2**17 + 15]


def test_offsets_of_parts_are_computed_in_64_bits():
    part, maximum, total, out = (torch.zeros(1) for _ in range(4))
    number, splits = 2**24, 300
    with recorded_accesses(first_program=(number, 0, 0), memory=False) as seen:
        snippet.combine_kernel[(1,)](
            part, maximum, total, out, splits, COMPUTE=snippet.tl.float32, HEAD_DIM=16, BLOCK=512
        )  # fmt: skip
    order = maximum, total, part, out
    found = [((at.max() - x.data_ptr()) // 4).item() for (_, at), x in zip(seen, order, strict=True)]
    last = (number + 1) * splits - 1
    assert found == [last, last, last * 16 + 15, number * 16 + 15]


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_offsets_of_pages_are_computed_in_64_bits(dtype):
    """Page 2**20, whose memory is not there: the table alone is really loaded."""
    from triton.runtime.interpreter import interpreter_builder as builder

    table, (q, k, v, out) = torch.full((1, 1), 2**20, dtype=dtype), torch.zeros(4, 16)
    load, found = builder.create_masked_load, {}

    def load_the_table(pointers, mask, *rest, **options):
        for name, x in (("k", k), ("v", v)):
            if 2**31 < (far := (int(pointers.data.max()) - x.data_ptr()) // 4) < 2**40:
                found[name] = [*found.get(name, []), far]
        here = (pointers.data >= table.data_ptr()) & (pointers.data < table.data_ptr() + table.nbytes)
        return load(pointers, type(mask)(np.broadcast_to(mask.data, here.shape) & here, mask.dtype), *rest, **options)

    with mock.patch.object(builder, "create_masked_load", load_the_table):
        snippet.parts_kernel[(1,)](
            q, k, v, None, table, out, None, None, 0, 0, 0, 2**12, 0, 16, 2**13, 0, 16, 1, 1, 1, 1, 1, 1, 1,
            SCALE=1.0, CAUSAL=False, PAGE_SIZE=1, WHOLE=True, COMPUTE=snippet.tl.float32,
            HEAD_DIM=16, ROWS=16, BLOCK=16,
        )  # fmt: skip
    assert found["v"][-1] == 2**33 + 15 and 2**32 + 15 in found["k"]


# No gradient, and torch.compile


def test_a_gradient_is_refused(device):
    given = inputs(1, 1, 1, 1, 3, device=device)
    for x in given:
        x.requires_grad_()
        with pytest.raises(ValueError, match="requires a gradient, which decode_attention does not compute"):
            decode_attention(*given)
        with torch.no_grad():
            assert not decode_attention(*given).requires_grad
        with torch.inference_mode():
            decode_attention(*given)
        x.requires_grad_(False)


def test_under_torch_compile(device):
    torch.compiler.reset()
    backend = "inductor" if device == "cuda" else "aot_eager"
    compiled = torch.compile(
        lambda q, k, v, lengths, page_table: decode_attention(
            2 * q, k, v, lengths=lengths, page_table=page_table, causal=True, splits=2
        ).transpose(1, 2),
        fullgraph=True, backend=backend,
    )  # fmt: skip
    for batch, keys in ((2, 9), (3, 12)):  # the second may be compiled for any length
        q, k, v = inputs(batch, 2, 1, 2, keys, device=device)
        lengths = torch.tensor([keys, 3, 1], device=device)[:batch]
        cache_k, cache_v, table = paged(k, v, 4, device)
        found = compiled(q, cache_k, cache_v, lengths, table)
        check(found.transpose(1, 2).contiguous(), 2 * q, k, v, lengths=lengths, causal=True)


def test_no_gradient_under_torch_compile(device):
    """It is refused while it is compiled, or, for the op alone, in the backward: never a wrong one."""
    torch.compiler.reset()
    q, k, v = (x.requires_grad_() for x in inputs(1, 1, 1, 1, 3, device=device))
    backend = "inductor" if device == "cuda" else "aot_eager"
    with pytest.raises(Exception, match="requires a gradient"):
        torch.compile(decode_attention, fullgraph=True, backend=backend)(q, k, v)
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        op(q, k, v).sum().backward()


def test_the_op_keeps_what_it_promises_the_compiler(device):
    q, k, v = inputs(2, 2, 1, 1, 9, device=device)
    cache_k, cache_v, table = paged(k, v, 4, device)
    lengths = torch.tensor([9, 4], device=device)
    torch.library.opcheck(decode_attention_op, (q, cache_k, cache_v, lengths, table, False, 0.25, 2))
    torch.library.opcheck(decode_attention_op, (QUERIES["columns"](q), k, v, None, None, True, 0.25, None))


# What is refused


def ones(*shape, **options):
    return torch.ones(*shape, **options)


def keys(*shape):
    return [ones(*shape) for _ in range(2)]


Q = 2, 4, 1, 16
REFUSED = [
    ((ones(2, 4, 16), *keys(2, 2, 3, 16)), {}, "q must be (batch, heads, queries, head_dim); got the shape (2, 4, 16)"),
    ((ones(*Q), *keys(2, 3, 16)), {}, "k must be (batch, kv_heads, keys, head_dim); got the shape (2, 3, 16)"),
    ((ones(*Q), *keys(2, 3, 16)), {"page_table": ones(2, 1).int()}, "k must be (pages, page_size, kv_heads, head_dim)"),
    ((ones(*Q), ones(2, 2, 3, 16), ones(2, 2, 3, 16).half()), {}, "the same dtype and device; got torch.float32 on"),
    ((ones(*Q), ones(2, 2, 3, 16), ones(2, 2, 4, 16)), {}, "v must have the shape of k, (2, 2, 3, 16); got (2, 2,"),
    ((ones(*Q), *keys(1, 2, 3, 16)), {}, "the same batch and head_dim; got (2, 4, 1, 16) and (1, 2, 3, 16)"),
    ((ones(*Q), *keys(2, 2, 3, 32)), {}, "the same batch and head_dim; got (2, 4, 1, 16) and (2, 2, 3, 32)"),
    ((ones(*Q), *keys(2, 3, 3, 16)), {}, "the 4 heads of q must be a multiple of the 3 of k"),
    ((ones(*Q), *keys(2, 0, 3, 16)), {}, "the 4 heads of q must be a multiple of the 0 of k"),
    ([ones(1, 1, 1, 24)] * 3, {}, "head_dim 24 is not supported; use one of 16, 32, 64, 128, 256"),
    ([ones(1, 1, 1, 16).int()] * 3, {}, "torch.int32 is not supported; use one of"),
    ((ones(*Q), ones(2, 2, 16, 3).mT, ones(2, 2, 3, 16)), {}, "a row of k must be neighbors in memory, not negated"),
    ((ones(*Q), *keys(2, 2, 3, 16)), {"lengths": ones(3).int()}, "lengths must be (batch,) with the batch of 2 of q"),
    ((ones(*Q), *keys(2, 2, 3, 16)), {"lengths": ones(2)}, "int32 or int64, on cpu; got (2,) of torch.float32"),
    ((ones(*Q), *keys(2, 2, 3, 16)), {"lengths": ones(2, 1).int()}, "lengths must be (batch,)"),
    ((ones(*Q), *keys(2, 2, 3, 16)), {"lengths": ones(4).int()[::2]}, "lengths must have neighbors along its last"),
    ((ones(*Q), *keys(9, 3, 2, 16)), {"page_table": ones(3, 1).int()}, "page_table must be (batch, pages of a"),
    ((ones(*Q), *keys(9, 3, 2, 16)), {"page_table": ones(4, 2).int().T}, "page_table must have neighbors along its"),
    ((ones(*Q), *keys(0, 3, 2, 16)), {"page_table": ones(2, 4).int()}, "the page table has 8 entries, but k, (0, 3"),
    ((ones(*Q), *keys(2, 2, 3, 16)), {"splits": 0}, "splits must be from 1 to 512; got 0"),
    ((ones(*Q), *keys(2, 2, 3, 16)), {"splits": 513}, "splits must be from 1 to 512; got 513"),
]


@functions
@pytest.mark.parametrize("given, options, fragment", REFUSED)
def test_refuses(function, given, options, fragment):
    with pytest.raises(ValueError) as error:
        function(*given, **options)
    assert fragment in str(error.value)


def test_refuses_what_lies_elsewhere(device):
    x = torch.ones(1, 1, 2, 16, device=device)
    lengths = torch.ones(1, dtype=torch.int32)
    for made, options, fragment in (
        ((x, x.to("meta"), x), {}, "on meta"),
        ((x.to("meta"),) * 3, {}, "q is on meta; kernels run on"),
        ((x, x, x.to_sparse()), {}, "v is torch.sparse_coo; pass v.to_dense()"),
        ((x, x, torch._neg_view(x)), {}, "a row of v must be neighbors in memory, not negated lazily"),
        ((x, x, x), {"lengths": lengths.to("meta")}, "got (1,) of torch.int32 on meta"),
    ):
        with pytest.raises(ValueError) as error:
            decode_attention(*made, **options)
        assert fragment in str(error.value)


def test_too_long_and_too_many():
    long = without_memory(1, 1, 2**30 + 1, 16)
    with pytest.raises(ValueError, match="1073741825 keys, 1 heads and 1 queries are too many"):
        snippet.check_arguments(without_memory(1, 1, 1, 16), long, long)
    q, k = without_memory(2**15, 2**16, 1, 16), without_memory(2**15, 2**16, 1, 16)
    with pytest.raises(ValueError, match=r"2147483648 programs; .* is the limit"):
        snippet.forward(q, k, k, None, None, False, 1.0, 1)


@pytest.mark.parametrize("shape", [(0, 1, 1, 1, 3), (1, 0, 0, 1, 3), (1, 0, 3, 1, 3), (1, 1, 1, 0, 3), (1, 1, 1, 1, 0)])
def test_nothing_to_do(device, shape):
    q, k, v = inputs(*shape, device=device)
    found = decode_attention(q, k, v, lengths=torch.full((len(q),), 2, device=device))
    assert found.shape == q.shape and not found.any()


@pytest.mark.parametrize("pages, columns", [(0, 0), (2, 0)])
def test_no_pages(device, pages, columns):
    q, cache = torch.ones(1, 1, 1, 16, device=device), torch.ones(pages, 4, 1, 16, device=device)
    table = torch.zeros(1, columns, dtype=torch.int32, device=device)
    assert not decode_attention(q, cache, cache, page_table=table).any()


CODE = """
table = torch.zeros(1, 256, dtype=torch.int32)
for head_dim in (64, 128):
    q, k = (torch.empty(1, heads, 4096, head_dim).bfloat16() for heads in (8, 2))
    cache = torch.empty(256, 16, 2, head_dim).bfloat16()
    module.forward(q[:, :, :1], k, k, None, None, False, 0.125, 8)
    module.forward(q[:, :, :1], cache, cache, table[0, :1], table, False, 0.125, 8)
"""


def test_compiles_to_matrix_units_and_wide_loads():
    """For an H200, without one: nothing spills, and three programs have room on a multiprocessor."""
    launches = compiled("fusion/decoding", CODE)
    assert [launch.kernel for launch in launches] == ["parts_kernel", "combine_kernel"] * 4
    assert all(launch.spills == 0 and launch.shared <= 101_376 * 3 // 4 for launch in launches)
    for launch in launches[::2]:
        assert "LDGSTS.E.BYPASS" in launch.sass and ".128" in launch.sass and "HMMA" in launch.sass


# On a GPU alone


@pytest.mark.gpu
def test_more_than_2_to_the_31_elements():
    """A cache of 2.2 billion elements, of which the last pages are read; and as many keys of one sequence."""
    if torch.cuda.mem_get_info()[0] < 30e9:
        pytest.skip("needs 30 GB of free GPU memory")
    options = {"dtype": torch.float16, "device": "cuda"}
    pages = 2**31 // (16 * 128) + 100
    q, k, v = inputs(1, 4, 1, 1, 1600, 128, **options)
    cache_k, cache_v = torch.zeros(2, pages, 16, 1, 128, **options)
    for cache, x in ((cache_k, k), (cache_v, v)):
        cache[-100:] = x.view(100, 16, 1, 128)
    table = torch.arange(pages - 100, pages, device="cuda", dtype=torch.int32)[None]
    check(decode_attention(q, cache_k, cache_v, page_table=table), q, k, v)
    long_k, long_v = (cache.view(1, 1, -1, 128) for cache in (cache_k, cache_v))
    long_k[0, 0, :-1600] = -1000 * q[0, 0].sign()  # keys of no weight
    check(decode_attention(q[:, :1], long_k, long_v), q[:, :1], k, v)


@pytest.mark.gpu
@pytest.mark.parametrize("head_dim", snippet.HEAD_DIMS)
@pytest.mark.parametrize("dtype", snippet.DTYPES)
def test_lengths_of_models(dtype, head_dim):
    q, k, v = inputs(3, 8, 2, 1, 3000, head_dim, dtype=dtype, device="cuda")
    lengths = torch.tensor([3000, 1, 1777], device="cuda")
    check(decode_attention(q, k, v), q, k, v)
    for page_size in (16, 48, 256):
        cache_k, cache_v, table = paged(k, v, page_size, "cuda")
        found = decode_attention(q, cache_k, cache_v, lengths=lengths, page_table=table)
        check(found, q, k, v, lengths=lengths)


@pytest.mark.gpu
def test_no_synchronization():
    q, k, v = inputs(2, 8, 2, 1, 3000, 64, dtype=torch.float16, device="cuda")
    cache_k, cache_v, table = paged(k, v, 16, "cuda")
    lengths = torch.tensor([3000, 1], device="cuda")
    run = lambda: decode_attention(q, cache_k, cache_v, lengths=lengths, page_table=table)
    run()  # compiles
    torch.cuda.set_sync_debug_mode("error")
    try:
        run()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_in_a_cuda_graph(dtype):
    """Lengths and page table may change between two replays."""
    q, k, v = inputs(2, 8, 2, 1, 3000, 64, dtype=dtype, device="cuda")
    cache_k, cache_v, table = paged(k, v, 16, "cuda")
    lengths = torch.tensor([3000, 1], device="cuda")
    run = lambda: decode_attention(q, cache_k, cache_v, lengths=lengths, page_table=table)
    run()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = run()
    for changed in ([3000, 1], [7, 0], [2999, 1234]):
        lengths.copy_(torch.tensor(changed))
        table.copy_(table.flip(0)), k.copy_(k.flip(0)), v.copy_(v.flip(0))
        graph.replay()
        assert torch.equal(captured, run())
        check(captured, q, k, v, lengths=lengths)
