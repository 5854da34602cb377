# SPDX-License-Identifier: Apache-2.0
"""Softmax of long rows: result and gradient of torch in float64, by each of the three ways, whatever the shape, dtype
and strides, those of the incoming gradient, too; each element is touched as often as the docstring says, and nothing
else is; the same through ``autograd.Function``, the custom op and ``torch.compile``."""

import contextlib
import math
import re
from collections import Counter
from unittest import mock

import pytest
import torch
from compiled import compiled
from guards import (
    Guarded,
    check_each_once,
    check_inside,
    check_same_bits,
    handed_out,
    nan_as_on_a_gpu,
    recorded_accesses,
    without_memory,
)
from hypothesis import example, given
from hypothesis import strategies as st

from snippets.fusion import long_softmax as snippet
from snippets.fusion import long_softmax_steps as steps
from snippets.fusion.long_softmax import Plan, plan, softmax, softmax_op
from snippets.tools.testing import addresses_of, ragged_sizes

BLOCK = 8
WAYS = {  # to go about rows of these many columns, in small blocks
    "whole": lambda columns: Plan("whole", snippet.triton.next_power_of_2(max(columns, 1)), 1),
    "online": lambda columns: Plan("online", BLOCK, 1),
    "split in 2": lambda columns: Plan("split", BLOCK, 1, parts=2),
    "split in 5": lambda columns: Plan("split", BLOCK, 1, parts=5),
}
ways = pytest.mark.parametrize("way", WAYS)
functions = pytest.mark.parametrize("function", [softmax, softmax_op], ids=["function", "op"])
silent = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy in the interpreter: inf - inf, 0 / 0

LAYOUTS = {  # of a tensor of this shape; two of them repeat some of its values
    "contiguous": lambda t: t.clone(),
    "gaps": lambda t: torch.cat([t, t], dim=-1)[..., : t.shape[-1]],
    "every second row": lambda t: torch.cat([t, t], dim=-1).view(*t.shape[:-1], 2, t.shape[-1])[..., 0, :],
    "transposed": lambda t: t.transpose(0, -1).contiguous().transpose(0, -1),
    "rows swapped": lambda t: t.transpose(0, -2).contiguous().transpose(0, -2),
    "one row, many times": lambda t: t[:1].expand_as(t),
    "one number, many times": lambda t: t[..., :1].expand_as(t) if t.numel() else t,
    "flipped sign": lambda t: torch._neg_view(-t),
}


def served(device):
    return [dtype for dtype in snippet.DTYPES if device == "cuda" or dtype != torch.bfloat16]


def numbers(shape, dtype, device, seed=0, scale=3.0, start=0.0):
    random = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=random, dtype=torch.float64) * scale + start).to(device, dtype)


def by_the(way):
    """A patch: whoever asks for a plan gets one of this way."""
    return mock.patch.object(snippet, "plan", lambda rows, columns, *_, **__: WAYS[way](columns))


def as_torch(function, x, grad):
    return steps.as_torch(steps.with_gradient(function, x, grad), x, grad)


def close(name, actual, exact, allowed):
    """``allowed``: what comes of computing; the store rounds in addition, and may make 0 of the smallest."""
    stored = torch.finfo(actual.dtype)
    allowed = allowed + stored.eps * exact.abs() + stored.tiny
    wrong = ((actual.double() - exact).abs() <= allowed).logical_not()  # a NaN is wrong, too
    assert not wrong.any(), f"{name}: {actual[wrong][:3]}, should be {exact[wrong][:3]}"


def eps_of(x):
    return torch.finfo(torch.float64 if x.dtype == torch.float64 else torch.float32).eps


def check_forward(y, x):
    """Errors: of a sum of positive terms, of exponents, and of each rescaling; those move by no more than the range."""
    assert (y.shape, y.dtype, y.is_contiguous()) == (x.shape, x.dtype, True)
    if x.numel():
        exact = torch.softmax(x.double(), dim=-1)
        low, high = x.double().aminmax(dim=-1, keepdim=True)
        close("y", y, exact, eps_of(x) * (3 * x.shape[-1] + 8 + 4 * (high - low)) * exact)


def check_backward(grad_x, grad, y):
    assert (grad_x.shape, grad_x.dtype, grad_x.is_contiguous()) == (y.shape, y.dtype, True)
    if y.numel():
        g, shares = grad.double(), y.double()
        products = g * shares
        exact = shares * (g - products.sum(dim=-1, keepdim=True))
        size = shares.abs() * (g.abs() + products.abs().sum(dim=-1, keepdim=True))
        close("grad_x", grad_x, exact, eps_of(y) * (y.shape[-1] + 8) * size)


@ways
@silent
@example((2, 1, 33), ("gaps", "transposed", "contiguous"), 3.0, 0.0, 0, None)
@example((3, 2, 17), ("contiguous", "one number, many times", "contiguous"), 3.0, -1000.0, 0, None)
@example((2, 3, 24), ("rows swapped", "every second row", "contiguous"), 40.0, 1000.0, 0, None)
@given(
    shape=st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 40)),
    layouts=st.tuples(*[st.sampled_from(list(LAYOUTS))] * 3),
    scale=st.sampled_from([0.0, 0.1, 3.0, 40.0]),
    start=st.sampled_from([0.0, -1000.0, 1000.0]),
    seed=st.integers(0, 999),
    data=st.data(),
)
def test_as_torch_computes_it_in_float64(device, way, shape, layouts, scale, start, seed, data):
    dtype = torch.float32 if data is None else data.draw(st.sampled_from(served(device)))
    x, grad, shares = (numbers(shape, dtype, device, seed + i, scale, start * (i == 0)) for i in range(3))
    by = WAYS[way](shape[-1])
    x, grad = LAYOUTS[layouts[0]](x), LAYOUTS[layouts[1]](grad)
    check_forward(snippet.forward(x, by), x)
    y = LAYOUTS[layouts[2]](torch.softmax(shares.double(), dim=-1).to(dtype))
    check_backward(snippet.backward(grad, y, by), grad, y)


@pytest.mark.parametrize("columns", [*list(ragged_sizes(2048))[1:], 2**15, 2**15 + 1])
@pytest.mark.parametrize("rows", [2, 140])
def test_by_the_plan_of_the_snippet(device, rows, columns):
    if rows > 2 and columns < 2**15:
        return  # whole, like the others
    x, grad = (numbers((1, columns), torch.float32, device, seed) for seed in range(2))
    x = x.expand(rows, columns) if rows > 2 else torch.cat([x, x.flip(1)])
    with only_the_first_programs(24 * (rows > 2)):  # those of two rows at least
        y = snippet.forward(x)
        check_forward(y[:2], x[:2])
        check_backward(snippet.backward(grad.expand(rows, columns), y)[:2], grad.expand(2, columns), y[:2])


def only_the_first_programs(number):
    """In the interpreter, which takes its time: of a launch of very many, only the first run."""
    from triton.runtime.interpreter import GridExecutor

    call = GridExecutor.__call__

    def shorter(self, *arguments, **options):
        self.grid = (min(self.grid[0], number or self.grid[0]),)
        return call(self, *arguments, **options)

    return mock.patch.object(GridExecutor, "__call__", shorter)


# What is read and written


def guarded(shape, device, dtype=torch.float32):
    return Guarded(shape, dtype, device, before=64, after=8 * BLOCK, fill=0xFF)


def counted(accesses, op, tensor):
    """How often each element of ``tensor`` was touched."""
    inside = set(addresses_of(tensor).tolist())
    touched = Counter(at for kind, found in accesses if kind == op for at in found.tolist() if at in inside)
    return sorted({touched[at] for at in inside})


@ways
@pytest.mark.parametrize("columns", [1, 2, 7, 8, 9, 16, 17, 40, 41, 47])
def test_each_element_is_touched_as_often_as_said_and_nothing_else(device, way, columns):
    rows, by = 3, WAYS[way](columns)
    buffers = x, grad, y, out, grad_x = [guarded((rows, columns), device) for _ in range(5)]
    for seed, buffer in enumerate((x, grad, y)):
        buffer.tensor.copy_(numbers((rows, columns), torch.float32, device, seed))
    partial, made = [], []
    if by.way == "split":
        parts, *_ = snippet.shared_out(x.tensor, by)
        partial = [guarded((2, rows, parts), device) for _ in range(2)]
        made = [each.tensor for each in partial]
    seen = lambda: recorded_accesses() if device == "cpu" else contextlib.nullcontext()
    with handed_out("empty", out.tensor, *made[:1]), seen() as forward:
        assert snippet.forward(x.tensor, by) is out.tensor
    with handed_out("empty", grad_x.tensor, *made[1:]), seen() as backward:
        assert snippet.backward(grad.tensor, y.tensor, by) is grad_x.tensor
    check_forward(out.tensor, x.tensor)
    check_backward(grad_x.tensor, grad.tensor, y.tensor)
    for buffer in (*buffers, *partial):
        buffer.check("a tensor")
    if device == "cpu":
        times = [1 if by.way == "whole" else 2]
        assert counted(forward, "load", x.tensor) == times
        assert counted(backward, "load", grad.tensor) == counted(backward, "load", y.tensor) == times
        room = {"room": made[0]} if made else {}
        check_inside(forward, "load", x=x.tensor, **room)
        check_each_once(forward, "store", out=out.tensor, **room)
        if made:
            assert counted(forward, "load", made[0]) == [parts]
            room = {"room": made[1][0]}
            assert counted(backward, "load", made[1][0]) == [parts]
        check_inside(backward, "load", grad=grad.tensor, y=y.tensor, **room)
        check_each_once(backward, "store", grad_x=grad_x.tensor, **room)


# What is special


@ways
@silent
@pytest.mark.parametrize("drops", [False, True], ids=["", "maximum drops NaN"])
def test_infinities_and_nan_as_in_torch(device, way, drops):
    inf, nan = math.inf, math.nan
    specials = [
        [-inf] * 20,
        [-inf] * 19 + [2.0],
        [-inf] * 8 + [0.0] * 4 + [-inf] * 8,
        [1.0] * 8 + [-inf] * 12,
        [2.0, -inf] * 10,
        [0.0] * 10 + [inf] + [0.0] * 9,
        [inf] + [0.0] * 19,
        [0.0] * 19 + [inf],
        [-inf] * 8 + [inf] + [-inf] * 11,
        [0.0] * 19 + [nan],
        [nan] + [0.0] * 19,
        [-inf] * 10 + [nan] + [-inf] * 9,
        [nan] * 20,
        [-1e38] * 10 + [1e38] * 10,
        [-3.4e38] * 20,
        [-torch.finfo(torch.float32).max] * 20,
        [3.4e38] + [-3.4e38] * 19,
    ]
    x = torch.tensor(specials, device=device)
    grad = numbers(x.shape, torch.float32, device)
    by = WAYS[way](20)
    with nan_as_on_a_gpu() if drops and device == "cpu" else contextlib.nullcontext():
        y = snippet.forward(x, by)
        assert torch.allclose(y.double(), torch.softmax(x.double(), dim=-1), equal_nan=True, rtol=1e-5)
        found, wanted = snippet.backward(grad, y, by), y * (grad - (y * grad).sum(dim=-1, keepdim=True))
        assert torch.allclose(found, wanted, equal_nan=True, rtol=1e-4, atol=1e-6)


@ways
@silent
def test_what_float32_cannot_hold(device, way):
    """float64 stays float64: such numbers lie below the lowest float32."""
    x = torch.tensor([[-1e300] * 20, [-1e300] * 19 + [0.0], [1e300] + [0.0] * 19], dtype=torch.float64, device=device)
    assert torch.equal(snippet.forward(x, WAYS[way](20)), torch.softmax(x, dim=-1))


@ways
def test_what_the_dtype_cannot_hold_on_the_way(device, way):
    """float16 ends at 65504, and 1 + 2**-11 is 1 in it: sums are of float32."""
    x = torch.zeros(2, 5000, dtype=torch.float16, device=device)
    x[1, 0] = 12
    by = WAYS[way](5000)._replace(**({} if way == "whole" else {"block": 512}))
    check_forward(snippet.forward(x, by), x)
    y, grad = torch.full_like(x, 0.5), torch.full_like(x, 100)
    grad[:, ::2] = -100
    grad[0, 0] = 300
    check_backward(snippet.backward(grad, y, by), grad, y)


def test_every_run_gives_the_same_bits(device):
    x, grad = (numbers((2, 41), torch.float32, device, seed) for seed in range(2))
    for way in WAYS:
        first, second = (snippet.forward(x, WAYS[way](41)) for _ in range(2))
        check_same_bits(first, second)
        check_same_bits(*(snippet.backward(grad, first, WAYS[way](41)) for _ in range(2)))


@functions
def test_nothing_to_do(device, function):
    for shape in ((0,), (0, 5), (3, 0), (2, 0, 4)):
        x = torch.empty(shape, device=device, requires_grad=True)
        y = function(x)
        (grad_x,) = torch.autograd.grad(y, x, torch.empty_like(x))
        assert (y.shape, grad_x.shape, y.device.type) == (shape, shape, device)


def test_one_dimension(device):
    x, grad = (numbers((20,), torch.float32, device, seed) for seed in range(2))
    assert as_torch(softmax, x, grad)


# The gradient


@functions
@pytest.mark.parametrize("way", ["whole", "online", "split in 2"])
def test_gradcheck(device, way, function):
    if function is softmax_op and way != "online":
        return  # the same kernels
    x = numbers((1, 11), torch.float64, device).requires_grad_()
    with by_the(way):
        assert torch.autograd.gradcheck(function, (x,))


@functions
@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_incoming_gradient_of_any_strides(device, function, layout):
    """Which gradcheck never tries."""
    for way in ["online"] if function is softmax_op else WAYS:
        x, grad = (numbers((2, 2, 11), torch.float32, device, seed) for seed in range(2))
        with by_the(way):
            assert as_torch(function, x, LAYOUTS[layout](grad))


def test_incoming_gradients_that_torch_makes(device):
    weight = numbers((19, 3), torch.float32, device, 1)
    losses = [
        lambda y: y.sum(),
        lambda y: (y.t() * weight).sum(),
        lambda y: torch.cat([y, 2 * y], dim=1)[:, 5:].square().sum(),
        lambda y: (y.unsqueeze(0).expand(4, 3, 19) * weight.t()).sum(),
    ]
    for way in ["whole", "online"]:
        for loss in losses:
            x = numbers((3, 19), torch.float32, device).requires_grad_()
            with by_the(way):
                (found,) = torch.autograd.grad(loss(softmax(x)), x)
            (wanted,) = torch.autograd.grad(loss(torch.softmax(x, dim=-1)), x)
            assert torch.allclose(found, wanted, rtol=1e-4, atol=1e-6)


def test_the_result_is_kept_and_nothing_else(device):
    x = numbers((3, 5), torch.float32, device).requires_grad_()
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        y = softmax(x)
    assert [each.data_ptr() for each in saved] == [y.data_ptr()]
    assert not softmax(x.detach()).requires_grad


def test_the_op_refuses_a_gradient_of_the_gradient(device):
    x = torch.ones(3, device=device, requires_grad=True)
    (slope,) = torch.autograd.grad(softmax_op(x)[0], x, create_graph=True)
    with pytest.raises(RuntimeError, match=r"Trying to backward through .*long_softmax_backward"):
        slope.sum().backward()


# Under torch.compile


def test_under_torch_compile(device):
    torch.compiler.reset()
    compiled = torch.compile(
        lambda x: softmax(2 * x.t()).t(), fullgraph=True, backend="inductor" if device == "cuda" else "aot_eager"
    )
    for shape in ((5, 7), (6, 9)):  # the second may be compiled for any shape
        x, grad = (numbers(shape, torch.float32, device, seed) for seed in range(2))
        found, wanted = (leaf.detach().requires_grad_() for leaf in (x, x))
        ys = compiled(found), torch.softmax(2 * wanted, dim=0)
        for y in ys:
            y.backward(grad)
        assert torch.allclose(*ys, atol=1e-6) and torch.allclose(found.grad, wanted.grad, atol=1e-5)


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "flipped sign"])
def test_the_op_keeps_what_it_promises_the_compiler(device, layout):
    x = LAYOUTS[layout](numbers((3, 4), torch.float32, device)).detach()
    torch.library.opcheck(softmax_op, (x.clone().requires_grad_(),))
    torch.library.opcheck(snippet.softmax_backward_op, (x, x))


# The plan


def test_the_plan():
    wide, low = 2**15, torch.float16
    found = {
        "short": plan(1, 1),
        "not 2**n": plan(5, 1000),
        "as much as fits": plan(5, wide),
        "backward": plan(500, wide // 2, tensors=2),
        "backward, more": plan(500, wide // 2 + 1, tensors=2),
        "float16 is computed in float32": plan(500, wide + 1, low),
        "float64": plan(500, wide // 2, torch.float64),
        "float64, more": plan(500, wide // 2 + 1, torch.float64),
        "more rows than multiprocessors": plan(132, wide + 1),
        "one": plan(1, wide + 1),
        "one, long": plan(1, 2**21),
        "one, backward": plan(1, 2**21, tensors=2),
    }
    assert found == {
        "short": ("whole", 1, 1, 1),
        "not 2**n": ("whole", 1024, 2, 1),
        "as much as fits": ("whole", wide, 16, 1),
        "backward": ("whole", wide // 2, 16, 1),
        "backward, more": ("split", 4096, 8, 5),
        "float16 is computed in float32": ("split", 4096, 4, 9),
        "float64": ("whole", wide // 2, 16, 1),
        "float64, more": ("split", 4096, 4, 5),
        "more rows than multiprocessors": ("split", 4096, 4, 9),
        "one": ("split", 4096, 4, 9),
        "one, long": ("split", 4096, 4, 256),
        "one, backward": ("split", 4096, 8, 256),
    }


@given(
    rows=st.integers(1, 131),
    columns=st.integers(1, 2**31),
    block=st.sampled_from([1, 8, 2048]),
    parts=st.integers(1, 264),
    dtype=st.sampled_from([torch.float16, torch.float64]),
)
def test_no_part_is_empty_and_none_is_left_out(rows, columns, block, parts, dtype):
    x = without_memory(rows, columns, dtype=dtype)
    found, length, *room = snippet.shared_out(x, Plan("split", block, 4, parts))
    assert 1 <= found <= parts and length % block == 0
    assert (found - 1) * length < columns <= found * length
    held = torch.float64 if dtype == torch.float64 else torch.float32
    assert [(each.shape, each.dtype) for each in room] == [((rows, found), held)] * 2


@pytest.mark.parametrize("rows, columns", [(1, 2**15 + 1), (140, 2**15 + 1), (3, 300)])
def test_what_the_kernels_are_launched_with(rows, columns):
    """Nobody sees it in a result: blocks, warps, and whether the kernels are those of the plan, on this GPU."""
    x = without_memory(rows, columns)
    names = "whole", "whole_backward", "online", "online_backward"
    names = [*names, "parts", "parts_backward", "combine", "combine_backward"]
    with contextlib.ExitStack() as stack:
        kernels = {name: stack.enter_context(mock.patch.object(snippet, f"{name}_kernel")) for name in names}
        stack.enter_context(mock.patch.object(snippet, "check_arguments"))
        snippet.forward(x), snippet.backward(x, x)
    launched = {name: kernel.__getitem__ for name, kernel in kernels.items() if kernel.__getitem__.called}
    for tensors, end in ((1, ""), (2, "_backward")):
        by = plan(rows, columns, tensors=tensors)
        expected = {"split": ["parts", "combine"]}.get(by.way, [by.way])
        assert [name for name in launched if name.endswith("_backward") == bool(end)] == [n + end for n in expected]
        for name in expected:
            launched[name + end].assert_called_once_with((rows * by.parts,))
            options = launched[name + end].return_value.call_args.kwargs
            assert (options["BLOCK"], options["num_warps"]) == (by.block, by.num_warps)


def test_more_parts_than_programs_can_be_started():
    """CUDA's limit is 2**31 - 1; 2**23 rows in 256 parts are one more."""
    assert plan(2**23 - 1, 2**22) == ("split", 4096, 4, 256)
    assert plan(2**23, 2**22) == ("online", 4096, 8, 1)


def test_eight_at_a_time_where_all_lies_at_multiples_of_eight():
    found = [snippet.unit_of(*sizes) for sizes in ((3000, 3000), (3000, 3004), (4096, 0), (7, 8), (1, 1))]
    assert found == [8, 4, 8, 1, 1]


CODE = """
for rows, columns, dtype in CASES:
    x = torch.empty(rows, columns, dtype=dtype)
    module.forward(x)
    module.backward(x, x)
"""


def test_compiles_to_wide_loads_and_does_not_spill():
    """For an H200, without one: the longest rows that a program holds whole, forward and then backward; the other ways.
    What is not 16 bytes wide are the numbers of the parts."""
    sizes = [(1, 2**15, "float32"), (1, 2**14, "float32"), (1, 2**13, "float64")]
    sizes += [(1, 2**18, "bfloat16"), (140, 3000, "bfloat16")]
    cases = ", ".join(f"({rows}, {columns}, torch.{dtype})" for rows, columns, dtype in sizes)
    launches = compiled("fusion/long_softmax", CODE.replace("CASES", f"[{cases}]"))
    accesses = [sorted(set(re.findall(r"(?:LDG|STG)[.A-Z0-9]*", launch.sass))) for launch in launches]
    found = [" ".join([each.kernel, str(each.spills), *of]) for each, of in zip(launches, accesses, strict=True)]
    wide, some = "0 LDG.E.128 STG.E.128", "0 LDG.E LDG.E.128 STG.E.128"
    split, split_backward = ["parts_kernel", "combine_kernel"], ["parts_backward_kernel", "combine_backward_kernel"]
    written = "0 LDG.E.128 STG.E"
    assert found == [
        f"whole_kernel {wide}",  # 2**15
        *[f"{name} {what}" for name, what in zip(split_backward, (written, some), strict=True)],
        *[f"whole_kernel {wide}", f"whole_backward_kernel {wide}"] * 2,
        *[f"{name} {what}" for name, what in zip(split, (written, some), strict=True)],
        *[f"{name} {what}" for name, what in zip(split_backward, (written, some), strict=True)],
        *[f"whole_kernel {wide}", f"whole_backward_kernel {wide}"],
    ]


# What is refused


def ones(*shape, device, **kwargs):
    return torch.ones(*shape, device=device, **kwargs)


@pytest.mark.parametrize(
    "make, fragment",
    [
        (lambda y: y[:1], "y and grad must have the same shape, dtype and device; got (2, 3) torch.float32 on"),
        (lambda y: y.half(), "torch.float16 on"),
        (lambda y: y.to("meta"), "on meta"),
    ],
)
def test_a_gradient_of_another_kind_is_refused(device, make, fragment):
    y = ones(2, 3, device=device)
    with pytest.raises(ValueError) as error:
        snippet.backward(make(y), y)
    assert fragment in str(error.value)


def test_the_most_rows_are_not_refused():
    snippet.check_arguments(x=torch.ones(1, 1).expand(2**31 - 1, 1))


def test_refuses_under_torch_compile_too():
    torch.compiler.reset()
    with pytest.raises(ValueError, match=r"torch.int32 is not supported"):
        torch.compile(softmax, backend="eager")(torch.ones(3, dtype=torch.int32))


# Offsets


COMPUTE = {"COMPUTE": snippet.tl.float32, "BLOCK": 4}
LOWEST = {"LOWEST": torch.finfo(torch.float32).min}


@silent
@pytest.mark.parametrize("row, stride", [(2**31 - 2, 5), (2**17 + 1, 2**15), (3, 2**31 + 7)])
def test_offsets_of_rows_are_computed_in_64_bits(row, stride):
    """Tensors are told of more elements than there are."""
    a, b, out = (torch.zeros(1) for _ in range(3))
    columns = 6
    for kernel, loads, options in (
        (snippet.whole_kernel, [a], {**COMPUTE, "BLOCK": 8, "UNIT": 1}),
        (snippet.whole_kernel, [a], {**COMPUTE, "BLOCK": 8, "UNIT": 2}),
        (snippet.online_kernel, [a], LOWEST | COMPUTE),
        (snippet.whole_backward_kernel, [a, b], {**COMPUTE, "BLOCK": 8, "UNIT": 1}),
        (snippet.whole_backward_kernel, [a, b], {**COMPUTE, "BLOCK": 8, "UNIT": 2}),
        (snippet.online_backward_kernel, [a, b], COMPUTE),
    ):
        unit = options.get("UNIT", 1)
        strides = [stride // unit * unit, (stride + 2) // unit * unit][: len(loads)]
        with recorded_accesses(first_program=(row, 0, 0), memory=False) as seen:
            kernel[(1,)](*loads, out, *(size // unit for size in (columns, *strides)), **options)
        check_offsets(seen, "load", zip(loads, [row * each for each in strides], strict=True), columns)
        check_offsets(seen, "store", [(out, row * columns)], columns)


@silent
def test_offsets_of_parts_are_computed_in_64_bits():
    """Part 2 of a row, where a part is long, a row is far away, or both."""
    a, b, out, maxima, totals = (torch.zeros(1) for _ in range(5))
    for row, part, parts, length, stride in ((3, 2, 3, 8, 2**31 + 7), (0, 2, 3, 2**30 + 4, 0), (2**18, 1, 2, 2**14, 5)):
        columns, other, pid = part * length + 6, stride + 1, row * parts + part
        begin = part * length
        end = {"parts": parts, "length": length}
        for kernel, loads, room, results, options in (
            (snippet.parts_kernel, [a], [maxima, totals], [], LOWEST),
            (snippet.combine_kernel, [a], [maxima, totals], [out], LOWEST | {"PARTS": 4}),
            (snippet.parts_backward_kernel, [a, b], [totals], [], {}),
            (snippet.combine_backward_kernel, [a, b], [totals], [out], {"PARTS": 4}),
        ):
            strides = [stride, other][: len(loads)]
            with recorded_accesses(first_program=(pid, 0, 0), memory=False) as seen:
                kernel[(1,)](*loads, *room, *results, columns, *strides, **end, **options, **COMPUTE)
            starts = [row * each + begin for each in strides]
            if results:
                check_offsets(seen, "load", [*zip(loads, starts, strict=True)], 6, of=room, at=(row * parts, parts))
                check_offsets(seen, "store", [(out, row * columns + begin)], 6)
            else:
                check_offsets(seen, "load", zip(loads, starts, strict=True), 6)
                check_offsets(seen, "store", [(each, pid) for each in room], 1)


def check_offsets(seen, op, begins, columns, of=(), at=(0, 0)):
    """The first accesses are ``columns`` elements of each tensor from where it begins; of others, those ``at``."""
    found = {int(address) for kind, addresses in seen if kind == op for address in addresses}
    wanted = {t.data_ptr() + 4 * (begin + i) for t, begin in begins for i in range(columns)}
    wanted |= {t.data_ptr() + 4 * (at[0] + i) for t in of for i in range(at[1])}
    assert found == wanted


@silent
def test_a_row_of_more_than_2_to_the_31_columns():
    """Its last block: where the loops begin there."""
    columns = 2**31 + 6
    a, b, out = (torch.zeros(1) for _ in range(3))
    last = mock.patch.object(snippet, "range", lambda _, end, step: [int(end) // step * step], create=True)
    with last, recorded_accesses(memory=False) as forward:
        snippet.online_kernel[(1,)](a, out, columns, 0, **LOWEST, **COMPUTE)
    with last, recorded_accesses(memory=False) as backward:
        snippet.online_backward_kernel[(1,)](a, b, out, columns, 0, 0, **COMPUTE)
    for seen, loads in ((forward, [a]), (backward, [a, b])):
        check_offsets(seen, "load", [(each, 2**31 + 4) for each in loads], 2)
        check_offsets(seen, "store", [(out, 2**31 + 4)], 2)


# The file as a script


# On a GPU alone


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(2**17 + 1, 2**14), (2**14 + 1, 2**17), (2, 2**30 + 3), (1, 2**31 + 5)], ids=str)
def test_more_than_2_to_the_31_elements(shape):
    if torch.cuda.mem_get_info()[0] < 40e9:
        pytest.skip("needs 40 GB of free GPU memory")
    x = torch.full(shape, -math.inf, dtype=torch.float16, device="cuda")
    x[-1, -3:] = torch.tensor([1.0, 2.0, 3.0])
    x[:-1, 0] = 0
    y = snippet.forward(x)
    wanted = torch.softmax(x[-1, -3:].double(), dim=-1)
    assert torch.allclose(y[-1, -3:].double(), wanted, rtol=2e-3) and not y[-1, :-3].any()
    assert (y[:-1, 0] == 1).all()
    x.zero_()[-1, -1] = 1  # from here on, the incoming gradient
    grad_x = snippet.backward(x, y)
    shares = y[-1, -3:].double()
    expected = shares * (x[-1, -3:].double() - shares[-1])
    assert torch.allclose(grad_x[-1, -3:].double(), expected, rtol=2e-3, atol=1e-4) and not grad_x[-1, :-3].any()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", snippet.DTYPES)
@pytest.mark.parametrize("rows, columns", [(5, 300), (5, 100_001), (140, 40_000), (1, 262_144), (140, 2**15)])
def test_real_sizes_and_in_a_cuda_graph(dtype, rows, columns):
    x, grad = (numbers((rows, columns), dtype, "cuda", seed) for seed in range(2))
    expected = [y := snippet.forward(x), snippet.backward(grad, y)]
    check_forward(y, x)
    check_backward(expected[1], grad, y)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = [y := snippet.forward(x), snippet.backward(grad, y)]
    graph.replay()
    assert all(torch.equal(a, b) for a, b in zip(captured, expected, strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune"])
def test_compiled_on_a_gpu(mode):
    torch.compiler.reset()
    compiled = torch.compile(softmax, mode=mode, fullgraph=True)
    for columns in (300, 100_000):
        x, grad = (numbers((3, columns), torch.float32, "cuda", seed) for seed in range(2))
        for _ in range(3):
            assert as_torch(compiled, x, grad)
