# SPDX-License-Identifier: Apache-2.0
"""The operator is not associative, and the scan by it is wrong in just the way that the file's docstring says."""

from pathlib import Path

import pytest
import torch
from guards import environment

from snippets.fusion import scan_bug as bug
from snippets.fusion.scan_steps import joined
from tests.processes import run_script

SOURCE = Path(bug.__file__)


def numbers(n, device="cpu"):
    return torch.randn(n, generator=torch.Generator().manual_seed(n)).to(device)


@pytest.mark.parametrize("block", [4, 8, 16])
def test_in_the_interpreter_it_is_wrong_from_the_second_step_of_the_second_block(block):
    for length in range(1, 3 * block):
        x = numbers(length)
        wrong = bug.first_wrong(bug.halved(x, block), bug.right(x))
        assert wrong == (block + 1 if length > block + 1 else None)


@pytest.mark.gpu
def test_on_a_gpu_it_is_wrong_inside_a_block():
    x = numbers(256, "cuda")
    assert bug.first_wrong(bug.halved(x, 256), bug.right(x)) is not None


def test_joining_by_doubling_is_wrong_from_the_third_step():
    x = numbers(20)
    assert torch.equal(bug.by_doubling(x[:2]), bug.right(x[:2]))
    assert bug.first_wrong(bug.by_doubling(x), bug.right(x)) == 2


def test_pairs_are_associative_and_halves_are_not():
    one, two, three = (0.5, 8.0), (0.25, 3.0), (2.0, 1.0)
    assert joined([joined([one, two]), three]) == joined([one, joined([two, three])]) == joined([one, two, three])
    half = lambda before, x: 0.5 * before + x
    assert half(half(8, 3), 1) != half(8, half(3, 1))


def test_prints_what_the_page_shows(device):
    done = run_script(SOURCE, env=environment(device))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:6] == [
        "## operator",
        "first two first: 2.0",
        "last two first:  4.0",
        "## rows",
        "x            8.000  0.000  0.000  0.000  0.000  0.000  0.000  0.000",
        "recurrence   8.000  4.000  2.000  1.000  0.500  0.250  0.125  0.062",
    ]
    assert lines[8] == "by doubling  8.000  4.000  4.000  2.000  4.000  2.000  2.000  1.000"
    if device == "cpu":  # a GPU joins stretches inside a block, too
        assert lines[6:8] == [
            "block of 4   8.000  4.000  2.000  1.000  0.500  0.500  0.500  0.500",
            "block of 8   8.000  4.000  2.000  1.000  0.500  0.250  0.125  0.062",
        ]
        assert lines[9:] == [
            "## lengths",
            "50 in blocks of 64: first wrong at None",
            "64 in blocks of 64: first wrong at None",
            "65 in blocks of 64: first wrong at None",
            "66 in blocks of 64: first wrong at 65",
            "200 in blocks of 64: first wrong at 65",
        ]
