# SPDX-License-Identifier: Apache-2.0
"""<one-pass>: bytes as the kernels and the recording count them, times as recorded, and the race of the three ways."""

import re

import pytest
from bs4 import BeautifulSoup

from figures.passes import STEPS, passes
from recorder import recording
from recorder.project import RecorderError, Snippet
from snippets.fusion.peers_measured import KERNELS
from tests.figures.explorer_support import page_with

CASES = {"swiglu": "SwiGLU, 8192 × 4096", "rope": "RoPE, 2 × 4096 × 24 × 8 × 128"}
SHAPES = {"SwiGLU": (8192, 4096), "RoPE": (2, 4096, 24, 8, 128)}


@pytest.fixture(scope="module")
def recorded() -> recording.Recording:
    return recording.load(Snippet("fusion/peers_measured"), "h200")


@pytest.fixture(scope="module")
def drawn(recorded) -> str:
    return passes(recorded, **CASES, rows=8192, columns=4096)


def test_our_bytes_are_those_that_were_copied(drawn):
    for layer in BeautifulSoup(drawn, "html.parser").select("[data-layer]"):
        name = layer["data-layer"]
        *_, ours = layer.select(".ways__way")
        moved = KERNELS[name].moved(SHAPES[name], "forward")
        assert f"{moved / 1e6:,.0f} MB" in ours.text
        most = sum(elements for *_, elements in STEPS[name]["torch"][1]) * 2 * 8192 * 4096
        drawn_width = sum(float(re.search(r"[\d.]+", part["style"])[0]) for part in ours.select(".ways__bytes i"))
        assert drawn_width == pytest.approx(100 * moved / most, abs=0.02)


def test_refuses_a_case_that_was_not_measured(recorded):
    with pytest.raises(RecorderError, match="has no case 'SwiGLU, 1 × 2'"):
        passes(recorded, **CASES | {"swiglu": "SwiGLU, 1 × 2"}, rows=8192, columns=4096)


def test_the_ways_run_at_once_and_ours_is_done_first(drawn, recorded, open_site, tmp_path):
    times = recorded.benchmark("forward").medians()[CASES["rope"]]
    with page_with(tmp_path, "passes", drawn) as url:
        page = open_site(url, reduced_motion="reduce")
        page.get_by_label("RoPE", exact=True).check()
        picture = page.locator("[data-layer=RoPE]")
        assert picture.is_visible() and not page.locator("[data-layer=SwiGLU]").is_visible()
        bars = picture.locator(".ways__time i")
        widths = [bars.nth(i).bounding_box()["width"] for i in range(3)]
        assert widths[2] / widths[0] == pytest.approx(times.ours / times.torch, abs=0.005)
        full = bars.first.bounding_box()["width"]
        page.locator("[name=at]").fill("20")
        assert bars.first.bounding_box()["width"] == pytest.approx(0.2 * full, rel=0.05)
        still = picture.locator(".passes--runs")
        assert still.count() == 1
        assert page.locator(".time-bar__text").inner_text() == f"{0.2e3 * times.torch:.0f} µs"
