# SPDX-License-Identifier: Apache-2.0
"""<dropped-twice>: random numbers as printed, by a Philox that is Triton's, and a backward by another seed."""

import pytest
from bs4 import BeautifulSoup
from msgspec.structs import replace

from figures.dropped import dropped, philox, uniform
from recorder import recording
from recorder.project import RecorderError, Snippet
from tests.figures.explorer_support import page_with

OPTIONS = {"section": "six numbers", "seed": 27}


@pytest.fixture(scope="module")
def recorded() -> recording.Recording:
    return recording.load(Snippet("fusion/dropout_plain"), "cpu")


def test_philox_gives_the_numbers_that_its_authors_publish():
    """In Random123's ``tests/kat_vectors``."""
    assert [f"{each:08x}" for each in philox(0, 0)] == ["6627e8d5", "e169c58d", "bc57ac4c", "9b00dbd8"]
    assert all(0 <= u < 1 for u in uniform(28, 1000))


def test_it_rests_on_what_was_recorded(recorded):
    page = BeautifulSoup(dropped(recorded, **OPTIONS), "html.parser")
    rows = {row["data-of"]: row.select("i") for row in page.select(".dropped__row")}
    assert [cell.text for cell in rows["grad_x"]] == ["2", "2", "0", "0", "0", "2"]
    off = {name: [bool(cell.get("class")) for cell in cells] for name, cells in rows.items()}
    assert off["u"] == off["out"] == off["again"] == off["grad_x"] == [False, False, True, True, True, False]


def test_refuses_another_seed_and_another_run(recorded):
    with pytest.raises(RecorderError, match="by the seed 26 the random numbers are not those"):
        dropped(recorded, **OPTIONS | {"seed": 26})
    with pytest.raises(RecorderError, match=r"with p = 0[.]1 other elements"):
        dropped(recorded, **OPTIONS, p=0.1)
    with pytest.raises(RecorderError, match="has no line 'grad_x'"):
        dropped(replace(recorded, output=recorded.output.replace("grad_x:", "grad:")), **OPTIONS)


def test_a_backward_by_another_seed_drops_other_elements(recorded, open_site, tmp_path):
    with page_with(tmp_path, "dropped", dropped(recorded, **OPTIONS)) as url:
        page = open_site(url, reduced_motion="reduce")
        assert page.locator(".dropped__row .dropped--wrong").count() == 0
        page.get_by_label("28", exact=True).check()
        keeps = [u >= 0.5 for u in uniform(28, 6)]
        wrong = [a != b for a, b in zip(keeps, [True, True, False, False, False, True], strict=True)]
        found = page.locator("[data-of=grad_x] i")
        assert found.all_inner_texts() == ["2" if kept else "0" for kept in keeps]
        drawn = page.locator("[data-of=again] i").all_inner_texts()
        assert [float(each) for each in drawn] == pytest.approx(uniform(28, 6), abs=0.006)
        marked = found.evaluate_all("all => all.map(each => each.classList.contains('dropped--wrong'))")
        assert marked == wrong and any(wrong)
        said = page.locator(".explorer__now")
        assert said.inner_text().startswith(f"With seed 28, {sum(wrong)} gradient")
        page.get_by_label("Back", exact=True).click()
        styles = found.evaluate_all("all => all.map(each => getComputedStyle(each))")
        assert all(style["color"] == "rgba(0, 0, 0, 0)" and style["boxShadow"] != "none" for style in styles), (
            "outlines"
        )
        assert said.inner_text().startswith("Backward")
