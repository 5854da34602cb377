# SPDX-License-Identifier: Apache-2.0
"""Attention over packed sequences: torch's result in float64, sequence by sequence, whatever the lengths, heads,
strides and dtypes; no sequence sees another, nothing outside is touched, also where ``cu_seqlens`` is wrong; tiles that
see nothing are not gone through."""

import contextlib
import re
from unittest import mock

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from compiled import compiled
from guards import (
    Guarded,
    check_inside,
    check_same_bits,
    handed_out,
    recorded_accesses,
    without_memory,
)
from hypothesis import example, given
from hypothesis import strategies as st
from triton.runtime.interpreter import interpreter_builder as builder

from snippets.fusion import attention_variable as snippet
from snippets.fusion.attention import DTYPES
from snippets.fusion.attention_variable import attention_variable, rows_of_sequence

SMALL = {"BLOCK_Q": 16, "BLOCK_K": 16, "num_warps": 1, "num_stages": 1}
silent = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy in the interpreter
LAYOUTS = {
    "contiguous": lambda t: t.clone(),
    "heads first": lambda t: t.transpose(0, 1).contiguous().transpose(0, 1),
    "of qkv": lambda t: torch.stack([t, t, t], dim=1)[:, 1],
    "columns apart": lambda t: torch.stack([t, t], dim=-1)[..., 0],
    "one head for all": lambda t: t[:, :1].expand(t.shape),
    "one row for all": lambda t: t[:1].expand(t.shape),
    "flipped sign": lambda t: torch._neg_view(-t),
}


@contextlib.contextmanager
def small_tiles(yes=True):
    """Tiles of 16 rows, so that short sequences have several."""
    with mock.patch.object(snippet, "default_tile", lambda *_, **__: SMALL) if yes else contextlib.nullcontext():
        yield


def served(device):
    return [dtype for dtype in DTYPES if device == "cuda" or dtype != torch.bfloat16]


def begins(lengths, device):
    return torch.tensor([0, *lengths], device=device).cumsum(0).int()


def numbers(shape, dtype, device, seed=0):
    random = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=random, dtype=torch.float64).to(device, dtype)


def operands(total_q, total_k, heads, kv_heads, head_dim, dtype, device, layouts=("contiguous",) * 3, seed=0):
    shapes = [(total_q, heads, head_dim), *[(total_k, kv_heads, head_dim)] * 2]
    each = [numbers(shape, dtype, device, seed + i) for i, shape in enumerate(shapes)]
    return [LAYOUTS[name](x) if x.numel() else x for name, x in zip(layouts, each, strict=True)]


def exact(q, k, v, cu_q, cu_k, **options):
    return snippet.by_sequence(*(x.double() for x in (q, k, v)), cu_q, cu_k, **options)


def check(found, wanted, dtype):
    tolerance = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float32: 2e-5}[dtype]
    assert (found.shape, found.dtype, found.is_contiguous()) == (wanted.shape, dtype, True)
    assert torch.allclose(found.double(), wanted, rtol=tolerance, atol=tolerance)


around_tiles = st.sampled_from([0, 1, 5, 15, 16, 17, 33])  # rows, with tiles of 16


@pytest.mark.long  # a GPU's kernels are compiled for each head_dim and dtype
@silent
@example([(3, 5), (0, 4), (2, 0), (17, 33)], 2, 1, True, ("contiguous",) * 3, 0, torch.float32, 16, None, 0)
@example([(40, 20), (1, 1)], 4, 2, True, ("of qkv", "one head for all", "heads first"), 0, torch.float32, 16, 0.3, 3)
@example([], 1, 1, False, ("contiguous",) * 3, 0, torch.float32, 16, None, 5)
@given(
    lengths=st.lists(st.tuples(around_tiles, around_tiles), min_size=0, max_size=3),
    kv_heads=st.integers(1, 2), group=st.integers(1, 2), causal=st.booleans(),
    layouts=st.tuples(*[st.sampled_from(list(LAYOUTS))] * 3), seed=st.integers(0, 99),
    dtype=st.sampled_from([torch.float16, torch.float32]), head_dim=st.sampled_from([16, 32]),
    scale=st.sampled_from([None, 0.3]), rest=st.integers(0, 18),
)  # fmt: skip
def test_as_torch_computes_it_in_float64(
    device, lengths, kv_heads, group, causal, layouts, seed, dtype, head_dim, scale, rest
):
    cu_q, cu_k = (begins([pair[i] for pair in lengths], device) for i in (0, 1))
    total_q, total_k = int(cu_q[-1]) + rest, int(cu_k[-1]) + rest // 2
    given_ = operands(total_q, total_k, kv_heads * group, kv_heads, head_dim, dtype, device, layouts, seed)
    options = {"causal": causal, "scale": scale}
    with small_tiles():
        found = attention_variable(*given_, cu_q, cu_k, **options)
    check(found, exact(*given_, cu_q, cu_k, **options), dtype)


@pytest.mark.parametrize("causal", [False, True])
def test_by_the_tiles_of_the_snippet(device, causal):
    lengths = [(130, 70), (0, 3), (1, 129)]
    cu_q, cu_k = (begins([pair[i] for pair in lengths], device) for i in (0, 1))
    given_ = operands(131, 202, 2, 1, 16, torch.float32, device)
    found = attention_variable(*given_, cu_q, cu_k, causal=causal)
    check(found, exact(*given_, cu_q, cu_k, causal=causal), torch.float32)


@pytest.mark.parametrize("block_q, block_k", [(16, 32), (32, 16)])
def test_tiles_that_are_not_square(device, block_q, block_k):
    cu_q, cu_k = begins([20, 40], device), begins([35, 30], device)
    given_ = operands(60, 65, 2, 1, 16, torch.float32, device)
    with mock.patch.object(snippet, "default_tile", lambda *_, **__: SMALL | {"BLOCK_Q": block_q, "BLOCK_K": block_k}):
        found = attention_variable(*given_, cu_q, cu_k, causal=True)
    check(found, exact(*given_, cu_q, cu_k, causal=True), torch.float32)


def test_each_tensor_by_its_own_strides(device):
    """Those of q are no other's."""
    cu_q, cu_k = begins([20, 5], device), begins([7, 18], device)
    layouts = "heads first", "of qkv", "one head for all"
    given_ = operands(25, 25, 4, 2, 16, torch.float32, device, layouts)
    found = attention_variable(*given_, cu_q, cu_k)
    check(found, exact(*given_, cu_q, cu_k), torch.float32)


def test_no_sequence_sees_another(device):
    """A NaN in one leaves the others as they are."""
    cu = begins([5, 20, 7], device)
    given_ = operands(32, 32, 2, 2, 16, torch.float32, device)
    with small_tiles():
        clean = attention_variable(*given_, cu, cu)
        for x in given_:
            x[5:25] = float("nan")
        found = attention_variable(*given_, cu, cu)
    check_same_bits(found[:5], clean[:5])
    check_same_bits(found[25:], clean[25:])
    assert found[5:25].isnan().all()


def test_rows_after_the_last_sequence_are_zeros(device):
    cu_q, cu_k = begins([3, 2], device), begins([4, 1], device)
    with small_tiles():
        out = attention_variable(*operands(40, 45, 2, 1, 16, torch.float32, device), cu_q, cu_k)
    assert out[:5].any() and not out[5:].any()


def guarded(x, fill=0xFF):
    return Guarded.around(x, before=1024, after=1024, fill=fill)


@pytest.mark.parametrize(
    "cu",
    [
        [0, 3, 3, 30], [0, 50, 60, 70], [0, 20, 5, 33], [9, 16, -4, 2**31 - 1], [0, 0, 0, 0], [0, 3 * 2**29, -(2**30)],
    ],
)  # fmt: skip
def test_nothing_outside_is_touched(device, cu):
    """By a ``cu_seqlens`` that is wrong, neither: some of these decrease, or go beyond the rows."""
    cu = torch.tensor(cu, dtype=torch.int32, device=device)
    given_ = [guarded(x) for x in operands(33, 29, 2, 1, 16, torch.float32, device)]
    out = guarded(torch.zeros_like(given_[0].tensor))
    seen = recorded_accesses() if device == "cpu" else contextlib.nullcontext([])
    with small_tiles(), handed_out("empty", out.tensor), seen as accesses:
        snippet.forward(*(x.tensor for x in given_), cu, cu, 0.25, True)
    everything = [*given_, out]
    for buffer in everything:
        buffer.check("a tensor")
    inside = [(x.tensor.data_ptr(), x.tensor.data_ptr() + x.tensor.nbytes) for x in everything]
    inside.append((cu.data_ptr(), cu.data_ptr() + cu.nbytes))
    for _, addresses in accesses:
        for at in {int(addresses.min()), int(addresses.max())} if len(addresses) else ():
            assert any(begin <= at < end for begin, end in inside)


@pytest.mark.parametrize("total_q, total_k", [(20, 9), (9, 20)])
def test_ends_beyond_the_rows_are_cut_off(device, total_q, total_k):
    """Those of queries by the number of queries, those of keys by that of keys."""
    given_ = operands(total_q, total_k, 2, 1, 16, torch.float32, device)
    cut, beyond = ([begins([5, total - 5 + more], device) for total in (total_q, total_k)] for more in (0, 50))
    with small_tiles():
        check(attention_variable(*given_, *beyond), exact(*given_, *cut), torch.float32)


def count(seen, op, tensor) -> int:
    """How many elements of a tensor were loaded or stored, one twice if it was so twice."""
    begin, end = tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes
    return sum(((at >= begin) & (at < end)).sum().item() for kind, at in seen if kind == op)


def test_tiles_that_nobody_sees_are_not_loaded():
    """Causal, sequences of 64 and 32 rows by tiles of 16: of the first 1 + 2 + 3 + 4 tiles, of the second 1 + 2."""
    cu, rows = begins([64, 32], "cpu"), 96 * 16
    q, k, v = operands(96, 96, 1, 1, 16, torch.float32, "cpu")
    for causal, tiles in ((True, 13), (False, 20)):
        with small_tiles(), recorded_accesses() as seen:
            snippet.forward(q, k, v, cu, cu, 0.25, causal)
        assert [count(seen, "load", x) for x in (q, k, v)] == [rows, tiles * 256, tiles * 256]


def test_the_order_of_tiles_and_programs_that_have_none():
    """The last tile of queries begins first. A program without a tile asks for no sequence of the other rows."""
    cu_q, cu_k = begins([33, 5], "cpu"), begins([20, 3], "cpu")
    with small_tiles(), recorded_accesses() as seen:
        out = snippet.forward(*operands(38, 23, 1, 1, 16, torch.float32, "cpu"), cu_q, cu_k, 0.25, True)
    firsts = [(int(at.min()) - out.data_ptr()) // 64 for kind, at in seen if kind == "store" and at.size]
    assert firsts == [33, 32, 16, 0]
    # To find a tile takes 4 numbers: beginnings but the first, ends. Then a sequence has an end, and a beginning if it
    # is not the first. There are 5 programs for the 3 + 1 tiles of queries.
    assert [count(seen, "load", cu) for cu in (cu_q, cu_k)] == [5 * 4, 3 + 2]


def test_every_run_gives_the_same_bits(device):
    cu = begins([30, 3], device)
    given_ = operands(33, 33, 4, 2, 16, torch.float32, device)
    with small_tiles():
        runs = [attention_variable(*given_, cu, cu, causal=True) for _ in range(2)]
    check_same_bits(*runs)


# Which program has which rows


@given(lengths=st.lists(st.integers(0, 9), max_size=6), rest=st.integers(0, 9), block=st.sampled_from([1, 4]))
def test_each_row_is_of_one_tile(lengths, rest, block):
    cu, total = begins(lengths, "cpu"), sum(lengths) + rest
    tiles = snippet.most_tiles(total, len(lengths), block)
    seen = []
    for tile in range(tiles):
        out = torch.empty(4, dtype=torch.int32)
        size = snippet.triton.next_power_of_2(len(lengths) + 1)
        snippet.toy_kernel[(1,)](cu, out, len(lengths), total, tile, BLOCK=block, SEQUENCES=size)
        sequence, begin, length, first = out.tolist()
        assert [begin, length] == ([int(cu[sequence]), [*lengths, rest][sequence]] if length else [0, 0])
        assert first % block == 0
        seen += [begin + row for row in range(first, min(first + block, length))]
    assert seen == list(range(total)), "in order, each once"


@contextlib.contextmanager
def nan_is_any_integer():
    """In the interpreter: a lane that is off loads 5 where ``other`` is NaN, of which it makes the least integer."""
    load = builder.create_masked_load

    def loaded(ptrs, mask, other, *rest):
        if other is not None and (other.data == np.iinfo(np.int32).min).any():
            other = type(other)(np.full_like(other.data, 5), other.dtype)
        return load(ptrs, mask, other, *rest)

    with mock.patch.object(builder, "create_masked_load", loaded):
        yield


ANY = st.integers(-9, 12) | st.sampled_from([-(2**31), -3 * 2**29, 3 * 2**29, 2**31 - 1])


@example([9, 4, 2, 12], 12, 1)
@example([-9, -1, 5, -1, 9], 12, 4)
@example([0, 3 * 2**29, -3 * 2**29], 4, 1)  # whose difference is more than 32 bits hold
@given(cu=st.lists(ANY, min_size=1, max_size=7), total=st.integers(0, 12), block=st.sampled_from([1, 4]))
def test_what_a_program_finds_whatever_cu_seqlens_says(cu, total, block):
    """The first number counts as 0, none reaches outside, and a sequence that ends before it begins has no tile."""
    beginnings = [max(begin, 0) for begin in [0, *cu[1:]]]
    lengths = [min(end, total) - begin for begin, end in zip(beginnings, [*cu[1:], total], strict=True)]
    of_all = enumerate(zip(beginnings, lengths, strict=True))
    wanted = [(i, begin, length, first) for i, (begin, length) in of_all for first in range(0, length, block)]
    guarded_cu, out = guarded(torch.tensor(cu, dtype=torch.int32)), torch.empty(4, dtype=torch.int32)
    options = {"BLOCK": block, "SEQUENCES": triton.next_power_of_2(len(cu))}
    for tile, expected in enumerate([*wanted, (0, 0, 0, 0), (0, 0, 0, 0)]):
        with nan_is_any_integer(), recorded_accesses() as accesses:
            snippet.toy_kernel[(1,)](guarded_cu.tensor, out, len(cu) - 1, total, tile, **options)
        assert tuple(out.tolist()) == expected
        check_inside(accesses, "load", cu=guarded_cu.tensor)


def test_wrong_lengths_that_add_up_to_more_than_32_bits_hold(device):
    """Tiles of three sequences that are each as long as all rows: in 32 bits the third would begin before tile 0."""
    most = 2**31 - 1
    cu = torch.tensor([0, most, 0, most, 0, most], dtype=torch.int32, device=device)
    out = torch.empty(4, dtype=torch.int32, device=device)
    snippet.toy_kernel[(1,)](cu, out, 5, most, 7, BLOCK=1, SEQUENCES=8)
    assert out.tolist() == [0, 0, most, 7]


@triton.jit
def rows_kernel(cu_ptr, out_ptr, sequence, sequences, total):
    begin, rows = rows_of_sequence(cu_ptr, sequence, sequences, total)
    tl.store(out_ptr, begin)
    tl.store(out_ptr + 1, rows)


@example([9, 4, 2, 12], 12)
@example([-9, -1, 5, -1, 9], 12)
@example([0, 3 * 2**29, -3 * 2**29], 4)
@given(cu=st.lists(ANY, min_size=1, max_size=7), total=st.integers(0, 12))
def test_the_other_rows_of_a_sequence_whatever_cu_seqlens_says(cu, total):
    beginnings = [max(begin, 0) for begin in [0, *cu[1:-1]]]
    wanted = [(begin, max(min(end, total) - begin, 0)) for begin, end in zip(beginnings, cu[1:], strict=False)]
    guarded_cu, out = guarded(torch.tensor(cu, dtype=torch.int32)), torch.empty(2, dtype=torch.int32)
    for sequence, expected in enumerate([*wanted, (0, 0)]):  # none after the last one
        with nan_is_any_integer(), recorded_accesses() as accesses:
            rows_kernel[(1,)](guarded_cu.tensor, out, sequence, len(cu) - 1, total)
        assert tuple(out.tolist()) == expected
        check_inside(accesses, "load", cu=guarded_cu.tensor)


@given(rows=st.integers(0, 50), sequences=st.integers(0, 5), block=st.sampled_from([1, 16]), data=st.data())
def test_no_more_tiles_than_programs(rows, sequences, block, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, rows), min_size=sequences, max_size=sequences)))
    ends = [*cuts, rows]
    tiles = sum(-(-(end - begin) // block) for begin, end in zip([0, *cuts], ends, strict=True))
    assert tiles <= snippet.most_tiles(rows, sequences, block) <= rows


def test_the_launches_ask_for_no_length():
    """The host must not wait for the GPU: what is on it stays there."""
    cu = begins([3, 4], "cpu")
    given_ = operands(7, 7, 1, 1, 16, torch.float32, "cpu")
    asked = AssertionError("asked for a value")
    with (
        mock.patch.object(torch.Tensor, "item", side_effect=asked),
        mock.patch.object(torch.Tensor, "tolist", side_effect=asked),
        mock.patch.object(snippet, "check_arguments"),
        mock.patch.object(snippet, "variable_kernel") as kernel,
    ):
        snippet.forward(*given_, cu, cu, 0.25, False)
    assert kernel.__getitem__.called


# What is refused


@pytest.mark.parametrize(
    "change, fragment",
    [
        (lambda a: a | {"q": a["q"][0]}, r"q must be \(rows, heads, head_dim\); got the shape \(2, 16\)"),
        (lambda a: a | {"k": a["k"].double()}, "q and k must have one dtype and device"),
        (lambda a: a | {"v": a["v"][:1]}, r"v must be .*, of the shape of k, \(1, 1, 4, 16\); got \(1, 1, 1, 16\)"),
        (lambda a: a | {"q": a["q"].to_sparse()}, r"q is torch.sparse_coo; pass q.to_dense\(\)"),
        (lambda a: a | {"q": a["q"][..., :8]}, "q and k must have the same batch and head_dim"),
        (lambda a: a | {"q": a["q"][:, :1], "k": a["k"].repeat(1, 2, 1), "v": a["v"].repeat(1, 2, 1)},
         "the 1 heads of q must be a multiple of the 2 of k and v"),
        (lambda a: a | {name: a[name][..., :8] for name in "qkv"}, r"head_dim must be one of .*; got 8"),
        (lambda a: a | {name: a[name].int() for name in "qkv"}, "torch.int32 is not supported; use one of"),
        (lambda a: a | {"cu_seqlens_q": a["cu_seqlens_q"].long()}, "cu_seqlens_q must be int32, contiguous"),
        (lambda a: a | {"cu_seqlens_k": a["cu_seqlens_k"][None]}, "cu_seqlens_k must be int32, contiguous"),
        (lambda a: a | {"cu_seqlens_k": a["cu_seqlens_k"][:0]}, "cu_seqlens_k must be int32, contiguous"),
        (lambda a: a | {"cu_seqlens_q": a["cu_seqlens_q"].repeat_interleave(2)[::2]}, r"strides \(2,\)"),
        (lambda a: a | {"cu_seqlens_q": a["cu_seqlens_q"].to("meta")}, "on meta"),
        (lambda a: a | {"cu_seqlens_k": a["cu_seqlens_k"][:2]}, "cu_seqlens_q has 3 numbers and cu_seqlens_k 2"),
        (lambda a: a | dict.fromkeys(("cu_seqlens_q", "cu_seqlens_k"), torch.zeros(4098, dtype=torch.int32)),
         "4097 sequences are too many for one launch, which serves 4096"),
        (lambda a: {name: x.to("meta") for name, x in a.items()}, "q is on meta; kernels run on"),
    ],
)  # fmt: skip
def test_refuses(change, fragment):
    cu = torch.tensor([0, 1, 3], dtype=torch.int32)
    k = torch.ones(4, 1, 16)
    arguments = {"q": torch.ones(3, 2, 16), "k": k, "v": k, "cu_seqlens_q": cu, "cu_seqlens_k": cu}
    with pytest.raises(ValueError, match=fragment):
        attention_variable(**change(arguments))


def test_refuses_what_is_too_much():
    q, k = without_memory(2**30 + 1, 1, 16), without_memory(1, 1, 16)
    cu = without_memory(2, dtype=torch.int32)
    with pytest.raises(ValueError, match=r"1073741825 queries and 1 keys are too many: at most 2\*\*30 are served"):
        snippet.check_arguments(0.25, cu, cu, q=q, k=k, v=k)
    q = without_memory(2**30, 128, 16)
    with (
        mock.patch.object(snippet, "check_arguments"),
        mock.patch.object(torch, "empty"),
        pytest.raises(ValueError, match=r"programs, of 2\*\*31 - 1 at most; split the heads"),
        small_tiles(),
    ):
        snippet.forward(q, q, q, cu, cu, 0.25, False)


def test_a_gradient_and_a_scale_that_is_not_positive_are_refused():
    x, cu = torch.ones(1, 1, 16), begins([1], "cpu")
    with pytest.raises(ValueError, match=r"q, k or v requires a gradient, which library/attention\.py has"):
        attention_variable(x, x, x.clone().requires_grad_(), cu, cu)
    with pytest.raises(ValueError, match=r"scale must be above 0; got 0\.0"):
        attention_variable(x, x, x, cu, cu, scale=0)


@silent
def test_offsets_of_sequences_are_computed_in_64_bits():
    """A sequence that begins more than 2**31 elements behind the first: tensors are told of more than there is."""
    begin, row = 2**27, 512
    cu = torch.tensor([0, begin, begin + 2], dtype=torch.int32)
    there = mock.patch.object(snippet, "sequence_of", lambda *_: (whole(1), whole(begin), whole(2), whole(0)))
    and_there = mock.patch.object(snippet, "rows_of_sequence", lambda *_: (whole(begin), whole(2)))
    buffers = [torch.zeros(1) for _ in range(4)]
    with there, and_there, recorded_accesses(memory=False) as accesses:
        snippet.variable_kernel[(1,)](
            *buffers, cu, cu, *[(0, 16, row)] * 4, 2, begin + 2, begin + 2, 1, 1,
            SCALE=0.25, CAUSAL=False, HEAD_DIM=16, SEQUENCES=4, **SMALL,
        )  # fmt: skip
    found = {int(at) for _, addresses in accesses for at in addresses}
    assert {buffer.data_ptr() + 4 * begin * row for buffer in buffers} <= found


def whole(number):
    return snippet.tl.full((), number, snippet.tl.int32)


CODE = """
cu = torch.zeros(17, dtype=torch.int32)
for head_dim in (64, 128):
    q = torch.empty(1000, 4, head_dim, dtype=torch.bfloat16)
    module.forward(q, q, q, cu, cu, 0.1, True)
"""


def test_compiles_without_spills():
    """For an H200, without one: matrix units are used. Two values spill by Triton 3.7.1, none by 3.9."""
    launches = compiled("fusion/attention_variable", CODE)
    assert [launch.kernel for launch in launches] == ["variable_kernel"] * 2
    assert all(launch.spills <= 2 and re.search("HG?MMA", launch.sass) for launch in launches)


# On a GPU alone


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_real_sizes_and_in_a_cuda_graph(dtype, head_dim, causal):
    lengths = [1000, 1, 0, 333, 2049]
    cu_q, cu_k = begins(lengths, "cuda"), begins(lengths[::-1], "cuda")
    given_ = operands(3400, 3400, 8, 2, head_dim, dtype, "cuda")
    found = attention_variable(*given_, cu_q, cu_k, causal=causal)
    wanted = exact(*given_, cu_q, cu_k, causal=causal)
    tolerance = {torch.bfloat16: 3e-2, torch.float16: 4e-3, torch.float32: 1e-4}[dtype]
    assert torch.allclose(found.double(), wanted, rtol=tolerance, atol=tolerance)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = snippet.forward(*given_, cu_q, cu_k, head_dim**-0.5, causal)
    graph.replay()
    assert torch.equal(captured, found)


@pytest.mark.gpu
def test_more_than_2_to_the_31_elements():
    if torch.cuda.mem_get_info()[0] < 40e9:
        pytest.skip("needs 40 GB of free GPU memory")
    total = 2**25 + 100
    q = torch.zeros(total, 1, 128, dtype=torch.float16, device="cuda")
    cu = torch.tensor([0, 10, total - 60, total], dtype=torch.int32, device="cuda")
    cu_k = torch.tensor([0, 10, 12, 72], dtype=torch.int32, device="cuda")
    q[-60:], k = torch.randn(60, 1, 128, device="cuda").half(), torch.randn(72, 1, 128, device="cuda").half()
    out = attention_variable(q, k, k, cu, cu_k)
    short = torch.tensor([0, 60], dtype=torch.int32, device="cuda")
    assert torch.allclose(out[-60:], attention_variable(q[-60:], k[12:], k[12:], short, short), atol=1e-3)
