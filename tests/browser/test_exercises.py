# SPDX-License-Identifier: Apache-2.0
"""Every exercise, right and wrong, in the model as the coach runs it in Triton's interpreter: errors, accesses, values.

A wrong solution gives the same verdict where both find the same error, the same stray accesses (program, lane, offset,
line) and the same numbers, so the same first wrong one.
"""

import contextlib
import warnings

import pytest
import torch
from coach.case import Case, gradient_like, make_inputs, reference
from coach.exercise import exercises, load
from coach.run import perform

import browser
from browser import MEMORY
from tests import modeled

# Where the interpreter is not what a GPU is, and the model is; or where one of them says more. By exercise and file.
TYPES = "the compiler wants a name to keep its type through a loop or an if, the interpreter does not"
APART = {
    ("flip", "and_of_python"): "the compiler joins masks by `and` lane by lane, the interpreter keeps one of them",
    ("row_sum", "an_if"): "the compiler refuses an `if` of a block, the interpreter takes it for true",
    ("add", "cdiv_of_tl"): "outside of kernels the interpreter has functions of tl, too",
    ("scale", "sixty_four_warps"): "the interpreter has no warps",
    ("cross_entropy", "loss_is_an_integer"): TYPES, ("online", "maximum_of_lanes"): TYPES,
    ("matmul", "adds_in_float16"): TYPES, ("matmul", "adds_to_a_number"): TYPES, ("accumulate", "only_the_cast"): TYPES,
    ("softmax", "methods_of_torch"): "the interpreter does not know reductions as methods, the compiler does",
    ("cross_entropy", "ignored_counts"): "the interpreter takes `other=0.0` of a scalar load for none",
    ("cross_entropy", "maximum_and_ignored"): "the interpreter takes `other=0.0` of a scalar load for none",
}  # fmt: skip
UNMODELED = {
    ("attention", "by_torch"),
    ("cross_entropy", "by_torch"),
    ("combine", "nan_to_num"),
}  # what of torch they call
FILES = [(e, name) for e in exercises() for name in ["solution", "skeleton", *(w.name for w in e.wrong())]]


def text_of(exercise, name):
    texts = {w.name: w.text for w in exercise.wrong()} | {"solution": exercise.solution, "skeleton": exercise.skeleton}
    return texts[name]


def cases(spec, name):
    """Yield sizes, strides and memory: for solutions all that matter, for the others fewer, as there are many."""
    first = spec.sizes[0]
    yield Case(first)
    yield Case(first).poisoned()
    if spec.awkward:
        axis = spec.awkward[0]
        yield Case({**first, axis: spec.blocks.get(axis, 4) + 1})
    if spec.layouts and spec.strides == "served":
        yield Case(first, spec.layouts[-1])
    if name == "solution":
        yield from (Case(size) for size in spec.sizes[1:3])
        yield Case(first, seed=1)
        for axis in spec.awkward:
            yield Case({**first, axis: spec.smallest})
            yield Case({**first, axis: 1}, seed=1)
        yield from (Case(first, layout) for layout in spec.layouts)


def cause(error):
    while error is not None and error.__cause__ is not None:
        error = error.__cause__
    return error


def call(spec, function, case):
    """Call a function of the model as the coach calls one of Triton. What torch itself computes, it computes before."""
    given = {name: modeled.modeled(value) for name, value in make_inputs(spec, case).items()}
    for name in spec.gradients:
        given[name].requires_grad_()
    with browser.installed():
        result = function(*(given[name] for name in spec.signature))
    results = result if isinstance(result, tuple) else (result,)
    named = {"out" if i == 0 else f"out[{i}]": value for i, value in enumerate(results)}
    if spec.gradients and getattr(results[0], "requires_grad", False):
        like = gradient_like(torch.empty(tuple(results[0].shape), dtype=getattr(torch, results[0].dtype.name)))
        wanted = [given[name] for name in spec.gradients]
        with browser.installed():
            import torch as model  # is the model while it is installed

            grads = model.autograd.grad(results[0], wanted, modeled.modeled(like), allow_unused=True)
        named |= {f"grad of {name}": grad for name, grad in zip(spec.gradients, grads, strict=True)}
    return named


def strays(run):
    """Return the coach's accesses outside of tensors, and the model's, as program, operation, lane, offset and line."""
    theirs = [
        ((*t.access.pid, 0, 0)[:3], t.access.op, t.lane, int(t.access.offsets[t.lane]), t.access.line)
        for t in run.recorder.troubles if t.kind == "outside"
    ]  # fmt: skip
    ours = [(t.access.program, t.access.op, t.lane, t.offset, t.access.line) for t in MEMORY.troubles]
    return sorted(theirs), sorted(ours)


def plain(results):
    """Return shape, dtype and numbers of each result."""
    kinds = {}
    for name, value in results.items():
        if hasattr(value, "numel"):
            values = value.values() if hasattr(value, "storage_offset") and hasattr(value, "write") else None
            values = value.detach().flatten().tolist() if values is None else values
            kinds[name] = tuple(value.shape), str(value.dtype), values
        else:
            kinds[name] = type(value).__name__
    return kinds


@pytest.mark.parametrize(("exercise", "name"), FILES, ids=[f"{e.name}-{name}" for e, name in FILES])
def test_a_file_does_in_the_model_what_it_does_in_the_interpreter(exercise, name, tmp_path):
    spec, text, path = exercise.spec(), text_of(exercise, name), tmp_path / f"{exercise.name}.py"
    path.write_text(text)
    with contextlib.suppress(Exception):
        theirs = getattr(load(path, path.stem), spec.function)
    with browser.installed(), contextlib.suppress(Exception):
        ours = browser.load(text, str(path))[spec.function]
    assert ("theirs" in locals()) == ("ours" in locals()), "only one of them loads the file"
    if "theirs" not in locals():
        return
    for case in cases(spec, name):
        browser.reset(fill=case.fill, strict=False, record=True)
        browser.SETTINGS.configs = "in turn"
        error, results = None, {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = perform(spec, theirs, str(path), case)
            try:
                results = call(spec, ours, case)
            except Exception as raised:
                error = cause(raised)
        if (exercise.name, name) in APART:
            continue
        if (exercise.name, name) in UNMODELED:
            assert "is not modeled in the browser" in str(error)
            continue
        assert (error is None) == (run.error is None), f"{case}: {cause(run.error)!r}, model: {error!r}"
        if error is None:
            assert len({*map(tuple, strays(run))}) == 1, f"{case}: {strays(run)}"
            got, wanted = plain(results), plain(run.results)
            assert modeled.same(list(wanted), list(got))
            for part, of in wanted.items():
                near = modeled.same(of, got[part], max(spec.rtol, 2e-6), max(spec.atol, 1e-9))
                assert near, f"{case}, {part}: {of}\nmodel: {got[part]}"


@pytest.mark.parametrize("exercise", exercises(), ids=lambda exercise: exercise.name)
def test_the_model_draws_the_same_inputs_and_computes_the_same_reference(exercise):
    spec = exercise.spec()
    if spec.reference is None:
        pytest.skip("it has no reference, only properties")
    browser.reset()
    with browser.installed():
        import torch as model

        ours = browser.load(exercise.spec_text, f"{exercise.name}_spec.py")["SPEC"]
        inputs = ours.inputs(spec.sizes[0], model.Generator().manual_seed(1234))
        with model.no_grad():
            got = ours.reference(*(inputs[name] for name in spec.signature))
    wanted = make_inputs(spec, Case(spec.sizes[0]))
    for name, value in plain(inputs).items():
        assert modeled.same(value, plain(wanted)[name], 1e-5, 1e-6), name
    expected = reference(spec, wanted)
    outputs = got if isinstance(got, tuple) else (got,)
    for part, value in zip(outputs, list(expected.values())[: len(outputs)], strict=True):
        tolerance = max(spec.rtol, 2e-3 if "16" in str(part.dtype) else 1e-5)
        assert modeled.same(plain({"": value})[""], plain({"": part})[""], tolerance, 1e-5)


@pytest.fixture(autouse=True)
def as_before():
    yield
    browser.SETTINGS.configs = "first"
    browser.reset()
