# SPDX-License-Identifier: Apache-2.0
"""Cross-entropy, alone and with the last layer: loss and gradients of torch in float64, whatever shape, dtype, strides,
blocks and chunks, those of the incoming gradient, too; made in the forward or in the backward, in place or not; each
element is touched as often as the docstring says, and nothing else is; the same under ``torch.compile``."""

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
    promises_kept,
    recorded_accesses,
    without_memory,
)
from hypothesis import example, given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from snippets.fusion import cross_entropy as snippet
from snippets.fusion.cross_entropy import Blocks, cross_entropy, linear_cross_entropy
from snippets.tools.testing import addresses_of

IGNORED = -100
BLOCKS = {"as planned": None, "8": Blocks(8, 8, 1, 1), "16, by lanes": Blocks(16, 2, 4, 1), "4": Blocks(4, 2, 2, 1)}
silent = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy in the interpreter: inf - inf, log(0)
reductions = pytest.mark.parametrize("reduction", snippet.REDUCTIONS)
ways = pytest.mark.parametrize("op", [False, True], ids=["function", "op"])

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


def layer_by_op(hidden, weight, target, ignore_index, smoothing, reduction, chunk, wanted):
    now = snippet.made_in_forward(hidden.dtype, reduction)
    options = ignore_index, smoothing, reduction, chunk
    return snippet.linear_cross_entropy_op(hidden, weight, target, *options, *(now and each for each in wanted))[0]


@contextlib.contextmanager
def by_op(yes=True):
    """Calls go to the custom ops, as they do under torch.compile."""
    with contextlib.ExitStack() as patches:
        if yes:
            alone = lambda *given: snippet.cross_entropy_op(*given[:5])[0]
            patches.enter_context(mock.patch.object(snippet.CrossEntropy, "apply", alone))
            patches.enter_context(mock.patch.object(snippet.LinearCrossEntropy, "apply", layer_by_op))
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


def exact(logits, target, grad_loss, **options):
    """Loss and gradient by torch in float64."""
    x = logits.detach().double().requires_grad_()
    loss = snippet.in_torch(x, target, **options)
    (grad,) = torch.autograd.grad(loss, x, grad_loss.double())
    return loss.detach(), grad


def close(name, actual, wanted, allowed):
    wrong = ((actual.double() - wanted).abs() <= allowed).logical_not() & ~(actual.isnan() & wanted.isnan())
    assert not wrong.any(), f"{name}: {actual[wrong][:3]}, should be {wanted[wrong][:3]}"


def check(logits, target, grad_loss, found, in_forward=True, **options):
    """``found``: a loss and a gradient. Errors: of sums of positive terms and exponents; of a mean of logits; of a
    gradient that is rounded, scaled, and rounded again."""
    loss, grad = found
    wanted, wanted_grad = exact(logits, target, grad_loss, **options)
    eps = torch.finfo(snippet.wide(logits.dtype)).eps
    assert (loss.dtype, loss.shape) == (snippet.wide(logits.dtype), wanted.shape)
    assert (grad.dtype, grad.shape) == (logits.dtype, logits.shape)
    if not logits.numel():
        return close("loss", loss, wanted, 0)
    columns, size = logits.shape[-1], logits.double().abs().amax()
    within = eps * (3 * min(columns, 1024) + 16 + 4 * size)  # no lane adds up more, one after the other
    rows = target.numel()
    many = rows if options.get("reduction") == "sum" else 1
    close("loss", loss, wanted, within * many + eps * (size + wanted.abs()) * (rows + 2))
    step = torch.finfo(grad.dtype)
    rounds = 2 if in_forward and options.get("reduction") != "none" else 1
    largest = grad_loss.double().abs().max()
    rounded = rounds * step.eps * wanted_grad.abs() + 2 * step.smallest_normal * step.eps * (1 + largest)
    factor = grad_loss.double() / (max(rows - (target == IGNORED).sum(), 1) if options["reduction"] == "mean" else 1)
    shares = torch.softmax(logits.double(), dim=-1) * factor.abs()[..., None]  # what the target's is subtracted from
    close("grad", grad, wanted_grad, rounded + within * (2 * shares + wanted_grad.abs()))


def with_gradient(function, logits, target, grad_loss, **options):
    x = logits.detach().requires_grad_()
    loss = function(x, target, **options)
    (grad,) = torch.autograd.grad(loss, x, grad_loss)
    return loss.detach(), grad


def incoming(logits, target, reduction, seed=0):
    shape = target.shape if reduction == "none" else ()
    return numbers(shape, snippet.wide(logits.dtype), logits.device, seed, 2.0)


@silent
@example((2, 3, 17), ("turned", "flipped sign"), "8", "none", 0.0, 3.0, 0, True, 0.3, None)
@example((3, 2, 40), ("every other", "stride 0"), "4", "none", 0.1, 40.0, 0, False, 0.3, None)
@example((5, 24), ("wide gaps", "every other"), "16, by lanes", "mean", 0.0, 3.0, 0, False, 0.0, None)
@example((5, 33), ("stride 0", "contiguous"), "16, by lanes", "mean", 0.1, 3.0, 0, False, 1.0, None)
@given(
    shape=st.tuples(st.integers(0, 7), st.integers(1, 40))
    | st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 40))
    | st.tuples(st.integers(1, 40)),
    layouts=st.tuples(*[st.sampled_from(list(LAYOUTS))] * 2),
    block=st.sampled_from(list(BLOCKS)),
    reduction=st.sampled_from(snippet.REDUCTIONS),
    smoothing=st.sampled_from([0.0, 0.0, 0.1, 1.0]),
    scale=st.sampled_from([0.0, 0.1, 3.0, 40.0]),
    seed=st.integers(0, 999),
    op=st.booleans(),
    ignored=st.sampled_from([0.0, 0.3, 1.0]),
    data=st.data(),
)
def test_as_torch_computes_it_in_float64(
    device, shape, layouts, block, reduction, smoothing, scale, seed, op, ignored, data
):
    draw = (lambda of: of[0]) if data is None else (lambda of: data.draw(st.sampled_from(of)))
    dtype = draw([torch.float32, *served(device)])
    start = draw([0.0, -100.0, 100.0]) if dtype != torch.float16 else 0.0
    logits = LAYOUTS[layouts[0]](numbers(shape, dtype, device, seed, scale, start))
    target = targets(shape[:-1], shape[-1], device, seed, ignored, draw([torch.int64, torch.int32]))
    if data is not None and target.ndim:
        target = LAYOUTS[draw(["contiguous", "gaps", "turned", "every other"])](target)
    options = {"reduction": reduction, "label_smoothing": smoothing}
    grad_loss = incoming(logits, target, reduction, seed)
    if grad_loss.ndim:
        grad_loss = LAYOUTS[layouts[1]](grad_loss)
    with by_op(op), blocks(block):
        found = with_gradient(cross_entropy, logits, target, grad_loss, **options)
    assert found[1].is_contiguous()
    check(logits, target, grad_loss, found, in_forward=not op, **options)


@silent
@example((5, 4, 9), ("turned", "gaps"), 2, "none", 0.1, 0, True, (True, True), None)
@example((2, 3, 4, 9), ("flipped sign", "turned"), 4, "mean", 0.0, 0, False, (True, True), None)
@given(
    shape=st.tuples(st.integers(0, 7), st.integers(0, 5), st.integers(1, 20))
    | st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 5), st.integers(1, 20))
    | st.tuples(st.integers(1, 5), st.integers(1, 20)),
    layouts=st.tuples(*[st.sampled_from(list(LAYOUTS))] * 2),
    chunk=st.sampled_from([None, 1, 2, 3, 7, 100]),
    reduction=st.sampled_from(snippet.REDUCTIONS),
    smoothing=st.sampled_from([0.0, 0.1]),
    seed=st.integers(0, 999),
    op=st.booleans(),
    wants=st.sampled_from([(True, True), (True, False), (False, True)]),
    data=st.data(),
)
def test_with_the_layer_as_torch_computes_it_in_float64(
    device, shape, layouts, chunk, reduction, smoothing, seed, op, wants, data
):
    *rows, k, columns = shape
    dtype = torch.float64 if data is None else data.draw(st.sampled_from([torch.float32, torch.float64]))
    hidden = LAYOUTS[layouts[0]](numbers((*rows, k), dtype, device, seed, 1.0))
    weight = LAYOUTS[layouts[1]](numbers((columns, k), dtype, device, seed + 1, 1.0))
    target = targets(rows, columns, device, seed)
    options = {"reduction": reduction, "label_smoothing": smoothing}
    grad_loss = incoming(hidden, target, reduction, seed)
    leaves = [each.detach().requires_grad_(want) for each, want in zip((hidden, weight), wants, strict=True)]
    doubles = [each.detach().double().requires_grad_(want) for each, want in zip(leaves, wants, strict=True)]
    with by_op(op), blocks("8"):
        found = linear_cross_entropy(*leaves, target, chunk=chunk, **options)
        got = torch.autograd.grad(found, [each for each in leaves if each.requires_grad], grad_loss)
    wanted = snippet.in_torch(doubles[0] @ doubles[1].t(), target, **options)
    expected = torch.autograd.grad(wanted, [each for each in doubles if each.requires_grad], grad_loss.double())
    loose = 1e-4 if dtype == torch.float32 else 1e-9
    assert torch.allclose(found.double(), wanted, rtol=loose, atol=loose, equal_nan=True)
    for a, b in zip(got, expected, strict=True):
        assert a.dtype == dtype and a.is_contiguous()
        assert torch.allclose(a.double(), b, rtol=loose, atol=loose)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_layers_of_16_bits(device, dtype):
    hidden, weight = numbers((6, 8), dtype, device, 0, 0.5), numbers((50, 8), dtype, device, 1, 0.5)
    target = targets((6,), 50, device)
    for reduction in snippet.REDUCTIONS:
        leaves = [each.clone().requires_grad_() for each in (hidden, weight)]
        doubles = [each.double().requires_grad_() for each in (hidden, weight)]
        found = linear_cross_entropy(*leaves, target, reduction=reduction, chunk=4)
        wanted = snippet.in_torch(doubles[0] @ doubles[1].t(), target, reduction=reduction)
        grad_loss = incoming(hidden, target, reduction)
        got = torch.autograd.grad(found, leaves, grad_loss)
        expected = torch.autograd.grad(wanted, doubles, grad_loss.double())
        for a, b in zip((found, *got), (wanted, *expected), strict=True):
            assert torch.allclose(a.double(), b, rtol=0.02, atol=0.01)


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
    logits = torch.tensor(specials, device=device)
    for column in (0, 19):
        target = torch.full((len(logits),), column, device=device)
        grad_loss = torch.ones(len(logits), device=device)
        with blocks(block), nan_as_on_a_gpu() if drops and device == "cpu" else contextlib.nullcontext():
            loss, grad = with_gradient(cross_entropy, logits, target, grad_loss, reduction="none")
        wanted, wanted_grad = exact(logits, target, grad_loss, reduction="none")
        assert torch.allclose(loss, wanted.float(), rtol=1e-5, equal_nan=True)
        assert torch.allclose(grad.double(), wanted_grad, atol=1e-6, equal_nan=True)


@reductions
@ways
def test_a_target_that_is_no_column_makes_nan_and_reads_nothing(device, reduction, op):
    logits = numbers((16, 9), torch.float32, device)[6:10]  # within 200 bytes, nothing is another tensor's
    target = torch.tensor([3, 9, -1, 2**31 + 3], device=device)
    grad_loss = torch.ones((4,) if reduction == "none" else (), device=device)
    seen = recorded_accesses() if device == "cpu" else contextlib.nullcontext([])
    with by_op(op), seen as accesses:
        loss, grad = with_gradient(cross_entropy, logits, target, grad_loss, reduction=reduction)
    assert loss[1:].isnan().all() and not loss[0].isnan() if loss.ndim else loss.isnan()
    assert grad[1:].isnan().all() and not grad[0].isnan().any()
    if device == "cpu":
        low, high = logits.data_ptr(), logits.data_ptr() + 4 * 36
        near = {a for op, found in accesses if op == "load" for a in found.tolist() if low - 200 <= a < high + 200}
        assert not near - set(addresses_of(logits).tolist())


def test_ignored_rows_are_zero_even_of_nan(device):
    logits = torch.full((3, 9), math.nan, device=device)
    logits[1] = 0
    target = torch.tensor([5, 1, 5], device=device)
    for reduction, share in (("mean", 1), ("sum", 1), ("none", 1)):
        grad_loss = torch.ones((3,) if reduction == "none" else (), device=device)
        _, grad = with_gradient(cross_entropy, logits, target, grad_loss, reduction=reduction, ignore_index=5)
        assert not grad[0].any() and not grad[2].any()
        assert torch.allclose(grad[1], torch.tensor([1 / 9, 1 / 9 - share, *[1 / 9] * 7], device=device))


def test_the_numbers_kept_of_an_ignored_row(device):
    """A maximum and a sum by which one may divide."""
    logits, target = torch.full((2, 9), math.nan, device=device), torch.tensor([5, 5], device=device)
    _, stats = snippet.forward(logits, target, 5, 0.0, "none")
    assert stats.tolist() == [[0.0, 1.0]] * 2


def test_all_ignored(device):
    logits, target = numbers((3, 9), torch.float32, device), torch.full((3,), IGNORED, device=device)
    for reduction in ("mean", "sum"):
        loss, grad = with_gradient(cross_entropy, logits, target, torch.ones((), device=device), reduction=reduction)
        assert loss.isnan() if reduction == "mean" else loss == 0
        assert not grad.any()


@ways
def test_nothing_to_do(device, op):
    with by_op(op):
        for shape in ((0, 5), (0, 0), (2, 0, 4)):
            x = torch.empty(shape, device=device, requires_grad=True)
            target = torch.empty(shape[:-1], dtype=torch.int64, device=device)
            for reduction in snippet.REDUCTIONS:
                loss = cross_entropy(x, target, reduction=reduction)
                (grad,) = torch.autograd.grad(loss, x, torch.ones_like(loss))
                assert grad.shape == shape
                assert {"none": loss.shape == shape[:-1], "sum": loss == 0, "mean": loss.isnan()}[reduction]
        hidden, weight = (torch.empty(shape, device=device, requires_grad=True) for shape in ((0, 3), (5, 3)))
        loss = linear_cross_entropy(hidden, weight, torch.empty(0, dtype=torch.int64, device=device), reduction="sum")
        grads = torch.autograd.grad(loss, (hidden, weight))
        assert loss == 0 and grads[0].shape == (0, 3) and not grads[1].any()


def test_the_sum_of_many_float16(device):
    """float16 ends at 65504, and 1 + 2**-11 is 1 in it: sums are of float32."""
    logits = torch.zeros(1, 70_000, dtype=torch.float16, device=device)
    loss = cross_entropy(logits, torch.tensor([3], device=device))
    assert loss.item() == pytest.approx(math.log(70_000), rel=1e-6)


@pytest.mark.parametrize("begin", [0, 1])
def test_smoothing_adds_up_float16_in_float32(device, begin):
    """Eight are more than float16 can hold; rows of 33 columns begin and end between multiples of 16 bytes."""
    logits = torch.full((3, 33 + begin), 30000.0, dtype=torch.float16, device=device)[:, begin:]
    target = torch.tensor([0, 16, 32], device=device)
    loss = cross_entropy(logits, target, label_smoothing=0.5, reduction="none")
    torch.testing.assert_close(loss, torch.full_like(loss, math.log(33)), atol=0.01, rtol=0)


@pytest.mark.parametrize("columns", [32, 33])
def test_infinitely_small_logits_at_the_edges(device, columns):
    logits = numbers((4, columns), torch.float32, device)
    logits[:, 0], logits[:, -1] = -math.inf, -math.inf
    target = torch.tensor([1, 5, 16, columns - 2], device=device)
    loss = cross_entropy(logits, target, reduction="none")
    torch.testing.assert_close(loss, torch.nn.functional.cross_entropy(logits, target, reduction="none"))


def test_every_run_gives_the_same_bits(device):
    logits, target = numbers((40, 301), torch.float32, device), targets((40,), 301, device)
    first, second = (
        with_gradient(cross_entropy, logits, target, torch.tensor(3.0, device=device), label_smoothing=0.1)
        for _ in range(2)
    )
    for a, b in zip(first, second, strict=True):
        check_same_bits(a, b)


@ways
@pytest.mark.parametrize("layout", ["turned", "every other", "stride 0"])
def test_targets_of_any_strides(device, layout, op):
    logits, target = numbers((3, 4, 9), torch.float64, device), LAYOUTS[layout](targets((3, 4), 9, device))
    with by_op(op):
        found = with_gradient(cross_entropy, logits, target, torch.tensor(1.0, device=device).double())
        check(logits, target, torch.ones((), device=device), found, reduction="mean")
        linear = linear_cross_entropy(logits, torch.eye(9, device=device).double(), target, chunk=5)
    assert torch.allclose(linear, found[0])


def test_by_hand_as_the_kernels(device):
    logits, target = snippet.toy(device)
    steps = snippet.by_hand(logits[0].tolist(), target[0].item())
    loss, grad = with_gradient(cross_entropy, logits, target, torch.ones(3, device=device), reduction="none")
    assert steps["loss"] == pytest.approx(loss[0].item())
    assert steps["gradient of the target"] == pytest.approx(grad[0, 1].item())
    assert steps["gradient of the last"] == pytest.approx(grad[0, 3].item())
    assert steps["loss"] == pytest.approx(-math.log(steps["share of the target"]))
    assert torch.equal(torch.mm(*(layer := snippet.layer(device))[:1], layer[1].t()), logits)


# Where the gradient is made, and where it lies


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("factor", [1.0, 3.0, 0.0, -1.0, math.nan])
def test_the_incoming_gradient_scales_what_the_forward_made(device, reduction, factor):
    logits, target = numbers((5, 37), torch.float32, device), targets((5,), 37, device)
    wanted = exact(logits, target, torch.tensor(factor), reduction=reduction)[1]
    for in_place in (False, True):
        x = logits.clone().requires_grad_()
        loss = cross_entropy(x * 1, target, reduction=reduction, in_place=in_place)
        (grad,) = torch.autograd.grad(loss * factor, x)
        assert torch.allclose(grad.double(), wanted, atol=1e-6, equal_nan=True)


@silent
def test_an_infinite_incoming_gradient_as_in_torch(device):
    """NaN in the target's column alone; infinity in the others, for without label smoothing nothing is 0 * infinity."""
    logits, target = numbers((2, 9), torch.float32, device), torch.tensor([8, 3], device=device)
    grad_loss = torch.tensor([math.inf, 1.0], device=device)
    _, grad = with_gradient(cross_entropy, logits, target, grad_loss, reduction="none")
    _, wanted = exact(logits, target, grad_loss, reduction="none")
    assert wanted[0].isnan().tolist() == [False] * 8 + [True]
    assert torch.allclose(grad.double(), wanted, atol=1e-6, equal_nan=True)


def test_more_rows_than_programs_are_scaled(device):
    grad = numbers((7, 9), torch.float32, device)
    wanted = 3 * grad
    with mock.patch.object(snippet, "PROGRAMS", 2):
        snippet.scale_(grad, torch.tensor(3.0, device=device), BLOCKS["8"])
    check_same_bits(grad, wanted)


@reductions
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_second_backward_is_right_too(device, reduction, dtype):
    logits, target = numbers((5, 37), dtype, device), targets((5,), 37, device)
    x = logits.clone().requires_grad_()
    loss = cross_entropy(x, target, reduction=reduction)
    kept = []
    for seed in range(3):
        grad_loss = incoming(logits, target, reduction, seed)
        (grad,) = torch.autograd.grad(loss, x, grad_loss, retain_graph=True)
        kept.append((grad, grad.clone()))
        check(logits, target, grad_loss, (loss.detach(), grad), reduction=reduction)
    assert all(torch.equal(*pair) for pair in kept), "one is not written over by the next"


@reductions
def test_a_second_backward_of_the_layer_is_right_too(device, reduction):
    hidden, weight = (numbers(s, torch.float64, device, 0, 1.0).requires_grad_() for s in ((5, 3), (9, 3)))
    target = targets((5,), 9, device)
    loss = linear_cross_entropy(hidden, weight, target, reduction=reduction, chunk=2)
    for seed in range(3):
        grad_loss = incoming(hidden, target, reduction, seed)
        found = torch.autograd.grad(loss, (hidden, weight), grad_loss, retain_graph=True)
        wanted = torch.autograd.grad(
            snippet.in_torch(hidden @ weight.t(), target, reduction=reduction), (hidden, weight), grad_loss
        )
        assert all(torch.allclose(a, b) for a, b in zip(found, wanted, strict=True))


def test_accumulated_gradients(device):
    logits, target = numbers((5, 37), torch.float32, device).requires_grad_(), targets((5,), 37, device)
    for _ in range(2):
        cross_entropy(logits, target).backward()
    wanted = exact(logits, target, torch.tensor(2.0), reduction="mean")[1]
    assert torch.allclose(logits.grad.double(), wanted, atol=1e-6)


@reductions
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("layout", ["contiguous", "gaps", "turned", "stride 0"])
def test_in_place_where_it_can_be(device, reduction, dtype, layout):
    x = LAYOUTS[layout](numbers((5, 24), dtype, device)).requires_grad_()
    target, logits, before = targets((5,), 24, device), x.view_as(x), x.detach().clone()
    loss = cross_entropy(logits, target, reduction=reduction, in_place=True)
    grad_loss = incoming(before, target, reduction)
    (grad,) = torch.autograd.grad(loss, x, grad_loss)
    check(before, target, grad_loss, (loss.detach(), grad), reduction=reduction)
    if layout in ("contiguous", "gaps"):
        assert grad.data_ptr() == logits.data_ptr() and torch.equal(logits.detach(), grad)
    else:
        assert torch.equal(logits.detach(), before)


def test_in_place_without_a_gradient_leaves_the_logits(device):
    logits, target = numbers((5, 24), torch.float32, device), targets((5,), 24, device)
    before = logits.clone()
    with_leaf = logits.clone().requires_grad_()
    with torch.no_grad():
        cross_entropy(with_leaf * 1, target, in_place=True)
    cross_entropy(logits, target, in_place=True)
    assert torch.equal(logits, before) and logits._version == 0


def test_in_place_one_backward_only(device):
    for reduction in snippet.REDUCTIONS:
        x, target = numbers((5, 24), torch.float32, device).requires_grad_(), targets((5,), 24, device)
        loss = cross_entropy(x * 1, target, reduction=reduction, in_place=True)
        torch.autograd.grad(loss.sum(), x, retain_graph=True)
        with pytest.raises(RuntimeError, match=r"after cross_entropy\(in_place=True\) there is one backward"):
            torch.autograd.grad(loss.sum(), x)


@reductions
def test_in_place_whoever_needs_the_logits_is_told(device, reduction):
    """exp keeps its result for its backward; that is the logits."""
    x, target = numbers((5, 24), torch.float32, device, 0, 0.1).requires_grad_(), targets((5,), 24, device)
    loss = cross_entropy(x.exp(), target, reduction=reduction, in_place=True).sum()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_in_place_logits_modified_afterwards_are_noticed(device):
    x, target = numbers((5, 24), torch.float32, device).requires_grad_(), targets((5,), 24, device)
    logits = x * 1
    loss = cross_entropy(logits, target, in_place=True)
    with torch.no_grad():
        logits.mul_(2)
    with pytest.raises(RuntimeError, match=r"modified after cross_entropy\(in_place=True\)"):
        loss.backward()


def test_a_leaf_is_not_written_over(device):
    x = numbers((5, 24), torch.float32, device).requires_grad_()
    with pytest.raises(ValueError, match="in_place=True would write over a leaf that requires a gradient"):
        cross_entropy(x, targets((5,), 24, device), in_place=True)


def test_float16_is_divided_after_it_is_scaled(device):
    """A gradient of 1e-5 / 4096 is 0 in float16; scaled by 65536, as in mixed precision, it is not."""
    logits = torch.zeros(1, 100_000, dtype=torch.float16, device=device).expand(2, 100_000)
    target = torch.tensor([0, 1], device=device)
    counted = mock.patch.object(snippet, "count_of", lambda *_: torch.tensor(4096, device=device))
    with counted:
        _, grad = with_gradient(cross_entropy, logits, target, torch.tensor(65536.0, device=device))
    assert grad[0, 5].item() == pytest.approx(65536 / 4096 / 100_000, rel=1e-2)


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
    losses, stats = guarded((rows,), device), guarded((rows, 2), device)
    target = torch.tensor([columns - 1, IGNORED, 0], device=device)
    logits.tensor.copy_(numbers((rows, columns), torch.float32, device))
    seen = lambda: recorded_accesses() if device == "cpu" else contextlib.nullcontext([])
    run = lambda into: snippet.forward(logits.tensor, target, IGNORED, 0.0, "none", into, by)
    grad_loss = torch.ones(rows, device=device)

    def made(**buffers):
        for buffer in (logits, grad, losses, stats):
            buffer.check("a tensor")
        for each in buffers.values():
            assert not each.tensor.isnan().any()

    if device == "cpu":
        wanted = torch.ones(rows, columns, dtype=torch.int64)
        wanted[1] = 0
        once_more = torch.zeros_like(wanted)
        once_more[0, columns - 1] = once_more[2, 0] = 1  # the target's logit
    with handed_out("empty", losses.tensor, stats.tensor), seen() as loss_alone:
        run(None)
    made(losses=losses, stats=stats)
    with handed_out("empty", losses.tensor, stats.tensor), seen() as both:
        run(grad.tensor)
    made(grad=grad)
    expected = grad.tensor.clone()
    with seen() as scaled_by_one:
        snippet.scale_(grad.tensor, torch.ones((), device=device), by)
    factor = torch.tensor(2.0, device=device)
    with seen() as scaled:
        snippet.scale_(grad.tensor, factor, by)
    made(grad=grad)
    check_same_bits(grad.tensor, 2 * expected)
    grad.tensor.fill_(math.nan)
    arguments = grad_loss, logits.tensor, target, stats.tensor, IGNORED, 0.0, "none"
    with seen() as waited:
        snippet.backward(*arguments, grad.tensor, by)
    made(grad=grad)
    assert torch.allclose(grad.tensor, expected, rtol=1e-5)
    if device == "cpu":
        assert torch.equal(counted(loss_alone, "load", logits.tensor), wanted + once_more)
        assert torch.equal(counted(both, "load", logits.tensor), 2 * wanted + once_more)
        assert torch.equal(counted(waited, "load", logits.tensor), wanted)
        small = {"losses": losses.tensor, "stats": stats.tensor}
        check_each_once(loss_alone, "store", **small)
        check_each_once(both, "store", grad=grad.tensor, **small)
        check_each_once(waited, "store", grad=grad.tensor)
        check_each_once(scaled, "store", grad=grad.tensor)
        assert not counted(scaled_by_one, "load", grad.tensor).any()
        assert not [op for op, _ in scaled_by_one if op == "store"]
        assert torch.equal(counted(scaled, "load", grad.tensor), torch.ones_like(wanted))
        for accesses in (loss_alone, both):
            check_inside(accesses, "load", logits=logits.tensor, target=target)
        check_inside(waited, "load", logits=logits.tensor, target=target, stats=stats.tensor, grad_loss=grad_loss)


def test_the_gradient_is_written_backwards():
    """What was read last is still in a cache."""
    logits, target = numbers((1, 20), torch.float32, "cpu"), torch.tensor([0])
    grad = torch.empty_like(logits)
    with recorded_accesses() as accesses:
        snippet.forward(logits, target, IGNORED, 0.0, "none", grad, BLOCKS["8"])
    starts = [(int(found[0]) - grad.data_ptr()) // 4 for op, found in accesses if op == "store"]
    assert [start for start in starts if 0 <= start < 20] == [16, 8, 0]


def test_in_place_the_loss_is_of_the_logits(device):
    """That of the target is read before it is written over, where the row is a single block, too."""
    logits, target = numbers((4, 16), torch.float32, device), torch.tensor([0, 15, 8, 3], device=device)
    wanted = exact(logits, target, torch.ones(4, device=device), reduction="none")
    losses, _ = snippet.forward(logits, target, IGNORED, 0.0, "none", logits)
    assert torch.allclose(losses.double(), wanted[0]) and torch.allclose(logits.double(), wanted[1], atol=1e-6)


FAR = [(2**31 - 2, 1), (1, 2**28)]  # a row, and the stride of rows in units of 8


@silent
@pytest.mark.parametrize("edges", [False, True])
@pytest.mark.parametrize("row, stride", FAR)
def test_offsets_are_computed_in_64_bits(row, stride, edges):
    """Tensors are told of more elements than there are."""
    x, target, losses, stats, grad, grad_loss = (torch.zeros(1) for _ in range(6))
    target = target.long()
    options = {"SMOOTHING": 0.0, "COMPUTE": snippet.tl.float32, "BLOCK": 8, "WIDE": 4, "UNIT": 8}
    options |= {"EDGES": edges, "ALIKE": edges}
    numbers_of = functools.partial(recorded_accesses, first_program=(row, 0, 0), memory=False)
    with numbers_of() as forward:
        snippet.cross_entropy_kernel[(1,)](
            x, target, losses, stats, grad, None, 1, stride, stride + 1, IGNORED,
            LOWEST=-3e38, LANES=2, **options,
        )  # fmt: skip
    with numbers_of() as backward:
        snippet.gradient_kernel[(1,)](
            grad_loss, x, target, stats, grad, None, 1, 5, stride, stride + 1, IGNORED, **options
        )
    with numbers_of() as ignored:
        snippet.cross_entropy_kernel[(1,)](
            x, target, losses, stats, grad, None, 1, stride, stride + 1, 0,
            LOWEST=-3e38, LANES=2, **options,
        )  # fmt: skip
    offsets = lambda seen, op, of: {
        (int(found[0]) - of.data_ptr()) // of.itemsize for kind, found in seen if kind == op and len(found)
    }
    for seen in (forward, backward):
        assert row * stride * 8 in offsets(seen, "load", x) and row in offsets(seen, "load", target)
        assert row * (stride + 1) * 8 in offsets(seen, "store", grad)
    assert row * (stride + 1) * 8 in offsets(ignored, "store", grad)
    for seen in (forward, ignored):
        assert row in offsets(seen, "store", losses)
        assert {2 * row, 2 * row + 1} <= offsets(seen, "store", stats)
    assert {2 * row, 2 * row + 1} <= offsets(backward, "load", stats)
    assert 5 * row in offsets(backward, "load", grad_loss)


@pytest.mark.parametrize("row, stride", FAR)
def test_offsets_of_what_is_scaled_are_computed_in_64_bits(row, stride):
    grad, factor = torch.zeros(1), torch.zeros(1)
    with recorded_accesses(first_program=(row, 0, 0), memory=False) as seen:
        snippet.scale_kernel[(1,)](
            grad, factor, row + 1, 1, stride,
            COMPUTE=snippet.tl.float32, BLOCK=8, WIDE=4, UNIT=8, EDGES=True, num_warps=1,
        )  # fmt: skip
    for op in ("load", "store"):
        found = [int(addresses[0]) - grad.data_ptr() for kind, addresses in seen if kind == op and len(addresses)]
        assert 4 * row * stride * 8 in found


# As PyTorch calls it


@pytest.mark.parametrize("reduction, op", [("none", False), ("mean", False), ("none", True), ("mean", True)])
def test_gradcheck(device, reduction, op):
    target = torch.tensor([2, 0, IGNORED], device=device)
    options = {"target": target, "reduction": reduction, "label_smoothing": 0.1}
    logits, hidden, weight = (
        numbers(shape, torch.float64, device, 1).requires_grad_() for shape in ((3, 5), (3, 1), (5, 1))
    )
    # gradcheck goes back twice: of a gradient made in the forward and one made again a GPU may round the last bit
    # otherwise
    again = {"nondet_tol": 0.0 if device == "cpu" else 1e-12}
    with by_op(op), blocks("4"):
        assert torch.autograd.gradcheck(functools.partial(cross_entropy, **options), (logits,), **again)
        linear = functools.partial(linear_cross_entropy, chunk=2, **options)
        assert torch.autograd.gradcheck(linear, (hidden, weight), **again)


@ways
@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_incoming_gradient_of_any_strides(device, op, layout):
    """Which gradcheck never tries."""
    target = targets((3, 4), 9, device)
    grad_loss = LAYOUTS[layout](numbers((3, 4), torch.float64, device, 7))
    logits, hidden, weight = (numbers(s, torch.float64, device) for s in ((3, 4, 9), (3, 4, 5), (9, 5)))
    with by_op(op):
        found = with_gradient(cross_entropy, logits, target, grad_loss, reduction="none")
        check(logits, target, grad_loss, found, reduction="none")
        leaves = [hidden.requires_grad_(), weight.requires_grad_()]
        loss = linear_cross_entropy(*leaves, target, reduction="none", chunk=5)
        got = torch.autograd.grad(loss, leaves, grad_loss)
    wanted = snippet.in_torch(hidden @ weight.t(), target, reduction="none")
    for a, b in zip(got, torch.autograd.grad(wanted, leaves, grad_loss), strict=True):
        assert torch.allclose(a, b)


@ways
def test_losses_that_are_weighted_and_added_up(device, op):
    target, weights = targets((4, 3), 9, device), numbers((3, 4), torch.float64, device, 5)
    with by_op(op):
        for reduce in (torch.sum, lambda x: (x.t() * weights).sum(), lambda x: torch.cat([x, x])[2:7].sum()):
            x = numbers((4, 3, 9), torch.float64, device).requires_grad_()
            (found,) = torch.autograd.grad(reduce(cross_entropy(x, target, reduction="none")), x)
            (wanted,) = torch.autograd.grad(reduce(snippet.in_torch(x, target, reduction="none")), x)
            assert torch.allclose(found, wanted)


def test_a_gradient_of_the_gradient_is_refused(device):
    x, target = numbers((3, 5), torch.float32, device).requires_grad_(), targets((3,), 5, device)
    for name, loss in {
        "cross_entropy": cross_entropy(x, target),
        "linear_cross_entropy": linear_cross_entropy(x, numbers((9, 5), torch.float32, device), target),
    }.items():
        with pytest.raises(RuntimeError, match=f"^{name} has no gradient of its gradient"):
            torch.autograd.grad(loss, x, create_graph=True)


def saved_by(function):
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        function()
    return sorted(t.numel() for t in saved)


def test_what_is_kept(device):
    """No shares: the logits, unless they are the gradient; the target; two numbers a row."""
    x, target = numbers((6, 40), torch.float32, device).requires_grad_(), targets((6,), 40, device)
    assert saved_by(lambda: cross_entropy(x, target)) == [6, 12, 240]
    logits = x.view_as(x)
    assert saved_by(lambda: cross_entropy(logits, target, in_place=True)) == [6, 12]
    weight = numbers((50, 40), torch.float32, device).requires_grad_()
    assert saved_by(lambda: linear_cross_entropy(x, weight, target)) == [6, 12, 240, 2000]
    assert not cross_entropy(x.detach(), target).requires_grad


def test_without_a_gradient_none_is_made():
    x, weight = (numbers((6, 40), torch.float32, "cpu", i).requires_grad_() for i in range(2))
    target = targets((6,), 6, "cpu")
    with mock.patch.object(snippet, "write_gradient", None), mock.patch.object(snippet, "add_gradients") as add:
        with torch.no_grad():
            cross_entropy(x, target), linear_cross_entropy(x, weight, target)
        cross_entropy(x.detach(), target)
        linear_cross_entropy(x.detach(), weight.detach(), target)
    assert all(call.args[:2] == (None, None) for call in add.call_args_list)


def test_products_that_nobody_wants_are_not_computed(device):
    hidden, weight = (numbers((6, 40), torch.float64, device, i) for i in range(2))
    target = targets((6,), 6, device)
    for wants in ((True, False), (False, True)):
        leaves = [each.clone().requires_grad_(want) for each, want in zip((hidden, weight), wants, strict=True)]
        seen, add = [], snippet.add_gradients
        noted = lambda *given: seen.append(tuple(each is not None for each in given[:2])) or add(*given)  # noqa: B023
        with mock.patch.object(snippet, "add_gradients", noted):
            linear_cross_entropy(*leaves, target, chunk=4).backward()
        assert seen == [wants] * 2


@pytest.mark.parametrize("reduction", ["sum", "none"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_chunks_of_16_bits_are_added_up_in_float32(device, dtype, reduction):
    """The gradient of the weight is as near for 48 chunks as for one."""
    if dtype not in served(device):
        pytest.skip("Triton's interpreter rounds bfloat16 wrongly")
    hidden, weight = numbers((240, 24), dtype, device, 1, 0.5), numbers((40, 24), dtype, device, 2, 0.5)
    target = targets((240,), 40, device)
    loss = snippet.in_torch(hidden.double() @ (exact := weight.double().requires_grad_()).t(), target, reduction="sum")
    (wanted,) = torch.autograd.grad(loss, exact)
    error = {}
    for chunk in (240, 5):
        leaf = weight.detach().requires_grad_()
        linear_cross_entropy(hidden, leaf, target, reduction=reduction, chunk=chunk).sum().backward()
        error[chunk] = (leaf.grad.double() - wanted).abs().mean().item()
    assert error[5] < 1.2 * error[240]


def test_chunks_share_their_memory(device):
    rows, weight = numbers((7, 4), torch.float32, device), numbers((9, 4), torch.float32, device)
    found = [(part, logits.data_ptr(), logits.clone()) for part, logits in snippet.chunks(rows, weight, 3)]
    assert [part for part, *_ in found] == [slice(0, 3), slice(3, 6), slice(6, 7)]
    assert len({at for _, at, _ in found}) == 1
    assert torch.allclose(torch.cat([logits for *_, logits in found]), rows @ weight.t())


def test_rows_of_a_chunk():
    rows_of = lambda rows, columns, width, dtype, wants=True: snippet.rows_of_a_chunk(
        rows, (columns, width), dtype, wants
    )
    assert rows_of(9000, 128256, 64, torch.bfloat16) == 1024
    assert rows_of(9000, 128256, 4096, torch.float32) == 512
    assert rows_of(9000, 32000, 512, torch.bfloat16) == 4096
    assert rows_of(9000, 2**21, 8, torch.float16) == 64, "less than 128"
    assert rows_of(9000, 2**30, 4, torch.float64) == 1
    assert rows_of(9000, 128256, 4096, torch.bfloat16) == 4096, "as large as what rounding takes"
    assert rows_of(8192, 128256, 4096, torch.bfloat16) == 8192, "at once, in less than float32 would take"
    assert rows_of(8192, 128256, 4096, torch.bfloat16, False) == 1024, "nothing is added up"


def test_under_torch_compile(device):
    torch.compiler.reset()
    backend = "inductor" if device == "cuda" else "aot_eager"
    turned = lambda f: lambda x, t, **more: f(2 * x.transpose(0, 1), t, **more)
    ours, theirs = turned(cross_entropy), turned(snippet.in_torch)
    compiled = torch.compile(ours, fullgraph=True, backend=backend)
    for shape, reduction in (((3, 4, 7), "none"), ((2, 5, 9), "none"), ((3, 4, 7), "mean")):
        x, target = numbers(shape, torch.float64, device), targets((shape[1], shape[0]), shape[2], device)
        grad_loss = incoming(x, target, reduction)
        found, wanted = (with_gradient(f, x, target, grad_loss, reduction=reduction) for f in (compiled, theirs))
        for a, b in zip(found, wanted, strict=True):
            assert torch.allclose(a, b)
    linear = torch.compile(
        lambda h, w, t, **more: linear_cross_entropy(2 * h, w, t, chunk=2, **more), fullgraph=True, backend=backend
    )
    for reduction in snippet.REDUCTIONS:
        leaves = [numbers(s, torch.float64, device).requires_grad_() for s in ((5, 3), (9, 3))]
        target = targets((5,), 9, device)
        grad_loss = incoming(leaves[0], target, reduction)
        found = torch.autograd.grad(linear(*leaves, target, reduction=reduction), leaves, grad_loss)
        loss = snippet.in_torch(2 * leaves[0] @ leaves[1].t(), target, reduction=reduction)
        for a, b in zip(found, torch.autograd.grad(loss, leaves, grad_loss), strict=True):
            assert torch.allclose(a, b)


def test_in_place_under_torch_compile_leaves_the_logits(device):
    torch.compiler.reset()
    x, target = numbers((3, 7), torch.float64, device).requires_grad_(), targets((3,), 7, device)
    compiled = torch.compile(lambda x: cross_entropy(x, target, in_place=True), fullgraph=True, backend="aot_eager")
    logits = x * 1
    (grad,) = torch.autograd.grad(compiled(logits), x)
    assert torch.equal(logits, x) and torch.allclose(grad, exact(x, target, torch.tensor(1.0))[1])


@pytest.mark.parametrize("layout", ["contiguous", "turned"])
def test_the_ops_keep_what_they_promise_the_compiler(device, layout):
    lay, opcheck = LAYOUTS[layout], torch.library.opcheck
    logits, hidden, weight = (lay(numbers(s, torch.float32, device)).detach() for s in ((3, 4), (3, 5), (4, 5)))
    target = targets((3,), 4, device)
    stats = torch.ones(3, 2, device=device)
    leaf = lambda t: t.detach().requires_grad_()
    for reduction in ("none", "mean"):
        grad_loss = torch.ones((3,) if reduction == "none" else (), device=device)
        options = IGNORED, 0.1, reduction
        opcheck(snippet.cross_entropy_op, (leaf(logits), target, *options))
        opcheck(snippet.cross_entropy_backward_op, (grad_loss, logits, target, stats, *options))
        made = (False, False) if reduction == "none" else (True, True)
        opcheck(snippet.linear_cross_entropy_op, (leaf(hidden), leaf(weight), target, *options, 2, *made))
    arguments = grad_loss, hidden, weight, target, stats, *options, None
    for wants in ((True, False), (True, True)):
        opcheck(snippet.linear_cross_entropy_backward_op, (*arguments, *wants))


# Blocks


def test_blocks():
    found = {
        (columns, dtype): snippet.blocks_for(columns, dtype)
        for columns in (1, 1024, 4096, 32000, 128256, 2**20)
        for dtype in (torch.bfloat16, torch.float64)
    }
    for (columns, dtype), by in found.items():
        assert by.block * dtype.itemsize == 2048 * by.num_warps, "64 bytes a thread"
        assert by.lanes == 32 * by.num_warps and by.wide * dtype.itemsize == 16
        assert by.block >= min(columns, 2**16 // dtype.itemsize) / 4
    warps = [found[columns, torch.bfloat16].num_warps for columns in (1, 1024, 4096, 32000, 128256, 2**20)]
    assert warps == [1, 1, 1, 8, 32, 32]
    with mock.patch.object(torch.version, "hip", "6.0"):
        assert snippet.blocks_for(2**20, torch.bfloat16).num_warps == 16, "1024 threads of AMD's"


def test_what_the_kernels_are_launched_with():
    """Nobody sees it in a result: blocks and warps; units, if 8 divides columns and strides of all."""
    x = without_memory(3, 1000, dtype=torch.float32)
    wider = without_memory(3, 1001, dtype=torch.float32)[:, :1000]
    row = torch.zeros(3, dtype=torch.int64)
    names = ["cross_entropy_kernel", "gradient_kernel", "scale_kernel"]
    for grad, unit, edges in ((x, 8, False), (wider, 1, True)):
        with contextlib.ExitStack() as stack:
            kernels = [stack.enter_context(mock.patch.object(snippet, name)) for name in names]
            snippet.launch_forward(x, row, row.float(), row, grad, None, IGNORED, 0.0)
            snippet.launch_gradient(row.float(), x, row, row, grad, None, IGNORED, 0.0)
            snippet.scale_(grad, row)
        by = snippet.blocks_for(1000, torch.float32)
        for kernel in kernels:
            call = kernel.__getitem__.return_value.call_args
            kernel.__getitem__.assert_called_once_with((3,))
            assert (call.kwargs["BLOCK"], call.kwargs["num_warps"], call.kwargs["UNIT"]) == (
                by.block,
                by.num_warps,
                unit,
            )
            assert (call.kwargs["WIDE"], call.kwargs["EDGES"]) == (by.wide, edges)
        columns, *strides = kernels[0].__getitem__.return_value.call_args.args[6:9]
        assert (columns, *strides) == (1000 // unit, 1000 // unit, grad.stride(0) // unit)
        columns, loss, *strides = kernels[1].__getitem__.return_value.call_args.args[6:10]
        assert (columns, loss, *strides) == (1000 // unit, 1, 1000 // unit, grad.stride(0) // unit)


def test_where_rows_begin():
    """Loads are said to be at multiples of 16 bytes only where they are: other rows have edges, and a gradient is like
    its row if both begin at the same distance from such a multiple."""
    memory = torch.zeros(64, dtype=torch.float16)
    rows = lambda begin, columns, stride: memory[begin:].as_strided((2, columns), (stride, 1))
    of = lambda x, grad=None: tuple(snippet.edges(8, snippet.unit_of(x, grad), x, grad).values())
    assert memory.data_ptr() % 16 == 0
    assert of(rows(0, 16, 16)) == (False, False)
    assert of(rows(0, 15, 16)) == of(rows(0, 16, 17)) == of(rows(1, 16, 16)) == (True, False)
    assert of(rows(0, 16, 16), rows(8, 16, 16)) == (False, False)
    assert of(rows(0, 15, 15), rows(16, 15, 15)) == (True, True)
    assert of(rows(3, 16, 16), rows(11, 16, 16)) == of(rows(0, 15, 15), rows(0, 15, 23)) == (True, True)
    assert of(rows(0, 15, 15), rows(1, 15, 15)) == of(rows(0, 15, 15), rows(0, 15, 16)) == (True, False)


@pytest.mark.parametrize(
    "columns, gap, begin, grad_begin, dtype",
    [
        (1, 0, 1, 1, torch.float32),
        (3, 0, 2, 1, torch.float16),
        (4, 1, 0, 0, torch.float32),
        (16, 0, 0, 0, torch.float32),
        (16, 0, 3, 3, torch.float32),
        (21, 0, 0, 0, torch.float32),
        (21, 2, 3, 4, torch.float32),
        (33, 0, 5, 5, torch.float16),
        (70, 2, 1, 9, torch.float16),
        (11, 0, 0, 1, torch.float64),
    ],
)
def test_rows_that_begin_anywhere(device, dtype, columns, gap, begin, grad_begin):
    """Where loads of 16 bytes may begin, and where not: the same loss and gradient, nothing else is written, and in
    place, too."""
    rows, wide = 4, 16 // dtype.itemsize
    by = Blocks(4 * wide, 2, wide, 1)
    made = [guarded((rows * (columns + gap),), device, dtype, before=16 * wide + at) for at in (begin, grad_begin)]
    x, grad = (each.tensor.view(rows, -1)[:, :columns] for each in made)
    before = [each.tensor.view(rows, -1)[:, columns:].clone() for each in made]
    target = torch.tensor([0, columns - 1, IGNORED, columns // 2], device=device)
    step = max(2 * torch.finfo(dtype).eps, 1e-5)  # a GPU's exponential is approximate
    values = numbers((rows, columns), dtype, device)

    def right(found, wanted):
        assert torch.allclose(found.double(), wanted, rtol=step, atol=step)
        for each, rest in zip(made, before, strict=True):
            each.check("a tensor")
            check_same_bits(each.tensor.view(rows, -1)[:, columns:], rest)

    for smoothing in (0.0, 0.1):
        x.copy_(values)
        options = IGNORED, smoothing, "sum"
        one = torch.ones((), dtype=torch.float64, device=device)
        loss, slope = exact(values, target, one, reduction="sum", label_smoothing=smoothing)
        with promises_kept() if device == "cpu" else contextlib.nullcontext([]) as said:
            found, stats = snippet.forward(x, target, *options, grad, by)
            assert torch.allclose(found.double(), loss, rtol=1e-5, atol=1e-5)
            right(grad, slope)
            right(snippet.backward(one.float(), x, target, stats, *options, grad.fill_(0), by), slope)
            snippet.scale_(grad, torch.tensor(0.5, device=device), by)
            right(2 * grad, slope)
            snippet.forward(x, target, *options, x, by)
            right(x, slope)
        assert set(said) <= {16} and bool(said) == (device == "cpu" and (columns, gap, begin) != (16, 0, 0))


CODE = """
for shape, dtype, smoothing in CASES:
    x, row = torch.empty(shape, dtype=getattr(torch, dtype)), torch.zeros(shape[0], dtype=torch.int64)
    stats = torch.empty(shape[0], 2, dtype=module.wide(x.dtype))
    module.launch_forward(x, row, stats[0], stats, x, row.sum(), -100, smoothing)
    module.launch_gradient(stats[:, 0], x, row, stats, x, row.sum(), -100, smoothing)
    module.scale_(x, stats[0, 0])
"""


def test_compiles_to_wide_loads_and_spills_nothing():
    """For an H200, without one: 16 bytes a load, also where 16 does not divide a row's columns, nor 2. In the first
    pass no warp waits for another. Of the widest program, one fits on a multiprocessor, and no second."""
    cases = [((3, 128256), "bfloat16", 0.0), ((3, 32008), "float32", 0.1), ((3, 50257), "bfloat16", 0.1)]
    cases.append(((1, 1), "float64", 0.0))  # Triton makes a constant of an argument that is 1
    launches = compiled("fusion/cross_entropy", CODE.replace("CASES", repr(cases)))
    assert [launch.kernel for launch in launches] == ["cross_entropy_kernel", "gradient_kernel", "scale_kernel"] * 4
    for launch in launches[2::3]:
        assert re.search(r"scf[.]for .* : i64", launch.ttir), "else 1024 rows past one of the last are below 0"
    registers = [32 * launch.options["num_warps"] * launch.registers for launch in launches[:9]]  # of a program
    for launch, of_all in zip(launches[:9], registers, strict=True):
        assert (launch.widest("LDG"), launch.widest("STG"), launch.spills) == (128, 128, 0) and of_all <= 2**16
    assert [of_all > 2**15 for of_all in registers[::3]] == [True, False, False]
    for launch in launches[:9:3]:
        loops = [part for part in launch.ptx.split("$L__BB") if "ex2" in part and "ld.global" in part]
        (first,) = [loop for loop in loops if "st.global" not in loop]
        assert "bar.sync" not in first


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


@ways
@pytest.mark.parametrize(
    "make, options, fragment",
    [
        (lambda d: (ones((), device=d), zeros(device=d)), {}, "logits must have a dimension or more"),
        (lambda d: (ones(2, 3, device=d), zeros(3, device=d)), {}, "target must have the shape (2,)"),
        (lambda d: (ones(2, 3, device=d), zeros(2, 1, device=d)), {}, "got (2, 1) torch.int64 for logits (2, 3)"),
        (lambda d: (ones(2, 3, device=d), ones(2, device=d)), {}, "be int64 or int32; got (2,) torch.float32"),
        (lambda d: (ones(2, 3, device=d).int(), zeros(2, device=d)), {}, "torch.int32 is not supported; use one of"),
        (lambda d: (ones(2, 0, device=d), zeros(2, device=d)), {}, "a row has no column, so none can be the target"),
        (
            lambda d: (ones(2, 3, device=d), zeros(2, device=d)),
            {"reduction": "max"},
            "one of none, mean, sum; got 'max'",
        ),
        (lambda d: (ones(2, 3, device=d), zeros(2, device=d)), {"label_smoothing": 1.5}, "from 0 to 1; got 1.5"),
        (lambda d: (ones(2, 3, device=d), zeros(2, device=d)), {"label_smoothing": math.nan}, "from 0 to 1; got nan"),
    ],
)
def test_refuses(device, op, make, options, fragment):
    with pytest.raises(ValueError) as error, by_op(op):
        cross_entropy(*make(device), **options)
    assert fragment in str(error.value)


@ways
@pytest.mark.parametrize(
    "make, options, fragment",
    [
        (lambda x, w, t: (x, w[0], t), {}, "weight must have the shape (columns, 3) and the dtype of hidden; got (3,)"),
        (lambda x, w, t: (x, w[:, :2], t), {}, "got (5, 2) torch.float32 for hidden (2, 3) torch.float32"),
        (lambda x, w, t: (x, w.half(), t), {}, "got (5, 3) torch.float16"),
        (lambda x, w, t: (x, w, t[:1]), {}, "target must have the shape (2,), a column for each row"),
        (lambda x, w, t: (x, w[:0], t), {}, "a row has no column"),
        (lambda x, w, t: (x, w, t), {"chunk": 0}, "a chunk must have a row or more; got 0"),
        (lambda x, w, t: (x, w, t), {"reduction": ""}, "reduction must be one of"),
        (lambda x, w, t: (x.to("meta"), w.to("meta"), t.to("meta")), {}, "hidden is on meta; kernels run on"),
    ],
)
def test_the_layer_refuses(device, op, make, options, fragment):
    with pytest.raises(ValueError) as error, by_op(op and "meta" not in fragment):
        linear_cross_entropy(
            *make(ones(2, 3, device=device), ones(5, 3, device=device), zeros(2, device=device)), **options
        )
    assert fragment in str(error.value)


def test_refuses_too_many_rows_and_columns():
    check = functools.partial(snippet.check_arguments, label_smoothing=0.0, reduction="mean")
    target = lambda rows: without_memory(rows, dtype=torch.int64)
    with pytest.raises(ValueError, match="2147483648 rows are too many for one launch; split logits"):
        check(without_memory(2**31, 1), target(2**31))
    with pytest.raises(ValueError, match=f"a row has {2**30 + 1} columns, at most {2**30} are served"):
        check(without_memory(1, 2**30 + 1), target(1))
    for shape in ((2**31 - 1, 1), (1, 2**30)):
        with pytest.raises(ValueError, match="logits is on cpu"), as_if_compiled(snippet, "cross_entropy_kernel"):
            check(without_memory(*shape), target(shape[0]))


# The file as a script


def test_as_torch_tells_what_differs(device):
    x, target = numbers((3, 5), torch.float32, device).requires_grad_(), zeros(3, device=device)
    theirs = lambda x: snippet.in_torch(x, target)
    assert snippet.as_torch(lambda x: cross_entropy(x, target), theirs, [x])
    assert not snippet.as_torch(lambda x: 1.01 * cross_entropy(x, target), theirs, [x])
    assert not snippet.as_torch(lambda x: cross_entropy(x.detach(), target) + 0 * x.sum(), theirs, [x])


# On a GPU alone


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", snippet.DTYPES)
@pytest.mark.parametrize("shape", [(1000, 1000), (300, 32000), (140, 50257), (200, 128256), (3, 262144)], ids=str)
def test_real_sizes(shape, dtype):
    logits, target = numbers(shape, dtype, "cuda"), targets(shape[:1], shape[1], "cuda")
    for reduction in snippet.REDUCTIONS:
        for smoothing, in_place in ((0.0, False), (0.1, False), (0.0, True)):
            options = {"reduction": reduction, "label_smoothing": smoothing}
            grad_loss = incoming(logits, target, reduction)
            x = logits.clone().requires_grad_()
            loss = cross_entropy(x * 1, target, in_place=in_place, **options)
            (grad,) = torch.autograd.grad(loss, x, grad_loss)
            check(logits, target, grad_loss, (loss.detach(), grad), **options)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_real_layer(dtype):
    hidden, weight = numbers((1000, 512), dtype, "cuda", 0, 1.0), numbers((32000, 512), dtype, "cuda", 1, 0.05)
    target = targets((1000,), 32000, "cuda")
    norm = torch.linalg.vector_norm
    for reduction in snippet.REDUCTIONS:
        grad_loss = incoming(hidden, target, reduction)
        leaves = [each.clone().requires_grad_() for each in (hidden, weight)]
        doubles = [each.double().requires_grad_() for each in (hidden, weight)]
        loss = linear_cross_entropy(*leaves, target, reduction=reduction, chunk=128)
        wanted = snippet.in_torch(doubles[0] @ doubles[1].t(), target, reduction=reduction)
        found = [loss, *torch.autograd.grad(loss, leaves, grad_loss)]
        exactly = [wanted, *torch.autograd.grad(wanted, doubles, grad_loss.double())]
        for a, b in zip(found, exactly, strict=True):
            assert norm(a.double() - b) < (0.02 if dtype == torch.bfloat16 else 1e-4) * norm(b)


@pytest.mark.gpu
@pytest.mark.parametrize("rows, chunk, times", [(4096, 256, 3), (4096, 4096, 1), (512, None, 1)])
def test_the_layer_takes_a_chunk_and_the_gradients(rows, chunk, times):
    """With several chunks the gradient of the weight is there in float32, and then rounded: 6 bytes instead of 2."""
    hidden = numbers((rows, 256), torch.bfloat16, "cuda").requires_grad_()
    weight = numbers((32000, 256), torch.bfloat16, "cuda", 1, 0.1).requires_grad_()
    target = targets((rows,), 32000, "cuda")
    run = lambda: torch.autograd.grad(linear_cross_entropy(hidden, weight, target, chunk=chunk), (hidden, weight))
    run()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run()
    taken = torch.cuda.max_memory_allocated() - before
    assert taken < 1.2 * 2 * (min(chunk or rows, rows) * 32000 + hidden.numel() + times * weight.numel())


@pytest.mark.gpu
def test_the_host_never_waits():
    logits, target = numbers((50, 1000), torch.float32, "cuda").requires_grad_(), targets((50,), 1000, "cuda")
    weight = numbers((70, 1000), torch.float32, "cuda").requires_grad_()
    few = targets((50,), 70, "cuda")
    cross_entropy(logits, target), linear_cross_entropy(logits, weight, few)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for reduction in snippet.REDUCTIONS:
            (3 * cross_entropy(logits, target, reduction=reduction)).sum().backward()
            (3 * linear_cross_entropy(logits, weight, few, reduction=reduction)).sum().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.gpu
def test_more_than_2_to_the_31_elements():
    if torch.cuda.mem_get_info()[0] < 40e9:
        pytest.skip("needs 40 GB of free GPU memory")
    columns = 2**17
    logits = torch.zeros(2**31 // columns + 3, columns, dtype=torch.bfloat16, device="cuda")
    logits[-1] = numbers((columns,), torch.bfloat16, "cuda")
    target = torch.arange(len(logits), device="cuda")
    wanted = with_gradient(cross_entropy, logits[-1:], target[-1:], torch.ones((), device="cuda"), reduction="sum")
    stride = torch.ones((), device="cuda").expand(len(logits))
    losses, grad = with_gradient(cross_entropy, logits, target, stride, reduction="none")
    same = lambda a, b: torch.allclose(a.float(), b.float(), rtol=0.01, atol=1e-9)  # kernels may round differently
    assert same(losses[-1], wanted[0]) and same(grad[-1:], wanted[1])
    assert same(losses[:-1], losses[:1]) and same(grad[1:-1, 0], grad[1:2, 0])
    del grad
    snippet.forward(logits, target, IGNORED, 0.0, "sum", logits)
    assert same(logits[-1:], wanted[1])
    snippet.scale_(logits, torch.tensor(2.0, device="cuda"))
    assert same(logits[-1:], 2 * wanted[1])


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", snippet.DTYPES)
def test_in_a_cuda_graph(dtype):
    logits, target = numbers((300, 5000), dtype, "cuda").requires_grad_(), targets((300,), 5000, "cuda")
    weight = numbers((700, 5000), dtype, "cuda", 1, 0.01).requires_grad_()
    few = targets((300,), 700, "cuda")

    def run():
        found = []
        for reduction in snippet.REDUCTIONS:
            loss = cross_entropy(logits, target, reduction=reduction)
            layer = linear_cross_entropy(logits, weight, few, reduction=reduction, chunk=100)
            found += [loss, *torch.autograd.grad(loss, logits, 3 * torch.ones_like(loss))]
            found += [layer, *torch.autograd.grad(layer, (logits, weight), 3 * torch.ones_like(layer))]
        return found

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


@pytest.mark.gpu
@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune"])
def test_compiled_with_modes(mode):
    torch.compiler.reset()
    compiled = torch.compile(cross_entropy, mode=mode, fullgraph=True)
    logits, target = numbers((64, 781), torch.float32, "cuda"), targets((64,), 781, "cuda")
    for reduction in ("mean", "none"):
        grad_loss = incoming(logits, target, reduction)
        wanted = with_gradient(cross_entropy, logits, target, grad_loss, reduction=reduction)
        for _ in range(3):
            found = with_gradient(compiled, logits, target, grad_loss, reduction=reduction)
            for a, b in zip(found, wanted, strict=True):
                assert torch.allclose(a, b, rtol=1e-5, atol=1e-6)
