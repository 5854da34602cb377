# SPDX-License-Identifier: Apache-2.0
"""Gradients are torch's behind every use; each bug is wrong where the page says, and passes what usually tests it."""

import contextlib
from pathlib import Path

import pytest
import torch
from guards import Guarded, check_each_once, check_inside, environment, recorded_accesses

from snippets.pytorch import gradients as snippet
from tests.processes import run_python

MISREAD = {"out.sum()", "torch.cat((out, x), 1)", "out.t()"}


@pytest.mark.parametrize("use", snippet.USES)
def test_behind_each_use(device, use):
    assert snippet.right(snippet.ScaleRows.apply, snippet.USES[use])
    assert snippet.right(snippet.StridesBug.apply, snippet.USES[use]) == (use not in MISREAD)


def test_gradcheck_misses_the_strides(device):
    for function in (snippet.ScaleRows, snippet.StridesBug):
        assert torch.autograd.gradcheck(function.apply, snippet.inputs(torch.float64))


def test_a_store_that_nobody_announced(device):
    assert snippet.square_then(snippet.DoubleBug) == "12"
    assert "modified by an inplace operation" in snippet.square_then(snippet.Double)


def test_dtypes_are_torchs_under_autocast(device):
    first, second = snippet.dtypes_under_autocast().split(": ")[1].split(", ")
    assert first.removeprefix("torch ") == second.removeprefix("ours ") == "torch.float32"


def test_a_checkpoint_computes_twice_the_same(device):
    (once, plain), (twice, again) = snippet.calls_and_gradient(False), snippet.calls_and_gradient(True)
    assert (once, twice) == (1, 2) and torch.equal(plain, again)


def test_what_torch_func_takes(device):
    x, weight = (each.detach() for each in snippet.inputs())
    torch.testing.assert_close(snippet.of_func(), weight.expand_as(x))
    assert "Cannot access" in snippet.said(lambda: snippet.of_func(snippet.LaunchBug))
    assert "does not have vmap support" in snippet.said(snippet.mapped)
    assert "must implement the jvp function" in snippet.said(snippet.tangent)


def test_two_ranks_have_the_gradient_of_one_process():
    done = run_python(Path(snippet.__file__), "ranks", env=environment("cpu"))
    assert done.stdout == "DistributedDataParallel, as in one process: True\nfully_shard, as in one process: True\n"


@pytest.mark.parametrize("layout", ["rows", "columns", "gaps"])
def test_each_element_is_scaled_once(device, layout):
    rows, columns = 3, 5
    buffer = Guarded((64,), torch.float32, device, before=64, after=64, fill=0xFF)
    strides = {"rows": (columns, 1), "columns": (1, rows), "gaps": (9, 2)}[layout]
    x = buffer.tensor.as_strided((rows, columns), strides)
    x.copy_(torch.randn(rows, columns))
    weight = Guarded.around(torch.randn(columns, device=device), before=64, after=64, fill=0xFF)
    out = Guarded((rows, columns), torch.float32, device, before=64, after=64, fill=0xFF)
    with recorded_accesses() if snippet.INTERPRETED else contextlib.nullcontext() as accesses:
        snippet.scale_kernel[(rows,)](x, weight.tensor, out.tensor, columns, *strides, BLOCK=8)
    if accesses:
        check_inside(accesses, "load", x=x, weight=weight.tensor)
        check_each_once(accesses, "store", out=out.tensor)
    out.check("out")
    assert torch.equal(out.tensor, x * weight.tensor)
    assert torch.equal(snippet.scaled(x, weight.tensor, strides), out.tensor)


@pytest.mark.skipif(not snippet.INTERPRETED, reason="programs are started anywhere only by the interpreter")
def test_a_row_beyond_two_to_the_31():
    row, columns = 2**28, 16
    x, weight, out = torch.ones(1, columns), torch.ones(columns), torch.ones(1, columns)
    with recorded_accesses(first_program=(row, 0, 0), memory=False) as accesses:
        snippet.scale_kernel[(1,)](x, weight, out, columns, columns, 1, BLOCK=16)
    loads, stores = ([each for op, each in accesses if op == kind] for kind in ("load", "store"))
    assert loads[0].min() == x.data_ptr() + 4 * row * columns and stores[0].min() == out.data_ptr() + 4 * row * columns


@pytest.mark.parametrize("n", [1, 5, 64])
def test_a_tensor_is_doubled_in_place(device, n):
    x = Guarded.around(torch.arange(1.0, n + 1, device=device), before=64, after=64, fill=0xFF)
    with recorded_accesses() if snippet.INTERPRETED else contextlib.nullcontext() as accesses:
        snippet.double_in_place_kernel[(1,)](x.tensor, n, BLOCK=64)
    for op in ("load", "store") if accesses else ():
        check_each_once(accesses, op, x=x.tensor)
    x.check("x")
    assert torch.equal(x.tensor, 2 * torch.arange(1.0, n + 1, device=device))
