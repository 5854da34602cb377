# SPDX-License-Identifier: Apache-2.0
"""The clock of the copies waits for the GPU before and after; on a GPU every copy is a copy."""

from pathlib import Path
from unittest import mock

import pytest
import torch
from guards import environment

from snippets.gpu import memory_host
from tests.processes import run_script

SOURCE = Path(memory_host.__file__)


def test_waits_for_the_gpu_on_both_sides_of_a_call():
    happened = []
    with (
        mock.patch.object(torch.cuda, "synchronize", lambda: happened.append("wait")),
        mock.patch.object(memory_host.time, "perf_counter", side_effect=[0, 0.004, 1, 1.002, 2, 2.003]),
    ):
        assert memory_host.until_done(lambda: happened.append("run"), calls=3) == pytest.approx(3)
    assert happened == ["wait", "run", "wait"] * 3


def test_refuses_no_calls():
    with pytest.raises(ValueError, match="got 0"):
        memory_host.until_done(lambda: None, calls=0)


def test_says_that_it_needs_a_gpu():
    if torch.cuda.is_available():
        pytest.skip("this machine has one")
    done = run_script(SOURCE, env=environment("cpu"))
    assert done.returncode and "no GPU found" in done.stderr


@pytest.mark.gpu
@pytest.mark.parametrize("direction", memory_host.DIRECTIONS)
def test_copies_are_copies(direction):
    result = memory_host.copies(1000)[direction]()
    torch.cuda.synchronize()
    assert result.is_cuda == direction.startswith("in")
    assert result.cpu().unique().tolist() == [1 if result.is_cuda else 0]


@pytest.mark.gpu
def test_prints_what_the_page_shows(capsys):
    memory_host.main()
    assert capsys.readouterr().out.splitlines() == [
        "pageable, there and back: equal", "pinned, there and back: equal",
        "read at once: 0", "read after waiting: 1",
    ]  # fmt: skip


@pytest.mark.gpu
def test_benchmarks_run():
    for mark in (memory_host.host, memory_host.small):
        median, *edges = mark.fn(2**16, "in_pinned")
        assert 0 < min(edges) <= median <= max(edges)
    size = 2**26 + 2**24  # large enough that pinning takes longer than a busy host can hide
    assert memory_host.pinning.fn(size, "first") > memory_host.pinning.fn(size, "again") > 0
