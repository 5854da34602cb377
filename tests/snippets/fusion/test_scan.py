# SPDX-License-Identifier: Apache-2.0
"""Running sum and recurrence: results and gradients of torch in float64, along any dimension, in blocks of any size,
whatever dtype and strides, those of the incoming gradient, too; nothing else is touched."""

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
from snippets.fusion.scan import Plan, cumsum, recurrence
from tests.processes import run_code

ROOT = Path(snippet.__file__).parents[2]

LAYOUTS = {  # of a tensor of this shape
    "contiguous": lambda t: t.clone(),
    "gaps": lambda t: torch.cat([t, t], dim=-1).clone()[..., : t.shape[-1]],
    "turned": lambda t: t.transpose(0, -1).contiguous().transpose(0, -1),
    "flipped sign": lambda t: torch._neg_view(-t),
    "every other": lambda t: torch.stack([t, t], dim=-1).clone()[..., 0],
    "stride 0": lambda t: t[:1].clone().expand(t.shape) if len(t) else t,
}


def cumsum_reverse(x, dim=-1):
    return cumsum(x, dim, reverse=True)


def recurrence_in_torch(a, x, dim=-1):
    """Compute the recurrence by torch, step by step."""
    h, steps = torch.zeros_like(x.select(dim, 0)), []
    for a_t, x_t in zip(a.unbind(dim), x.unbind(dim), strict=True):
        h = a_t * h + x_t
        steps.append(h)
    return torch.stack(steps, dim)


# ours, and the same in torch
SCANS = {
    "cumsum": (cumsum, torch.cumsum),
    "cumsum, reverse": (cumsum_reverse, lambda x, dim=-1: x.flip(dim).cumsum(dim).flip(dim)),
    "recurrence": (recurrence, recurrence_in_torch),
}
scans = pytest.mark.parametrize("name", SCANS)
BLOCKS = [Plan(2, 1, 1), Plan(4, 2, 1), Plan(8, 4, 1), Plan(32, 1, 1)]


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
    return mock.patch.object(snippet, "plan", lambda count, length, inner: by)


def numbers(shape, dtype, device, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(device, dtype)


def tensors(name, shape, dtype, device, seed=0):
    """What the scan is called with; gates from -1.1 to 1.1."""
    x = numbers(shape, dtype, device, seed + 1)
    return [1.1 * torch.tanh(numbers(shape, dtype, device, seed)), x] if name == "recurrence" else [x]


def results(function, inputs, grad):
    """The result and the gradients, of leaves that lie in memory as ``inputs`` do."""
    leaves = [each.detach().requires_grad_() for each in inputs]
    out = function(*leaves)
    return [out.detach(), *torch.autograd.grad(out, leaves, grad)]


def check(name, inputs, grad, dim=-1):
    """Compare with torch in float64: off by a few eps of the sum of sizes at most, and by one rounding."""
    ours, reference = SCANS[name]
    found = results(lambda *each: ours(*each, dim), inputs, grad)
    wide = [each.double() for each in inputs]
    in_torch = lambda *each: reference(*each, dim)
    if not inputs[0].numel():
        exact = sizes = [torch.zeros_like(each) for each in (inputs[-1], *inputs)]
    else:
        exact = results(in_torch, wide, grad.double())
        sizes = results(in_torch, [each.abs() for each in wide], grad.double().abs())
    dtype = inputs[0].dtype
    eps = torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).eps
    stored = torch.finfo(dtype)
    for i, (actual, expected, size) in enumerate(zip(found, exact, sizes, strict=True)):
        assert actual.is_contiguous() and actual.shape == expected.shape and actual.dtype == dtype
        rounded = stored.eps * (size if name == "recurrence" else expected.abs())  # the h that a backward reads, too
        allowed = 64 * eps * size + 2 * rounded + stored.tiny
        wrong = ((actual.double() - expected).abs() <= allowed).logical_not()  # a NaN is wrong, too
        assert not wrong.any(), f"{name} {i}: {actual[wrong][:3]}, should be {expected[wrong][:3]}"


@pytest.mark.long  # a GPU's kernels are compiled, for each block and dtype
@scans
@example((3, 40), 1, 1, ["turned", "gaps", "stride 0"], 0, torch.float32)
@example((3, 9, 5), 1, 1, ["contiguous", "turned", "stride 0"], 0, torch.float32)
@example((2, 5, 16), 1, 2, ["contiguous"] * 3, 0, torch.float16)
@example((5, 16), 0, 0, ["flipped sign", "every other", "turned"], 0, torch.float64)
@given(
    shape=st.tuples(st.integers(0, 3), st.integers(0, 13))
    | st.tuples(st.integers(0, 2), st.integers(0, 5), st.integers(0, 5))
    | st.tuples(st.integers(0, 20)),
    dim=st.integers(-1, 2),
    by=st.sampled_from(range(len(BLOCKS))),
    layouts=st.lists(st.sampled_from(list(LAYOUTS)), min_size=3, max_size=3),
    seed=st.integers(0, 999),
    dtype=st.sampled_from([torch.float32, torch.float16, torch.float64]),
)
def test_as_torch_computes_it_in_float64(device, name, shape, dim, by, layouts, seed, dtype):
    inputs = tensors(name, shape, dtype, device, seed)
    inputs = [LAYOUTS[layout](each) for each, layout in zip(inputs, layouts, strict=False)]
    grad = LAYOUTS[layouts[2]](numbers(shape, dtype, device, seed + 10))
    off = garbage_in_lanes_that_are_off() if device == "cpu" else contextlib.nullcontext()
    with off, planned(BLOCKS[by]):
        check(name, inputs, grad, dim % len(shape) if dim >= 0 else dim)


@scans
@pytest.mark.parametrize("shape, dim", [((2, 70), 1), ((1, 5, 70), 1), ((700, 2), 1)], ids=str)
def test_as_planned(device, name, shape, dim):
    check(name, tensors(name, shape, torch.float32, device), numbers(shape, torch.float32, device, 9), dim)


def test_plans():
    for length in (1, 2, 100, 1024, 4096, 4097, 10**6, 2**31 - 2**13):
        for inner in (1, 2, 63, 64, 4096):
            for outer in (1, 5, 10**6):
                by = snippet.plan(outer * inner, length, inner)
                elements = by.block * by.width
                assert 1 <= by.num_warps <= 8 and elements <= 2048
                assert by.block >= length or elements == 2048
                assert by.width >= min(inner, 64) and by.width < max(2 * outer * inner, 2)


def test_short_rows_share_a_program():
    assert snippet.plan(10**4, 8, 1).width == 128 and snippet.plan(3, 8, 1).width == 4


def test_a_gate_of_0_begins_anew(device):
    a = torch.tensor([0.5, 0.5, 0.0, 0.5, 0.0], device=device)
    x = torch.tensor([8.0, 2.0, 4.0, 2.0, 1.0], device=device)
    with planned(Plan(2, 1, 1)):
        assert recurrence(a, x).tolist() == [8, 6, 4, 4, 1]


@pytest.mark.filterwarnings("ignore:.* encountered in")  # NumPy's
def test_a_product_of_gates_beyond_the_largest_number_is_told(device):
    """As the docstring says: 0 times infinity, where step by step all would be 0."""
    a, x = torch.full((4,), 1e30, device=device), torch.zeros(4, device=device)
    assert recurrence(a, x)[0] == 0 and recurrence(a, x)[1:].isnan().all()
    assert recurrence(a.double(), x.double()).tolist() == [0.0] * 4


def test_half_precision_is_added_up_in_float32(device):
    """In float16, 2048 + 1 is 2048."""
    x = torch.ones(2100, dtype=torch.float16, device=device)
    assert cumsum(x)[2099].item() == 2100
    assert recurrence(x, x)[2099].item() == 2100


def check_rounded_once(found, exact):
    """To float16: off by half of a unit in the last place, and by little more for what float32 is off."""
    unit = torch.ldexp(torch.ones_like(exact), torch.frexp(exact).exponent - 11)
    wrong = ((found.double() - exact).abs() <= 0.51 * unit).logical_not()
    assert found.dtype == torch.float16 and not wrong.any(), f"{found[wrong][:3]}, should be {exact[wrong][:3]}"


def test_half_precision_is_rounded_once(device):
    """Gates, their products, sums and gradients are float32 until they are stored. Nothing here is negative."""
    a, x, grad = (numbers((2, 40), torch.float16, device, seed).abs().clamp(0.1, 1.5) for seed in range(3))
    zero = torch.zeros(2, 1, dtype=torch.float64, device=device)
    with planned(Plan(16, 2, 1)):
        h = snippet.recurrence_forward(a, x, 1)
        check_rounded_once(h, recurrence_in_torch(a.double(), x.double()))
        grad_a, grad_x = snippet.recurrence_backward(grad, a, x, 1)  # any h will do
    gates = torch.cat([a.double()[:, 1:], zero], dim=1)  # of the step that comes after
    exact = recurrence_in_torch(gates.flip(1), grad.double().flip(1)).flip(1)
    check_rounded_once(grad_x, exact)
    check_rounded_once(grad_a, exact * torch.cat([zero, x.double()[:, :-1]], dim=1))


@pytest.mark.filterwarnings("ignore:invalid value")  # NumPy's
def test_nan_and_infinity_stay_in_their_series(device):
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([[1.0, nan, 3.0, 2.0], [1.0, -inf, inf, 2.0], [-inf, -inf, 1.0, 2.0]], device=device)
    quiet = nan_as_on_a_gpu() if device == "cpu" else contextlib.nullcontext()
    with planned(Plan(2, 2, 1)), quiet:
        for ours, reference in (SCANS["cumsum"], SCANS["cumsum, reverse"]):
            assert torch.equal(ours(x).nan_to_num(7.0), reference(x, -1).nan_to_num(7.0))
        h = recurrence(torch.ones_like(x), x)
    assert h[0].isnan().any() and not h[2].isnan().any()


# Nothing else is touched


def guarded(shape, device):
    return Guarded(shape, torch.float32, device, before=64, after=64, fill=0xFF)


@pytest.mark.parametrize("shape, dim", [((1, 1), 1), ((3, 5), 1), ((2, 8), 1), ((2, 5, 3), 1), ((5, 8), 0)], ids=str)
def test_each_element_is_touched_once_and_nothing_else(device, shape, dim):
    a, x, grad, h, grad_a, grad_x = every = [guarded(shape, device) for _ in range(6)]
    seen = lambda: recorded_accesses() if device == "cpu" else contextlib.nullcontext()

    def run(function, given, outs, *more, loaded=None):
        for i, each in enumerate(given):
            each.tensor.copy_(numbers(shape, torch.float32, device, i))
        with handed_out("empty", *[each.tensor for each in outs.values()]), seen() as accesses:
            function(*[each.tensor for each in given], dim, *more, by=Plan(4, 2, 1))
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

    run(snippet.cumsum_forward, [x], {"h": h}, False)
    run(snippet.cumsum_forward, [x], {"h": h}, True)
    run(snippet.recurrence_forward, [a, x], {"h": h})
    run(snippet.recurrence_backward, [grad, a, h], {"grad_a": grad_a, "grad_x": grad_x}, loaded=(0, 1, 1))


KERNELS = {  # tensors, options
    "sums": (snippet.cumsum_kernel, 2, {"REVERSE": False}),
    "sums, reverse": (snippet.cumsum_kernel, 2, {"REVERSE": True}),
    "recurrence": (snippet.recurrence_kernel, 3, {}),
    "backward": (snippet.recurrence_backward_kernel, 5, {}),
}


@pytest.mark.parametrize("rows", [True, False])
@pytest.mark.parametrize("name", KERNELS)
def test_offsets_are_computed_in_64_bits(name, rows):
    """The program past 2**31, told of more elements than there are; and steps far apart."""
    kernel, tensors, more = KERNELS[name]
    given = [torch.zeros(1) for _ in range(tensors)]
    if rows:  # 2**31 - 1 rows of 8, of which this program has two
        pid, sizes, units = 2**29, (2**31 - 1, 1, 1), {"LENGTH_UNIT": 8, "INNER_UNIT": 1}
        steps = [pid * 2 * 8 + i for i in range(16)]
    else:  # 6 steps of 2**29 columns, so the last two are far, too; of the second such table the first two columns
        pid, sizes, units = 2**28, (2**30, 6, 2**26), {"LENGTH_UNIT": 1, "INNER_UNIT": 8}
        steps = [(6 + step) * 2**29 + column for step in range(6) for column in range(2)]
    with recorded_accesses(first_program=(pid, 0, 0), memory=False) as seen:
        kernel[(1,)](*given, *sizes, **units, BLOCK=2, WIDTH=2, COMPUTE=snippet.tl.float32, **more)
    begins = [each.data_ptr() for each in given]
    for begin in begins:
        near = [(int(a) - begin) // 4 for _, found in seen for a in found]
        assert set(near) & set(steps), "no access where it should be"
    for _, found in seen:
        assert all(any((int(a) - begin) // 4 in steps for begin in begins) for a in found)


def test_the_same_bits_each_time(device):
    for name in SCANS:
        inputs = tensors(name, (4, 50), torch.float32, device)
        one, other = (results(SCANS[name][0], inputs, numbers((4, 50), torch.float32, device, 9)) for _ in range(2))
        for a, b in zip(one, other, strict=True):
            check_same_bits(a, b)


# As PyTorch calls it


def test_a_sum_has_a_gradient_of_its_gradient(device):
    x = numbers((2, 5), torch.float64, device).requires_grad_()
    for reverse in (False, True):
        assert torch.autograd.gradgradcheck(lambda x, r=reverse: cumsum(x, 0, reverse=r).square(), (x,))


def test_saves_what_it_says():
    saved = []
    a, x = (numbers((3, 4), torch.float32, "cpu", i).requires_grad_() for i in range(2))
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.data_ptr()) or t, lambda t: t):
        h = recurrence(a, x)
        assert saved == [a.data_ptr(), h.data_ptr()]
        cumsum(x)
        assert len(saved) == 2


# What is refused


@pytest.mark.parametrize("shape, dim", [((2**31,), 0), ((2**31 - 2**12, 1), 0)], ids=str)
def test_refuses_too_many_steps(shape, dim):
    with pytest.raises(ValueError, match="steps are too many"):
        snippet.check_arguments(dim, x=without_memory(*shape, dtype=torch.float32))


def test_refuses_too_many_series():
    with pytest.raises(ValueError, match="8796093022208 series are too many for one launch"):
        snippet.launch(None, [without_memory(2**43, 2048, dtype=torch.float32)], 0, 1, None)


# Compiled


CODE = """
for shape, dim, dtype in [((9, 3000), 1, torch.bfloat16), ((2, 128, 88), 1, torch.float32)]:
    x = torch.empty(shape, dtype=dtype)
    module.cumsum_forward(x, dim, False)
    module.recurrence_forward(x, x, dim)
    module.recurrence_backward(x, x, x, dim)
"""


def test_compiles_to_wide_loads_and_spills_nothing():
    """For an H200, without one: 16 bytes a load, also where 8 divides a row's 3000 columns and 16 does not."""
    launches = compiled("fusion/scan", CODE)
    kernels = ["cumsum", "recurrence", "recurrence_backward"]
    assert [launch.kernel for launch in launches] == 2 * [f"{name}_kernel" for name in kernels]
    for launch in launches:
        assert (launch.widest("LDG", "LDGSTS"), launch.widest("STG"), launch.spills) == (128, 128, 0)


# On a GPU alone


@pytest.mark.gpu
@scans
@pytest.mark.parametrize("dtype", snippet.DTYPES)
@pytest.mark.parametrize(
    "shape, dim",
    [((4099, 768), 1), ((1000, 3000), 1), ((17, 20000), 1), ((3, 300, 1000), 1), ((500, 7), 0), ((40, 17), 1)],
    ids=str,
)
def test_real_sizes(name, shape, dim, dtype):
    inputs = tensors(name, shape, dtype, "cuda")
    if name == "recurrence":
        inputs[0] = inputs[0].abs().clamp(max=0.95)
        if shape[dim] > 5000 or (shape[dim] > 1000 and dtype in (torch.float16, torch.float64)):
            pytest.skip("a loop in torch takes too long")
    check(name, inputs, numbers(shape, dtype, "cuda", 10), dim)


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
    h = snippet.recurrence_forward(a, x, 1)
    check_same_bits(h[-1:], wanted[0])
    assert not h[:-1].any()
    grad_a, grad_x = snippet.recurrence_backward(x, a, h, 1)
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
    scan.cumsum_forward(x, 1, True)
    scan.recurrence_backward(x, x, x, 1)
print(len(launches))
""",
        env=environment("cuda", OMP_NUM_THREADS="1"),
        cwd=ROOT,
    )
    assert done.returncode == 0 and int(done.stdout) >= 2, done.stderr
