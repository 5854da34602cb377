# SPDX-License-Identifier: Apache-2.0
"""The benchmarks of powers: listed, and on a GPU what is doubled doubles the time of what it limits."""

import pytest
import triton

from snippets.gpu import launch_and_latency_measured

MARKS = [value for value in vars(launch_and_latency_measured).values() if isinstance(value, triton.testing.Mark)]


def test_main_lists_every_benchmark(capsys):
    launch_and_latency_measured.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert sorted(listed) == sorted(mark.benchmarks.plot_name for mark in MARKS)


@pytest.mark.gpu
@pytest.mark.alone
@pytest.mark.long
def test_what_is_doubled_doubles():
    doubled = launch_and_latency_measured.doubled.fn
    assert doubled("compute", "arithmetic") > 1.8 > 1.2 > doubled("compute", "bytes")
    assert doubled("memory", "bytes") > 1.8 > 1.2 > doubled("memory", "arithmetic")
    assert doubled("overhead", "launches") > 1.2 * doubled("overhead", "bytes")  # CPUs are noisy
