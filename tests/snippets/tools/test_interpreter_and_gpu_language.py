# SPDX-License-Identifier: Apache-2.0
"""Shapes, loops, reductions, atomics, descriptors: the verdicts are those that were recorded."""

import pytest
from verdicts import Recorded

from snippets.tools import interpreter_and_gpu as table
from snippets.tools import interpreter_and_gpu_language as section

RECORDED = Recorded("language")


@pytest.mark.parametrize("name", RECORDED.survivable)
def test_as_recorded(name, capfd):
    with capfd.disabled():
        assert table.try_out(name, "cpu") == RECORDED.expected(name)


def test_philox():
    """The known answers that its authors publish with it, as far as the first word goes."""
    assert section.philox(0, 0) == 0x6627E8D5


@pytest.mark.gpu
def test_a_gpu_disagrees_with_the_interpreter_only_where_that_was_recorded():
    RECORDED.check_gpu(section.__file__)
