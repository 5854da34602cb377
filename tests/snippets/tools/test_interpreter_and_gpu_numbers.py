# SPDX-License-Identifier: Apache-2.0
"""Wrap-around, rounding, NaN, casts, products and sums: the verdicts are those that were recorded."""

import pytest
from verdicts import Recorded

from snippets.tools import interpreter_and_gpu as table
from snippets.tools import interpreter_and_gpu_numbers as section

RECORDED = Recorded("numbers")


@pytest.mark.parametrize("name", RECORDED.survivable)
def test_as_recorded(name, capfd):
    with capfd.disabled():
        assert table.try_out(name, "cpu") == RECORDED.expected(name)


@pytest.mark.gpu
def test_a_gpu_disagrees_with_the_interpreter_only_where_that_was_recorded():
    RECORDED.check_gpu(section.__file__)
