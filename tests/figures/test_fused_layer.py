# SPDX-License-Identifier: Apache-2.0
"""<fused-layer>: bytes to scale, times as recorded, and what the bar of time shows of them."""

import re

import pytest
from bs4 import BeautifulSoup
from msgspec.structs import replace

from figures.fused_layer import fused_layer
from recorder import recording
from recorder.project import RecorderError, Snippet
from snippets.matmul.fused import bytes_of
from tests.figures.explorer_support import page_with

SIDE = 8192


@pytest.fixture(scope="module")
def layer() -> str:
    return fused_layer(recording.load(Snippet("matmul/fused_measured"), "h200"), side=SIDE)


def widths(parts) -> list[tuple[str, float]]:
    return [(part["class"][0], float(re.search(r"width: ([\d.]+)%", part["style"])[1])) for part in parts]


def test_bytes_are_to_scale_and_as_counted(layer):
    """What is loaded is outlined and what is stored is filled; the layer that moves most fills the width."""
    page = BeautifulSoup(layer, "html.parser")
    most = bytes_of(SIDE, SIDE, 8192, 2)["two kernels"]
    for way, name in zip(page.select(".ways__bytes"), ("two kernels", "one kernel"), strict=True):
        parts = widths(way.select("i"))
        assert sum(width for _, width in parts) == pytest.approx(
            100 * bytes_of(SIDE, SIDE, 64, 2)[name] / most, abs=0.02
        )
        stored = [kind for kind, _ in parts if kind == "ways--stored"]
        assert parts[-1][0] == "ways--stored" and len(stored) == len(parts) / 2
    rows = [[cell.text for cell in row.select("td, th")] for row in page.select("tbody tr")]
    for K, two, one, *_ in rows:
        counted = bytes_of(SIDE, SIDE, int(K.replace(",", "")), 2)
        assert [two, one] == [f"{counted[name] / 1e6:,.0f}" for name in ("two kernels", "one kernel")]


def test_refuses_bytes_that_the_recording_counts_otherwise():
    recorded = recording.load(Snippet("matmul/fused_measured"), "h200")
    with pytest.raises(RecorderError, match="counts other bytes than 'share' has"):
        fused_layer(recorded, side=SIDE // 2)
    with pytest.raises(RecorderError, match="no benchmark 'by_k'"):
        fused_layer(replace(recorded, benchmarks=[recorded.benchmark("share")]), side=SIDE)


def test_the_bar_leads_through_the_lengths_of_the_sums(layer, open_site, tmp_path):
    with page_with(tmp_path, "fused_layer", layer) as url:
        page = open_site(url, reduced_motion="reduce")
        picture, time = page.locator("fused-layer [role=img]"), page.locator(".ways__time [data-of=share]")
        assert picture.get_attribute("aria-label").startswith("K = 64:")
        short = time.bounding_box()["width"]
        page.get_by_label("Step").click()
        assert page.locator(".time-bar__text").inner_text() == "K = 128", "small sums are on the left"
        page.locator("fused-layer [name=k]").press("End")
        assert picture.get_attribute("aria-label").startswith("K = 8,192: two kernels move 671 MB")
        assert time.bounding_box()["width"] > 2 * short
        widths = page.locator(".ways__bytes").evaluate_all(
            "all => all.map(way => [...way.children].reduce("
            "(sum, part) => sum + part.offsetWidth, 0) / way.clientWidth)"
        )
        assert widths == pytest.approx([1, 0.6], abs=0.01)


def test_says_what_the_bar_changes_where_there_is_one(layer, open_site, tmp_path):
    with page_with(tmp_path, "fused_layer", layer) as url:
        says = open_site(url).locator("fused-layer .explorer__now").inner_text()
        assert says == "Drag to change K, the number of terms in each sum: 64 on the left, 8,192 on the right."
        assert not open_site(url, java_script_enabled=False).locator("fused-layer .explorer__now").is_visible()


@pytest.mark.parametrize("width", [1280, 390])
def test_no_part_is_without_its_name(layer, open_site, tmp_path, width):
    """What is too narrow for it has it above, and nothing moves up or down while K changes."""
    with page_with(tmp_path, "fused_layer", layer) as url:
        page = open_site(url, viewport={"width": width, "height": 800}, reduced_motion="reduce")
        bar, tops = page.locator("fused-layer [name=k]"), set()
        for K in range(8):
            bar.evaluate("(it, K) => { it.value = K; it.oninput(new Event('input')) }", K)
            for part in page.locator(".ways__bytes i").all():
                name, box = part.locator("span").bounding_box(), part.bounding_box()
                outside = name["y"] + name["height"] <= box["y"] - 6
                assert outside or (box["x"] <= name["x"] and name["width"] <= box["width"])
            tops.add(round(bar.bounding_box()["y"]))
        assert len(tops) == 1


def test_on_a_phone_the_bytes_stand_beside_the_title(layer, open_site, tmp_path):
    with page_with(tmp_path, "fused_layer", layer) as url:
        page = open_site(url, viewport={"width": 390, "height": 800}, reduced_motion="reduce")
        titles, amounts = (
            [each.bounding_box()["y"] for each in page.locator(f".ways p {part}").all()] for part in ("strong", "em")
        )
        assert titles == pytest.approx(amounts, abs=8) and len(titles) == 2
