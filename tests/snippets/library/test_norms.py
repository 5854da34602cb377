# SPDX-License-Identifier: Apache-2.0
"""The norms to copy: results and gradients of torch in float64, with every option and any shape, dtype and strides."""

import functools
import itertools

import pytest
import torch
from covering import covering
from guards import among_nans, made_among_nans, recorded_accesses
from hypothesis import given
from hypothesis import strategies as st
from prepared import keep_launches, refuse_launches

from snippets.library import norms as snippet
from snippets.library.norms import add_layer_norm, add_rms_norm, in_torch, layer_norm, rms_norm

EPS = 1e-5
LAYOUTS = {
    "contiguous": lambda t: t.clone(),
    "gaps": lambda t: torch.cat([t, t], dim=-1)[..., : t.shape[-1]],
    "turned": lambda t: t.transpose(0, -1).contiguous().transpose(0, -1),
    "stride 0": lambda t: t[:1].clone().expand(t.shape),
}


@pytest.fixture
def short(monkeypatch):
    """Make rows of more than 64 columns long ones, so that small tensors take the kernels of long rows."""
    monkeypatch.setattr(snippet, "PLANS", {})
    monkeypatch.setattr(snippet, "HELD", 64)
    monkeypatch.setattr(snippet, "LONG_BLOCK", 32)


def norm_of(x, residual=None, weight=None, bias=None, *, layer=False, **options):
    """Return the result and the sum, by the function that serves these arguments."""
    if layer:
        options |= {"weight": weight, "bias": bias}
        out = add_layer_norm(x, residual, **options) if residual is not None else layer_norm(x, **options)
    else:
        options |= {"weight": weight, "bias": bias}
        out = add_rms_norm(x, residual, **options) if residual is not None else rms_norm(x, **options)
    return out if residual is not None else (out, x)


def check(device, shape, *, layer, has_residual, weight, bias, layout="contiguous", dtype=torch.float64, offset=0.0):
    """Compare result, sum and all gradients with those of torch in float64."""
    tolerance = {torch.float64: 1e-10, torch.float32: 1e-4}.get(dtype, 2e-2)
    random = torch.Generator().manual_seed(0)
    make = lambda *size: among_nans(torch.randn(size, generator=random, dtype=torch.float64).to(device, dtype))
    of_weight = {"row": shape[-1:], "heads": shape[-2:], None: None}
    x = LAYOUTS[layout](make(*shape))
    others = [make(*shape) if has_residual else None, *(make(*of_weight[k]) if k else None for k in (weight, bias))]
    given = [each if each is None else each.requires_grad_() for each in (x, *others)]
    wide = [each if each is None else each.detach().double().requires_grad_() for each in given]
    wanted = in_torch(wide[0], *wide[2:], residual=wide[1], layer=layer, eps=EPS, offset=offset)
    grads = [make(*shape), make(*shape)][: 2 if has_residual else 1]
    with made_among_nans():
        found = norm_of(*given, layer=layer, eps=EPS, offset=offset)
        for outs, leaves in ((found, given), (wanted, wide)):
            leaves = [each for each in leaves if each is not None]
            torch.autograd.backward(outs[: len(grads)], [each.to(outs[0].dtype) for each in grads], inputs=leaves)
    leaves = [pair for pair in zip(given, wide, strict=True) if pair[0] is not None]
    for ours, exact in [*zip(found, wanted, strict=True), *((a.grad, b.grad) for a, b in leaves)]:
        assert ours.shape == exact.shape
        scale = exact.abs().max().clamp(min=1) if exact.numel() else 1
        assert torch.allclose(ours.double() / scale, exact / scale, rtol=0, atol=tolerance)


SCALES = [  # shapes of weight and bias
    (weight, bias)
    for weight, bias in itertools.product((None, "row", "heads"), repeat=2)
    if weight is None or bias is None or weight == bias
]


@covering(3, layer=[False, True], has_residual=[False, True], scales=SCALES, columns=[20, 65])
def test_every_option_gives_torchs_numbers(short, device, layer, has_residual, scales, columns):
    weight, bias = scales
    options = {"layer": layer, "has_residual": has_residual, "weight": weight, "bias": bias}
    check(device, (3, 2, columns), offset=0.5 if weight else 0.0, **options)


@given(
    st.lists(st.integers(0, 5), max_size=2), st.integers(1, 130), st.sampled_from(sorted(LAYOUTS)), st.booleans(),
    st.sampled_from([torch.float16, torch.float32, torch.float64]),
)  # fmt: skip
def test_any_shape_layout_and_dtype(device, leading, columns, layout, layer, dtype):
    options = {"layer": layer, "has_residual": True, "weight": "row", "bias": None}
    check(device, (*leading, columns), layout=layout, dtype=dtype, **options)


def test_many_tokens_share_the_programs_of_a_head(device):
    """More tiles than programs, so that each adds up several, and the last tile is not full."""
    shape = 1100, 16, 3
    check(device, shape, layer=True, has_residual=False, weight="heads", bias="heads")


def test_rows_may_lie_more_than_2_to_the_31_elements_apart():
    """Row 1 of such a tensor, told of memory that isn't there."""
    far = 2**28  # in units of 8
    grad, total, x, residual, out, mean, rstd = (torch.zeros(1) for _ in range(7))
    scale = {"OFFSET": 0.0, "ROUND_OFFSET": False}
    options = {"LAYER": False, "COMPUTE": snippet.tl.float32, "UNIT": 8}
    short, row = {"TOKENS": 1, "BLOCK": 8}, {"BLOCK": 8}
    forward = {"EPS": EPS, "ROUND_FIRST": False} | scale
    given = x, residual, None, None, out, out, None, rstd
    backward = grad, total, x, None, mean, rstd, out, None
    strides, three = (far, far + 1), (far, far + 1, far + 2)
    sums = grad, x, mean, rstd, out, None
    last = {"first_program": (1, 0, 0), "memory": False}
    for kernel, tensors, sizes, extra, read in [
        (snippet.norm_kernel, given, (2, 1, 1, *strides), forward | short, {x: far, residual: far + 1}),
        (snippet.long_norm_kernel, given, (1, 1, *strides), forward | row, {x: far, residual: far + 1}),
        (
            snippet.norm_backward_kernel, (*backward, None, None), (2, 1, 1, *three),
            scale | short | {"ROUND_FIRST": False, "STAGES": 1, "HOLD": True},
            {grad: far, total: far + 1, x: far + 2},
        ),
        (
            snippet.long_norm_backward_kernel, backward, (1, 1, *three), scale | row,
            {grad: far, total: far + 1, x: far + 2},
        ),
    ]:  # fmt: skip
        with recorded_accesses(**last) as seen:
            kernel[(1,)](*tensors, *sizes, **options, **extra)
        first = [int(addresses[0]) for _, addresses in seen]
        for tensor, stride in read.items():
            assert tensor.data_ptr() + 4 * 8 * stride in first, kernel
    with recorded_accesses(first_program=(0, 1, 0), memory=False) as seen:  # the second program begins with row 1
        snippet.long_weight_kernel[(1, 1)](
            *sums, 2, 1, 1, *strides, **options, **row, ROUND_FIRST=False, DTYPE=snippet.tl.float32
        )
    assert {grad.data_ptr() + 32 * far, x.data_ptr() + 32 * (far + 1)} <= {int(where[0]) for _, where in seen}


@pytest.mark.gpu
@pytest.mark.parametrize("columns", [128, 1000, 4096, 8192, 16384, 16385, 70001])
@pytest.mark.parametrize("layer", [False, True])
def test_real_sizes_in_bfloat16(columns, layer):
    check(
        "cuda", (700, columns), layer=layer, has_residual=True, weight="row", bias="row" if layer else None,
        dtype=torch.bfloat16,
    )  # fmt: skip


@pytest.mark.parametrize("function", [add_rms_norm, add_layer_norm])
def test_a_residual_keeps_its_own_dtype(device, function):
    x = torch.randn(4, 50).to(device).half().requires_grad_()
    residual = torch.randn(4, 50).to(device).requires_grad_()
    weight = torch.randn(50).to(device).requires_grad_()
    out, total = function(x, residual, weight)
    assert (out.dtype, total.dtype) == (torch.float16, torch.float32)
    assert torch.equal(total, x.float() + residual)
    (out.float().sum() + total.sum()).backward()
    assert [each.grad.dtype for each in (x, residual, weight)] == [torch.float16, torch.float32, torch.float32]
    assert torch.equal(residual.grad.half(), x.grad)


def test_the_weight_is_rounded_where_it_is_asked(device):
    weight = torch.tensor([4e-4, 6e-4, 0.25], device=device).half()
    x = torch.ones(1, 3, device=device)
    assert torch.equal(rms_norm(x, weight, 0.0, offset=1.0), 1 + weight.float()[None])
    assert torch.equal(rms_norm(x, weight, 0.0, offset=1.0, round_offset=True), (1 + weight).float()[None])
    x = torch.randn(8, 96).to(device).half()
    weight = torch.randn(96).to(device).half()
    wide = x.float()
    x_hat = (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPS)).half()
    differ = rms_norm(x, weight, EPS, round_first=True) != x_hat * weight
    assert differ.float().mean() < 0.01  # rsqrt's last bit may differ


def test_epsilon_of_the_dtype(device):
    x = torch.full((1, 4), 1e-4, device=device, dtype=torch.float32)
    assert torch.allclose(rms_norm(x), torch.nn.functional.rms_norm(x, (4,)))
    assert torch.equal(rms_norm(x, eps=torch.tensor(0.5)), rms_norm(x, eps=0.5))


def test_only_what_is_needed_gets_a_gradient(device):
    x = torch.randn(3, 8).to(device).requires_grad_()
    frozen = torch.ones(8, device=device)
    rms_norm(x, frozen, bias=torch.zeros(8, device=device).requires_grad_()).sum().backward()
    assert frozen.grad is None and x.grad is not None
    _, total = add_rms_norm(x, x.detach(), frozen)
    total.sum().backward()  # the result itself is not used
    assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (2, 0, 4)])
@pytest.mark.parametrize("layer", [False, True])
def test_empty(device, shape, layer):
    x = torch.ones(shape, device=device, requires_grad=True)
    weight = torch.ones(shape[-1], device=device, requires_grad=True)
    out, _ = norm_of(x, None, weight, layer=layer)
    out.sum().backward()
    assert out.shape == x.grad.shape == shape and not weight.grad.any()


def test_functional_gradients_and_what_is_refused_in_words(device):
    x, weight = torch.randn(3, 8).to(device), torch.randn(8).to(device)
    loss = lambda x: rms_norm(x, weight, EPS).square().sum()
    leaf = x.clone().requires_grad_()
    assert torch.equal(torch.func.grad(loss)(x), torch.autograd.grad(loss(leaf), leaf)[0])
    with pytest.raises(NotImplementedError, match=r"not mapped by torch\.vmap; it takes any leading dimensions"):
        torch.func.vmap(lambda row: rms_norm(row, weight))(x)
    (grad,) = torch.autograd.grad(loss(leaf), leaf, create_graph=True)
    with pytest.raises(RuntimeError, match="no gradient of its gradient"):
        grad.sum().backward()


@pytest.mark.parametrize("needs", ["x", "residual", "weight", "bias"])
def test_autograd_sees_a_call_if_any_tensor_needs_it(device, needs):
    given = {name: torch.randn(3, 8).to(device) for name in ("x", "residual")}
    given |= {name: torch.randn(8).to(device) for name in ("weight", "bias")}
    assert not norm_of(**given)[0].requires_grad  # and no launch is left to torch before this, nor after
    given[needs].requires_grad_()
    with torch.no_grad():
        assert not norm_of(**given)[0].requires_grad
    (found,), (wanted,) = (
        torch.autograd.grad(function(**given)[0].square().sum(), given[needs])
        for function in (norm_of, lambda **each: in_torch(**each, eps=torch.finfo(torch.float32).eps))
    )
    assert torch.allclose(found, wanted, atol=1e-5)


def test_a_forward_gradient_is_refused_and_not_lost(device):
    x, tangent = torch.randn(2, 3, 8).to(device)
    refused = pytest.raises((NotImplementedError, RuntimeError), match="jvp")
    with refused:
        torch.func.jvp(rms_norm, (x,), (tangent,))
    with refused, torch.autograd.forward_ad.dual_level():
        rms_norm(torch.autograd.forward_ad.make_dual(x, tangent))


def test_the_next_call_looks_at_what_has_changed(device, monkeypatch):
    """A launch is prepared once for tensors that lie alike; these are of one shape, and do not."""
    keep_launches(monkeypatch, snippet, "norm_kernel")
    x, residual, weight = torch.randn(3, 16).to(device), torch.randn(3, 16).to(device), torch.randn(16).to(device)
    later = torch.cat([x.flatten(), x.new_zeros(1)])[1:].view(3, 16)  # begins at no multiple of 16 bytes
    later.copy_(x)
    for each in (x, 2 * x, later, torch._neg_view(-x), torch.cat([x, x], 1)[:, :16], x.T.contiguous().T, x.half()):
        for other in (residual, residual.half()):
            for scale in (weight, weight.half(), weight.expand(3, 16), None):
                for options in ({}, {"offset": 1.0}, {"layer": True}):
                    wide = each.float(), None if scale is None else scale.float()
                    found = norm_of(each, other, scale, eps=EPS, **options)
                    wanted = in_torch(*wide, residual=other.float(), eps=EPS, **options)
                    near = 0.05 if torch.half in (each.dtype, other.dtype) else 1e-5
                    pairs = zip(found, wanted, strict=True)
                    assert all(torch.allclose(ours.float(), exact, atol=near) for ours, exact in pairs)
    for each in (x, x[:2], x.half(), x[:1]):
        assert torch.allclose(rms_norm(each, weight, eps=EPS).float(), in_torch(each, weight, eps=EPS)[0], atol=0.05)
    for wrong in (x.double(), x.to_sparse(), x.to("meta")):
        with pytest.raises(ValueError):
            rms_norm(wrong, weight, eps=EPS)


def test_shapes_without_end_do_not_fill_the_memory(device, monkeypatch):
    monkeypatch.setattr(snippet, "PLANS", dict.fromkeys(range(4096)))
    rms_norm(torch.randn(3, 8).to(device))
    assert len(snippet.PLANS) == 1


@pytest.mark.parametrize("columns", [64, 65])
def test_the_second_call_goes_without_looking_at_the_arguments_again(device, monkeypatch, columns):
    names = "norm_kernel", "long_norm_kernel"
    keep_launches(monkeypatch, snippet, *names)
    x, weight = torch.randn(3, columns).to(device), torch.randn(columns).to(device)
    call = lambda: add_layer_norm(x, x, weight, -weight, eps=EPS)
    monkeypatch.setattr(snippet, "HELD", 64)
    call()
    refuse_launches(monkeypatch, snippet, *names)
    x += 1
    wanted = in_torch(x, weight, -weight, residual=x, eps=EPS, layer=True)
    assert all(map(functools.partial(torch.allclose, atol=1e-5), call(), wanted))


@pytest.mark.parametrize("layer", [False, True])
def test_compiled_without_a_break(device, layer):
    x, residual = (torch.randn(4, 24).to(device).requires_grad_() for _ in range(2))
    weight, bias = (torch.randn(24).to(device).requires_grad_() for _ in range(2))
    function = lambda *given: norm_of(*given, layer=layer)
    compiled = torch.compile(function, fullgraph=True, backend="inductor" if device == "cuda" else "aot_eager")
    results = []
    for each in (function, compiled):
        out, total = each(x, residual, weight, bias)
        leaves = x, residual, weight, bias
        results.append([out, total, *torch.autograd.grad(out.square().sum() + total.sum(), leaves)])
    for a, b in zip(*results, strict=True):
        assert torch.allclose(a, b, atol=1e-5)


def test_equal_inputs_give_equal_bits(device):
    x, weight = torch.randn(300, 40).to(device).requires_grad_(), torch.randn(40).to(device).requires_grad_()
    first, second = (torch.autograd.grad(rms_norm(x, weight).sum(), (x, weight)) for _ in range(2))
    assert all(map(torch.equal, first, second))


x, w = torch.ones(2, 3, 4), torch.ones(4)
REFUSED = {
    "weight must have the shape (4,), or (3, 4)": lambda: rms_norm(x, torch.ones(3)),
    "bias must have the shape of weight, (4,)": lambda: layer_norm(x, w, torch.ones(3, 4)),
    "residual must have the shape of x": lambda: add_rms_norm(x, torch.ones(2, 3)),
    "float64 goes with float64 only": lambda: rms_norm(x, w.double()),
    "weight is torch.int32, which is not supported": lambda: rms_norm(x, w.int()),
    "x must have a dimension": lambda: rms_norm(torch.ones(())),
    "eps must be a number, not on a GPU; got 'small'": lambda: rms_norm(x, w, "small"),
    "pass weight.to_dense()": lambda: rms_norm(x, w.to_sparse()),
    "x is on cpu and weight on meta": lambda: rms_norm(x, w.to("meta")),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refuses_in_words(message):
    with pytest.raises(ValueError) as error:
        REFUSED[message]()
    assert message in str(error.value)
