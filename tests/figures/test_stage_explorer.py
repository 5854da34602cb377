# SPDX-License-Identifier: Apache-2.0
"""``<stage-explorer>``, with the stages of vector add: it shows what was recorded, and everybody can use it."""

import pytest

from figures.stage_explorer import stages
from recorder import recording
from recorder.project import find
from recorder.source import lines_of
from tests.figures.explorer_support import page_with

SNIPPET = find("programs/vector_add")
LAUNCH = 1  # which launch the page shows
RECORDED = recording.load(SNIPPET, "cpu")
TARGETS = RECORDED.compiled_from(LAUNCH).targets
SOURCE = SNIPPET.path.read_text("utf-8").splitlines()
KERNEL = lines_of(SNIPPET.path, "add_kernel")
LINES = """lines => lines.map(line => {
    const number = line.querySelector(".code-line__number").textContent;
    return [number, line.textContent.slice(number.length).replace(/\\n$/, "")];
})"""


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with page_with(tmp_path_factory.mktemp("stages"), "stages", stages(RECORDED, launch=LAUNCH)) as url:
        yield url


@pytest.fixture
def open_page(open_site, url):
    return lambda query="", **options: open_site(url + query, **options)


@pytest.fixture
def page(open_page):
    return open_page()


def lines(page, pane="code") -> list[list[str]]:
    """The number in the margin, empty where there is none, and the text of each line of a pane."""
    return page.locator(f"stage-explorer .stages__{pane} .code-line").evaluate_all(LINES)


def text(page) -> str:
    return "\n".join(line for _, line in lines(page))


def choose(page, target, stage):
    page.get_by_label("Target").select_option(target)
    page.locator(f"stage-explorer input[value={stage}]").check()


def chosen(page) -> tuple[str, str]:
    return page.get_by_label("Target").input_value(), page.locator("stage-explorer input:checked").input_value()


def status(page) -> str:
    return page.locator("stage-explorer [role=status]").inner_text()


def tied(page, pane="code") -> list[int]:
    """Which lines of a pane are marked, counted from 0."""
    return page.locator(f"stage-explorer .stages__{pane} .code-line").evaluate_all(
        "lines => lines.flatMap((line, i) => line.classList.contains('is-tied') ? [i] : [])"
    )


# What it shows


def test_offers_what_was_recorded(page):
    options = page.locator("stage-explorer option").all_text_contents()
    assert sorted(options) == sorted(TARGETS)
    for target in options:
        page.get_by_label("Target").select_option(target)
        offered = page.locator("stage-explorer input:enabled").evaluate_all("all => all.map(input => input.value)")
        assert offered == list(TARGETS[target].stages)


def test_shows_exactly_what_was_recorded(page):
    seen = set()
    for target, code in TARGETS.items():
        for stage, recorded in code.stages.items():
            choose(page, target, stage)
            assert text(page) == code.text(stage), f"{stage} for {target}"
            assert [bool(number) for number, _ in lines(page)] == [line.place is not None for line in recorded]
            assert f"for {target}: {code.registers} registers" in status(page)
            seen.add(text(page))
    assert len(seen) > 10, "most stages differ from each other"


def test_numbers_name_the_lines_of_the_file(page):
    shown = lines(page, "source")
    assert [int(number) for number, _ in shown] == [n for n in KERNEL if "--8<--" not in SOURCE[n - 1]]
    assert all(line == SOURCE[int(number) - 1] for number, line in shown)
    in_source = {number for number, _ in shown} | {""}
    for target, code in TARGETS.items():
        for stage in code.stages:
            choose(page, target, stage)
            assert {number for number, _ in lines(page)} <= in_source
        choose(page, target, "ttir")
        for python, ir in (("program_id", "get_program_id"), ("load", "load"), ("store", "store")):
            named = {int(number) for number, line in lines(page) if f"tt.{ir} " in line}
            assert named == {number for number in KERNEL if f"tl.{python}(" in SOURCE[number - 1]}


@pytest.mark.parametrize(("target", "stage"), [("sm_90", "ptx"), ("sm_80", "sass"), ("gfx942", "amdgcn")])
def test_pointing_at_a_line_marks_its_counterparts_only(page, target, stage):
    choose(page, target, stage)
    before, code_numbers = status(page), [number for number, _ in lines(page)]
    counts = set()
    for i, (number, _) in enumerate(lines(page, "source")):
        page.locator("stage-explorer .stages__source .code-line").nth(i).hover()
        expected = [k for k, other in enumerate(code_numbers) if other == number]
        assert (tied(page, "source"), tied(page)) == ([i], expected), f"line {number}"
        assert f"Line {number} became {len(expected)} line{'' if len(expected) == 1 else 's'} here." == status(page)
        counts.add(len(expected))
    assert len(counts) > 2, "lines have none, some and many counterparts"
    last = code_numbers.index(str(KERNEL[-2]))
    page.locator("stage-explorer .stages__code .code-line").nth(last).hover()
    assert last in tied(page) and len(tied(page, "source")) == 1
    page.locator("h1").hover()
    assert (tied(page), tied(page, "source"), status(page)) == ([], [], before)


def test_marks_the_same_line_in_another_stage(page):
    number = next(str(n) for n in KERNEL if "tl.store" in SOURCE[n - 1])
    page.locator(f"stage-explorer .stages__source [data-line='{number}']").click()
    for target, stage in (("sm_90", "sass"), ("gfx942", "llir"), ("sm_80", "ttir")):
        choose(page, target, stage)
        expected = [k for k, (other, _) in enumerate(lines(page)) if other == number]
        assert expected and tied(page) == expected
        inside = "(line, pane) => line.getBoundingClientRect().top < pane.getBoundingClientRect().bottom"
        assert page.locator("stage-explorer .stages__code .is-tied").first.evaluate(
            f"line => ({inside})(line, line.closest('pre'))"
        ), "the first of them is scrolled to"
    page.locator(f"stage-explorer .stages__code [data-line='{number}']").first.click()
    page.locator("h1").hover()
    assert tied(page) == []


def test_another_target_without_that_stage_shows_its_last(page):
    steps = (("ptx", "gfx942", "amdgcn"), ("amdgcn", "sm_100", "sass"), ("sass", "gfx942", "amdgcn"))
    for before, target, after in steps:
        page.locator(f"stage-explorer input[value={before}]").check()
        page.get_by_label("Target").select_option(target)
        assert chosen(page) == (target, after)
        assert text(page) == TARGETS[target].text(after)


# Its state


def test_address_keeps_the_state(open_page):
    page = open_page("?launch.n=12")
    steps = page.evaluate("history.length")
    choose(page, "gfx942", "ttgir")
    query = page.evaluate("location.search")
    assert page.evaluate("history.length") == steps, "a change must add no step to go back"
    assert "launch.n=12" in query, "the state of the other explorer stays"
    again = open_page(query)
    assert chosen(again) == ("gfx942", "ttgir")
    assert text(again) == TARGETS["gfx942"].text("ttgir")


@pytest.mark.parametrize(
    ("target", "stage", "taken"),
    [("sm_1", "<b>", ("sm_90", "ptx")), ("gfx942", "sass", ("gfx942", "amdgcn")),
     ("__proto__", "ttir", ("sm_90", "ttir"))],
)  # fmt: skip
def test_address_may_hold_anything(open_page, target, stage, taken):
    page = open_page(f"?stages-{LAUNCH}.target={target}&stages-{LAUNCH}.stage={stage}")
    assert chosen(page) == taken
    assert text(page) == TARGETS[taken[0]].text(taken[1])


# Who can use it


def test_lines_to_point_at_are_24_px_high(page):
    heights = page.locator("stage-explorer .stages__source [data-line]").evaluate_all(
        "all => all.map(line => line.getBoundingClientRect().height)"
    )
    assert min(heights) >= 24


def test_keyboard_alone_suffices(page):
    page.get_by_label("Target").focus()
    before = chosen(page)[0]
    page.keyboard.press("ArrowDown")
    assert chosen(page)[0] != before
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowLeft")
    target, stage = chosen(page)
    stages = list(TARGETS[target].stages)
    assert stage == stages[stages.index("ptx") - 1]
    assert text(page) == TARGETS[target].text(stage)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.matches('pre.stages__source')"), "a pane that scrolls takes the focus"
    for _ in range(3):  # past the decorator and the signature, of which LLVM IR has no trace
        page.keyboard.press("Tab")
    number = page.evaluate("document.activeElement.dataset.line")
    for key in ("Enter", " "):
        page.keyboard.press(key)
        assert tied(page) == [k for k, (other, _) in enumerate(lines(page)) if other == number] != []
        assert page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"
        assert status(page).startswith(f"Line {number} became")
        page.keyboard.press(key)
        assert tied(page) == []
        assert page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "false"


def test_without_javascript_the_first_state_stands(open_page):
    page = open_page(java_script_enabled=False)
    panes = page.locator("stage-explorer pre")
    assert panes.count() == 2 and all(pane.is_visible() for pane in panes.all())
    assert text(page) == TARGETS["sm_90"].text("ptx")
    assert page.locator("stage-explorer .stages__code").get_attribute("aria-label") == "PTX for sm_90"
    assert page.locator("stage-explorer").inner_text().count('{"') == 0, "the data for the script is not to be seen"
