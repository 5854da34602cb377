# SPDX-License-Identifier: Apache-2.0
"""What compiled functions call: a block for each kernel, memory around each, ours in another color, all in words."""

import pytest
from bs4 import BeautifulSoup
from msgspec.structs import replace

from figures import calls
from recorder.project import RecorderError
from tests.toy import made

PRINTED = """\
## ours
ours, calls: triton_poi_fused_mul_0, norm_kernel_0, triton_per_fused_add_1
ours, number of calls: 3
box, calls: triton_poi_fused_mul_0, torch.ops.toy.<b>, triton_poi_fused_add_1
half, calls: triton_red_fused_mul_0, norm_kernel_0
whole, calls: triton_per_fused_norm_add_mul_0
"""
STEPS = ["2 · x", "norm", "+ 1"]


def drawn(printed=PRINTED, **options) -> BeautifulSoup:
    return BeautifulSoup(calls.calls(replace(made("h200"), output=printed), steps=STEPS, **options), "html.parser")


def ways(**options) -> dict:
    found = {way.strong.text: way for way in drawn(**options).select(".calls__way")}
    return {name: way for names, way in found.items() for name in names.split(", ")}


def texts(way) -> list[list[str]]:
    return [[step.text for step in call.select("b")] for call in way.select(".calls__call")]


def test_a_block_is_a_kernel_and_holds_the_steps_that_are_fused_into_it():
    shown = ways()
    assert [*shown] == ["whole", "half", "ours", "box"], "those of fewest calls first"
    assert texts(shown["whole"]) == [STEPS] and texts(shown["ours"]) == [["2 · x"], ["norm"], ["+ 1"]]
    assert shown["whole"].em.text == "1 kernel" and shown["ours"].em.text == "3 kernels"


def test_where_steps_cannot_be_told_apart_the_blocks_have_their_names():
    assert texts(ways()["half"]) == [["triton_red_fused_mul_0"], ["norm_kernel_0"]]


def test_ways_that_look_the_same_are_drawn_once():
    assert [way.strong.text for way in drawn().select(".calls__way")] == ["whole", "half", "ours, box"]


def test_memory_stands_before_between_and_behind_kernels():
    for way in ways().values():
        row = [part.name for part in way.select(".calls__row > *")]
        assert row[::2] == ["u"] * (len(row[1::2]) + 1) and set(row[1::2]) == {"span"}


def test_what_inductor_did_not_write_is_ours():
    ours = {name: ["calls__call--ours" in call["class"] for call in way.select(".calls__call")]
            for name, way in ways().items()}  # fmt: skip
    assert ours == {
        "whole": [False], "half": [False, True], "ours": [False, True, False], "box": [False, True, False],
    }  # fmt: skip


def test_says_in_words_what_it_shows():
    page = drawn(names={"whole": "all in one"})
    label = page.select_one(".calls")["aria-label"]
    assert "all in one: 1 kernel, triton_per_fused_norm_add_mul_0; half: 2 kernels" in label
    rows = [[cell.text for cell in row.select("td")] for row in page.select("tbody tr")]
    assert rows[0] == ["all in one", "1", "triton_per_fused_norm_add_mul_0"]
    assert "torch.ops.toy.<b>" in rows[3][2], "a name is text"


def test_refuses_what_is_not_there():
    with pytest.raises(RecorderError, match="no line matches ', calls: '"):
        drawn("nothing\n")
    with pytest.raises(RecorderError, match=r"no calls of 'hole'.*whole"):
        drawn(names={"hole": "all in one"})
