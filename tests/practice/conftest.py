# SPDX-License-Identifier: Apache-2.0
"""The coach stands in ``practice/``, which readers download: it is imported from there, as its own files do it."""

import sys
from pathlib import Path
from unittest import mock

import pytest

from tests.limits import HANGS

PRACTICE = Path(__file__).resolve().parents[2] / "practice"
sys.path.append(str(PRACTICE))  # behind the checkout, where `practice` is this package and not practice.py


@pytest.fixture(scope="session")
def coach():
    """The two processes in which files are checked, for all tests of a worker."""
    from coach import check

    child = Path(__file__).with_name("child.py")
    with mock.patch.object(check, "CHILD", (sys.executable, str(child))), check.Coach() as coach:
        yield coach


@pytest.fixture
def check(coach, tmp_path):
    """Check a text as the file of an exercise: its verdict."""

    def run(exercise, text, **options):
        path = tmp_path / f"{exercise.name}.py"
        path.write_text(text, "utf-8")
        return coach.check(exercise, path, **{"limit": HANGS, **options})

    return run


def one_line(text: str) -> str:
    """Without line breaks, for messages are wrapped."""
    return " ".join(text.split())
