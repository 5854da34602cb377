# SPDX-License-Identifier: Apache-2.0
"""Shapes, loops, reductions, atomics, descriptors: the verdicts are those that were recorded."""

import pytest
import torch
from verdicts import Recorded

from snippets.tools import interpreter_and_gpu as table
from snippets.tools import interpreter_and_gpu_language as section

RECORDED = Recorded("language")


@pytest.mark.parametrize("name", RECORDED.survivable)
def test_as_recorded(name, capfd):
    with capfd.disabled():
        assert table.try_out(name, "cpu") == RECORDED.expected(name)


@pytest.mark.parametrize("name", ["tanh", "neg"])
def test_what_the_interpreter_cannot_run_would_be_right(name, monkeypatch):
    """The kernel is none, and does what a GPU's would."""

    class Kernel:
        def __getitem__(self, grid):
            return lambda x, out, function, n: out.copy_(getattr(torch, function)(x[:n])) if grid == (1,) else None

    monkeypatch.setattr(table, "FEATURES", {})
    monkeypatch.setattr(section, "math_kernel", Kernel())
    section.function(name, "a title", 1e-6)
    found = table.FEATURES[f"math_{name}"].run("cpu")
    assert table.judge(*found) == "right"
    assert found[0].dtype == torch.float32 and len(found[0]) == 1024
    assert found[1][[0, -1]].tolist() == pytest.approx(getattr(torch, name)(torch.tensor([-2.0, 2.0])).tolist())


def test_philox():
    """The known answers that its authors publish with it, as far as the first word goes."""
    assert section.philox(0, 0) == 0x6627E8D5


@pytest.mark.gpu
def test_a_gpu_disagrees_with_the_interpreter_only_where_that_was_recorded():
    RECORDED.check_gpu(section.__file__)
