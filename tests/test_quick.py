# SPDX-License-Identifier: Apache-2.0
"""What ``make test`` leaves out: tests that start a process, none that runs in its own, and all but a dozen cases."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TESTS = """
import multiprocessing, subprocess, sys
import pytest
import torch
from tests.processes import run_code
CALL = [sys.executable, "-c", "1"]

@pytest.fixture
def site():
    raise AssertionError("it is built")

def test_popen(): subprocess.run(CALL, check=True)
def test_inside_a_try():
    try: subprocess.run(CALL)
    except Exception: pass
def test_forked(tmp_path): run_code("1", env={}, cwd=tmp_path)
def test_fixture(site): pass
@pytest.mark.shown
def test_shown(): subprocess.run(CALL, check=True)
def test_torch(): torch.compile(abs)
def test_in_process(): pass
@pytest.mark.parametrize("number", range(30))
def test_case(number): pass
"""


@pytest.mark.parametrize("option", [[], ["--quick"]])
def test_what_starts_a_process_is_left_out(tmp_path, option):
    (tmp_path / "test_them.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "conftest", "--rootdir", str(tmp_path), *option]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([*command, str(tmp_path)], cwd=tmp_path, env=environment, capture_output=True, text=True)
    names = re.findall(r"^PASSED .*::test_(\w+)", done.stdout, re.M)
    assert names.count("case") == (12 if option else 30)
    passed, everywhere = set(names), {"shown", "in_process", "case"}
    assert passed == (everywhere if option else everywhere | {"popen", "inside_a_try", "forked", "torch"}), done.stdout
    assert ("5 skipped" in done.stdout) == bool(option)
