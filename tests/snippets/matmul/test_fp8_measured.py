# SPDX-License-Identifier: Apache-2.0
"""8-bit products against torch's: every benchmark runs."""

import pytest
import torch

from snippets.matmul import fp8_measured as measured


def test_main_lists_every_benchmark(capsys):
    measured.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == ["tensorwise", "rowwise", "ways", "sums"]


@pytest.mark.gpu
@pytest.mark.skipif(
    torch.cuda.is_available() and torch.cuda.get_device_capability() < (8, 9), reason="no matrix units for float8"
)
@pytest.mark.parametrize("mark", [measured.tensorwise, measured.rowwise, measured.ways])
def test_benchmarks_run(mark):
    assert all(value > 0 for side in mark.benchmarks.line_vals for value in mark.fn(1024, side))


@pytest.mark.gpu
@pytest.mark.skipif(
    torch.cuda.is_available() and torch.cuda.get_device_capability() != (9, 0), reason="Hopper's matrix units are meant"
)
def test_fast_sums_lose_what_ours_keep():
    error = {side: measured.sums.fn(2**15, side, 256, 256) for side in measured.SIDES}
    assert error["ours"] < 2e-3 and error["ours_fast"] > 0.1, error
