# SPDX-License-Identifier: Apache-2.0
"""Wrap-around, rounding, NaN, casts, products and sums: the verdicts are those that were recorded."""

import pytest
import torch
from verdicts import Recorded

from snippets.tools import interpreter_and_gpu as table
from snippets.tools import interpreter_and_gpu_numbers as section

RECORDED = Recorded("numbers")


@pytest.mark.parametrize("name", RECORDED.survivable)
def test_as_recorded(name, capfd):
    with capfd.disabled():
        assert table.try_out(name, "cpu") == RECORDED.expected(name)


def test_features_are_entered(monkeypatch):
    monkeypatch.setattr(table, "FEATURES", {})
    section.binary("sum", "a title", [1.5], [2.0], "+", [3.5])
    section.cast("cast", "a title", [2.7], torch.float32, torch.int32, [2])
    section.dot("product", "a title", torch.float32)
    section.summed("all", "a title", [1, 2], torch.float32, [3])
    section.function("sqrt", "a title", 1, 4, 1e-6)
    assert {name: row.title for name, row in table.FEATURES.items()} == dict.fromkeys(
        ("sum", "cast", "dot_product", "all", "math_sqrt"), "a title"
    )
    assert {table.try_out(name, "cpu") for name in table.FEATURES} == {"right"}


@pytest.mark.parametrize("name, dtype", [("int32_product", torch.int64), ("dot_int8", torch.int32)])
def test_the_dtype_of_the_result_is_that_of_the_row(name, dtype):
    assert table.FEATURES[name].run("cpu")[0].dtype == dtype


@pytest.mark.gpu
def test_a_gpu_disagrees_with_the_interpreter_only_where_that_was_recorded():
    RECORDED.check_gpu(section.__file__)
