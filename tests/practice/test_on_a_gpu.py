# SPDX-License-Identifier: Apache-2.0
"""The command for a machine with a GPU, with processes of our own in place of those that measure."""

import io
import json

import pytest
from coach import measured
from coach.check import Verdict
from coach.exercise import exercises, find
from coach.finding import Finding

from tests.practice import on_a_gpu

SCALE, FLIP = find("scale", exercises()), find("flip", exercises())
WHERE = {"gpu": "G", "date": "today"}


class Toy:
    """Stands in for a checker, and for the process that knows whether there is a GPU."""

    gpu, says = True, "too slow: 9% of the speed of a copy"

    def __init__(self):
        self.compiling = self

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def has_gpu(self):
        return self.gpu

    def check(self, exercise, path, limit=0, tasks=()):
        if tasks == ("speed",):
            return Verdict(Finding(self.says, stage="speed") if self.says else None, [], [] if self.says else ["fast"])
        return Verdict(None, ["values"])


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run the command for two exercises, the first of which reaches a share in each of three processes."""

    def command(*shares, code=0, **checker):
        answers = iter(shares)

        class Process:
            def __init__(self, command, **options):
                line = json.dumps([SCALE.name, "a copy", 0.85, [next(answers)] * 5]) + "\n"
                self.stdout, self.returncode = io.StringIO(line), code

            __enter__, __exit__ = (lambda self: self), (lambda self, *error: None)

            def kill(self):
                pass

        monkeypatch.setattr(on_a_gpu, "Checker", type("Checker", (Toy,), checker))
        monkeypatch.setattr(on_a_gpu.subprocess, "Popen", Process)
        monkeypatch.setattr(on_a_gpu, "provenance", lambda: WHERE)
        out = tmp_path / "measured.json"
        return on_a_gpu.main(["scale", "flip", "--out", str(out), "--jobs", "2"]), measured.read(out)

    return command


def test_what_was_measured_is_written(run, capsys):
    code, found = run(0.9, 0.95, 0.91)
    assert code == 0 and found.where == WHERE
    assert found.solutions == {
        SCALE.name: measured.Reached("a copy", (0.9, 0.95, 0.91), measured.fingerprint(SCALE)),
    }
    assert found.slow == {e.name: tuple(w.name for w in e.wrong() if w.gpu) for e in (SCALE, FLIP)}
    said = capsys.readouterr().out
    assert "passed flip" in said and "0.900 (0.900–0.900)  0.950 (0.950–0.950)" in said


def test_a_solution_that_is_too_slow_is_told(run, capsys):
    assert run(0.9, 0.84, 0.91)[0] == 1
    assert "NOT AS IT SHOULD BE: scale reaches 0.84, and 0.85 is asked for" in capsys.readouterr().out


def test_a_slow_one_that_passes_is_told(run, capsys):
    code, found = run(0.9, 0.9, 0.9, says="")
    assert code == 1 and found.slow == {}
    assert "scale tiny_blocks must fail, being too slow: fast" in capsys.readouterr().out


def test_a_process_that_fails_is_told(run, capsys):
    assert run(0.9, 0.9, 0.9, code=3)[0] == 1
    assert "a process that measures ended with 3" in capsys.readouterr().out


def test_there_has_to_be_a_gpu(run, capsys):
    assert run(gpu=False) == (2, None)
    assert "no GPU here" in capsys.readouterr().err
