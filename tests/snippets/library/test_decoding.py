# SPDX-License-Identifier: Apache-2.0
"""Attention for inference, to copy: result and lse of torch in float64 with a mask of who sees what, for every option,
a cache in pages and in fp8, packed queries; what nobody sees is not read, and what a query does not see may be NaN.
"""

import contextlib
import itertools
import math

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from compiled import SHARED, compiled
from covering import covering
from guards import check_inside, recorded_accesses
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from prepared import keep_launches, refuse_launches

from snippets.library import decoding as snippet
from snippets.library.decoding import decode_attention, in_torch

TOLERANCE = {torch.float64: 1e-10, torch.float32: 5e-5, torch.float16: 1e-2, torch.bfloat16: 6e-2}
LAYOUTS = {  # of q
    "contiguous": lambda t: t.clone(),
    "queries before heads": lambda t: t.transpose(1, 2).contiguous().transpose(1, 2),
    "one of three": lambda t: torch.stack([-t, t, 2 * t], dim=3)[:, :, :, 1],
    "columns": lambda t: t.mT.contiguous().mT,
    "flipped sign": lambda t: torch._neg_view(-t),
}


def numbers(*shape, dtype=torch.float64, device="cpu", seed=0):
    """Return normal numbers between NaN, so that what is read beyond the ends shows."""
    random = torch.Generator().manual_seed(seed)
    made = torch.randn(shape, generator=random, dtype=torch.float64).to(device, dtype)
    around = made.new_full((16,), math.nan)
    return torch.cat([around, made.flatten(), around])[16 : 16 + made.numel()].view(shape)


def in_pages(x, page_size, lengths, spare=2):
    """Return keys in pages, of which some are nobody's and NaN, and their table: part of a wider one, and behind the
    lengths it names pages that do not exist.
    """
    batch, heads, keys, width = x.shape
    most = -(-keys // page_size)
    table = torch.randperm(batch * most + spare, generator=torch.Generator().manual_seed(0))[: batch * most]
    pages, table = x.new_full((batch * most + spare, page_size, heads, width), math.nan), table.view(batch, most)
    for key in range(keys):
        pages[table[:, key // page_size].to(x.device), key % page_size] = x[:, :, key]
    table = torch.cat([table, torch.full_like(table, -1)], 1)[:, :most].to(x.device)
    table[torch.arange(most, device=x.device) * page_size >= lengths[:, None]] = 2**40
    return pages, table


def compare(found, wanted, dtype):
    for ours, exact in zip(found, wanted, strict=True):
        assert ours.shape == exact.shape
        scale = exact[exact.isfinite()].abs().max().clamp(min=1) if exact.isfinite().any() else 1
        near = (ours.double() == exact) | ((ours.double() - exact).abs() <= TOLERANCE[dtype] * scale)
        assert near.all(), (ours[~near][:3], exact[~near][:3])


def double(x):
    return x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x


def check(q, k, v, page_size=None, splits=None, **options):
    """Compare result and lse with those of float64, for keys side by side or in pages."""
    wanted = in_torch(*map(double, (q, k, v)), **{name: double(x) for name, x in options.items()})
    if page_size:
        lengths = options.get("lengths", torch.full((len(k),), k.shape[2], device=q.device))
        lengths = options["lengths"] = lengths.clamp(max=k.shape[2])  # the last page may have room for more
        (k, options["page_table"]), (v, _) = (in_pages(x, page_size, lengths) for x in (k, v))
    found = decode_attention(q, k, v, splits=splits, return_lse=True, **options)
    assert found[0].dtype == q.dtype and found[1].dtype == snippet.dtype_inside(q)
    compare(found, wanted, q.dtype)
    return found


OPTIONS = {
    "nothing": {},
    "causal": {"causal": True},
    "window behind": {"window": (9, 0)},
    "window around": {"window": (5, 2)},
    "window ahead": {"window": (-1, 1)},
    "softcap": {"softcap": 1.5},
    "scale below 0": {"scale": -0.3},
    "scale 0": {"scale": 0.0},
    "sinks": {"sinks": (4,)},
    "slopes": {"alibi_slopes": (4,)},
    "slopes of each sequence": {"alibi_slopes": (2, 4), "causal": True},
    "all at once": {"window": (20, 0), "softcap": 2.0, "sinks": (4,), "alibi_slopes": (4,)},
}


def made(options, device, dtype=torch.float64):
    """Return options, with numbers in place of the shapes of tensors."""
    drawn = lambda value: numbers(*value, dtype=dtype, device=device, seed=9)
    return {name: drawn(value) if name in ("sinks", "alibi_slopes") else value for name, value in options.items()}


@covering(
    option=sorted(OPTIONS),
    splits=[1, 2, 5],
    queries=[1, 3],
    page_size=[None, 4, 16],
    widths=[(16, 16), (40, 24), (80, 80), (24, 96)],
)
def test_every_option(device, option, splits, queries, page_size, widths):
    q = numbers(2, 4, queries, widths[0], device=device)
    k, v = (numbers(2, 2, 37, width, device=device, seed=1) for width in widths)
    lengths = torch.tensor([37, 30], dtype=torch.int32, device=device)
    check(q, k, v, page_size, splits, lengths=lengths, **made(OPTIONS[option], device))


@settings(max_examples=20, phases=[Phase.explicit, Phase.generate])  # to shrink one takes minutes, interpreted
@given(
    batch=st.integers(1, 3), heads=st.sampled_from([(1, 1), (4, 2), (6, 1), (20, 1)]), queries=st.integers(1, 5),
    keys=st.integers(0, 70), head_dim=st.integers(1, 50), value_dim=st.integers(1, 50),
    page_size=st.sampled_from([None, 5]),
    window=st.tuples(*[st.one_of(st.none(), st.integers(-1, 80))] * 2), splits=st.sampled_from([None, 1, 4]),
    dtype=st.sampled_from([torch.float64, torch.float32, torch.float16]), layout=st.sampled_from(sorted(LAYOUTS)),
    lengths=st.lists(st.integers(-3, 80), min_size=3, max_size=3), seed=st.integers(0, 9),
)  # fmt: skip
def test_any_shape_length_and_layout(
    device, batch, heads, queries, keys, head_dim, value_dim, page_size, window, splits, dtype, layout, lengths, seed
):
    (heads, kv_heads), lengths = heads, torch.tensor(lengths[:batch], device=device)
    q = LAYOUTS[layout](numbers(batch, heads, queries, head_dim, dtype=dtype, device=device, seed=seed))
    k = numbers(batch, kv_heads, keys, head_dim, dtype=dtype, device=device, seed=seed + 1)
    v = numbers(batch, kv_heads, keys, value_dim, dtype=dtype, device=device, seed=seed + 2)
    check(q, k, v, page_size if keys else None, splits, lengths=lengths, window=window)


@pytest.mark.parametrize("widths", [(23, 6), (6, 23), (23, 23), (7, 100), (41, 41)])
def test_narrow_heads_that_begin_anywhere_in_many_rows(device, widths):
    """Triton 3.6 got them wrong in tiles of 64 rows, in 16 bits."""
    q = numbers(3, 20, 4, widths[0], dtype=torch.float16, device=device)
    k, v = (numbers(3, 1, 67, width, dtype=torch.float16, device=device, seed=1) for width in widths)
    lengths = torch.tensor([20, 22, 55], device=device)
    check(q, k, v, lengths=lengths, causal=True)
    check(q, k, v, 5, lengths=lengths)


@pytest.mark.parametrize("splits", [1, 3])
def test_values_inside_of_keys_are_read_once(device, splits):
    """As in MLA: the same bits as from a copy of the values, with fewer reads."""
    q, latent = numbers(2, 6, 2, 80, device=device), numbers(2, 1, 70, 80, device=device, seed=1)
    inside, apart = latent[..., :64], latent[..., :64].clone()
    check(q, latent, inside, splits=splits, causal=True)
    reads = []
    for v in (inside, apart):
        with recorded_accesses() if device == "cpu" else contextlib.nullcontext([]) as seen:
            reads.append((decode_attention(q, latent, v, splits=splits), len(seen)))
    assert torch.equal(reads[0][0], reads[1][0])
    assert device != "cpu" or reads[0][1] < reads[1][1]
    check(q, latent, latent[..., :48], splits=splits)  # no sum of powers of two, so it is read again


def test_more_heads_than_a_tile_has_rows_and_more_queries(device):
    q = numbers(1, 24, 3, 16, device=device)
    k, v = (numbers(1, 1, 40, 16, device=device, seed=seed) for seed in (1, 2))
    check(q, k, v, splits=2, window=(6, 0))


@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("cu_dtype", [torch.int32, torch.int64])
def test_packed_queries_are_as_each_sequence_alone(device, splits, cu_dtype):
    counts, lengths = [2, 0, 5, 1], torch.tensor([40, 20, 33, 0], device=device)
    begins = torch.tensor([0, 2, 2, 7, 8], dtype=cu_dtype, device=device)
    q = numbers(10, 4, 24, device=device)  # two rows are in no sequence
    k, v = (numbers(4, 2, 40, width, device=device, seed=1) for width in (24, 40))
    options = {"window": (11, 0), "sinks": numbers(4, device=device, seed=3), "splits": splits, "return_lse": True}
    for most in (None, 5, np.int64(9)):
        out, lse = decode_attention(
            q, k, v, lengths=lengths, cu_seqlens_q=begins, max_seqlen_q=most, **options
        )  # fmt: skip
        assert out.shape == (10, 4, 40) and lse.shape == (4, 10)
        begin = 0
        for i, count in enumerate(counts):
            here = slice(begin, begin + count)
            alone = decode_attention(
                q[here].transpose(0, 1)[None], k[i : i + 1], v[i : i + 1], lengths=lengths[i : i + 1], **options
            )
            assert torch.allclose(out[here].transpose(0, 1), alone[0][0])
            assert torch.allclose(lse[:, here], alone[1][0])
            begin += count


@pytest.mark.parametrize("cu", [[0, 9, 3, 40], [5, -7, 90, 2], [0, 2**31 - 1, 5, 7]])
def test_wrong_beginnings_touch_nothing_else(device, cu):
    q, k, cu = numbers(12, 2, 16, device=device), numbers(3, 1, 20, 16, device=device), torch.tensor(cu, device=device)
    with recorded_accesses() if device == "cpu" else contextlib.nullcontext() as seen:
        out = decode_attention(q, k, k, cu_seqlens_q=cu, max_seqlen_q=4, splits=1)
    if device == "cpu":
        check_inside(seen, "load", q=q, k=k, cu=cu)
        check_inside(seen, "store", out=out)


# A cache in fp8


@covering(
    cached=snippet.CACHED, dtype=[torch.float32, torch.float16], scales=["of each head", "one", None], largest=[1, 3e4]
)
def test_a_cache_in_fp8(device, cached, dtype, scales, largest):
    q = (largest * numbers(2, 4, 2, 40, device=device)).clamp(-largest, largest).to(dtype)
    q[0, 0] = 0
    k, v = (numbers(2, 2, 37, width, device=device, seed=1).to(cached) for width in (40, 24))
    scale = {"of each head": torch.tensor([0.5, 2.0]), "one": torch.tensor(0.25), None: None}[scales]
    given = {} if scale is None else {"k_scale": scale.to(device), "v_scale": scale.to(device) * 3}
    check(q, k, v, 4, 3, scale=0.1 / largest, **given)


@pytest.mark.gpu
@pytest.mark.parametrize("largest", [1.0, 1e6])
def test_bfloat16_fits_float16_row_by_row(largest):
    q = largest * numbers(2, 4, 1, 128, dtype=torch.bfloat16, device="cuda")
    k, v = (numbers(2, 2, 300, 128, device="cuda", seed=1).to(torch.float8_e4m3fn) for _ in range(2))
    check(q, k, v, scale=0.1 / largest)


def test_every_tile_has_powers_of_two():
    widths = itertools.product({snippet.blocks_of(width) for width in range(1, snippet.WIDEST + 1)}, repeat=2)
    for (head, value), dtype, rows in itertools.product(widths, snippet.DTYPES, (1, 20, 500)):
        for paged, in_fp8, shared in itertools.product((False, True), repeat=3):
            tile, _ = snippet.default_tile(dtype, sum(head), sum(value), rows, paged, in_fp8, shared)
            for side in (tile["ROWS"], tile["BLOCK"], tile["num_warps"]):
                assert side == 2 ** (side.bit_length() - 1), (head, value, dtype, tile)


# What a query does not see may be anything


@pytest.mark.parametrize("splits", [1, 2])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_a_query_does_not_see_does_not_reach_it(device, splits, bad):
    """Key 33 of 40 in a window of 4 back and 2 ahead: of ten queries, 1 to 7 see it."""
    q = numbers(1, 2, 10, 16, device=device)
    k, v = (numbers(1, 1, 40, 16, device=device, seed=seed) for seed in (1, 2))
    run = lambda k, v: decode_attention(q, k, v, window=(4, 2), splits=splits)
    wanted, reached = run(k, v), torch.zeros(10, dtype=torch.bool, device=device)
    reached[1:8] = True
    for where in "kv":
        k_bad, v_bad = k.clone(), v.clone()
        (k_bad if where == "k" else v_bad)[:, :, 33, 3] = bad
        out = run(k_bad, v_bad)
        assert torch.allclose(out[:, :, ~reached], wanted[:, :, ~reached])
        if where == "v" or math.isnan(bad):  # of an infinite key, the score may be -inf
            assert not out[:, :, reached].isfinite().all(-1).any(), "who sees it must not get a number"


def test_what_no_query_sees_may_be_anything(device):
    q, k = numbers(1, 2, 1, 16, device=device), numbers(1, 1, 200, 16, device=device, seed=1)
    options = {"lengths": torch.tensor([150], device=device), "window": (20, 0), "splits": 2}
    wanted = decode_attention(q, k, k.clone(), **options)
    k[:, :, :129] = k[:, :, 150:] = math.nan
    assert torch.equal(decode_attention(q, k, k.clone(), **options), wanted)


@pytest.mark.parametrize("splits", [1, 2])
@pytest.mark.parametrize("page_size", [4, 32])  # less than a tile, and as much as one
def test_only_keys_that_a_tile_sees_are_read_and_only_their_pages(splits, page_size):
    """20 queries at the end of 150 keys: the first tile, of 16, sees keys 126 to 145, the second 142 to 149."""
    q, k = numbers(1, 1, 20, 16), numbers(1, 1, 200, 16, seed=1)
    lengths = torch.tensor([150])
    (k, table), v = in_pages(k, page_size, lengths), in_pages(k, page_size, lengths)[0]
    with recorded_accesses() as seen:
        decode_attention(q, k, v, lengths=lengths, page_table=table, window=(4, 0), splits=splits)
    loads = np.concatenate([np.ravel(at) for kind, at in seen if kind == "load"])
    of = lambda x: loads[(loads >= x.data_ptr()) & (loads < x.data_ptr() + x.untyped_storage().nbytes())]
    for x in (k, v):
        assert len(of(x)) == (20 + 8) * 16
    entries = (of(table) - table.data_ptr()) // 8
    assert {*entries} == {key // page_size for key in range(126, 150)}


@pytest.mark.parametrize("splits", [1, 2, 3, 7])
def test_a_long_window_in_parts(device, splits):
    """It begins within a tile, not with the first; and a sequence has no key at all."""
    q, k = numbers(3, 2, 2, 16, device=device), numbers(3, 1, 300, 16, device=device, seed=1)
    lengths = torch.tensor([300, 0, 41], device=device)
    out, lse = check(q, k, 2 * k, None, splits, lengths=lengths, window=(150, 0))
    assert not out[1].any() and lse[1].eq(-math.inf).all()
    check(q, k, 2 * k, 16, splits, lengths=lengths, window=(150, 0), sinks=numbers(2, device=device, seed=2))


@triton.jit
def fit_kernel(x_ptr, out_ptr, largest_ptr, WIDTH: tl.constexpr):
    rows, columns = tl.arange(0, 4), tl.arange(0, WIDTH // 2)
    x = x_ptr + rows[:, None] * WIDTH + columns[None, :]
    pieces, largest = snippet_fitted((tl.load(x), tl.load(x + WIDTH // 2)), tl.float16)
    tl.store(largest_ptr + rows, largest)
    out = out_ptr + rows[:, None] * WIDTH + columns[None, :]
    tl.store(out, pieces[0])
    tl.store(out + WIDTH // 2, pieces[1])


snippet_fitted = snippet.fitted


def test_rows_of_any_size_fit_float16(device):
    """Of zeros, of numbers that float16 does not have, and with the largest in each of two pieces."""
    x = numbers(4, 32, dtype=torch.float32, device=device).clamp(-2, 2)
    x[0], x[1], x[1, 3], x[2], x[2, 30] = 0, x[1] * 1e8, -7e8, x[2] * 1e-9, 4e-9
    out, largest = torch.empty(4, 32, dtype=torch.float16, device=device), torch.empty(4, device=device)
    fit_kernel[(1,)](x, out, largest, WIDTH=32)
    assert torch.equal(largest, torch.where(x.abs().amax(1) == 0, 1, x.abs().amax(1)))
    assert torch.allclose(out.float() * largest[:, None], x, rtol=1e-3, atol=1e-4 * largest.min().item())
    assert out[1:].abs().amax(1).eq(1).all()


def test_the_same_bits_each_time_and_in_any_batch(device):
    q, k = numbers(3, 4, 2, 16, device=device), numbers(3, 2, 80, 16, device=device, seed=1)
    first, second, alone = (
        decode_attention(*(x[i] for x in (q, k, k)), splits=3) for i in (..., ..., slice(1, 2))
    )  # fmt: skip
    assert torch.equal(first, second) and torch.equal(first[1:2], alone)
    assert first.transpose(1, 2).is_contiguous(), "so that a model's next view costs nothing"


def test_the_next_call_looks_at_what_has_changed(device, monkeypatch):
    """A launch is prepared once for tensors that lie alike; these are of one shape, and do not."""
    keep_launches(monkeypatch, snippet, "parts_kernel", "combine_kernel")
    q, k = numbers(2, 4, 1, 16, device=device), numbers(2, 2, 40, 16, device=device, seed=1)
    v, sinks = numbers(2, 2, 40, 16, device=device, seed=2), numbers(4, device=device)
    lengths = torch.tensor([40, 7], device=device)
    given = [{"q": q, "k": k, "v": each} for each in (k, v, 2 * v, torch.cat([v, v], -1)[..., :16])]
    given += [{"q": lay(q), "k": k, "v": v} for lay in LAYOUTS.values()]
    given += [{"q": q, "k": k[:, :, :keys], "v": v[:, :, :keys]} for keys in (39, 7)]
    given += [{"q": q.float(), "k": k.float(), "v": v.float()}]
    given += [{"q": torch.cat([q.flatten()[:1], q.flatten()])[1:].view(q.shape), "k": k, "v": v}]  # no multiple of 16
    more = {"lengths": lengths}, {"lengths": lengths.int() - 5}, {"sinks": sinks}, {"scale": 0.1}
    for each in (*given, *({"q": q, "k": k, "v": v, **options} for options in more)):
        for splits in (1, 3):
            found, wanted = decode_attention(**each, splits=splits), in_torch(**each)[0]
            assert torch.allclose(found, wanted, atol=1e-5 if found.dtype == torch.float32 else 1e-9)
    with pytest.raises(ValueError, match="on meta"):
        decode_attention(q, k.to("meta"), v, splits=1)
    with pytest.raises(ValueError, match="requires a gradient"):
        decode_attention(q.requires_grad_(), k, v)


def test_shapes_without_end_do_not_fill_the_memory(device, monkeypatch):
    monkeypatch.setattr(snippet, "PLANS", dict.fromkeys(range(4096)))
    decode_attention(*(numbers(1, 1, size, 16, device=device) for size in (1, 9, 9)))
    assert len(snippet.PLANS) == 1


@pytest.mark.parametrize("splits", [1, 2])
def test_the_second_call_goes_without_looking_at_the_arguments_again(device, monkeypatch, splits):
    names = "parts_kernel", "combine_kernel"
    keep_launches(monkeypatch, snippet, *names)
    q, k, v = (numbers(2, 4, size, 16, device=device, seed=size) for size in (1, 40, 40))
    lengths, sinks = torch.tensor([40, 7], device=device), numbers(4, device=device)
    call = lambda: decode_attention(q, k, v, lengths=lengths, sinks=sinks, splits=splits, return_lse=True)
    call()
    refuse_launches(monkeypatch, snippet, *names)
    for each in (q, k, v, lengths, sinks):
        each += 1
    assert all(map(torch.allclose, call(), in_torch(q, k, v, lengths=lengths, sinks=sinks)))


@pytest.mark.parametrize("shape", [(0, 1, 1, 1, 3), (1, 0, 0, 1, 3), (1, 0, 3, 1, 3), (1, 1, 1, 0, 3), (1, 1, 1, 1, 0)])
@pytest.mark.parametrize("sink", [False, True])
def test_nothing_to_do(device, shape, sink):
    batch, heads, kv_heads, queries, keys = shape
    q, k = numbers(batch, heads, queries, 16, device=device), numbers(batch, kv_heads, keys, 16, device=device)
    sinks = numbers(heads, device=device, seed=1) if sink else None
    out, lse = decode_attention(q, k, k[..., :8], sinks=sinks, return_lse=True)
    assert out.shape == (batch, heads, queries, 8) and not out.any()
    assert torch.allclose(lse, sinks[:, None].expand(lse.shape) if sink else torch.full_like(lse, -math.inf))


@pytest.mark.parametrize("paged", [False, True])
def test_offsets_are_computed_in_64_bits(paged):
    """Of the last head of the last sequence, in tensors without memory: what is read of q, k and v, and written."""
    batch, head, far = 2**11, 2**5, 2**28
    (q, k, v, out), table = (torch.zeros(1) for _ in range(4)), torch.zeros(1, dtype=torch.int64)
    strides = 2**22, 2**27, far  # of a sequence, or a page; of a head; of a row
    pid = batch * (head + 1) + head
    with recorded_accesses(first_program=(pid, 0, 0), memory=False) as seen:
        snippet.parts_kernel[(1,)](
            q, k, v, out, None, strides, strides, strides, (0, *strides), (0, 0, 0, 0), None, table if paged else None,
            2**21, None, None, None, 0, None, None, (0, 0), head + 1, 1, 16, 16, 17, 1, 1, None, None,
            SCALE=1.0, SOFTCAP=None, GUARDED=False, SHARED=False, WHOLE=True, PAGE_SIZE=32, COMPUTE=tl.float32,
            DTYPE=None, HEAD_DIM=16, VALUE_DIM=16, HEAD_BLOCKS=(16,), VALUE_BLOCKS=(16,), ROWS=16, BLOCK=16,
        )  # fmt: skip
    start = 0 if paged else batch * strides[0]  # of all pages, the table, which has no memory, names the first
    last = lambda x, keys: (x.data_ptr() + 4 * (start + head * strides[1] + keys * far + 15))
    ends = [int(at.max()) for _, at in seen]
    assert ends[0] == q.data_ptr() + 4 * (batch * strides[0] + head * strides[1] + 15 * far + 15)
    assert {last(k, 15), last(v, 15), last(k, 16), last(v, 16)} <= {*ends}
    assert ends[-1] == out.data_ptr() + 4 * (batch * strides[0] + head * strides[1] + 15 * far + 15)
    if paged:
        assert table.data_ptr() + 8 * batch * 2**21 in ends


def test_offsets_of_parts_are_computed_in_64_bits():
    part, part_lse, out, lse = (torch.zeros(1) for _ in range(4))
    number, splits, numbers = 2**28, 20, 2**28 + 1
    with recorded_accesses(first_program=(number, 0, 0), memory=False) as seen:
        snippet.combine_kernel[(1,)](
            part, part_lse, out, lse, None, splits, numbers, 1,
            COMPUTE=tl.float32, VALUE_DIM=16, VALUE_BLOCKS=(16,), BLOCK=32,
        )  # fmt: skip
    last = (splits - 1) * numbers + number
    found = [((at.max() - x.data_ptr()) // 4).item() for (_, at), x in zip(seen, (part_lse, part, out), strict=False)]
    assert found == [last, last * 16 + 15, number * 16 + 15]


# In PyTorch


@pytest.mark.parametrize("packed", [False, True])
def test_compiled_without_a_break(device, packed):
    q = numbers(2, 4, 1, 24, dtype=torch.float32, device=device)
    cache = numbers(2, 2, 30, 24, dtype=torch.float32, device=device, seed=1)
    options = {"lengths": torch.tensor([30, 7], device=device), "return_lse": True}
    if packed:
        q, options["cu_seqlens_q"] = q[:, :, 0], torch.tensor([0, 1, 2], device=device)

    def function(q, cache):
        out, lse = decode_attention(q + 1, cache, 2 * cache, **options)
        return out * 2, lse

    whole = torch.compile(function, fullgraph=True, backend="inductor" if device == "cuda" else "aot_eager")
    assert all(map(torch.allclose, whole(q, cache), function(q, cache)))


def test_the_op_keeps_what_it_promises_the_compiler(device):
    q, k = numbers(1, 2, 2, 16, device=device), numbers(1, 1, 20, 16, device=device)
    others = [None] * 8, 0.25, None, 3, 0, 2
    for with_lse in (False, True):
        given = q, k, k, *others[0], *others[1:], with_lse
        torch.library.opcheck(snippet.attend_op, given, test_utils=["test_schema", "test_faketensor"])


x, pages = torch.ones(2, 4, 1, 16), torch.ones(3, 5, 2, 16)
table, on = torch.zeros(2, 2, dtype=torch.int64), torch.ones(2, dtype=torch.int64)
REFUSED = {
    "q must be (batch, heads, queries, head_dim); got": lambda: decode_attention(x[0], x, x),
    "q must be (total, heads, head_dim); got": lambda: decode_attention(x, x, x, cu_seqlens_q=on),
    "k must be (batch, kv_heads, keys, width) or in pages": lambda: decode_attention(x, x[0], x),
    "requires a gradient": lambda: decode_attention(x.clone().requires_grad_(), x, x),
    "k and v must both be one of": lambda: decode_attention(x, x.half(), x.half()),
    "v torch.float16": lambda: decode_attention(x, x, x.half()),
    "dtype torch.int32 is not supported": lambda: decode_attention(*[x.int()] * 3),
    "k.contiguous().resolve_neg() copies it": lambda: decode_attention(x, torch.ones(2, 4, 16, 2).mT, x),
    "v must have the shape of k but for its width": lambda: decode_attention(x, x, x[:, :2]),
    "the same batch and head_dim": lambda: decode_attention(x, x[..., :8], x),
    "must be a multiple of the 3": lambda: decode_attention(x, *[torch.ones(2, 3, 1, 16)] * 2),
    "lengths must be int32 or int64, of the shape (2,)": lambda: decode_attention(x, x, x, lengths=on[:1]),
    "page_table must be int32 or int64": lambda: decode_attention(x, pages, pages, page_table=table.double()),
    "page_table must have neighbors": lambda: decode_attention(x, pages, pages, page_table=table.repeat(1, 2)[:, ::2]),
    "has no pages": lambda: decode_attention(x, pages[:0], pages[:0], page_table=table),
    "cu_seqlens_q must be int32 or int64": lambda: decode_attention(x[0], x, x, cu_seqlens_q=on.float()),
    "head_dim 640 is not supported; 1 to 576 are": lambda: decode_attention(*[torch.ones(1, 1, 1, 640)] * 3),
    "window must be (left, right)": lambda: decode_attention(x, x, x, window=3),
    "window must be of numbers from 0 on": lambda: decode_attention(x, x, x, window=(-2, 0)),
    "softcap must be above 0": lambda: decode_attention(x, x, x, softcap=-1),
    "scale must be a number": lambda: decode_attention(x, x, x, scale="1"),
    "splits must be from 1 to 256; got 0": lambda: decode_attention(x, x, x, splits=0),
    "splits must be a whole number": lambda: decode_attention(x, x, x, splits=1.5),
    "sinks must be contiguous": lambda: decode_attention(x, x, x, sinks=torch.ones(3)),
    "alibi_slopes must be of the shape (4,) or (2, 4)": lambda: decode_attention(x, x, x, alibi_slopes=torch.ones(3)),
    "k_scale must be float32": lambda: decode_attention(x, x, x, k_scale=torch.ones(4).double()),
    "v_scale must be float32, one number or (4,)": lambda: decode_attention(x, x, x, v_scale=torch.ones(3)),
    "pass q.to_dense()": lambda: decode_attention(x.to_sparse(), x, x),
    "move them to one device": lambda: decode_attention(x, x.to("meta"), x),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refuses_in_words(message):
    with pytest.raises(ValueError) as error:
        REFUSED[message]()
    assert message in str(error.value)


def test_vmap_is_refused_in_words():
    with pytest.raises(NotImplementedError, match=r"not mapped by torch\.vmap"):
        torch.vmap(lambda q: decode_attention(q, x, x))(torch.stack([x, x]))


# Compiled

CODE = """
def call(heads, queries, kv_heads, dim, dtype, values=None):
    q = torch.empty(4, heads, queries, dim, dtype=torch.bfloat16)
    k = torch.empty(4, kv_heads, 8192, dim, dtype=dtype)
    module.decode_attention(q, k, torch.empty_like(k) if values is None else values(k), causal=True)

for dtype in (torch.bfloat16, torch.float8_e4m3fn):
    call(32, 1, 8, 128, dtype)
    call(64, 1, 8, 64, dtype)
    call(32, 512, 8, 128, dtype)
    call(128, 1, 1, 576, dtype, lambda k: k[..., :512])
    call(128, 1, 1, 576, dtype, lambda k: k[..., :512].clone())
"""


@pytest.mark.long
def test_compiles_to_wide_loads_and_spills_nothing():
    launches = [each for each in compiled("library/decoding", CODE) if each.kernel == "parts_kernel"]
    assert len(launches) == 10
    for launch in launches:
        assert launch.shared <= SHARED and launch.widest("LDGSTS.E.BYPASS", "LDG") == 128
        if "fp16" in launch.options["DTYPE"]:  # a number more takes a conversion more to bfloat16, two instructions
            assert "F2FP.F16.E4M3" in launch.sass and "F2F.BF16" not in launch.sass
        apart = launch.options["HEAD_DIM"] == 576 and not launch.options["SHARED"]  # and then a few values spill
        assert launch.spills <= 8 * apart, launch.options


# On a GPU alone

MODELS = {  # heads, kv_heads, queries, keys, head_dim, value_dim, what else
    "Llama": (32, 8, 1, 3000, 128, 128, {}),
    "GPT-OSS": (64, 8, 1, 3000, 64, 64, {"window": (127, 0), "sinks": (64,)}),
    "Gemma": (16, 8, 1, 3000, 256, 256, {"softcap": 50.0}),
    "DeepSeek": (128, 1, 1, 3000, 576, 512, {}),
    "DeepSeek, 16 heads": (16, 1, 2, 3000, 576, 512, {"causal": True}),
    "a draft of four": (32, 8, 4, 3000, 128, 128, {"causal": True}),
    "many queries": (32, 8, 300, 3000, 128, 128, {"causal": True}),
    "many, behind a window": (8, 2, 300, 3000, 96, 96, {"window": (500, 0)}),
}


@pytest.mark.gpu
@pytest.mark.parametrize("page_size", [None, 16])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("name", MODELS)
def test_as_models_have_it(name, dtype, page_size):
    heads, kv_heads, queries, keys, head_dim, value_dim, options = MODELS[name]
    q = numbers(2, heads, queries, head_dim, dtype=dtype, device="cuda")
    k = numbers(2, kv_heads, keys, head_dim, dtype=dtype, device="cuda", seed=1)
    v = k[..., :value_dim] if value_dim < head_dim else numbers(*k.shape, dtype=dtype, device="cuda", seed=2)
    lengths = torch.tensor([keys, 777], device="cuda")
    check(q, k, v, page_size, lengths=lengths, **made(options, "cuda", dtype))


@pytest.mark.gpu
def test_more_than_2_to_the_31_elements():
    k = torch.zeros(17, 1, 2**20, 128, dtype=torch.bfloat16, device="cuda")
    k[16, 0, -1] = 1
    out = decode_attention(torch.full((17, 1, 1, 128), 8.0, dtype=torch.bfloat16, device="cuda"), k, k)
    assert out[16].min() > 0.99 and not out[:16].any()


@pytest.mark.gpu
def test_in_a_cuda_graph_with_lengths_that_grow():
    q, k = (numbers(2, 8, rows, 64, dtype=torch.bfloat16, device="cuda", seed=rows) for rows in (1, 500))
    lengths = torch.tensor([100, 400], device="cuda")
    decode_attention(q, k, k, lengths=lengths)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = decode_attention(q, k, k, lengths=lengths)
    for _ in range(2):
        lengths += 50
        graph.replay()
        assert torch.equal(out, decode_attention(q, k, k, lengths=lengths))
