# SPDX-License-Identifier: Apache-2.0
"""Limits that a busy machine would pass stand in no test, and those in ``tests/limits.py`` do what they are for."""

import ast
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.limits import at_most, paced, slowness

TESTS = Path(__file__).parent
CLOCKS = {"monotonic", "perf_counter", "process_time", "thread_time", "time"}


def limits(source: str) -> list[int]:
    """Return the lines that limit how long something takes by a number, or assert that a clock went less far."""
    found = []
    if not re.search(rf"timeout|\b({'|'.join(CLOCKS)})\b", source):  # to parse a file takes a hundred times as long
        return found
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(attr="set_default_timeout"), args=[ast.Constant(), *_]):
                found.append(node.lineno)
            case ast.Call(keywords=keywords) if any(
                k.arg == "timeout" and isinstance(k.value, ast.Constant) and k.value.value is not None for k in keywords
            ):
                found.append(node.lineno)
            case ast.Attribute(attr="timeout", value=ast.Attribute(attr="mark")):
                found.append(node.lineno)
            case ast.Assert():
                less = [each for each in ast.walk(node.test) if isinstance(each, ast.Compare)]
                less = [each for each in less if any(isinstance(op, ast.Lt | ast.LtE) for op in each.ops)]
                calls = [call.func for each in less for call in ast.walk(each) if isinstance(call, ast.Call)]
                if any(getattr(call, "attr", getattr(call, "id", None)) in CLOCKS for call in calls):
                    found.append(node.lineno)
    return found


@pytest.mark.parametrize(
    "line",
    [
        "subprocess.run([], timeout=30)",
        "process.communicate(timeout=20.5)",
        "page.set_default_timeout(15_000)",
        "@pytest.mark.timeout(300)\ndef test_it(): pass",
        "pytestmark = [pytest.mark.timeout(5)]",
        "assert time.monotonic() - start < 5",
        "assert fine and 0 < perf_counter() - start <= 2",
        "def test_it():\n    assert time.process_time() - before < 1, 'slow'",
    ],
)
def test_a_limit_by_the_clock_is_seen(line):
    assert limits(line)


@pytest.mark.parametrize("line", ["run(timeout=HANGS)", "get(timeout=None)", "assert time.monotonic() - start >= 0.01"])
def test_what_is_no_limit_by_the_clock(line):
    assert not limits(line)


def test_no_test_has_a_limit_of_its_own():
    found = {path.relative_to(TESTS).as_posix(): limits(path.read_text("utf-8")) for path in TESTS.rglob("*.py")}
    assert not {path: lines for path, lines in found.items() if lines}, "tests/limits.py has limits for everybody"


@pytest.mark.speed
def test_waiting_costs_no_processor_and_work_does_in_children_too():
    with at_most(0.2):
        time.sleep(0.5)
    work = "import time\nwhile time.process_time() < 1: pass"
    with paced() as pace:
        subprocess.run([sys.executable, "-c", work], check=True)
    assert 0.5 / max(1, slowness()) < pace.seconds
    with pytest.raises(AssertionError), at_most(0.001):
        slowness()
        slowness()
