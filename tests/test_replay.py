# SPDX-License-Identifier: Apache-2.0
"""Run every snippet and every lab again and compare with its recording, as ``make replay`` does.

A test of a snippet need not repeat what its script prints: if that changes, the replay fails here.
"""

import subprocess
from functools import partial
from pathlib import Path
from unittest import mock

import pytest

from recorder import recording, replay, runner
from recorder.project import ROOT, Exercise, Snippet
from tests.processes import run_python
from tests.toy import runs_snippets


def recorded_seconds(job) -> float:
    return (isinstance(job, Snippet) and recording.load(job, "cpu").provenance.seconds) or 0


# The longest first, so that no worker is left with one at the end. tests/practice/test_exercises.py compares the
# exercises, in processes that have torch and Triton already.
JOBS = sorted(
    (job for job in replay.jobs() if not isinstance(job, Exercise)), key=recorded_seconds, reverse=True
)  # fmt: skip


class Forked:
    """Run what the recorder would start, in a process that has torch and Triton already; return when it has ended."""

    def __init__(self, command, *, cwd, env, stdout, **options):
        arguments = command[command.index("-m", command.index("recorder.watch")) :]
        done = run_python(*arguments, env=env, cwd=Path(cwd))
        stdout.write(f"{done.stdout}{done.stderr}".encode())
        self.returncode = done.returncode

    def poll(self) -> int:
        return self.returncode


def start(command, *, env, compiled, **options):
    """Start a process of the recorder: forked, unless it asks for another Triton than the installed one."""
    other_triton = env["PYTHONPATH"] != str(ROOT)
    env["TRITON_CACHE_DIR"] = str(compiled)
    return (subprocess.Popen if other_triton else Forked)(command, env=env, **options)


@runs_snippets
@pytest.mark.replay
@pytest.mark.parametrize(
    "job",
    [
        pytest.param(job, id=job.name, marks=[pytest.mark.shown] if job.name == "start/first_kernel" else [])
        for job in JOBS
    ],
)
def test_it_comes_out_as_recorded(job, monkeypatch, tmp_path_factory):
    compiled = tmp_path_factory.getbasetemp().parent / "compiled"  # what one has compiled, the next need not
    monkeypatch.setattr(runner, "Popen", partial(start, compiled=compiled))
    assert replay.again(job, mock.Mock()) == []
