# SPDX-License-Identifier: Apache-2.0
"""A magnified patch has the colors and the numbers that were printed."""

import re

import pytest

from recorder import pixels
from recorder.project import RecorderError

OUTPUT = "sum: 1,024\npatch in:  35,22,32 255,255,0\npatch in:  1,2,3 4,5,6\npatch out: 27 240\ntext: 1 two\nempty: \n"


def test_rows_after_a_label():
    assert pixels.parse(OUTPUT, "patch in") == [[[35, 22, 32], [255, 255, 0]], [[1, 2, 3], [4, 5, 6]]]
    assert pixels.parse(OUTPUT, "patch out") == [[[27], [240]]]


@pytest.mark.parametrize("label", ["patch", "text", "empty", "sum"])
def test_no_pixels(label):
    with pytest.raises(RecorderError, match=f"no pixels after '{label}'.*patch in"):
        pixels.parse(OUTPUT, label)


def test_a_square_for_each_pixel():
    color = pixels.pixels(None, {"output": OUTPUT}, label="patch in")
    assert "2 × 2 pixels" in color and len(re.findall("<tr>", color)) == 2
    assert '<td style="background:rgb(35,22,32);color:#fff">35<br>22<br>32</td>' in color
    assert "rgb(255,255,0);color:#000" in color
    gray = pixels.pixels(None, {"output": OUTPUT}, label="patch out", caption="<gray>", mark=[0, 1])
    assert "<caption>&lt;gray&gt;</caption>" in gray
    assert gray.count('class="marked"') == 1 and '<td class="marked" style="background:rgb(240,240,240)' in gray
    assert '<td style="background:rgb(27,27,27);color:#fff">27</td>' in gray and "rgb(240,240,240);color:#000" in gray
