# SPDX-License-Identifier: Apache-2.0
"""What ``make test-changed`` runs of a change, and what it makes of a run without a test."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from render.config import address
from tests import changed

PAGES = ["index.md", "programs/vector-add-step-by-step.ipynb", "reference/glossary.md", "matmul/persistent.md"]


@pytest.fixture
def run(monkeypatch):
    """Have ``main`` see a change of some files; returns its status, and each command."""

    def run(*files, code=0):
        commands = []

        def start(command, **options):
            commands.append(command)
            return SimpleNamespace(returncode=0 if "render" in command else code)

        monkeypatch.setattr(changed, "changed_files", lambda base: list(files))
        monkeypatch.setattr(changed, "touched_snippets", lambda base, files: [])
        monkeypatch.setattr(changed, "subprocess", SimpleNamespace(run=start, CalledProcessError=ValueError))
        return changed.main(), commands

    return run


def test_a_page_that_changed_is_tested(run):
    status, commands = run(*(f"docs/en/{page}" for page in PAGES))
    command = next(command for command in commands if "-k" in command)
    plain = os.environ | {"PYTEST_ADDOPTS": ""}  # else -v there would undo the -q of the command
    collect = subprocess.run([*command, "-n0", "--collect-only"], env=plain, capture_output=True, text=True)
    for page in PAGES:
        assert collect.stdout.count(f"[{address(page)}]\n") >= 3, collect.stdout + collect.stderr
    assert status == 0 and collect.stdout.count("::") <= 4 * len(PAGES), collect.stdout


def test_no_test_is_no_success_where_tests_were_asked_for(run):
    assert run("docs/en/index.md", code=changed.NO_TESTS)[0] == 1
    assert run("tests/site/test_gates.py", code=changed.NO_TESTS)[0] == 0
    assert run("tests/site/test_gates.py", code=4)[0] == 4


def test_what_reaches_into_every_test_is_a_quick_run_of_all(run):
    _, (_, command) = run("conftest.py")
    assert command[-3:] == ["--dist", "worksteal", "--quick"] and command[0] == sys.executable
