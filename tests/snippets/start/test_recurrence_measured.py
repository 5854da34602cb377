# SPDX-License-Identifier: Apache-2.0
"""Every rung gives the same recurrence; the lines are counted right; on a GPU every benchmark gives sane numbers."""

import json
import math
import re
from unittest import mock

import pytest
import torch
import triton
from guards import Guarded
from hypothesis import given
from hypothesis import strategies as st
from torch._higher_order_ops.associative_scan import associative_scan

from snippets.start import recurrence_measured as rungs
from snippets.start.when_to_write_a_kernel import recurrence_eager

MARKS = [name for name, value in vars(rungs).items() if isinstance(value, triton.testing.Mark)]


def exact(a, b):
    return recurrence_eager(a.double(), b.double())


@given(series=st.integers(1, 3), time=st.integers(1, 70), channels=st.integers(1, 5))
def test_doubling(device, series, time, channels):
    a, b = rungs.inputs((series, time, channels), device)
    torch.testing.assert_close(rungs.recurrence_doubling(a, b).double(), exact(a, b), rtol=1e-5, atol=1e-5)


def test_doubling_has_a_gradient(device):
    given = [x.double().requires_grad_() for x in rungs.inputs((2, 13, 3), device)]
    found = torch.autograd.grad(rungs.recurrence_doubling(*given).sum(), given)
    torch.testing.assert_close(found, torch.autograd.grad(recurrence_eager(*given).sum(), given))


def test_join_is_what_a_scan_needs(device):
    """Associative, and right when torch's own scan applies it, here in the mode that also runs on a CPU."""
    stretches = [(torch.tensor(a), torch.tensor(b)) for a, b in ((2, 3), (-1, 5), (4, -7))]
    left = rungs.join(rungs.join(*stretches[:2]), stretches[2])
    right = rungs.join(stretches[0], rungs.join(*stretches[1:]))
    assert left == right == (torch.tensor(-8), torch.tensor(1))
    a, b = rungs.inputs((2, 37, 3), device)
    found = associative_scan(rungs.join, (a, b), dim=1, combine_mode="generic")[1]
    torch.testing.assert_close(found.double(), exact(a, b), rtol=1e-5, atol=1e-5)


def test_inputs_are_gates(device):
    a, b = rungs.inputs((2, 500, 3), device)
    assert 0.88 < a.min() < a.max() < 1 and b.shape == a.shape and abs(b.mean()) < 0.1
    again = rungs.inputs((2, 500, 3), device)
    assert torch.equal(a, again[0]) and torch.equal(b, again[1])


@pytest.mark.gpu
@pytest.mark.long
@pytest.mark.parametrize("name", rungs.RUNGS)
@pytest.mark.parametrize("shape", [(2, 37, 100), (1, 16, 4), (3, 1, 70), (2, 40, 129)])
def test_every_rung(name, shape):
    if name in ("scan", "doubling") and shape[1] == 1:
        pytest.skip("nothing to combine")
    a, b = rungs.inputs(shape)
    run = rungs.RUNGS[name](a, b)
    for _ in range(2):
        torch.testing.assert_close(run().double(), exact(a, b), rtol=1e-5, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("steps", [1, 15, 16, 17, 31, 32, 33, 47, 48, 49, 100])
def test_cuda_around_the_steps_that_it_loads_ahead(steps):
    a, b = rungs.inputs((3, steps, 50))
    for source in (rungs.CUDA_PLAIN, rungs.CUDA_AHEAD):
        out = Guarded(b.shape, b.dtype, b.device, before=8192, after=8192, fill=0xFF)
        given = [Guarded.around(x, before=8192, after=8192, fill=0xFF).tensor for x in (a, b)]
        with mock.patch.object(torch, "empty_like", return_value=out.tensor):
            found = rungs.recurrence_cuda(*given, source)
        out.check("h")
        torch.testing.assert_close(found.double(), exact(a, b), rtol=1e-5, atol=1e-5)
    empty = torch.empty(3, 0, 50, device="cuda")
    assert rungs.recurrence_cuda(empty, empty).shape == empty.shape


def test_cuda_refuses(device):
    x = torch.ones(1, 2, 3, device=device)
    for wrong in (x.cpu(), x.half()):
        with pytest.raises(ValueError, match="float32 on a GPU"):
            rungs.recurrence_cuda(wrong, wrong)
    if device == "cuda":
        with pytest.raises(ValueError, match="strides"):
            rungs.recurrence_cuda(x.mT.contiguous().mT, x)


def counted():
    """A docstring
    of two lines."""
    # a comment

    text = """a string that is used
    counts with each of its lines"""
    return (
        text,  # 1
        "no docstring",
    )


def test_lines_of():
    assert rungs.lines_of(counted) == 7
    assert rungs.lines_of(counted, counted, "// no\n\nint i; // yes\n#pragma unroll\n") == 16
    assert rungs.lines_of(recurrence_eager) == 6


def test_main_prints_lines_and_kernels(capsys):
    small = rungs.inputs((1, 2, 3), "cpu")
    with (
        mock.patch.object(torch.cuda, "is_available", return_value=True),
        mock.patch.object(rungs, "inputs", return_value=small),
        mock.patch.object(rungs, "emitted_kernels", return_value=["x = 1\n    tl.associative_scan(x)\n", "y"]),
    ):
        rungs.main()
    printed = capsys.readouterr().out
    said = dict(re.findall(r"^(.*): (\d+)$", printed, re.M))
    assert list(said)[:-2] == list(rungs.LINES) and all(2 <= int(number) <= 60 for number in said.values())
    assert printed.endswith("## A line of the last one\ntl.associative_scan(x)\n")


def test_says_so_without_a_gpu():
    with mock.patch.object(torch.cuda, "is_available", return_value=False), pytest.raises(SystemExit, match="no GPU"):
        rungs.main()


@pytest.mark.gpu
@pytest.mark.long
def test_benchmarks_run():
    first = {name: 1.0 for name in ("start", *rungs.RUNGS, *(f"loop {steps}" for steps in rungs.UNROLLED))}
    small = {"MANY": (2, 8, 64), "LONG": (1, 32, 4)}
    with mock.patch.multiple(rungs, **small), mock.patch.object(rungs, "measure_first_calls", return_value=first):
        for mark in (getattr(rungs, name) for name in MARKS):
            for x in mark.benchmarks.x_vals:
                for line in mark.benchmarks.line_vals:
                    found = mark.fn(**{mark.benchmarks.x_names[0]: x, mark.benchmarks.line_arg: line})
                    values = found if isinstance(found, tuple) else (found,)
                    assert all(math.isfinite(value) and 0 <= value < 1e6 for value in values)


@pytest.mark.gpu
def test_first_calls_are_timed(capsys):
    with mock.patch.multiple(rungs, MANY=(2, 8, 64), UNROLLED=(4,)):
        rungs.time_first_calls()
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert list(found) == ["start", *rungs.RUNGS, "loop 4"] and min(found.values()) > 0
