# SPDX-License-Identifier: Apache-2.0
"""A question before its answer, in Chromium: asked by keyboard, judged, remembered, and asked again."""

import gzip
from pathlib import Path

import pytest

from tests.chromium import taken_over

PAGE = "gpu/limits/"
ASSETS = Path(__file__).resolve().parents[2] / "theme" / "assets"
CHOICES = """() => {
    document.querySelector(".predict").outerHTML = `<div class="predict" data-right="1"><div class="predict__ask">
        <p>How many?</p><ol><li>three</li><li>four</li></ol></div><details class="predict__then">
        <summary>Show me</summary><p class="predict__is">four.</p><p>Three leave one over.</p></details></div>`;
    return import(new URL("../../assets/predict.js?again", location));
}"""


def test_it_is_light():
    script, style = (gzip.compress((ASSETS / name).read_bytes()) for name in ("predict.js", "predict.css"))
    assert len(script) < 2_000 and len(style) < 1_100


@pytest.fixture
def box(open_site, site):
    page = open_site(site.url + PAGE)
    taken_over(page)
    box = page.locator(".predict.predict--ready").first
    box.wait_for()
    return box


def test_a_number_is_typed_and_then_the_answer_is_told_and_remembered(box):
    field, then = box.get_by_role("textbox", name="Your prediction"), box.locator("details")
    assert then.get_attribute("open") is None
    field.fill("no number")
    field.press("Enter")
    assert then.get_attribute("open") is None, "that is no answer"
    field.fill("2.5")
    field.press("Enter")
    is_ = then.locator(".predict__is .claim").text_content()
    assert box.get_by_role("status").text_content().startswith(f"You said 2.5; the answer is {is_}. Your guess was ")
    assert then.get_attribute("open") is not None
    box.page.reload()
    assert box.get_by_role("status").filter(has_text="You said 2.5").count() == 1
    box.get_by_role("button", name="Ask me again").click()
    assert then.get_attribute("open") is None and field.input_value() == "" and field.is_enabled()
    field.fill(is_)
    field.press("Enter")
    assert "Exactly." in box.get_by_role("status").text_content()


def test_the_impatient_are_shown(box):
    box.get_by_text("Show me").click()
    assert box.locator(".predict__is").is_visible() and box.get_by_role("textbox").is_disabled()
    assert box.get_by_role("status").text_content() == ""


def test_a_choice_is_picked(box):
    box.page.evaluate(CHOICES)
    box.get_by_role("button", name="three").press("Enter")
    assert box.get_by_role("status").text_content() == "You said “three”; the answer is “four”."
    assert box.get_by_text("Three leave one over.").is_visible()
    box.get_by_role("button", name="Ask me again").press("Enter")
    box.get_by_role("button", name="four").press("Space")
    assert box.get_by_role("status").text_content() == "Yes, as you said."
