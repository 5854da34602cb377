# SPDX-License-Identifier: Apache-2.0
"""Cross-entropy: loss and gradient of torch in float64, whatever shape, dtype, strides and blocks; each element is
touched as often as the docstring says, and nothing else is."""

import contextlib
import functools
import math
import re
from collections import Counter
from unittest import mock

import pytest
import torch
from compiled import compiled
from guards import (
    Guarded,
    as_if_compiled,
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
from torch.utils._python_dispatch import TorchDispatchMode

from snippets.fusion import cross_entropy as snippet
from snippets.fusion.cross_entropy import Blocks, cross_entropy
from snippets.tools.testing import addresses_of

IGNORED = -100
BLOCKS = {"as planned": None, "8": Blocks(8, 8, 1, 1), "16, by lanes": Blocks(16, 2, 4, 1), "4": Blocks(4, 2, 2, 1)}
silent = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy in the interpreter: inf - inf, log(0)

LAYOUTS = {  # of a tensor of this shape; some of them repeat some of its values
    "contiguous": lambda t: t.clone(),
    "gaps": lambda t: torch.cat([t, t], dim=-1).clone()[..., : t.shape[-1]],
    "wide gaps": lambda t: torch.cat([t, *[torch.zeros_like(t)] * 7], dim=-1)[..., : t.shape[-1]],
    "turned": lambda t: t.transpose(0, -1).contiguous().transpose(0, -1),
    "flipped sign": lambda t: torch._neg_view(-t),
    "every other": lambda t: torch.stack([t, t], dim=-1).clone()[..., 0],
    "stride 0": lambda t: t[:1].clone().expand(t.shape) if len(t) else t,
}


@contextlib.contextmanager
def blocks(name):
    """Whoever asks for blocks gets these."""
    by = BLOCKS[name]
    with mock.patch.object(snippet, "blocks_for", lambda *_: by) if by else contextlib.nullcontext():
        yield


def served(device):
    return [dtype for dtype in snippet.DTYPES if device == "cuda" or dtype != torch.bfloat16]


def numbers(shape, dtype, device, seed=0, scale=3.0, start=0.0):
    random = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=random, dtype=torch.float64) * scale + start).to(device, dtype)


def targets(shape, columns, device, seed=0, ignored=0.3, dtype=torch.int64):
    random = torch.Generator().manual_seed(seed)
    found = torch.randint(max(columns, 1), shape, generator=random)
    return torch.where(torch.rand(shape, generator=random) < ignored, IGNORED, found).to(device, dtype)


def in_torch(logits, target):
    return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), target.reshape(-1).long())


def exact(logits, target, factor=1.0):
    """Loss and gradient by torch in float64."""
    x = logits.detach().double().requires_grad_()
    loss = in_torch(x, target)
    (grad,) = torch.autograd.grad(loss, x, torch.as_tensor(factor, dtype=torch.float64, device=x.device))
    return loss.detach(), grad


def close(name, actual, wanted, allowed):
    wrong = ((actual.double() - wanted).abs() <= allowed).logical_not() & ~(actual.isnan() & wanted.isnan())
    assert not wrong.any(), f"{name}: {actual[wrong][:3]}, should be {wanted[wrong][:3]}"


def check(logits, target, factor, found):
    """``found``: a loss and a gradient. Errors: of sums of positive terms and exponents; of a gradient that is rounded,
    scaled, and rounded again."""
    loss, grad = found
    wanted, wanted_grad = exact(logits, target, factor)
    eps = torch.finfo(snippet.wide(logits.dtype)).eps
    assert (loss.dtype, loss.shape) == (snippet.wide(logits.dtype), ())
    assert (grad.dtype, grad.shape) == (logits.dtype, logits.shape)
    if not logits.numel():
        return close("loss", loss, wanted, 0)
    columns, size = logits.shape[-1], logits.double().abs().amax()
    within = eps * (3 * min(columns, 1024) + 16 + 4 * size)  # no lane adds up more, one after the other
    close("loss", loss, wanted, within + eps * (size + wanted.abs()) * (target.numel() + 2))
    step = torch.finfo(grad.dtype)
    rounded = 2 * step.eps * wanted_grad.abs() + 2 * step.smallest_normal * step.eps * (1 + abs(factor))
    count = max(int((target != IGNORED).sum()), 1)
    shares = torch.softmax(logits.double(), dim=-1) * abs(factor) / count  # what the target's is subtracted from
    close("grad", grad, wanted_grad, rounded + within * (2 * shares + wanted_grad.abs()))


def with_gradient(function, logits, target, factor=1.0):
    x = logits.detach().requires_grad_()
    loss = function(x, target)
    (grad,) = torch.autograd.grad(loss, x, torch.full_like(loss, factor))
    return loss.detach(), grad


def of_rows(logits, target, into=None, count=1, by=None):
    """The loss of each row; the gradient of their sum divided by ``count``, if there is room ``into`` which it goes."""
    losses = snippet.losses_of(logits)
    snippet.launch(logits, target, losses, into, torch.as_tensor(count, device=logits.device), by)
    return losses


@silent
@example((2, 3, 17), "turned", "8", 3.0, 2.0, 0, 0.3, None)
@example((5, 24), "wide gaps", "16, by lanes", 40.0, -1.0, 0, 0.0, None)
@example((5, 33), "stride 0", "4", 3.0, 1.0, 0, 1.0, None)
@given(
    shape=st.tuples(st.integers(0, 7), st.integers(1, 40))
    | st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 40))
    | st.tuples(st.integers(1, 40)),
    layout=st.sampled_from(list(LAYOUTS)),
    block=st.sampled_from(list(BLOCKS)),
    scale=st.sampled_from([0.0, 0.1, 3.0, 40.0]),
    factor=st.sampled_from([1.0, 0.0, -1.0, 2.5]),
    seed=st.integers(0, 999),
    ignored=st.sampled_from([0.0, 0.3, 1.0]),
    data=st.data(),
)
def test_as_torch_computes_it_in_float64(device, shape, layout, block, scale, factor, seed, ignored, data):
    draw = (lambda of: of[0]) if data is None else (lambda of: data.draw(st.sampled_from(of)))
    dtype = draw([torch.float32, *served(device)])
    logits = LAYOUTS[layout](numbers(shape, dtype, device, seed, scale, draw([0.0, -100.0, 100.0])))
    target = targets(shape[:-1], shape[-1], device, seed, ignored, draw([torch.int64, torch.int32]))
    if target.ndim:
        target = LAYOUTS[draw(["contiguous", "gaps", "turned", "every other"])](target)
    with blocks(block):
        found = with_gradient(cross_entropy, logits, target, factor)
    assert found[1].is_contiguous()
    check(logits, target, factor, found)


# What is special


@silent
@pytest.mark.parametrize("block", ["as planned", "8"])
@pytest.mark.parametrize("drops", [False, True], ids=["", "maximum drops NaN"])
def test_infinities_and_nan_as_in_torch(device, block, drops):
    inf, nan = math.inf, math.nan
    specials = [
        [-inf] * 20,
        [-inf] * 8 + [1.0] * 12,
        [1.0] * 8 + [-inf] * 12,
        [-inf, 2.0] * 10,
        [0.0] * 19 + [inf],
        [inf] + [0.0] * 19,
        [0.0] * 19 + [nan],
        [nan] + [0.0] * 19,
        [-1e38] * 10 + [1e38] * 10,
        [-3.4e38] * 20,
        [3.4e38] + [-3.4e38] * 19,
    ]
    for row in torch.tensor(specials, device=device)[:, None]:
        for column in (0, 19):
            target = torch.full((1,), column, device=device)
            with blocks(block), nan_as_on_a_gpu() if drops and device == "cpu" else contextlib.nullcontext():
                loss, grad = with_gradient(cross_entropy, row, target)
            wanted, wanted_grad = exact(row, target)
            assert torch.allclose(loss, wanted.float(), rtol=1e-5, equal_nan=True)
            assert torch.allclose(grad.double(), wanted_grad, atol=1e-6, equal_nan=True)


def test_a_target_that_is_no_column_makes_nan_and_reads_nothing(device):
    logits = numbers((16, 9), torch.float32, device)[6:10]  # within 200 bytes, nothing is another tensor's
    target = torch.tensor([3, 9, -1, 2**31 + 3], device=device)
    seen = recorded_accesses() if device == "cpu" else contextlib.nullcontext([])
    with seen as accesses:
        loss, grad = with_gradient(cross_entropy, logits, target)
    assert loss.isnan() and grad[1:].isnan().all() and not grad[0].isnan().any()
    losses = of_rows(logits, target)
    assert losses[1:].isnan().all() and not losses[0].isnan()
    if device == "cpu":
        low, high = logits.data_ptr(), logits.data_ptr() + 4 * 36
        near = {a for op, found in accesses if op == "load" for a in found.tolist() if low - 200 <= a < high + 200}
        assert not near - set(addresses_of(logits).tolist())


def test_ignored_rows_are_zero_even_of_nan(device):
    logits = torch.full((3, 9), math.nan, device=device)
    logits[1] = 0
    loss, grad = with_gradient(cross_entropy, logits, torch.tensor([IGNORED, 1, IGNORED], device=device))
    assert loss.item() == pytest.approx(math.log(9)) and not grad[0].any() and not grad[2].any()
    assert torch.allclose(grad[1], torch.tensor([1 / 9, 1 / 9 - 1, *[1 / 9] * 7], device=device))


def test_all_ignored(device):
    logits, target = numbers((3, 9), torch.float32, device), torch.full((3,), IGNORED, device=device)
    loss, grad = with_gradient(cross_entropy, logits, target)
    assert loss.isnan() and not grad.any()


def test_nothing_to_do(device):
    for shape in ((0, 5), (0, 0), (2, 0, 4)):
        x = torch.empty(shape, device=device, requires_grad=True)
        loss = cross_entropy(x, torch.empty(shape[:-1], dtype=torch.int64, device=device))
        assert loss.isnan() and torch.autograd.grad(loss, x)[0].shape == shape


def test_every_run_gives_the_same_bits(device):
    logits, target = numbers((40, 301), torch.float32, device), targets((40,), 301, device)
    first, second = (with_gradient(cross_entropy, logits, target, 3.0) for _ in range(2))
    for a, b in zip(first, second, strict=True):
        check_same_bits(a, b)


# The gradient that the forward made


@pytest.mark.parametrize("factor", [1.0, 3.0, 0.0, -1.0, math.nan])
def test_the_incoming_gradient_scales_what_the_forward_made(device, factor):
    logits, target = numbers((5, 37), torch.float32, device), targets((5,), 37, device)
    _, grad = with_gradient(cross_entropy, logits, target, factor)
    assert torch.allclose(grad.double(), exact(logits, target, factor)[1], atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("shape", [(7, 9), (1, 1), (2, 8)])
def test_more_blocks_than_programs_are_scaled(device, shape):
    grad = numbers(shape, torch.float32, device)
    wanted = 3 * grad
    with mock.patch.object(snippet, "PROGRAMS", 2):
        snippet.scale_(grad, torch.tensor(3.0, device=device), block=8)
    check_same_bits(grad, wanted)


def test_a_second_backward_is_right_too(device):
    logits, target = numbers((5, 37), torch.float32, device), targets((5,), 37, device)
    x = logits.clone().requires_grad_()
    loss = cross_entropy(x, target)
    kept = []
    for factor in (2.0, 1.0, 3.0):
        (grad,) = torch.autograd.grad(loss, x, torch.tensor(factor, device=device), retain_graph=True)
        kept.append((grad, grad.clone()))
        check(logits, target, factor, (loss.detach(), grad))
    assert all(torch.equal(*pair) for pair in kept), "one is not written over by the next"


def test_accumulated_gradients(device):
    logits, target = numbers((5, 37), torch.float32, device).requires_grad_(), targets((5,), 37, device)
    for _ in range(2):
        cross_entropy(logits, target).backward()
    assert torch.allclose(logits.grad.double(), exact(logits, target, 2.0)[1], atol=1e-6)


# What is read and written


def guarded(shape, device, dtype=torch.float32, before=64):
    return Guarded(shape, dtype, device, before=before, after=64, fill=0xFF)


def counted(accesses, op, tensor):
    """How often each element of ``tensor`` was touched, in the order of the elements."""
    touched = Counter(at for kind, found in accesses if kind == op for at in found.tolist())
    return torch.tensor([touched[at] for at in addresses_of(tensor).tolist()]).view(tensor.shape)


@pytest.mark.parametrize("columns", [1, 7, 8, 9, 16, 33])
@pytest.mark.parametrize("block", ["8", "16, by lanes"])
def test_each_element_is_touched_as_often_as_said_and_nothing_else(device, columns, block):
    rows, by = 3, BLOCKS[block]
    logits, grad = (guarded((rows, columns), device) for _ in range(2))
    losses = guarded((rows,), device)
    target, count = torch.tensor([columns - 1, IGNORED, 0], device=device), torch.tensor(1, device=device)
    logits.tensor.copy_(numbers((rows, columns), torch.float32, device))
    seen = lambda: recorded_accesses() if device == "cpu" else contextlib.nullcontext([])

    def run(into):
        with handed_out("empty", losses.tensor), seen() as accesses:
            of_rows(logits.tensor, target, into, count, by)
        for buffer in (logits, grad, losses):
            buffer.check("a tensor")
        assert not losses.tensor.isnan().any()
        return accesses

    loss_alone, both = run(None), run(grad.tensor)
    assert torch.allclose(grad.tensor, 2 * exact(logits.tensor, target)[1].float(), atol=1e-6)
    expected = grad.tensor.clone()
    with seen() as scaled_by_one:
        snippet.scale_(grad.tensor, torch.ones((), device=device), block=8)
    factor = torch.tensor(2.0, device=device)
    with seen() as scaled:
        snippet.scale_(grad.tensor, factor, block=8)
    grad.check("the gradient")
    check_same_bits(grad.tensor, 2 * expected)
    if device == "cpu":
        wanted = torch.ones(rows, columns, dtype=torch.int64)
        wanted[1] = 0
        once_more = torch.zeros_like(wanted)
        once_more[0, columns - 1] = once_more[2, 0] = 1  # the target's logit
        assert torch.equal(counted(loss_alone, "load", logits.tensor), wanted + once_more)
        assert torch.equal(counted(both, "load", logits.tensor), 2 * wanted + once_more)
        check_each_once(loss_alone, "store", losses=losses.tensor)
        check_each_once(both, "store", grad=grad.tensor, losses=losses.tensor)
        check_each_once(scaled, "store", grad=grad.tensor)
        assert not counted(scaled_by_one, "load", grad.tensor).any()
        assert not [op for op, _ in scaled_by_one if op == "store"]
        assert torch.equal(counted(scaled, "load", grad.tensor), torch.ones_like(wanted))
        check_inside(scaled, "load", grad=grad.tensor, factor=factor)
        for accesses in (loss_alone, both):
            check_inside(accesses, "load", logits=logits.tensor, target=target, count=count)


def test_the_gradient_is_written_backwards():
    """What was read last is still in a cache."""
    logits, target = numbers((1, 20), torch.float32, "cpu"), torch.tensor([0])
    grad = torch.empty_like(logits)
    with recorded_accesses() as accesses:
        of_rows(logits, target, grad, by=BLOCKS["8"])
    starts = [(int(found[0]) - grad.data_ptr()) // 4 for op, found in accesses if op == "store"]
    assert [start for start in starts if 0 <= start < 20] == [16, 8, 0]


@pytest.mark.parametrize("block", ["as planned", "4"])
def test_in_place_the_loss_is_of_the_logits(device, block):
    """That of the target is read before it is written over, where the row is a single block, too."""
    logits, target = numbers((4, 16), torch.float32, device), torch.tensor([0, 15, 8, 3], device=device)
    wanted = exact(logits, target)
    losses = of_rows(logits, target, logits, 4, BLOCKS[block])
    assert torch.allclose(losses.double().mean(), wanted[0])
    assert torch.allclose(logits.double(), wanted[1], atol=1e-6)


@silent
@pytest.mark.parametrize("row, stride, columns", [(2**31 - 2, 8, 8), (1, 2**31, 8), (2**28 + 1, 8, 16)])
def test_offsets_are_computed_in_64_bits(row, stride, columns):
    """Tensors are told of more elements than there are."""
    x, losses, grad = (torch.zeros(1) for _ in range(3))
    target, count = torch.zeros(1).long(), torch.ones(1)
    offsets = lambda seen, op, of: {
        (int(found[0]) - of.data_ptr()) // of.itemsize for kind, found in seen if kind == op and len(found)
    }
    options = {"LOWEST": -3e38, "COMPUTE": snippet.tl.float32, "BLOCK": 8, "LANES": 2, "WIDE": 4}
    for ignored in (False, True):
        target.fill_(IGNORED if ignored else 0)
        with recorded_accesses(first_program=(row, 0, 0), memory=False) as seen:
            if ignored:  # what is loaded is made up, unless the number is
                with mock.patch.object(snippet, "IGNORED", snippet.tl.constexpr(0)):
                    snippet.cross_entropy_kernel[(1,)](x, target, losses, grad, count, columns, stride, **options)
            else:
                snippet.cross_entropy_kernel[(1,)](x, target, losses, grad, count, columns, stride, **options)
        assert row in offsets(seen, "load", target) and row in offsets(seen, "store", losses)
        assert row * columns in offsets(seen, "store", grad)
        assert (row * stride in offsets(seen, "load", x)) != ignored


def test_offsets_of_what_is_scaled_are_computed_in_64_bits():
    grad, factor = torch.zeros(1), torch.zeros(1)
    program = 2**31 // 8 + 1
    with recorded_accesses(first_program=(program, 0, 0), memory=False) as seen:
        snippet.scale_kernel[(1,)](grad, factor, 8 * program + 8, COMPUTE=snippet.tl.float32, BLOCK=8, num_warps=1)
    for op in ("load", "store"):
        found = [int(addresses[0]) - grad.data_ptr() for kind, addresses in seen if kind == op and len(addresses)]
        assert 4 * 8 * program in found


# As PyTorch calls it


def test_gradcheck(device):
    target = torch.tensor([2, 0, IGNORED], device=device)
    logits = numbers((3, 5), torch.float64, device, 1).requires_grad_()
    with blocks("4"):
        assert torch.autograd.gradcheck(functools.partial(cross_entropy, target=target), (logits,))


def test_a_gradient_of_the_gradient_is_refused(device):
    x, target = numbers((3, 5), torch.float32, device).requires_grad_(), targets((3,), 5, device)
    with pytest.raises(RuntimeError, match=r"^cross_entropy has no gradient of its gradient"):
        torch.autograd.grad(cross_entropy(x, target), x, create_graph=True)


def saved_by(function):
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        function()
    return sorted(t.numel() for t in saved)


def test_what_is_kept(device):
    """No shares: the logits and the target."""
    x, target = numbers((6, 40), torch.float32, device).requires_grad_(), targets((6,), 40, device)
    assert saved_by(lambda: cross_entropy(x, target)) == [6, 240]
    assert not cross_entropy(x.detach(), target).requires_grad


def test_without_a_gradient_none_is_made():
    x, target = numbers((6, 40), torch.float32, "cpu").requires_grad_(), targets((6,), 40, "cpu")
    with mock.patch.object(snippet, "write_gradient", None):
        with torch.no_grad():
            cross_entropy(x, target)
        cross_entropy(x.detach(), target)


# Blocks


def test_blocks():
    found = {
        (columns, dtype): snippet.blocks_for(columns, dtype)
        for columns in (1, 1024, 4096, 32000, 50257, 128256, 2**20)
        for dtype in (torch.bfloat16, torch.float64)
    }
    for (columns, dtype), by in found.items():
        assert by.block * dtype.itemsize == 2048 * by.num_warps, "64 bytes a thread"
        assert by.lanes == 32 * by.num_warps
        assert by.wide == (1 if columns % 16 else 16 // dtype.itemsize)
        assert by.block >= min(columns, 2**16 // dtype.itemsize) / 4
    warps = [found[columns, torch.bfloat16].num_warps for columns in (1, 1024, 4096, 32000, 128256, 2**20)]
    assert warps == [1, 1, 1, 8, 32, 32]
    with mock.patch.object(torch.version, "hip", "6.0"):
        assert snippet.blocks_for(2**20, torch.bfloat16).num_warps == 16, "1024 threads of AMD's"


CODE = """
for shape, dtype in CASES:
    x, row = torch.empty(shape, dtype=getattr(torch, dtype)), torch.zeros(shape[0], dtype=torch.int64)
    losses = torch.empty(shape[0], dtype=module.wide(x.dtype))
    module.launch(x, row, losses, x, row.sum())
    module.scale_(x, losses[0])
"""


def test_compiles_to_wide_loads_and_spills_nothing():
    """For an H200, without one: 16 bytes a load if 16 divides the columns. In the first pass no warp waits for another.
    Of the widest program, one fits on a multiprocessor, and no second."""
    cases = [((3, 128256), "bfloat16"), ((3, 32000), "float32"), ((3, 50257), "bfloat16")]
    cases.append(((1, 1), "float64"))  # Triton makes a constant of an argument that is 1
    launches = compiled("fusion/cross_entropy", CODE.replace("CASES", repr(cases)))
    assert [launch.kernel for launch in launches] == ["cross_entropy_kernel", "scale_kernel"] * 4
    for launch in launches[1::2]:
        assert re.search(r"scf[.]for .* : i64", launch.ttir), "else blocks past one of the last are below 0"
    registers = [32 * launch.options["num_warps"] * launch.registers for launch in launches[:6]]  # of a program
    assert all(of_all <= 2**16 for of_all in registers) and registers[0] > 2**15
    for launch in launches[:4]:
        assert (launch.widest("LDG"), launch.widest("STG"), launch.spills) == (128, 128, 0)
    assert launches[4].widest("STG") == 32, "16 bits"
    for launch in launches[:6:2]:
        loops = [part for part in launch.ptx.split("$L__BB") if "ex2" in part and "ld.global" in part]
        (first,) = [loop for loop in loops if "st.global" not in loop]
        assert "bar.sync" not in first and "shfl" not in first


# What the page says of torch


class Kernels(TorchDispatchMode):
    """The operations that torch runs, and how many tensors of ``n`` elements they take and give."""

    def __init__(self, n):
        super().__init__()
        self.n, self.seen = n, []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        outs = out if isinstance(out, tuple) else (out,)
        size = lambda many: sum(isinstance(each, torch.Tensor) and each.numel() == self.n for each in many)
        self.seen.append((func.overloadpacket.__name__, size(args), size(outs)))
        return out


def test_the_kernels_of_torch_that_the_page_counts():
    """That of nll_loss_backward takes the shares for their shape alone."""
    logits, target = numbers((6, 40), torch.float32, "cpu").requires_grad_(), targets((6,), 40, "cpu")
    with Kernels(240) as kernels:
        torch.autograd.grad(torch.nn.functional.cross_entropy(logits, target), logits)
    assert [each for each in kernels.seen if each[0] not in ("detach", "ones_like")] == [
        ("_log_softmax", 1, 1),
        ("nll_loss_forward", 1, 0),
        ("nll_loss_backward", 1, 1),
        ("_log_softmax_backward_data", 2, 1),
    ]


# What is refused


def ones(*shape, device, **kwargs):
    return torch.ones(*shape, device=device, **kwargs)


def zeros(*shape, device, dtype=torch.int64):
    return torch.zeros(shape, dtype=dtype, device=device)


@pytest.mark.parametrize(
    "make, fragment",
    [
        (lambda d: (ones((), device=d), zeros(device=d)), "logits must have a dimension or more"),
        (lambda d: (ones(2, 3, device=d), zeros(3, device=d)), "target must have the shape (2,)"),
        (lambda d: (ones(2, 3, device=d), zeros(2, 1, device=d)), "got (2, 1) torch.int64 for logits (2, 3)"),
        (lambda d: (ones(2, 3, device=d), ones(2, device=d)), "be int64 or int32; got (2,) torch.float32"),
        (lambda d: (ones(2, 3, device=d).int(), zeros(2, device=d)), "torch.int32 is not supported; use one of"),
        (lambda d: (ones(2, 3, device=d).half(), zeros(2, device=d)), "library/cross_entropy.py serves float16"),
        (lambda d: (ones(2, 0, device=d), zeros(2, device=d)), "a row has no column, so none can be the target"),
    ],
)
def test_refuses(device, make, fragment):
    with pytest.raises(ValueError) as error:
        cross_entropy(*make(device))
    assert fragment in str(error.value)


def test_refuses_too_many_rows_and_columns():

    def check(x, target):
        snippet.check_arguments(x, target)
        snippet.check_columns(x.shape[-1], target)

    target = lambda rows: without_memory(rows, dtype=torch.int64)
    with pytest.raises(ValueError, match="2147483648 rows are too many for one launch; split logits"):
        check(without_memory(2**31, 1), target(2**31))
    with pytest.raises(ValueError, match=f"a row has {2**30 + 1} columns, at most {2**30} are served"):
        check(without_memory(1, 2**30 + 1), target(1))
    for shape in ((2**31 - 1, 1), (1, 2**30)):
        with pytest.raises(ValueError, match="logits is on cpu"), as_if_compiled(snippet, "cross_entropy_kernel"):
            check(without_memory(*shape), target(shape[0]))


# On a GPU alone


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", snippet.DTYPES)
@pytest.mark.parametrize("shape", [(1000, 1000), (300, 32000), (140, 50257), (200, 128256), (3, 262144)], ids=str)
def test_real_sizes(shape, dtype):
    logits, target = numbers(shape, dtype, "cuda"), targets(shape[:1], shape[1], "cuda")
    for factor in (1.0, 2.5):
        check(logits, target, factor, with_gradient(cross_entropy, logits, target, factor))


@pytest.mark.gpu
def test_the_host_never_waits():
    logits, target = numbers((50, 1000), torch.float32, "cuda").requires_grad_(), targets((50,), 1000, "cuda")
    cross_entropy(logits, target)
    torch.cuda.set_sync_debug_mode("error")
    try:
        (3 * cross_entropy(logits, target)).backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.gpu
@pytest.mark.alone
def test_more_than_2_to_the_31_elements():
    if torch.cuda.mem_get_info()[0] < 40e9:
        pytest.skip("needs 40 GB of free GPU memory")
    columns = 2**17
    logits = torch.zeros(2**31 // columns + 3, columns, dtype=torch.bfloat16, device="cuda")
    logits[-1] = numbers((columns,), torch.bfloat16, "cuda")
    target = torch.arange(len(logits), device="cuda")
    wanted, grad_wanted = exact(logits[-1:], target[-1:])
    losses, grad = with_gradient(cross_entropy, logits, target, float(len(logits)))
    same = lambda a, b: torch.allclose(a.double(), b.double(), rtol=0.02, atol=1e-8)
    first = exact(logits[:1], target[:1])[0]
    assert same(losses, (first * (len(logits) - 1) + wanted) / len(logits))
    assert same(grad[-1:], grad_wanted) and same(grad[1:-1, 0], grad[1:2, 0])


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", snippet.DTYPES)
def test_in_a_cuda_graph(dtype):
    logits, target = numbers((300, 5000), dtype, "cuda").requires_grad_(), targets((300,), 5000, "cuda")

    def run():
        loss = cross_entropy(logits, target)
        return [loss, *torch.autograd.grad(loss, logits, 3 * torch.ones_like(loss))]

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
        assert torch.allclose(a, b, rtol=2e-2, atol=1e-3)
