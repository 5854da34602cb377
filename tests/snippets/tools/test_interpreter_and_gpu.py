# SPDX-License-Identifier: Apache-2.0
"""The judge of the table can tell right from wrong, nothing that happens costs more than its row."""

import importlib
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from guards import environment
from verdicts import Recorded

from recorder import printed
from snippets.tools import interpreter_and_gpu as table
from tests.processes import run_script

SECTION = {name: importlib.import_module(f"snippets.tools.interpreter_and_gpu_{name}") for name in table.SECTIONS}
NAN, INF = math.nan, math.inf


def test_most_of_the_table_can_be_tested_here():
    recorded = [Recorded(name) for name in table.SECTIONS]
    assert sum(len(section.names) for section in recorded) == len(table.FEATURES)
    assert all(len(section.on_cpu) >= 4 for section in recorded)
    assert sum(len(section.right_everywhere) for section in recorded) > 0.6 * len(table.FEATURES)


# What is right


@pytest.mark.parametrize(
    "got, expected, tolerance, verdict",
    [
        ([1, 2], [1, 2], 0, "right"),
        ([1.0, NAN], [1, NAN], 0, "right"),
        ([INF], [INF], 0, "right"),
        ([1, NAN], [1, 2], 0, "differs: got nan instead of 2, one of 2 values"),
        ([1.001], [1.0], 1e-2, "right"),
        ([1.1], [1.0], 1e-2, "differs: got 1.1 instead of 1"),
        ([1 + 2**-23], [1.0], 0, "differs: got 1.00000012 instead of 1"),
        ([1 + 2**-8], [1 + 2**-9], 0, "differs: got 1.004 instead of 1.002"),
        ([0, 0, 7], [1, 2, 7], 0, "differs: got 0 instead of 1, 2 of 3 values"),
        ([-(2**31)], [2**31 - 1], 0, "differs: got -2147483648 instead of 2147483647"),
        ([1], [1, 2], 0, "differs: got shape (1,) instead of (2,)"),
        ([8432742400.0], [2.5], 1e-3, "differs: got 8.433e+09 instead of 2.5"),  # the same on every CPU
        ([3, 4], None, 0, "got 3, 4"),
        ([1, 2, 3, 4, 5], None, 0, "got 1, 2, 3, 4, …"),
        ("stopped", "stopped", 0, "right"),
        ("not stopped", "stopped", 0, "differs: not stopped"),
        ([1.5], table.REFUSED, 0, "accepted: got 1.5"),
        ("no error", table.REFUSED, 0, "accepted: got no error"),
    ],
)
def test_judge(got, expected, tolerance, verdict):
    tensor = lambda x: torch.tensor(x, dtype=torch.float64) if isinstance(x, list) else x
    assert table.judge(tensor(got), tensor(expected), tolerance) == verdict


def test_causes_of_errors():
    def raised(error, cause=None):
        try:
            raise error from cause
        except Exception as caught:
            return table.complaint(caught)

    assert raised(ValueError("one\ntwo")) == "ValueError: one" and raised(KeyError()) == "KeyError"
    assert raised(RuntimeError("x"), ValueError("at 2:4:\n  x[0]\n  ^\nno such thing")) == "ValueError: no such thing"
    assert raised(TypeError("<a.b object at 0x7f87c2476350>")) == "TypeError: <a.b>"
    assert raised(ValueError("x" * 999)) == f"ValueError: {'x' * 107}…"


def test_numbers_are_whole_different_and_in_no_order(device):
    found = table.numbers(32, device)
    assert found.dtype == torch.float32 and found.device.type == device
    assert sorted(set(found.tolist())) == sorted(found.tolist()) != found.tolist()


@pytest.mark.parametrize("name", ["reduce_own", "associative_scan", "where_nan"])
def test_larger(name):
    assert table.try_out(name, "cpu") == "right"


# Each in its place


def test_what_does_not_end(monkeypatch):
    def hang(command, **options):
        Path(command[3]).write_text(f'["{command[5]}", null]\n', "utf-8")
        raise subprocess.TimeoutExpired(command, 1)

    monkeypatch.setattr(subprocess, "run", hang)
    assert table.run("a file", ["loop"]) == {"loop": "not done after 300 s"}


def test_what_does_not_even_begin(monkeypatch):
    monkeypatch.setattr(table.sys, "executable", "/bin/false")
    with pytest.raises(SystemExit, match="exit status 1"):
        table.run("a file", ["loop"])


def test_a_machine_without_a_gpu_is_told_of_the_interpreter(monkeypatch):
    monkeypatch.setattr(table, "interpreted", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["it.py"])
    with pytest.raises(SystemExit, match="set TRITON_INTERPRET=1"):
        table.main("it.py", "language")


@pytest.mark.parametrize("section", table.SECTIONS)
def test_what_is_printed(section, monkeypatch, capsys):
    asked = []

    def run(file, names, compiling=False):
        asked.append(file)
        return dict.fromkeys(names, "yes" if compiling else "right")

    monkeypatch.setattr(table, "run", run)
    monkeypatch.setattr(sys, "argv", ["it.py"])
    table.main("it.py", section)
    out = capsys.readouterr().out
    sections = printed.verdicts(out)
    assert list(sections) == [table.SECTIONS[section], "Counts"] and asked == ["it.py", "it.py"]
    rows = sections[table.SECTIONS[section]]
    assert all(row == {"ran": "right", "compiles for sm_90": "yes"} for row in rows.values())
    numbers = printed.numbers(out)
    assert numbers[f"{section}, rows"] == numbers[f"{section}, right"] == len(rows)


def test_the_child_runs_the_features(monkeypatch, tmp_path, capfd):
    said = tmp_path / "said"
    monkeypatch.setattr(sys, "argv", ["it.py", "--child", str(said), "", "none_slicing", "swizzle2d"])
    with capfd.disabled():
        table.main("it.py", "language")
    names = ("none_slicing", "swizzle2d")
    assert said.read_text() == "".join(f'["{name}", null]\n["{name}", "right"]\n' for name in names)


def test_all_sections_one_after_the_other(monkeypatch):
    ran = []

    def run(command):
        ran.append(Path(command[1]))
        return subprocess.CompletedProcess(command, int("refused" in command[1].name))

    monkeypatch.setattr(subprocess, "run", run)
    assert table.every_section() == 1 and all(path.is_file() for path in ran)
    assert [path.stem.rpartition("_")[2] for path in ran] == ["language", "looking", "numbers", "refused"], "it stops"


def test_without_a_gpu_it_says_so_once():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    done = run_script(Path(table.__file__), env=environment("cuda"))
    assert done.returncode == 1 and done.stderr.count("no GPU found") == 1
