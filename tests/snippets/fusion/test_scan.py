# SPDX-License-Identifier: Apache-2.0
"""Running sum, running maximum and recurrence: results and gradients of torch in float64, along any dimension, in both
directions, in blocks of any size, whatever dtype and strides, those of the incoming gradient, too; nothing else is
touched; the same under ``torch.compile``."""

import contextlib
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from compiled import compiled
from guards import (
    Guarded,
    check_each_once,
    check_same_bits,
    environment,
    handed_out,
    nan_as_on_a_gpu,
    recorded_accesses,
    without_memory,
)
from hypothesis import example, given
from hypothesis import strategies as st

from snippets.fusion import scan as snippet
from snippets.fusion.scan import Plan, cummax, cumsum, recurrence, recurrence_in_torch
from tests.processes import run_code

SOURCE = Path(snippet.__file__)
ROOT = SOURCE.parents[2]

LAYOUTS = {  # of a tensor of this shape
    "contiguous": lambda t: t.clone(),
    "gaps": lambda t: torch.cat([t, t], dim=-1).clone()[..., : t.shape[-1]],
    "turned": lambda t: t.transpose(0, -1).contiguous().transpose(0, -1),
    "flipped sign": lambda t: torch._neg_view(-t),
    "every other": lambda t: torch.stack([t, t], dim=-1).clone()[..., 0],
    "stride 0": lambda t: t[:1].clone().expand(t.shape) if len(t) else t,
}


def flipped(function):
    """``function`` of one tensor, from the last step to the first."""
    return lambda x, dim, reverse: function(x.flip(dim), dim).flip(dim) if reverse else function(x, dim)


# function, the same in torch, how many tensors it takes
SCANS = {
    "cumsum": (cumsum, flipped(torch.cumsum), 1),
    "cummax": (cummax, flipped(lambda x, dim: torch.cummax(x, dim).values), 1),
    "recurrence": (recurrence, lambda a, x, dim, reverse: recurrence_in_torch(a, x, dim, reverse), 2),
}
scans = pytest.mark.parametrize("name", SCANS)
BLOCKS = [Plan(2, 1, 1), Plan(4, 2, 1), Plan(8, 4, 1), Plan(32, 1, 1)]


@contextlib.contextmanager
def by_op(yes=True):
    """Calls go to the custom ops, as they do under torch.compile."""
    ops = {
        "Recurrence": snippet.recurrence_op,
        "CumSum": lambda x, dim, reverse: snippet.scan_op(x, dim, reverse, False),
        "CumMax": lambda x, dim, reverse: snippet.scan_op(x, dim, reverse, True),
    }
    with contextlib.ExitStack() as patches:
        for name in ops if yes else ():
            patches.enter_context(mock.patch.object(getattr(snippet, name), "apply", ops[name]))
        yield


@contextlib.contextmanager
def garbage_in_lanes_that_are_off():
    """In the interpreter: what is loaded where the mask is off and ``other`` is not given is NaN."""
    from triton.runtime.interpreter import interpreter_builder as builder

    load = builder.create_masked_load

    def noted(pointers, mask, other, *rest):
        if other is None:
            other = load(pointers, mask, None, *rest)
            other.data = np.full_like(other.data, np.nan)
        return load(pointers, mask, other, *rest)

    with mock.patch.object(builder, "create_masked_load", noted):
        yield


def planned(by):
    return mock.patch.object(snippet, "plan", lambda outer, length, inner: by)


def numbers(shape, dtype, device, seed=0, grid=None):
    found = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    if grid:  # so that there are equal ones
        found = (found * grid).round() / grid
    return found.to(device, dtype)


def tensors(name, shape, dtype, device, seed=0):
    """What the scan is called with; gates from -1.1 to 1.1."""
    given = [numbers(shape, dtype, device, seed + i, grid=2 if name == "cummax" else None) for i in range(2)]
    return [1.1 * torch.tanh(given[0]), given[1]] if name == "recurrence" else given[1:]


def results(function, inputs, grad):
    """The result and the gradients, of leaves that lie in memory as ``inputs`` do."""
    leaves = [each.detach().requires_grad_() for each in inputs]
    out = function(*leaves)
    return [out.detach(), *torch.autograd.grad(out, leaves, grad)]


def check(name, inputs, grad, dim=-1, reverse=False):
    """Compare with torch in float64: off by a few eps of the sum of sizes at most, and by one rounding."""
    ours, reference, _ = SCANS[name]
    found = results(lambda *each: ours(*each, dim, reverse=reverse), inputs, grad)
    wide = [each.double() for each in inputs]
    in_torch = lambda *each: reference(*each, dim, reverse)
    if not inputs[0].numel():
        exact = sizes = [torch.zeros_like(each) for each in (inputs[-1], *inputs)]
    else:
        exact = results(in_torch, wide, grad.double())
        of_sizes = in_torch if name == "recurrence" else lambda x: flipped(torch.cumsum)(x, dim, reverse)
        sizes = results(of_sizes, [each.abs() for each in wide], grad.double().abs())
        if name == "cummax":
            sizes[0] = torch.zeros_like(sizes[0])
    dtype = inputs[0].dtype
    eps = torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).eps
    stored = torch.finfo(dtype)
    for i, (actual, expected, size) in enumerate(zip(found, exact, sizes, strict=True)):
        assert actual.is_contiguous() and actual.shape == expected.shape and actual.dtype == dtype
        rounded = stored.eps * (size if name == "recurrence" else expected.abs())  # the h that a backward reads, too
        allowed = 64 * eps * size + 2 * rounded + stored.tiny
        wrong = ((actual.double() - expected).abs() <= allowed).logical_not()  # a NaN is wrong, too
        assert not wrong.any(), f"{name} {i}: {actual[wrong][:3]}, should be {expected[wrong][:3]}"


@pytest.mark.long  # a GPU's kernels are compiled, for each block, dtype and direction
@scans
@example((3, 40), 1, True, 1, ["turned", "gaps", "stride 0"], 0, False, torch.float32)
@example((3, 9, 5), 1, True, 1, ["contiguous", "turned", "stride 0"], 0, True, torch.float32)
@example((2, 5, 16), 1, False, 2, ["contiguous"] * 3, 0, True, torch.float16)
@example((5, 16), 0, False, 0, ["flipped sign", "every other", "turned"], 0, False, torch.float64)
@given(
    shape=st.tuples(st.integers(0, 3), st.integers(0, 13))
    | st.tuples(st.integers(0, 2), st.integers(0, 5), st.integers(0, 5))
    | st.tuples(st.integers(0, 20)),
    dim=st.integers(0, 2),
    reverse=st.booleans(),
    by=st.sampled_from(range(len(BLOCKS))),
    layouts=st.lists(st.sampled_from(list(LAYOUTS)), min_size=3, max_size=3),
    seed=st.integers(0, 999),
    op=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.float16, torch.float64]),
)
def test_as_torch_computes_it_in_float64(device, name, shape, dim, reverse, by, layouts, seed, op, dtype):
    inputs = tensors(name, shape, dtype, device, seed)
    inputs = [LAYOUTS[layout](each) for each, layout in zip(inputs, layouts, strict=False)]
    grad = LAYOUTS[layouts[2]](numbers(shape, dtype, device, seed + 10))
    off = garbage_in_lanes_that_are_off() if device == "cpu" else contextlib.nullcontext()
    with by_op(op), off, planned(BLOCKS[by]):
        check(name, inputs, grad, dim % len(shape), reverse)


def test_one_block(device):
    """Of six steps, worked out by hand; nothing else is touched."""
    a = Guarded.around(torch.tensor([3, 0.5, 2, -1, 0.5, 0], device=device), before=64, after=64, fill=0xFF)
    x = Guarded.around(torch.tensor([4, 6, 0, 2, 10, 1.0], device=device), before=64, after=64, fill=0xFF)
    h = guarded((6,), device)
    with recorded_accesses() if device == "cpu" else contextlib.nullcontext() as accesses:
        snippet.one_block_kernel[(1,)](a.tensor, x.tensor, h.tensor, 6, BLOCK=8)
    assert h.tensor.tolist() == [4, 8, 16, -14, 3, 1]
    assert a.tensor.tolist() == [3, 0.5, 2, -1, 0.5, 0] and x.tensor.tolist() == [4, 6, 0, 2, 10, 1]
    a.check("a"), x.check("x"), h.check("h")
    if device == "cpu":
        check_each_once(accesses, "load", a=a.tensor, x=x.tensor)
        check_each_once(accesses, "store", h=h.tensor)


@scans
@pytest.mark.parametrize("shape, dim", [((2, 70), 1), ((1, 5, 70), 1), ((700, 2), 1)], ids=str)
def test_as_planned(device, name, shape, dim):
    check(name, tensors(name, shape, torch.float32, device), numbers(shape, torch.float32, device, 9), dim)


def test_plans():
    for length in (1, 2, 100, 1024, 4096, 4097, 10**6, 2**31 - 2**13):
        for inner in (1, 2, 63, 64, 4096):
            for outer in (1, 5, 10**6):
                by = snippet.plan(outer, length, inner)
                elements = by.block * by.width
                assert 1 <= by.num_warps <= 8 and elements <= 2048
                assert by.block >= length or elements == 2048
                assert by.width >= min(inner, 64) and by.width < max(2 * outer * inner, 2)


def test_a_gate_of_0_begins_anew(device):
    a = torch.tensor([0.5, 0.5, 0.0, 0.5, 0.0], device=device)
    x = torch.tensor([8.0, 2.0, 4.0, 2.0, 1.0], device=device)
    with planned(Plan(2, 1, 1)):
        assert recurrence(a, x).tolist() == [8, 6, 4, 4, 1]
        assert recurrence(a, x, reverse=True).tolist() == [10, 4, 4, 2.5, 1]


@pytest.mark.filterwarnings("ignore:.* encountered in")  # NumPy's
def test_a_product_of_gates_beyond_the_largest_number_is_told(device):
    """As the docstring says: 0 times infinity, where step by step all would be 0."""
    a, x = torch.full((4,), 1e30, device=device), torch.zeros(4, device=device)
    assert recurrence(a, x)[0] == 0 and recurrence(a, x)[1:].isnan().all()
    assert recurrence(a.double(), x.double()).tolist() == [0.0] * 4


def test_half_precision_is_added_up_in_float32(device):
    """In float16, 2048 + 1 is 2048."""
    x = torch.ones(3000 if device == "cuda" else 2100, dtype=torch.float16, device=device)
    assert cumsum(x)[2099].item() == 2100
    h = recurrence(torch.ones(2100, dtype=torch.float16, device=device), x[:2100]) if device == "cuda" else None
    assert h is None or h[2099].item() == 2100


def check_rounded_once(found, exact):
    """To float16: off by half of a unit in the last place, and by little more for what float32 is off."""
    unit = torch.ldexp(torch.ones_like(exact), torch.frexp(exact).exponent - 11)
    wrong = ((found.double() - exact).abs() <= 0.51 * unit).logical_not()
    assert found.dtype == torch.float16 and not wrong.any(), f"{found[wrong][:3]}, should be {exact[wrong][:3]}"


@pytest.mark.parametrize("reverse", [False, True])
def test_half_precision_is_rounded_once(device, reverse):
    """Gates, their products, sums and gradients are float32 until they are stored. Nothing here is negative."""
    a, x, grad = (numbers((2, 40), torch.float16, device, seed).abs().clamp(0.1, 1.5) for seed in range(3))
    turned = lambda t: t.flip(1) if reverse else t
    begin = torch.zeros(2, 1, dtype=torch.float64, device=device)
    with planned(Plan(16, 2, 1)):
        h = snippet.recurrence_forward(a, x, 1, reverse)
        check_rounded_once(h, recurrence_in_torch(a.double(), x.double(), 1, reverse))
        grad_a, grad_x = snippet.recurrence_backward(grad, a, x, 1, reverse)  # any h will do
        gates = torch.cat([turned(a.double())[:, 1:], begin], dim=1)  # of the step that comes after
        exact = recurrence_in_torch(gates, turned(grad.double()), 1, True)
        check_rounded_once(grad_x, turned(exact))
        check_rounded_once(grad_a, turned(exact * torch.cat([begin, turned(x.double())[:, :-1]], dim=1)))
        first = turned(torch.arange(40, 0, -1, device=device).expand(2, 40)).half()  # the maximum comes first
        found = snippet.cummax_backward(grad, first, torch.full_like(first, 40), 1, reverse)
        check_rounded_once(turned(found)[:, :1], grad.double().sum(1, keepdim=True))
        assert not turned(found)[:, 1:].any()


@pytest.mark.filterwarnings("ignore:invalid value")  # NumPy's
@pytest.mark.parametrize("reverse", [False, True])
def test_nan_and_infinity_stay_in_their_series(device, reverse):
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([[1.0, nan, 3.0, 2.0], [1.0, -inf, inf, 2.0], [-inf, -inf, 1.0, 2.0]], device=device)
    grad = torch.tensor([1.0, 2.0, 4.0, 8.0], device=device).expand(3, 4)
    quiet = nan_as_on_a_gpu() if device == "cpu" else contextlib.nullcontext()
    with planned(Plan(2, 2, 1)), quiet:
        for name, (ours, reference, inputs) in SCANS.items():
            if inputs == 1:
                found = results(lambda x: ours(x, -1, reverse=reverse), [x], grad)  # noqa: B023  called at once
                wanted = results(lambda x: reference(x, -1, reverse), [x], grad)  # noqa: B023
                for a, b in zip(found, wanted, strict=True):
                    assert torch.equal(a.nan_to_num(7.0), b.nan_to_num(7.0)), name
    h = recurrence(torch.ones_like(x), x, reverse=reverse)
    assert h[0].isnan().any() and torch.equal(h[2].isnan(), cumsum(x, reverse=reverse)[2].isnan())


# Nothing else is touched


def guarded(shape, device):
    return Guarded(shape, torch.float32, device, before=64, after=64, fill=0xFF)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape, dim", [((1, 1), 1), ((3, 5), 1), ((2, 8), 1), ((2, 5, 3), 1), ((5, 8), 0)], ids=str)
def test_each_element_is_touched_once_and_nothing_else(device, shape, dim, reverse):
    a, x, grad, h, grad_a, grad_x = every = [guarded(shape, device) for _ in range(6)]
    seen = lambda: recorded_accesses() if device == "cpu" else contextlib.nullcontext()

    def run(function, given, outs, *more, loaded=None):
        for i, each in enumerate(given):
            each.tensor.copy_(numbers(shape, torch.float32, device, i))
        with handed_out("empty", *[each.tensor for each in outs.values()]), seen() as accesses:
            function(*[each.tensor for each in given], dim, reverse, *more, by=Plan(4, 2, 1))
        for each in every:
            each.check("a tensor")
        assert not any(each.tensor.isnan().any() for each in outs.values())
        if device == "cpu":
            check_each_once(accesses, "store", **{name: each.tensor for name, each in outs.items()})
            if loaded is None:
                check_each_once(accesses, "load", **{str(i): each.tensor for i, each in enumerate(given)})
            else:  # of what is read a step away, the first or last step is not
                found = np.concatenate([addresses for op, addresses in accesses if op == "load"])
                once, steps = torch.Size(shape).numel(), shape[dim]
                assert found.size == sum(once * (steps - away) // steps for away in loaded)

    run(snippet.scan_forward, [x], {"h": h}, False)
    run(snippet.scan_forward, [x], {"h": h}, True)
    run(snippet.recurrence_forward, [a, x], {"h": h})
    run(snippet.recurrence_backward, [grad, a, h], {"grad_a": grad_a, "grad_x": grad_x}, loaded=(0, 1, 1))
    run(snippet.cummax_backward, [grad, x, h], {"grad_x": grad_x}, loaded=(0, 0, 0, 1, 1))


KERNELS = {
    snippet.scan_kernel: ("x h", {"MAXIMUM": False, "NEUTRAL": 0.0}),
    snippet.recurrence_kernel: ("a x h", {}),
    snippet.recurrence_backward_kernel: ("grad a h grad_a grad_x", {}),
    snippet.cummax_backward_kernel: ("grad x h grad_x", {}),
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_offsets_are_computed_in_64_bits(kernel, axis, reverse):
    """The program past 2**31, told of more elements than there are; and steps far apart."""
    names, more = KERNELS[kernel]
    given = [torch.zeros(1) for _ in names.split()]
    options = {"REVERSE": reverse, "AXIS": axis, "BLOCK": 2, "WIDTH": 2, "COMPUTE": snippet.tl.float32, "STAGES": 1}
    if axis:  # 2**30 rows of 8, of which this program has two
        row, sizes, unit = 2**29, (1, 2**31 - 1, 1), 8
        steps = [row * 2 * 8 + i for i in range(16)]
    else:  # 6 steps of 2**29 columns, so the last two are far, too; of the second such matrix the first two columns
        row, sizes, unit = 2**28, (6, 2, 2**26), 8
        steps = [(6 + step) * 2**29 + column for step in range(6) for column in range(2)]
    with recorded_accesses(first_program=(row, 0, 0), memory=False) as seen:
        kernel[(1,)](*given, *sizes, UNIT=unit, **options, **more)
    for tensor in given:
        near = [(int(a) - tensor.data_ptr()) // 4 for _, found in seen for a in found]
        assert set(near) & set(steps), "no access where it should be"
    begins = [each.data_ptr() for each in given]
    for _, found in seen:
        assert all(any((int(a) - begin) // 4 in steps for begin in begins) for a in found)


def test_the_same_bits_each_time(device):
    for name in SCANS:
        inputs = tensors(name, (4, 50), torch.float32, device)
        one, other = (results(SCANS[name][0], inputs, numbers((4, 50), torch.float32, device, 9)) for _ in range(2))
        for a, b in zip(one, other, strict=True):
            check_same_bits(a, b)


# As PyTorch calls it


@scans
def test_an_incoming_gradient_of_stride_0(device, name):
    """What .sum() passes back: one number, expanded."""
    ours, reference, _ = SCANS[name]
    inputs = tensors(name, (3, 2, 7), torch.float64, device)
    found = results(lambda *each: ours(*each, 1).transpose(0, 2).sum(), inputs, None)
    wanted = results(lambda *each: reference(*each, 1, False).sum(), inputs, None)
    assert all(torch.allclose(a, b) for a, b in zip(found, wanted, strict=True))


@pytest.mark.parametrize("which", range(2))
def test_a_gradient_for_one_of_them(device, which):
    inputs = tensors("recurrence", (3, 5), torch.float64, device)
    leaves = [each.detach().requires_grad_(i == which) for i, each in enumerate(inputs)]
    (found,) = torch.autograd.grad(recurrence(*leaves).square().sum(), leaves[which])
    wanted = torch.autograd.grad(recurrence_in_torch(*leaves).square().sum(), leaves[which])[0]
    assert torch.allclose(found, wanted)
    assert not recurrence(*inputs).requires_grad


def test_an_input_overwritten_before_the_backward_is_noticed(device):
    a, x = (torch.ones(2, 3, device=device, requires_grad=True) for _ in range(2))
    for changed in (a, None):
        h = recurrence(a, x)
        with torch.no_grad():
            (h if changed is None else changed).mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            h.sum().backward()


@scans
def test_under_torch_compile(device, name):
    torch.compiler.reset()
    ours, reference, _ = SCANS[name]
    turned = lambda f: lambda *each: f(*(2 * t.transpose(0, 1) for t in each))
    compiled = torch.compile(
        turned(lambda *each: ours(*each, 1, reverse=True)),
        fullgraph=True,
        backend="inductor" if device == "cuda" else "aot_eager",
    )
    for shape in ((4, 3, 7), (5, 2, 9)):  # the second may be compiled for any shape
        inputs = [each.transpose(0, 1).contiguous() for each in tensors(name, shape, torch.float64, device)]
        grad = numbers(shape, torch.float64, device, 9).transpose(0, 1).contiguous().transpose(0, 1)
        found, wanted = (results(f, inputs, grad) for f in (compiled, turned(lambda *e: reference(*e, 1, True))))
        for a, b in zip(found, wanted, strict=True):
            assert torch.allclose(a, b)


@pytest.mark.parametrize("layout", ["contiguous", "turned"])
def test_the_ops_keep_what_they_promise_the_compiler(device, layout):
    a, x, grad = (LAYOUTS[layout](numbers((3, 4), torch.float32, device, i)).detach() for i in range(3))
    leaves = lambda *each: [t.detach().requires_grad_() for t in each]
    opcheck = torch.library.opcheck
    opcheck(snippet.recurrence_op, (*leaves(a, x), 1, False))
    opcheck(snippet.scan_op, (*leaves(x), 0, True, False))
    opcheck(snippet.scan_op, (*leaves(x), 1, False, True))
    opcheck(snippet.recurrence_backward_op, (grad, a, x, 1, True))
    opcheck(snippet.cummax_backward_op, (grad, a, x, 0, False))


def test_saves_what_it_says():
    saved = []
    a, x = (numbers((3, 4), torch.float32, "cpu", i).requires_grad_() for i in range(2))
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.data_ptr()) or t, lambda t: t):
        h = recurrence(a, x)
        assert saved == [a.data_ptr(), h.data_ptr()]
        cumsum(x)
        assert len(saved) == 2
        h = cummax(x)
        assert saved[2:] == [x.data_ptr(), h.data_ptr()]


# What is refused


def test_a_gradient_of_another_dtype_is_refused(device):
    x = torch.ones(2, 3, device=device)
    with pytest.raises(ValueError, match="x and grad must have the same shape and dtype"):
        snippet.recurrence_backward(x.half(), x, x, 0, False)


@pytest.mark.parametrize("shape, dim", [((2**31,), 0), ((2**31 - 2**12, 1), 0)], ids=str)
def test_refuses_too_many_steps(shape, dim):
    with pytest.raises(ValueError, match="steps are too many"):
        snippet.check_arguments(dim, x=without_memory(*shape, dtype=torch.float32))


@pytest.mark.parametrize(
    "shape, message",
    [((2**43, 1, 64), "series are too many for one launch"), ((1, 64, 2**26), "elements apart are too many")],
    ids=str,
)
def test_refuses_too_many_series(shape, message):
    x = without_memory(*shape, dtype=torch.float32)
    with pytest.raises(ValueError, match=message):
        snippet.launch(None, [x, x], 1, False, None)


# The file as a script, and compiled


CODE = """
for shape, dim, dtype in [((9, 3000), 1, torch.bfloat16), ((2, 128, 88), 1, torch.float32)]:
    x = torch.empty(shape, dtype=dtype)
    module.scan_forward(x, dim, False, True)
    module.recurrence_backward(x, x, x, dim, False)
    module.cummax_backward(x, x, x, dim, False)
"""


def test_compiles_to_wide_loads_and_spills_nothing():
    """For an H200, without one: 16 bytes a load, also where 8 divides a row's 3000 columns and 16 does not."""
    launches = compiled("fusion/scan", CODE)
    kernels = ["scan", "recurrence_backward", "cummax_backward"]
    assert [launch.kernel for launch in launches] == 2 * [f"{name}_kernel" for name in kernels]
    for launch in launches:
        assert (launch.widest("LDG", "LDGSTS"), launch.widest("STG"), launch.spills) == (128, 128, 0)


# On a GPU alone


@pytest.mark.gpu
@scans
@pytest.mark.parametrize("dtype", snippet.DTYPES)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    "shape, dim",
    [((4099, 768), 1), ((1000, 3000), 1), ((17, 20000), 1), ((3, 300, 1000), 1), ((500, 7), 0), ((40, 17), 1)],
    ids=str,
)
def test_real_sizes(name, shape, dim, reverse, dtype):
    inputs = tensors(name, shape, dtype, "cuda")
    if name == "recurrence":
        inputs[0] = inputs[0].abs().clamp(max=0.95)
        if shape[dim] > 5000 or (shape[dim] > 1000 and dtype in (torch.float16, torch.float64)):
            pytest.skip("a loop in torch takes too long")
    check(name, inputs, numbers(shape, dtype, "cuda", 10), dim, reverse)


@pytest.mark.gpu
@pytest.mark.parametrize("inner", [1, 1024])
def test_more_than_2_to_the_31_elements(inner):
    if torch.cuda.mem_get_info()[0] < 60e9:
        pytest.skip("needs 60 GB of free GPU memory")
    length = 8192
    outer = 2**31 // length // inner + 1
    x = torch.zeros(outer, length, inner, dtype=torch.float16, device="cuda")
    a = torch.full_like(x, 0.5)
    x[-1] = numbers((length, inner), torch.float16, "cuda")
    wanted = results(lambda a, x: recurrence(a, x, 1), [a[-1:], x[-1:]], x[-1:])
    h = snippet.recurrence_forward(a, x, 1, False)
    check_same_bits(h[-1:], wanted[0])
    assert not h[:-1].any()
    grad_a, grad_x = snippet.recurrence_backward(x, a, h, 1, False)
    check_same_bits(grad_a[-1:], wanted[1])
    check_same_bits(grad_x[-1:], wanted[2])
    assert not grad_x[:-1].any()


@pytest.mark.gpu
@scans
def test_in_a_cuda_graph(name):
    inputs = [each.requires_grad_() for each in tensors(name, (30, 9000), torch.float32, "cuda")]

    def run():
        out = SCANS[name][0](*inputs)
        return [out, *torch.autograd.grad(out, inputs, torch.ones_like(out))]

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


def test_every_gradient_fits_a_small_gpu():
    """In float64, with as many series side by side as a program takes; compiled for 99 KiB of shared memory."""
    done = run_code(
        """
import torch
from tests.snippets.launches import compiled_for
from snippets.fusion import scan

x = torch.empty(4, 4096, 64, dtype=torch.float64)
with compiled_for("RTX 5090", scan) as launches:
    scan.cummax_backward(x, x, x, 1, False)
    scan.recurrence_backward(x, x, x, 1, False)
print(len(launches))
""",
        env=environment("cuda", OMP_NUM_THREADS="1"),
        cwd=ROOT,
    )
    assert done.returncode == 0 and int(done.stdout) >= 2, done.stderr
