# SPDX-License-Identifier: Apache-2.0
"""A magnified patch has the colors and the numbers that were printed."""

import re

import pytest
from msgspec.structs import replace

from figures.pixels import pixels
from recorder import printed
from recorder.project import RecorderError
from tests.toy import made

OUTPUT = "sum: 1,024\npatch in:  35,22,32 255,255,0\npatch in:  1,2,3 4,5,6\npatch out: 27 240\ntext: 1 two\nempty: \n"
RECORDED = replace(made("cpu"), output=OUTPUT)


def test_rows_after_a_label():
    assert printed.pixels(OUTPUT, "patch in") == [[[35, 22, 32], [255, 255, 0]], [[1, 2, 3], [4, 5, 6]]]
    assert printed.pixels(OUTPUT, "patch out") == [[[27], [240]]]


@pytest.mark.parametrize("label", ["patch", "text", "empty", "sum"])
def test_no_pixels(label):
    with pytest.raises(RecorderError, match=f"no pixels after '{label}'.*patch in"):
        printed.pixels(OUTPUT, label)


def test_a_square_for_each_pixel():
    color = pixels(RECORDED, label="patch in")
    assert "2 × 2 pixels" in color and len(re.findall("<tr>", color)) == 2
    assert '<td style="background:rgb(35,22,32);color:#fff">35<br>22<br>32</td>' in color
    assert "rgb(255,255,0);color:#000" in color
    gray = pixels(RECORDED, label="patch out", caption="<gray>", mark=[0, 1])
    assert "<caption>&lt;gray&gt;</caption>" in gray
    assert gray.count('class="marked"') == 1 and '<td class="marked" style="background:rgb(240,240,240)' in gray
    assert '<td style="background:rgb(27,27,27);color:#fff">27</td>' in gray and "rgb(240,240,240);color:#000" in gray
