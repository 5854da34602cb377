# SPDX-License-Identifier: Apache-2.0
"""Launches that are timed: empty kernels touch nothing, and every row of the table has something to time."""

import pytest
import torch
from guards import recorded_accesses

from snippets.gpu import launch_cost


def test_empty_kernels_touch_nothing():
    tensors = [torch.full((2,), float(i)) for i in range(8)]
    with recorded_accesses() as accesses:
        launch_cost.nothing_kernel[(1,)]()
        launch_cost.nothing_of_eight_kernel[(1,)](*tensors)
    assert accesses == [] and [tensor.tolist() for tensor in tensors] == [[float(i)] * 2 for i in range(8)]


def test_main_lists_every_benchmark(capsys):
    launch_cost.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == ["launch", "small", "large"]


@pytest.mark.gpu
def test_rows_of_the_table_are_what_is_launched():
    subjects = launch_cost.subjects()
    assert list(subjects) == launch_cost.NAMES
    expected = subjects["torch.add"]()
    assert torch.equal(subjects["add"](), expected) and torch.equal(subjects["torch.add, out="](), expected)


@pytest.mark.gpu
def test_clocks():
    subjects = launch_cost.subjects()
    for run in subjects.values():
        run()
        assert 0 < launch_cost.host(run, 20) < 1 and 0 < launch_cost.queue(run, 20) < 1


@pytest.mark.gpu
def test_timelines_are_in_order():
    for mark in (launch_cost.small, launch_cost.large):
        seen = {edge: [mark.fn(call, edge, **mark.benchmarks.args) for call in (1, 2, 3, 4)] for edge in EDGES}
        assert seen["host_begin"][0] == 0
        for call in range(4):
            assert seen["host_begin"][call] < seen["host_end"][call]
            assert seen["host_begin"][call] < seen["kernel_begin"][call] < seen["kernel_end"][call]


EDGES = launch_cost.EDGES["line_vals"]
