# SPDX-License-Identifier: Apache-2.0
"""A graph repeats what it recorded, on the same memory; and what it is good for shows on a GPU."""

import time

import pytest
import torch

from snippets.tools.benchmarking_graph import after, captured, launches, main


def test_refuses_no_calls():
    with pytest.raises(ValueError, match="calls must be at least 1; got 0"):
        captured(lambda: pytest.fail("must not be called"), calls=0)


def test_python_is_kept_busy():
    began = time.perf_counter()
    assert after(2000, lambda: "called") == "called"
    assert time.perf_counter() - began >= 0.002


def test_main_says_what_there_is(capsys):
    main()
    assert capsys.readouterr().out.startswith("launches.run(print_data=True)  # Microseconds of a small add")


@pytest.mark.gpu
def test_a_graph_repeats_the_calls():
    x = torch.zeros(3, device="cuda")
    replay = captured(lambda: x.add_(1), calls=5)
    x.zero_()
    replay()
    replay()
    assert x.tolist() == [10.0] * 3


@pytest.mark.gpu
def test_what_waits_for_the_gpu_cannot_be_recorded():
    """In a process of its own, for a failed recording leaves CUDA in a bad state."""
    from subprocess import run
    from sys import executable

    script = "from snippets.tools.benchmarking_graph import captured; import torch; x = torch.ones(3, device='cuda')"
    done = run([executable, "-c", f"{script}; captured(lambda: x.sum().item())"], capture_output=True, text=True)
    assert done.returncode != 0 and "captur" in done.stderr


@pytest.mark.gpu
@pytest.mark.alone
def test_do_bench_sees_python_only_where_it_is_slow():
    found = {(python, side): launches.fn(python, side, 2**12) for python in (0, 320) for side in ("call", "graph")}
    assert found[320, "call"][0] > found[0, "call"][0] + 100
    assert found[320, "graph"][0] < found[0, "graph"][0] + 2
