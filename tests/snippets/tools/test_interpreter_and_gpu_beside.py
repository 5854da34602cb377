# SPDX-License-Identifier: Apache-2.0
"""Lanes and programs side by side: the verdicts are those that were recorded, and a crash costs no other."""

import pytest
import torch
from verdicts import Recorded

from snippets.tools import interpreter_and_gpu as table
from snippets.tools import interpreter_and_gpu_beside as section

RECORDED = Recorded("beside", deadly=("stray_far",))


@pytest.mark.parametrize("name", RECORDED.survivable)
def test_as_recorded(name, capfd):
    with capfd.disabled():
        assert table.try_out(name, "cpu") == RECORDED.expected(name)


def test_what_is_read_back():
    x = table.numbers(8192, "cpu")
    for found in section.reversed_by(section.reverse_kernel, "cpu"):
        assert torch.equal(found, 2 * x.flip(0))


def test_a_crash_costs_no_other(device):
    names = ["read_back_barrier", "stray_far", "masked"]
    found = table.run(section.__file__, names)
    assert list(found) == names and found["read_back_barrier"] == "right" and found["masked"].startswith("got ")
    assert found["stray_far"] == "crash: SIGSEGV" if device == "cpu" else found["stray_far"].startswith("error")


@pytest.mark.gpu
def test_programs_that_run_at_the_same_time_lose_each_other_s_additions():
    assert table.run(section.__file__, ["race"])["race"].startswith("differs")
