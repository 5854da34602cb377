# SPDX-License-Identifier: Apache-2.0
"""<packed-words>: two words as they were printed, taken apart step by step, as the snippet took them apart."""

import pytest
from msgspec.structs import replace

from figures.packed_words import packed_words
from recorder import recording
from recorder.project import RecorderError, Snippet
from tests.figures.explorer_support import call, page_with


@pytest.fixture(scope="module")
def recorded() -> recording.Recording:
    return recording.load(Snippet("models/int4"), "cpu")


def test_refuses_what_was_not_printed_so(recorded):
    with pytest.raises(RecorderError, match="no section 'Two word'"):
        packed_words(recorded, section="Two word")
    with pytest.raises(RecorderError, match="must have two words, a zero and four parts"):
        packed_words(replace(recorded, output=recorded.output.replace("zero 8", "one")), section="Two words")
    with pytest.raises(RecorderError, match=r"part 1 of e1857c39 is .* not e1857c39, 00800030, -5 1"):
        packed_words(replace(recorded, output=recorded.output.replace("-5 0", "-5 1")), section="Two words")


def test_a_step_at_a_time(recorded, open_site, tmp_path):
    with page_with(tmp_path, "packed_words", packed_words(recorded, section="Two words")) as url:
        page = open_site(url, reduced_motion="reduce")
        row = lambda name: page.locator(f".packed__{name} > span:not(.packed__what)").all_inner_texts()
        later = lambda: page.locator(".packed--later").count()
        taken = lambda: [text.split()[1] for text in page.locator(".packed__register .packed__taken").all_inner_texts()]
        whats = lambda: page.locator(".packed__what").all_inner_texts()
        shown = lambda: (row("shift"), row("mask"), row("read"), row("numbers"), taken(), whats())
        still = shown()
        assert row("numbers") == ["6 / 64", "−1 / 64"] and row("read") == ["14 × 16 × 2⁻¹³³", "7 × 16 × 2⁻¹³³"]
        assert later() == 0
        page.locator("[name=step]").press("Home")
        assert later() == 4 and taken() == []
        for part, numbers in enumerate((["−3", "1"], ["0", "−5"], ["−7", "4"], ["6", "−1"])):
            for left in (3, 1, 0):
                page.get_by_label("Step", exact=True).click()
                assert later() == left
            assert row("numbers") == [f"{number} / 64" for number in numbers]
            assert taken() == [["5", "9"], ["8", "3"], ["1", "12"], ["14", "7"]][part]
        assert shown() == still, "as without a script"
        assert page.locator(".time-bar__text").inner_text() == "part 3, multiply"
        steps = call(page, "packed_words", "Object.values(it.reached(a))", [0, 1, 3, 4, 12])
        assert steps == [[0, 0], [0, 1], [0, 3], [1, 1], [3, 3]]
