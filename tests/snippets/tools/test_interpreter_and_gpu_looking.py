# SPDX-License-Identifier: Apache-2.0
"""Prints, assertions and breakpoints: the verdicts are those that were recorded."""

import pytest
from verdicts import Recorded

from snippets.tools import interpreter_and_gpu as table
from snippets.tools import interpreter_and_gpu_looking as section

RECORDED = Recorded("looking")


@pytest.mark.parametrize("name", RECORDED.survivable)
def test_as_recorded(name, capfd):
    with capfd.disabled():
        assert table.try_out(name, "cpu") == RECORDED.expected(name)


def test_compiling_takes_no_gpu():
    assert table.run(section.__file__, ["static_print"], compiling=True) == {"static_print": "yes"}


@pytest.mark.gpu
def test_a_gpu_disagrees_with_the_interpreter_only_where_that_was_recorded():
    RECORDED.check_gpu(section.__file__)
