# SPDX-License-Identifier: Apache-2.0
"""What the compiler must refuse: the verdicts are those that were recorded, and compiling takes no GPU."""

import pytest
from verdicts import Recorded

from snippets.tools import interpreter_and_gpu as table
from snippets.tools import interpreter_and_gpu_refused as section

RECORDED = Recorded("refused")


@pytest.mark.parametrize("name", RECORDED.survivable)
def test_as_recorded(name, capfd):
    with capfd.disabled():
        assert table.try_out(name, "cpu") == RECORDED.expected(name)


def test_a_feature_is_entered(monkeypatch):
    recorded = RECORDED.expected("three")
    monkeypatch.setattr(table, "FEATURES", {})
    section.refused("a title", section.three_kernel_bug)
    assert table.FEATURES["three"].title == "a title" and table.try_out("three", "cpu") == recorded


def test_compiling_takes_no_gpu():
    found = table.run(section.__file__, ["break", "three", "static_assert"], compiling=True)
    assert found["three"] == "refused: ValueError: arange's range must be a power of 2"
    assert found["break"].startswith("refused: ") and found["static_assert"].endswith("N is too small")


@pytest.mark.gpu
def test_a_gpu_disagrees_with_the_interpreter_only_where_that_was_recorded():
    RECORDED.check_gpu(section.__file__)
