# SPDX-License-Identifier: Apache-2.0
"""``<banks-explorer>``: elements lie where Triton puts them, wavefronts are the compiler's; everybody can use it."""

import ast
import itertools

import pytest

from figures.banks import KINDS, MOST, PADS, PHASES, READS, SIDE, VECS, Stored, banks, detail, outline, queues, summary
from recorder import recording
from recorder.project import find
from tests.accessibility import assert_accessible
from tests.figures.explorer_support import call, page_with

RECORDED = recording.load(find("below/shared_memory_compiled"), "cpu")
numbers = lambda options: [int(each) for each in options]
SWIZZLED = [
    Stored("swizzled", 1, *each) for each in itertools.product(numbers(VECS), numbers(PHASES), numbers(MOST))
]
ALL = [Stored(), *(Stored("padded", pad) for pad in numbers(PADS)), *SWIZZLED]
PLACE = 5, 3


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with page_with(tmp_path_factory.mktemp("banks"), "banks", banks(RECORDED)) as url:
        yield url


@pytest.fixture
def page(open_site, url):
    return open_site(url)


# What it computes


@pytest.mark.parametrize("stored", ALL, ids=str)
def test_elements_lie_where_triton_puts_them(stored):
    pytest.importorskip("triton.experimental.gluon.language")
    from snippets.below.shared_memory import padded, swizzled
    from snippets.below.shared_memory_compiled import places

    numbers = (stored.vec, stored.per_phase, stored.max_phase) if stored.kind == "swizzled" else (1, 1, 1)
    theirs = places(padded(stored.pad) if stored.kind == "padded" else swizzled(*numbers))
    assert theirs == {(m, n): stored.word(m, n) for m in range(SIDE) for n in range(SIDE)}
    assert max(theirs.values()) < 32 * stored.lines()


def test_wavefronts_are_those_that_the_compiler_said():
    lines = RECORDED.output.split("## swizzles")[1].splitlines()[1:]
    found = dict(map(ast.literal_eval, line.split(": ")) for line in lines if line)
    for stored in SWIZZLED:
        counts = [max(queues(stored, read, *PLACE)) for read in ("row", "column", "pieces")]
        theirs = found.pop((stored.vec, stored.per_phase, stored.max_phase))
        assert counts[: len(theirs)] == theirs and counts[len(theirs) :] in ([], [0])
    assert not found, "all that was recorded is shown"


def test_which_padding_breaks_16_bytes():
    assert {pad: not Stored("padded", pad).torn() for pad in (1, 2, 4, 8)} == {1: False, 2: False, 4: True, 8: True}
    assert summary(Stored("padded", 1), "pieces", *PLACE) == "Not at once: rows don’t begin at multiples of 16 bytes."
    assert summary(Stored("padded", 4), "pieces", *PLACE).startswith("1 wavefront: ")
    assert summary(Stored("swizzled", max_phase=8), "pieces", *PLACE).startswith("Not at once: 16 bytes of a row")


def test_says_where_an_element_is():
    assert detail(Stored(), *PLACE) == "Row 5, column 3: word 5 · 32 + 3 = 163, bank 3."
    assert detail(Stored("padded", 1), *PLACE) == "Row 5, column 3: word 5 · 33 + 3 = 168, bank 8."
    assert detail(Stored("swizzled"), *PLACE) == "Row 5, column 3: 3 xor 5 is 6. Word 5 · 32 + 6 = 166, bank 6."


def test_the_script_has_the_same_rules(page):
    asked = [
        {name: getattr(stored, name) for name in ("kind", "pad", "vec", "per_phase", "max_phase")}
        | {"read": read, "row": row, "column": column}
        for stored in ALL
        for read in READS
        for row, column in (PLACE, (31, 0))
    ]
    script = """[it.queues(a), it.summary(a), it.detail(a), it.line(a),
        it.outline([...Array(32).keys()].map(row => it.word(a, row, a.column)))]"""
    for case, found in zip(asked, call(page, "banks", script, asked), strict=True):
        stored = Stored(*(case[name] for name in ("kind", "pad", "vec", "per_phase", "max_phase")))
        place = case["row"], case["column"]
        column = outline([stored.word(row, case["column"]) for row in range(SIDE)])
        said = [queues(stored, case["read"], *place), summary(stored, case["read"], *place), detail(stored, *place)]
        assert found == [*said, str(stored), column]


# What it shows


def shown(page):
    paths = page.locator(".banks__words path").evaluate_all("all => all.map(path => path.getAttribute('d'))")
    bars = page.locator(".banks__queues i").evaluate_all("all => all.map(bar => bar.getAttribute('style'))")
    box = page.locator(".banks__words svg").get_attribute("viewBox")
    said = page.locator("output").all_text_contents()
    return paths, [style.strip(" ;") for style in bars], box, said, page.locator(".banks__line").inner_text()


def test_the_page_is_what_the_script_draws_at_first(open_site, url, page):
    still = open_site(url, java_script_enabled=False)
    assert shown(still) == shown(page) and page.evaluate("location.search") == ""
    assert "32 wavefronts: bank 3" in still.locator("output").first.inner_text()


def test_choices_change_the_picture_and_stay_in_the_address(page):
    assert KINDS.keys() == {"plain", "padded", "swizzled"}
    said = page.locator(".explorer__summary")
    page.get_by_role("radio", name="swizzled").check()
    assert said.inner_text().startswith("1 wavefront") and "kind=swizzled" in page.evaluate("location.search")
    page.get_by_role("group", name="max_phase").get_by_role("radio", name="8", exact=True).check()
    assert said.inner_text().startswith("4 wavefronts")
    assert page.locator(".banks__line").inner_text() == "gl.SwizzledSharedLayout(1, 1, 8, order=[1, 0])"
    page.get_by_role("radio", name="8 × 16 bytes").check()
    assert said.inner_text().startswith("Not at once")
    page.get_by_role("radio", name="padded").check()
    assert page.locator(".banks__words svg").get_attribute("viewBox") == "0 0 32 33"
    assert page.get_by_role("group", name="max_phase").count() == 0, "of another layout"


def test_a_click_or_a_key_chooses_an_element(page):
    words, where = page.locator(".banks__words"), page.locator(".explorer__detail")
    box = words.bounding_box()
    page.get_by_role("radio", name="swizzled").check()
    words.click(position={"x": 6.5 * box["width"] / 32, "y": 5.5 * box["height"] / 32})
    assert where.inner_text() == "Row 5, column 3: 3 xor 5 is 6. Word 5 · 32 + 6 = 166, bank 6."
    words.click(position={"x": 0.5 * box["width"] / 32, "y": 9.5 * box["height"] / 32})
    assert where.inner_text().startswith("Row 9, column 9: ")
    page.get_by_label("column", exact=True).press("ArrowRight")
    assert where.inner_text().startswith("Row 9, column 10: ")
    page.get_by_label("row", exact=True).press("End")
    assert where.inner_text().startswith("Row 31, column 10: ")


def test_a_click_on_padding_chooses_nothing(page):
    page.get_by_role("radio", name="padded").check()
    page.get_by_role("group", name="empty words after each row").get_by_role("radio", name="8", exact=True).check()
    before = page.locator(".explorer__detail").inner_text()
    box = page.locator(".banks__words").bounding_box()
    page.locator(".banks__words").click(position={"x": 2.5 * box["width"] / 32, "y": 1.5 * box["height"] / 40})
    assert page.locator(".explorer__detail").inner_text() == before


@pytest.mark.parametrize("color_scheme", ["default", "slate"])
def test_accessible(page, color_scheme):
    page.evaluate("scheme => document.body.dataset.mdColorScheme = scheme", color_scheme)
    assert_accessible(page)


def test_fits_on_a_phone(open_site, url):
    page = open_site(f"{url}?banks.kind=swizzled", viewport={"width": 360, "height": 740}, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.locator("#banks form").bounding_box()["height"] <= 760, "a screen, and what is set once"
