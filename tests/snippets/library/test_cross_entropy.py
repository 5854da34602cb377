# SPDX-License-Identifier: Apache-2.0
"""The losses to copy: results and gradients of torch in float64, with every option and any shape, dtype and strides."""

import contextlib
import functools
import itertools
import math
import re

import numpy as np
import pytest
import torch
from compiled import compiled
from covering import covering
from guards import among_nans, promises_kept, recorded_accesses, without_memory
from hypothesis import example, given
from hypothesis import strategies as st

from snippets.library import cross_entropy as snippet
from snippets.library.cross_entropy import Blocks, cross_entropy, in_torch, linear_cross_entropy
from snippets.tools.testing import addresses_of

IGNORED = -100
silent = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy in the interpreter: inf - inf, 0 * inf
LAYOUTS = {
    "contiguous": lambda t: t.clone(),
    "gaps": lambda t: torch.cat([t, t], dim=-1)[..., : t.shape[-1]],
    "turned": lambda t: t.transpose(0, -1).contiguous().transpose(0, -1),
    "flipped sign": lambda t: torch._neg_view(-t),
    "stride 0": lambda t: t[:1].clone().expand(t.shape) if len(t) else t,
}
OPTIONS = {
    "none": {},
    "smoothing": {"label_smoothing": 0.1},
    "softcap": {"softcap": 2.0},
    "z-loss": {"z_loss": 0.05},
    "all": {"label_smoothing": 0.1, "softcap": 2.0, "z_loss": 0.05},
}


@pytest.fixture
def small(monkeypatch):
    """Blocks of 16 columns by 2 lanes, so that short rows are several blocks, and lanes have elements to merge."""
    monkeypatch.setattr(snippet, "blocks_for", lambda *_: Blocks(16, 2, 4, 1))


def numbers(shape, dtype, device, seed=0, scale=1.5):
    random = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=random, dtype=torch.float64) * scale).to(device, dtype)


def targets(shape, columns, device, soft=False, dtype=torch.int64, seed=0):
    """Return columns, some of them ignored; or probabilities, with zeros among them."""
    random = torch.Generator().manual_seed(seed)
    if soft:
        found = torch.rand((*shape, columns), generator=random, dtype=torch.float64) - 0.5
        return among_nans(found.clamp(min=0).to(device, dtype))
    found = torch.randint(max(columns, 1), shape, generator=random)
    return torch.where(torch.rand(shape, generator=random) < 0.3, IGNORED, found).to(device, dtype)


def weights(columns, device, dtype=torch.float64):
    return among_nans(numbers((columns,), dtype, device, 7).abs())


def check(found, inputs, wanted, exact, tolerance, seed=0):
    """Compare results with those of torch in float64, and the gradients of their sums, each with factors of its own."""
    factors = [numbers(each.shape, each.dtype, each.device, seed + i) for i, each in enumerate(found)]
    got = torch.autograd.grad(found, inputs, factors)
    expected = torch.autograd.grad(wanted, exact, [each.double() for each in factors])
    for ours, theirs in [*zip(found, wanted, strict=True), *zip(got, expected, strict=True)]:
        assert ours.shape == theirs.shape
        scale = theirs.abs().nan_to_num().max().clamp(min=1) if theirs.numel() else 1
        assert torch.allclose(ours.double() / scale, theirs / scale, rtol=0, atol=tolerance, equal_nan=True)
    assert [each.dtype for each in got] == [each.dtype for each in inputs]


# Everything with everything else, in float64


@silent
@covering(3, option=OPTIONS, weighted=[False, True], soft=[False, True], reduction=snippet.REDUCTIONS, columns=[32, 37])
def test_every_option_gives_torchs_numbers(small, device, option, weighted, soft, reduction, columns):
    logits = among_nans(numbers((2, 2, columns), torch.float64, device)).requires_grad_()
    target = targets((2, 2), columns, device, soft, torch.float32 if soft else torch.int64, seed=1)  # one is ignored
    class_weight = weights(columns, device) if weighted else None
    options = {"reduction": reduction, "class_weight": class_weight, **OPTIONS[option]}
    exact = logits.detach().requires_grad_()
    wide = target.double() if soft else target
    loss, lse = in_torch(exact, wide, **options)
    without_details = cross_entropy(logits, target, **options)
    check([without_details], [logits], [loss], [exact], 1e-10)
    found = cross_entropy(logits, target, details=True, **options)
    check([found.loss, found.log_sum_exp], [logits], in_torch(exact, wide, **options), [exact], 1e-10)
    without = in_torch(exact, wide, **(options | {"z_loss": 0.0}))[0]
    assert torch.allclose(found.z_loss, loss - without, atol=1e-12) and not found.z_loss.requires_grad
    capped = exact if "softcap" not in options else 2 * torch.tanh(exact / 2)
    counts = torch.ones_like(lse, dtype=torch.bool) if soft else target != IGNORED
    assert torch.equal(found.predicted, torch.where(counts, capped.argmax(-1), -1))
    best = target.argmax(-1) if soft else target
    assert torch.allclose(found.accuracy, (found.predicted == best)[counts].double().mean())
    assert torch.equal(found.loss, without_details)


@covering(
    option=["none", "all"],
    kind=["columns", "class weights", "probabilities"],
    reduction=snippet.REDUCTIONS,
    chunk=[None, 2],
    has_bias=[False, True],
)
@silent
def test_the_layer_gives_torchs_numbers(small, device, option, kind, reduction, chunk, has_bias):
    make = functools.partial(numbers, dtype=torch.float64, device=device)
    given = [make((3, 3)), make((21, 3), seed=1), *([make((21,), seed=2)] if has_bias else [])]
    given = [each.requires_grad_() for each in given]
    exact = [each.detach().requires_grad_() for each in given]
    soft = kind == "probabilities"
    target = targets((3,), 21, device, soft, torch.float64 if soft else torch.int64, seed=1)  # one is ignored
    class_weight = weights(21, device) if kind == "class weights" else None
    options = {"reduction": reduction, "class_weight": class_weight, **OPTIONS[option]}
    wanted = in_torch(torch.nn.functional.linear(*exact), target, **options)
    hidden, weight, *bias = given
    run = functools.partial(linear_cross_entropy, hidden, weight, target, *bias, chunk=chunk, **options)
    check([run()], given, wanted[:1], exact, 1e-10)
    found = run(details=True)
    wanted = in_torch(torch.nn.functional.linear(*exact), target, **options)
    check([found.loss, found.log_sum_exp], given, wanted, exact, 1e-10)


# Any shape, layout and dtype


def served(device):
    return [dtype for dtype in snippet.DTYPES if device == "cuda" or dtype != torch.bfloat16]


@silent
@example((2, 3, 17), "turned", "turned", "none", "all", True, False, 0, None)
@example((3, 24), "flipped sign", "gaps", "mean", "all", False, True, 0, None)
@given(
    st.lists(st.integers(0, 4), max_size=2).map(tuple).flatmap(lambda t: st.integers(1, 70).map(lambda n: (*t, n))),
    st.sampled_from(sorted(LAYOUTS)),
    st.sampled_from(sorted(LAYOUTS)),
    st.sampled_from(snippet.REDUCTIONS),
    st.sampled_from(sorted(OPTIONS)),
    st.booleans(),
    st.booleans(),
    st.integers(0, 99),
    st.data(),
)
def test_any_shape_layout_and_dtype(device, shape, layout, of_target, reduction, option, soft, weighted, seed, data):
    draw = (lambda of: of[0]) if data is None else (lambda of: data.draw(st.sampled_from(of)))
    dtype = draw([torch.float32, *served(device)])
    logits = LAYOUTS[layout](numbers(shape, dtype, device, seed)).detach().requires_grad_()
    target = targets(shape[:-1], shape[-1], device, soft, draw(served(device) if soft else snippet.INTEGERS[:4]), seed)
    if target.ndim and (soft or of_target != "flipped sign"):
        target = LAYOUTS[of_target](target)
    exact = logits.detach().double().requires_grad_()
    class_weight = weights(shape[-1], device) if weighted else None
    options = {"reduction": reduction, **OPTIONS[option]}
    tolerance = {torch.float64: 1e-10, torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 2e-2}[dtype]
    found = cross_entropy(logits, target, class_weight=class_weight, details=True, **options)
    wanted = in_torch(exact, target.double() if soft else target, class_weight=class_weight, **options)
    check([found.loss, found.log_sum_exp], [logits], wanted, [exact], tolerance)


MIXTURES = [  # hidden, weight, bias, autocast, of the product
    (torch.float16, torch.float32, torch.float32, None, torch.float16),
    (torch.float32, torch.float16, torch.float16, None, torch.float16),
    (torch.float16, torch.float16, torch.float32, None, torch.float16),
    (torch.float32, torch.float32, torch.float32, torch.float16, torch.float16),
    (torch.float16, torch.float32, None, torch.float16, torch.float16),
    (torch.float32, torch.float32, None, None, torch.float32),
    (torch.float64, torch.float64, torch.float64, torch.float16, torch.float64),
    (torch.bfloat16, torch.float32, torch.float32, None, torch.bfloat16),
    (torch.bfloat16, torch.float32, torch.float32, torch.bfloat16, torch.bfloat16),
    (torch.float32, torch.float32, torch.float32, torch.bfloat16, torch.bfloat16),
    (torch.bfloat16, torch.bfloat16, torch.bfloat16, None, torch.bfloat16),
]


@covering(mixture=MIXTURES, chunk=[4, 100], reduction=["mean", "none"])
def test_mixtures_of_dtypes(device, mixture, chunk, reduction):
    *dtypes, autocast, product = mixture
    if device == "cpu" and product == torch.bfloat16:
        pytest.skip("Triton's interpreter rounds bfloat16 wrongly")
    shapes = (10, 8), (50, 8), (50,)
    given = [
        numbers(s, dtype, device, i, 0.5) for i, (s, dtype) in enumerate(zip(shapes, dtypes, strict=True)) if dtype
    ]
    given = [each.requires_grad_() for each in given]
    exact = [each.detach().double().requires_grad_() for each in given]
    target = targets((10,), 50, device)
    hidden, weight, *bias = given
    with torch.autocast(device, dtype=autocast or torch.float16, enabled=autocast is not None):
        assert snippet.dtype_of_product(hidden, weight) == product
        loss = linear_cross_entropy(hidden, weight, target, *bias, chunk=chunk, reduction=reduction)
    assert loss.dtype == snippet.wide(product)
    wanted = in_torch(torch.nn.functional.linear(*exact), target, reduction=reduction)
    tolerance = {torch.float64: 1e-10, torch.float32: 1e-5, torch.float16: 2e-2, torch.bfloat16: 6e-2}[product]
    check([loss], given, wanted[:1], exact, tolerance)


def test_chunks_are_added_up_in_float32_and_rounded_once(device):
    """20 chunks, each of which adds 1 to a gradient beyond 2048, where float16 has steps of 2."""
    hidden = torch.ones(40, 1, device=device, dtype=torch.float16)
    hidden[0] = 4096
    weight = torch.zeros(1 + 1, 1, device=device, dtype=torch.float16, requires_grad=True)
    bias = torch.zeros(2, device=device, dtype=torch.float16, requires_grad=True)
    target = torch.zeros(40, device=device, dtype=torch.int64)
    loss = linear_cross_entropy(hidden, weight, target, bias, reduction="sum", chunk=2)
    grads = torch.autograd.grad(loss, (weight, bias))
    assert [each.tolist() for each in grads] == [[[-2068.0], [2068.0]], [-20.0, 20.0]]


# What is special


@silent
@pytest.mark.parametrize("columns", [20, 21])
def test_infinities_and_nan_as_in_torch(small, device, columns):
    inf, nan, rest = math.inf, math.nan, columns - 12
    logits = torch.tensor(
        [
            [-inf] * columns,
            [-inf] * 12 + [1.0] * rest,
            [1.0] * rest + [-inf] * 12,
            [0.0] * (columns - 1) + [inf],
            [0.0] * (columns - 1) + [nan],
            [-3.4e38] * columns,
            [3.4e38] + [-3.4e38] * (columns - 1),
        ],
        device=device,
    )
    for column, softcap in itertools.product((0, columns - 1), (None, 5.0)):
        target = torch.full((len(logits),), column, device=device)
        x, exact = logits.clone().requires_grad_(), logits.double().requires_grad_()
        options = {"reduction": "none", "softcap": softcap}
        loss, (wanted, _) = cross_entropy(x, target, **options), in_torch(exact, target, **options)
        grads = [torch.autograd.grad(out.sum(), leaf)[0] for out, leaf in ((loss, x), (wanted, exact))]
        assert torch.allclose(loss, wanted.float(), rtol=1e-5, atol=1e-5, equal_nan=True)
        if softcap is None:
            assert torch.allclose(grads[0].double(), grads[1], atol=1e-6, equal_nan=True)


@silent
@pytest.mark.parametrize("reduction", snippet.REDUCTIONS)
@pytest.mark.parametrize("softcap", [None, 5.0])
def test_a_target_that_is_no_column_makes_nan_and_reads_nothing(device, reduction, softcap):
    logits = numbers((16, 9), torch.float32, device)[6:10].detach().requires_grad_()
    class_weight = torch.ones(9, device=device)
    target = torch.tensor([3, 9, -1, 2**31 + 3], device=device)
    run = lambda: cross_entropy(logits, target, reduction=reduction, softcap=softcap, class_weight=class_weight)
    if device == "cpu":
        with recorded_accesses() as accesses:
            loss = run()
        low, high = logits.data_ptr(), logits.data_ptr() + 4 * 36
        near = {a for op, found in accesses if op == "load" for a in found.tolist() if low - 200 <= a < high + 200}
        assert not near - set(addresses_of(logits.detach()).tolist())
    loss = run()
    (grad,) = torch.autograd.grad(loss.sum(), logits)
    assert loss[1:].isnan().all() and not loss[0].isnan() if loss.ndim else loss.isnan()
    assert grad[1:].isnan().all() and not grad[0].isnan().any()


def test_ignored_rows_are_not_read(device):
    logits = torch.full((3, 9), math.nan, device=device)
    logits[1] = 0
    logits.requires_grad_()
    target = torch.tensor([5, 1, 5], device=device)
    found = cross_entropy(logits, target, ignore_index=5, z_loss=0.1, details=True)
    (grad,) = torch.autograd.grad(found.loss, logits)
    assert not grad[0].any() and not grad[2].any() and grad[1].isfinite().all()
    assert found.log_sum_exp.tolist() == [0.0, pytest.approx(math.log(9)), 0.0]
    assert found.predicted.tolist() == [-1, 0, -1]
    everything = torch.full((3,), 5, device=device)
    nothing = cross_entropy(logits, everything, ignore_index=5, details=True)
    assert nothing.loss.isnan() and nothing.accuracy.isnan()
    assert cross_entropy(logits, everything, ignore_index=5, reduction="sum") == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_rows_that_begin_anywhere(small, device, dtype):
    """Within 16 bytes. What the compiler is promised of addresses is so, and only the results are written."""
    target = torch.tensor([3, IGNORED, 0], device=device)
    with promises_kept() if device == "cpu" else contextlib.nullcontext([]) as said:
        for room, begin, columns in itertools.product((68, 71), range(5), (41, 63)):
            storage = numbers((3, room), dtype, device)
            before, logits = storage.clone(), storage[:, begin : begin + columns].detach().requires_grad_()
            loss = cross_entropy(logits, target, z_loss=0.1)
            (grad,) = torch.autograd.grad(2 * loss, logits)
            exact = logits.detach().double().requires_grad_()
            wanted, _ = in_torch(exact, target, z_loss=0.1)
            (wanted_grad,) = torch.autograd.grad(2 * wanted, exact)
            assert torch.allclose(loss.double(), wanted, rtol=1e-3)
            assert torch.allclose(grad.double(), wanted_grad, atol=2e-3)
            assert torch.equal(storage, before)
    assert said or device != "cpu"


@pytest.mark.parametrize("columns", [64, 67])
def test_of_equal_logits_the_first_is_predicted(small, device, columns):
    logits = torch.zeros(4, columns, device=device)
    logits[0, [60, 9, 33]] = 1
    logits[1, columns - 1] = 1
    logits[2, 0] = logits[2, columns - 1] = 1
    logits[3] = math.nan
    found = cross_entropy(logits, torch.zeros(4, device=device, dtype=torch.int64), details=True)
    assert found.predicted.tolist() == [9, columns - 1, 0, -1] and found.accuracy == 0.25


@pytest.mark.parametrize("shape", [(0, 5), (2, 0, 4)])
def test_empty(device, shape):
    logits = torch.ones(shape, device=device, requires_grad=True)
    target = torch.zeros(shape[:-1], device=device, dtype=torch.int64)
    for reduction in snippet.REDUCTIONS:
        loss = cross_entropy(logits, target, reduction=reduction)
        assert torch.autograd.grad(loss.sum(), logits)[0].shape == shape
        assert loss.isnan().all() if reduction == "mean" else not loss.any()
    weight = torch.ones(7, shape[-1], device=device, requires_grad=True)
    bias = torch.ones(7, device=device, requires_grad=True)
    loss = linear_cross_entropy(logits, weight, target, bias, reduction="sum")
    grads = torch.autograd.grad(loss, (logits, weight, bias))
    assert not any(each.any() for each in grads) and grads[0].shape == shape


# PyTorch's manners


def test_the_incoming_gradient_and_a_second_backward(device):
    logits, target = numbers((4, 9), torch.float32, device).requires_grad_(), targets((4,), 9, device)
    hidden, weight = (numbers((4, 3), torch.float32, device).requires_grad_(), numbers((9, 3), torch.float32, device))
    weight.requires_grad_()
    for loss, leaves in (
        (cross_entropy(logits, target), [logits]),
        (linear_cross_entropy(hidden, weight, target), [hidden, weight]),
    ):
        first = torch.autograd.grad(3 * loss, leaves, retain_graph=True)
        second = torch.autograd.grad(loss, leaves, retain_graph=True)
        for a, b in zip(first, second, strict=True):
            assert torch.allclose(a, 3 * b, atol=1e-6)


def test_only_what_is_needed_gets_a_gradient(device):
    hidden, weight, bias = (numbers(s, torch.float32, device, i) for i, s in enumerate([(4, 3), (9, 3), (9,)]))
    target = targets((4,), 9, device)
    for reduction in ("mean", "none"):
        for wanted in itertools.product((False, True), repeat=3):
            given = [
                each.detach().requires_grad_(wants) for each, wants in zip((hidden, weight, bias), wanted, strict=True)
            ]
            loss = linear_cross_entropy(given[0], given[1], target, given[2], reduction=reduction).sum()
            assert loss.requires_grad == any(wanted)
            if any(wanted):
                loss.backward()
            assert [each.grad is not None for each in given] == list(wanted)
    logits = numbers((4, 9), torch.float32, device).requires_grad_()
    with torch.no_grad():
        assert not cross_entropy(logits, target).requires_grad
    found = cross_entropy(logits, target, details=True)
    found.log_sum_exp.sum().backward()  # the loss itself is not used
    assert torch.allclose(logits.grad, torch.softmax(logits, -1) * (target != IGNORED)[:, None], atol=1e-6)


@pytest.mark.parametrize("details", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_functional_gradients_and_what_is_refused_in_words(device, reduction, details):
    x, weight = numbers((4, 9), torch.float32, device), numbers((6, 9), torch.float32, device, 1)
    bias, target = numbers((6,), torch.float32, device, 2), targets((4,), 6, device)

    def alone(x):
        found = cross_entropy(x, target, reduction=reduction, details=details)
        return found.loss.sum() + found.log_sum_exp.square().sum() if details else found.sum()

    def layer(x, weight, bias):
        found = linear_cross_entropy(x, weight, target, bias, reduction=reduction, details=details, chunk=3)
        return found.loss.sum() + found.log_sum_exp.square().sum() if details else found.sum()

    for loss, inputs in ((alone, (x,)), (layer, (x, weight, bias))):
        leaves = [each.clone().requires_grad_() for each in inputs]
        wanted = torch.autograd.grad(loss(*leaves), leaves)
        found = torch.func.grad(loss, argnums=tuple(range(len(inputs))))(*inputs)
        for a, b in zip(found, wanted, strict=True):
            assert torch.allclose(a, b, atol=1e-6)
        value, pull = torch.func.vjp(loss, *inputs)
        for _ in range(2):
            for a, b in zip(pull(2 * torch.ones_like(value)), wanted, strict=True):
                assert torch.allclose(a, 2 * b, atol=1e-5)
        with pytest.raises(NotImplementedError, match=r"not mapped by torch\.vmap; it takes any leading dimensions"):
            torch.func.vmap(loss, in_dims=(0, *[None] * (len(inputs) - 1)))(inputs[0][None], *inputs[1:])
        grads = torch.autograd.grad(loss(*leaves), leaves, create_graph=True)
        with pytest.raises(RuntimeError, match="no gradient of its gradient"):
            grads[0].sum().backward()


@covering(details=[False, True], reduction=["mean", "none"], autocast=[False, True])
def test_compiled_without_a_break(device, reduction, details, autocast):
    torch.compiler.reset()
    hidden, weight, bias = (numbers(s, torch.float32, device, i) for i, s in enumerate([(4, 3), (9, 3), (9,)]))
    leaves = [each.requires_grad_() for each in (hidden, weight, bias)]
    target = targets((4,), 9, device)
    options = {"reduction": reduction, "details": details, "label_smoothing": 0.1, "softcap": 3.0, "z_loss": 0.1}

    def both(hidden, weight, bias):
        with torch.autocast(device, dtype=torch.float16, enabled=autocast):
            logits = torch.nn.functional.linear(hidden, weight, bias)
            found = cross_entropy(logits, target, **options)
            layer = linear_cross_entropy(hidden, weight, target, bias, chunk=3, **options)
        if not details:
            return found, layer
        return found.loss, layer.loss, found.log_sum_exp, layer.log_sum_exp, found.accuracy, layer.predicted.double()

    results = []
    backend = "inductor" if device == "cuda" else "aot_eager"
    for each in (both, torch.compile(both, fullgraph=True, backend=backend)):
        found = each(*leaves)
        loss = sum(out.square().sum() for out in found[:4])
        results.append([*(out.detach() for out in found), *torch.autograd.grad(loss, leaves)])
    for a, b in zip(*results, strict=True):
        assert torch.allclose(a, b, atol=1e-2 if autocast else 1e-5)


def test_equal_inputs_give_equal_bits(device):
    given = [numbers(s, torch.float32, device).requires_grad_() for s in ((60, 16), (300, 16), (300,))]
    target = targets((60,), 300, device)
    run = lambda: linear_cross_entropy(given[0], given[1], target, given[2], chunk=25, z_loss=0.01)
    first, second = (torch.autograd.grad(run(), given) for _ in range(2))
    assert all(map(torch.equal, first, second))


def test_numbers_of_numpy_and_of_tensors(device):
    logits, target = numbers((4, 9), torch.float32, device), targets((4,), 9, device)
    options = {"ignore_index": 3, "label_smoothing": 0.5, "softcap": 2.0, "z_loss": 0.25}
    wanted = cross_entropy(logits, target, **options)
    for make in (np.array, torch.tensor):
        assert torch.equal(cross_entropy(logits, target, **{k: make(v) for k, v in options.items()}), wanted)
    assert torch.equal(cross_entropy(logits, target, softcap=np.float32(2)), cross_entropy(logits, target, softcap=2))


x, w, t = torch.ones(2, 3), torch.ones(5, 3), torch.zeros(2, dtype=torch.int64)
REFUSED = {
    "target must have the shape (2,), a whole number for each row, or (2, 3), prob": lambda: cross_entropy(x, t[:1]),
    "got (2,) torch.bool": lambda: cross_entropy(x, t.bool()),
    "got (2, 3) torch.int64": lambda: cross_entropy(x, torch.zeros(2, 3, dtype=torch.int64)),
    "logits is torch.int32, which is not supported": lambda: cross_entropy(x.int(), t),
    "class_weight is torch.int64, which is not supported": lambda: cross_entropy(
        x, t, class_weight=torch.tensor([1] * 3)
    ),
    "class_weight must have the shape (3,); got (2,)": lambda: cross_entropy(x, t, class_weight=torch.ones(2)),
    "class_weight gets no gradient; pass class_weight.detach()": lambda: cross_entropy(
        x, t, class_weight=torch.ones(3, requires_grad=True)
    ),
    "target gets no gradient": lambda: cross_entropy(x, torch.ones(2, 3, requires_grad=True)),
    "softcap must be a positive number, or None for no cap; got 0": lambda: cross_entropy(x, t, softcap=0),
    "label_smoothing must be from 0 to 1; got 1.5": lambda: cross_entropy(x, t, label_smoothing=1.5),
    "label_smoothing must be a number, not on a GPU; got '1'": lambda: cross_entropy(x, t, label_smoothing="1"),
    "ignore_index must be a whole number": lambda: cross_entropy(x, t, ignore_index=1.5),
    "z_loss must be 0 or positive": lambda: cross_entropy(x, t, z_loss=-1),
    "reduction must be one of none, mean, sum; got 'avg'": lambda: cross_entropy(x, t, reduction="avg"),
    "pass target.to_dense()": lambda: cross_entropy(x, t.to_sparse()),
    "logits is on cpu and target on meta": lambda: cross_entropy(x, t.to("meta")),
    "logits is on meta; kernels run on": lambda: cross_entropy(x.to("meta"), t.to("meta")),
    "logits must have a dimension": lambda: cross_entropy(torch.ones(()), t[0]),
    "a row has no column": lambda: cross_entropy(x[:, :0], t),
    "2147483648 rows are too many for one launch; split logits": lambda: cross_entropy(
        without_memory(2**31, 1), without_memory(2**31, dtype=torch.int64)
    ),
    "a row has 1073741825 columns": lambda: cross_entropy(
        without_memory(2, 2**30 + 1), without_memory(2, dtype=t.dtype)
    ),
    "weight must have the shape (columns, K) for hidden (..., K); got (5, 2)": lambda: linear_cross_entropy(
        x, w[:, 1:], t
    ),
    "bias must have the shape (5,); got (3,)": lambda: linear_cross_entropy(x, w, t, torch.ones(3)),
    "float64 goes with float64 only": lambda: linear_cross_entropy(x, w.double(), t),
    "without autocast, one 16-bit dtype must do": lambda: linear_cross_entropy(x.half(), w.bfloat16(), t),
    "weight is torch.int64, which is not supported": lambda: linear_cross_entropy(x, w.long(), t),
    "hidden is on meta; kernels run on": lambda: linear_cross_entropy(x.to("meta"), w.to("meta"), t.to("meta")),
    "hidden is on cpu and weight on meta": lambda: linear_cross_entropy(x, w.to("meta"), t),
    "or (2, 5), probabilities; got (2, 3)": lambda: linear_cross_entropy(x, w, torch.ones(2, 3)),
    "a chunk must have a row or more; got 0": lambda: linear_cross_entropy(x, w, t, chunk=0),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refuses_in_words(message):
    with pytest.raises(ValueError) as error:
        REFUSED[message]()
    assert message in str(error.value)


def test_bfloat16_is_refused_in_the_interpreter_alone(device):
    if device == "cuda":
        pytest.skip("it is served")
    with pytest.raises(ValueError, match="interpreter rounds bfloat16 wrongly"):
        linear_cross_entropy(x.bfloat16(), w, t)


CODE = """
for shape, dtype, smoothing, cap, soft, weighted, details in CASES:
    x = torch.empty(shape, dtype=getattr(torch, dtype))
    target = torch.empty_like(x) if soft else torch.zeros(shape[0], dtype=torch.int64)
    stats, losses = torch.empty(shape[0], 3), torch.empty(shape[0])
    count = torch.zeros((), dtype=torch.int64)
    options = module.Options(-100, smoothing, "mean", cap, 0.01)
    weight = torch.empty(shape[1]) if weighted else None
    predicted = torch.empty(shape[0], dtype=torch.int64) if details else None
    module.launch_forward(x, target, weight, losses, stats, predicted, x, (count, count), options)
    module.launch_gradient(losses, losses if details else None, x, target, weight, stats, x, (count, count), options)
"""


def test_compiles_to_wide_loads_and_spills_nothing():
    """For an H200, without one: 16 bytes a load, also where 16 does not divide a row's columns; in the sums of a row
    no warp waits for another."""
    large = (3, 128256)
    cases = [
        (large, "bfloat16", 0.0, 0.0, False, False, False),
        (large, "bfloat16", 0.1, 30.0, False, True, True),
        (large, "bfloat16", 0.1, 30.0, True, True, True),
        ((3, 50257), "bfloat16", 0.1, 30.0, True, True, True),
        ((3, 32000), "float32", 0.1, 30.0, True, True, True),
    ]
    launches = compiled("library/cross_entropy", CODE.replace("CASES", repr(cases)))
    assert [launch.kernel for launch in launches] == ["cross_entropy_kernel", "gradient_kernel"] * len(cases)
    for launch in launches:
        assert (launch.widest("LDG"), launch.widest("STG"), launch.spills) == (128, 128, 0)
        assert 32 * launch.options["num_warps"] * launch.registers <= 2**16
    for launch in launches[::2]:
        loops = [part for part in launch.ptx.split("$L__BB") if "ex2" in part and "ld.global" in part]
        first = next(loop for loop in loops if "st.global" not in loop)
        assert not re.search(r"bar\.sync", first)


# On a GPU alone


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(1000, 1000), (300, 32000), (140, 50257), (60, 128256), (3, 262144)], ids=str)
@pytest.mark.parametrize("kind", ["none", "all", "class weights", "probabilities"])
def test_real_sizes_in_bfloat16(shape, kind):
    logits = numbers(shape, torch.bfloat16, "cuda").requires_grad_()
    exact = logits.detach().double().requires_grad_()
    soft = kind == "probabilities"
    target = (
        torch.softmax(numbers(shape, torch.bfloat16, "cuda", 3), -1) if soft else targets(shape[:1], shape[1], "cuda")
    )
    class_weight = weights(shape[1], "cuda") if kind != "none" else None
    options = {"class_weight": class_weight, **(OPTIONS["none" if kind == "none" else "all"])}
    for reduction in snippet.REDUCTIONS:
        found = cross_entropy(logits, target, reduction=reduction, details=True, **options)
        wanted = in_torch(exact, target.double() if soft else target, reduction=reduction, **options)
        check([found.loss], [logits], wanted[:1], [exact], 2e-2)
        assert torch.allclose(found.log_sum_exp.double(), wanted[1], rtol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("chunk", [128, 1000])
def test_a_real_layer_whose_weight_is_float32(dtype, chunk):
    given = [numbers((1000, 512), dtype, "cuda", 0), numbers((32000, 512), torch.float32, "cuda", 1, 0.05)]
    given = [each.requires_grad_() for each in (*given, numbers((32000,), torch.float32, "cuda", 2, 0.1))]
    exact = [each.detach().double().requires_grad_() for each in given]
    target = targets((1000,), 32000, "cuda")
    for reduction in snippet.REDUCTIONS:
        loss = linear_cross_entropy(given[0], given[1], target, given[2], reduction=reduction, chunk=chunk)
        wanted, _ = in_torch(torch.nn.functional.linear(*exact), target, reduction=reduction)
        factor = torch.ones_like(loss)
        found = [loss, *torch.autograd.grad(loss, given, factor)]
        exactly = [wanted, *torch.autograd.grad(wanted, exact, factor.double())]
        for a, b in zip(found, exactly, strict=True):
            error = torch.linalg.vector_norm(a.double() - b) / torch.linalg.vector_norm(b)
            assert error < (0.02 if dtype == torch.bfloat16 else 1e-3)


@pytest.mark.gpu
@pytest.mark.alone  # 13 GB
def test_more_logits_than_an_int32_counts():
    columns = 128256
    rows = 2**31 // columns + 3
    x = torch.randn(1, columns, device="cuda", dtype=torch.bfloat16).expand(rows, columns).contiguous().requires_grad_()
    target = torch.full((rows,), 7, device="cuda")
    exact = x[-1:].detach().double().requires_grad_()
    (wanted,) = torch.autograd.grad(torch.nn.functional.cross_entropy(exact, target[-1:]), exact)
    for reduction in ("sum", "none"):  # the gradient made in the forward, and in the backward
        loss = cross_entropy(x, target, reduction=reduction)
        (grad,) = torch.autograd.grad(loss.sum(), x)
        assert torch.equal(grad[0], grad[-1])
        assert torch.allclose(grad[-1:].double(), wanted, rtol=2e-2, atol=1e-6)


@pytest.mark.gpu
def test_the_host_never_waits():
    logits, target = numbers((50, 1000), torch.float32, "cuda").requires_grad_(), targets((50,), 1000, "cuda")
    weight, few = numbers((70, 1000), torch.float32, "cuda").requires_grad_(), targets((50,), 70, "cuda")
    class_weight = weights(1000, "cuda")

    def run(reduction):
        options = {"reduction": reduction, "z_loss": 0.1, "details": True}
        alone = cross_entropy(logits, target, class_weight=class_weight, **options)
        layer = linear_cross_entropy(logits, weight, few, class_weight=class_weight[:70], **options)
        for each in (alone, layer):
            (3 * each.loss.sum() + each.log_sum_exp.sum()).backward()

    run("mean")
    torch.cuda.set_sync_debug_mode("error")
    try:
        for reduction in snippet.REDUCTIONS:
            run(reduction)
    finally:
        torch.cuda.set_sync_debug_mode("default")
