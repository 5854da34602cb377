# SPDX-License-Identifier: Apache-2.0
"""Assertions that are false: who notices, and what is left of the process."""

import shutil
import sys
from pathlib import Path

import pytest

from snippets.tools.debugging_assert_bug import KERNELS, child, launch, shortened

RAW = """launch: passed
/home/me/debugging_assert_bug.py:26: unknown: block: [2,0,0], thread: [34,0,0] Assertion `offset past the end` failed.
/home/me/debugging_assert_bug.py:26: unknown: block: [2,0,0], thread: [3,0,0] Assertion `offset past the end` failed.
/home/me/debugging_assert_bug.py:26: unknown: block: [1,0,0], thread: [35,0,0] Assertion `offset past the end` failed.
something else
"""


@pytest.fixture(autouse=True)
def children_find_the_snippets(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[3]))


def test_shortened():
    where = "debugging_assert_bug.py:26: unknown: block: "
    assert shortened(RAW) == [
        f"{where}[1,0,0], thread: [35,0,0] Assertion `offset past the end` failed.",
        f"{where}[2,0,0], thread: [3,0,0] Assertion `offset past the end` failed.",
        "… 1 more such lines",
    ]
    assert shortened("") == [] and len(shortened(RAW, shown=3)) == 3


@pytest.mark.parametrize("name", ["tl.device_assert", "assert"])
@pytest.mark.parametrize("options", [{}, {"debug": True}], ids=["", "debug"])
def test_in_the_interpreter_these_never_fail(name, options):
    """If this fails, Triton has mended it: then bring the page up to date."""
    KERNELS[name][(3,)](10, BLOCK=4, **options)


def test_in_the_interpreter_assert_all_does(capsys):
    launch("assert_all")
    first, *others = capsys.readouterr().out.splitlines()
    assert first.startswith("launch: InterpreterError: AssertionError(")
    assert "offset past the end: pid (2, 0, 0), 2 of 4 lanes, first lane 2" in first
    assert others == ["wait for it: passed", "add 1 to a tensor made before: passed"]


def test_in_the_interpreter_also_under_triton_debug():
    assert child("tl.device_assert", debug=True).splitlines() == [
        "launch: passed", "wait for it: passed", "add 1 to a tensor made before: passed",
    ]  # fmt: skip


def test_a_child_that_never_ran_is_no_result(monkeypatch):
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(RuntimeError, match=r"the process for assert_all came to nothing"):
        child("assert_all", debug=False)


@pytest.mark.gpu
@pytest.mark.parametrize("name", KERNELS)
def test_compiled(name):
    assert "passed\nwait for it: passed" in child(name, debug=False)
    seen = child(name, debug=True)
    assert "block: [2,0,0], thread: " in seen and "Assertion `offset past the end` failed" in seen
    launched, waited, added = seen.splitlines()[-3:]
    assert launched == "launch: passed", "it is reported only when somebody waits"
    assert "device-side assert triggered" in waited and "device-side assert triggered" in added
