# SPDX-License-Identifier: Apache-2.0
"""ncu's reports are read as they are, and whoever has no ncu is told."""

import shutil
import subprocess
from pathlib import Path

import pytest

from snippets.gpu import counters as module
from snippets.gpu.counters import counters, parse

METRICS = ["dram__bytes_read.sum", "dram__bytes_write.sum"]

SCRIPT = """
import torch

x = torch.rand(2**26, device="cuda")
out = torch.empty_like(x)
torch.mul(x, 2, out=out)
torch.cuda.synchronize()
with torch.cuda.profiler.profile():
    torch.mul(x, 2, out=out)
    torch.cuda.synchronize()
"""


def test_a_report():
    assert parse(module.REPORT, METRICS) == [{"kernel": "add_kernel", METRICS[0]: 8000256.0, METRICS[1]: 3912448.0}]


def test_names_with_commas_and_quotes():
    report = '"ID","Kernel Name","a.sum"\n"","","%"\n"0","void f<int, ""x"">(int, int)","61.5"\n"1","g","0"\n'
    assert parse(report, ["a.sum"]) == [
        {"kernel": 'void f<int, "x">(int, int)', "a.sum": 61.5},
        {"kernel": "g", "a.sum": 0.0},
    ]


def test_no_report():
    assert parse("==PROF== Disconnected\n==WARNING== No kernels were profiled.\n", METRICS) == []


def test_what_ncu_is_asked(monkeypatch):
    asked = []

    def run(command, **options):
        asked.append((command, options))
        return subprocess.CompletedProcess(command, 0, stdout=module.REPORT, stderr="")

    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(subprocess, "run", run)
    assert len(counters(METRICS, "script.py", "one", "two")) == 1
    command, options = asked[0]
    assert command[0] == "ncu" and command[-3:] == ["script.py", "one", "two"]
    joined = " ".join(command)
    assert "--metrics dram__bytes_read.sum,dram__bytes_write.sum" in joined
    assert "--clock-control none --cache-control none --profile-from-start off" in joined
    assert str(Path(module.__file__).parents[2]) in options["env"]["PYTHONPATH"]
    counters(METRICS, "script.py", marked=False, cache="all")
    assert "--cache-control all" in " ".join(asked[1][0]) and "--profile-from-start" not in asked[1][0]


@pytest.mark.parametrize("code, report", [(1, module.REPORT), (0, "==WARNING== No kernels were profiled.\n")])
def test_a_failure_says_what_was_printed(monkeypatch, code, report):
    done = subprocess.CompletedProcess([], code, stdout=report, stderr="ERR_NVGPUCTRPERM")
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(subprocess, "run", lambda *args, **kwargs: done)
    with pytest.raises(RuntimeError, match="ERR_NVGPUCTRPERM"):
        counters(METRICS, "script.py")


def test_without_ncu(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(RuntimeError, match="ncu was not found"):
        counters(METRICS, "script.py")


def test_main(capsys):
    module.main()
    assert "dram__bytes_read.sum: 8000256.0" in capsys.readouterr().out


@pytest.mark.gpu
@pytest.mark.alone
def test_a_kernel_reads_its_input_once(tmp_path):
    if not shutil.which("ncu"):
        pytest.skip("ncu is not on the PATH; it comes with the CUDA toolkit")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    seen = counters(METRICS, str(script))
    assert len(seen) == 1, "only what is marked"
    assert abs(seen[0][METRICS[0]] / 2**28 - 1) < 0.05
