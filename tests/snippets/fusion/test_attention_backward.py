# SPDX-License-Identifier: Apache-2.0
"""``attention`` with gradients: those of torch in float64, whatever the lengths, heads, dtypes and strides, those
of the incoming gradient, too; nothing else is touched; the same bits each time."""

import contextlib
import math
from unittest import mock

import pytest
import torch
from compiled import SHARED, compiled
from guards import Guarded, check_each_once, check_inside, handed_out, recorded_accesses
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from triton.runtime.interpreter import interpreter_builder as builder

from snippets.fusion import attention as forwards
from snippets.fusion import attention_backward as snippet
from snippets.fusion.attention import forward
from snippets.fusion.attention_backward import attention

SMALL = {"BLOCK_Q": 16, "BLOCK_K": 16, "num_warps": 4, "num_stages": 2}

LAYOUTS = {  # of a tensor (batch, heads, rows, head_dim) of this shape
    "contiguous": lambda t: t.clone(),
    "rows before heads": lambda t: t.transpose(1, 2).contiguous().transpose(1, 2),
    "one of three": lambda t: torch.stack([-t, t, 2 * t], dim=3)[:, :, :, 1],
    "columns": lambda t: t.mT.contiguous().mT,
    "flipped sign": lambda t: torch._neg_view(-t),
}


def served(device):
    return [dtype for dtype in forwards.DTYPES if device == "cuda" or dtype != torch.bfloat16]


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
    out = forwards.in_torch(q[:, :, blind:], k, v, causal, scale)
    return torch.cat([torch.zeros_like(q[:, :, :blind]), out], dim=2)


def tolerance(dtype):
    return {torch.float32: 2e-5, torch.float16: 8e-3, torch.bfloat16: 6e-2}[dtype]


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
    places = (forwards, "default_tile"), (snippet, "grad_q_tile"), (snippet, "grad_k_v_tile")
    with contextlib.ExitStack() as stack:
        for module, name in places:
            stack.enter_context(mock.patch.object(module, name, lambda *_: tile))
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


@pytest.mark.parametrize("head_dim", forwards.HEAD_DIMS)
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


def test_a_scale(device):
    check(attention, *inputs(1, 1, 1, 3, 20, device=device), scale=0.3)
    x = torch.ones(1, 1, 2, 16, device=device)
    with pytest.raises(ValueError, match="scale must be above 0"):
        snippet.backward(x, x, x, x, x, x[..., 0], 0.0, False)


def test_a_query_that_sees_no_key(device):
    """Zeros, and no gradient: neither NaN nor the mean of all values."""
    q, k, v, grad = inputs(1, 1, 1, 5, 3, device=device)
    out, grad_q, *others = gradients(attention, q, k, v, grad, causal=True)
    assert not out[0, 0, :2].any() and not grad_q[0, 0, :2].any() and out[0, 0, 2:].all()
    grad[0, 0, :2] = 1e6
    for a, b in zip(gradients(attention, q, k, v, grad, causal=True)[2:], others, strict=True):
        assert torch.equal(a, b)


def test_the_same_bits_each_time(device):
    given = inputs(1, 4, 1, 20, 20, device=device)
    with tiles_of(SMALL):
        first, second = (gradients(attention, *given, causal=True) for _ in range(2))
    assert all(map(torch.equal, first, second))


def test_an_incoming_gradient_of_any_strides(device):
    q, k, v, _ = (x.requires_grad_() for x in inputs(1, 2, 1, 3, 4, device=device))
    weight = numbers(1, 3, 2, 16, device=device)
    losses = {
        "expanded": lambda out: out.sum(),
        "transposed": lambda out: (out.transpose(1, 2) * weight).sum(),
        "columns": lambda out: (out.mT.contiguous() ** 2).sum(),
        "sliced": lambda out: (torch.cat([out, out], dim=3)[..., 3:19] ** 2).sum(),
    }
    for name, loss in losses.items():
        found, wanted = (torch.autograd.grad(loss(f(q, k, v, causal=True)), (q, k, v)) for f in (attention, reference))
        assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(found, wanted, strict=True)), name


def test_a_gradient_for_one_of_the_three(device):
    q, k, v, _ = inputs(1, 1, 1, 2, 3, device=device)
    wanted = gradients(reference, q, k, v, torch.ones_like(q))[1:]
    for one, expected in zip((q, k, v), wanted, strict=True):
        one.requires_grad_()
        attention(q, k, v).sum().backward()
        assert torch.allclose(one.grad, expected, atol=1e-5)
        one.requires_grad_(False)
    assert not attention(q, k, v).requires_grad


def test_keeps_no_scores():
    given = [x.requires_grad_() for x in inputs(1, 2, 1, 40, 50)[:3]]
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.numel()) or t, lambda t: t):
        attention(*given)
    assert sorted(saved) == sorted([2 * 40 * 16, 50 * 16, 50 * 16, 2 * 40 * 16, 2 * 40])


# By tensor descriptors, as on a Hopper GPU


@contextlib.contextmanager
def tensors_described():
    """Yield a list that receives the strides and the tile of each tensor that is described to the TMA."""
    seen, describe = [], forwards.describe

    def noted(x, rows):
        made = describe(x, rows)
        seen.append((made.strides, made.block_shape))
        return made

    with mock.patch.object(forwards, "describe", noted):
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


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("queries, keys", [(16, 16), (17, 33), (33, 17), (1, 20), (20, 1)])
def test_descriptors_and_pointers_give_the_same_bits(queries, keys, causal):
    """Of whole tiles and of others, with grouped heads; in the interpreter, which adds in the same order."""
    q, k, v, grad = inputs(1, 2, 1, queries, keys, 64, dtype=torch.float16)
    q, grad = map(LAYOUTS["rows before heads"], (q, grad))
    found = []
    for described in (True, False):
        with tensors_described() as seen, tiles_of(SMALL):
            out, lse = forward(q, k, v, 0.125, causal, described)
            made = snippet.backward(grad, q, k, v, out, lse, 0.125, causal, described)
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
    """Guard zones around all tensors, of lengths that fill no tile."""
    shapes = {"q": (1, 2, 19), "k": (1, 1, 21), "v": (1, 1, 21), "grad": (1, 2, 19)}
    shapes = {name: (*shape, head_dim) for name, shape in shapes.items()}
    guarded = lambda shape, dtype=dtype: Guarded(shape, dtype, device, before=64, after=64 * 64, fill=0xFF)
    given = {name: guarded(shape) for name, shape in shapes.items()}
    for each, values in zip(given.values(), inputs(1, 2, 1, 19, 21, head_dim, dtype), strict=True):
        each.tensor.copy_(values)
    q, k, v, grad = (each.tensor for each in given.values())
    out, lse = guarded(shapes["q"]), guarded((1, 2, 19), torch.float32)
    made = [guarded(shapes[name]) for name in "qkv"]
    delta = guarded((1, 2, 19), torch.float32)
    seen = lambda: recorded_accesses() if device == "cpu" else contextlib.nullcontext()
    with tiles_of(SMALL):
        with handed_out("empty", out.tensor, lse.tensor):
            forward(q, k, v, 0.25, True)
        handed = (
            handed_out("empty", *(each.tensor for each in made)),
            handed_out("empty_like", delta.tensor),
        )
        with handed[0], handed[1], seen() as backward:
            snippet.backward(grad, q, k, v, out.tensor, lse.tensor, 0.25, True)
    for each in (*given.values(), out, lse, *made, delta):
        each.check("a tensor")
        assert not each.tensor.isnan().any()
    if device == "cpu":
        read = {name: each.tensor for name, each in given.items()}
        check_inside(backward, "load", **read, out=out.tensor, lse=lse.tensor, delta=delta.tensor)
        names = dict(zip(("grad_q", "grad_k", "grad_v"), (each.tensor for each in made), strict=True))
        check_each_once(backward, "store", delta=delta.tensor, **names)


def loads(seen, tensor) -> int:
    begin = tensor.data_ptr()
    end = begin + tensor.numel() * tensor.element_size()
    return sum(((a >= begin) & (a < end)).sum().item() for kind, a in seen if kind == "load")


def test_tiles_that_nobody_sees_are_not_loaded():
    """Causal, 64 queries and keys by tiles of 16: 1 + 2 + 3 + 4 tiles of 16, in each of the two kernels."""
    q, k, v, grad = inputs(1, 1, 1, 64, 64)
    for causal, tiles in ((True, 10), (False, 16)):
        with tiles_of(SMALL):
            out, lse = forward(q, k, v, 0.25, causal)
            with recorded_accesses() as seen:
                snippet.backward(grad, q, k, v, out, lse, 0.25, causal)
            # by tiles of queries: k and v; by tiles of keys: q and grad; and each its own
            assert [loads(seen, x) for x in (q, k, v, grad)] == [64 * 16 + tiles * 256] * 4
            assert loads(seen, out) == 64 * 16


@pytest.mark.parametrize("causal", [False, True])
def test_the_order_of_tiles(causal):
    """Causal, the last tile of queries sees most keys, so it begins first."""
    q, k, v, grad = inputs(1, 1, 1, 33, 5)
    delta = torch.empty(1, 1, 33)
    with tiles_of(SMALL):
        out, lse = forward(q, k, v, 0.25, causal)
        with recorded_accesses() as seen, handed_out("empty_like", delta):
            snippet.backward(grad, q, k, v, out, lse, 0.25, causal)
    firsts = [(int(at[0]) - delta.data_ptr()) // 4 for kind, at in seen if kind == "store"]
    assert [first for first in firsts if 0 <= first < 33] == ([32, 16, 0] if causal else [0, 16, 32])


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
    programs, tile = -(-keys // block_k), SMALL | {"BLOCK_Q": block_q, "BLOCK_K": block_k}
    options = of_keys[0], 0.25, True, False, tile
    with mock.patch.multiple(builder, create_dot=noted_dot, create_select=noted_select):
        forwards.launch(snippet.grad_k_v_kernel, programs, (q, k, v, grad), (*of_each, *of_keys), *options)
    assert found[0::2] == wanted and found[1::2] == [True] * len(wanted)


@pytest.mark.parametrize("kernel, numbers", [("grad_q_kernel", [5, 6]), ("grad_k_v_kernel", [4, 5])])
def test_offsets_are_computed_in_64_bits(kernel, numbers):
    """Of sequence 128 and head 5 of 2**13, with 2**12 queries each: tensors are told of more than there is."""
    pair, queries, pointers = 128 * 2**13 + 5, 2**12, [torch.zeros(1) for _ in range(8)]
    strides = [(2**30 + i, 2**20 + i, 16) for i in range(5)]
    tiles = queries // 2048 if kernel == "grad_q_kernel" else 1
    with recorded_accesses(first_program=(pair * tiles, 0, 0), memory=False) as seen:
        getattr(snippet, kernel)[(1,)](
            *pointers, *strides, 2**13, 1, queries, 5, SCALE=1.0, CAUSAL=False, DESCRIBED=False, HEAD_DIM=16,
            BLOCK_Q=2048, BLOCK_K=16,
        )  # fmt: skip
    starts = {int(at.min()) for _, at in seen if at.size}
    for place, (pointer, stride) in enumerate(zip(pointers[:4], strides, strict=False)):
        assert pointer.data_ptr() + 4 * (128 * stride[0] + 5 * stride[1]) in starts, place
    for place in set(range(4, 8)) - set(numbers):  # out and grad_q, or grad_k and grad_v
        assert pointers[place].data_ptr() + 4 * (128 * strides[4][0] + 5 * strides[4][1]) in starts, place
    for place in numbers:
        assert pointers[place].data_ptr() + 4 * pair * queries in starts, place


# What is refused


def test_what_the_forward_refuses_is_refused(device):
    x = torch.ones(1, 1, 2, 24, device=device)
    with pytest.raises(ValueError, match="head_dim must be one of"):
        attention(x, x, x)


def test_a_gradient_of_another_shape_is_refused(device):
    x = torch.ones(1, 1, 2, 16, device=device)
    with pytest.raises(ValueError, match=r"grad must be .* of the shape of q, \(1, 1, 2, 16\); got \(1, 1, 1, 16\)"):
        snippet.backward(x[:, :, :1], x, x, x, x, x[..., 0], 0.25, False)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [(0, 1, 1, 2, 3), (1, 0, 0, 2, 3), (1, 0, 3, 2, 3), (1, 1, 1, 0, 3), (1, 1, 1, 2, 0)])
def test_nothing_to_do(device, shape, causal):
    q, k, v, grad = inputs(*shape, device=device)
    found = gradients(attention, q, k, v, grad, causal=causal)
    assert [each.shape for each in found] == [q.shape, q.shape, k.shape, v.shape]
    assert not any(each.any() for each in found)


CODE = """
for described in (False, True):
    for head_dim in (64, 128):
        q, k = (torch.empty(1, heads, 4096, head_dim).bfloat16() for heads in (4, 2))
        lse = torch.empty(1, 4, 4096)
        module.backward(q, q, k, k, q, lse, 0.125, True, described=described)
"""


def test_compiles_to_matrix_units_and_wide_loads():
    """For an H200, without one. By pointers nothing spills, and shared memory suffices on smaller GPUs, too."""
    launches = compiled("fusion/attention_backward", CODE)
    assert [launch.kernel for launch in launches] == ["grad_q_kernel", "grad_k_v_kernel"] * 4
    by_pointers, described = launches[:4], launches[4:]
    assert all("HGMMA" in launch.sass for launch in launches)
    assert all("LDGSTS.E.BYPASS.128" in launch.sass for launch in by_pointers)
    assert all("UTMALDG" in launch.sass for launch in described)
    assert all(launch.spills == 0 and launch.shared <= 101_376 for launch in by_pointers)
    assert all(launch.spills <= 32 and launch.shared <= SHARED for launch in described)


# On a GPU alone


@pytest.mark.gpu
@pytest.mark.parametrize("head_dim", forwards.HEAD_DIMS)
@pytest.mark.parametrize("dtype", forwards.DTYPES)
def test_lengths_of_models(dtype, head_dim):
    length = 1500
    check(attention, *inputs(2, 8, 2, length, length + 77, head_dim, dtype=dtype, device="cuda"), causal=True)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_in_a_cuda_graph(dtype):
    q, k, v, grad = inputs(1, 4, 2, 300, 300, 64, dtype=dtype, device="cuda")

    def run():
        results = forward(q, k, v, 0.125, True)
        return *results, *snippet.backward(grad, q, k, v, *results, 0.125, True)

    expected = run()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = run()
    graph.replay()
    assert all(torch.equal(a, b) for a, b in zip(captured, expected, strict=True))


def hopper():
    if not forwards.has_tma(torch.device("cuda", torch.cuda.current_device())):
        pytest.skip("needs a Hopper GPU")


ON_HOPPER = [  # batch, heads, kv_heads, queries, keys
    (1, 1, 1, 1, 1), (1, 2, 1, 1, 300), (2, 3, 3, 63, 65), (2, 4, 2, 128, 128), (1, 8, 2, 129, 127),
    (1, 2, 2, 127, 129), (2, 4, 1, 500, 777), (2, 4, 1, 777, 500), (1, 4, 4, 1024, 1024), (1, 2, 1, 300, 1),
]  # fmt: skip


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", forwards.DESCRIBED_HEAD_DIMS)
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
@pytest.mark.parametrize("head_dim", forwards.DESCRIBED_HEAD_DIMS)
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
    out, lse = forward(q, k, v, 0.125, True, described=True)
    grads = snippet.backward(grad, q, k, v, out, lse, 0.125, True, described=True)
    assert not out[:, :, :200].any() and not grads[0][:, :, :200].any() and lse[:, :, :200].isposinf().all()
    assert all(x.isfinite().all() for x in (out, *grads)) and lse[:, :, 200:].isfinite().all()


@pytest.mark.gpu
def test_descriptors_on_another_stream():
    hopper()
    q, k, v, grad = inputs(1, 4, 2, 300, 300, 64, dtype=torch.bfloat16, device="cuda")
    expected = gradients(attention, q, k, v, grad, causal=True)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        found = gradients(attention, q, k, v, grad, causal=True)
    stream.synchronize()
    assert all(map(torch.equal, found, expected))
