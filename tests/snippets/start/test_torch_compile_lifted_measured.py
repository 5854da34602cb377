# SPDX-License-Identifier: Apache-2.0
"""All sides compute the same; on a GPU the benchmarks give sane numbers, and nothing is faster than an empty kernel."""

from pathlib import Path

import pytest
import torch
from guards import environment

from snippets.start import torch_compile_lifted_measured as snippet
from snippets.start.torch_compile_lifted import in_torch
from tests.processes import run_script


@pytest.mark.parametrize("rows, columns", [(1, 1), (20, 7), (9, 256), (3, 1500), (2, 3000)])
def test_sides_are_one_function(device, rows, columns):
    h, weight = snippet.inputs(rows, columns, device)
    for eager, activation in ((snippet.norm_relu, torch.relu), (snippet.norm_silu, torch.nn.functional.silu)):
        expected = in_torch(h, weight, activation)
        torch.testing.assert_close(eager(h, weight).double(), expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(snippet.own(h, weight).double(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("columns, rows", [(256, 8), (250, 8), (2048, 1), (3000, 1), (4096, 1), (1, 2048)])
def test_own_gives_a_program_its_elements(device, columns, rows, monkeypatch):
    given = []
    monkeypatch.setattr(snippet, "rms_norm_silu", lambda h, weight, *, rows: given.append(rows))
    snippet.own(*snippet.inputs(2, columns, device))
    assert given == [rows]


def test_says_that_it_needs_a_gpu():
    if torch.cuda.is_available():
        pytest.skip("this machine has one")
    done = run_script(Path(snippet.__file__), env=environment("cpu"))
    assert done.returncode and "no GPU found" in done.stderr


@pytest.mark.gpu
@pytest.mark.long
def test_prints_that_all_agree(capsys):
    snippet.main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 8 and all(line.endswith(": True") for line in lines)


@pytest.mark.gpu
@pytest.mark.long
def test_benchmarks_run():
    times = {side: snippet.lifted_time.fn(side, "call")[0] for side in ("eager", "compiled", "lifted", "empty")}
    assert 0 < times["empty"] < min(times["compiled"], times["lifted"]) < times["eager"]
    median, slowest, fastest = snippet.own_rate.fn("22,369 × 3000", "own")
    assert 0 < slowest <= median <= fastest
