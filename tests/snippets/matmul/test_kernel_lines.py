# SPDX-License-Identifier: Apache-2.0
"""Lines and words of a kernel: what counts, and what a call adds."""

import pytest
import triton

from recorder.printed import numbers
from snippets.matmul import grouped, kernel_lines, naive


@triton.jit
def twice(x):
    """Not counted,
    over two lines."""
    return 2 * x  # nor this


@triton.jit
def four_times(
    x,
):

    # nor this
    return twice(twice(x))


def test_counts_what_is_written():
    function = kernel_lines.plain(twice)
    assert kernel_lines.lines(function) == 3
    words = ["@", "triton", ".", "jit", "def", "twice", "(", "x", ")", ":", "return", "2", "*", "x"]
    assert [word.string for word in kernel_lines.words(function)] == words


def test_what_it_calls_is_counted_once():
    assert kernel_lines.reached(four_times) == [kernel_lines.plain(four_times), kernel_lines.plain(twice)]
    assert [kernel_lines.lines(function) for function in kernel_lines.reached(four_times)] == [5, 3]


@pytest.mark.parametrize(
    "module, helpers", [(naive, ["my_tile", "place"]), (grouped, ["grouped"])], ids=["naive", "grouped"]
)
def test_finds_the_helpers_of_a_kernel(module, helpers):
    first, *others = (function.__name__ for function in kernel_lines.reached(module.matmul_kernel))
    assert first == "matmul_kernel" and sorted(others) == helpers


def test_prints_all_steps(capsys):
    kernel_lines.main()
    said = numbers(capsys.readouterr().out)
    assert all(said[f"{step}, words"] > said[f"{step}, lines"] > 20 for step in kernel_lines.STEPS)
    assert said["persistent, lines"] > said["naive, lines"] and said["naive, functions"] == 3
