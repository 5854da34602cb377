# SPDX-License-Identifier: Apache-2.0
"""Gradients are torch's behind every use; each bug is wrong where the page says, and passes what usually tests it."""

from pathlib import Path

import pytest
import torch
from guards import environment

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
