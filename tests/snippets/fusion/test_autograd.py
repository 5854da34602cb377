# SPDX-License-Identifier: Apache-2.0
"""``silu_mul``: result and gradients of torch in float64, whatever the shape, dtype and strides, those of the incoming
gradient, too; nothing else is touched; the same through ``autograd.Function``, the custom op and ``torch.compile``."""

import contextlib
import math

import pytest
import torch
from guards import (
    Guarded,
    check_each_once,
    handed_out,
    recorded_accesses,
)
from hypothesis import example, given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from snippets.fusion import autograd as snippet
from snippets.fusion.autograd import SwiGLU, silu_mul, silu_mul_op
from snippets.tools.testing import ragged_sizes

silent = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy in the interpreter: exp, 0 * inf
functions = pytest.mark.parametrize("function", [silu_mul, silu_mul_op], ids=["function", "op"])

LAYOUTS = {  # of a tensor of this shape
    "contiguous": lambda t: t.clone(),
    "gaps": lambda t: torch.cat([t, t], dim=1).clone()[:, : t.shape[1]],
    "transposed": lambda t: t.t().contiguous().t(),
    "flipped sign": lambda t: torch._neg_view(-t),
}


def served(device):
    return [dtype for dtype in snippet.DTYPES if device == "cuda" or dtype != torch.bfloat16]


def numbers(shape, dtype, device, seed=0, scale=3.0):
    random = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=random, dtype=torch.float64) * scale).to(device, dtype)


def gradients(function, x, y, grad):
    """Result and both gradients, of leaves that lie in memory as ``x`` and ``y`` do."""
    inputs = [x.detach().requires_grad_(), y.detach().requires_grad_()]
    out = function(*inputs)
    return [out.detach(), *torch.autograd.grad(out, inputs, grad)]


def check(function, x, y, grad):
    """Compare with torch in float64. A sigmoid and 1 less it are off by eps; x multiplies that; the store rounds."""
    found = gradients(function, x, y, grad)
    exact = gradients(snippet.in_torch, x.double(), y.double(), grad.double())
    eps = torch.finfo(torch.float64 if x.dtype == torch.float64 else torch.float32).eps
    xs, ys, grads = (t.double().abs() for t in (x, y, grad))
    sizes = [xs * ys, grads * ys * (1 + xs), grads * xs]
    for name, actual, expected, size in zip(("out", "grad_x", "grad_y"), found, exact, sizes, strict=True):
        assert (actual.shape, actual.dtype, actual.is_contiguous()) == (x.shape, x.dtype, True), name
        stored = torch.finfo(x.dtype)
        allowed = 8 * eps * size + stored.eps * expected.abs() + stored.tiny
        wrong = ((actual.double() - expected).abs() <= allowed).logical_not()  # a NaN is wrong, too
        assert not wrong.any(), f"{name}: {actual[wrong][:3]}, should be {expected[wrong][:3]}"


@functions
@example((2, 513), ("transposed", "gaps", "contiguous"), 0, None)
@example((3, 4), ("contiguous", "contiguous", "transposed"), 0, None)  # which gradcheck never tries
@given(
    shape=st.tuples(st.integers(0, 9), st.integers(0, 130)),
    layouts=st.tuples(*[st.sampled_from(list(LAYOUTS))] * 3),
    seed=st.integers(0, 999),
    data=st.data(),
)
def test_as_torch_computes_it_in_float64(device, function, shape, layouts, seed, data):
    dtype = torch.float32 if data is None else data.draw(st.sampled_from(served(device)))
    x, y, grad = (LAYOUTS[layout](numbers(shape, dtype, device, seed + i)) for i, layout in enumerate(layouts))
    check(function, x, y, grad)


@pytest.mark.parametrize("n", ragged_sizes(snippet.BLOCK_SIZE))
def test_every_size_around_a_block(device, n):
    check(silu_mul, *(numbers((n,), torch.float32, device, seed) for seed in range(3)))


def guarded(shape, dtype, device):
    return Guarded(shape, dtype, device, before=64, after=2 * 4, fill=0xFF)


@pytest.mark.parametrize("n", ragged_sizes(4))
def test_each_element_is_touched_once_and_nothing_else(device, n):
    x, y, grad, out, grad_x, grad_y = buffers = [guarded((n,), torch.float32, device) for _ in range(6)]
    given = [each.tensor for each in (x, y, grad)]
    for seed, tensor in enumerate(given):
        tensor.copy_(numbers((n,), torch.float32, device, seed))
    tensors = [each.tensor for each in (out, grad_x, grad_y)]
    seen = lambda: recorded_accesses() if device == "cpu" else contextlib.nullcontext()
    with handed_out("empty", *tensors):
        with seen() as forward:
            assert snippet.forward(*given[:2], block_size=4) is out.tensor
        with seen() as backward:
            assert snippet.backward(given[2], *given[:2], block_size=4) == (grad_x.tensor, grad_y.tensor)
    for buffer in buffers:
        buffer.check("a tensor")
        assert not buffer.tensor.isnan().any()
    if device == "cpu" and n:
        check_each_once(forward, "load", x=given[0], y=given[1])
        check_each_once(forward, "store", out=out.tensor)
        check_each_once(backward, "load", x=given[0], y=given[1], grad=given[2])
        check_each_once(backward, "store", grad_x=grad_x.tensor, grad_y=grad_y.tensor)


def test_one_element_as_the_page_works_it_out(device):
    found = gradients(silu_mul, *(torch.tensor([value], device=device) for value in (2.0, 3.0, 1.0)))
    assert [round(each.item(), 4) for each in found] == [5.2848, 3.2724, 1.7616]
    steps = snippet.by_hand(2.0, 3.0, 1.0)
    assert [round(steps[name], 4) for name in ("out", "grad_x", "grad_y")] == [5.2848, 3.2724, 1.7616]


@functions
def test_gradcheck(device, function):
    x, y = (numbers((3, 5), torch.float64, device, seed).requires_grad_() for seed in range(2))
    assert torch.autograd.gradcheck(function, (x, y))
    halves = numbers((3, 10), torch.float64, device).requires_grad_()
    assert torch.autograd.gradcheck(lambda h: function(*h.chunk(2, dim=1)), halves)


@pytest.mark.filterwarnings("ignore:.*not a double precision floating point.*:UserWarning")
def test_gradcheck_in_float32_is_no_check(device):
    x, y = (numbers((3, 5), torch.float32, device, seed).requires_grad_() for seed in range(2))
    assert not torch.autograd.gradcheck(silu_mul, (x, y), raise_exception=False)


@silent
@functions
def test_far_out_and_infinite_as_in_torch(device, function):
    x = torch.tensor([-1e4, -200.0, -90.0, 90.0, 1e4, math.inf, -math.inf, math.nan], device=device)
    y, grad = torch.full_like(x, 2.0), torch.ones_like(x)
    for actual, expected in zip(gradients(function, x, y, grad), gradients(snippet.in_torch, x, y, grad), strict=True):
        assert torch.allclose(actual, expected, atol=1e-30, equal_nan=True)


def test_float16_is_rounded_once(device):
    """In torch, silu(x) is rounded before it is multiplied."""
    x, y = (numbers((4096,), torch.float16, device, seed) for seed in range(2))
    exact = snippet.in_torch(x.double(), y.double())
    ours, theirs = ((out.double() - exact).abs().sum() for out in (silu_mul(x, y), snippet.in_torch(x, y)))
    assert ours < 0.9 * theirs


def test_an_incoming_gradient_of_stride_0(device):
    """What .sum() passes back: one number, expanded."""
    x, y = (numbers((5, 7), torch.float32, device, seed).requires_grad_() for seed in range(2))
    silu_mul(x, y).sum().backward()
    wanted = gradients(snippet.in_torch, x, y, torch.ones_like(x))
    assert torch.allclose(x.grad, wanted[1]) and torch.allclose(y.grad, wanted[2])


@functions
def test_a_gradient_for_one_of_the_two(device, function):
    x, y = (numbers((5,), torch.float32, device, seed) for seed in range(2))
    _, grad_x, grad_y = gradients(snippet.in_torch, x, y, torch.ones_like(x))
    for wanted, one in ((grad_x, x), (grad_y, y)):
        one.requires_grad_()
        function(x, y).sum().backward()
        assert torch.allclose(one.grad, wanted)
        one.requires_grad_(False)
    assert not function(x, y).requires_grad


def test_one_tensor_as_both(device):
    x = numbers((5,), torch.float32, device).requires_grad_()
    (found,) = torch.autograd.grad(silu_mul(x, x).sum(), x)
    (wanted,) = torch.autograd.grad(snippet.in_torch(x, x).sum(), x)
    assert torch.allclose(found, wanted)


def test_the_op_refuses_a_gradient_of_the_gradient(device):
    x, y = (torch.ones(3, device=device, requires_grad=True) for _ in range(2))
    (slope,) = torch.autograd.grad(silu_mul_op(x, y).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match=r"Trying to backward through .*silu_mul_backward"):
        slope.sum().backward()


def test_the_module_is_that_of_llama(device):
    module = SwiGLU(6, 10).to(device)
    assert [tuple(p.shape) for p in module.parameters()] == [(10, 6), (10, 6), (6, 10)]
    gate, up, down = (weight.T for weight in module.parameters())
    reference = lambda x, *_: (torch.nn.functional.silu(x @ gate) * (x @ up)) @ down
    x = numbers((2, 3, 6), torch.float32, device).requires_grad_()
    grad = numbers((2, 3, 6), torch.float32, device, 1)
    assert snippet.as_torch(lambda x, *_: module(x), [x, *module.parameters()], grad, reference)


def test_as_torch_tells_what_differs(device):
    x, y = (numbers((3,), torch.float32, device, seed).requires_grad_() for seed in range(2))
    assert not snippet.as_torch(lambda x, y: 1.1 * silu_mul(x, y), [x, y], torch.ones_like(x))
    assert not snippet.as_torch(lambda x, y: silu_mul(x.detach(), y) + 0 * x, [x, y], torch.ones_like(x))


# Under torch.compile


@pytest.mark.shown
def test_under_torch_compile(device):
    torch.compiler.reset()
    compiled = torch.compile(
        lambda x, y: silu_mul(x.t(), 2 * y).t(), fullgraph=True, backend="inductor" if device == "cuda" else "aot_eager"
    )
    for shape in ((5, 7), (6, 9)):  # the second may be compiled for any shape
        x, y, grad = (numbers(shape, torch.float32, device, seed) for seed in range(3))
        y = y.t().contiguous()
        found = gradients(compiled, x, y, grad)
        wanted = gradients(lambda x, y: snippet.in_torch(x.t(), 2 * y).t(), x, y, grad)
        assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(found, wanted, strict=True))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_op_keeps_what_it_promises_the_compiler(device, layout):
    x, y = (LAYOUTS[layout](numbers((3, 4), torch.float32, device, i)).detach().requires_grad_() for i in range(2))
    torch.library.opcheck(silu_mul_op, (x, y))
    torch.library.opcheck(snippet.silu_mul_backward_op, (x.detach(), x.detach(), y.detach()))


def test_refuses_under_torch_compile_too():
    torch.compiler.reset()
    with pytest.raises(ValueError, match=r"torch.int32 is not supported"):
        torch.compile(silu_mul, backend="eager")(torch.ones(3, dtype=torch.int32), torch.ones(3, dtype=torch.int32))


# What is counted by hand


class Counted(TorchDispatchMode):
    """The operations that torch runs, with the elements of their tensors: read, and written."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        read = sum(arg.numel() for arg in args if isinstance(arg, torch.Tensor))
        self.seen.append((func.overloadpacket.__name__, read, out.numel()))
        return out


def test_the_kernels_and_elements_of_torch_that_the_page_counts():
    n = 10
    x, y, grad = (numbers((n,), torch.float32, "cpu", seed) for seed in range(3))
    x, y = x.requires_grad_(), y.requires_grad_()
    saved = set()
    noting = torch.autograd.graph.saved_tensors_hooks(lambda t: saved.add(t.data_ptr()) or t, lambda t: t)
    with noting, Counted() as forward:
        out = snippet.in_torch(x, y)
    with Counted() as backward:
        torch.autograd.grad(out, (x, y), grad)
    kernels = lambda counted: sorted(each for each in counted.seen if each[0] not in ("detach", "alias"))
    assert kernels(forward) == [("mul", 2 * n, n), ("silu", n, n)]
    assert kernels(backward) == [("mul", 2 * n, n), ("mul", 2 * n, n), ("silu_backward", 2 * n, n)]
    assert len(saved) == 3


def test_ours_saves_what_it_is_given():
    x, y = (numbers((10,), torch.float32, "cpu", seed).requires_grad_() for seed in range(2))
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.data_ptr()) or t, lambda t: t):
        silu_mul(x, y)
    assert saved == [x.data_ptr(), y.data_ptr()]


# What is refused


def ones(*shape, device, **kwargs):
    return torch.ones(*shape, device=device, **kwargs)


def test_a_gradient_of_another_shape_is_refused(device):
    x, y = ones(3, device=device), ones(3, device=device)
    with pytest.raises(ValueError, match="x and grad must have the same shape"):
        snippet.backward(ones(2, device=device), x, y)


def test_nothing_to_do(device):
    for shape in ((0,), (0, 5), (3, 0)):
        found = gradients(silu_mul, *(torch.empty(shape, device=device) for _ in range(3)))
        assert [tuple(each.shape) for each in found] == [shape] * 3


@pytest.mark.parametrize("kernel, tensors", [(snippet.silu_mul_kernel, 3), (snippet.silu_mul_backward_kernel, 5)])
def test_offsets_are_computed_in_64_bits(kernel, tensors):
    """The program that passes 2**31, told of more elements than there are."""
    given = [torch.zeros(1) for _ in range(tensors)]
    first = 2**31 // 1024 + 1
    with recorded_accesses(first_program=(first, 0, 0), memory=False) as seen:
        kernel[(1,)](*given, first * 1024 + 3, COMPUTE=snippet.tl.float32, BLOCK_SIZE=1024)
    begins = [((address - t.data_ptr()) // 4).tolist() for (_, address), t in zip(seen, given, strict=True)]
    assert begins == [[first * 1024 + i for i in range(3)]] * tensors


# The file as a script


# On a GPU alone


@pytest.mark.gpu
def test_more_than_2_to_the_31_elements():
    if torch.cuda.mem_get_info()[0] < 40e9:
        pytest.skip("needs 40 GB of free GPU memory")
    x = torch.zeros(2**31 + 5, dtype=torch.float16, device="cuda")
    last = x[-3:]
    last.fill_(2)
    wanted = gradients(snippet.in_torch, *[last.double()] * 3)
    for function, arguments in ((snippet.forward, [x, x]), (lambda *a: snippet.backward(*a)[0], [x, x, x])):
        found = function(*arguments)
        assert torch.allclose(found[-3:].double(), wanted.pop(0), rtol=2e-3) and not found[:-3].any()
        del found


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", snippet.DTYPES)
def test_in_a_cuda_graph(dtype):
    x, y, grad = (numbers((5, 300), dtype, "cuda", seed) for seed in range(3))
    expected = snippet.forward(x, y), *snippet.backward(grad, x, y)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = snippet.forward(x, y), *snippet.backward(grad, x, y)
    graph.replay()
    assert all(torch.equal(a, b) for a, b in zip(captured, expected, strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune"])
def test_the_module_compiled(mode):
    torch.compiler.reset()
    module = SwiGLU(64, 160).cuda()
    x = numbers((5, 64), torch.float32, "cuda").requires_grad_()
    compiled = torch.compile(module, mode=mode, fullgraph=True)
    for _ in range(3):
        found = torch.autograd.grad(compiled(x).sum(), [x, *module.parameters()])
        wanted = torch.autograd.grad(module(x).sum(), [x, *module.parameters()])
        assert all(torch.allclose(a, b, rtol=1e-3, atol=1e-3) for a, b in zip(found, wanted, strict=True))
