# SPDX-License-Identifier: Apache-2.0
"""<sum-order>: parts added in other orders give the float32 that Python and the browser agree on."""

import pytest
from bs4 import BeautifulSoup
from msgspec.structs import replace

from figures.sum_order import ORDERS, about, digits, float32, orders, running, sum_order
from recorder import recording
from recorder.project import RecorderError, Snippet
from tests.figures.explorer_support import call, page_with


@pytest.fixture(scope="module")
def recorded() -> recording.Recording:
    return recording.load(Snippet("pytorch/determinism"), "h200")


def parts_of(page) -> list[float]:
    return [float32(float(part)) for part in page.find("sum-order")["data-parts"].split()]


def test_it_rests_on_its_last_run(recorded):
    page = BeautifulSoup(sum_order(recorded, section="Six parts"), "html.parser")
    parts = parts_of(page)
    sums = [digits(running(parts, order)[-1]) for order in orders(len(parts))]
    assert len(sums) == ORDERS and len({*sums}) > 1
    assert page.select_one("[role=img]")["aria-label"] == about(sums)
    assert [cell.text for cell in page.select(".order__seen li")] == sorted({*sums}, key=float)
    assert page.select(".order__totals li")[-1].text == page.select_one(".order__now").text == sums[-1]


def test_refuses_what_was_not_printed_so(recorded):
    other = replace(recorded, output=recorded.output.replace("backwards: -", "backwards: -1"))
    with pytest.raises(RecorderError, match=r"backwards, the parts add up to .*, not -1"):
        sum_order(other, section="Six parts")
    with pytest.raises(RecorderError, match=r"no section 'Six part'; the nearest"):
        sum_order(recorded, section="Six part")
    with pytest.raises(RecorderError, match=r"has no line 'parts'"):
        sum_order(recorded, section="Different results in 100 runs")


def test_the_browser_adds_as_python_does(recorded, open_site, tmp_path):
    html = sum_order(recorded, section="Six parts")
    parts = parts_of(BeautifulSoup(html, "html.parser"))
    with page_with(tmp_path, "sum_order", html) as url:
        page = open_site(url, reduced_motion="reduce")
        asked = [[parts, order] for order in orders(len(parts))]
        wanted = [[digits(total) for total in running(parts, order)] for order in orders(len(parts))]
        assert call(page, "sum_order", "it.running(...a).map(it.digits)", asked) == wanted
        page.locator("[name=run]").press("Home")
        assert page.locator(".order__seen li").all_inner_texts() == [wanted[0][-1]]
        page.get_by_label("Step").click()
        assert page.locator(".order__totals li").all_inner_texts() == wanted[1]
        assert page.locator("[role=img]").get_attribute("aria-label") == about([each[-1] for each in wanted[:2]])
