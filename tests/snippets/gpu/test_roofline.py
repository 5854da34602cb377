# SPDX-License-Identifier: Apache-2.0
"""The roofline: what is counted of each kernel, what is timed, and what the driver says of the clock."""

import io
from unittest import mock

import pytest
import torch

from snippets.gpu import roofline
from snippets.tools.benchmarking import Timing


def test_what_is_counted():
    everything = roofline.KERNELS | roofline.CEILINGS
    counted = {name: (work.unit, work.flop, work.bytes) for name, work in everything.items()}
    assert counted["add"] == ("fp32", 2**27, 12 * 2**27)
    assert counted["row_sum"] == ("fp32", 2**27, 4 * 2**27 + 4 * 2**14)
    assert counted["powers, k = 64"] == ("fp32", 2**33, 2**29)
    assert counted["x @ w, 512"] == ("bf16", 2**28, 3 * 2**19)
    assert counted["relu(x @ w), one kernel"] == counted["relu(x @ w), two kernels"]
    assert counted["copy"] == ("copy", 0, 2**31)
    assert {unit for unit, *_ in counted.values()} == {"copy", "fp32", "bf16"}


def test_names_are_rows_of_the_tables():
    assert [kernel for kernel, _ in roofline.roofline.benchmarks.x_vals] == list(roofline.KERNELS)
    assert not set(roofline.KERNELS) & set(roofline.CEILINGS)


def test_what_the_driver_does_not_know():
    assert roofline.number(" 1485 ") == 1485 and roofline.number("[N/A]") != roofline.number("[N/A]")


def test_a_ceiling_is_the_fastest_round(monkeypatch):
    monkeypatch.setattr(roofline, "measure_all", lambda: dict.fromkeys(roofline.CEILINGS, Timing((2.0, 1.0, 4.0))))
    assert roofline.ceilings.fn("copy", "rate")[0] == 2**31 / 1e6
    assert roofline.ceilings.fn("bf16", "rate") == (2 * 8192**3 / 1e9, 2 * 8192**3 / 4e9, 2 * 8192**3 / 1e9)


def test_main_prints_the_intensities(capsys):
    roofline.main()
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line[4:28].rstrip() for line in lines] == list(roofline.KERNELS)
    assert lines[0].split() == ["add", "0.08"] and lines[-1].endswith("0.25")


def test_clocks_are_asked_for_while_the_gpu_works(monkeypatch):
    calls = []
    asked = mock.Mock(stdout=io.StringIO("1485, 1980, 689.51, 700.00\n"))
    asked.poll = lambda: 0 if len(calls) >= asked.answers_at else None

    def popen(command, **options):
        assert calls, "the GPU is at work before it is asked about"
        asked.answers_at = len(calls) + 3
        assert command[:3] == ["nvidia-smi", "-i", "GPU-4711-0815"]
        assert "clocks.sm,clocks.max.sm,power.draw,power.limit" in " ".join(command)
        return asked

    monkeypatch.setattr(roofline, "CEILINGS", {"copy": mock.Mock(prepare=lambda: lambda: calls.append(1))})
    monkeypatch.setattr(roofline.subprocess, "Popen", popen)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: mock.Mock(uuid="4711-0815"))
    roofline.measure_clock.cache_clear()
    seen = roofline.measure_clock("copy", warmup=0.01)
    assert seen == {"mhz": 1485, "mhz_most": 1980, "watt": 689.51, "watt_most": 700}
    assert len(calls) >= asked.answers_at, "it is at work until the answer is there"
    roofline.measure_clock.cache_clear()


@pytest.mark.gpu
def test_the_gpu_that_is_asked_about_is_the_one_that_works():
    assert roofline.clocks.fn("bf16", "watt") > 0.5 * roofline.clocks.fn("bf16", "watt_most")


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["add, 4096 numbers", "powers, k = 8", "x @ w, 512", "copy"])
def test_what_is_timed_runs(name):
    (roofline.KERNELS | roofline.CEILINGS)[name].prepare()()
    torch.cuda.synchronize()
