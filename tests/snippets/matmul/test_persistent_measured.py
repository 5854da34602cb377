# SPDX-License-Identifier: Apache-2.0
"""The benchmarks of persistent matmul: listed, and on a GPU their sides compute the same."""

import shutil
import subprocess

import pytest
import torch
import triton

from snippets.matmul import persistent_measured

MARKS = [value for value in vars(persistent_measured).values() if isinstance(value, triton.testing.Mark)]


def test_main_lists_every_benchmark(capsys):
    persistent_measured.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert sorted(listed) == sorted(mark.benchmarks.plot_name for mark in MARKS)


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


def test_under_load_reads_the_second_half(monkeypatch, tmp_path, made_up_gpu):
    fake_nvidia_smi(monkeypatch, tmp_path, *["345, 80, 700, Not Active"] * 4, *["1500, 699, 700, Active"] * 3)
    ran = []
    found = persistent_measured.under_load(lambda: ran.append(1), seconds=1)
    assert found == {"clock": 1500, "power": 699, "limit": 700, "capped": pytest.approx(75)} and ran


def test_under_load_says_what_is_missing(monkeypatch, tmp_path, made_up_gpu):
    fake_nvidia_smi(monkeypatch, tmp_path, "No devices were found")
    with pytest.raises(RuntimeError, match="next to nothing of GPU-1234"):
        persistent_measured.under_load(lambda: None, seconds=0.3)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RuntimeError, match="nvidia-smi was not found"):
        persistent_measured.under_load(lambda: None)


@pytest.mark.gpu
def test_a_product_under_load():
    if not shutil.which("nvidia-smi"):
        pytest.skip("nvidia-smi is not on the PATH; it comes with the driver")
    found = persistent_measured.measure_power("random_ours", 4096)
    asked = ["nvidia-smi", "--query-gpu=enforced.power.limit", "--format=csv,noheader,nounits"]
    alone = subprocess.run(asked, capture_output=True, text=True).stdout.split()
    assert f"{found['limit']:.2f}" in alone
    assert 500 < found["clock"] < 3000 and 0.5 < found["power"] / found["limit"] < 1.1 and 0 <= found["capped"] <= 100


@pytest.mark.gpu
def test_benchmarks_run():
    for name in ("steps", "early", "data"):
        measure = getattr(persistent_measured, f"measure_{name}")
        for median, low, high in measure(256).values():
            assert 0 < low <= median <= high < 2000
    found = persistent_measured.measure_stages(256)
    assert set(found) == {1, 2, 3, 4} and all(rate[0] > 0 for rate in found.values())
