# SPDX-License-Identifier: Apache-2.0
"""A prepared launch gives what the function gives; a replay sees what the page says that it sees, and nothing else."""

from pathlib import Path

import pytest
import torch
from guards import environment

from snippets.pytorch import launch_overhead as snippet
from snippets.pytorch.compile import plain
from tests.processes import run_script

SEEN = {
    "a tensor, written in place", "a number in a tensor", "a seed in a tensor", "the state of torch.rand",
}  # fmt: skip


def test_without_a_gpu_it_says_so():
    if torch.cuda.is_available():
        pytest.skip("this machine has one")
    done = run_script(Path(snippet.__file__), env=environment("cpu"))
    assert done.returncode and "no GPU found" in done.stderr


@pytest.mark.gpu
@pytest.mark.parametrize("columns", [1024, 1040])
def test_what_was_prepared_launches_on_other_tensors(columns):
    x, weight = torch.rand(4, columns, device="cuda"), torch.rand(columns, device="cuda")
    launch = snippet.prepare(x, weight)
    other, out = torch.rand(4, columns, device="cuda"), torch.empty(4, columns, device="cuda")
    launch(other, weight, out)
    assert torch.equal(out, plain(other, weight))


@pytest.mark.gpu
@pytest.mark.parametrize("what", snippet.FROZEN)
def test_what_a_replay_sees(what):
    assert snippet.FROZEN[what]() == (what in SEEN)


@pytest.mark.gpu
def test_the_rest_goes_wrong_as_the_page_says():
    assert snippet.after_it_was_freed() == 42
    assert "misaligned address" in snippet.last_line("unaligned")
