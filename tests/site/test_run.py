# SPDX-License-Identifier: Apache-2.0
"""Code that runs on its page, in Chromium: nothing is fetched before the press, and hostile code harms nothing."""

import json
import re

import pytest
from playwright.sync_api import expect

from practice.coach.exercise import exercises
from render.mkdocs import browser as hook
from tests.chromium import taken_over
from tests.limits import HANGS

LESSON, PLAYGROUND, SLOW = "programs/vector-add/", "practice/playground/", 1000 * HANGS  # ms
DONE = re.compile(r"^(Ran|Checked) in your browser: |^It did not run|^Nothing to check yet")
pytestmark = pytest.mark.skipif(not hook.made(), reason="the registry of npm gave no Python for browsers")


@pytest.fixture
def box(open_site, site):
    def open_at(address):
        page = open_site(site.url + address)
        taken_over(page)
        return page.locator(".run").first

    return open_at


def write(box, text):
    if not box.locator(".cm-content").count():
        box.get_by_role("button", name="Edit").click()
    box.locator(".cm-content").click()
    box.page.keyboard.press("Control+a")
    box.page.keyboard.insert_text(text)


def run(box, button="Run"):
    """Press the button, and return what the page shows then."""
    box.locator(".run__state").evaluate("status => status.textContent = ''")
    box.get_by_role("button", name=button, exact=True).click()
    expect(box.locator(".run__state")).to_have_text(DONE, timeout=SLOW)
    return box.locator(".run__result").inner_text()


def given(box):
    return box.locator(".highlight code").first.text_content()


def test_the_first_kernel_runs_and_a_wider_mask_shows_red(box):
    box = box(LESSON)
    fetched = "performance.getEntriesByType('resource').filter(({ name }) => /assets.browser/.test(name)).length"
    assert box.page.evaluate(fetched) == 0, "nothing is fetched before it is asked for"
    assert "[0, 101, 202, 303, 404, 505, 606, 707, 808, 909]" in run(box)
    lines = box.get_by_role("group", name="What to see of the launch")
    lines.get_by_role("button", name="tl.store").click()
    assert box.locator(".run__picture svg rect").count() == 13, "twelve lanes, and a frame around one"
    write(box, given(box).replace("mask = offsets < n", "mask = offsets < 11"))
    shown = run(box)
    assert "Program 2 writes out_ptr at offset 10, and its last element is at 9." in shown
    assert "out of bounds" in box.locator(".run__picture svg").text_content()
    assert "tl.load(x_ptr" in box.locator(".cm-line.run__fault").first.inner_text(), "each line that is wrong is marked"
    box.page.reload()
    assert "offsets < 11" in box.locator(".cm-content").inner_text(), "what was written is kept"
    box.get_by_role("button", name="Reset").click()
    assert "offsets < n" in box.locator(".cm-content").inner_text()


def test_what_it_did_when_it_was_recorded_stands_there_until_it_has_run(box):
    box = box(PLAYGROUND)
    expect(box.locator(".recording")).to_be_visible()
    run(box)
    expect(box.locator(".recording")).to_be_hidden()


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
def test_the_first_screen_of_the_playground_has_code_and_its_button(open_site, site, width, height):
    page = open_site(site.url + PLAYGROUND)
    page.set_viewport_size({"width": width, "height": height})
    expect(page.get_by_role("button", name="Run", exact=True).first).to_be_in_viewport(ratio=1)
    assert page.locator(".run code").filter(has_text="@triton.jit").first.bounding_box()["y"] < height - 250
    expect(page.get_by_text("Try:").first).to_be_in_viewport()


def test_what_the_last_run_gave_stays_until_the_next_is_done(box):
    box = box(PLAYGROUND)
    run(box)
    kept = """box => new Promise(done => {
        const result = box.querySelector(".run__result"), before = result.offsetHeight, seen = new Set();
        const look = () => {
            seen.add(result.offsetHeight);
            const busy = box.classList.contains("run--busy");
            busy ? requestAnimationFrame(look) : done([before, ...seen]);
        };
        box.querySelector(".run__bar button").click();
        look();
    })"""
    assert len(set(box.evaluate(kept))) == 1, "the same code gives the same height, and none lies between"


def test_on_a_phone_what_is_drawn_in_characters_is_seen_whole_and_lists_wrap(box):
    page = box(PLAYGROUND).page
    page.set_viewport_size({"width": 390, "height": 844})
    page.locator(".tabbed-labels label", has_text="Mandelbrot").click()
    drawn = page.locator(".run").last
    assert "@@@@" in run(drawn)
    code = drawn.locator(".run__output code")
    assert code.evaluate("code => code.offsetHeight / parseFloat(getComputedStyle(code).lineHeight)") < 20, "17 lines"
    assert drawn.locator(".run__output").evaluate("block => block.scrollWidth <= block.clientWidth")
    page.locator(".tabbed-labels label", has_text="Add").click()
    run(added := page.locator(".run").first)
    assert added.locator(".run__output .long").count() == 1, "what comes of a long line stands further in"


def test_a_launch_is_gone_through_step_by_step_and_in_another_order(box):
    box = box(PLAYGROUND)
    run(box)
    out = box.locator(".story__tensor", has_text="out_ptr").locator("i")
    assert out.all_inner_texts() == [str(101 * i) for i in range(10)]
    track = box.get_by_role("slider", name="Loads and stores, one by one")
    assert track.get_attribute("aria-valuetext") == "9 of 9 steps"
    track.press("Home")
    assert box.locator(".story__now").inner_text() == "Before the launch."
    for _ in range(3):
        track.press("ArrowRight")
    assert "Program 0 stores out_ptr[0 to 3], line 14: tl.store(" in box.locator(".story__now").inner_text()
    assert out.all_inner_texts() == ["0", "101", "202", "303", *["0"] * 6]
    assert box.locator(".story__here.pid-0").count() == 4
    box.locator(".run__state").evaluate("status => status.textContent = ''")
    box.get_by_role("button", name="Run in another order").click()
    said = re.compile(r"The programs came in the order ([012]), ([012]), ([012])\.$")
    expect(box.locator(".run__state")).to_have_text(said, timeout=SLOW)
    assert {*said.search(box.locator(".run__state").inner_text()).groups()} == {"0", "1", "2"}


def test_the_listing_has_the_numbers_that_a_result_names_and_the_player_is_in_sight(box):
    box = box(PLAYGROUND)
    box.page.set_viewport_size({"width": 1280, "height": 800})
    assert box.locator(".run__number").count() == len(given(box).rstrip().split("\n"))
    run(box)
    expect(box.locator(".time-bar")).to_be_in_viewport(ratio=1)
    bar, output = (box.locator(each).bounding_box()["y"] for each in (".time-bar", ".run__output"))
    assert bar < output


def test_a_stray_store_has_a_square_of_its_own(box):
    box = box(PLAYGROUND)
    write(box, given(box).replace("mask=mask", "mask=offsets < 11").replace("x + y, mask=offsets < 11", "x + y"))
    run(box)
    assert box.locator(".cm-line.run__fault").count() == 3, "two loads and the store"
    box.get_by_role("button", name="Step by step").click()
    assert box.locator(".story__cells .story__stray").all_inner_texts() == ["10", "11"]


SCRIPT = "print('<img src=x onerror=alert(1)>', 6 * 7)\n# " + "é" * 300


def test_a_link_holds_the_code_which_waits_to_be_run(box):
    box = box(PLAYGROUND)
    page = box.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    second = page.locator(".run").nth(2)
    page.locator(".tabbed-labels label").nth(2).click()
    write(second, SCRIPT)
    second.get_by_role("button", name="Copy link").click()
    expect(second.locator(".run__state")).to_have_text("Link copied. It holds the code.")
    address = page.evaluate("navigator.clipboard.readText()")
    assert address.partition("#")[2].startswith("code-2=") and len(address) < 250, "it is compressed"
    page.evaluate("localStorage.clear()")
    page.goto("about:blank")
    page.goto(address)
    second = page.locator(".run").nth(2)
    expect(second.locator(".run__state")).to_have_text("This code came with the link. Read it before you run it.")
    assert second.is_visible(), "its tab is open"
    assert second.locator(".cm-content").inner_text().split("\n") == SCRIPT.split("\n")
    assert second.locator(".run__result").is_hidden(), "it has not run"
    assert page.evaluate("Object.keys(localStorage).filter(key => key.startsWith('code:')).length") == 0
    assert "<img src=x onerror=alert(1)> 42" in run(second)
    page.goto(address[:-40])
    expect(second.locator(".run__state")).to_have_text(re.compile("can't be read"))


def test_an_exercise_is_checked_and_marked_once_it_is_right(box):
    (exercise,) = (each for each in exercises() if each.name == "scale")
    box = box("practice/scale/")
    assert "Gap 1 is still empty" in run(box, "Check")
    wrong = {each.name: each for each in exercise.wrong()}["mask_one_too_many"]
    write(box, wrong.text)
    assert "✗ reads and writes in bounds" in run(box, "Check") and box.locator(".run__picture svg").count() == 1
    write(box, exercise.solution)
    shown = run(box, "Check")
    assert "✗" not in shown and "Right." in shown
    assert json.loads(box.page.evaluate("localStorage.getItem('exercises-done')")) == ["/course/practice/scale/"]


def test_an_empty_gap_is_told_without_python(box):
    box = box("practice/rope/")
    box.page.route("**/assets/browser/pyodide/**", lambda route: route.abort())
    assert "Gap 1 is still empty, on line" in run(box, "Check")
    expect(box.locator(".run__state")).to_have_text("Nothing to check yet.")
    assert box.get_by_role("button", name="Check", exact=True).is_enabled()


def test_a_check_says_how_far_it_is(box):
    (exercise,) = (each for each in exercises() if each.name == "scale")
    box = box("practice/scale/")
    write(box, exercise.solution)
    box.evaluate("""box => {
        window.said = new Set();
        const state = box.querySelector(".run__state");
        new MutationObserver(() => said.add(state.textContent)).observe(state, { childList: true });
    }""")
    run(box, "Check")
    said = "\n".join(box.page.evaluate("[...said]"))
    assert re.search(r"Checking \d of 8, [\w ]+: n = \d+", said) and "only the first time" in said


def test_the_line_that_is_wrong_is_marked_until_the_next_edit(box):
    (exercise,) = (each for each in exercises() if each.name == "scale")
    box = box("practice/scale/")
    write(box, {each.name: each for each in exercise.wrong()}["no_mask"].text)
    run(box, "Check")
    marked = box.locator(".cm-line.run__fault")
    assert marked.all_inner_texts() == ["    x = tl.load(x_ptr + offsets)"]
    assert "line 14" in box.locator(".run__says").inner_text() or "14: x = tl.load" in box.inner_text()
    box.locator(".cm-content").click()
    box.page.keyboard.type("#")
    expect(marked).to_have_count(0)
    write(box, exercise.solution)
    run(box, "Check")
    assert marked.count() == 0


def test_a_loop_without_end_is_stopped_and_the_page_goes_on(box):
    box = box(LESSON)
    write(box, "while True:\n    pass")
    box.get_by_role("button", name="Run").click()
    expect(box.locator(".run__state")).to_have_text("Running…", timeout=SLOW)
    box.get_by_role("button", name="Stop").click()
    expect(box.locator(".run__state")).to_have_text(re.compile(r"^Stopped the run after \d+ s\. Your code is kept\.$"))
    write(box, "print(6 * 7)")
    assert "42" in run(box)


HOSTILE = {
    "the page": ("import js\nprint(js.document)", "AttributeError"),
    "the network": ("import js\njs.fetch('https://other.test/')", "AttributeError"),
    "a script": ("from pyodide.code import run_js\nrun_js('1')", "ImportError"),
    "the network by Python": ("import urllib.request as r\nprint(r.urlopen('https://other.test/'))", "Error"),
    "much memory": ("import torch\nx = torch.zeros(10**9)\nprint(len(x))", "MemoryError"),
    "much output": ("print('x' * 10**6)\nprint('end')", "… and more, which is not shown"),
    "markup": ("print('<img src=x onerror=alert(1)>')", "<img src=x onerror=alert(1)>"),
}


def test_hostile_code_reaches_neither_page_nor_network(box):
    """The fixture fails where a page logs an error, or asks another host."""
    box = box(LESSON)
    for name, (code, shown) in HOSTILE.items():
        write(box, code)
        got = run(box)
        assert shown in got and len(got) < 30_000, f"{name}: {got[:300]}"
        assert box.page.locator("img[src=x]").count() == 0
    write(box, "print(6 * 7)")
    assert "42" in run(box), "it all goes on"
