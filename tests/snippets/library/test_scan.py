# SPDX-License-Identifier: Apache-2.0
"""The scans to copy: states and gradients as step by step in float64, with every option, shape, dtype and strides."""

import numpy as np
import pytest
import torch
from compiled import compiled
from covering import covering
from guards import check_inside, recorded_accesses
from hypothesis import given
from hypothesis import strategies as st

from snippets.library import scan as snippet
from snippets.library.scan import cummax, cummin, cumprod, cumsum, in_torch, recurrence

LAYOUTS = {
    "contiguous": lambda t: t.clone(),
    "gaps": lambda t: torch.cat([t, t], dim=-1)[..., : t.shape[-1]],
    "turned": lambda t: t.transpose(0, -1).contiguous().transpose(0, -1),
    "flipped sign": lambda t: torch._neg_view(-t) if t.is_floating_point() else t,
}
KINDS = {"recurrence": recurrence, "cumsum": cumsum, "cumprod": cumprod}
EXTREMA = {"cummax": (cummax, torch.cummax), "cummin": (cummin, torch.cummin)}


def numbers(shape, dtype, device, seed=0):
    """Return numbers among NaN, so that what is read beyond the ends shows; some zeros among floats."""
    random = torch.Generator().manual_seed(seed)
    if not dtype.is_floating_point:
        return torch.randint(0, 2 if dtype == torch.bool else 9, shape, generator=random).to(device, dtype)
    x = (torch.randn(shape, generator=random, dtype=torch.float64) * 8).round() / 10
    nans = torch.full((16,), torch.nan)
    return torch.cat([nans, x.flatten(), nans])[16:-16].view(shape).to(device, dtype)


def check(device, kind, shape, dim=-1, *, start=False, layout="contiguous", dtype=torch.float64, **options):
    """Compare states, the last one and all gradients with those step by step in float64."""
    tolerance = {torch.float64: 1e-10, torch.float32: 1e-4}.get(dtype, 1e-2)
    given = {name: LAYOUTS[layout](numbers(shape, dtype, device, i)).detach() for i, name in enumerate("ax")}
    given["initial"] = numbers(given["a"].select(dim, 0).shape, dtype, device, 2) if start else None
    if kind != "recurrence":
        given["x" if kind == "cumprod" else "a"] = None
    leaves = [each for each in given.values() if each is not None]
    exact = [each.detach().double().requires_grad_() for each in leaves]
    leaves = [each.requires_grad_() for each in leaves]
    inputs = [each for name, each in given.items() if name != "initial" and each is not None]
    found = KINDS[kind](*inputs, dim=dim, initial=given["initial"], last=True, **options)
    wide = iter(exact)
    wanted = in_torch(*(None if each is None else next(wide) for each in (given["a"], given["x"])), dim,
                      exact[-1] if start else None, **options)  # fmt: skip
    grads = [numbers(each.shape, dtype, device, 3) for each in wanted]
    results = [
        [*outs, *torch.autograd.grad(outs, of, [grad.to(outs[0].dtype) for grad in grads])]
        for outs, of in ((found, leaves), (wanted, exact))
    ]
    for ours, theirs, like in zip(*results, [*found, *leaves], strict=True):
        assert ours.dtype == like.dtype and ours.shape == theirs.shape
        scale = theirs.abs().max().clamp(min=1) if theirs.numel() else 1
        assert torch.allclose(ours.double() / scale, theirs / scale, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dim", [0, 1])
def test_reads_inside_of_what_it_is_given(dim):
    """Also where a block of series is not full, forward and backward."""
    a, x = (numbers((3, 5), torch.float64, "cpu", seed).requires_grad_() for seed in range(2))
    initial = numbers((5 if dim == 0 else 3,), torch.float64, "cpu", 2).requires_grad_()
    grad = numbers((3, 5), torch.float64, "cpu", 3)
    with recorded_accesses() as seen:
        h = recurrence(a, x, dim=dim, initial=initial)
        torch.autograd.grad(h, (a, x, initial), grad)
    check_inside(seen, "load", a=a.detach(), x=x.detach(), initial=initial.detach(), h=h.detach(), grad=grad)


@covering(3, kind=KINDS, start=[False, True], reverse=[False, True], exclusive=[False, True], dim=[0, 1, 2])
def test_every_option_as_step_by_step(device, monkeypatch, kind, start, reverse, exclusive, dim):
    monkeypatch.setattr(snippet, "plan", lambda *_: snippet.Plan(4, 2, 1))  # several blocks, the last not full
    check(device, kind, (3, 7, 5), dim, start=start, reverse=reverse, exclusive=exclusive)


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=3), st.integers(1, 40), st.integers(0, 2),
    st.sampled_from([*KINDS]), st.sampled_from(sorted(LAYOUTS)), st.booleans(),
    st.sampled_from([torch.float16, torch.float32, torch.float64]),
)  # fmt: skip
def test_any_shape_layout_and_dtype(device, leading, length, dim, kind, layout, reverse, dtype):
    shape = (*leading[:dim], length, *leading[dim:])
    dim = min(dim, len(leading))
    check(device, kind, shape, dim, start=True, layout=layout, dtype=dtype, reverse=reverse)


@covering(name=EXTREMA, reverse=[False, True], dtype=[torch.float64, torch.float16, *snippet.INTEGERS], dim=[0, 1])
def test_extrema_as_torch(device, monkeypatch, name, reverse, dtype, dim):
    monkeypatch.setattr(snippet, "plan", lambda *_: snippet.Plan(4, 2, 1))
    ours, theirs = EXTREMA[name]
    x = numbers((6, 9), dtype, device)
    if dtype.is_floating_point:
        x[0, 3] = x[2, 4] = torch.nan
        x[1] = torch.arange(9) % 3  # equals: the last is given the gradient
    turn = (lambda t: t.flip(dim)) if reverse else (lambda t: t)
    leaf = x.clone().requires_grad_(dtype.is_floating_point)
    found, wanted = ours(leaf, dim, reverse=reverse), turn(theirs(turn(leaf), dim).values)
    assert found.dtype == dtype
    assert torch.equal(found.double().nan_to_num(nan=1e9), wanted.double().nan_to_num(nan=1e9))
    if leaf.requires_grad:
        grad = numbers(x.shape, dtype, device, 1)
        assert torch.allclose(*(torch.autograd.grad(each, leaf, grad)[0] for each in (found, wanted)), atol=1e-2)
    first = -1 if reverse else 0
    shifted = ours(leaf, dim, reverse=reverse, exclusive=True)
    assert (shifted.select(dim, first) == snippet.neutral_of(dtype, name == "cummax")).all()
    pairs = [t.narrow(dim, s, t.shape[dim] - 1) for t, s in ((shifted, 0 if reverse else 1), (found, int(reverse)))]
    assert torch.equal(*(each.double().nan_to_num(nan=1e9) for each in pairs))


@pytest.mark.parametrize("dtype", snippet.INTEGERS)
def test_integers_are_added_and_multiplied_in_64_bits(device, dtype):
    x = numbers((4, 30), dtype, device)
    assert torch.equal(cumsum(x), torch.cumsum(x, -1)) and torch.equal(cumprod(x, 0), torch.cumprod(x, 0))
    large = torch.full((1, 3), 2**62, device=device)
    assert torch.equal(cumsum(large), torch.cumsum(large, -1))
    if dtype != torch.bool:
        start = torch.ones(4, device=device, dtype=torch.int64)
        assert torch.equal(recurrence(x, x, initial=start), in_torch(x.long(), x.long(), initial=start)[0])


def test_dtypes_may_be_mixed(device):
    a, x, initial = (numbers((3, 20), each, device) for each in (torch.float32, torch.float16, torch.float16))
    given = [each.requires_grad_() for each in (a, x, initial[:, 0].contiguous())]
    h = recurrence(*given[:2], initial=given[2])
    assert h.dtype == torch.float32
    wanted = in_torch(a.double(), x.double(), initial=given[2].double())[0]
    assert torch.allclose(h.double(), wanted, atol=1e-4)
    grads = torch.autograd.grad(h.sum(), given)
    for ours, theirs, each in zip(grads, torch.autograd.grad(wanted.sum(), given), given, strict=True):
        assert ours.dtype == each.dtype and torch.allclose(ours, theirs, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("name", [*KINDS, *EXTREMA])
def test_functional_gradients_and_vmap(device, name):
    function = {**KINDS, "cummax": cummax, "cummin": cummin}[name]
    tensors = [numbers((4, 6), torch.float64, device, i) for i in range(2 if name == "recurrence" else 1)]
    loss = lambda *given: (function(*given) ** 3).sum()
    leaves = [each.clone().requires_grad_() for each in tensors]
    everywhere = tuple(range(len(tensors)))
    first = torch.func.grad(loss, everywhere)(*tensors)
    for ours, theirs in zip(first, torch.autograd.grad(loss(*leaves), leaves), strict=True):
        assert torch.allclose(ours, theirs)
    rows = [each[0].detach().requires_grad_() for each in leaves]
    assert torch.autograd.gradgradcheck(lambda *given: function(*given), rows)
    for in_dim in (0, 1):
        mapped = torch.func.vmap(lambda *rows: function(*rows), in_dims=in_dim)(*tensors)
        assert torch.allclose(mapped, function(*(each.movedim(in_dim, 0).contiguous() for each in tensors)))
    if name == "recurrence":
        a, x = tensors
        mapped = torch.func.vmap(recurrence, in_dims=(None, 0))(a[0], x)
        assert torch.allclose(mapped, recurrence(a[:1].expand(4, 6), x))


@pytest.mark.parametrize("name", [*KINDS, *EXTREMA])
def test_compiled_without_a_break(device, name):
    function = {**KINDS, "cummax": cummax, "cummin": cummin}[name]
    tensors = [numbers((4, 6), torch.float32, device, i) for i in range(2 if name == "recurrence" else 1)]
    options = {"initial": numbers((6,), torch.float32, device, 2).requires_grad_()} if name in KINDS else {}
    leaves = [*(each.requires_grad_() for each in tensors), *options.values()]
    run = lambda *given: function(*given, dim=0, reverse=True, exclusive=True, **options)
    whole = torch.compile(run, fullgraph=True, backend="inductor" if device == "cuda" else "aot_eager")
    results = []
    for each in (run, whole):
        out = each(*tensors)
        results.append([out, *torch.autograd.grad((out[:3] ** 2)[out[:3].isfinite()].sum(), leaves)])
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (2, 0, 4)])
def test_empty(device, shape):
    x = torch.ones(shape, device=device, requires_grad=True)
    for dim in range(len(shape)):
        for out in (recurrence(x, x, dim), cumsum(x, dim, exclusive=True), cumprod(x, dim), cummin(x, dim)):
            out.sum().backward()
            assert out.shape == x.grad.shape == shape


def test_numbers_of_numpy_and_tensors(device):
    x = numbers((3, 4), torch.float32, device)
    for dim in (np.int64(0), torch.tensor(0)):
        assert torch.equal(cumsum(x, dim), cumsum(x, 0))


x = torch.ones(2, 5)
REFUSED = {
    "x and a must have the same shape; got (2, 5) and (2, 4)": lambda: recurrence(x[:, :4], x),
    "initial must have the shape (2,), that of x without dim": lambda: cumsum(x, initial=torch.ones(5)),
    "dim must be one of x's 2 dimensions; got 2": lambda: cumprod(x, 2),
    "dim must be a whole number, not on a GPU; got 0.5": lambda: cummax(x, 0.5),
    "x is torch.float32 and a torch.int32; mix floats with floats only": lambda: recurrence(x.int(), x),
    "x is torch.float32 and a torch.float64; float64 goes with float64 only": lambda: recurrence(x.double(), x),
    "integers start from an integer": lambda: cumsum(x.int(), initial=torch.ones(2)),
    "recurrence needs both a and x": lambda: recurrence(None, x),
    "no step, so no last state": lambda: cumsum(x[:, :0], last=True),
    "torch.complex64 is not supported": lambda: cumsum(x.to(torch.complex64)),
    "pass x.to_dense()": lambda: cumsum(x.to_sparse()),
    "x is on meta": lambda: cummin(x.to("meta")),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refuses_in_words(message):
    with pytest.raises(ValueError) as error:
        REFUSED[message]()
    assert message in str(error.value)


CODE = """
for shape in ((64, 4096), (2, 256, 128)):
    x = torch.empty(shape, dtype=torch.bfloat16)
    module.recurrence_forward(x, x, None, 1, False)
    module.recurrence_backward(x, x, x, None, x.dtype, 1, False)
    module.extremum_forward(x.to(torch.int32), 1, True, False)
    module.extremum_backward(x, x, x, 1, False)
"""


def test_compiles_to_wide_loads_and_spills_nothing():
    launches = compiled("library/scan", CODE)
    assert len(launches) == 8
    for launch in launches:
        assert (launch.widest("LDG", "LDGSTS"), launch.spills) == (128, 0)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("shape", "dim"), [((300, 4096), 1), ((3, 20000), 1), ((2, 1000, 700), 1), ((9000, 33), 0)])
def test_real_sizes(kind, shape, dim):
    """Step by step on a GPU takes a launch a step; so of these, torch's own where it has one."""
    x = (numbers(shape, torch.float32, "cuda") / 100 + (kind == "cumprod")).requires_grad_()
    a = torch.rand(shape, device="cuda", generator=torch.Generator("cuda").manual_seed(0)).requires_grad_()
    if kind == "recurrence":
        found, wanted = recurrence(a, x, dim), in_torch(a.double(), x.double(), dim)[0]
    else:
        found, wanted = KINDS[kind](x, dim), getattr(torch, kind)(x.double(), dim)
    leaves = [a, x] if kind == "recurrence" else [x]
    grad = numbers(shape, torch.float32, "cuda", 4)
    results = [[out, *torch.autograd.grad(out, leaves, grad.to(out.dtype))] for out in (found, wanted)]
    for ours, theirs in zip(*results, strict=True):
        assert torch.linalg.vector_norm(ours - theirs) <= 1e-4 * torch.linalg.vector_norm(theirs)


@pytest.mark.gpu
@pytest.mark.parametrize("name", EXTREMA)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int32])
def test_real_extrema(name, dtype):
    ours, theirs = EXTREMA[name]
    for shape, dim in (((300, 4096), 1), ((2, 3000, 700), 1)):
        x = torch.randn(shape, device="cuda").mul(1000).to(dtype)
        assert torch.equal(ours(x, dim), theirs(x, dim).values)
