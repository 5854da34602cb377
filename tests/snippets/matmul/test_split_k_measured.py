# SPDX-License-Identifier: Apache-2.0
"""The benchmarks of split-K: listed, every plan that they take can be served, and on a GPU they run."""

import pytest
import triton

from snippets.matmul import split_k, split_k_measured
from snippets.matmul.split_k import FINISH

MARKS = [value for value in vars(split_k_measured).values() if isinstance(value, triton.testing.Mark)]


def test_main_lists_every_benchmark(capsys):
    split_k_measured.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert sorted(listed) == sorted(mark.benchmarks.plot_name for mark in MARKS)


def check_plan(plan, M, N, K):
    tiles = triton.cdiv(M, plan.block_m) * triton.cdiv(N, plan.block_n)
    split_k.check_plan(plan, tiles, tiles * triton.cdiv(K, plan.block_k))


def test_benchmarks_have_a_plan_for_each_side():
    for M, N, K in [(512, 512, K) for K in split_k_measured.LONG] + [(M, 4096, 4096) for M in split_k_measured.DECODE]:
        found = split_k_measured.best_plans(M, N, K)
        assert split_k.split(M, N, K) in found.values() and list(found) == list(FINISH)


def test_ways_to_share_can_be_served():
    for M, N, K in split_k_measured.SHAPES.values():
        ways = split_k_measured.ways_to_share(M, N, K)
        assert list(ways) == split_k_measured.sharing.benchmarks.line_vals[:3]
        for plan in ways.values():
            check_plan(plan, M, N, K)


def test_unsplit_plans_can_be_served():
    for M in split_k_measured.splitting.benchmarks.x_vals:
        plan = split_k.split(M, 4096, 4096)
        alone = split_k_measured.unsplit(plan, M, 4096)
        assert plan.finish != "alone" and alone.programs == 64 < plan.programs  # else there is nothing to compare
        assert alone[:5] == plan[:5]
        check_plan(alone, M, 4096, 4096)


@pytest.mark.gpu
def test_benchmark_runs():
    for side in ("alone", "chosen", "cublas"):
        median, low, high = split_k_measured.long.fn(512, 512, 2048, side)
        assert 0 < low <= median <= high
    for side in split_k_measured.splitting.benchmarks.line_vals:
        median, low, high = split_k_measured.splitting.fn(16, 4096, 4096, side)
        assert 0 < low <= median <= high
