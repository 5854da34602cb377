# SPDX-License-Identifier: Apache-2.0
"""The table's verdicts are true: each can fail, none costs another, and this machine's are those that were recorded."""

import json
import math
import re
import subprocess
from pathlib import Path

import pytest
import torch
import triton

from recorder import verdicts
from snippets.tools import interpreter_and_gpu as table

RECORDINGS = Path(__file__).parents[3] / "recordings/tools/interpreter_and_gpu"
DEADLY = ("stray_far",)  # ends the process; so may, on a GPU, an assertion
NAN, INF = math.nan, math.inf


def recorded(device) -> dict:
    return json.loads((RECORDINGS / f"{device}.json").read_text("utf-8"))


def said(recording) -> dict[str, str]:
    """What a recording says of each feature, by the name of its function."""
    sections = verdicts.parse(recording["output"])
    return {name: sections[table.SECTIONS[row.section]][row.title]["ran"] for name, row in table.FEATURES.items()}


CPU = [said(json.loads(path.read_text("utf-8"))) for path in sorted(RECORDINGS.glob("cpu*.json"))]
RIGHT_EVERYWHERE = [name for name in table.FEATURES if all(found[name] == "right" for found in CPU)]


# The features, in this process


@pytest.mark.parametrize("name", RIGHT_EVERYWHERE)
def test_right_in_the_interpreter_of_every_version(name, capfd):
    with capfd.disabled():
        assert table.try_out(name, "cpu") == "right"


@pytest.mark.parametrize("name", [n for n in table.FEATURES if n not in RIGHT_EVERYWHERE and n not in DEADLY])
def test_as_recorded(name, capfd):
    recording = recorded("cpu")
    if recording["provenance"]["triton"] != triton.__version__:
        pytest.skip(f"recorded with Triton {recording['provenance']['triton']}")
    with capfd.disabled():
        assert table.try_out(name, "cpu") == said(recording)[name]


def test_most_of_the_table_can_be_tested_here():
    assert len(CPU) >= 4 and len(RIGHT_EVERYWHERE) > 0.6 * len(table.FEATURES)


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


def test_philox():
    """The known answers that its authors publish with it, as far as the first word goes."""
    assert table.philox(0, 0) == 0x6627E8D5


# Each in its place


def test_a_crash_costs_no_other(device):
    names = ["none_slicing", "stray_far", "swizzle2d"]
    found = table.run(names)
    assert list(found) == names and found["none_slicing"] == found["swizzle2d"] == "right"
    assert found["stray_far"] == "crash: SIGSEGV" if device == "cpu" else found["stray_far"].startswith("error")


def test_what_does_not_end(monkeypatch):
    def hang(command, **options):
        Path(command[3]).write_text(f'["{command[5]}", null]\n', "utf-8")
        raise subprocess.TimeoutExpired(command, 1)

    monkeypatch.setattr(subprocess, "run", hang)
    assert table.run(["loop"]) == {"loop": "not done after 300 s"}


def test_what_does_not_even_begin(monkeypatch):
    monkeypatch.setattr(table.sys, "executable", "/bin/false")
    with pytest.raises(SystemExit, match="exit status 1"):
        table.run(["loop"])


def test_compiling_takes_no_gpu():
    found = table.run(["program_id", "break", "three", "static_print", "static_assert"], compiling=True)
    assert found["program_id"] == found["static_print"] == "yes"
    assert found["three"] == "refused: ValueError: arange's range must be a power of 2"
    assert found["break"].startswith("refused: ") and found["static_assert"].endswith("N is too small")


def test_a_machine_without_a_gpu_is_told_of_the_interpreter(monkeypatch):
    monkeypatch.setattr(table, "interpreted", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="set TRITON_INTERPRET=1"):
        table.main()


def test_what_is_printed(monkeypatch, capsys):
    monkeypatch.setattr(
        table, "run", lambda names, compiling=False: dict.fromkeys(names, "yes" if compiling else "right")
    )
    table.main()
    out = capsys.readouterr().out
    sections = verdicts.parse(out)
    assert list(sections) == [*table.SECTIONS.values(), "Counts"]
    assert all(row["ran"] == "right" for title in table.SECTIONS.values() for row in sections[title].values())
    counts = dict(re.findall(r"^  (.+): (\d+)$", out, re.M))
    assert sum(int(many) for label, many in counts.items() if label.endswith("rows")) == len(table.FEATURES)
    assert counts["beside, rows"] == counts["beside, right"]


# On a GPU


@pytest.mark.gpu
def test_a_gpu_disagrees_with_the_interpreter_only_where_that_was_recorded():
    recording = recorded("h200")
    if recording["provenance"]["triton"] != triton.__version__:
        pytest.skip(f"recorded with Triton {recording['provenance']['triton']}")
    expected, found = said(recording), table.run(table.FEATURES)
    kind = lambda verdict: verdict.partition(":")[0].partition(" ")[0]
    steady = [name for name, row in table.FEATURES.items() if row.section != "beside"]
    assert {name: kind(found[name]) for name in steady} == {name: kind(expected[name]) for name in steady}
    assert found["race"].startswith("differs")  # programs that run at the same time lose each other's additions
