# SPDX-License-Identifier: Apache-2.0
"""``<attention-traffic>``: its bars are the lesson's formula, and everybody can watch it."""

import math

import pytest

from figures.attention_traffic import REAL, attention_traffic, traffic
from recorder import recording
from recorder.project import find
from tests.accessibility import assert_accessible

SHOWN = "attention_traffic", attention_traffic(recording.load(find("fusion/attention_tiles"), "cpu"))


def to(page, moment):
    page.locator("#traffic").evaluate("(it, moment) => { it.form.elements.moment.value = moment; it.update() }", moment)


def test_the_bars_are_the_formula(page):
    n, d, tile = REAL
    bars = page.locator("#traffic .traffic__bar em")
    ours, torch = traffic()
    torch = sum(torch)
    assert bars.all_inner_texts() == [f"{torch:.0f} of {torch:.0f}", f"{ours:.0f} of {ours:.0f}"]
    to(page, moment=11)
    assert bars.all_inner_texts() == [f"303 of {torch:.0f}", f"{ours * 11 / 16:.0f} of {ours:.0f}"]
    assert f"{n * n / 1e6:.0f} million" in page.locator("#traffic .traffic__title").first.inner_text()
    assert math.isclose(torch, (6 * n * n + 4 * n * d) / 1e6)
    assert math.isclose(ours, (2 * n * d + n + 2 * n * d * n // tile) / 1e6)


def test_both_bars_have_one_scale(page):
    torch, ours = page.locator("#traffic .traffic__bar i").evaluate_all("all => all.map(it => it.offsetWidth)")
    assert math.isclose(ours / torch, traffic()[0] / sum(traffic()[1]), abs_tol=0.01)


def test_torch_goes_through_all_scores_four_times_and_says_which_operation_does(page):
    """A column of the square is as dark as the operations that it has been through."""
    dark = lambda: page.locator("#traffic .traffic__twin i").evaluate_all(
        "all => all.slice(0, 8).map(it => it.className)"
    )
    for moment, left, right, said in (
        (1, "one", "", "q @ k"),
        (6, "two", "one", "The scale"),
        (16, "four", "four", "The scores"),
    ):
        to(page, moment=moment)
        assert (dark()[0], dark()[-1]) == (left, right)
        assert page.locator("#traffic output").inner_text().startswith(said)


def test_without_a_script_it_stands_as_it_does_with_one(open_page):
    bare = open_page(java_script_enabled=False)
    drawn = lambda page: page.locator("#traffic i").evaluate_all("all => all.map(it => [it.className, it.offsetWidth])")
    assert drawn(bare) == drawn(open_page())
    assert not bare.locator("#traffic :is(button, output, input):visible").count()


def test_steps_from_operation_to_operation_by_keyboard(page):
    said = page.locator("#traffic .time-bar__text")
    page.locator("#traffic").get_by_role("button", name="Back").focus()
    for words in ("softmax", "scale", "q @ kᵀ", "the beginning"):
        page.keyboard.press("Enter")
        assert said.inner_text() == words


@pytest.mark.parametrize("width", [360, 1280])
def test_fits_and_is_accessible(open_page, width):
    page = open_page(viewport={"width": width, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert_accessible(page)
