# SPDX-License-Identifier: Apache-2.0
"""``<schedule-explorer>``: what it says of a moment and of a program is what was recorded, and everybody can use it."""

import re

import pytest

from figures.schedule import schedule
from recorder import recording
from recorder.project import find
from tests.accessibility import assert_accessible
from tests.figures.explorer_support import by_hand, move_and_copy, page_with
from tests.toy import LAUNCHES, SMS, made

LABELS = {name: name.removeprefix("schedule_").replace("_", " ") for name in LAUNCHES}


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    drawn = schedule(made("h200"), names=list(LAUNCHES))
    with page_with(tmp_path_factory.mktemp("schedule"), "schedule", drawn) as url:
        yield url


@pytest.fixture
def open_page(open_site, url):
    return lambda query="", **options: open_site(url + query, **options)


@pytest.fixture
def page(open_page):
    return open_page(reduced_motion="reduce")


def summary(page, of="schedule-explorer") -> str:
    return page.locator(f"{of} .explorer__summary").inner_text()


def detail(page) -> str:
    return page.locator("schedule-explorer .explorer__detail").text_content()


def query(page) -> str:
    return page.evaluate("location.search")


def displayed(page) -> list[str]:
    return page.locator("svg.schedule > g").evaluate_all(
        "all => all.filter(g => getComputedStyle(g).display !== 'none').map(g => g.dataset.label)"
    )


def choose(page, label):
    button(page, label).click()


def button(page, label):
    return page.locator("schedule-explorer .schedule__launches label", has_text=label)


def program(page):
    page.locator("schedule-explorer .explorer__more").evaluate("fold => { fold.open = true }")
    return page.locator("schedule-explorer [name=program]")


def axis(page) -> float:
    """Return where the picture's axis ends, in µs."""
    return float(page.locator("schedule-explorer").get_attribute("data-end"))


def at_work(page) -> list[int]:
    """Return the multiprocessors that work, as the machine shows them."""
    cells = page.locator("schedule-explorer .machine i").evaluate_all("all => all.map(cell => cell.className)")
    return [sm for sm, cell in enumerate(cells) if cell != "off"]


def slider(page):
    return page.get_by_role("slider", name="Time")


def at(page, moment):
    slider(page).fill(str(moment))


# What it shows


def test_opens_on_the_moment_that_says_most(page):
    assert slider(page).input_value() == "88" and slider(page).get_attribute("aria-valuetext") == "88 µs"
    assert summary(page) == "At 88 µs: 2 programs on 2 SMs, 0 waiting; idle: 2 SMs."
    line, plot = page.locator(".schedule__plot i").first.bounding_box(), page.locator(".schedule__plot").bounding_box()
    end = axis(page)
    assert line["x"] == pytest.approx(plot["x"] + plot["width"] * 88 / end, abs=1.5)
    choose(page, "one more")
    assert slider(page).input_value() == "188", "where three of four have nothing left to run"


def test_a_launch_at_a_time(page):
    assert displayed(page) == ["few"]
    for label in [*LABELS.values()][::-1]:
        choose(page, label)
        assert displayed(page) == [label]
        about = page.locator(".schedule__about").inner_text()
        assert page.locator("svg.schedule").get_attribute("aria-label") == f"{label}: {about}"
        count = len(LAUNCHES[f"schedule_{label.replace(' ', '_')}"])
        assert about.startswith(f"{count} programs on ")
        assert button(page, label).locator("input").is_checked()
        assert page.locator(".schedule__beside").is_visible() == (label == "shared"), "only where two share an SM"
        assert button(page, label).text_content() == f"{count}{label}"
    assert page.locator(".schedule__about").get_attribute("aria-live") == "polite"


def test_what_is_idle_at_the_end_is_counted_and_called_idle(page):
    choose(page, "one more")
    assert page.locator("svg.schedule > g:visible text").all_text_contents() == ["ends after 200 µs", "3 SMs idle"]
    about = page.locator(".schedule__about").inner_text()
    assert about.endswith("At the end, 3 SMs had nothing left to run, for 100 µs on average.")


@pytest.mark.parametrize("name", LAUNCHES)
def test_says_what_runs_at_a_moment(page, name):
    choose(page, LABELS[name])
    programs, words = LAUNCHES[name], set()
    for moment in (0, 1, 30, 50, 52, 99, 100, 101, 150, 200):
        at(page, moment)
        on = [sm for sm, begin, end in programs if begin <= moment < end]
        waiting = sum(begin > moment for _, begin, _ in programs)
        count = lambda number, word: f"{number} {word}{'' if number == 1 else 's'}"
        expected = (
            f"{count(len(on), 'program')} on {count(len(set(on)), 'SM')}, {waiting} waiting; "
            f"idle: {count(SMS - len(set(on)), 'SM')}."
        )
        if moment > max(end for _, _, end in programs):
            continue  # a launch's bar of time ends with it
        assert summary(page) == f"At {moment} µs: {expected if on or waiting else 'all have ended.'}"
        assert at_work(page) == sorted(set(on))
        assert page.locator(".schedule__machine").inner_text().startswith(f"{len(set(on))} of {SMS} ")
        words.add(summary(page))
    assert len(words) > 6


def test_only_while_it_plays_what_has_not_happened_is_pale(open_page):
    page = open_page("?schedule.time=1")
    opacity = "getComputedStyle(document.querySelector('.schedule__plot i'), '::before').opacity"
    assert page.evaluate(opacity) == "0"
    page.get_by_role("button", name="Play").click()
    page.wait_for_function(f"{opacity} > 0.7")
    page.get_by_role("button", name="Pause").click()
    page.wait_for_function(f"{opacity} == 0")


def test_a_program_by_its_number(page):
    choose(page, "one more")
    program(page).fill("4")
    assert detail(page) == "Program 4 ran on SM 2 from 100 to 200 µs, for 100.0 µs. This SM ran programs 1 and 4."
    chosen = page.locator(".schedule__plot i").last
    assert chosen.is_visible()
    for typed in ("5", "99", ""):
        program(page).fill(typed)
        assert detail(page).startswith("Choose a program from 0 to 4:")
        assert not chosen.is_visible()


def test_two_programs_of_an_sm_at_once_are_one_bar_and_told_apart_by_number(page):
    choose(page, "shared")
    boxes = []
    for number in ("0", "2"):
        program(page).fill(number)
        assert "ran on SM 0 from 0 to 50 µs" in detail(page)
        boxes.append(page.locator(".schedule__plot i").last.bounding_box())
    assert boxes[0] == boxes[1], "the whole row of their SM"


@pytest.mark.parametrize("name", LAUNCHES)
def test_a_program_by_pointing_at_its_bar(page, name):
    choose(page, LABELS[name])
    end = axis(page)
    box = page.locator("svg.schedule").bounding_box()
    for number, (sm, begin, stop) in enumerate(LAUNCHES[name]):
        x, y = (begin + stop) / 2 / end * box["width"], (sm + 0.5) / SMS * box["height"]
        page.locator("svg.schedule").click(position={"x": x, "y": y}, force=True)
        chosen = int(program(page).input_value())
        assert LAUNCHES[name][chosen] == (sm, begin, stop), f"program {number}"
        assert f"ran on SM {sm} from {begin:g}" in detail(page)
        outline = page.locator(".schedule__plot i").last.bounding_box()
        assert outline["x"] == pytest.approx(box["x"] + begin / end * box["width"], abs=1)
        assert outline["width"] == pytest.approx((stop - begin) / end * box["width"], abs=1)
        assert 0 <= outline["y"] - box["y"] - sm / SMS * box["height"] < box["height"] / SMS


def test_the_moment_is_dragged_across_the_picture(page):
    choose(page, "one more")
    picture = page.locator("svg.schedule").bounding_box()
    end = axis(page)
    page.mouse.move(picture["x"] + 30, picture["y"] + 4)
    page.mouse.down()
    for moment in (60, 150, 20):
        page.mouse.move(picture["x"] + moment / end * picture["width"], picture["y"] + 4, steps=2)
        assert float(slider(page).input_value()) == pytest.approx(moment, abs=1)
        assert summary(page).startswith(f"At {slider(page).input_value()} µs: ")
    page.mouse.up()
    page.mouse.move(picture["x"], picture["y"])
    assert float(slider(page).input_value()) == pytest.approx(20, abs=1), "it was let go"
    assert program(page).input_value() == "", "and that was no click"


def test_a_finger_drags_the_moment(open_page):
    page = open_page(viewport={"width": 390, "height": 740}, has_touch=True, is_mobile=True)
    finger = page.context.new_cdp_session(page)
    picture = page.locator("svg.schedule").bounding_box()
    touch = lambda kind, *points: finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": list(points)})
    y, end = picture["y"] + 4, axis(page)
    touch("touchStart", {"x": picture["x"] + 20, "y": y})
    for step in range(1, 11):
        touch("touchMove", {"x": picture["x"] + 20 + 10 * step, "y": y})
    touch("touchEnd")
    assert float(slider(page).input_value()) == pytest.approx(120 / picture["width"] * end, abs=1)


def test_rests_where_it_says_most_until_somebody_plays_it(open_page):
    """Who is reading a picture must not lose it."""
    page = open_page(viewport={"width": 1000, "height": 900})
    elapse = by_hand(page)
    elapse(10_000)
    assert slider(page).input_value() == "88" and query(page) == ""
    page.get_by_role("button", name="Play").click()
    elapse(500)
    assert 0 < float(slider(page).input_value()) < 50, "it begins at the beginning"


def test_a_launch_that_is_chosen_shows_where_it_rests(open_page):
    page = open_page("?schedule.time=10")
    elapse = by_hand(page)
    page.get_by_role("button", name="Play").click()
    elapse(500)
    choose(page, "one more")
    for _ in range(2):
        assert slider(page).input_value() == "188" and page.get_by_role("button", name="Play").is_visible()
        elapse(10_000)


def test_plays_to_the_end_and_can_be_stopped(open_page):
    page = open_page("?schedule.launch=1&schedule.time=10")
    button, elapse = lambda name: page.get_by_role("button", name=name), by_hand(page)
    button("Play").click()
    elapse(1000)
    assert 12 < float(slider(page).input_value()) < 100
    assert page.locator("output").first.get_attribute("aria-live") == "off"
    assert query(page) == "?schedule.launch=1&schedule.time=10", "the address keeps what was chosen"
    button("Pause").click()
    stopped = summary(page)
    elapse(1000)
    assert summary(page) == stopped and button("Play").is_visible()
    at(page, 195)
    button("Play").click()
    elapse(6000)
    assert summary(page) == "At 200 µs: all have ended." and button("Step").is_disabled()
    button("Play").click()
    elapse(1000)
    assert float(slider(page).input_value()) < 100, "begins anew"
    slider(page).focus()
    page.keyboard.press("ArrowRight")
    assert button("Play").is_visible(), "who takes the slider stops it"
    page.keyboard.press(" ")
    assert button("Pause").is_visible()


def test_nothing_plays_under_reduced_motion(page):
    assert not page.get_by_role("button", name="Play").is_visible()
    assert slider(page).input_value() == "88"
    choose(page, "one more")
    assert slider(page).input_value() == "188"
    assert page.locator(".machine i").first.evaluate("e => getComputedStyle(e).transitionDuration") == "0s"


# Its state


def test_address_keeps_the_state(open_page):
    page = open_page("?q=1", reduced_motion="reduce")
    assert query(page) == "?q=1"
    steps = page.evaluate("history.length")
    choose(page, "one more")
    at(page, 150)
    program(page).fill("4")
    assert query(page) == "?q=1&schedule.launch=1&schedule.time=150&schedule.program=4"
    assert page.evaluate("history.length") == steps, "a change must add no step to go back"
    again = open_page(query(page), reduced_motion="reduce")
    assert (summary(again), detail(again), displayed(again)) == (summary(page), detail(page), ["one more"])
    choose(again, "few")
    assert query(again) == "?q=1&schedule.program=4", "the first state needs no parameter"


def test_address_may_hold_anything(open_page):
    page = open_page("?schedule.launch=<b>&schedule.time=1e9&schedule.program=-3&schedule.id=5")
    assert displayed(page) == ["few"]
    assert summary(page).endswith("all have ended.")
    assert detail(page).startswith("Choose a program")
    page = open_page("?schedule.launch=9&schedule.time=x")
    assert displayed(page) == ["few"] and summary(page).startswith("At 88 µs: ")


def test_moving_or_copying_the_element_keeps_it_working(page):
    choose(page, "one more")
    move_and_copy(page, "schedule-explorer")
    copy = page.locator("#copy")
    slider(copy).fill("150")
    assert summary(page, "#copy") == "At 150 µs: 1 program on 1 SM, 0 waiting; idle: 3 SMs."
    assert summary(page, "#schedule").startswith("At 188 µs: ")
    assert page.locator("#schedule button").count() == copy.locator("button").count() == 3


# Who can use it


def test_keyboard_alone_suffices(open_page):
    page = open_page("?schedule.time=10")
    by_hand(page)
    for _ in range(2):  # the launches, play
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.get_by_role("button", name="Pause").is_visible()
    page.keyboard.press(" ")
    assert page.get_by_role("button", name="Play").is_visible()
    for _ in range(3):  # back, on, the track
        page.keyboard.press("Tab")
    page.keyboard.press("End")
    assert summary(page).endswith("all have ended.")
    for _ in range(4):
        page.keyboard.press("Shift+Tab")
    page.keyboard.press("ArrowRight")
    assert displayed(page) == ["one more"]
    for _ in range(5):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("2")
    assert detail(page).startswith("Program 2 ran on SM 1 from ")
    page.evaluate("window.stayed = true")
    page.keyboard.press("Enter")
    page.wait_for_timeout(200)
    assert page.evaluate("window.stayed"), "Enter leads nowhere"


def test_without_javascript_the_first_state_stands(open_page):
    page = open_page(java_script_enabled=False)
    assert page.get_by_role("img", name="few: 2 programs on 2 of 4 SMs").is_visible()
    assert page.locator(".schedule__about").inner_text().startswith("2 programs on 2 of 4 SMs")
    assert displayed(page) == ["few"] and at_work(page) == [0, 2]
    assert not page.locator("button, input, output").filter(visible=True).count()
    page.locator("summary", has_text="The numbers").click()
    assert page.get_by_role("cell", name="one more").is_visible()


@pytest.mark.parametrize("state", ["", "?schedule.launch=2&schedule.time=60&schedule.program=1"])
def test_no_axe_violation(open_page, state):
    page = open_page(state, reduced_motion="reduce")
    for fold in page.locator("summary").all():
        fold.click()
    assert_accessible(page)


@pytest.mark.parametrize("state", ["", "?schedule.launch=2&schedule.program=1"])
def test_fits_on_a_phone(open_page, state):
    page = open_page(state, viewport={"width": 360, "height": 700}, has_touch=True, is_mobile=True)
    for fold in page.locator("summary").all():
        fold.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    parts = page.locator(":is(button, label, input:not([type=radio])):visible")
    assert min(parts.evaluate_all("all => all.map(e => e.getBoundingClientRect().height)")) >= 40
    page.locator("svg.schedule").tap(position={"x": 20, "y": 2})
    assert "ran on SM 0" in detail(page)


@pytest.mark.parametrize("width, height", [(1280, 800), (390, 844)])
def test_picture_and_controls_fit_one_screen(open_site, site, width, height):
    page = open_site(f"{site.url}gpu/schedule/", viewport={"width": width, "height": height}, reduced_motion="reduce")
    bar, picture = page.locator(".time-bar").bounding_box(), page.locator(".schedule__picture").bounding_box()
    assert bar["y"] + bar["height"] <= height, "on the first screen of its lesson"
    assert picture["y"] + (picture["height"] if width > 1000 else 200) < height, "with the picture"
    header = page.locator(".md-header").bounding_box()["height"]
    page.evaluate("scrollTo(0, 9999)")  # on a phone the bar sticks to the screen
    names = ".schedule__picture", ".time-bar", ".schedule__launches"
    for launch in range(6):
        page.locator(".schedule__launches label").nth(launch).click()
        parts = [page.locator(f"schedule-explorer {name}").bounding_box() for name in names]
        assert max(part["y"] + part["height"] for part in parts) - min(part["y"] for part in parts) <= height - header


def test_says_of_the_lesson_what_was_recorded(open_site, site):
    page = open_site(f"{site.url}gpu/schedule/", reduced_motion="reduce")
    recorded = recording.load(find("gpu/schedule"), "h200")
    rows = recorded.benchmark("schedule_wave_and_a_bit", "sm", "begin", "end").medians().values()
    times = [(round(row.begin, 1), round(row.end, 1)) for row in rows]  # as the page lists them
    assert slider(page).input_value() == "189"
    assert at_work(page) == sorted({int(row.sm) for row in rows if row.end > 189})
    for moment in (0, 50, 101, 150, 201):
        at(page, moment)
        on = sum(begin <= moment < end for begin, end in times)
        waiting = sum(begin > moment for begin, _ in times)
        if on or waiting:
            assert re.match(rf"At {moment} µs: {on} programs? on \d+ SMs?, {waiting} waiting; ", summary(page))
        else:
            assert summary(page) == f"At {moment} µs: all have ended."
