# SPDX-License-Identifier: Apache-2.0
"""The form of ``<launch-explorer>``: it begins as the recorded launch, and says which launch it cannot vary."""

import re

import pytest
from msgspec.structs import replace

from figures.launch_explorer import explorer
from recorder.project import RecorderError
from tests.toy import launch, made


def test_begins_as_what_was_recorded():
    page = explorer(made("cpu"), id="other")
    fields = dict(re.findall(r'type="number" name="(\w+)"[^>]*\svalue="(\d+)"', page))
    assert (fields["n"], fields["block"]) == ("3", "4")
    assert '<launch-explorer id="other"><svg' in page and "launched as 1 program" in page
    assert 'type="hidden" name="dimensions" value="1"' in page
    assert re.findall(r'name="dimensions" value="(\d)"( checked)?', explorer(made("cpu"), switch=True)) == [
        ("1", " checked"), ("2", ""),
    ]  # fmt: skip


def test_the_slider_of_a_block_goes_from_one_power_of_two_to_the_next():
    sliders = re.findall(r'type="range" aria-label="(\w+)" min="(\d+)" max="(\d+)"', explorer(made("cpu")))
    assert sliders[:2] == [("n", "1", "64"), ("BLOCK_SIZE", "0", "5")]


@pytest.mark.parametrize(
    "number, words",
    [(1, "accesses of launch 1 were not written down"), (4, "launch 4 was counted, not kept"),
     (2, "launch 2 has no length `n`"), (3, "launch 3 has no length `n` or no constant")],
)  # fmt: skip
def test_refuses_what_it_cannot_vary(number, words):
    recorded = made("cpu")
    recorded = replace(recorded, launches={**recorded.launches, "3": launch(constexprs=[])})
    with pytest.raises(RecorderError, match=words):
        explorer(recorded, launch=number)
