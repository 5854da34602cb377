# SPDX-License-Identifier: Apache-2.0
"""Bytes come back from the other process as they were sent; one that fails, dies or hangs is an error that says so."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
import torch
from guards import environment

from snippets.gpu import memory_network as snippet
from tests.processes import run_script


@pytest.fixture
def started(monkeypatch):
    """The other processes, as they are started."""
    found, start = [], subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *args, **more: (found.append(start(*args, **more)), found[-1])[1])
    yield found
    assert all(process.poll() is not None for process in found), "it is still running"


def test_bytes_come_back(started):
    with snippet.echo() as exchange:
        for size in (1, 10_001, 10_001, 2**20, 3):
            data = torch.randint(0, 256, (size,), dtype=torch.uint8)
            back = torch.zeros_like(data)
            exchange(data, back)
            assert torch.equal(back, data)
        for data, back, message in (
            (torch.ones(3), torch.ones(3), "data must be contiguous bytes on the CPU; got torch.float32"),
            (torch.zeros(4, dtype=torch.uint8), torch.zeros(8, dtype=torch.uint8)[::2], "back must be contiguous"),
            (torch.zeros(4, dtype=torch.uint8), torch.zeros(5, dtype=torch.uint8), "same length.*got 4 and 5"),
            (torch.zeros(0, dtype=torch.uint8), torch.zeros(0, dtype=torch.uint8), "at least 1"),
        ):
            with pytest.raises(ValueError, match=message):
                exchange(data, back)
    assert [process.returncode for process in started] == [0]


def test_a_process_that_cannot_start(started, monkeypatch, tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit('no torch here')")
    monkeypatch.setattr(snippet, "__file__", str(broken))
    with pytest.raises(RuntimeError, match="ended with status 1; it said: no torch here"), snippet.echo():
        raise AssertionError("nobody is there")


def test_a_process_that_does_not_come(started, monkeypatch, tmp_path):
    idle = tmp_path / "idle.py"
    idle.write_text("import time; time.sleep(60)")
    monkeypatch.setattr(snippet, "__file__", str(idle))
    with pytest.raises(RuntimeError, match=r"did not come within 0\.3 s; it said: nothing"), snippet.echo(seconds=0.3):
        raise AssertionError("nobody is there")


def test_a_process_that_dies(started):
    data = torch.ones(10, dtype=torch.uint8)
    with pytest.raises(RuntimeError, match="an exchange with the other process failed"), snippet.echo() as exchange:
        started[0].kill()
        exchange(data, data.clone())


def test_a_process_that_hangs(started, monkeypatch):
    join = snippet.join
    monkeypatch.setattr(snippet, "join", lambda store, rank, seconds: join(store, rank, 2))
    data = torch.ones(10, dtype=torch.uint8)
    with pytest.raises(RuntimeError, match="an exchange with the other process failed"), snippet.echo() as exchange:
        exchange(data, data.clone())
        os.kill(started[0].pid, signal.SIGSTOP)
        exchange(data, data.clone())


def test_says_that_it_needs_a_gpu():
    if torch.cuda.is_available():
        pytest.skip("this machine has one")
    done = run_script(Path(snippet.__file__), env=environment("cpu"))
    assert done.returncode and "no GPU found" in done.stderr


@pytest.mark.gpu
def test_prints_what_the_page_shows(capsys):
    snippet.main()
    assert capsys.readouterr().out.splitlines() == [
        "1 bytes, there and back: equal", "10001 bytes, there and back: equal",
    ]  # fmt: skip


@pytest.mark.gpu
def test_benchmarks_run():
    median, slowest, fastest = snippet.rate.fn(2**28, "tcp")
    assert 0 < slowest <= median <= fastest < snippet.rate.fn(2**28, "pinned")[0]
    assert snippet.times.fn(2**28, "tcp") > snippet.times.fn(2**28, "pinned") > 1
