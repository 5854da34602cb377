# SPDX-License-Identifier: Apache-2.0
"""A fence ``predict`` asks first; what is wrong with it stops the page, with its line."""

import pytest
from bs4 import BeautifulSoup

from recorder.project import RecorderError
from render import fences, predict
from render.page import PageError
from tests.render.conftest import PAGE

CHOICES = """```predict
ask: How `many`?
choices:
  - three
  - [x] four,
    as it goes
then: Three leave {} over.
```"""
NUMBER = "```predict\nask: How many?\nanswer: {}\nunit: numbers\nwithin: 20%\nthen: So many.\n```"
CLAIM = '{{ cpu: launches["toy_kernel"][0].arguments.n; d; == 3 }}'


def markdown(text):
    (fence,) = fences.read_fences(text.splitlines())
    return predict.markdown_of(fence)


def test_a_question_with_choices_comes_before_its_answer(convert):
    page = BeautifulSoup(convert(f"# Toy\n\n{CHOICES.replace('{}', CLAIM)}"), "html.parser")
    box = page.select_one(".predict")
    assert [choice.get_text() for choice in box.select(".predict__ask > ol > li")] == ["three", "four, as it goes"]
    assert box["data-right"] == "1" and box.select_one(".predict__ask > p > code").get_text() == "many"
    then = box.select_one("details.predict__then:not([open])")
    assert then.summary.get_text() == "Show me"
    assert then.select_one(".predict__is strong").get_text() == "four, as it goes."
    assert "Three leave 3 over." in then.get_text() and then.select_one("data.claim")["value"] == "3"


def test_a_number_is_a_claim(convert):
    page = BeautifulSoup(convert(f"# Toy\n\n{NUMBER.replace('{}', CLAIM)}"), "html.parser")
    box = page.select_one(".predict")
    assert (box["data-within"], box["data-unit"]) == ("20%", "numbers") and not box.select("ol")
    assert box.select_one("details > .predict__is").get_text() == "3 numbers"
    assert box.select_one("details > .predict__is data.claim")


@pytest.mark.parametrize(
    "text, fault",
    [
        ("ask: Who?", "needs `then:`"),
        ("ask: Who?\nthen: He.", "either `choices:` or `answer:`"),
        ("- ask: Who?", "holds `key: text`"),
        ("ask: Who?\nchoices:\n  - a\n  - b\nthen: He.", "one of them"),
        ("ask: Who?\nanswer: 7\nthen: He.", "`answer:` is a claim"),
        ("ask: Who?\nanswer: {{ x }}\nwithin: a bit\nthen: He.", "`within:` is a share"),
        ("asks: Who?", "the nearest that exist: ask"),
    ],
)
def test_what_is_wrong_is_named(text, fault):
    with pytest.raises(RecorderError, match=fault):
        markdown(f"```predict\n{text}\n```")


def test_a_fault_has_its_line(convert):
    with pytest.raises(PageError, match=f"{PAGE}:3: a fence `predict` needs `then:`"):
        convert("# Toy\n\n```predict\nask: Who?\n```")


def test_a_typed_answer_is_refused(convert):
    with pytest.raises(PageError, match="typed by hand"):
        convert(f"# Toy\n\n{NUMBER.replace('{}', '{{ cpu: 3; d }}')}")


def test_its_claims_are_found_in_the_page():
    lines = f"Text\n\n{NUMBER.replace('{}', CLAIM)}".splitlines()
    assert fences.claims_in(lines) == [(4, CLAIM)]  # counted from 0
