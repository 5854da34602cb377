# SPDX-License-Identifier: Apache-2.0
"""``<warp-reduction>``: its steps are those that the compiler writes, its sums add up, and everybody can use it."""

import json
import os
import re
import subprocess
import sys

import pytest
from msgspec.structs import replace

from figures.warp_reduction import SIZES, distances, shuffled, sums, warp_reduction
from recorder import printed, recording
from recorder.project import RecorderError, find
from recorder.recording import Line
from tests.accessibility import assert_accessible
from tests.chromium import ROOT
from tests.figures.explorer_support import by_hand, call, move_and_copy, page_with
from tests.limits import HANGS
from tests.toy import compiled, made

RECORDED = recording.load(find("gpu/hierarchy"), "cpu")
COMPILE = """
import json, sys, triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from snippets.gpu.hierarchy import total_kernel

class Enough(Exception):
    pass

def stop(module, metadata):
    raise Enough(str(module))

def hook(backend=None, stages=None, *more):
    if stages is None:
        return ("shuffles", "shuffles")
    stages["cubin"] = stop

def ptx(elements):
    types = {"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32", "BLOCK_SIZE": "constexpr"}
    aligned = {(i,): [["tt.divisibility", 16]] for i in range(2)}
    source = triton.compiler.ASTSource(total_kernel, types, {"BLOCK_SIZE": elements}, aligned)
    try:
        triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 1})
    except Enough as enough:
        return str(enough)

knobs.runtime.add_stages_inspection_hook = hook
print(json.dumps([ptx(elements) for elements in json.loads(sys.argv[1])]))
"""


# What it draws


def test_the_recorded_code_ends_with_the_same_steps():
    ptx = "\n".join(line.text for line in RECORDED.stage("total_kernel[1]", "sm_90", "ptx"))
    assert shuffled(ptx) == distances(RECORDED.code("total_kernel[1]", "sm_90").num_warps) == [2, 1]


def test_the_compiler_writes_these_steps(tmp_path):
    """By Triton itself, which needs no GPU for that: of as many float32 as are drawn, and then an addition."""
    pytest.importorskip("triton", exc_type=ImportError)
    clean = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    environment = clean | {"TRITON_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", COMPILE, json.dumps(SIZES)]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=HANGS, check=True)
    for threads, ptx in zip(SIZES, json.loads(done.stdout), strict=True):
        assert shuffled(ptx) == distances(threads)
        assert "redux" not in ptx and len(re.findall(r"\tadd\.f32", ptx)) == len(distances(threads))


def test_a_warp_holds_what_the_kernel_made_of_the_same_numbers():
    recorded = printed.numbers(RECORDED.output)["32 elements, a program of one warp"]
    assert sums(32)[0] == list(range(1, 33)) and set(sums(32)[-1]) == {recorded}


@pytest.mark.parametrize("threads", SIZES)
def test_every_number_is_that_of_its_thread_and_step(threads):
    html = (
        str(warp_reduction(RECORDED, launch="total_kernel[1]"))
        .partition(f'data-threads="{threads}"')[2]
        .partition("</table>")[0]
    )
    rows = [list(map(int, re.findall(r"<i>(\d+)</i>", row))) for row in html.split("<tr>")[2:]]
    assert [list(column) for column in zip(*rows, strict=True)] == sums(threads)
    for step, distance in enumerate(distances(threads), 1):
        for thread, row in enumerate(rows):
            assert row[step] == row[step - 1] + rows[thread ^ distance][step - 1]


# What it refuses


@pytest.mark.parametrize("steps", [[], [1, 2], [16, 8], [2, 2, 1]])
def test_refuses_other_steps(steps):
    first = compiled()[0]
    lines = [Line(f"    shfl.sync.bfly.b32  %r2, %r1, {d}, 31, -1;{' ' * i}", None) for i, d in enumerate(steps)]
    between = [part for line in lines for part in (line, Line("    add.f32  %r3, %r1, %r2;", None))]
    code = replace(first.targets["sm_90"], stages={"ptx": between})
    other = replace(made("cpu"), compiled=[replace(first, targets={"sm_90": code})])
    if steps == [2, 2, 1]:  # two halves of a number
        assert "<warp-reduction" in warp_reduction(other)
    else:
        with pytest.raises(RecorderError, match="not the end of this figure"):
            warp_reduction(other)


# What it shows


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    both = (
        warp_reduction(RECORDED, launch="total_kernel[1]"),
        warp_reduction(RECORDED, launch="total_kernel[1]", id="other"),
    )
    with page_with(tmp_path_factory.mktemp("reduction"), "warp_reduction", *both) as url:
        yield url


@pytest.fixture
def open_page(open_site, url):
    return lambda query="", **options: open_site(url + query, **options)


@pytest.fixture
def page(open_page):
    """A page before the first step."""
    page = open_page(reduced_motion="reduce")
    page.locator("#reduction input[name=step]").fill("0")
    return page


def summary(page, of="reduction") -> str:
    return page.locator(f"#{of} .explorer__summary").inner_text()


def button(page, name):
    return page.locator("#reduction").get_by_role("button", name=name)


def thread(page):
    return page.locator("#reduction").get_by_label("Thread", exact=True)


def query(page) -> str:
    return page.evaluate("location.search")


def numbers(page) -> list[str]:
    """Return the numbers of the last column that has any."""
    rows = page.locator("#reduction .reduction__warp:visible tbody tr")
    return rows.evaluate_all("rows => rows.map(row => row.querySelector('[data-state=now]').textContent)")


def test_opens_when_all_is_added_up(open_page):
    page = open_page(reduced_motion="reduce")
    assert numbers(page) == ["36"] * 8 and query(page) == "" and button(page, "Step").is_disabled()
    page.locator("#reduction label", has_text="32 threads").click()
    assert numbers(page) == ["528"] * 32


def test_before_the_first_step(page):
    assert summary(page) == "Each thread holds a number, thread 0 the 1. 3 steps add up all 8."
    assert numbers(page) == [str(i) for i in range(1, 9)] and button(page, "Back").is_disabled()
    assert page.locator("#reduction .reduction__warp:visible").count() == 1
    sizes = (
        page.locator("#reduction tbody tr")
        .first.locator("i")
        .evaluate_all("all => all.map(b => getComputedStyle(b).fontSize)")
    )
    assert [size == "0px" for size in sizes] == [False, True, True, True], "what comes later is not shown"


@pytest.mark.parametrize("threads", SIZES)
def test_steps_through_all_shuffles(open_page, threads):
    page = open_page(f"?reduction.threads={threads}&reduction.thread=5&reduction.step=0")
    for step, distance in enumerate(distances(threads), 1):
        button(page, "Step").click()
        other, held = 5 ^ distance, sums(threads)
        assert numbers(page) == list(map(str, held[step]))
        end = ", as in all threads" if distance == 1 else ""
        assert summary(page) == (
            f"Step {step} of {len(held) - 1}: thread 5 adds the {held[step - 1][other]} of thread "
            f"{other}, {distance} away: {held[step - 1][5]} + {held[step - 1][other]} = {held[step][5]}{end}."
        )
    assert button(page, "Step").is_disabled()


def test_a_button_keeps_the_focus_of_whoever_steps_to_the_end_by_keys(page):
    button(page, "Step").focus()
    for _ in range(4):
        page.keyboard.press("Enter")
    assert numbers(page) == ["36"] * 8 and button(page, "Step").is_disabled()
    assert button(page, "Step").evaluate("button => button === document.activeElement")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    assert button(page, "Step").is_enabled()


@pytest.mark.parametrize("threads", SIZES)
def test_the_lines_lead_from_all_numbers_that_a_sum_holds(page, threads):
    asked = [
        {"threads": threads, "thread": t, "step": step} for t in range(threads) for step in range(len(sums(threads)))
    ]
    for case, path in zip(asked, call(page, "warp_reduction", "it.tree(a)", asked), strict=True):
        begins = {float(y) - 0.5 for y in re.findall(r"M0\.5 ([\d.]+)", path)} or {case["thread"]}
        assert sum(begin + 1 for begin in begins) == sums(threads)[case["step"]][case["thread"]]
        assert path.count("M") == 2 * (2 ** case["step"] - 1)


def test_lines_end_at_the_numbers(open_page):
    page = open_page("?reduction.threads=32&reduction.step=5")
    cell = page.locator("#reduction .reduction__warp:visible tbody tr").nth(31).locator("i")
    lines = page.locator("#reduction .reduction__warp:visible path").first.bounding_box()
    first, second, last = (cell.nth(i).bounding_box() for i in (0, 1, 5))
    middle = lambda box: (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert (lines["x"], lines["y"] + lines["height"]) == pytest.approx(middle(first), abs=2.5)
    assert lines["x"] + lines["width"] == pytest.approx(middle(second)[0], abs=2.5)
    assert middle(last)[0] > middle(second)[0]


def test_a_thread_by_its_row_or_its_number(page):
    button(page, "Step").click()
    page.locator("#reduction tbody tr").nth(3).locator("td").nth(1).click()
    assert (
        summary(page).startswith("Step 1 of 3: thread 3 adds the 8 of thread 7, 4 away")
        and thread(page).input_value() == "3"
    )
    thread(page).fill("6")
    assert summary(page).startswith("Step 1 of 3: thread 6 adds the 3 of thread 2, 4 away")
    thread(page).fill("99")
    assert thread(page).input_value() == "7"
    thread(page).fill("")
    assert thread(page).input_value() == "" and "thread 0 " in summary(page)


def test_fewer_threads_have_fewer_steps(open_page):
    page = open_page("?reduction.threads=32&reduction.step=5&reduction.thread=30", reduced_motion="reduce")
    assert numbers(page) == ["528"] * 32
    page.locator("#reduction label", has_text="8 threads").click()
    assert numbers(page) == ["36"] * 8 and thread(page).input_value() == "7"


def test_plays_and_stops(open_page):
    page = open_page("?reduction.step=0&other.step=0")
    elapse = by_hand(page)
    button(page, "Play").click()
    elapse(2000)
    assert page.locator("#reduction output").get_attribute("aria-live") == "off"
    assert summary(page).startswith("Step 1 of 3: ")
    elapse(5000)
    assert summary(page).endswith(" = 36, as in all threads.") and button(page, "Play").is_visible()
    button(page, "Play").click()
    button(page, "Pause").click()
    assert page.locator("#reduction output").get_attribute("aria-live") == "polite"


def test_keyboard_alone_reaches_and_works_everything(page):
    button(page, "Step").focus()
    page.keyboard.press("Enter")
    assert summary(page).startswith("Step 1 of 3")
    page.locator("#reduction input[name=threads]:checked").focus()
    page.keyboard.press("ArrowRight")
    assert summary(page).startswith("Step 5 of 5"), "all that this many threads do"
    page.locator("#reduction input[name=step]").fill("1")
    page.locator("#reduction input[name=threads]:checked").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowUp")
    assert summary(page).startswith("Step 1 of 5: thread 1 adds the 18 of thread 17, 16 away")
    assert query(page) == "?reduction.step=1&reduction.threads=32&reduction.thread=1"


def test_address_may_hold_anything(open_page):
    page = open_page("?reduction.step=99&reduction.threads=8&reduction.thread=-4")
    assert summary(page).startswith("Step 3 of 3: thread 0 ")
    page = open_page("?reduction.step=<b>&reduction.threads=16&reduction.thread=x")
    assert summary(page).startswith("Step 3 of 3: thread 0 ")


def test_moving_or_copying_the_element_makes_no_second_one(page):
    move_and_copy(page, "#reduction")
    page.locator("#copy").get_by_role("button", name="Step").click()
    assert summary(page, of="copy").startswith("Step 1 of 3") and summary(page).startswith("Each thread")


# Who can use it


def test_without_javascript_all_steps_stand(open_page):
    page = open_page(java_script_enabled=False)
    assert page.locator("#reduction tbody tr:visible").count() == 8 + 32
    assert page.locator("#reduction td i:visible").count() == 8 * 4 + 32 * 6
    assert not page.locator("#reduction :is(button, output, input):visible").count()
    assert page.locator("#reduction").get_by_role("table", name="What each of 8 threads holds").count() == 1


def test_no_motion_where_it_is_not_wanted(open_page):
    page = open_page(reduced_motion="reduce")
    assert button(page, "Play").is_hidden() and button(page, "Step").is_visible()


def test_no_axe_violation(open_page):
    page = open_page("?reduction.step=2&other.threads=32&other.step=5")
    assert_accessible(page)


@pytest.mark.parametrize(
    ("state", "tall"), [("?reduction.step=2", 490), ("?reduction.threads=32&reduction.step=4", 700)]
)
def test_fits_on_a_phone(open_page, state, tall):
    page = open_page(state, viewport={"width": 360, "height": 740}, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.locator("#reduction form").bounding_box()["height"] <= tall
    numbers = page.locator("#reduction i")
    clipped = numbers.evaluate_all("all => all.filter(e => e.scrollWidth > e.clientWidth + 1).length")
    assert clipped == 0
    page.locator("#reduction .reduction__warp:visible tbody tr").nth(4).tap()
    assert thread(page).input_value() == "4"
    button(page, "Back").tap() if state else button(page, "Step").tap()
    touched = page.locator("#reduction :is(button, input[type=number], label)")
    heights = touched.evaluate_all("all => all.map(e => e.offsetHeight)")
    assert min(heights) >= 40
