# SPDX-License-Identifier: Apache-2.0
"""``<waves-explorer>``: which tiles are done and who is at work is what was recorded, and everybody can use it."""

import re

import pytest
from msgspec.structs import replace

from figures.waves import order, read_launch, waves
from recorder import recording
from recorder.project import RecorderError, find
from tests.accessibility import assert_accessible
from tests.figures.explorer_support import by_hand, page_with
from tests.toy import made

RECORDED = recording.load(find("matmul/grouped_counted"), "h200")
NAMES = ["schedule_groups_of_8", "schedule_row_major"]
ROWS = {name: RECORDED.benchmark(name, "sm", "begin", "end").medians() for name in NAMES}
SIDE = 22


def drawn(**options):
    return waves(RECORDED, **{"names": NAMES, "memory": 8192, **options})


def tiles(name: str) -> list[tuple[int, int]]:
    return order(SIDE, SIDE, 8 if name == NAMES[0] else 1)


def test_order_is_that_of_the_snippets_model():
    grouped = pytest.importorskip("snippets.matmul.grouped", exc_type=ImportError)
    for rows, columns, group in ((1, 1, 1), (3, 7, 2), (22, 22, 8), (22, 22, 1), (9, 4, 5), (4, 4, 9)):
        assert order(rows, columns, group) == grouped.tile_order(rows, columns, group)


def resting_time(page: str) -> float:
    return float(re.search(r'name="time"[^>]* value="([\d.]+)"', page)[1])


def reads(name: str, time: float) -> tuple[int, int]:
    """Return how many rows and how many columns of tiles the programs that run then read."""
    running = [tile for tile, row in zip(tiles(name), ROWS[name].values(), strict=True) if row.begin <= time < row.end]
    return len({row for row, _ in running}), len({column for _, column in running})


def test_rests_where_groups_read_least_beside_row_major():
    page = str(drawn())
    time = resting_time(page)
    assert resting_time(str(drawn(compact=True, memory=None))) == time, "on the front page as well"
    grouped, row_major = (reads(name, time) for name in NAMES)
    assert sum(grouped) < sum(row_major)
    gains = [sum(reads(NAMES[1], when)) - sum(reads(NAMES[0], when)) for when in (26, 81, 137, time)]
    assert gains[3] > gains[0] > 0 > max(gains[1:3]), "the page says in which waves groups read more"
    assert f"at work on {grouped[0]} rows of A and {grouped[1]} columns of B" in page
    assert f"{grouped[0]} rows of A + {grouped[1]} columns of B</b>" in page


def test_rests_as_it_was_recorded():
    page = str(drawn())
    time = resting_time(page)
    begins_and_ends = [(row.begin, row.end) for row in ROWS[NAMES[0]].values()]
    running, done = (sum(map(test, begins_and_ends)) for test in
                     (lambda p: p[0] <= time < p[1], lambda p: p[1] <= time))  # fmt: skip
    assert (running, done) == (88, 396), "nobody begins or ends just then"
    matrix, machine = (re.findall(r'<i class="([^"]*)"', part.split("</div>")[0]) for part in
                       (page.split('"cells matrix"')[1], page.split('"cells machine"')[1]))  # fmt: skip
    assert len(matrix) == 484 and matrix.count("wait") == 0 and matrix.count("pid-3 on") == 88
    assert machine.count("pid-3 on") == 88 and len(machine) == 132
    assert "88 programs at work on 6 rows of A and 15 columns of B, 396 done, 0 waiting." in page


def test_counters_are_those_of_the_recording():
    text = re.sub(r"<.*?>|\s", "", str(drawn()))
    for group, label in ((8, "Groupsof8rows"), (1, "Row-major")):
        gb = RECORDED.benchmark("memory_8192").medians()[group].memory
        hits = RECORDED.benchmark("hits_8192").medians()[group].answered
        assert f"{label}{gb:.1f}GB" in text and f"{hits:.0f}%ofallrequestsin{label.lower()}" in text
    assert "8rows+17columns" in text and "3rows+64columns" in text
    assert "GB" not in drawn(memory=None)


def test_it_says_what_it_was_recorded_on():
    assert "Recorded on an NVIDIA H200:" in drawn()


def test_in_its_compact_form_it_is_light():
    page = drawn(compact=True, memory=None)
    assert len(page) < 30_000 and "time-bar" in page and "<details" not in page and "radio" not in page


def test_refuses_what_is_no_square_of_tiles():
    with pytest.raises(RecorderError, match="must have a program for each tile of a square"):
        waves(made("h200"), names=["schedule_few"])
    with pytest.raises(RecorderError, match="names must list"):
        waves(RECORDED, names="schedule_row_major")
    twice = replace(RECORDED.benchmark(NAMES[0]), rows=RECORDED.benchmark(NAMES[0]).rows[:4])
    assert read_launch(replace(RECORDED, benchmarks=[twice]), NAMES[0]).tiles == [0, 2, 1, 3]


# What it shows


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    both = drawn(), drawn(compact=True, memory=None, id="small")
    with page_with(tmp_path_factory.mktemp("waves"), "waves", *both) as url:
        yield url


@pytest.fixture
def open_page(open_site, url):
    return lambda query="", **options: open_site(url + query, **options)


@pytest.fixture
def page(open_page):
    return open_page(reduced_motion="reduce")


def cells(page, kind) -> list[str]:
    return page.locator(f"#waves .{kind} i").evaluate_all("all => all.map(cell => cell.className)")


def at(page, moment):
    page.locator("#waves input[name=time]").fill(str(moment))


def detail(page) -> str:
    return page.locator("#waves .explorer__detail").inner_text()


@pytest.mark.parametrize("number", [0, 1])
def test_every_moment_is_as_recorded(page, number):
    name = NAMES[number]
    page.locator("#waves .waves__orders label").nth(number).click()
    for moment in (0, 0.5, 30, 52.5, 60, 110, 140, 165, 200, 217):
        at(page, moment)
        matrix, machine, work = cells(page, "matrix"), cells(page, "machine"), set()
        for (row, column), program in zip(tiles(name), ROWS[name].values(), strict=True):
            begin, end = round(program.begin, 1), round(program.end, 1)
            cell = matrix[row * SIDE + column]
            assert cell.split()[-1] == ("wait" if moment < begin else "done" if moment >= end else "on"), (moment, row)
            if begin <= moment < end:
                work.add(int(program.sm))
        assert {sm for sm, cell in enumerate(machine) if cell != "off"} == work
        assert page.locator("#waves .waves strong").all_inner_texts() == [
            str(sum(cell.endswith("done") for cell in matrix)), str(len(work)),
        ]  # fmt: skip


def test_a_program_by_its_tile_by_its_multiprocessor_and_by_its_number(page):
    page.locator("#waves .matrix i").nth(SIDE + 3).click()
    number = tiles(NAMES[0]).index((1, 3))
    sm = int(ROWS[NAMES[0]][number].sm)
    place = f"the tile in row 1, column 3, on multiprocessor {sm}, from "
    assert detail(page).startswith(f"Program {number} computes {place}")
    assert page.locator("#waves .machine i").nth(sm).get_attribute("data-here") == ""
    assert page.evaluate("location.search") == f"?waves.program={number}"
    page.locator("#waves .machine i").nth(7).click()
    assert "on multiprocessor 7, " in detail(page)
    page.locator("#waves summary", has_text="More").click()
    page.get_by_label("Program", exact=True).fill("483")
    assert detail(page).startswith("Program 483 ")


def test_the_orders_stand_beside_the_picture_and_say_what_is_read(page):
    orders, picture = (page.locator(f"#waves .{name}") for name in ("waves__orders", "waves"))
    assert orders.locator("strong").all_inner_texts() == ["1.7 GB", "4.4 GB"]
    assert orders.bounding_box()["y"] < picture.bounding_box()["y"] + 50, "on the first screen"
    reads = page.locator(".waves__reads").first
    assert reads.inner_text() == "6 rows of A + 15 columns of B"
    drawn = lambda: [page.locator(f"#waves .waves__{matrix} > .on").count() for matrix in "ab"]
    assert drawn() == [6, 15]
    orders.get_by_role("radio", name="Row-major").check()
    assert reads.inner_text() == "4 rows of A + 22 columns of B" and drawn() == [4, 22], "more, at the same moment"


def test_plays_steps_and_the_order_can_be_changed_meanwhile(open_page):
    page = open_page("?waves.time=10")
    elapse, bar = by_hand(page), page.locator("#waves .time-bar")
    bar.get_by_role("button", name="Play").click()
    elapse(2000)
    before = float(bar.get_by_role("slider").input_value())
    assert 40 < before < 80
    page.locator("#waves label", has_text="Row-major").click()
    elapse(1000)
    assert float(bar.get_by_role("slider").input_value()) > before, "it goes on"
    bar.get_by_role("button", name="Pause").click()
    at(page, 0)
    for _ in range(3):
        bar.get_by_role("button", name="Step").click()
    assert 50 < float(bar.get_by_role("slider").input_value()) < 85, "from wave to wave, and to the middle of each"


def test_play_shows_all_after_it_came_to_rest_by_itself_and_goes_on_from_where_a_reader_is(open_page):
    page = open_page("?waves.program=20", reduced_motion="no-preference")
    elapse, waves = by_hand(page), page.locator("#waves")
    play, pause = (waves.get_by_role("button", name=name) for name in ("Play", "Pause"))
    moment = lambda: float(waves.locator("input[name=time]").input_value())
    rest = moment()
    play.click()
    elapse(100)
    assert moment() < 10, "from the frame on which it stands when the page comes"
    pause.click()
    before = moment()
    play.click()
    elapse(500)
    assert before < moment() < 40
    at(page, rest)
    play.click()
    elapse(100)
    assert moment() >= rest, "a reader dragged it to there"
    waves.evaluate("it => it.bar.again()")
    elapse(20_000)
    assert moment() == rest, "it came into view, and played"
    play.click()
    elapse(100)
    assert moment() < 10


def test_what_changes_in_each_frame_keeps_its_text_node_and_its_place(page):
    """Or the browser lays out hundreds of cells thirty times a second."""
    texts, counters = page.locator("#small :is(strong, .time-bar__text)"), page.locator("#small .waves p")
    assert len({round(each.bounding_box()["y"]) for each in counters.all()}) == 1, "at one height"
    before = texts.evaluate_all("all => (window.nodes = all.map(e => e.firstChild)).map(node => node.data)")
    page.locator("#small input[name=time]").fill("3")
    assert texts.evaluate_all("all => all.map(e => e.textContent)") != before
    assert texts.evaluate_all("all => all.every((e, i) => e.firstChild === nodes[i] && !e.childNodes[1])")


def test_without_javascript_the_resting_frame_stands(open_page):
    page = open_page(java_script_enabled=False)
    assert page.get_by_role("img").first.is_visible() and cells(page, "machine").count("pid-3 on") == 88
    assert "on 6 rows of A and 15 columns of B" in page.get_by_role("img").first.get_attribute("aria-label")
    assert not page.locator(":is(button, output, input):visible").count()


def test_what_unfolds_stands_in_one_line_where_there_is_room(open_page):
    for width, beside in ((1280, True), (360, False)):
        page = open_page(viewport={"width": width, "height": 800}, reduced_motion="reduce")
        more, numbers = (page.locator(f"#waves {fold} > summary") for fold in (".explorer__more", ".as-table"))
        a, b = more.bounding_box(), numbers.bounding_box()
        assert (abs(a["y"] - b["y"]) < 2) == beside
        assert a["x"] + a["width"] < b["x"] or a["y"] + a["height"] <= b["y"], "neither covers the other"
        more.click()
        opened = page.locator("#waves .explorer__more").bounding_box()
        assert numbers.bounding_box()["y"] >= opened["y"] + opened["height"], "below what is open"


def test_no_axe_violation(open_page):
    page = open_page("?waves.program=20", reduced_motion="reduce")
    for fold in page.locator("summary").all():
        fold.click()
    assert_accessible(page)


def test_fits_on_a_phone(open_page):
    page = open_page(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True, reduced_motion="reduce")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    picture, bar = (page.locator(f"#waves .{name}").first.bounding_box() for name in ("waves", "time-bar"))
    assert picture["height"] + bar["height"] < 400
    sticks = lambda page: page.locator("#waves .time-bar").evaluate("it => getComputedStyle(it).position") == "sticky"
    assert not sticks(page), "it would cover a part of what the screen shows whole"
    assert sticks(open_page(viewport={"width": 360, "height": 300}, reduced_motion="reduce"))
    parts = page.locator("#waves :is(button, label):visible")
    assert min(parts.evaluate_all("all => all.map(e => e.offsetHeight)")) >= 40
