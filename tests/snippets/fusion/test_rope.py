# SPDX-License-Identifier: Apache-2.0
"""Rotary embedding: results and gradients of torch in float64, whatever shape, dtype and strides, those of incoming
gradients, too; nothing else is touched."""

import contextlib
import functools
from unittest import mock

import numpy as np
import pytest
import torch
from compiled import compiled
from guards import (
    Guarded,
    check_each_once,
    check_same_bits,
    handed_out,
    recorded_accesses,
    without_memory,
)
from hypothesis import example, given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from snippets.fusion import rope as snippet
from snippets.fusion.rope import rope, rope_tables, rotate
from snippets.fusion.rope_measured import as_transformers, rotate_half

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy in the interpreter: NaN to another dtype

LAYOUTS = {  # of (batch, tokens, heads, head_dim)
    "contiguous": lambda t: t.clone(),
    "heads first": lambda t: t.transpose(1, 2).contiguous().transpose(1, 2),
    "tokens first": lambda t: t.transpose(0, 1).contiguous().transpose(0, 1),
    "slice of all heads": lambda t: torch.cat([t, t, t], dim=2)[:, :, t.shape[2] : 2 * t.shape[2]],
    "half a head": lambda t: torch.cat([t, t], dim=-1)[..., : t.shape[-1]],
    "one more": lambda t: torch.cat([t, t[..., :1]], dim=-1)[..., : t.shape[-1]],
    "turned": lambda t: t.transpose(0, -1).contiguous().transpose(0, -1),
    "flipped sign": lambda t: torch._neg_view(-t),
    "stride 0": lambda t: t[:, :, :1].clone().expand(t.shape),
}


def served(device):
    return [dtype for dtype in snippet.DTYPES if device == "cuda" or dtype != torch.bfloat16]


def numbers(shape, dtype, device, seed=0):
    random = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=random, dtype=torch.float64).to(device, dtype)


def results(function, inputs, grads):
    """Results and gradients, of leaves that lie in memory as ``inputs`` do."""
    leaves = [each.detach().requires_grad_() for each in inputs]
    outs = function(*leaves)
    return [each.detach() for each in outs] + list(torch.autograd.grad(outs, leaves, grads))


def check(inputs, grads, cos, sin):
    """Compare with torch in float64: a pair is off by a few eps of its length, and the store rounds."""
    found = results(functools.partial(rope, cos=cos, sin=sin), inputs, grads)
    reference = functools.partial(snippet.in_torch, cos=cos.double(), sin=sin.double())
    exact = results(reference, [each.double() for each in inputs], [each.double() for each in grads])
    dtype = inputs[0].dtype
    eps = torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).eps
    for actual, expected, x in zip(found, exact, [*inputs, *grads], strict=True):
        assert (actual.shape, actual.dtype, actual.is_contiguous()) == (expected.shape, dtype, True)
        stored = torch.finfo(dtype)
        size = x.double().abs()
        size = 2 * (size.amax(dim=-1, keepdim=True) if size.numel() else size)
        allowed = 4 * eps * size + stored.eps * expected.abs() + stored.tiny
        wrong = ((actual.double() - expected).abs() <= allowed).logical_not()  # a NaN is wrong, too
        assert not wrong.any(), f"{actual[wrong][:3]}, should be {expected[wrong][:3]}"


@example((2, 3, 2, 1, 4), ["heads first", "slice of all heads", "turned", "stride 0"], 0, None)
@example((1, 5, 3, 3, 32), ["half a head", "one more", "contiguous", "half a head"], 1, None)
@example((2, 2, 1, 5, 10), ["tokens first", "turned", "stride 0", "flipped sign"], 2, None)
@example((2, 9, 4, 3, 64), ["contiguous", "heads first", "heads first", "contiguous"], 1, None)  # two programs
@given(
    shape=st.tuples(*(st.integers(0, 3), st.integers(0, 9), st.integers(0, 5), st.integers(0, 3)))
    .map(lambda found: [*found])
    .flatmap(lambda found: st.integers(1, 20).map(lambda half: (*found, 2 * half))),
    layouts=st.lists(st.sampled_from(list(LAYOUTS)), min_size=4, max_size=4),
    seed=st.integers(0, 999),
    data=st.data(),
)
def test_as_torch_computes_it_in_float64(device, shape, layouts, seed, data):
    draw = (lambda of: of[0]) if data is None else (lambda of: data.draw(st.sampled_from(of)))
    batch, tokens, *heads, head_dim = shape
    dtype = draw([torch.float32, *served(device)])
    shapes = [(batch, tokens, each, head_dim) for each in heads] * 2
    drawn = [numbers(each, dtype, device, seed + i) for i, each in enumerate(shapes)]
    q, k, *grads = (LAYOUTS[layout](each) for each, layout in zip(drawn, layouts, strict=True))
    tables = rope_tables(tokens + draw([0, 3]), head_dim, dtype=draw([torch.float32, dtype]), device=device)
    more = draw([0, 1, head_dim // 2])  # columns between the rows of a table
    wider = lambda table: torch.cat([table, table], dim=1)[:, : head_dim // 2 + more].clone()
    cos, sin = (wider(table)[:, : head_dim // 2] for table in tables)
    if draw([False, batch == 1]):  # without the first dimension
        q, k, *grads = (each[0] for each in (q, k, *grads))
    check([q, k], grads, cos, sin)


@pytest.mark.parametrize("pairs", [1, 4, 8, 64])
def test_any_number_of_pairs_a_program(device, pairs):
    q, k = numbers((2, 3, 3, 6), torch.float64, device), numbers((2, 3, 1, 6), torch.float64, device, 1)
    cos, sin = rope_tables(3, 6, dtype=torch.float64, device=device)
    found = rotate(q, k, cos, sin, False, pairs=pairs)
    for a, b in zip(found, snippet.in_torch(q, k, cos, sin), strict=True):
        assert torch.allclose(a, b)


def test_there_and_back(device):
    q, k = numbers((2, 5, 3, 8), torch.float64, device), numbers((2, 5, 2, 8), torch.float64, device, 1)
    cos, sin = rope_tables(5, 8, dtype=torch.float64, device=device)
    there = rotate(q, k, cos, sin, False)
    back = rotate(*there, cos, sin, True)
    assert torch.allclose(back[0], q) and torch.allclose(back[1], k)
    assert torch.allclose(there[0].norm(dim=-1), q.norm(dim=-1))


def test_a_score_depends_on_the_distance_alone(device):
    q, k = (numbers((8,), torch.float64, device, i).expand(1, 12, 1, 8) for i in range(2))
    cos, sin = rope_tables(40, 8, dtype=torch.float64, device=device)
    scores = lambda offset: (lambda q, k: q[0, :, 0] @ k[0, :, 0].T)(*rope(q, k, cos[offset:], sin[offset:]))
    near, far = scores(0), scores(28)
    assert torch.allclose(near, far)
    assert torch.allclose(near[1:, 1:], near[:-1, :-1]) and not torch.allclose(near[0, 1], near[0, 2])


def test_tables(device):
    """Those of the paper; and at a position that float32 would not tell from its neighbor's angle."""
    cos, sin = rope_tables(3, 6, base=100.0, dtype=torch.float64, device=device)
    for t in range(3):
        for i in range(3):
            angle = torch.tensor(t * 100.0 ** (-2 * i / 6), dtype=torch.float64)
            assert torch.allclose(cos[t, i].cpu(), angle.cos()) and torch.allclose(sin[t, i].cpu(), angle.sin())
    cos, sin = rope_tables(2**17, 2, device=device)
    angle = torch.tensor(2.0**17 - 1, dtype=torch.float64)
    assert abs(cos[-1, 0].item() - angle.cos().item()) < 1e-7 and abs(sin[-1, 0].item() - angle.sin().item()) < 1e-7
    assert rope_tables(3, 6, dtype=torch.bfloat16)[0].dtype == torch.bfloat16


# Nothing else is touched


def guarded(shape, device, dtype=torch.float32):
    return Guarded(shape, dtype, device, before=64, after=64, fill=0xFF)


@pytest.mark.parametrize("shape", [(1, 1, 1, 1, 2), (2, 3, 2, 1, 6), (1, 3, 3, 1, 8), (1, 3, 0, 1, 4)])
def test_each_element_is_touched_once_and_nothing_else(device, shape):
    batch, tokens, *heads, head_dim = shape
    q, k = given = [guarded((batch, tokens, each, head_dim), device) for each in heads]
    outs = [guarded(each.shape, device) for each in given]
    cos, sin = tables = [guarded((tokens, head_dim // 2), device) for _ in range(2)]
    for seed, each in enumerate([*given, *tables]):
        each.tensor.copy_(numbers(each.shape, torch.float32, device, seed))
    seen = lambda: recorded_accesses() if device == "cpu" else contextlib.nullcontext()
    with handed_out("empty", *(each.tensor for each in outs)), seen() as accesses:
        found = rotate(q.tensor, k.tensor, cos.tensor, sin.tensor, False, pairs=8)
    assert all(a is b.tensor for a, b in zip(found, outs, strict=True))
    for each in [*given, *outs, *tables]:
        each.check("a tensor")
        assert not each.tensor.isnan().any()
    if device == "cpu":
        check_each_once(accesses, "store", q=outs[0].tensor, k=outs[1].tensor)
        of_tables = [each.tensor.data_ptr() + i for each in tables for i in range(each.tensor.nbytes)]
        once = [(op, found[~np.isin(found, of_tables)]) for op, found in accesses]
        check_each_once(once, "load", q=q.tensor, k=k.tensor)


@pytest.mark.parametrize("last", ["batch", "token", "head", "row", "table"])
def test_offsets_are_computed_in_64_bits(last):
    """The last program of few, in rows that lie far apart; or one past 2**31, told of more rows than there are."""
    q, k, q_out, k_out, cos, sin = given = [torch.zeros(1) for _ in range(6)]
    far = 2**28
    batches, tokens, heads, half, strides = {
        "batch": (9, 1, 1, 8, (far, 1, 1)),
        "token": (1, 9, 1, 8, (1, far, 1)),
        "head": (1, 1, 9, 8, (1, 1, far)),
        "row": (1, 1, 2**27 + 2, 8, (1, 1, 1)),
        "table": (1, 2**14 + 1, 1, 2**17, (1, 1, 1)),
    }[last]
    rows = batches * tokens * heads
    where = (rows // heads // tokens - 1, tokens - 1, heads - 1)
    options = {"INVERSE": False, "COMPUTE": snippet.tl.float32, "BLOCK_ROWS": 1, "BLOCK_HALF": 8}
    for program, x, out in ((rows - 1, q, q_out), (2 * rows - 1, k, k_out)):
        with recorded_accesses(first_program=(program, 0, 0), memory=False) as seen:
            snippet.rope_kernel[(1,)](
                *given, batches * tokens, tokens, heads, heads, half, *strides, *strides, **options
            )  # fmt: skip
        first = {}
        for op, addresses in seen:
            for name, tensor in (("x", x), ("out", out), ("cos", cos), ("sin", sin)):
                if op == ("store" if name == "out" else "load"):
                    first.setdefault(name, []).append((int(addresses[0]) - tensor.data_ptr()) // 4)
        x_at = sum(a * b for a, b in zip(where, strides, strict=True))
        out_at, table_at = 2 * half * (rows - 1), half * (tokens - 1)
        assert max(x_at, out_at if last == "row" else 0, table_at) >= 2**31
        for name, at in (("x", x_at), ("out", out_at), ("cos", table_at), ("sin", table_at)):
            assert at in first[name], name


def test_what_lies_well_is_not_copied(device):
    """A slice of one tensor for queries, keys and values, and heads first."""
    qkv = numbers((2, 3, 8, 16), torch.float32, device)
    tables = rope_tables(3, 16, device=device)
    seen = []
    contiguous = torch.Tensor.contiguous
    with mock.patch.object(torch.Tensor, "contiguous", lambda x: seen.append(x.ndim) or contiguous(x)):
        rope(qkv[:, :, :4], qkv[:, :, 4:6], *tables)
        rope(*(x.transpose(1, 2).clone().transpose(1, 2) for x in (qkv, qkv)), *tables)
    assert seen == [2] * 4  # tables alone are asked, which are contiguous


# As PyTorch calls it


def test_gradcheck(device):
    q, k = (numbers((2, 2, heads, 4), torch.float64, device, heads).requires_grad_() for heads in (2, 1))
    cos, sin = rope_tables(5, 4, dtype=torch.float64, device=device)
    function = functools.partial(rope, cos=cos[3:], sin=sin[3:])
    assert torch.autograd.gradcheck(function, (q, k), fast_mode=True)
    assert torch.autograd.gradgradcheck(function, (q, k), fast_mode=True)


@pytest.mark.parametrize("which", range(2))
def test_only_one_of_the_results_is_used(device, which):
    inputs = [numbers((3, 2, 4), torch.float64, device, i).requires_grad_() for i in range(2)]
    cos, sin = rope_tables(3, 4, dtype=torch.float64, device=device)
    found = torch.autograd.grad(rope(*inputs, cos, sin)[which].transpose(0, 2).sum(), inputs)
    wanted = torch.autograd.grad(snippet.in_torch(*inputs, cos, sin)[which].sum(), inputs[which])
    assert torch.allclose(found[which], wanted[0]) and not found[1 - which].any()
    one = rope(inputs[0].detach(), inputs[1], cos, sin)[1]
    assert torch.autograd.grad(one.sum(), inputs[1])[0].shape == (3, 2, 4)
    assert not rope(*(each.detach() for each in inputs), cos, sin)[0].requires_grad


def test_keeps_tables_alone(device):
    q, k = (numbers((3, heads, 4), torch.float32, device).requires_grad_() for heads in (2, 1))
    cos, sin = rope_tables(3, 4, device=device)
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        rope(q, k, cos, sin)
    assert [t.data_ptr() for t in saved] == [cos.data_ptr(), sin.data_ptr()]


# What the page counts by hand


class Counted(TorchDispatchMode):
    """The kernels that torch runs, and how many elements they read and write, for each of ``n``; but for tables."""

    def __init__(self, n, table):
        super().__init__()
        self.n, self.table, self.kernels, self.read, self.written = n, table, 0, 0, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ not in ("detach", "alias", "expand", "view", "split", "slice"):
            inputs = [each for arg in args for each in (arg if isinstance(arg, (list, tuple)) else [arg])]
            inputs = [each.numel() for each in inputs if isinstance(each, torch.Tensor)]
            self.kernels += 1
            self.read += sum(numel for numel in inputs if numel != self.table) / self.n
            self.written += out.numel() / self.n
        return out


def test_the_kernels_and_elements_of_torch_that_the_page_counts():
    q, grad = (numbers((4, 8, 16), torch.float16, "cpu", i) for i in range(2))
    q, tables = q.requires_grad_(), [numbers((4, 1, 16), torch.float16, "cpu", i) for i in range(2)]
    with Counted(q.numel(), tables[0].numel()) as there:
        out, _ = as_transformers(q, q[:, :0], *tables, rotate_half)
    with Counted(q.numel(), tables[0].numel()) as back:
        torch.autograd.grad(out, q, grad)
    assert (there.kernels, there.read, there.written) == (10, 5.5, 4.5)  # half of the kernels for keys, here none
    assert (back.kernels, back.read, back.written) == (5, 5.5, 4.5)


# What is refused


def test_refuses_what_is_too_large():
    table = without_memory(2**31, 1)
    q = without_memory(2**31, 1, 2)
    with pytest.raises(ValueError, match="have too many heads of tokens; split them"):
        snippet.check_arguments(q=q, k=q[:, :0], cos=table, sin=table)
    q, table = without_memory(1, 1, 2**15 + 2), without_memory(1, 2**14 + 1)
    with pytest.raises(ValueError, match="a head has 32770 columns, at most 32768 are served"):
        snippet.check_arguments(q=q, k=q, cos=table, sin=table)


# The file as a script, and compiled


CODE = """
for head_dim, heads in ((128, 8), (120, 5)):
    q = torch.empty(1000, heads, head_dim, dtype=torch.bfloat16)
    cos = torch.empty(1000, head_dim // 2)
    module.rotate(q, q, cos, cos, False)
one = torch.empty(1, 1, 2)
module.rotate(one, one, one[0, :, :1], one[0, :, :1], True)
"""


def test_compiles_to_wide_loads_and_spills_nothing():
    """For an H200, without one: 16 bytes a load and a store, where 16 divides half a head. A thread has at most 64
    registers of 65536, so that 1024 threads fit and more."""
    whole, narrow, one = compiled("fusion/rope", CODE)  # one: Triton makes a constant of an argument that is 1
    assert all(launch.spills == 0 and launch.registers <= 64 for launch in (whole, narrow))
    assert (whole.widths("LDG"), whole.widths("STG")) == ({128}, {128})
    assert one.kernel == "rope_kernel"


# On a GPU alone


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", snippet.DTYPES)
@pytest.mark.parametrize("shape", [(2, 4096, 24, 8, 128), (1, 1000, 20, 5, 120), (3, 517, 3, 1, 64)], ids=str)
def test_real_sizes(shape, dtype):
    batch, tokens, *heads, head_dim = shape
    shapes = [(batch, tokens, each, head_dim) for each in heads]
    inputs, grads = ([numbers(s, dtype, "cuda", seed + i) for i, s in enumerate(shapes)] for seed in (0, 2))
    for table_dtype in {torch.float32, dtype}:
        cos, sin = rope_tables(tokens + 9, head_dim, dtype=table_dtype, device="cuda")
        check(inputs, grads, cos[9:], sin[9:])
    check(inputs, [each.transpose(1, 2).contiguous().transpose(1, 2) for each in grads], cos, sin)


@pytest.mark.gpu
def test_more_than_2_to_the_31_elements():
    if torch.cuda.mem_get_info()[0] < 30e9:
        pytest.skip("needs 30 GB of free GPU memory")
    batches = 2**31 // 4096 // 64 + 1
    q = torch.zeros(batches, 64, 32, 128, dtype=torch.float16, device="cuda")
    q[-1] = numbers(q.shape[1:], torch.float16, "cuda")
    k = q[:, :, :1]
    tables = rope_tables(64, 128, device="cuda")
    found = rotate(q, k, *tables, False)
    for a, b in zip(found, rotate(q[-1:], k[-1:], *tables, False), strict=True):
        check_same_bits(a[-1:], b)
        assert not a[:-1].any()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", snippet.DTYPES)
def test_in_a_cuda_graph(dtype):
    """And a replay sees other queries, if they are written into their tensor."""
    q, k = (numbers((300, heads, 64), dtype, "cuda").requires_grad_() for heads in (5, 2))
    grads = [torch.ones_like(each) for each in (q, k)]
    tables = rope_tables(300, 64, device="cuda")

    def run():
        outs = rope(q, k, *tables)
        return [*outs, *torch.autograd.grad(outs, (q, k), grads)]

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run()
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = run()
    for factor in (1, 2):
        q.detach().mul_(factor)
        graph.replay()
        for a, b in zip(captured, run(), strict=True):
            check_same_bits(a, b)
