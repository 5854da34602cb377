# SPDX-License-Identifier: Apache-2.0
"""SwiGLU and GEGLU, of two tensors and of halves: results and gradients of torch in float64, whatever shape, dtype and
strides, those of the incoming gradient, too; nothing else is touched."""

import contextlib
from pathlib import Path

import pytest
import torch
from compiled import compiled
from guards import (
    Guarded,
    check_each_once,
    check_same_bits,
    environment,
    handed_out,
    recorded_accesses,
    without_memory,
)
from hypothesis import example, given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from snippets.fusion import swiglu as snippet
from snippets.fusion.swiglu import ACTIVATIONS, backward, forward, geglu, glu, swiglu
from tests.processes import run_script

SOURCE = Path(snippet.__file__)
silent = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy in the interpreter: exp, 0 * inf
pytestmark = silent

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


def served(device):
    return [dtype for dtype in snippet.DTYPES if device == "cuda" or dtype != torch.bfloat16]


def numbers(shape, dtype, device, seed=0, scale=3.0):
    random = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=random, dtype=torch.float64) * scale).to(device, dtype)


def results(function, inputs, grad):
    """Result and gradients, of leaves that lie in memory as ``inputs`` do."""
    leaves = [each.detach().requires_grad_() for each in inputs]
    out = function(*leaves)
    return [out.detach(), *torch.autograd.grad(out, leaves, grad)]


def halves_of(x):
    return x.chunk(2, dim=-1)


def check(activation, inputs, grad, function=None):
    """Compare with torch in float64; ``inputs`` are gate and up, or one tensor of both.

    ``p`` is off by a few eps, for more of them the larger its argument; all else multiplies that; the store rounds."""
    function = function or (lambda *each: glu(*each, *[None] * (2 - len(each)), activation))
    found = results(function, inputs, grad)
    reference = snippet.in_torch if len(inputs) == 2 else snippet.halves_in_torch
    exact = results(lambda *each: reference(*each, activation), [each.double() for each in inputs], grad.double())
    dtype = inputs[0].dtype
    eps = torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).eps
    gate, up = (each.double().abs() for each in (inputs if len(inputs) == 2 else halves_of(inputs[0])))
    grads = grad.double().abs()
    sizes = [gate * up, grads * up * (1 + gate) ** 2, grads * gate]
    if len(inputs) == 1:
        sizes = [sizes[0], torch.cat(sizes[1:], dim=-1)]
    for name, actual, expected, size in zip(("out", "first", "second"), found, exact, sizes, strict=False):
        assert (actual.shape, actual.dtype, actual.is_contiguous()) == (expected.shape, dtype, True), name
        stored = torch.finfo(dtype)
        allowed = 16 * eps * size + stored.eps * expected.abs() + stored.tiny
        wrong = ((actual.double() - expected).abs() <= allowed).logical_not()  # a NaN is wrong, too
        assert not wrong.any(), f"{name}: {actual[wrong][:3]}, should be {expected[wrong][:3]}"


@pytest.mark.parametrize("halves", [False, True], ids=["two", "halves"])
@example((5, 40), ["turned", "gaps", "stride 0"], 0, None)
@example((2, 1030), ["gaps", "one more", "contiguous"], 0, None)  # two blocks a row
@example((2, 1030), ["contiguous", "contiguous", "turned"], 0, None)
@example((300, 5), ["gaps", "gaps", "wide gaps"], 0, None)  # several rows a program, more than one program
@example((3, 2, 24), ["gaps", "gaps", "turned"], 0, None)
@given(
    shape=st.tuples(st.integers(0, 9), st.integers(0, 130))
    | st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 40))
    | st.tuples(st.integers(0, 20)),
    layouts=st.lists(st.sampled_from(list(LAYOUTS)), min_size=3, max_size=3),
    seed=st.integers(0, 999),
    data=st.data(),
)
def test_as_torch_computes_it_in_float64(device, halves, shape, layouts, seed, data):
    draw = (lambda of: of[0]) if data is None else (lambda of: data.draw(st.sampled_from(of)))
    dtype, activation = draw([torch.float32, *served(device)]), draw(ACTIVATIONS)
    shapes = [(*shape[:-1], 2 * shape[-1])] if halves else [shape] * 2
    inputs = [numbers(each, dtype, device, seed + i) for i, each in enumerate(shapes)]
    inputs = [LAYOUTS[layout](each) for each, layout in zip(inputs, layouts, strict=False)]
    grad = LAYOUTS[layouts[2]](numbers(shape, dtype, device, seed + 9))
    check(activation, inputs, grad)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_small_and_large_numbers(device, activation):
    gate = torch.tensor([0.0, 1e-30, -1e-30, 1e-4, 5.0, -5.0, 20.0, -20.0, 88.0, -88.0, 200.0, -200.0, 1e4, -1e4])
    gate = gate.to(device).double().requires_grad_()
    for dtype in (torch.float32, torch.float64):
        x = gate.detach().to(dtype).requires_grad_()
        out = glu(x, torch.ones_like(x), activation)
        wanted = snippet.in_torch(gate, torch.ones_like(gate), activation)
        off = {"rtol": 1e-5, "atol": 1e-6} if dtype == torch.float32 else {"rtol": 1e-12, "atol": 1e-12}
        assert torch.allclose(out.double(), wanted, **off)
        found, wanted = (torch.autograd.grad(y.sum(), each)[0] for y, each in ((out, x), (wanted, gate)))
        assert torch.allclose(found.double(), wanted, **off)


def test_a_nan_stays_where_it_is(device):
    gate, up = torch.ones(2, 2, 5, device=device).unbind()
    gate[1, 2], up[0, 1] = float("nan"), float("inf")
    out = swiglu(gate, up)
    assert out.isfinite().sum() == 8 and out[1, 2].isnan() and out[0, 1] == float("inf")


@pytest.mark.parametrize("block_size", [2, 4, 16])
@pytest.mark.parametrize("rows, columns", [(1, 1), (1, 9), (3, 4), (4, 3), (5, 8), (3, 17)])
def test_any_block_at_any_shape(device, block_size, rows, columns):
    x = numbers((rows, 2 * columns), torch.float64, device)
    gate, up = halves_of(x)
    grad = numbers((rows, columns), torch.float64, device, 1)
    out, grads = results(snippet.halves_in_torch, [x], grad)
    for pair in ((x, None), (gate, up), (gate.contiguous(), up.contiguous())):
        assert torch.allclose(forward(*pair, "silu", block_size=block_size), out)
        found = backward(grad, *pair, "silu", block_size=block_size)
        assert torch.allclose(torch.cat(found, dim=-1), grads)


def test_rounds_once(device):
    """As float32 rounded at the end; torch rounds silu(gate) before it multiplies."""
    gate, up = (numbers((4, 500), torch.float16, device, i) for i in range(2))
    out = swiglu(gate, up)
    once = snippet.in_torch(gate.float(), up.float()).half()
    assert (out != once).float().mean() < 0.01  # but for the last bit of float32, which may tip a rounding
    assert (out != snippet.in_torch(gate, up)).float().mean() > 0.1


# Nothing else is touched


def guarded(shape, device):
    return Guarded(shape, torch.float32, device, before=64, after=64, fill=0xFF)


@pytest.mark.parametrize("halves", [False, True], ids=["two", "halves"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (2, 8), (3, 16), (9, 2)])
def test_each_element_is_touched_once_and_nothing_else(device, shape, halves):
    rows, columns = shape
    given = [guarded((rows, 2 * columns), device)] if halves else [guarded(shape, device) for _ in range(2)]
    grads = [guarded(each.shape, device) for each in given]
    grad, out = guarded(shape, device), guarded(shape, device)
    for seed, each in enumerate([*given, grad]):
        each.tensor.copy_(numbers(each.shape, torch.float32, device, seed))
    inputs = [each.tensor for each in given] + [None] * halves
    seen = lambda: recorded_accesses() if device == "cpu" else contextlib.nullcontext()
    with handed_out("empty", out.tensor, *(each.tensor for each in grads)):
        with seen() as there:
            assert forward(*inputs, "silu", block_size=8) is out.tensor
        with seen() as back:
            assert backward(grad.tensor, *inputs, "silu", block_size=8) == [each.tensor for each in grads]
    for each in [*given, *grads, grad, out]:
        each.check("a tensor")
        assert not each.tensor.isnan().any()
    if device == "cpu":
        named = lambda buffers: {str(i): each.tensor for i, each in enumerate(buffers)}
        check_each_once(there, "load", **named(given))
        check_each_once(there, "store", out=out.tensor)
        check_each_once(back, "load", **named([*given, grad]))
        check_each_once(back, "store", **named(grads))


@pytest.mark.parametrize("last", ["row", "stride", "column"])
def test_offsets_are_computed_in_64_bits(last):
    """The program past 2**31, told of more elements than there are; or row 8 of rows that lie far apart."""
    given = [torch.zeros(1) for _ in range(5)]
    far = 2**28
    rows, columns, stride = {"row": (2**28 + 2, 8, 24), "stride": (9, 8, far), "column": (1, 2**31 + 16, far)}[last]
    blocks = columns // 8
    program = rows * blocks - 1
    options = {"ACTIVATION": "silu", "COMPUTE": snippet.tl.float32, "BLOCK_ROWS": 1, "BLOCK_COLUMNS": 8}
    with recorded_accesses(first_program=(program, 0, 0), memory=False) as seen:
        snippet.glu_kernel[(1,)](*given[:3], rows, columns, blocks, stride, stride + 8, **options)
        strides = stride, stride + 8, stride + 16, stride + 24
        snippet.glu_backward_kernel[(1,)](*given, rows, columns, blocks, *strides, **options)
    found = [int(addresses[0]) // 4 for _, addresses in seen]
    forward_at = [stride, stride + 8, columns]
    backward_at = [stride, stride + 8, stride + 16, stride + 24, stride + 24]
    bases = [each.data_ptr() // 4 for each in [*given[:3], *given]]
    at = [(rows - 1) * each + columns - 8 for each in (*forward_at, *backward_at)]
    assert found == [base + offset for base, offset in zip(bases, at, strict=True)]
    assert max(at) >= 2**31


def test_a_call_that_is_copied_is_no_more_than_it_must_be(device):
    """Halves and slices of a wider tensor are read where they lie."""
    x = numbers((4, 40), torch.float32, device)
    for each in (x[:, 3:23], x[:, :20], x[2:], x.view(2, 2, 40)[..., 20:], x[::2]):
        assert snippet.as_rows(each).data_ptr() == each.data_ptr()
    assert snippet.as_rows(x.t()).is_contiguous()


# As PyTorch calls it


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradcheck(device, activation):
    gate, up = (numbers((2, 3), torch.float64, device, seed, 1.0).requires_grad_() for seed in range(2))
    x = numbers((2, 4), torch.float64, device).requires_grad_()
    assert torch.autograd.gradcheck(glu, (gate, up, activation))
    assert torch.autograd.gradcheck(glu, (x, None, activation))


def test_the_public_functions(device):
    gate, up = (numbers((3, 4), torch.float64, device, seed) for seed in range(2))
    x = torch.cat([gate, up], dim=-1)
    for function, activation in (
        (swiglu, "silu"),
        (geglu, "gelu"),
        (lambda *each: geglu(*each, approximate="tanh"), "gelu_tanh"),
    ):
        wanted = snippet.in_torch(gate, up, activation)
        assert torch.allclose(function(gate, up), wanted) and torch.allclose(function(x), wanted)
    with pytest.raises(ValueError, match='approximate must be "none" or "tanh"; got \'no\''):
        geglu(gate, up, approximate="no")


def test_an_incoming_gradient_of_stride_0(device):
    """What .sum() passes back: one number, expanded."""
    x = numbers((3, 2, 8), torch.float64, device)
    found = results(lambda x: swiglu(x).transpose(0, 2).sum(), [x], None)
    wanted = results(lambda x: snippet.halves_in_torch(x).sum(), [x], None)
    assert all(torch.allclose(a, b) for a, b in zip(found, wanted, strict=True))


@pytest.mark.parametrize("which", range(2))
def test_a_gradient_for_one_of_them(device, which):
    inputs = [numbers((3, 5), torch.float64, device, i).requires_grad_(i == which) for i in range(2)]
    (found,) = torch.autograd.grad(swiglu(*inputs).square().sum(), inputs[which])
    (wanted,) = torch.autograd.grad(snippet.in_torch(*inputs).square().sum(), inputs[which])
    assert torch.allclose(found, wanted)
    assert not swiglu(*(each.detach() for each in inputs)).requires_grad


def test_saves_its_inputs_and_no_more():
    x, up = (numbers((6, 10), torch.float32, "cpu", i).requires_grad_() for i in range(2))
    for inputs in ((x,), (x, up)):
        saved = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):  # noqa: B023
            swiglu(*inputs)
        assert [t.data_ptr() for t in saved] == [t.data_ptr() for t in inputs]


# What the page counts by hand


class Counted(TorchDispatchMode):
    """The kernels that torch runs, and how many elements they read and write, in results of ``n`` elements."""

    def __init__(self, n):
        super().__init__()
        self.n, self.kernels, self.read, self.written = n, 0, 0, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ not in ("detach", "alias", "expand", "view", "split", "slice"):
            inputs = [each for arg in args for each in (arg if isinstance(arg, (list, tuple)) else [arg])]
            self.kernels += 1
            self.read += sum(each.numel() for each in inputs if isinstance(each, torch.Tensor)) / self.n
            self.written += out.numel() / self.n
        return out


def test_the_kernels_and_elements_of_torch_that_the_page_counts():
    x, grad = numbers((8, 32), torch.float16, "cpu"), numbers((8, 16), torch.float16, "cpu", 1)
    x = x.requires_grad_()
    with Counted(128) as there:
        out = snippet.halves_in_torch(x)
    with Counted(128) as back:
        torch.autograd.grad(out, x, grad)
    assert (there.kernels, there.read, there.written) == (2, 3, 2)
    assert (back.kernels, back.read, back.written) == (4, 8, 5)


# What is refused


def ones(*shape, device, **kwargs):
    return torch.ones(*shape, device=device, **kwargs)


def test_refuses_another_activation(device):
    with pytest.raises(ValueError, match="activation must be one of silu, gelu, gelu_tanh; got 'relu'"):
        glu(ones(2, 4, device=device), None, "relu")


def test_refuses_too_many_programs():
    x = without_memory(2**31 + 1, 2)[:, :1]
    with pytest.raises(ValueError, match="2147483649 rows of 1 columns are too many for one launch"):
        snippet.launch(snippet.glu_kernel, [x, x], [without_memory(2**31 + 1, 1)], "silu", 1)


def test_a_gradient_of_another_shape_is_refused(device):
    x = ones(2, 3, device=device)
    for wrong in (ones(3, 2, device=device), x.half()):
        with pytest.raises(ValueError, match="gate and grad must have the same shape, dtype"):
            backward(wrong, x, x, "silu")


# The file as a script, and compiled


def test_prints_what_the_page_shows(device):
    done = run_script(SOURCE, env=environment(device))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "## halves",
        "row 0, gate | up:   2.0   0.0  -2.0 |   3.0   3.0   3.0",
        "row 0, out:         5.2848   0.0000  -0.7152",
        "row 1, gate | up:   1.0  -1.0   4.0 |  10.0  10.0  10.0",
        "row 1, out:         7.3106  -2.6894  39.2806",
        "## their gradient",
        "row 0:   3.2724   1.5000  -0.2724 |   1.7616   0.0000  -0.2384",
        "row 1:   9.2767   0.7233  10.5266 |   0.7311  -0.2689   3.9281",
    ]


CODE = """
x, grad, halves = (torch.empty(1000, columns, dtype=torch.bfloat16) for columns in (3000, 3008, 6016))
module.forward(x, x, "silu"), module.backward(x, x, x, "gelu")
module.forward(halves, None, "gelu"), module.backward(grad, halves, None, "silu")
one = torch.empty(1, 1)
module.forward(one, one, "silu"), module.backward(one, one, one, "silu")
columns = torch.empty(64, 6, dtype=torch.float64)[:, :1]
module.forward(columns, columns, "silu"), module.backward(columns, columns, columns, "silu")
"""


def test_compiles_to_wide_loads_and_spills_nothing():
    """For an H200, without one: 16 bytes a load and a store, where 16 divides the columns, or all elements. A thread
    has at most 64 registers of 65536, so that 1024 threads fit and more."""
    launches = compiled("fusion/swiglu", CODE)
    for launch in launches[:4]:
        assert (launch.widths("LDG"), launch.widths("STG")) == ({128}, {128})
        assert launch.spills == 0 and launch.registers <= 64
    # Triton makes a constant of an argument that is 1
    assert [launch.kernel for launch in launches] == ["glu_kernel", "glu_backward_kernel"] * 4


# On a GPU alone


@pytest.mark.gpu
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("dtype", snippet.DTYPES)
@pytest.mark.parametrize("shape", [(8192, 1024), (4099, 768), (1000, 3000), (64, 131072), (5, 1001)], ids=str)
def test_real_sizes(activation, shape, dtype):
    gate, up, grad = (numbers(shape, dtype, "cuda", i) for i in range(3))
    check(activation, [gate, up], grad)
    check(activation, [torch.cat([gate, up], dim=-1)], grad)


@pytest.mark.gpu
@pytest.mark.parametrize("halves", [False, True], ids=["two", "halves"])
def test_more_than_2_to_the_31_elements(halves):
    if torch.cuda.mem_get_info()[0] < 50e9:
        pytest.skip("needs 50 GB of free GPU memory")
    rows, columns = 2**31 // 8192 + 3, 8192
    x = torch.zeros(rows, 2 * columns if halves else columns, dtype=torch.float16, device="cuda")
    x[-1] = numbers(x.shape[1:], torch.float16, "cuda")
    inputs = [x] if halves else [x, x]
    grad = x[:, :columns]
    wanted = results(swiglu, [each[-1:] for each in inputs], grad[-1:])
    out = forward(*inputs, *[None] * halves, "silu")
    check_same_bits(out[-1:], wanted[0])
    assert not out[:-1].any()
    del out
    for found, expected in zip(backward(grad, *inputs, *[None] * halves, "silu"), wanted[1:], strict=True):
        check_same_bits(found[-1:], expected)
        assert not found[:-1].any()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", snippet.DTYPES)
def test_in_a_cuda_graph(dtype):
    x, grad = numbers((300, 2000), dtype, "cuda").requires_grad_(), numbers((300, 1000), dtype, "cuda", 1)

    def run():
        out = swiglu(x)
        return [out, *torch.autograd.grad(out, x, grad)]

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
