# SPDX-License-Identifier: Apache-2.0
"""What is refused is refused, and the two conditions mean what the file's docstring says they mean."""

import warnings
from pathlib import Path

import pytest
import torch
import triton
from guards import environment

from snippets.programs import masks_refused_bug as bug
from tests.processes import run_script

SOURCE = Path(bug.__file__)
BOTH = [[4 * r + c if r < 3 and c < 3 else -1 for c in range(4)] for r in range(4)]
SECOND_ALONE = [[4 * r + c if c < 3 else -1 for c in range(4)] for r in range(4)]
SAID = {
    "tl.arange(0, 3)": "ValueError: arange's range must be a power of 2",
    "tl.arange(0, 2**21)": "ValueError: numel (2097152) exceeds triton maximum tensor numel (1048576)",
    "tl.arange(0, n)": "ValueError: arange's arguments must be of type tl.constexpr",
    "x[0:2]": "ValueError: unsupported tensor index:",
}


@pytest.mark.parametrize("name", bug.REFUSED)
def test_refused(device, name):
    stored, said = bug.attempt(bug.REFUSED[name], device)
    assert stored is None and said.startswith(SAID.get(name, "")) and "Error: " in said


def test_and(device):
    stored, said = bug.attempt(bug.and_bug, device)
    assert stored.tolist() == (BOTH if device == "cuda" else SECOND_ALONE)
    if device == "cpu":
        assert said is None  # on a GPU it warns, but only where the kernel is not in the cache


def test_no_parentheses(device):
    stored, said = bug.attempt(bug.no_parentheses_bug, device)
    version = tuple(int(part) for part in triton.__version__.split(".")[:2])
    if version >= (3, 9):
        r, c = torch.arange(4)[:, None], torch.arange(4)[None, :]
        as_grouped = (r < (3 & c)) & ((3 & c) < 3)
        assert stored.tolist() == torch.where(as_grouped, 4 * r + c, -1).tolist()
    elif device == "cuda":
        assert stored is None and "multiple comparison is not supported" in said
    else:
        assert stored.tolist() == SECOND_ALONE and said is None


@pytest.mark.gpu
def test_the_compiler_warns_of_and(monkeypatch, tmp_path):
    done = run_script(SOURCE, env=environment("cuda", TRITON_CACHE_DIR=str(tmp_path)))
    assert done.returncode == 0, done.stderr
    assert "UserWarning: Logical operators 'and' and 'or' are deprecated" in done.stdout


def test_prints_each_refusal(device):
    done = run_script(SOURCE, env=environment(device))
    assert done.returncode == 0, done.stderr
    for name, said in SAID.items():
        assert f"{name} {said}" in " ".join(done.stdout.split())
    assert " at 0x" not in done.stdout


def test_attempt_leaves_warnings_as_they_were(device):
    before = list(warnings.filters)
    bug.attempt(bug.slice_bug, device)
    assert warnings.filters == before
