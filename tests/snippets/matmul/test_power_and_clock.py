# SPDX-License-Identifier: Apache-2.0
"""What power_and_clock.py reads of nvidia-smi and of the GPU's own clock, and that its sides compute the same."""

import shutil
import subprocess

import pytest
import torch
import triton

from snippets.matmul import power_and_clock as power

MARKS = [value for value in vars(power).values() if isinstance(value, triton.testing.Mark)]


def test_main_lists_every_benchmark(capsys):
    power.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert sorted(listed) == sorted(mark.benchmarks.plot_name for mark in MARKS)


class Event:
    """As torch's, on a GPU that takes 2 ms for each run."""

    now = 0

    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        Event.now += 2
        self.at = Event.now

    def synchronize(self):
        pass

    def elapsed_time(self, later):
        return later.at - self.at


def fake_nvidia_smi(monkeypatch, tmp_path, *lines):
    path = tmp_path / "nvidia-smi"
    path.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in lines) + "exec sleep 60\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")


@pytest.fixture
def made_up_gpu(monkeypatch):
    found = type("Properties", (), {"uuid": "1234"})
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda: found)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "Event", Event)


def test_under_load_reads_the_second_half(monkeypatch, tmp_path, made_up_gpu):
    fake_nvidia_smi(monkeypatch, tmp_path, *["345, 80, 700, Not Active"] * 4, *["1500, 699, 700, Active"] * 3)
    ran = []
    found = power.under_load(lambda: ran.append(1), seconds=1)
    assert found.pop("often") == pytest.approx(500)
    assert found == {"clock": 1500, "power": 699, "limit": 700, "capped": pytest.approx(75)} and ran


def test_under_load_says_what_is_missing(monkeypatch, tmp_path, made_up_gpu):
    fake_nvidia_smi(monkeypatch, tmp_path, "No devices were found")
    with pytest.raises(RuntimeError, match="next to nothing of GPU-1234"):
        power.under_load(lambda: None, seconds=0.3)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RuntimeError, match="nvidia-smi was not found"):
        power.under_load(lambda: None)


@pytest.mark.gpu
def test_a_product_under_load():
    if not shutil.which("nvidia-smi"):
        pytest.skip("nvidia-smi is not on the PATH; it comes with the driver")
    found = power.measure_power(4096, "random", "ours")
    asked = ["nvidia-smi", "--query-gpu=enforced.power.limit", "--format=csv,noheader,nounits"]
    alone = subprocess.run(asked, capture_output=True, text=True).stdout.split()
    assert f"{found['limit']:.2f}" in alone
    assert 500 < found["clock"] < 3000 and 0.5 < found["power"] / found["limit"] < 1.1 and 0 <= found["capped"] <= 100
    assert 100 < found["rate"] < 2000 and 20 < found["share"] < 100
    assert found["energy"] == pytest.approx(found["power"] * 2 * 4096**3 / found["rate"] * 1e-9)


@pytest.mark.gpu
@pytest.mark.parametrize("numbers", ["random", "zeros"])
def test_sides_compute_the_same(numbers):
    a, b = power.operands(256, numbers)
    expected = torch.matmul(a, b)
    assert expected.any() == (numbers == "random")
    for run in power.SIDES.values():
        torch.testing.assert_close(run(a, b), expected, atol=0.5, rtol=1e-2)


@pytest.mark.gpu
def test_rates_of_data():
    for median, low, high in power.measure_data(256).values():
        assert 0 < low <= median <= high < 2000
