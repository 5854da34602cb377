# SPDX-License-Identifier: Apache-2.0
"""<token-race>: the recorded races, counted in the browser as in Python."""

import pytest
from bs4 import BeautifulSoup
from msgspec.structs import replace

from figures.race import about, race
from recorder import recording
from recorder.project import RecorderError, Snippet
from tests.figures.explorer_support import call, page_with


@pytest.fixture(scope="module")
def recorded() -> recording.Recording:
    return recording.load(Snippet("models/sampling_plain"), "cpu")


def test_it_rests_on_its_last_race(recorded):
    page = BeautifulSoup(race(recorded, section="races"), "html.parser")
    drawn = [int(each["data-first"]) for each in page.find_all("template")]
    rows = page.find_all("li")
    assert len(drawn) == 48 and [row.select_one(".race__tally span").text for row in rows] == [
        str(drawn.count(token)) for token in range(5)
    ]
    assert [i for i, row in enumerate(rows) if "race__first" in row.get("class", [])] == [drawn[-1]]
    chances = [float(row["data-chance"]) for row in rows]
    assert page.select_one("[role=img]")["aria-label"] == about(drawn, chances)


def test_refuses_what_was_not_printed_so(recorded):
    lines = recorded.output.replace("first: 1", "first: 4")
    with pytest.raises(RecorderError, match=r"race 1: token 4 did not arrive first of 5"):
        race(replace(recorded, output=lines), section="races")
    with pytest.raises(RecorderError, match=r"no section 'race'; the nearest"):
        race(recorded, section="race")
    with pytest.raises(RecorderError, match=r"has no line 'chances'"):
        race(replace(recorded, output=recorded.output.replace("chances", "chance")), section="races")


def test_the_browser_counts_as_python_does(recorded, open_site, tmp_path):
    html = race(recorded, section="races")
    page = BeautifulSoup(html, "html.parser")
    drawn = [int(each["data-first"]) for each in page.find_all("template")]
    chances = [float(row["data-chance"]) for row in page.find_all("li")]
    with page_with(tmp_path, "race", html) as url:
        shown = open_site(url, reduced_motion="reduce")
        asked = [[drawn[:runs], chances] for runs in (1, 2, 48)]
        assert call(shown, "race", "it.about(...a)", asked) == [about(*each) for each in asked]
        shown.locator("[name=run]").press("Home")
        assert shown.locator(".race__tally span").all_inner_texts() == [str(int(i == drawn[0])) for i in range(5)]
        shown.get_by_label("Step").click()
        assert shown.locator("[role=img]").get_attribute("aria-label") == about(drawn[:2], chances)
        waits = page.find_all("template")[1]["data-waits"].split()
        assert shown.locator(".race__lane span").all_inner_texts() == waits
