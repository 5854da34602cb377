# SPDX-License-Identifier: Apache-2.0
"""RMS norm, with a sum before it, and layer norm: results and gradients of torch in float64, whatever shape, dtype and
strides, those of the incoming gradients, too; nothing else is touched; the same under ``torch.compile``."""

import contextlib
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import torch
from compiled import compiled
from guards import (
    Guarded,
    as_if_compiled,
    check_each_once,
    check_same_bits,
    handed_out,
    recorded_accesses,
    without_memory,
)
from hypothesis import example, given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from snippets.fusion import norms as snippet
from snippets.fusion.norms import add_rms_norm, layer_norm, rms_norm

EPS = 1e-5
F = torch.nn.functional

LAYOUTS = {  # of a tensor of this shape
    "contiguous": lambda t: t.clone(),
    "gaps": lambda t: torch.cat([t, t], dim=-1).clone()[..., : t.shape[-1]],
    "wide gaps": lambda t: torch.cat([t, *[torch.zeros_like(t)] * 7], dim=-1)[..., : t.shape[-1]],
    "one more": lambda t: torch.cat([t, t[..., :1]], dim=-1)[..., : t.shape[-1]],
    "turned": lambda t: t.transpose(0, -1).contiguous().transpose(0, -1),
    "flipped sign": lambda t: torch._neg_view(-t),
    "every other": lambda t: torch.stack([t, t], dim=-1).clone()[..., 0],
    "stride 0": lambda t: t[:1].clone().expand(t.shape) if len(t) else t,
}
# function, the same in torch, and what it takes: x, perhaps as many again (residual), and numbers for each column
NORMS = {
    "rms_norm": (rms_norm, lambda x, w: snippet.in_torch(x, w, EPS), 1, 1),
    "rms_norm, as Gemma": (
        lambda x, w, eps: rms_norm(x, w, eps, offset=1.0),
        lambda x, w: snippet.in_torch(x, w, EPS, 1.0),
        1,
        1,
    ),
    "add_rms_norm": (add_rms_norm, lambda x, r, w: (snippet.in_torch(x + r, w, EPS), x + r), 2, 1),
    "layer_norm": (
        lambda x, w, b, eps: layer_norm(x, w, b, eps),
        lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b, EPS),
        1,
        2,
    ),
    "layer_norm, no bias": (
        lambda x, w, eps: layer_norm(x, w, eps=eps),
        lambda x, w: F.layer_norm(x, x.shape[-1:], w, None, EPS),
        1,
        1,
    ),
}
norms = pytest.mark.parametrize("name", NORMS)


@contextlib.contextmanager
def nan_in_lanes_that_are_off():
    """In the interpreter: what is loaded where the mask is off and ``other`` is not given, which a GPU leaves open."""
    from triton.runtime.interpreter import interpreter_builder as builder

    load = builder.create_masked_load

    def noted(pointers, mask, other, *rest):
        if other is None:
            other = load(pointers, mask, None, *rest)
            other.data = np.full_like(other.data, np.nan)
        return load(pointers, mask, other, *rest)

    with mock.patch.object(builder, "create_masked_load", noted):
        yield


@contextlib.contextmanager
def by_op(yes=True):
    """Calls go to the custom ops, as they do under torch.compile."""
    ops = {"RMSNorm": snippet.rms_norm_op, "AddRMSNorm": snippet.add_rms_norm_op, "LayerNorm": snippet.layer_norm_op}
    with contextlib.ExitStack() as patches:
        for name in ops if yes else ():
            patches.enter_context(mock.patch.object(getattr(snippet, name), "apply", ops[name]))
        yield


def served(device):
    return [dtype for dtype in snippet.DTYPES if device == "cuda" or dtype != torch.bfloat16]


def numbers(shape, dtype, device, seed=0, scale=1.0, shift=0.0):
    random = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=random, dtype=torch.float64) * scale + shift).to(device, dtype)


def tensors(name, shape, dtype, device, seed=0, weight_dtype=None):
    """What the norm is called with."""
    _, _, full, columns = NORMS[name]
    xs = [numbers(shape, dtype, device, seed + i, 3.0) for i in range(full)]
    return xs + [numbers(shape[-1:], weight_dtype or dtype, device, seed + 5 + i, 0.5, 1.0) for i in range(columns)]


def results(function, inputs, grads):
    """Results and gradients, of leaves that lie in memory as ``inputs`` do."""
    leaves = [each.detach().requires_grad_() for each in inputs]
    out = function(*leaves)
    outs = list(out) if isinstance(out, tuple) else [out]
    return [each.detach() for each in outs], list(torch.autograd.grad(outs, leaves, grads[: len(outs)]))


def check(name, inputs, grads, steps=64):
    """Compare with torch in float64.

    What is summed is off by a few eps of the sum of sizes, and a difference from the mean by eps of the largest x.
    """
    ours, reference, full, _ = NORMS[name]
    found = results(lambda *each: ours(*each, eps=EPS), inputs, grads)
    grads64 = [each.double() for each in grads]
    exact = results(reference, [each.double() for each in inputs], grads64)
    x = inputs[0]
    eps = torch.finfo(snippet.wide(x.dtype)).eps
    total = sum(each.double() for each in inputs[:full])
    if x.numel():
        if full == 2:  # it is rounded before it is normalized
            eps = max(eps, torch.finfo(x.dtype).eps)
        spread = total - total.mean(-1, keepdim=True) if "layer" in name else total
        scale = (spread.square().mean(-1, keepdim=True) + EPS).rsqrt()
        worse = 1 + total.abs().amax(-1, keepdim=True) * scale
        x_hat, weight = spread.abs() * scale, inputs[full].double().abs() + 1
        g = grads64[0].abs() * weight
        back = scale * (g + (1 + x_hat) * (g * (1 + x_hat)).mean(-1, keepdim=True)) * worse
        rows = tuple(range(x.ndim - 1))
        per_column = (grads64[0].abs() * (1 + x_hat) * worse).sum(rows)
        sizes = [(1 + x_hat) * weight * worse, total.abs()][: len(found[0])], [back] * full + [per_column] * 2
    else:
        sizes = [[each.abs() for each in kind] for kind in exact]
    for kind in (0, 1):
        for i, (actual, expected) in enumerate(zip(found[kind], exact[kind], strict=True)):
            assert actual.is_contiguous() and actual.shape == expected.shape
            assert actual.dtype == (inputs[i] if kind else x).dtype
            stored = torch.finfo(actual.dtype)
            allowed = steps * eps * sizes[kind][i] + stored.eps * expected.abs() + stored.tiny
            wrong = ((actual.double() - expected).abs() <= allowed).logical_not()  # a NaN is wrong, too
            assert not wrong.any(), f"{name} {kind} {i}: {actual[wrong][:3]}, should be {expected[wrong][:3]}"


@pytest.mark.parametrize("kind", ["rms_norm", "add_rms_norm", "layer_norm"])
@example((5, 40), ["turned", "gaps", "stride 0", "every other"], 0, False, None)
@example((9, 16), ["wide gaps", "turned", "wide gaps", "turned"], 0, True, None)
@example((5, 16), ["contiguous", "one more", "contiguous", "one more"], 0, False, None)  # no longer a multiple of 8
@example((5, 16), ["one more", "contiguous", "contiguous", "contiguous"], 0, False, None)
@example((3, 2, 24), ["gaps", "gaps", "turned", "contiguous"], 0, False, None)
@given(
    shape=st.tuples(st.integers(0, 9), st.integers(0, 130))
    | st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 40))
    | st.tuples(st.integers(0, 20)),
    layouts=st.lists(st.sampled_from(list(LAYOUTS)), min_size=4, max_size=4),
    seed=st.integers(0, 999),
    op=st.booleans(),
    data=st.data(),
)
def test_as_torch_computes_it_in_float64(device, kind, shape, layouts, seed, op, data):
    draw = (lambda of: of[0]) if data is None else (lambda of: data.draw(st.sampled_from(of)))
    name = draw([name for name in NORMS if name.startswith(kind)])
    dtype = draw([torch.float32, *served(device)])
    inputs = tensors(name, shape, dtype, device, seed, draw([dtype, torch.float32]))
    grads = [numbers(shape, dtype, device, seed + 10 + i) for i in range(2)]
    full = NORMS[name][2]
    inputs[:full] = [LAYOUTS[layout](each) for each, layout in zip(inputs[:full], layouts, strict=False)]
    grads = [LAYOUTS[layout](each) for each, layout in zip(grads, layouts[2:], strict=True)]
    with by_op(op), nan_in_lanes_that_are_off() if device == "cpu" else contextlib.nullcontext():
        check(name, inputs, grads)


@norms
@pytest.mark.parametrize("columns", [1, 127, 128, 129])
def test_every_width_around_a_block(device, name, columns):
    inputs = tensors(name, (3, columns), torch.float32, device)
    check(name, inputs, [numbers((3, columns), torch.float32, device, 10 + i) for i in range(2)])


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
def test_more_rows_than_programs(device, name):
    rows = snippet.programs_for(8) + 3
    inputs = tensors(name, (rows, 3), torch.float32, device)
    check(name, inputs, [numbers((rows, 3), torch.float32, device, 10 + i) for i in range(2)])


@pytest.mark.parametrize("name", ["layer_norm"])
def test_the_longest_row(device, name):
    shape = (1, snippet.MOST_COLUMNS)
    check(name, tensors(name, shape, torch.float32, device), [numbers(shape, torch.float32, device, 9)] * 2)
    with pytest.raises(ValueError, match=f"{shape[1] + 1} columns, at most {shape[1]} are served"):
        wider = tensors(name, (1, shape[1] + 1), torch.float32, device)
        NORMS[name][0](*wider, eps=EPS)


def test_a_row_far_from_zero(device):
    """The variance of 2, 4, 5, 6, 8 is 4, wherever they lie."""
    x = torch.tensor([[2.0, 4.0, 5.0, 6.0, 8.0]], device=device) + 2**20
    out = layer_norm(x, torch.ones_like(x[0]), eps=0.0)
    assert torch.allclose(out, torch.tensor([[-1.5, -0.5, 0.0, 0.5, 1.5]], device=device), atol=1e-5)


def test_zeros_and_a_nan_stay_in_their_row(device):
    x = torch.ones(3, 5, device=device)
    x[0], x[1, 2] = 0, float("nan")
    for function, row in ((rms_norm, 1.0), (layer_norm, 0.0)):
        out = function(x, torch.ones_like(x[0]))
        assert not out[0].any() and out[1].isnan().all() and torch.allclose(out[2], torch.full_like(out[2], row))


# The cast order, and the sum


@pytest.mark.parametrize("columns", [5, 300])
def test_bit_for_bit_as_llama_and_gemma(device, columns):
    x = numbers((40, columns), torch.float16, device, scale=3.0)
    weight = numbers((columns,), torch.float16, device, 1, 0.3)
    pairs = [
        (rms_norm(x, weight, round_first=True), snippet.as_llama(x, weight)),
        (rms_norm(x, weight, offset=1.0), snippet.as_gemma(x, weight)),
    ]
    for ours, theirs in pairs:  # but for a sum in another order, which may tip a rounding
        assert (ours != theirs).float().mean() < 0.01
        assert torch.allclose(ours, theirs, rtol=2e-3, atol=0)
    assert (rms_norm(x, weight, round_first=True) != rms_norm(x, weight)).float().mean() > 0.1


def test_the_row_is_rounded_to_its_own_dtype_whatever_the_weights_is(device):
    """Llama's order with a weight in float32: our result is in the dtype of x all the same."""
    x, weight = numbers((40, 300), torch.float16, device, scale=3.0), numbers((300,), torch.float32, device, 1)
    ours, theirs = rms_norm(x, weight, round_first=True), snippet.as_llama(x, weight).to(x.dtype)
    assert (ours != theirs).float().mean() < 0.01 and torch.allclose(ours, theirs, rtol=2e-3, atol=0)
    assert (ours != rms_norm(x, weight)).float().mean() > 0.1


def test_the_gradients_of_llama(device):
    """That of the weight is of the rounded row, bit for bit: a row of its own for each."""
    x, weight = numbers((1, 300), torch.float16, device, scale=3.0), numbers((300,), torch.float32, device)
    grad = torch.ones_like(x)
    _, (_, ours) = results(lambda x, w: rms_norm(x, w, round_first=True), [x, weight], [grad])
    rounded = rms_norm(x, torch.ones_like(weight))
    check_same_bits(ours, rounded[0].float())
    _, (_, last) = results(rms_norm, [x, weight], [grad])
    assert (last != ours).float().mean() > 0.5


@pytest.mark.parametrize("options", [{}, {"offset": 1.0}, {"round_first": True}], ids=str)
def test_with_a_sum_it_is_as_two_operations(device, options):
    for dtype in served(device):
        x, residual = (numbers((7, 300), dtype, device, i, 3.0) for i in range(2))
        weight = numbers((300,), dtype, device, 2)
        grads = [numbers((7, 300), dtype, device, 5 + i) for i in range(2)]
        (out, total), (grad_x, grad_residual, grad_weight) = results(
            lambda x, r, w: add_rms_norm(x, r, w, **options), [x, residual, weight], grads
        )
        check_same_bits(total, x + residual)
        check_same_bits(out, rms_norm(total, weight, **options))
        _, (grad_total, wanted) = results(lambda x, w: rms_norm(x, w, **options), [total, weight], grads)
        check_same_bits(grad_weight, wanted)
        check_same_bits(grad_x, grad_residual)
        assert torch.allclose(grad_x, grad_total + grads[1], rtol=4 * torch.finfo(dtype).eps, atol=1e-2)


def test_the_sum_alone_is_used(device):
    x, residual, weight = (numbers(s, torch.float32, device).requires_grad_() for s in ((3, 5), (3, 5), (5,)))
    add_rms_norm(x, residual, weight)[1].sum().backward()
    assert torch.equal(x.grad, torch.ones_like(x)) and not weight.grad.any()


def test_by_hand_as_the_kernels(device):
    x, weight, grad = snippet.toy(device)
    steps = snippet.by_hand(*(each.tolist() for each in (x[0], weight, grad[0])))
    [out], [grad_x, _] = results(lambda x, w: rms_norm(x, w, 0.0), [x, weight], [grad])
    found = [out[0, -1], grad_x[0, -1], grad_x[0, -2]]
    assert [round(each.item(), 6) for each in found] == [1.0, 0.02, -0.032]
    assert [round(steps[each], 6) for each in ("out", "grad_x", "grad_x, the fourth")] == [1.0, 0.02, -0.032]


# Nothing else is touched


def guarded(shape, dtype=torch.float32, device="cpu"):
    return Guarded(shape, dtype, device, before=64, after=64, fill=0xFF)


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (2, 8), (3, 16)])
def test_each_element_is_touched_once_and_nothing_else(device, shape):
    x, residual, grad, grad_total, out, total, grad_x = full = [guarded(shape, device=device) for _ in range(7)]
    weight, bias = columns = [guarded(shape[1:], device=device) for _ in range(2)]
    mean, rstd = per_row = [guarded(shape[:1], device=device) for _ in range(2)]
    sums = [guarded((2 if shape[0] > 1 else 1, shape[1]), device=device) for _ in range(2)]
    final = [guarded(shape[1:], device=device) for _ in range(2)]
    given = [each.tensor for each in (x, residual, grad, grad_total, weight, bias)]
    seen = lambda: recorded_accesses() if device == "cpu" else contextlib.nullcontext()

    def run(function, arguments, outs, **loaded):
        for seed, tensor in enumerate(given):
            tensor.copy_(numbers(tensor.shape, tensor.dtype, device, seed))
        with handed_out("empty", *[each.tensor for each in outs.values()]), seen() as accesses:
            function(*[each.tensor if isinstance(each, Guarded) else each for each in arguments])
        for buffer in [*full, *columns, *per_row, *sums, *final]:
            buffer.check("a tensor")
        assert not any(each.tensor.isnan().any() for each in outs.values())
        if device == "cpu":
            check_each_once(accesses, "store", **{name: each.tensor for name, each in outs.items()})
            of_weights = [t.data_ptr() + 4 * i for t in given[4:] for i in range(shape[1])]
            once = [(op, [a for a in found.tolist() if a not in of_weights]) for op, found in accesses]
            once = [(op, torch.tensor(found, dtype=torch.int64).numpy()) for op, found in once]
            check_each_once(once, "load", **{name: each.tensor for name, each in loaded.items()})

    run(snippet.rms_norm_forward, (x, weight, EPS, 0.0, False), {"out": out, "rstd": rstd}, x=x)
    run(
        snippet.add_rms_norm_forward,
        (x, residual, weight, EPS, 0.0, False),
        {"out": out, "total": total, "rstd": rstd},
        x=x,
        residual=residual,
    )
    run(snippet.layer_norm_forward, (x, weight, bias, EPS), {"out": out, "mean": mean, "rstd": rstd}, x=x)
    run(
        snippet.rms_norm_backward_rows,
        (grad, grad_total, x, weight, rstd, 0.0, False, 2),
        {"grad_x": grad_x, "sums": sums[0]},
        grad=grad,
        grad_total=grad_total,
        x=x,
        rstd=rstd,
    )
    run(snippet.sum_partials, (sums[0], torch.float32), {"sum": final[0]}, sums=sums[0])
    made = {"grad_x": grad_x, "sums": sums[0], "bias": sums[1], "final": final[0], "final bias": final[1]}
    run(
        snippet.layer_norm_backward,
        (grad, x, weight, mean, rstd, True, 2),
        made,
        grad=grad,
        x=x,
        mean=mean,
        rstd=rstd,
        sums=sums[0],
        bias=sums[1],
    )


@pytest.mark.parametrize("partials, columns", [(0, 3), (1, 1), (63, 31), (64, 32), (65, 33), (200, 5), (3, 0)])
def test_the_second_pass_sums_all(device, partials, columns):
    partial = numbers((partials, columns), torch.float64, device)
    assert torch.allclose(snippet.sum_partials(partial, torch.float64), partial.sum(dim=0))


@pytest.mark.parametrize("programs", [1, 2, 7, 300])
def test_any_number_of_programs(device, programs):
    x, weight, grad = snippet.toy(device)
    _, rrms = snippet.rms_norm_forward(x, weight, 0.0, 0.0, False)
    grad_x, partial = snippet.rms_norm_backward_rows(grad, None, x, weight, rrms, 0.0, False, programs=programs)
    assert len(partial) == min(programs, 3)
    assert torch.allclose(partial.sum(dim=0), torch.tensor([1.0, 0, 0, 0, 4.0], device=device))
    assert round(grad_x[1, 4].item(), 6) == 0.002


def test_the_same_bits_each_time(device):
    x, grad = (numbers((1000 if device == "cuda" else 20, 70), torch.float32, device, i) for i in range(2))
    weight = numbers((70,), torch.float32, device)
    runs = [results(layer_norm, [x, weight, weight], [grad])[1] for _ in range(3 if device == "cuda" else 2)]
    for other in runs[1:]:
        for a, b in zip(runs[0], other, strict=True):
            check_same_bits(a, b)


BIG = 2**28  # as a stride, in units of 8


@pytest.mark.parametrize("last", ["row", "stride"])
@pytest.mark.parametrize(
    "kernel, pointers, strides, more",
    [
        (snippet.rms_norm_kernel, "x weight out rrms", 1, {"EPS": EPS, "OFFSET": 0.0, "ROUND_FIRST": False}),
        (
            snippet.add_rms_norm_kernel,
            "x residual weight out total rrms",
            2,
            {"EPS": EPS, "OFFSET": 0.0, "ROUND_FIRST": False},
        ),
        (snippet.layer_norm_kernel, "x weight bias out mean rstd", 1, {"EPS": EPS}),
        (
            snippet.rms_norm_backward_kernel,
            "grad grad_total x weight rrms grad_x partial",
            3,
            {"OFFSET": 0.0, "ROUND_FIRST": False, "STAGES": 3},
        ),
        (snippet.layer_norm_backward_kernel, "grad x weight mean rstd grad_x partial partial_bias", 2, {"STAGES": 3}),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_offsets_are_computed_in_64_bits(kernel, pointers, strides, more, last):
    """The program past 2**31, told of more elements than there are; or row 1 of rows that lie so far apart."""
    row, stride = (2**31 // 8 + 1, 1) if last == "row" else (1, BIG)
    names = pointers.split()
    given = [torch.zeros(1) for _ in names]
    rows = [row + 1] if "backward" in kernel.__name__ else []
    with recorded_accesses(first_program=(row, 0, 0), memory=False) as seen:
        kernel[(1,)](*given, *rows, 1, *[stride] * strides, COMPUTE=snippet.tl.float32, BLOCK_SIZE=8, UNIT=8, **more)
    begins = {name: row * 8 for name in names} | dict.fromkeys(("weight", "bias"), 0)
    begins |= dict.fromkeys(("rrms", "mean", "rstd"), row)
    begins |= {name: row * 8 * stride for name in ("x", "residual", "grad", "grad_total")}
    found = {}
    for _, addresses in seen:
        for name, tensor in zip(names, given, strict=True):
            offset = (int(addresses[0]) - tensor.data_ptr()) // 4
            if offset == begins[name]:
                found[name] = offset
    assert found == {name: begins[name] for name in names}


# As PyTorch calls it


@norms
@pytest.mark.parametrize("op", [False, True], ids=["function", "op"])
def test_gradcheck(device, name, op):
    ours = NORMS[name][0]
    inputs = [each.requires_grad_() for each in tensors(name, (2, 3), torch.float64, device)]
    with by_op(op):
        assert torch.autograd.gradcheck(lambda *each: ours(*each, eps=EPS), inputs)


@norms
def test_an_incoming_gradient_of_stride_0(device, name):
    """What .sum() passes back: one number, expanded."""
    ours, reference, *_ = NORMS[name]
    first = lambda out: out[0] if isinstance(out, tuple) else out
    inputs = tensors(name, (3, 2, 7), torch.float64, device)
    found = results(lambda *each: first(ours(*each, eps=EPS)).transpose(0, 2).sum(), inputs, [None])
    wanted = results(lambda *each: first(reference(*each)).sum(), inputs, [None])
    assert all(torch.allclose(a, b) for a, b in zip(found[1], wanted[1], strict=True))


@pytest.mark.parametrize("which", range(3))
def test_a_gradient_for_one_of_them(device, which):
    inputs = tensors("layer_norm", (3, 5), torch.float64, device)
    leaves = [each.detach().requires_grad_(i == which) for i, each in enumerate(inputs)]
    (found,) = torch.autograd.grad(layer_norm(*leaves).square().sum(), leaves[which])
    wanted = torch.autograd.grad(F.layer_norm(leaves[0], (5,), *leaves[1:]).square().sum(), leaves[which])[0]
    assert torch.allclose(found, wanted)
    assert not layer_norm(*inputs).requires_grad


@norms
def test_under_torch_compile(device, name):
    torch.compiler.reset()
    ours, reference, *_ = NORMS[name]
    turned = lambda f: lambda x, *more: f(2 * x.transpose(0, 1), *more)
    compiled = torch.compile(
        turned(lambda *each: ours(*each, eps=EPS)),
        fullgraph=True,
        backend="inductor" if device == "cuda" else "aot_eager",
    )
    for shape in ((4, 3, 7), (5, 2, 9)):  # the second may be compiled for any shape
        x, *more = tensors(name, shape, torch.float64, device)
        inputs = [x.transpose(0, 1).contiguous(), *more]
        grads = [numbers(shape, torch.float64, device, 10 + i).transpose(0, 1).contiguous() for i in range(2)]
        grads = [each.transpose(0, 1) for each in grads]
        found, wanted = (results(f, inputs, grads) for f in (compiled, turned(reference)))
        for a, b in zip(found[0] + found[1], wanted[0] + wanted[1], strict=True):
            assert torch.allclose(a, b)


@pytest.mark.parametrize("layout", ["contiguous", "turned"])
def test_the_ops_keep_what_they_promise_the_compiler(device, layout):
    lay = LAYOUTS[layout]
    x, residual, grad = (lay(numbers((3, 4), torch.float32, device, i)).detach() for i in range(3))
    weight, bias, row = (numbers((n,), torch.float32, device, 5) for n in (4, 4, 3))
    leaves = lambda *each: [t.detach().requires_grad_() for t in each]
    opcheck = torch.library.opcheck
    opcheck(snippet.rms_norm_op, (*leaves(x, weight), EPS, 1.0, True))
    opcheck(snippet.add_rms_norm_op, (*leaves(x, residual, weight), EPS, 0.0, False))
    opcheck(snippet.layer_norm_op, (*leaves(x, weight, bias), EPS))
    opcheck(snippet.layer_norm_op, (*leaves(x, weight), None, EPS))
    opcheck(snippet.rms_norm_backward_op, (grad, None, x, weight, row, 0.0, False))
    opcheck(snippet.rms_norm_backward_op, (grad, residual, x, weight, row, 0.0, True))
    for has_bias in (False, True):
        opcheck(snippet.layer_norm_backward_op, (grad, x, weight, row, row, has_bias))


def saved_by(function, *inputs):
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        out = function(*inputs)
    return saved, out


def test_saves_its_input_and_a_number_or_two_for_each_row():
    x, residual = (numbers((6, 10), torch.float32, "cpu", i).requires_grad_() for i in range(2))
    weight = torch.ones(10, requires_grad=True)
    pointers = lambda saved: [t.data_ptr() for t in saved]
    saved, _ = saved_by(rms_norm, x, weight)
    assert pointers(saved[:2]) == pointers([x, weight]) and [tuple(t.shape) for t in saved[2:]] == [(6,)]
    saved, (_, total) = saved_by(add_rms_norm, x, residual, weight)
    assert pointers(saved[:2]) == pointers([total, weight]) and [tuple(t.shape) for t in saved[2:]] == [(6,)]
    saved, _ = saved_by(layer_norm, x, weight)
    assert pointers(saved[:2]) == pointers([x, weight]) and [tuple(t.shape) for t in saved[2:]] == [(6,), (6,)]


# What the page counts by hand


class Counted(TorchDispatchMode):
    """The kernels that torch runs, and how many tensors of ``n`` elements they read and write."""

    def __init__(self, n):
        super().__init__()
        self.n, self.kernels, self.read, self.written = n, 0, 0, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ not in ("detach", "alias", "expand", "view"):
            inputs = [arg for arg in args if isinstance(arg, torch.Tensor)]
            self.kernels += 1
            self.read += sum(arg.untyped_storage().nbytes() // arg.itemsize == self.n for arg in inputs)
            self.written += out.numel() == self.n
        return out


def test_the_kernels_and_elements_of_torch_that_the_page_counts():
    x, residual, *grads = (numbers((8, 16), torch.float16, "cpu", i) for i in range(4))
    weight = torch.ones(16, dtype=torch.float16, requires_grad=True)
    x, residual = x.requires_grad_(), residual.requires_grad_()
    with Counted(128) as forward:
        total = x + residual
        out = snippet.as_llama(total, weight)
    with Counted(128) as backward:
        torch.autograd.grad((out, total), (x, residual, weight), grads)
    assert (forward.kernels, forward.read, forward.written) == (9, 8, 6)
    assert (backward.kernels, backward.read, backward.written) == (17, 18, 12)


# What is refused


def ones(*shape, device, **kwargs):
    return torch.ones(*shape, device=device, **kwargs)


def test_refuses_too_many_rows():
    with pytest.raises(ValueError, match="2147483648 rows are too many for one launch"):
        snippet.check_arguments(x=without_memory(2**31, 1), weight=without_memory(1))
    with pytest.raises(ValueError, match="x is on cpu"), as_if_compiled(snippet, "rms_norm_kernel"):
        snippet.check_arguments(x=without_memory(2**31 - 1, 1), weight=without_memory(1))


@pytest.mark.parametrize("backward", ["rms_norm", "layer_norm"])
def test_a_gradient_of_another_shape_is_refused(device, backward):
    x, weight, row = ones(2, 3, device=device), ones(3, device=device), ones(2, device=device)
    more = (x, weight, row, 0.0, False) if backward == "rms_norm" else (x, weight, row, row, True)
    for wrong in (ones(3, 2, device=device), ones(2, 3, device=device).half()):
        with pytest.raises(ValueError, match="x and grad must have the same shape and dtype"):
            if backward == "rms_norm":
                snippet.rms_norm_backward(wrong, None, *more)
            else:
                snippet.layer_norm_backward(wrong, *more)
    with pytest.raises(ValueError, match="x and grad_total must have the same shape"):
        snippet.rms_norm_backward(x, x[:1], x, weight, row, 0.0, False)


# The file as a script, and compiled


CODE = """
for shape, dtype in CASES:
    x, row = torch.empty(shape, dtype=getattr(torch, dtype)), torch.empty(shape[0])
    if shape[1] != module.MOST_COLUMNS:  # a backward takes more registers
        module.rms_norm_forward(x, x[0], 1e-6, 0.0, False)
        module.add_rms_norm_forward(x, x, x[0], 1e-6, 0.0, True)
        module.layer_norm_forward(x, x[0], x[0], 1e-6)
    module.rms_norm_backward_rows(x, x, x, x[0], row, 1.0, True)
    with mock.patch.object(module, "sum_partials"):
        module.layer_norm_backward(x, x, x[0], row, row, True)
"""


KERNELS = ["rms_norm", "add_rms_norm", "layer_norm", "rms_norm_backward", "layer_norm_backward"]


def test_compiles_to_wide_loads_and_spills_nothing():
    """For an H200, without one: 16 bytes a load, also where 8 divides a row's 3000 columns and 16 does not; the widest
    row fits into registers, save for the backward of layer norm, which spills a few at 2**14."""
    cases = [((1000, 3000), "bfloat16"), ((64, snippet.MOST_COLUMNS), "float32"), ((1, 1), "float64")]
    launches = compiled("fusion/norms", CODE.replace("CASES", repr(cases)))
    kernels = [f"{name}_kernel" for name in KERNELS]
    assert [launch.kernel for launch in launches] == [*kernels, *kernels[3:], *kernels]
    for number, launch in enumerate(launches[:7]):  # Triton makes a constant of an argument that is 1
        assert (launch.widest("LDG"), launch.widest("STG"), launch.spills > 0) == (128, 128, number == 6)


def test_what_a_backward_is_compiled_for():
    """Warps and stages by the width of a row; stages only as far as rows fit into an H200's shared memory."""
    found = {}
    for columns, dtype in ((1024, "bfloat16"), (4096, "bfloat16"), (16384, "bfloat16"), (16384, "float32")):
        row = torch.empty((1, columns), dtype=getattr(torch, dtype))
        both = [snippet.backward_settings(row, row, loads=[row] * 3, sums=sums) for sums in (1, 2)]
        found[columns, dtype] = [(each["num_warps"], each["STAGES"]) for each in both]
    assert found == {
        (1024, "bfloat16"): [(2, 3), (2, 3)],
        (4096, "bfloat16"): [(8, 3), (8, 3)],
        (16384, "bfloat16"): [(32, 3), (16, 1)],
        (16384, "float32"): [(32, 2), (16, 1)],
    }
    a_small_gpu = SimpleNamespace(shared_memory_per_block_optin=2**16)
    snippet.shared_memory.cache_clear()
    with mock.patch.object(torch.cuda, "get_device_properties", return_value=a_small_gpu) as asked:
        assert [snippet.shared_memory(torch.device("cuda", 1)) for _ in range(2)] == [2**16] * 2
        asked.assert_called_once_with(torch.device("cuda", 1))
    snippet.shared_memory.cache_clear()


@pytest.mark.parametrize("capability, kib", [(80, 163), (89, 99), (90, 227), (100, 227)])
def test_a_wide_weight_leaves_room_in_shared_memory(capability, kib):
    """On each GPU that the site names: an A100, an L40S, an H200 and a B200, without one."""
    code = f"""
module.sum_partials, module.shared_memory = mock.Mock(), lambda device: {kib} * 1024
for columns in (4096, 6000, 12000):
    for dtype in (torch.bfloat16, torch.float32):
        x = torch.empty(900, columns, dtype=dtype)
        weight, row = torch.empty(columns), torch.empty(900)
        module.rms_norm_backward_rows(x, None, x, weight, row, 0.0, False)
        module.rms_norm_backward_rows(x, x, x, weight, row, 0.0, False)
        module.layer_norm_backward(x, x, weight, row, row, True)
"""
    shared = [launch.shared for launch in compiled("fusion/norms", code, capability)]
    assert len(shared) == 3 * 2 * 3 and max(shared) <= kib * 1024


def test_programs_that_share_the_rows():
    found = {columns: snippet.programs_for(columns) for columns in (0, 1, 3000, 4096, 4097, 16384)}
    assert found == {0: 512, 1: 512, 3000: 256, 4096: 256, 4097: 128, 16384: 128}


# On a GPU alone


@pytest.mark.gpu
@pytest.mark.parametrize("columns", [12000, snippet.MOST_COLUMNS])
@pytest.mark.parametrize("dtype", snippet.DTYPES)
def test_a_weight_in_float32_whatever_the_dtype_of_the_rows(columns, dtype):
    """Forward and backward, also with the gradient of the sum, which is one row more in shared memory."""
    rows = numbers((300, columns), dtype, "cuda").requires_grad_()
    weight = torch.ones(columns, device="cuda", requires_grad=True)
    for out in (rms_norm(rows, weight), sum(add_rms_norm(rows, rows, weight)), layer_norm(rows, weight, weight)):
        grads = torch.autograd.grad(out.sum(), [rows, weight])
        assert all(each.isfinite().all() for each in grads)


@pytest.mark.gpu
@norms
@pytest.mark.parametrize("dtype", snippet.DTYPES)
@pytest.mark.parametrize("shape", [(8192, 1024), (4099, 768), (1000, 3000), (517, 8192), (300, 16384)], ids=str)
def test_real_sizes(name, shape, dtype):
    inputs = tensors(name, shape, dtype, "cuda")
    check(name, inputs, [numbers(shape, dtype, "cuda", 10 + i) for i in range(2)], steps=256)


@pytest.mark.gpu
def test_more_than_2_to_the_31_elements():
    if torch.cuda.mem_get_info()[0] < 40e9:
        pytest.skip("needs 40 GB of free GPU memory")
    columns = 8192
    x = torch.zeros(2**31 // columns + 3, columns, dtype=torch.float16, device="cuda")
    weight = torch.ones(columns, dtype=torch.float16, device="cuda")
    x[-1] = numbers((columns,), torch.float16, "cuda")
    wanted = results(rms_norm, [x[-1:], weight], [x[-1:]])
    out, rrms = snippet.rms_norm_forward(x, weight, 1e-6, 0.0, False)
    check_same_bits(out[-1:], wanted[0][0])
    assert not out[:-1].any()
    del out
    grad_x, grad_weight = snippet.rms_norm_backward(x, None, x, weight, rrms, 0.0, False)
    check_same_bits(grad_x[-1:], wanted[1][0])
    assert not grad_x[:-1].any()
    check_same_bits(grad_weight, wanted[1][1])


@pytest.mark.gpu
@norms
@pytest.mark.parametrize("dtype", snippet.DTYPES)
def test_in_a_cuda_graph(name, dtype):
    inputs = [each.requires_grad_() for each in tensors(name, (300, 1000), dtype, "cuda")]

    def run():
        outs = NORMS[name][0](*inputs, eps=EPS)
        outs = outs if isinstance(outs, tuple) else (outs,)
        return [*outs, *torch.autograd.grad(outs, inputs, [torch.ones_like(each) for each in outs])]

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        expected = run()
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = run()
    graph.replay()
    for a, b in zip(captured, expected, strict=True):
        check_same_bits(a, b)


@pytest.mark.gpu
@norms
@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune"])
def test_compiled_with_modes(name, mode):
    torch.compiler.reset()
    ours = NORMS[name][0]
    function = torch.compile(lambda *each: ours(*each, eps=EPS), mode=mode, fullgraph=True)
    inputs = tensors(name, (64, 781), torch.float32, "cuda")
    grads = [numbers((64, 781), torch.float32, "cuda", 10 + i) for i in range(2)]
    wanted = results(lambda *each: ours(*each, eps=EPS), inputs, grads)
    for _ in range(3):
        found = results(function, inputs, grads)
        for a, b in zip(found[0] + found[1], wanted[0] + wanted[1], strict=True):
            assert torch.allclose(a, b, rtol=1e-5, atol=1e-5)
