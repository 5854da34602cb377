# SPDX-License-Identifier: Apache-2.0
"""The gated activations to copy: torch's numbers in float64, with every option and any shape, dtype and strides."""

import itertools
from unittest import mock

import numpy as np
import pytest
import torch
from compiled import compiled
from covering import covering
from guards import recorded_accesses, without_memory
from hypothesis import given
from hypothesis import strategies as st

from snippets.library import swiglu as snippet
from snippets.library.swiglu import ACTIVATIONS, activate, glu, in_torch, swiglu

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy in the interpreter: exp

LAYOUTS = {
    "contiguous": lambda t: t.clone(),
    "gaps": lambda t: torch.cat([t, t], dim=-1)[..., : t.shape[-1]],
    "one more": lambda t: torch.cat([t, t[..., :1]], dim=-1)[..., : t.shape[-1]],
    "turned": lambda t: t.transpose(0, -1).contiguous().transpose(0, -1),
    "flipped sign": lambda t: torch._neg_view(-t),
    "stride 0": lambda t: t[:1].clone().expand(t.shape),
}
PACKED = {
    "two": {}, "halves": {}, "halves, gate second": {"gate_second": True}, "interleaved": {"interleaved": True},
    "interleaved, gate second": {"interleaved": True, "gate_second": True}, "alone": {"gated": False},
}  # fmt: skip
GPT_OSS = {"alpha": 1.702, "limit": 1.5, "up_offset": 1.0}


def numbers(*shape, dtype=torch.float64, device="cpu", seed=0):
    """Return random numbers with NaN before and behind them, so that what is read beyond its ends shows."""
    random = torch.Generator().manual_seed(seed)
    drawn = (2 * torch.randn(shape, generator=random, dtype=torch.float64)).to(device, dtype)
    nans = drawn.new_full((16,), torch.nan)
    return torch.cat([nans, drawn.flatten(), nans])[16:-16].view(shape)


def called(gate, up=None, activation="silu", gated=True, up_offset=0.0, **options):
    """Call the function that serves these arguments."""
    if not gated:
        return activate(gate, activation, **options)
    if activation == "silu":
        return swiglu(gate, up, up_offset=up_offset, **options)
    return glu(gate, up, activation, up_offset=up_offset, **options)


def check(device, shape, packed, *, has_bias=False, dtype=torch.float64, up_dtype=None, layouts=None, **options):
    """Compare the result and all gradients with those of torch in float64."""
    lay = [LAYOUTS[name] for name in layouts or ["contiguous"] * 3]
    options |= PACKED[packed]
    columns = shape[-1] * (1 if packed in ("two", "alone") else 2)
    make = lambda *size, **more: numbers(*size, device=device, **{"dtype": dtype, **more})
    gate = lay[0](make(*shape[:-1], columns))
    up = lay[1](make(*shape, seed=1, dtype=up_dtype or dtype)) if packed == "two" else None
    bias = make(shape[-1] * (1 if packed == "alone" else 2), seed=2) if has_bias else None
    given = {name: t.requires_grad_() for name, t in (("gate", gate), ("up", up), ("bias", bias)) if t is not None}
    wide = {name: t.detach().double().requires_grad_() for name, t in given.items()}
    found, wanted = called(**given, **options), in_torch(**wide, **options)
    grad = lay[2](make(*shape, seed=3, dtype=found.dtype))
    assert found.dtype == torch.promote_types(dtype, up_dtype or dtype) and found.is_contiguous()
    found.backward(grad), wanted.backward(grad.double())
    for name, ours, exact in [("out", found, wanted), *((n, given[n].grad, wide[n].grad) for n in given)]:
        of = found.dtype if name == "out" else given[name].dtype
        assert (ours.shape, ours.dtype) == (exact.shape, of), name
        tolerance = {torch.float64: 1e-11, torch.float32: 1e-5}.get(min(of, dtype, key=lambda d: -torch.finfo(d).eps))
        tolerance = tolerance or 2 * torch.finfo(of).eps + 1e-5
        scale = exact.abs().max().clamp(min=1) if exact.numel() else 1
        if name == "bias" and exact.numel():
            scale = scale + grad.double().abs().sum() / max(grad.shape[-1], 1)
        assert torch.allclose(ours.double() / scale, exact / scale, rtol=0, atol=tolerance), name


@covering(packed=PACKED, has_bias=[False, True], activation=[*ACTIVATIONS, "gpt-oss"], shape=[(2, 7, 5), (3, 16)])
def test_every_option_gives_torchs_numbers(device, packed, has_bias, activation, shape):
    options = {"limit": 1.0, "up_offset": 0.5} if activation == "relu2" else {}
    options |= GPT_OSS if activation == "gpt-oss" else {"activation": activation}
    if packed == "alone":
        options.pop("up_offset", None)
    check(device, shape, packed, has_bias=has_bias, **options)


@given(
    st.lists(st.integers(0, 5), max_size=2), st.integers(1, 130), st.sampled_from(sorted(PACKED)), st.booleans(),
    st.lists(st.sampled_from(sorted(LAYOUTS)), min_size=3, max_size=3), st.sampled_from(ACTIVATIONS),
    st.sampled_from([torch.float16, torch.float32, torch.float64]),
)  # fmt: skip
def test_any_shape_layout_and_dtype(device, leading, columns, packed, has_bias, layouts, activation, dtype):
    options = {"has_bias": has_bias, "layouts": layouts, "activation": activation, "dtype": dtype}
    check(device, (*leading, columns), packed, limit=3.0, **options)


@pytest.mark.parametrize("packed", ["two", "halves", "interleaved"])
@pytest.mark.parametrize("shape", [(300, 5), (2, 1030), (90, 40)])
def test_several_blocks_and_tiles(monkeypatch, device, packed, shape):
    """Blocks side by side and below each other; and more tiles than programs, so that each adds up several."""
    monkeypatch.setattr(snippet, "PROGRAMS", 3)
    for has_bias in (False, True):
        check(device, shape, packed, has_bias=has_bias)


@pytest.mark.gpu
@pytest.mark.parametrize("packed", PACKED)
@pytest.mark.parametrize("shape", [(4099, 768), (1000, 2880), (16, 131072), (5, 1001)], ids=str)
def test_real_sizes_in_bfloat16(packed, shape):
    check("cuda", shape, packed, has_bias=True, dtype=torch.bfloat16, limit=3.0)
    for activation in ACTIVATIONS if shape == (1000, 2880) else ["silu"]:
        check("cuda", shape, packed, activation=activation, dtype=torch.bfloat16)


@pytest.mark.gpu
@pytest.mark.parametrize("interleaved", [False, True])
def test_more_than_2_to_the_31_elements(interleaved):
    if torch.cuda.mem_get_info()[0] < 50e9:
        pytest.skip("needs 50 GB of free GPU memory")
    x = torch.zeros(2**31 // 8192 + 3, 2 * 8192, dtype=torch.float16, device="cuda")
    x[-1] = numbers(2 * 8192, dtype=torch.float16, device="cuda")
    bias = torch.zeros(2 * 8192, device="cuda")
    for options in ({}, {"bias": bias}):
        last, whole = (each.detach().requires_grad_() for each in (x[-1:], x))
        outs = [swiglu(each, interleaved=interleaved, **options) for each in (last, whole)]
        assert torch.equal(outs[1][-1:], outs[0]) and not outs[1][:-1].any()
        (want,) = torch.autograd.grad(outs[0].sum(), last)
        (found,) = torch.autograd.grad(outs[1].sum(), whole)
        assert torch.equal(found[-1:], want) and not found[:-1].any()
        del outs, found


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("last", ["row", "stride", "column"])
def test_offsets_are_computed_in_64_bits(interleaved, last):
    """The program past 2**31, told of more elements than there are; or row 1 of rows that lie so far apart."""
    given = [torch.zeros(1) for _ in range(5)]
    far = 2**28  # in units of 8
    rows, columns, stride = {"row": (far + 2, 1, 3), "stride": (2, 1, far), "column": (1, far + 2, 0)}[last]
    program = max(rows, columns) - 1
    options = {
        "ACTIVATION": "silu", "ALPHA": 1.0, "LIMIT": None, "UP_OFFSET": 0.0, "COMPUTE": snippet.tl.float32,
        "INTERLEAVED": interleaved, "GATE_SECOND": False, "BLOCK_ROWS": 1, "BLOCK_COLUMNS": 8, "UNIT": 8,
    }  # fmt: skip
    grad, gate, up, grad_gate, grad_up = given
    up, grad_up = (None, None) if interleaved else (up, grad_up)
    with recorded_accesses(first_program=(program, 0, 0), memory=False) as seen:
        snippet.glu_kernel[(1,)](gate, up, None, None, grad, rows, columns, columns, stride, stride + 1, **options)
        snippet.glu_backward_kernel[(1,)](
            grad, gate, up, None, None, grad_gate, grad_up, None, None, rows, columns, columns, 1,
            stride, stride + 1, stride + 2, stride + 3, 0, **options,
        )  # fmt: skip
    at = lambda tensor, stride, twice=interleaved: (
        tensor.data_ptr() // 4 + 8 * program * (1 + twice if last == "column" else stride)
    )  # fmt: skip
    there = [at(gate, stride), None if up is None else at(up, stride + 1), at(grad, columns, False)]
    back = [
        at(grad, stride, False), at(gate, stride + 1), None if up is None else at(up, stride + 2),
        at(grad_gate, stride + 3), None if up is None else at(grad_up, stride + 3),
    ]  # fmt: skip
    assert [int(addresses[0]) // 4 for _, addresses in seen] == [each for each in there + back if each is not None]
    assert program * 8 * max(stride, 1) >= 2**31


def test_mixtures_of_dtypes(device):
    for a, b in itertools.permutations([torch.float16, torch.float32]):
        check(device, (3, 10), "two", dtype=a, up_dtype=b)
    x, bias = numbers(4, 10, dtype=torch.float16, device=device), numbers(10, dtype=torch.float32, device=device)
    bias.requires_grad_()
    out = swiglu(x, bias=bias)
    out.float().sum().backward()
    assert out.dtype == torch.float16 and bias.grad.dtype == torch.float32
    assert torch.allclose(out.float(), in_torch(x.float(), bias=bias), rtol=1e-3)


def test_as_gpt_oss_writes_it(device):
    """The lines of its reference, in float64."""
    x, bias = numbers(6, 16, device=device), numbers(16, device=device)
    gate, up = (x + bias)[..., ::2], (x + bias)[..., 1::2]
    gate, up = gate.clamp(min=None, max=2.5), up.clamp(min=-2.5, max=2.5)
    wanted = gate * torch.sigmoid(gate * 1.702) * (up + 1)
    options = {"alpha": np.float32(1.702), "limit": torch.tensor(2.5), "up_offset": np.int64(1)}
    assert torch.allclose(swiglu(x, bias=bias, interleaved=True, **options), wanted, rtol=1e-6)


def test_numbers_at_the_ends(device):
    """Of each activation and its slope: zeros, infinities, NaN, and what is beyond exp."""
    ends = torch.tensor([0.0, 1e-30, -1e-30, 5.0, -5.0, 20.0, -20.0, 88.0, -88.0, 200.0, -200.0, 1e4, -1e4])
    for activation in ACTIVATIONS:
        x = ends.to(device).requires_grad_()
        wide = ends.to(device).double().requires_grad_()
        outs = activate(x, activation), in_torch(wide, activation=activation, gated=False)
        grads = [torch.autograd.grad(out.sum(), each)[0].double() for out, each in zip(outs, (x, wide), strict=True)]
        assert torch.allclose(outs[0].double(), outs[1], rtol=1e-6, atol=1e-6)
        assert torch.allclose(*grads, rtol=1e-5, atol=1e-6)
        assert activate(torch.full((1,), torch.nan, device=device), activation, limit=1.0).isnan().all()


def test_the_gradient_stops_where_the_limit_is(device):
    values = [1.0, 2.0, 3.0, -9.0], [-3.0, -2.0, 2.0, 3.0]
    gate, up = (torch.tensor(each, device=device, requires_grad=True) for each in values)
    grads = torch.autograd.grad(glu(gate, up, "identity", limit=2.0).sum(), (gate, up))
    assert grads[0].tolist() == [-2, -2, 0, 2] and grads[1].tolist() == [0, 2, 2, 0]


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (2, 0, 4)])
def test_empty(device, shape):
    x, bias = (torch.ones(s, device=device, requires_grad=True) for s in (shape, shape[-1:]))
    out = swiglu(x, bias=bias)
    out.sum().backward()
    assert out.shape == (*shape[:-1], shape[-1] // 2) and x.grad.shape == shape and not bias.grad.any()


# As PyTorch calls it


def test_functional_gradients_and_what_is_refused_in_words(device):
    x, bias = numbers(3, 8, device=device), numbers(8, device=device)
    loss = lambda function: lambda x: function(x, bias=bias).square().sum()
    assert torch.allclose(torch.func.grad(loss(swiglu))(x), torch.func.grad(loss(in_torch))(x))
    with pytest.raises(NotImplementedError, match=r"not mapped by torch\.vmap; it takes any leading dimensions"):
        torch.func.vmap(swiglu)(x)
    leaf = x.clone().requires_grad_()
    (grad,) = torch.autograd.grad(loss(swiglu)(leaf), leaf, create_graph=True)
    with pytest.raises(RuntimeError, match="no gradient of its gradient"):
        grad.sum().backward()


def test_only_what_is_needed_gets_a_gradient(device):
    x, bias = numbers(3, 8, device=device), numbers(8, device=device)
    with mock.patch.object(snippet, "glu_backward", wraps=snippet.glu_backward) as backward:
        swiglu(x.requires_grad_(), bias=bias).sum().backward()
    assert bias.grad is None and x.grad is not None
    assert not backward.call_args.args[4], "the bias' gradient is computed, which nobody needs"
    swiglu(x.detach(), bias=bias.requires_grad_()).transpose(0, 1).sum().backward()
    wanted = torch.func.grad(lambda bias: in_torch(x.detach(), bias=bias).sum())(bias.detach())
    assert torch.allclose(bias.grad, wanted)


@pytest.mark.parametrize("packed", PACKED)
def test_compiled_without_a_break(device, packed):
    torch.compiler.reset()
    options = PACKED[packed] | ({"limit": 1.0} if packed == "alone" else GPT_OSS)
    run = torch.compile(
        lambda *given: called(*given[:-1], bias=given[-1], **options), fullgraph=True,
        backend="inductor" if device == "cuda" else "aot_eager",
    )  # fmt: skip
    for rows in (4, 5):
        columns = 6 if packed in ("two", "alone") else 12
        given = [numbers(rows, columns, device=device, seed=i) for i in range(2 if packed == "two" else 1)]
        given += [numbers(6 if packed == "alone" else 12, device=device)]
        results = []
        for function in (run, lambda *given: in_torch(*given[:-1], bias=given[-1], **options)):
            leaves = [each.detach().requires_grad_() for each in given]
            out = function(*leaves)
            results.append([out, *torch.autograd.grad(out.square().sum(), leaves)])
        assert all(map(torch.allclose, *results))


def test_the_ops_keep_what_they_promise_the_compiler(device):
    for layout in ("contiguous", "turned"):
        x, up = (LAYOUTS[layout](numbers(3, 4, dtype=torch.float32, device=device)).requires_grad_() for _ in range(2))
        bias = numbers(4, dtype=torch.float32, device=device).requires_grad_()
        torch.library.opcheck(snippet.glu_op, (x, None, bias, "silu", 1.0, 2.0, 1.0, "interleaved", False))
        torch.library.opcheck(snippet.glu_op, (x, up, None, "gelu", 1.0, None, 0.0, None, False))


def test_equal_inputs_give_equal_bits(device):
    x, bias = (numbers(*s, dtype=torch.float32, device=device).requires_grad_() for s in ((600, 40), (40,)))
    first, second = (torch.autograd.grad(swiglu(x, bias=bias).sum(), (x, bias)) for _ in range(2))
    assert all(map(torch.equal, first, second))


def test_under_autocast(device):
    x = numbers(3, 8, dtype=torch.float32, device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        assert torch.equal(swiglu(x), swiglu(x.clone()))
        assert swiglu(x).dtype == torch.float32


X = torch.ones(2, 8)
REFUSED = {
    "activation must be one of silu, gelu": lambda: glu(X, None, "swish"),
    "alpha is an option of silu; got 2.0 for gelu": lambda: glu(X, None, "gelu", alpha=2.0),
    "alpha must be a number, not on a GPU; got 'small'": lambda: swiglu(X, alpha="small"),
    "limit must be 0 or more, or None; got -1.0": lambda: swiglu(X, limit=-1),
    "limit must be 0 or more, or None; got nan": lambda: swiglu(X, limit=float("nan")),
    "one tensor of gate and up must be (..., 2 * columns); got the shape (2, 7)": lambda: swiglu(X[:, :7]),
    "here are two tensors": lambda: swiglu(X, X, interleaved=True),
    "up must have the shape of gate, (2, 8); got (8,)": lambda: swiglu(X, X[0]),
    "bias must be (16,) for gate (2, 8); got (8,)": lambda: swiglu(X, X, bias=X[0]),
    "bias must be (8,) for gate (2, 8); got (2, 8)": lambda: swiglu(X, bias=X),
    "float64 goes with float64 only": lambda: swiglu(X, X.double()),
    "bias is torch.int32, which is not supported": lambda: swiglu(X, bias=X[0].int()),
    "gate must have a dimension": lambda: activate(X[0, 0], "relu"),
    "pass up.to_dense()": lambda: swiglu(X, X.to_sparse()),
    "gate is on cpu and up on meta": lambda: swiglu(X, X.to("meta")),
    "too many rows for one launch": lambda: swiglu(without_memory(2**31, 2)),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refuses_in_words(message):
    with pytest.raises(ValueError) as error:
        REFUSED[message]()
    assert message in str(error.value)


# Compiled for an H200, without one

CODE = """
x, halves = (torch.empty(1000, columns, dtype=torch.bfloat16, requires_grad=True) for columns in (3000, 6000))
bias, grad = torch.empty(6000, requires_grad=True), torch.empty(1000, 3000, dtype=torch.bfloat16)
module.swiglu(x, x).backward(grad)
module.swiglu(halves).backward(grad)
module.swiglu(halves, interleaved=True).backward(grad)
module.glu(halves, None, "gelu").backward(grad)
module.activate(x, "relu2").backward(grad)
module.swiglu(halves, bias=bias).backward(grad)
module.swiglu(halves, bias=bias, alpha=1.702, limit=7.0, up_offset=1.0, interleaved=True).backward(grad)
"""


def test_compiles_to_wide_loads_and_spills_nothing():
    """16 bytes a load and a store, also where 8 divides the columns and 16 does not; 8 where a bias' gradient is added
    up, which takes registers. A thread has at most 64 of 65536, so that 1024 threads fit."""
    launches = compiled("library/swiglu", CODE)
    assert [launch.kernel for launch in launches] == ["glu_kernel", "glu_backward_kernel"] * 7
    for number, launch in enumerate(launches):
        assert launch.spills == 0 and launch.registers <= 64
        sums = number in (11, 13)
        assert launch.widths("LDG") | launch.widths("STG") <= ({64, 128} if sums else {128})
