# SPDX-License-Identifier: Apache-2.0
"""Times of fused layers: what is timed computes the same, and every benchmark runs."""

import pytest
import torch

from snippets.matmul import fused_measured as measured
from snippets.matmul.fused import ACTIVATIONS


def test_bytes_are_those_by_hand():
    assert measured.share.fn(64, "bytes", 8192, 8192) == (2 * 64 + 8192) / (2 * 64 + 3 * 8192)


def test_main_lists_every_benchmark(capsys):
    measured.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == ["by_k", "share", "by_shape", "by_activation"]


@pytest.mark.gpu
@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
def test_all_sides_compute_the_same(activation):
    torch.manual_seed(0)
    sides = measured.sides(512, 768, 256, activation)
    assert ("cublaslt" in sides) == (activation in ("relu", "gelu_tanh"))
    results = [run().float() for run in sides.values()]
    for result in results[1:]:
        torch.testing.assert_close(result, results[0], rtol=0.05, atol=0.05)


def test_large_tiles_are_asked_for():
    config = measured.in_large_tiles(lambda: measured.fused.choose_config(8192, 8192, 256, 2, 132))
    assert config() == measured.LARGE != measured.fused.choose_config(8192, 8192, 256, 2, 132)


@pytest.mark.gpu
@pytest.mark.parametrize("mark, x", [(measured.by_k, 64), (measured.by_activation, "silu")])
def test_benchmarks_run(mark, x):
    benchmark = mark.benchmarks
    for line in benchmark.line_vals:
        values = mark.fn(**{benchmark.x_names[0]: x, benchmark.line_arg: line}, **benchmark.args)
        assert all(0 < value < 1e3 for value in values)
