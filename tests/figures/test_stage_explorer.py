# SPDX-License-Identifier: Apache-2.0
"""``<stage-explorer>``, with the stages of vector add: it shows what was recorded, and everybody can use it."""

import re
import tomllib

import pytest

from figures.stage_explorer import instructions, stages
from recorder import recording
from recorder.project import find
from recorder.source import lines_of
from tests.accessibility import assert_accessible
from tests.figures.explorer_support import page_with

SNIPPET = find("programs/vector_add")
LAUNCH = "add_kernel[1]"  # which launch the page shows
ID = "stages-add_kernel-1"
RECORDED = recording.load(SNIPPET, "cpu")
TARGETS = RECORDED.compiled_from(LAUNCH).targets
SOURCE = SNIPPET.path.read_text("utf-8").splitlines()
KERNEL = lines_of(SNIPPET.path, "add_kernel")
LOAD = next(str(n) for n in KERNEL if "tl.load(x_ptr" in SOURCE[n - 1])
EVERY = [(target, stage) for target, code in TARGETS.items() for stage in code.stages]
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


def rows(page, pane="code"):
    return page.locator(f"stage-explorer .stages__{pane} .code-line")


def lines(page, pane="code") -> list[list[str]]:
    """The number in the margin, empty where there is none, and the text of each line of a pane, folded or not."""
    return rows(page, pane).evaluate_all(LINES)


def text(page) -> str:
    return "\n".join(line for _, line in lines(page))


def choose(page, target, stage):
    page.get_by_label("Target").select_option(target)
    page.locator(f"stage-explorer input[value={stage}]").check(force=True)


def chosen(page) -> tuple[str, str]:
    return page.get_by_label("Target").input_value(), page.locator("stage-explorer input:checked").input_value()


def summary(page) -> tuple[str, str]:
    """Return how many instructions a line became, and the text about an instruction or about all of them."""
    return tuple(page.locator("stage-explorer output").all_inner_texts())


def tied(page, pane="code") -> list[int]:
    """Return which lines of a pane are marked, counted from 0."""
    return rows(page, pane).evaluate_all(
        "lines => lines.flatMap((line, i) => line.classList.contains('is-tied') ? [i] : [])"
    )


def became(number: str, shown: list[list[str]], stage: str) -> str:
    count = sum(n == number and instructions.find(stage, line) is not None for n, line in shown)
    return f"Line {number} became {count or 'no'} instruction{'s' if count > 1 else ''} here."


def sentence(stage: str, line: str) -> str:
    begin, end = instructions.find(stage, line)
    return f"{line[begin:end]} {instructions.explain(stage, line[begin:end])}"


# Instructions


@pytest.mark.parametrize(
    "stage, line, name",
    [
        ("ttir", "    %x_8 = tt.load %x_7, %mask_6 : tensor<1024x!tt.ptr<f32>>", "tt.load"),
        ("ttir", "    tt.store %1, %2, %mask_6 : tensor<1024x!tt.ptr<f32>>", "tt.store"),
        ("ttir", "    %acc:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %b) -> (i32)  : i32 {", "scf.for"),
        ("ttir", '    %s = "tt.reduce"(%x) <{axis = 0 : i32}> ({', "tt.reduce"),
        ("ttir", "  tt.func public @add_kernel(%x_ptr: !tt.ptr<f32>) attributes {noinline = false} {", None),
        ("ttgir", "#blocked = #ttg.blocked<{sizePerThread = [4], order = [0]}>", "ttg.blocked"),
        ("ttgir", 'module attributes {"ttg.num-ctas" = 1 : i32} {', None),
        ("llir", "  %7 = tail call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()", "llvm.nvvm.read.ptx.sreg.ctaid.x"),
        ("llir", '  tail call void asm sideeffect "@$5 st.global.v4.b32 [ $4 + 0 ];", "r"(i32 %42) #2', "asm"),
        ("llir", "  ret void", "ret"),
        ("llir", "declare i32 @llvm.nvvm.read.ptx.sreg.tid.x() #1", None),
        ("ptx", "    @!%p1 ld.global.v4.b32 { %r1 }, [ %rd1 + 0 ];", "ld.global.v4.b32"),
        ("ptx", "    wgmma.mma_async.sync.aligned.m64n64k16 {%f1};", "wgmma.mma_async.sync.aligned.m64n64k16"),
        ("ptx", "    .reg .pred  %p<2>;", None),
        ("ptx", "    // begin inline asm", None),
        ("sass", "        /*0180*/              @!P0 LDG.E.128 R4, desc[UR4][R2.64] ;", "LDG.E.128"),
        ("sass", "        /*0240*/                   NOP;", None),
        ("sass", ".L_x_0:", None),
        ("amdgcn", "\tbuffer_load_dwordx2 v[0:1], v4, s[0:3], 0 offen", "buffer_load_dwordx2"),
        ("amdgcn", "\t.size\tadd_kernel, .Lfunc_end0-add_kernel", None),
    ],
)  # fmt: skip
def test_finds_the_name_of_an_instruction(stage, line, name):
    place = instructions.find(stage, line)
    assert (place and line[slice(*place)]) == name


@pytest.mark.parametrize(
    "stage, name, like",
    [
        ("ptx", "ld.global.b32", "ld.global"),
        ("ptx", "cp.async.cg.shared.global", "cp.async"),
        ("sass", "LDG.E.U16", "LDG"),
        ("amdgcn", "v_lshlrev_b32_e32", "v_lshlrev"),
        ("llir", "llvm.nvvm.shfl.sync.bfly.i32", "llvm.nvvm.shfl"),
    ],
)
def test_a_longer_name_is_explained_by_the_shorter(stage, name, like):
    assert instructions.explain(stage, name) == instructions.explain(stage, like) != ""


def test_of_an_unknown_instruction_nothing_is_said():
    assert instructions.explain("ptx", "frobnicate.b32") == "" == instructions.explain("sass", "")


@pytest.mark.parametrize(("target", "stage"), EVERY)
def test_every_instruction_of_the_page_is_explained(target, stage):
    shown = [line.text for line in TARGETS[target].stages[stage]]
    names = {line[slice(*place)] for line in shown if (place := instructions.find(stage, line))}
    assert len(names) > 5
    assert not {name for name in names if not instructions.explain(stage, name)}
    traced = [line.text for line in TARGETS[target].stages[stage] if line.place is not None]
    rest = {line.strip() for line in traced if not instructions.find(stage, line) and not line.endswith("NOP;")}
    assert rest <= {"}"}, "what comes from a line of the kernel is an instruction, but for brackets and padding"


def test_an_explanation_is_one_plain_sentence():
    for known in tomllib.loads(instructions.GLOSSARY.read_text("utf-8")).values():
        for name, words in known.items():
            assert re.fullmatch(r"[A-Z][^!?]*[^.]\.", words) and len(words) < 120, name
            assert ". " not in words, f"{name}: more than one"


# What it shows


def test_opens_on_the_load_with_all_lines_colored(page):
    assert page.locator(".stages__source .is-tied").inner_text().split("\n")[0].startswith(LOAD)
    assert page.locator(".stages__source [aria-pressed=true]").get_attribute("data-line") == LOAD
    shown = lines(page)
    assert tied(page) == [k for k, (number, _) in enumerate(shown) if number == LOAD]
    assert summary(page)[0] == became(LOAD, shown, "ptx")
    color = "all => all.map(line => [line.dataset.line, getComputedStyle(line).borderInlineStartColor])"
    of = {pane: dict(page.locator(f".stages__{pane} [data-line]").evaluate_all(color)) for pane in ("source", "code")}
    assert of["code"].items() <= of["source"].items(), "a line and what became of it have one color"
    assert len(set(of["source"].values())) == len(of["source"]) > 6, "which no other line has"
    inside = """line => {
        const [one, pane] = [line, line.closest('pre')].map(it => it.getBoundingClientRect());
        return one.top >= pane.top && one.bottom <= pane.bottom + 1;
    }"""
    assert all(line.evaluate(inside) for line in page.locator("stage-explorer .is-tied").all()), "all of it is seen"


def test_offers_what_was_recorded(page):
    options = page.get_by_label("Target").locator("option").all_text_contents()
    assert sorted(options) == sorted(TARGETS)
    for target in options:
        page.get_by_label("Target").select_option(target)
        offered = page.locator("stage-explorer input[name=stage]:enabled").evaluate_all("all => all.map(i => i.value)")
        assert offered == list(TARGETS[target].stages)
        counts = page.locator("stage-explorer input:enabled + span small").all_text_contents()
        assert counts == [f"{len(lines)} lines" for lines in TARGETS[target].stages.values()]
        assert (
            page.locator("stage-explorer label", has=page.locator("input:disabled")).filter(visible=True).count() == 0
        )


def test_shows_exactly_what_was_recorded(page):
    seen = set()
    for target, stage in EVERY:
        choose(page, target, stage)
        code = TARGETS[target]
        assert text(page) == code.text(stage), f"{stage} for {target}"
        assert [bool(number) for number, _ in lines(page)] == [line.place is not None for line in code.stages[stage]]
        assert f"for {target}: {code.registers} registers" in summary(page)[1]
        seen.add(text(page))
    assert len(seen) > 10, "most stages differ from each other"


def test_folds_what_is_no_instruction(page):
    visible = lambda pane: [number for number, row in enumerate(rows(page, pane).all()) if row.is_visible()]
    for target, stage in [("sm_90", "ptx"), ("sm_90", "ttgir"), ("gfx942", "amdgcn")]:
        choose(page, target, stage)
        shown = lines(page)
        page.get_by_label("Lines", exact=True).select_option("folded")
        assert visible("code") == [k for k, (_, line) in enumerate(shown) if instructions.find(stage, line)]
        assert 5 < len(visible("code")) < len(shown)
        page.get_by_label("Lines", exact=True).select_option("all")
        assert visible("code") == [*range(len(shown))]
        assert len(visible("source")) == len(lines(page, "source"))


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
    before, shown, counts = (summary(page), tied(page)), lines(page), set()
    for i, (number, _) in enumerate(lines(page, "source")):
        row = rows(page, "source").nth(i)
        if not row.get_attribute("data-line"):
            continue  # nothing became of it in any stage
        row.hover()
        expected = [k for k, (other, _) in enumerate(shown) if other == number]
        assert (tied(page, "source"), tied(page)) == ([i], expected), f"line {number}"
        assert summary(page)[0] == became(number, shown, stage)
        counts.add(len(expected))
    assert len(counts) > 2, "lines have few and many counterparts"
    page.locator("h1").hover()
    assert (summary(page), tied(page)) == before, "what was chosen is marked again"


@pytest.mark.parametrize(("target", "stage"), [("sm_90", "ptx"), ("sm_90", "ttgir"), ("gfx942", "amdgcn")])
def test_pointing_at_an_instruction_says_what_it_does(page, target, stage):
    choose(page, target, stage)
    facts = summary(page)[1]
    for i, (number, line) in enumerate(lines(page)):
        if not instructions.find(stage, line):
            continue
        rows(page).nth(i).hover()
        first, second = summary(page)
        assert second == sentence(stage, line)
        if number:
            assert first == became(number, lines(page), stage) and i in tied(page)
        else:
            assert first == "No line of the kernel became this." and not tied(page)
    page.locator("h1").hover()
    assert summary(page)[1] == facts


def test_what_is_chosen_stays_marked_in_another_stage(page):
    number = next(str(n) for n in KERNEL if "tl.store" in SOURCE[n - 1])
    page.locator(f".stages__source [data-line='{number}']").click()
    for target, stage in (("sm_90", "sass"), ("gfx942", "llir"), ("sm_80", "ttir")):
        choose(page, target, stage)
        page.locator("h1").hover()
        expected = [k for k, (other, _) in enumerate(lines(page)) if other == number]
        assert expected and tied(page) == expected
        assert page.locator(".stages__code .is-tied").evaluate_all(
            "lines => lines.some(line => line.getBoundingClientRect().bottom <= "
            "line.closest('pre').getBoundingClientRect().bottom)"
        ), "they are scrolled to"
    page.locator(f".stages__code [data-line='{LOAD}']").first.click()
    page.locator("h1").hover()
    assert page.locator(".stages__source .is-tied").get_attribute("data-line") == LOAD


def test_another_target_without_that_stage_shows_its_last(page):
    steps = (("ptx", "gfx942", "amdgcn"), ("amdgcn", "sm_100", "sass"), ("sass", "gfx942", "amdgcn"))
    for before, target, after in steps:
        page.locator(f"stage-explorer input[value={before}]").check(force=True)
        page.get_by_label("Target").select_option(target)
        assert chosen(page) == (target, after)
        assert text(page) == TARGETS[target].text(after)


def test_begins_with_another_line_where_the_page_says_so():
    number = next(n for n in KERNEL if "tl.store" in SOURCE[n - 1])
    assert f'name="line" value="{number}"' in stages(RECORDED, launch=LAUNCH, line="tl.store")
    assert re.search(r'name="line" value="\d+"', stages(RECORDED, launch=LAUNCH, line="nowhere"))


# Its state


def test_address_keeps_the_state(open_page):
    page = open_page("?launch.n=12")
    assert page.evaluate("location.search") == "?launch.n=12", "the first state needs no parameter"
    steps = page.evaluate("history.length")
    choose(page, "gfx942", "ttgir")
    page.get_by_label("Lines", exact=True).select_option("all")
    page.locator(".stages__source [data-line]").first.click()
    query = page.evaluate("location.search")
    assert page.evaluate("history.length") == steps, "a change must add no step to go back"
    assert "launch.n=12" in query, "the state of the other explorer stays"
    again = open_page(query)
    assert chosen(again) == ("gfx942", "ttgir")
    assert text(again) == TARGETS["gfx942"].text("ttgir")
    assert rows(again).first.is_visible() and tied(again, "source") == tied(page, "source")


@pytest.mark.parametrize(
    ("target", "stage", "taken"),
    [("sm_1", "<b>", ("sm_90", "ptx")), ("gfx942", "sass", ("gfx942", "amdgcn")),
     ("__proto__", "ttir", ("sm_90", "ttir"))],
)  # fmt: skip
def test_address_may_hold_anything(open_page, target, stage, taken):
    page = open_page("?" + "&".join(
        f"{ID}.{name}={value}"
        for name, value in {"target": target, "stage": stage, "line": '"]', "lines": "no"}.items()
    ))  # fmt: skip
    assert chosen(page) == taken
    assert text(page) == TARGETS[taken[0]].text(taken[1])
    assert page.locator(".stages__source .is-tied").get_attribute("data-line") == LOAD


# Who can use it


def test_lines_to_point_at_are_24_px_high(page):
    heights = page.locator("stage-explorer [role=button]").evaluate_all(
        "all => all.map(line => line.getBoundingClientRect().height).filter(height => height)"
    )
    assert len(heights) > 30 and min(heights) >= 24


def test_keyboard_alone_suffices(page):
    page.locator("stage-explorer input:checked").focus()
    page.keyboard.press("ArrowLeft")
    target, stage = chosen(page)
    assert (target, stage) == ("sm_90", "llir") and text(page) == TARGETS[target].text(stage)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Tab")
    at = lambda name: page.evaluate(f"document.activeElement.{name}")
    assert at("dataset.line") == LOAD and at("matches('.stages__source *')"), "the chosen line of the kernel"
    page.keyboard.press("ArrowDown")
    number = at("dataset.line")
    assert int(number) == int(LOAD) + 1 and summary(page)[0] == became(number, lines(page), "ptx")
    for key, to in (("Enter", number), ("ArrowUp", LOAD), (" ", LOAD)):
        page.keyboard.press(key)
        assert at("dataset.line") == to
        if key != "ArrowUp":
            assert at("getAttribute('aria-pressed')") == "true"
    page.keyboard.press("Tab")
    assert at("matches('.stages__code *')"), "each pane is one stop"
    page.keyboard.press("End")
    assert summary(page)[1].startswith("ret ")
    page.keyboard.press("Home")
    assert summary(page)[1].startswith("ld.param.b64 Reads an argument")
    page.keyboard.press("Tab")
    assert at("name") == "target", "the last stop but one"
    before = chosen(page)[0]
    page.keyboard.press("ArrowDown")
    assert chosen(page)[0] != before


def test_by_touch(open_page):
    page = open_page(viewport={"width": 390, "height": 740}, has_touch=True, is_mobile=True)
    i, line = next((i, line) for i, (_, line) in enumerate(lines(page)) if "st.global" in line)
    rows(page).nth(i).tap()
    assert summary(page)[1] == sentence("ptx", line)
    assert "tl.store" in page.locator(".stages__source .is-tied").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("size", [(1280, 800), (390, 740)])
def test_stands_on_the_first_screen_of_its_lesson(open_site, site, size):
    page = open_site(f"{site.url}compiler/stages/", viewport=dict(zip(("width", "height"), size, strict=True)))
    source, code = (page.locator(f".stages__{pane} .is-tied").first.bounding_box() for pane in ("source", "code"))
    header, strip, last = (
        page.locator(part).bounding_box()
        for part in (".md-header", "stage-explorer .explorer__switch", ".stages__more")
    )
    assert last["y"] + last["height"] - strip["y"] <= size[1] - header["height"], "all of it is seen at once"
    if size[0] > 1000:
        assert source["x"] + source["width"] <= code["x"], "side by side"
        assert last["y"] + last["height"] < size[1]
    else:
        assert source["y"] + source["height"] < size[1]


def test_without_javascript_the_first_state_stands(open_page):
    page = open_page(java_script_enabled=False)
    panes = page.locator("stage-explorer pre")
    assert panes.count() == 2 and all(pane.is_visible() for pane in panes.all())
    assert text(page) == TARGETS["sm_90"].text("ptx")
    assert tied(page) and page.locator(".stages__source .is-tied").get_attribute("data-line") == LOAD
    assert page.locator("stage-explorer .stages__code").get_attribute("aria-label") == "PTX for sm_90"
    assert page.locator("stage-explorer output").filter(visible=True).inner_text().startswith("PTX for sm_90: ")
    assert page.locator("stage-explorer").inner_text().count('{"') == 0, "the data for the script is not to be seen"


def test_the_script_draws_what_the_page_was_built_with(page):
    first = rows(page).evaluate_all("all => all.map(line => line.outerHTML.replace(/ (role|tabindex|aria)\\S*/g, ''))")
    choose(page, "sm_90", "ttir")
    choose(page, "sm_90", "ptx")
    page.locator("h1").hover()
    again = rows(page).evaluate_all("all => all.map(line => line.outerHTML.replace(/ (role|tabindex|aria)\\S*/g, ''))")
    assert again == first


@pytest.mark.parametrize("state", ["", f"?{ID}.target=gfx942&{ID}.lines=all"])
def test_no_axe_violation(open_page, state):
    page = open_page(state)
    assert_accessible(page)
