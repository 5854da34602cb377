# SPDX-License-Identifier: Apache-2.0
"""What is measured again is what was recorded of the same kind of GPU, and the shares are of all its numbers."""

from unittest import mock

import pytest

from recorder import recording
from recorder.project import Snippet
from recorder.timing import Number
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
        assert measured_again.timing.numbers(made, made), name
        assert made.provenance.triton == "3.9.0", "numbers of another Triton would say more than another chip does"


def test_each_is_run_on_this_gpu_and_compared_with_its_recording():
    with (
        mock.patch.object(measured_again, "device_name", return_value="h200"),
        mock.patch.object(measured_again.runner, "record", side_effect=recording.load) as record,
    ):
        found = {x: measured_again.summary(measured_again.measure(x)) for x in measured_again.again.benchmarks.x_vals}
    assert [call.args[0].name for call in record.call_args_list] == list(measured_again.SAMPLE), "each once"
    assert all(values["close"] == values["ratio"] == values["farthest"] == 1 for values in found.values())
    assert found["all"]["numbers"] == sum(found[name]["numbers"] for name in measured_again.SAMPLE) > 300


def test_summary():
    """100 → 104 is within 5 %, 100 → 94 and 50 → 60 are not."""
    numbers = [Number("a", 100, 104), Number("b", 100, 94), Number("c", 50, 60)]
    assert measured_again.summary(numbers) == pytest.approx(
        {"numbers": 3, "close": 1 / 3, "ratio": 1.04, "farthest": 1.2}
    )


def test_the_table_shows_the_summary():
    with mock.patch.object(measured_again, "measure", return_value=[Number("a", 100, 104)]):
        shown = {what: measured_again.again.fn("all", what) for what in measured_again.again.benchmarks.line_vals}
    assert shown == pytest.approx({"numbers": 1, "close": 1.0, "ratio": 1.04, "farthest": 1.04})


def test_main_says_what_to_run(capsys):
    measured_again.main()
    assert capsys.readouterr().out.startswith("again.run(print_data=True)  # What was measured before")
