# SPDX-License-Identifier: Apache-2.0
"""What is measured again is what was recorded of the same kind of GPU, and the shares are of all its numbers."""

import subprocess
from subprocess import CompletedProcess
from unittest import mock

import pytest

from recorder import recording, timing
from recorder.project import Snippet
from snippets.tools import measured_again


@pytest.fixture(autouse=True)
def forgotten():
    measured_again.measure.cache_clear()
    yield
    measured_again.measure.cache_clear()


def test_the_sample_is_recorded_and_gives_numbers():
    """Of the GPU that the pages show; and what is measured is more than a few numbers."""
    for name in measured_again.SAMPLE:
        made = recording.load(Snippet(name), "h200")
        assert timing.numbers(made, made), name
        assert made.provenance.triton == "3.9.0", "numbers of another Triton would say more than another chip does"


def test_each_is_measured_once_and_all_are_the_sum_of_them(monkeypatch):
    measured = []

    def run(command, **options):
        measured.append(command[-1])
        return CompletedProcess(command, 0, "100.0\t104.0\ta name: table[1, 2].line, in µs\n2.0\t2.0\tb\n", "")

    monkeypatch.setattr(subprocess, "run", run)
    assert measured_again.measure("gpu/loads") == [(100, 104), (2, 2)]
    assert len(measured_again.measure(measured_again.ALL)) == 2 * len(measured_again.SAMPLE)
    assert sorted(measured) == sorted(measured_again.SAMPLE)


def test_why_one_was_not_measured():
    with pytest.raises(
        RuntimeError, match=r"matmul/naiv was not measured: recorder: there is no snippet .*matmul/naive"
    ):
        measured_again.measure("matmul/naiv")


def test_summary():
    """100 → 104 is within 5 %, 100 → 94 and 50 → 60 are not."""
    assert measured_again.summary([(100, 104), (100, 94), (50, 60)]) == pytest.approx(
        {"numbers": 3, "close": 1 / 3, "ratio": 1.04, "farthest": 1.2}
    )


def test_the_table_shows_the_summary():
    with mock.patch.object(measured_again, "measure", return_value=[(100, 104)]):
        shown = {what: measured_again.again.fn("all", what) for what in measured_again.again.benchmarks.line_vals}
    assert shown == pytest.approx({"numbers": 1, "close": 1.0, "ratio": 1.04, "farthest": 1.04})


def test_main_says_what_to_run(capsys):
    measured_again.main()
    assert capsys.readouterr().out.startswith("again.run(print_data=True)  # What was measured before")
