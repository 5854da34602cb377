# SPDX-License-Identifier: Apache-2.0
"""``<schedule-explorer>``: what it says of a moment and of a program is what was recorded, and everybody can use it."""

import re

import pytest

from figures.schedule import schedule
from recorder import recording
from recorder.project import find
from tests.figures.explorer_support import by_hand, in_scheme, move_and_copy, page_with
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
    return open_page()


def summary(page, of="schedule-explorer") -> str:
    return page.locator(f"{of} output").first.inner_text()


def detail(page) -> str:
    return page.locator("schedule-explorer output").last.inner_text()


def query(page) -> str:
    return page.evaluate("location.search")


def displayed(page) -> list[str]:
    return page.locator("svg.schedule > g").evaluate_all(
        "all => all.filter(g => getComputedStyle(g).display !== 'none').map(g => g.dataset.label)"
    )


def choose(page, label):
    programs(page).fill(str([*LABELS.values()].index(label)))


def programs(page):
    return page.get_by_role("slider", name="Programs")


def slider(page):
    return page.get_by_role("slider", name="Time")


def at(page, moment):
    slider(page).fill(str(moment))


# What it shows


def test_opens_at_the_beginning_with_play_first(page):
    assert slider(page).input_value() == "0"
    assert summary(page) == "At 0 µs: 1 program on 1 SM, 1 waiting; idle: 3 SMs."
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Play"
    later, plot = page.locator(".schedule__plot i").first.bounding_box(), page.locator(".schedule__plot").bounding_box()
    assert later["x"] == pytest.approx(plot["x"], abs=1), "all of it is still to come"


def test_a_launch_at_a_time(page):
    assert displayed(page) == ["few"]
    for label in [*LABELS.values()][::-1]:
        choose(page, label)
        assert displayed(page) == [label]
        about = page.locator(".schedule__about").inner_text()
        assert page.locator("svg.schedule").get_attribute("aria-label") == f"{label}: {about}"
        count = len(LAUNCHES[f"schedule_{label.replace(' ', '_')}"])
        assert about.startswith(f"{count} programs on ")
        assert programs(page).get_attribute("aria-valuetext") == f"{count} programs: {label}"
    assert page.locator(".schedule__about").get_attribute("aria-live") == "polite"


def test_a_launch_by_its_name_under_the_slider(page):
    for number, label in reversed([*enumerate(LABELS.values())]):
        stop = page.locator(".schedule__launches span").nth(number)
        stop.click()
        assert displayed(page) == [label] and programs(page).input_value() == str(number)
        assert stop.inner_text().split("\n") == [str(len([*LAUNCHES.values()][number])), label]
        assert page.locator(".schedule__chosen").all_inner_texts() == [stop.inner_text()]
        track, words = programs(page).bounding_box(), stop.bounding_box()
        thumb = track["x"] + 8 + (track["width"] - 16) * number / (len(LABELS) - 1)
        assert thumb == pytest.approx(words["x"] + words["width"] / 2, abs=2), "the thumb stands above its words"


def test_what_is_idle_at_the_end_is_counted_and_called_idle(page):
    choose(page, "one more")
    assert page.locator("svg.schedule > g:visible text").all_text_contents() == ["ends after 200 µs", "3 SMs idle"]
    about = page.locator(".schedule__about").inner_text()
    assert about.endswith("At its end, 3 SMs had nothing left to run, for 100 µs on average.")


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
        assert summary(page) == f"At {moment} µs: {expected if on or waiting else 'all have ended.'}"
        words.add(summary(page))
    assert len(words) == 10


def test_what_has_not_happened_is_pale(page):
    at(page, 50)
    plot = page.locator(".schedule__plot").bounding_box()
    later = page.locator(".schedule__plot i").first.bounding_box()
    end = float(slider(page).get_attribute("max"))
    assert later["x"] == pytest.approx(plot["x"] + plot["width"] * 50 / end, abs=1)
    assert later["x"] + later["width"] == pytest.approx(plot["x"] + plot["width"], abs=1)
    track = slider(page).bounding_box()
    thumb = track["x"] + 8 + (track["width"] - 16) * 50 / end
    assert thumb == pytest.approx(later["x"], abs=2), "the slider's thumb stands under the moment"


def test_a_program_by_its_number(page):
    choose(page, "one more")
    page.get_by_label("Program", exact=True).fill("4")
    assert detail(page) == "Program 4 ran on SM 2 from 100 to 200 µs, 100.0 µs long. This SM ran programs 1 and 4."
    chosen = page.locator(".schedule__plot i").last
    assert chosen.is_visible()
    for typed in ("5", "99", ""):
        page.get_by_label("Program", exact=True).fill(typed)
        assert detail(page).startswith("Choose a program from 0 to 4,")
        assert not chosen.is_visible()


def test_two_programs_of_an_sm_at_once_have_each_its_bar(page):
    choose(page, "shared")
    tops = []
    for number in ("0", "2"):
        page.get_by_label("Program", exact=True).fill(number)
        assert "ran on SM 0 from 0 to 50 µs" in detail(page)
        tops.append(page.locator(".schedule__plot i").last.bounding_box()["y"])
    row = page.locator("svg.schedule").bounding_box()["height"] / SMS
    assert tops[1] - tops[0] == pytest.approx(row / 2, abs=0.1)


@pytest.mark.parametrize("name", LAUNCHES)
def test_a_program_by_pointing_at_its_bar(page, name):
    choose(page, LABELS[name])
    end = float(slider(page).get_attribute("max"))
    box = page.locator("svg.schedule").bounding_box()
    for number, (sm, begin, stop) in enumerate(LAUNCHES[name]):
        x, y = (begin + stop) / 2 / end * box["width"], (sm + 0.5) / SMS * box["height"]
        page.locator("svg.schedule").click(position={"x": x, "y": y}, force=True)
        chosen = int(page.get_by_label("Program", exact=True).input_value())
        assert LAUNCHES[name][chosen] == (sm, begin, stop), f"program {number}"
        assert f"ran on SM {sm} from {begin:g}" in detail(page)
        outline = page.locator(".schedule__plot i").last.bounding_box()
        assert outline["x"] == pytest.approx(box["x"] + begin / end * box["width"], abs=1)
        assert outline["width"] == pytest.approx((stop - begin) / end * box["width"], abs=1)
        assert 0 <= outline["y"] - box["y"] - sm / SMS * box["height"] < box["height"] / SMS


def test_the_moment_is_dragged_across_the_picture(page):
    choose(page, "one more")
    picture = page.locator("svg.schedule").bounding_box()
    end = float(slider(page).get_attribute("max"))
    page.mouse.move(picture["x"] + 30, picture["y"] + 4)
    page.mouse.down()
    for moment in (60, 150, 20):
        page.mouse.move(picture["x"] + moment / end * picture["width"], picture["y"] + 4, steps=2)
        assert float(slider(page).input_value()) == pytest.approx(moment, abs=1)
        assert summary(page).startswith(f"At {slider(page).input_value()} µs: ")
    page.mouse.up()
    page.mouse.move(picture["x"], picture["y"])
    assert float(slider(page).input_value()) == pytest.approx(20, abs=1), "it was let go"
    assert page.get_by_label("Program", exact=True).input_value() == "", "and that was no click"


def test_a_finger_drags_the_moment(open_page):
    page = open_page(viewport={"width": 390, "height": 740}, has_touch=True, is_mobile=True)
    finger = page.context.new_cdp_session(page)
    picture = page.locator("svg.schedule").bounding_box()
    touch = lambda kind, *points: finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": list(points)})
    y, end = picture["y"] + 4, float(slider(page).get_attribute("max"))
    touch("touchStart", {"x": picture["x"] + 20, "y": y})
    for step in range(1, 11):
        touch("touchMove", {"x": picture["x"] + 20 + 10 * step, "y": y})
    touch("touchEnd")
    assert float(slider(page).input_value()) == pytest.approx(120 / picture["width"] * end, abs=1)


def test_plays_to_the_end_and_can_be_stopped(page):
    button, elapse = page.get_by_role("button"), by_hand(page)
    choose(page, "one more")  # 5 seconds long
    at(page, 10)
    button.click()
    elapse(1000)
    assert 12 < float(slider(page).input_value()) < 100
    assert page.locator("output").first.get_attribute("aria-live") == "off"
    assert button.inner_text() == "Stop"
    button.click()
    stopped = summary(page)
    elapse(1000)
    assert summary(page) == stopped and button.inner_text() == "Play"
    at(page, 195)
    button.click()
    elapse(6000)
    assert summary(page) == "At 200 µs: all have ended." and button.inner_text() == "Play"
    button.click()
    elapse(1000)
    assert float(slider(page).input_value()) < 100, "begins anew"
    slider(page).focus()
    page.keyboard.press("ArrowRight")
    assert button.inner_text() == "Play", "who takes the slider stops it"


def test_nothing_plays_under_reduced_motion(open_page):
    page = open_page(reduced_motion="reduce")
    assert not page.get_by_text("Play").is_visible()
    at(page, 50)
    assert summary(page).startswith("At 50 µs: 2 programs")


# Its state


def test_address_keeps_the_state(open_page):
    page = open_page("?q=1")
    assert query(page) == "?q=1"
    steps = page.evaluate("history.length")
    choose(page, "one more")
    at(page, 150)
    page.get_by_label("Program", exact=True).fill("4")
    assert query(page) == "?q=1&schedule.launch=1&schedule.time=150&schedule.program=4"
    assert page.evaluate("history.length") == steps, "a change must add no step to go back"
    again = open_page(query(page))
    assert (summary(again), detail(again), displayed(again)) == (summary(page), detail(page), ["one more"])
    choose(again, "few")
    at(again, 0)
    assert query(again) == "?q=1&schedule.program=4", "the first state needs no parameter"


def test_address_may_hold_anything(open_page):
    page = open_page("?schedule.launch=<b>&schedule.time=1e9&schedule.program=-3&schedule.id=5")
    assert displayed(page) == ["few"]
    assert summary(page).endswith("all have ended.")
    assert detail(page).startswith("Choose a program")
    page = open_page("?schedule.launch=9&schedule.time=x")
    assert displayed(page) == ["shared"] and summary(page).startswith("At 0 µs: ")


def test_moving_or_copying_the_element_keeps_it_working(page):
    choose(page, "one more")
    move_and_copy(page, "schedule-explorer")
    copy = page.locator("#copy")
    slider(copy).fill("150")
    assert summary(page, "#copy") == "At 150 µs: 1 program on 1 SM, 0 waiting; idle: 3 SMs."
    assert summary(page, "#schedule").startswith("At 0 µs: ")
    assert page.locator("#schedule button").count() == copy.locator("button").count() == 1


# Who can use it


def test_keyboard_alone_suffices(page):
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.get_by_role("button").inner_text() == "Stop"
    page.keyboard.press(" ")
    assert page.get_by_role("button").inner_text() == "Play"
    page.keyboard.press("Tab")
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    assert displayed(page) == ["shared"]
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    assert summary(page).endswith("all have ended.")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Home")
    assert summary(page) == "At 0 µs: 4 programs on 2 SMs, 1 waiting; idle: 2 SMs."
    page.keyboard.press("Tab")
    page.keyboard.press("2")
    assert detail(page).startswith("Program 2 ran on SM 0 from 0 to 50 µs")
    page.evaluate("window.stayed = true")
    page.keyboard.press("Enter")
    page.wait_for_timeout(200)
    assert page.evaluate("window.stayed"), "Enter leads nowhere"


def test_without_javascript_the_first_state_stands(open_page):
    page = open_page(java_script_enabled=False)
    assert page.get_by_role("img", name="few: 2 programs on 2 of 4 SMs").is_visible()
    assert page.locator(".schedule__about").inner_text().startswith("2 programs on 2 of 4 SMs")
    assert displayed(page) == ["few"] and not page.locator(".schedule__plot i").filter(visible=True).count()
    assert not page.locator("button, input, output").filter(visible=True).count()
    page.locator("summary").click()
    assert page.get_by_role("cell", name="one more").is_visible()


@pytest.mark.parametrize("state", ["", "?schedule.launch=2&schedule.time=60&schedule.program=1"])
@pytest.mark.parametrize("scheme", ["default", "slate"])
def test_no_axe_violation(open_page, scheme, state):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = open_page(state)
    in_scheme(page, scheme)
    page.locator("summary").click()
    results = axe.run(page, options={"rules": {"target-size": {"enabled": True}}})
    assert results.violations_count == 0, results.generate_report()


@pytest.mark.parametrize("state", ["", "?schedule.launch=2&schedule.program=1"])
def test_fits_on_a_phone(open_page, state):
    page = open_page(state, viewport={"width": 360, "height": 700}, has_touch=True, is_mobile=True)
    page.locator("summary").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    heights = page.locator("button, input").evaluate_all("all => all.map(e => e.getBoundingClientRect().height)")
    assert min(heights) >= 36
    page.locator("svg.schedule").tap(position={"x": 20, "y": 2})
    assert "ran on SM 0" in detail(page)


@pytest.mark.parametrize("width, height", [(1280, 800), (390, 740)])
def test_picture_and_controls_fit_one_screen(open_site, site, width, height):
    page = open_site(f"{site.url}gpu/schedule/", viewport={"width": width, "height": height})
    first = page.get_by_role("button", name="Play").bounding_box()
    picture = page.locator("svg.schedule").bounding_box()
    assert first["y"] + first["height"] < height, "on the first screen of its lesson"
    assert picture["y"] + (picture["height"] if width > 1000 else 80) < height, "with the picture"
    header = page.locator(".md-header").bounding_box()["height"]
    for launch in range(6):
        programs(page).fill(str(launch))
        at(page, 20)
        names = ".schedule__controls", "svg.schedule", "[name=time]", ".explorer__summary"
        parts = [page.locator(f"schedule-explorer {name}").bounding_box() for name in names]
        assert max(part["y"] + part["height"] for part in parts) - min(part["y"] for part in parts) <= height - header


def test_says_of_the_lesson_what_was_recorded(open_site, site):
    page = open_site(f"{site.url}gpu/schedule/")
    recorded = recording.load(find("gpu/schedule"), "h200")
    rows = recorded.benchmark("schedule_wave_and_a_bit", "sm", "begin", "end").medians().values()
    times = [(round(row.begin, 1), round(row.end, 1)) for row in rows]  # as the page lists them
    assert slider(page).input_value() == "0" and programs(page).get_attribute("aria-valuetext").startswith("148 ")
    for moment in (0, 50, 101, 150, 201, 210):
        at(page, moment)
        on = sum(begin <= moment < end for begin, end in times)
        waiting = sum(begin > moment for begin, _ in times)
        if on or waiting:
            assert re.match(rf"At {moment} µs: {on} programs? on \d+ SMs?, {waiting} waiting; ", summary(page))
        else:
            assert summary(page) == f"At {moment} µs: all have ended."
