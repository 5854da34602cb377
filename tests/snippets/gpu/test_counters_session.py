# SPDX-License-Identifier: Apache-2.0
"""Of what ncu prints, the tables of the launch are kept; without ncu, and if it fails, the error says so."""

import shutil
import subprocess
from types import SimpleNamespace

import pytest

from snippets.gpu import counters_session as snippet

PRINTED = """\
==PROF== Connected to process 4711 (/usr/bin/python3)
==PROF== Profiling "add_kernel" - 0: 0%....50%....100% - 9 passes
==PROF== Disconnected from process 4711
[4711] python3@127.0.0.1
  add_kernel (65536, 1, 1)x(128, 1, 1), Context 1, Stream 7, Device 0, CC 9.0
    Section: GPU Speed Of Light Throughput
    ----------------------- ----------- ------------
    Metric Name             Metric Unit Metric Value
    ----------------------- ----------- ------------
    DRAM Throughput                   %        91.23
    SM Active Cycles              cycle    1,234,567
    ----------------------- ----------- ------------

    INF   This workload is using greater than 80.0% of the available compute or memory performance
          of this device.

    OPT   Something else.
"""


def test_only_the_tables_are_kept():
    lines = snippet.tables(PRINTED)
    assert lines[0].startswith("  add_kernel (65536") and lines[1] == "    Section: GPU Speed Of Light Throughput"
    assert len(lines) == 8 and not any("4711" in line or "INF" in line or "device." in line for line in lines)
    assert snippet.value_of("DRAM Throughput", lines) == 91.23
    assert snippet.value_of("SM Active Cycles", lines) == 1_234_567
    with pytest.raises(KeyError, match="ncu printed no Duration"):
        snippet.value_of("Duration", lines)


def test_without_ncu(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(RuntimeError, match="ncu was not found"):
        snippet.session([])


def test_what_ncu_says_when_it_fails(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: "ncu")
    failed = SimpleNamespace(returncode=1, stdout="==ERROR== ERR_NVGPUCTRPERM", stderr="")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(RuntimeError, match="status 1: ==ERROR== ERR_NVGPUCTRPERM"):
        snippet.session([])


@pytest.mark.gpu
@pytest.mark.alone
def test_a_session(capsys):
    if not shutil.which("ncu"):
        pytest.skip("ncu is not on the PATH; it comes with the CUDA toolkit")
    snippet.main()
    said = capsys.readouterr().out
    assert "add_kernel" in said and "dram__bytes_read.sum" in said and "DRAM Throughput: " in said
