# SPDX-License-Identifier: Apache-2.0
"""RMS norm: results and gradients of torch in float64, whatever shape, dtype and strides, those of the incoming
gradients, too; nothing else is touched."""

import contextlib
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

from snippets.fusion import norms as snippet
from snippets.fusion.norms import rms_norm
from snippets.fusion.norms_steps import in_torch

EPS = 1e-5

LAYOUTS = {  # of a tensor of this shape
    "contiguous": lambda t: t.clone(),
    "gaps": lambda t: torch.cat([t, t], dim=-1).clone()[..., : t.shape[-1]],
    "one more": lambda t: torch.cat([t, t[..., :1]], dim=-1)[..., : t.shape[-1]],
    "turned": lambda t: t.transpose(0, -1).contiguous().transpose(0, -1),
    "flipped sign": lambda t: torch._neg_view(-t),
    "every other": lambda t: torch.stack([t, t], dim=-1).clone()[..., 0],
    "stride 0": lambda t: t[:1].clone().expand(t.shape) if len(t) else t,
}


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


def served(device):
    return [dtype for dtype in snippet.DTYPES if device == "cuda" or dtype != torch.bfloat16]


def numbers(shape, dtype, device, seed=0, scale=1.0, shift=0.0):
    random = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=random, dtype=torch.float64) * scale + shift).to(device, dtype)


def tensors(shape, dtype, device, seed=0, weight_dtype=None):
    """What the norm is called with, and a gradient that comes back."""
    weight = numbers(shape[-1:], weight_dtype or dtype, device, seed + 5, 0.5, 1.0)
    return numbers(shape, dtype, device, seed, 3.0), weight, numbers(shape, dtype, device, seed + 10)


def results(function, x, weight, grad):
    """The result and both gradients, of leaves that lie in memory as the arguments do."""
    leaves = [each.detach().requires_grad_() for each in (x, weight)]
    out = function(*leaves)
    return [out.detach(), *torch.autograd.grad(out, leaves, grad)]


def check(x, weight, grad, steps=64):
    """Compare with torch in float64. What is summed is off by a few eps of the sum of sizes."""
    found = results(lambda *each: rms_norm(*each, EPS), x, weight, grad)
    exact = results(lambda *each: in_torch(*each, EPS), x.double(), weight.double(), grad.double())
    sizes = [each.abs() for each in exact]
    if x.numel():
        eps = torch.finfo(snippet.wide(x.dtype)).eps
        scale = (x.double().square().mean(-1, keepdim=True) + EPS).rsqrt()
        x_hat, g = x.double().abs() * scale, grad.double().abs() * weight.double().abs()
        back = scale * (g + x_hat * (g * x_hat).mean(-1, keepdim=True))
        sizes = [x_hat * weight.double().abs(), back, (grad.double().abs() * x_hat).sum(tuple(range(x.ndim - 1)))]
        sizes = [steps * eps * each for each in sizes]
    for actual, expected, allowed, like in zip(found, exact, sizes, (x, x, weight), strict=True):
        assert actual.is_contiguous() and actual.shape == expected.shape and actual.dtype == like.dtype
        stored = torch.finfo(actual.dtype)
        allowed = allowed + stored.eps * expected.abs() + stored.tiny
        wrong = ((actual.double() - expected).abs() <= allowed).logical_not()  # a NaN is wrong, too
        assert not wrong.any(), f"{actual[wrong][:3]}, should be {expected[wrong][:3]}"


@example((5, 40), ["turned", "gaps"], 0, None)
@example((5, 16), ["contiguous", "one more"], 0, None)
@example((5, 16), ["one more", "stride 0"], 0, None)
@given(
    shape=st.tuples(st.integers(0, 9), st.integers(0, 130))
    | st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 40))
    | st.tuples(st.integers(0, 20)),
    layouts=st.lists(st.sampled_from(list(LAYOUTS)), min_size=2, max_size=2),
    seed=st.integers(0, 999),
    data=st.data(),
)
def test_as_torch_computes_it_in_float64(device, shape, layouts, seed, data):
    draw = (lambda of: of[0]) if data is None else (lambda of: data.draw(st.sampled_from(of)))
    dtype = draw([torch.float32, *served(device)])
    x, weight, grad = tensors(shape, dtype, device, seed, draw([dtype, torch.float32]))
    x, grad = (LAYOUTS[layout](each) for layout, each in zip(layouts, (x, grad), strict=True))
    with nan_in_lanes_that_are_off() if device == "cpu" else contextlib.nullcontext():
        check(x, weight, grad)


@pytest.mark.parametrize("columns", [1, 127, 128, 129])
def test_every_width_around_a_block(device, columns):
    check(*tensors((3, columns), torch.float32, device))


def test_more_rows_than_programs(device):
    check(*tensors((snippet.programs_for(8) + 3, 3), torch.float32, device))


def test_the_longest_row(device):
    check(*tensors((1, snippet.MOST_COLUMNS), torch.float32, device))
    with pytest.raises(ValueError, match=f"{snippet.MOST_COLUMNS + 1} columns, at most {snippet.MOST_COLUMNS} are"):
        rms_norm(*tensors((1, snippet.MOST_COLUMNS + 1), torch.float32, device)[:2])


def test_zeros_and_a_nan_stay_in_their_row(device):
    x = torch.ones(3, 5, device=device)
    x[0], x[1, 2] = 0, float("nan")
    out = rms_norm(x, torch.ones_like(x[0]))
    assert not out[0].any() and out[1].isnan().all() and torch.allclose(out[2], torch.ones_like(out[2]))


def test_squares_beyond_float16(device):
    """300² is more than float16 can hold."""
    x = torch.full((2, 5), 300.0, dtype=torch.float16, device=device)
    assert torch.equal(rms_norm(x, torch.ones_like(x[0])), torch.ones_like(x))


# Nothing else is touched


def guarded(shape, dtype=torch.float32, device="cpu"):
    return Guarded(shape, dtype, device, before=64, after=64, fill=0xFF)


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (2, 8), (3, 16)])
def test_each_element_is_touched_once_and_nothing_else(device, shape):
    programs = min(shape[0], 2)
    shapes = {"x": shape, "grad": shape, "weight": shape[1:], "out": shape, "rrms": shape[:1], "grad_x": shape}
    shapes |= {"partial": (programs, shape[1]), "total": shape[1:]}
    buffers = {name: guarded(of, device=device) for name, of in shapes.items()}
    at = {name: each.tensor for name, each in buffers.items()}
    for seed, name in enumerate(("x", "grad", "weight")):
        at[name].copy_(numbers(at[name].shape, torch.float32, device, seed))
    calls = [
        (lambda: snippet.rms_norm_forward(at["x"], at["weight"], EPS), ["x"], ["out", "rrms"]),
        (
            lambda: snippet.rms_norm_backward(at["grad"], at["x"], at["weight"], at["rrms"], 2),
            ["grad", "x", "rrms"],
            ["grad_x", "partial"],
        ),
        (lambda: snippet.sum_partials(at["partial"], torch.float32), ["partial"], ["total"]),
    ]
    for call, loaded, stored in calls:
        seen = recorded_accesses() if device == "cpu" else contextlib.nullcontext()
        with handed_out("empty", *[at[name] for name in stored]), seen as accesses:
            call()
        for name, buffer in buffers.items():
            buffer.check(name)
        assert not any(at[name].isnan().any() for name in stored)
        if device == "cpu":
            check_each_once(accesses, "store", **{name: at[name] for name in stored})
            of_weight = {at["weight"].data_ptr() + 4 * i for i in range(shape[1])}
            others = [(op, [each for each in found.tolist() if each not in of_weight]) for op, found in accesses]
            once = [(op, np.array(found, np.int64)) for op, found in others]
            check_each_once(once, "load", **{name: at[name] for name in loaded})


@pytest.mark.parametrize("partials, columns", [(0, 3), (1, 1), (63, 31), (64, 32), (65, 33), (200, 5), (3, 0)])
def test_the_second_kernel_sums_all(device, partials, columns):
    partial = numbers((partials, columns), torch.float64, device)
    assert torch.allclose(snippet.sum_partials(partial, torch.float64), partial.sum(dim=0))


@pytest.mark.parametrize("programs", [1, 2, 7, 300])
def test_any_number_of_programs(device, programs):
    x, weight, grad = snippet.toy(device)
    _, rrms = snippet.rms_norm_forward(x, weight, 0.0)
    grad_x, partial = snippet.rms_norm_backward(grad, x, weight, rrms, programs)
    assert len(partial) == min(programs, 3)
    assert torch.allclose(partial.sum(dim=0), torch.tensor([1.0, 0, 0, 0, 4.0], device=device))
    assert round(grad_x[1, 4].item(), 6) == 0.002


def test_the_same_bits_each_time(device):
    given = tensors((1000 if device == "cuda" else 20, 70), torch.float32, device)
    first, *others = (results(rms_norm, *given) for _ in range(3 if device == "cuda" else 2))
    for other in others:
        for a, b in zip(first, other, strict=True):
            check_same_bits(a, b)


@pytest.mark.parametrize("last", ["row", "stride"])
@pytest.mark.parametrize(
    "kernel, pointers, strides",
    [
        (snippet.rms_norm_kernel, "x weight out rrms", 1),
        (snippet.rms_norm_backward_kernel, "grad x weight rrms grad_x partial", 2),
    ],
)
def test_offsets_are_computed_in_64_bits(kernel, pointers, strides, last):
    """The program past 2**31, told of more elements than there are; or row 1 of rows that lie so far apart."""
    row, columns, stride = (2**31 // 8 + 1, 8, 8) if last == "row" else (1, 8, 2**31)
    names = pointers.split()
    given = [torch.zeros(1) for _ in names]
    backward = "partial" in names
    options = {"STAGES": 3} if backward else {"EPS": EPS}
    with recorded_accesses(first_program=(row, 0, 0), memory=False) as seen:
        kernel[(1,)](
            *given, *([row + 1] if backward else []), columns, *[stride] * strides,
            COMPUTE=snippet.tl.float32, BLOCK_SIZE=8, **options,
        )  # fmt: skip
    begins = dict.fromkeys(names, row * columns) | {"weight": 0, "rrms": row}
    begins |= {name: row * stride for name in ("x", "grad") if name in names}
    first = [int(addresses[0]) for _, addresses in seen]
    assert all(tensor.data_ptr() + 4 * begins[name] in first for name, tensor in zip(names, given, strict=True))


# As PyTorch calls it


def test_gradcheck_and_no_second_gradient(device):
    x, weight, _ = tensors((2, 3), torch.float64, device)
    leaves = x.requires_grad_(), weight.requires_grad_()
    assert torch.autograd.gradcheck(lambda *each: rms_norm(*each, EPS), leaves)
    with pytest.raises(RuntimeError, match="no gradient of its gradient"):
        torch.autograd.grad(rms_norm(*leaves).sum(), x, create_graph=True)


def test_an_incoming_gradient_of_stride_0(device):
    """What .sum() passes back: one number, expanded."""
    x, weight, _ = tensors((3, 2, 7), torch.float64, device)
    found, wanted = (
        results(lambda *each, norm=norm: norm(*each, EPS).transpose(0, 2).sum(), x, weight, None)
        for norm in (rms_norm, in_torch)
    )
    assert all(map(torch.allclose, found, wanted))


def test_saves_its_arguments_and_a_number_for_each_row():
    x, weight = (numbers(shape, torch.float32, "cpu").requires_grad_() for shape in ((6, 10), (10,)))
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        rms_norm(x, weight)
    assert [t.data_ptr() for t in saved[:2]] == [x.data_ptr(), weight.data_ptr()]
    assert [tuple(t.shape) for t in saved[2:]] == [(6,)]


def test_refuses_too_many_rows():
    with pytest.raises(ValueError, match="2147483648 rows are too many for one launch"):
        snippet.check_arguments(without_memory(2**31, 1), without_memory(1))
    with pytest.raises(ValueError, match="x is on cpu"), as_if_compiled(snippet, "rms_norm_kernel"):
        snippet.check_arguments(without_memory(2**31 - 1, 1), without_memory(1))


# Compiled, and on a GPU


CODE = """
for columns, dtype in ((4096, "bfloat16"), (16384, "bfloat16"), (16384, "float32")):
    x, row = torch.empty(64, columns, dtype=getattr(torch, dtype)), torch.empty(64)
    module.rms_norm_forward(x, x[0], 1e-6)
    module.rms_norm_backward(x, x, x[0], row)
"""


@pytest.mark.parametrize("capability, kib", [(80, 163), (89, 99), (90, 227)])
def test_compiles_to_wide_loads(capability, kib):
    """For an A100, an L40S and an H200, without one: 16 bytes a load, and in shared memory there is room for stages.
    Only the backward of the longest row spills, a few values."""
    launches = compiled("fusion/norms", CODE, capability)
    assert [launch.kernel for launch in launches] == ["rms_norm_kernel", "rms_norm_backward_kernel"] * 3
    for number, launch in enumerate(launches):
        assert launch.widest("LDG", "LDGSTS") == launch.widest("STG") == 128
        assert launch.spills <= (20 if number in (3, 5) else 0)
        assert launch.shared <= kib * 1024


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", snippet.DTYPES)
@pytest.mark.parametrize("shape", [(8192, 1024), (4099, 768), (1000, 3000), (517, 8192), (300, 16384)], ids=str)
def test_real_sizes(shape, dtype):
    for weight_dtype in {dtype, torch.float32}:
        check(*tensors(shape, dtype, "cuda", weight_dtype=weight_dtype), steps=256)


@pytest.mark.gpu
def test_more_than_2_to_the_31_elements():
    if torch.cuda.mem_get_info()[0] < 40e9:
        pytest.skip("needs 40 GB of free GPU memory")
    columns = 8192
    x = torch.zeros(2**31 // columns + 3, columns, dtype=torch.float16, device="cuda")
    weight = torch.ones(columns, dtype=torch.float16, device="cuda")
    x[-1] = numbers((columns,), torch.float16, "cuda")
    wanted = results(rms_norm, x[-1:], weight, x[-1:])
    out, rrms = snippet.rms_norm_forward(x, weight, 1e-6)
    torch.testing.assert_close(out[-1:], wanted[0])  # one row alone is compiled in another way
    assert not out[:-1].any()
    del out
    grad_x, partial = snippet.rms_norm_backward(x, x, weight, rrms)
    torch.testing.assert_close(grad_x[-1:], wanted[1])
    assert not grad_x[:-1].any()
    torch.testing.assert_close(snippet.sum_partials(partial, weight.dtype), wanted[2])
