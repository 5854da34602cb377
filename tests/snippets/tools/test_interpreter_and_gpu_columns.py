# SPDX-License-Identifier: Apache-2.0
"""Each way is a row, judged by what it stored; one that fails costs no other."""

import json
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl
from guards import environment

from recorder.printed import verdicts
from snippets.tools import interpreter_and_gpu_columns as snippet
from tests.processes import run_python

ROOT = str(Path(snippet.__file__).parents[2])


@triton.jit
def turned_bug(out_ptr):
    rows, columns = tl.arange(0, 4)[:, None], tl.arange(0, 8)[None, :]
    tl.store(out_ptr + columns * 4 + rows, 10 * rows + columns)


@triton.jit
def failing_bug(out_ptr):
    tl.store(out_ptr + tl.no_such_function(), 1)


@pytest.mark.parametrize("way", snippet.WAYS)
def test_each_way_is_right(device, way):
    out = torch.full((34,), -1, dtype=torch.int32, device=device)
    snippet.WAYS[way][(1,)](out[1:])
    assert out[1:33].tolist() == [10 * row + column for row in range(4) for column in range(8)]
    assert out[0] == out[33] == -1


def test_wrong_ones_are_told(monkeypatch, device):
    monkeypatch.setattr(snippet, "WAYS", {"turned": turned_bug, "fails": failing_bug, "right": snippet.none_kernel})
    said = snippet.verdicts(device)
    assert said["turned"].startswith("differs: got") and said["right"] == "right"
    assert said["fails"].startswith("error:") and "no_such_function" in said["fails"]


def test_all_are_compiled():
    done = run_python(snippet.__file__, "compile", env=environment("cuda", PYTHONPATH=ROOT))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == dict.fromkeys(snippet.WAYS, "yes")


def test_prints_a_table(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", [snippet.__file__])
    snippet.main()
    said = verdicts(capsys.readouterr().out)["Ways to a column"]
    assert list(said) == list(snippet.WAYS) and all(row["ran"] == "right" for row in said.values())
