# SPDX-License-Identifier: Apache-2.0
"""``attention``: torch's result in float64, whatever the lengths, heads, dtypes and strides; by descriptors the bits of
pointers; nothing else is touched; tiles that nobody sees are not loaded."""

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

from snippets.fusion import attention as snippet
from snippets.fusion.attention import attention

SMALL = {"BLOCK_Q": 16, "BLOCK_K": 16, "num_warps": 4, "num_stages": 2}
LAYOUTS = {  # of a tensor (batch, heads, rows, head_dim) of this shape
    "contiguous": lambda t: t.clone(),
    "rows before heads": lambda t: t.transpose(1, 2).contiguous().transpose(1, 2),
    "one of three": lambda t: torch.stack([-t, t, 2 * t], dim=3)[:, :, :, 1],
    "columns": lambda t: t.mT.contiguous().mT,
    "flipped sign": lambda t: torch._neg_view(-t),
}
LEVEL = {  # layouts that the TMA can load, of 16 bits
    **{name: LAYOUTS[name] for name in ("contiguous", "rows before heads", "one of three", "columns")},
    "rows of 72": lambda t: torch.cat([t, t[..., :8]], dim=3)[..., : t.shape[3]],
    "after 8 others": lambda t: torch.cat([t.new_full((8,), math.nan), t.flatten()])[8:].view(t.shape),
}
NOT_LEVEL = {
    "rows of 65": lambda t: torch.cat([t, t[..., :1]], dim=3)[..., : t.shape[3]],
    "after one other": lambda t: torch.cat([t.new_full((1,), math.nan), t.flatten()])[1:].view(t.shape),
    "one row for all": lambda t: t[:, :, :1].expand(t.shape),
}


def served(device):
    return [dtype for dtype in snippet.DTYPES if device == "cuda" or dtype != torch.bfloat16]


def inputs(batch, heads, kv_heads, queries, keys, head_dim=16, dtype=torch.float32, device="cpu", seed=0):
    random = torch.Generator().manual_seed(seed)
    shapes = (heads, queries), (kv_heads, keys), (kv_heads, keys)
    return [torch.randn(batch, *rows, head_dim, generator=random).to(device, dtype) for rows in shapes]


def reference(q, k, v, causal=False, scale=None):
    """By torch in float64; zeros where a query sees no key."""
    q, k, v = (x.double() for x in (q, k, v))
    queries, keys = q.shape[2], k.shape[2]
    blind = queries if not keys else min(max(queries - keys, 0), queries) if causal else 0
    out = snippet.in_torch(q[:, :, blind:], k, v, causal, scale)
    return torch.cat([torch.zeros_like(q[:, :, :blind]), out], dim=2)


def check(q, k, v, **options):
    found, exact = attention(q, k, v, **options), reference(q, k, v, **options)
    assert (found.shape, found.dtype, found.is_contiguous()) == (q.shape, q.dtype, True)
    tolerance = {torch.float32: 2e-5, torch.float16: 8e-3, torch.bfloat16: 6e-2}[q.dtype]
    assert torch.allclose(found.double(), exact, rtol=tolerance, atol=tolerance)


def tiles_of(tile):
    """Several tiles to each head, though it is short."""
    return mock.patch.object(snippet, "default_tile", lambda *_: tile)


@settings(max_examples=12, phases=[Phase.explicit, Phase.generate])
@example((1, 1), 33, 17, True, ("contiguous",) * 3, 1)  # the first 16 queries see no key
@example((4, 2), 18, 18, True, ("rows before heads", "one of three", "columns"), 2)
@example((1, 1), 5, 32, False, ("flipped sign", "columns", "rows before heads"), 3)
@given(
    heads=st.sampled_from([(1, 1), (2, 1), (2, 2)]),
    queries=st.integers(1, 35),
    keys=st.integers(1, 35),
    causal=st.booleans(),
    layouts=st.tuples(*[st.sampled_from(list(LAYOUTS))] * 3),
    seed=st.integers(0, 999),
)
def test_as_torch_computes_it_in_float64(device, heads, queries, keys, causal, layouts, seed):
    given = inputs(2, *heads, queries, keys, device=device, seed=seed)
    with tiles_of(SMALL):
        check(*(LAYOUTS[layout](x) for layout, x in zip(layouts, given, strict=True)), causal=causal)


@pytest.mark.parametrize("head_dim", snippet.HEAD_DIMS)
def test_each_head_dim_by_its_own_tiles(device, head_dim):
    for dtype in served(device):
        check(*inputs(1, 1, 1, 7, 70, head_dim, dtype, device), causal=True)


@pytest.mark.parametrize("block_q, block_k", [(16, 32), (32, 16)])
def test_tiles_that_are_not_square(device, block_q, block_k):
    with tiles_of(SMALL | {"BLOCK_Q": block_q, "BLOCK_K": block_k}):
        for queries, keys, causal in ((40, 50, True), (50, 40, True), (40, 50, False)):
            check(*inputs(1, 1, 1, queries, keys, 64, torch.float16, device), causal=causal)


@pytest.mark.parametrize("queries, keys", [*((3, keys) for keys in range(16, 21)), (17, 15), (17, 16), (18, 17)])
def test_where_the_diagonal_crosses_a_tile(device, queries, keys):
    """Of tiles of 16: which are masked, and which are whole, is right to a row and a column."""
    with tiles_of(SMALL):
        check(*inputs(1, 1, 1, queries, keys, device=device), causal=True)


def test_a_scale(device):
    check(*inputs(1, 1, 1, 3, 20, device=device), scale=0.3)


def test_scores_that_would_overflow(device):
    """exp(90) is inf in float32. The largest score comes last, and all before it vanish beside it."""
    q, k, v = inputs(1, 1, 1, 2, 20, device=device)
    q.fill_(1)
    k.copy_(torch.arange(20.0).view(20, 1).expand(20, 16) * 10)
    with tiles_of(SMALL):
        check(q, k, v)
        assert torch.equal(attention(q, k, v)[0, 0, 0], v[0, 0, 19])


def test_the_number_that_is_kept_of_each_query(device):
    """The logarithm to the base 2 of the sum of exponentials; inf where a query sees no key."""
    q, k, v = inputs(1, 2, 1, 20, 18, device=device)
    scores = (q @ k.mT * 0.25).masked_fill(torch.ones(20, 18, device=device).triu(-1) > 0, -math.inf)
    with tiles_of(SMALL):
        _, lse = snippet.forward(q, k, v, 0.25, True)
    assert lse[:, :, :2].isposinf().all()
    assert torch.allclose(lse[:, :, 2:], scores.logsumexp(dim=-1)[:, :, 2:] * math.log2(math.e), atol=1e-5)


def test_unequal_lengths_against_torch_itself(device):
    q, k, v = inputs(1, 2, 1, 3, 5, device=device)
    torchs = torch.nn.functional.scaled_dot_product_attention
    seen = torch.ones(3, 5, dtype=torch.bool, device=device).tril(5 - 3)
    found = attention(q, k, v, causal=True)
    assert torch.allclose(found, torchs(q, k, v, attn_mask=seen, enable_gqa=True), atol=1e-5)
    assert not torch.allclose(found, torchs(q, k, v, is_causal=True, enable_gqa=True), atol=1e-5)


def test_nan_reaches_those_who_see_it():
    with nan_as_on_a_gpu(), tiles_of(SMALL):
        q, k, v = inputs(1, 1, 1, 20, 20)
        k[0, 0, 3] = math.nan
        out = attention(q, k, v, causal=True)[0, 0]
        assert out[3:].isnan().all() and not out[:3].isnan().any()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("low, head_dim, dtype", [(-math.inf, 32, torch.float32), (-math.inf, 64, torch.float16)])
@pytest.mark.parametrize("keys, first", [(150, 128), (7, 7), (256, 3)])
def test_whole_tiles_of_scores_that_are_minus_infinity(device, keys, first, low, head_dim, dtype, causal):
    """As by torch's ``scaled_dot_product_attention``, which gives zeros where all scores are -inf."""
    q, k, v = inputs(1, 2, 1, 5, keys, head_dim, dtype, device)
    q = q.abs() + 1
    k[:, :, :first] = low
    seen = torch.ones(5, keys, dtype=torch.bool, device=device).tril(keys - 5 if causal else keys)
    seen[:, :first] = False  # their shares are 0
    exact = [x.double() for x in (q, k.where(k > -100, -1), v)]
    wanted = torch.nn.functional.scaled_dot_product_attention(*exact, attn_mask=seen, enable_gqa=True)
    assert torch.allclose(attention(q, k, v, causal=causal).double(), wanted, atol=8e-3)


def test_float32_is_multiplied_as_float32():
    with precisions_of_dots() as seen:
        attention(*inputs(1, 1, 1, 2, 3))
    assert seen == {"IEEE"}


# By tensor descriptors, as on a Hopper GPU


@pytest.mark.parametrize("layout", [*LEVEL, *NOT_LEVEL])
@pytest.mark.parametrize("which", range(3))
def test_descriptors_are_for_what_the_tma_can_load(which, layout):
    """For each of q, k and v in its turn. The result must be right either way."""
    given = inputs(1, 2, 2, 3, 3, 64, dtype=torch.float16, seed=which)
    given[which] = (LEVEL | NOT_LEVEL)[layout](given[which])
    with mock.patch.object(snippet, "describe", side_effect=snippet.describe) as described, tiles_of(SMALL):
        check(*given)
    assert described.call_count == (3 if layout in LEVEL else 0)


@pytest.mark.parametrize(
    "head_dim, dtype, on_hopper, described",
    [
        (64, torch.float16, True, 3), (128, torch.float16, True, 3),
        (32, torch.float16, True, 0), (64, torch.float32, True, 0), (64, torch.float16, False, 0),
    ],
)  # fmt: skip
def test_descriptors_are_for_heads_and_gpus_that_gain_by_them(head_dim, dtype, on_hopper, described):
    described_by = mock.patch.object(snippet, "describe", side_effect=snippet.describe)
    with described_by as seen, mock.patch.object(snippet, "has_tma", return_value=on_hopper):
        attention(*inputs(1, 1, 1, 2, 3, head_dim, dtype=dtype))
    assert seen.call_count == described


@pytest.mark.parametrize("capability, hip, uses", [((9, 0), None, True), ((8, 9), None, False), ((9, 4), "6", False)])
def test_which_gpus_use_descriptors(capability, hip, uses):
    with (
        mock.patch.object(torch.cuda, "get_device_capability", return_value=capability),
        mock.patch.object(torch.version, "hip", hip),
    ):
        assert snippet.has_tma.__wrapped__(torch.device("cuda", 0)) is uses


def test_axes_of_one_have_any_strides_and_descriptors_a_good_one():
    """torch leaves the stride of an axis of length 1 as it happens to be."""
    x = torch.zeros(64, dtype=torch.float16).as_strided((1, 1, 1, 64), (3, 0, 5, 1))
    assert snippet.can_be_described(x) and snippet.describe(x, 16).strides == [64, 64, 64, 1]
    x = torch.zeros(5 * 72, dtype=torch.float16).as_strided((1, 1, 5, 64), (3, 0, 72, 1))
    assert snippet.can_be_described(x) and snippet.describe(x, 16).strides == [64, 64, 72, 1]
    assert not snippet.can_be_described(x[:, :, :0]), "it describes no empty tensor"


@pytest.mark.parametrize("queries, keys, causal", [(16, 16, True), (17, 33, True), (33, 17, True), (20, 1, False)])
def test_descriptors_and_pointers_give_the_same_bits(queries, keys, causal):
    """In the interpreter, which adds in the same order. What lies behind a head is not seen by either."""
    q, k, v = inputs(1, 2, 2, queries, keys, 64, dtype=torch.float16)
    changed = [x.clone() for x in (q, k, v)]
    for x in changed:
        x[:, 1] = math.nan
    with tiles_of(SMALL):
        first, second = (snippet.forward(q, k, v, 0.125, causal, described) for described in (True, False))
        other = snippet.forward(*changed, 0.125, causal, True)
    assert all(map(torch.equal, first, second))
    assert all(torch.equal(a[:, 0], b[:, 0]) for a, b in zip(first, other, strict=True))


# What it touches


@pytest.mark.parametrize("head_dim, dtype", [(16, torch.float32), (64, torch.float16)], ids=["pointers", "descriptors"])
def test_nothing_else_is_touched_and_each_result_is_written_once(head_dim, dtype):
    guarded = lambda *shape, dtype=dtype: Guarded(shape, dtype, "cpu", before=64, after=64 * 64, fill=0xFF)
    values = inputs(1, 2, 1, 19, 21, head_dim, dtype)
    given = [guarded(*x.shape) for x in values]
    for each, x in zip(given, values, strict=True):
        each.tensor.copy_(x)
    q, k, v = (each.tensor for each in given)
    out, lse = guarded(*q.shape), guarded(1, 2, 19, dtype=torch.float32)
    with tiles_of(SMALL), handed_out("empty", out.tensor, lse.tensor), recorded_accesses() as seen:
        snippet.forward(q, k, v, 0.25, True)
    for each in (*given, out, lse):
        each.check("a tensor")
        assert not each.tensor.isnan().any()
    check_each_once(seen, "store", out=out.tensor, lse=lse.tensor)
    check_inside(seen, "load", q=q, k=k, v=v)


def test_tiles_that_nobody_sees_are_not_loaded_and_the_longest_begins():
    """Causal, 64 queries and keys by tiles of 16: 1 + 2 + 3 + 4 tiles of 16; the last tile of queries begins first."""
    q, k, v = inputs(1, 1, 1, 64, 64)
    for causal, tiles, order in ((True, 10, [48, 32, 16, 0]), (False, 16, [0, 16, 32, 48])):
        with tiles_of(SMALL), recorded_accesses() as seen:
            _, lse = snippet.forward(q, k, v, 0.25, causal)
        loads = [sum(int(((at >= x.data_ptr()) & (at < x.data_ptr() + x.nbytes)).sum())
                     for kind, at in seen if kind == "load") for x in (q, k, v)]  # fmt: skip
        assert loads == [64 * 16, tiles * 256, tiles * 256]
        firsts = [(int(at.min()) - lse.data_ptr()) // 4 for kind, at in seen if kind == "store"]
        assert [first for first in firsts if 0 <= first < 64] == order


def test_offsets_are_computed_in_64_bits():
    """Of sequence 4 and head 2**12, and of a row beyond 2**31: tensors are told of more than there is."""
    batch, head, heads, queries = 4, 2**12, 2**13, 2**12
    pointers, strides = [torch.zeros(1) for _ in range(5)], [(2**30 + i, 2**20 + i, 2**20) for i in range(4)]
    pair, tile = batch * heads + head, queries // 16 - 1
    with recorded_accesses(first_program=(pair * (queries // 16) + tile, 0, 0), memory=False) as seen:
        snippet.attention_kernel[(1,)](
            *pointers, *strides, heads, 1, queries, 16, SCALE=1.0, CAUSAL=False, DESCRIBED=False, HEAD_DIM=16,
            BLOCK_Q=16, BLOCK_K=16,
        )  # fmt: skip
    first = [tile * 16, 0, 0, tile * 16]
    wanted = [batch * one + head * two + row * three for (one, two, three), row in zip(strides, first, strict=True)]
    wanted.append(pair * queries + tile * 16)
    for pointer, offset in zip(pointers, wanted, strict=True):
        assert any(at.size and int(at.min()) == pointer.data_ptr() + 4 * offset for _, at in seen)


# What is refused


def test_a_gradient_is_refused(device):
    q, k, v = inputs(1, 1, 1, 2, 3, device=device)
    with pytest.raises(ValueError, match=r"q, k or v requires a gradient, which attention_backward\.py"):
        attention(q, k.requires_grad_(), v)
    with torch.no_grad():
        attention(q, k, v)


def ones(*shape, **options):
    return torch.ones(*shape, **options)


REFUSED = [
    ((ones(2, 3, 16), *[ones(1, 2, 3, 16)] * 2), {}, "q must be (batch, heads, rows, head_dim), 4 dimensions; got (2"),
    ((*[ones(1, 2, 3, 16)] * 2, ones(1, 2, 3, 16).half()), {}, "q and v must have one dtype and device; got torch.fl"),
    ((*[ones(1, 2, 3, 16)] * 2, ones(1, 2, 4, 16)), {}, "of the shape of k, (1, 2, 3, 16); got (1, 2, 4, 16)"),
    ((ones(2, 2, 3, 16), *[ones(1, 2, 3, 16)] * 2), {}, "the same batch and head_dim; got (2, 2, 3, 16)"),
    ((ones(1, 2, 3, 32), *[ones(1, 2, 3, 16)] * 2), {}, "the same batch and head_dim; got (1, 2, 3, 32)"),
    ((ones(1, 3, 3, 16), *[ones(1, 2, 3, 16)] * 2), {}, "the 3 heads of q must be a multiple of the 2 of k"),
    ((ones(1, 3, 3, 16), *[ones(1, 0, 3, 16)] * 2), {}, "the 3 heads of q must be a multiple of the 0 of k"),
    ([ones(1, 1, 3, 24)] * 3, {}, "head_dim must be one of (16, 32, 64, 128); got 24, which library/attention.py"),
    ([ones(1, 1, 3, 16).int()] * 3, {}, "torch.int32 is not supported; use one of"),
    ([ones(1, 1, 3, 16)] * 3, {"scale": 0.0}, "scale must be above 0; got 0.0, which library/attention.py serves"),
    ([ones(1, 1, 3, 16)] * 3, {"scale": -2}, "scale must be above 0; got -2.0"),
    ([ones(1, 1, 3, 16)] * 3, {"scale": math.nan}, "scale must be above 0; got nan"),
]


@pytest.mark.parametrize("given, options, fragment", REFUSED)
def test_refuses(device, given, options, fragment):
    with pytest.raises(ValueError) as error:
        attention(*(x.to(device) for x in given), **options)
    assert fragment in str(error.value)


def test_too_long_and_too_many():
    short = without_memory(1, 1, 2, 16)
    with pytest.raises(ValueError, match="1073741825 queries and 2 keys are too many"):
        snippet.check_arguments(1.0, q=without_memory(1, 1, 2**30 + 1, 16), k=short, v=short)
    many = without_memory(2**15, 2**16, 1, 16)
    with pytest.raises(ValueError, match=r"takes 2147483648 programs, of 2\*\*31 - 1 at most"):
        snippet.launch(snippet.attention_kernel, 2**31, (many, many, many), (), many, 1.0, False, False, SMALL)


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
    q, k, v = inputs(*shape, device=device)
    out = attention(q, k, v, causal=causal)
    assert out.shape == q.shape and not out.any()


CODE = """
for described in (False, True):
    for head_dim in (64, 128):
        q, k = (torch.empty(1, heads, 4096, head_dim).bfloat16() for heads in (4, 2))
        module.forward(q, k, k, 0.125, True, described=described)
"""


def test_compiles_to_matrix_units_and_wide_loads():
    """For an H200, without one. By pointers nothing spills, and shared memory suffices on smaller GPUs, too. By
    descriptors some values do by Triton 3.7.1, for three kernels are just below the limit of registers by 3.9."""
    launches = compiled("fusion/attention", CODE)
    by_pointers, described = launches[:2], launches[2:]
    assert all("HGMMA" in launch.sass for launch in launches)
    assert all("LDGSTS.E.BYPASS.128" in launch.sass for launch in by_pointers)
    assert all("UTMALDG" in launch.sass for launch in described)
    assert all(launch.spills == 0 and launch.shared <= 101_376 for launch in by_pointers)
    assert all(launch.spills <= 32 and launch.shared <= SHARED for launch in described)


# On a GPU alone


@pytest.mark.gpu
@pytest.mark.parametrize("described", [False, True])
def test_more_than_2_to_the_31_elements(described):
    if torch.cuda.mem_get_info()[0] < 60e9:
        pytest.skip("needs 60 GB of free GPU memory")
    q = torch.zeros(2, 2**11, 2**13, 128, dtype=torch.float16, device="cuda")
    row, k, _ = inputs(1, 1, 1, 3, 64, 128, torch.float16, "cuda")
    k = k.expand(2, 1, 64, 128).contiguous()
    q[-1, -1, -3:] = row
    out, _ = snippet.forward(q, k, k, 128**-0.5, False, described=described)
    assert torch.allclose(out[-1:, -1:, -3:].double(), reference(q[-1:, -1:, -3:], k[-1:], k[-1:]), atol=1e-2)


@pytest.mark.gpu
@pytest.mark.parametrize("head_dim", snippet.HEAD_DIMS)
@pytest.mark.parametrize("dtype", snippet.DTYPES)
def test_lengths_of_models(dtype, head_dim):
    check(*inputs(2, 8, 2, 1500, 1577, head_dim, dtype, "cuda"), causal=True)
