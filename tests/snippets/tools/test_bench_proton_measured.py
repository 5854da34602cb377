# SPDX-License-Identifier: Apache-2.0
"""Both timers time the same function, in turns, in microseconds."""

import pytest
import torch
from triton import testing

from snippets.tools import bench_proton_measured as measured


@pytest.fixture
def fresh():
    measured.measure.cache_clear()
    yield
    measured.measure.cache_clear()


def test_each_timer_has_its_turns(monkeypatch, fresh):
    turns = []

    def timer(name, ms):
        def timed(run, return_mode):
            assert return_mode == "median"
            torch.testing.assert_close(run(), torch.ones(8))
            turns.append(name)
            return ms

        return timed

    monkeypatch.setattr(measured.torch, "rand", lambda *shape, device: torch.full(shape, 0.5))
    for name, ms in zip(measured.TIMERS, (0.25, 0.125), strict=True):
        monkeypatch.setattr(testing, name, timer(name, ms), raising=False)
    assert measured.timers.fn(8, "do_bench") == (250, 250, 250)
    assert measured.timers.fn(8, "do_bench_proton") == (125, 125, 125)
    assert turns == [*measured.TIMERS] * 5


@pytest.mark.gpu
@pytest.mark.skipif(not hasattr(testing, "do_bench_proton"), reason="do_bench_proton came with Triton 3.9")
def test_a_timer_of_triton_counts_the_kernel_alone(fresh):
    said = measured.measure(2**12, times=1)
    assert 0.5 < min(said["do_bench_proton"]) < min(said["do_bench"])
