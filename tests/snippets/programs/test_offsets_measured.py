# SPDX-License-Identifier: Apache-2.0
"""The benchmarks of copies by strides: listed; on a GPU each layout is copied right, and each side gives a rate."""

import pytest
import triton
from guards import check_same_bits

from snippets.programs import offsets_measured
from snippets.programs.offsets import contiguous

MARKS = [value for value in vars(offsets_measured).values() if isinstance(value, triton.testing.Mark)]


def test_main_lists_every_benchmark(capsys):
    offsets_measured.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert sorted(listed) == sorted(mark.benchmarks.plot_name for mark in MARKS)


def gpu(test):
    return pytest.mark.gpu(pytest.mark.long(test))


@gpu
@pytest.mark.parametrize("make", offsets_measured.LAYOUTS.values(), ids=offsets_measured.LAYOUTS)
def test_layouts_are_copied(make):
    x = make()
    check_same_bits(contiguous(x), x.contiguous())


@gpu
@pytest.mark.parametrize("mark", MARKS, ids=[mark.benchmarks.plot_name for mark in MARKS])
def test_benchmarks_run(mark, monkeypatch):
    monkeypatch.setattr(offsets_measured, "SIDE", 256)
    x = mark.benchmarks.x_vals[0]
    x = x if isinstance(x, tuple) else (x,)
    for line in mark.benchmarks.line_vals:
        median, low, high = mark.fn(*x, line)
        assert 0 < low <= median <= high
