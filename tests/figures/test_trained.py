# SPDX-License-Identifier: Apache-2.0
"""What a layer learns and how long it takes: both halves of the picture are the recording's numbers."""

import re

import pytest
from bs4 import BeautifulSoup

from figures.chart.series import numbers
from figures.registry import figures
from figures.trained import trained
from recorder import recording
from recorder.project import RecorderError, find

RECORDED = recording.load(find("fusion/block_measured"), "h200")
OTHERS = {"torch": "torch", "compiled": "torch.compile"}


@pytest.fixture(scope="module")
def page() -> BeautifulSoup:
    return BeautifulSoup(trained(RECORDED, others=OTHERS, note="a note"), "html.parser")


def test_bars_begin_at_zero_and_have_one_scale(page):
    times = RECORDED.benchmark("times").medians()
    bars = page.select(".trained__times dd")
    assert len(bars) == 3 * len(times)
    shown = [(float(bar.em.text), float(re.search(r"width: ([\d.]+)%", bar.i["style"])[1])) for bar in bars]
    most = max(float(row[line]) for row in times.values() for line in ("ours", *OTHERS))
    expected = [float(row[line]) for row in times.values() for line in (*OTHERS, "ours")]
    for (said, width), time in zip(shown, expected, strict=True):
        assert said == round(time, 1) and width == pytest.approx(100 * time / most, abs=0.01)
    assert [bar.span.text for bar in bars[:3]] == ["torch", "torch.compile", "ours"]


def test_each_side_has_the_color_that_it_has_in_other_charts(page):
    bars = page.select(".trained__times dd")[:3]
    colors = [re.search(r"--series-(\d)", bar.i["style"])[1] for bar in bars]
    assert colors == [str(numbers([*OTHERS, "ours"])[key]) for key in (*OTHERS, "ours")]
    curves = {path["stroke"] for path in page.select(".chart-plot path[stroke]")}
    assert "var(--series-2)" not in curves, "torch.compile has no curve, and no curve looks like it"


def test_says_how_many_times_as_fast_ours_is(page):
    times = RECORDED.benchmark("times").medians().values()
    said = page.select_one(".trained__beside").text
    for line, name in OTHERS.items():
        ratios = [row[line] / row["ours"] for row in times]
        assert f"{min(ratios):.2f} to {max(ratios):.2f} times as fast as {name}" in said


def test_losses_stand_on_a_logarithmic_axis_that_says_so(page):
    assert "log scale" in page.select_one(".chart-plot__unit").text
    labels = [text.text for text in page.select(".chart-plot svg > text")]
    assert "0.0001" in labels and "1" in labels
    assert page.select_one(".trained__note").text == "a note"


def test_brings_the_style_of_the_chart_that_it_places():
    assert {*figures()["chart"].styles_for("")} < {*figures()["trained"].styles}
    with pytest.raises(RecorderError, match="no benchmark 'loss'"):
        trained(RECORDED, others=OTHERS, losses="loss")
