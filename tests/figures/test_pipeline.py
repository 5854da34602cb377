# SPDX-License-Identifier: Apache-2.0
"""``<pipeline-explorer>``: bars stand where the clock says, the tank holds what was recorded; everybody can use it."""

import re

import pytest
from msgspec.structs import replace

from figures import pipeline
from recorder import recording
from recorder.project import RecorderError, find
from recorder.recording import Benchmark, Reading
from tests.accessibility import assert_accessible
from tests.figures.explorer_support import page_with

MEASURED = recording.load(find("matmul/persistent_measured"), "h200")
LOAD, MULTIPLY, STORE = 1500, 600, 1000  # ns
REFUSED = "out of resource: shared memory, Required: 278000, Hardware limit: 232448. Reducing `num_stages` may help."
OUTPUT = f"""## room
num_stages=1: 82000 bytes of shared memory
num_stages=2: 131000 bytes of shared memory
num_stages=3: 180000 bytes of shared memory
num_stages=4: 229000 bytes of shared memory
num_stages=5: {REFUSED}
num_stages=6: {REFUSED}
## exact
"""
GROUPS = {"waiting": "One after another", "turns": "Taking turns"}
NAMES = {"stages_3": "A program for each tile", "one_loop": "One program"}


def steps(stages: int, asked: list[float], start: float, number: int = 16) -> list[tuple]:
    """Return steps whose loads are begun as soon as a buffer is free, and the store."""
    asked, rows, now = list(asked), [], start
    for i in range(number):
        begins = max(now, asked[i] + LOAD)
        rows.append((asked[i], now, begins, begins + MULTIPLY))
        now = begins + MULTIPLY
        asked.append(now)
    return [*rows, (now, now, now, now + STORE)]


def table(name: str, rows: dict, lines=pipeline.LINES) -> Benchmark:
    readings = [
        Reading(x=[*x], y=dict(zip(lines, map(lambda v: [float(v)], y), strict=True))) for x, y in rows.items()
    ]
    names = ["tile", "step"][-len(next(iter(rows))) :]
    return Benchmark(
        name=name, x=names, xlabel="step", ylabel="ns", lines={line: line for line in lines}, rows=readings
    )


def two(second_asked) -> dict:
    first = steps(3, [-LOAD] * 3, 0)
    end = first[-1][-1]
    second = steps(3, second_asked(first, end), end)
    return {(tile, i): row for tile, rows in enumerate((first, second)) for i, row in enumerate(rows)}


TABLES = [
    *(table(f"stages_{n}", {(i,): row for i, row in enumerate(steps(n, [0] * n, 0))}) for n in (1, 2, 3, 4)),
    table("one_loop", two(lambda first, end: [step[3] for step in first[-4:-1]])),
]
ONE = table("one_loop", {(0, i): row for i, row in enumerate(steps(3, [0] * 3, 0))})
RECORDED = replace(MEASURED, snippet="matmul/pipeline_clock", output=OUTPUT, benchmarks=TABLES)
# Two groups of two steps: scores take 300 ns, exponentials 400, values 300.
APART = {(g, i): (b, b + 300, b + 700, b + 700, b + 1000) for g in (0, 1) for i in (0, 1) for b in [1000 * i]}
AT_ONCE = {(g, i): (b, b + 300, b + 700, b, b + 700) for g in (0, 1) for i in (0, 1) for b in [300 * g + 700 * i]}
CLOCKED = replace(
    RECORDED,
    benchmarks=[table("waiting", APART, pipeline.OVERLAPPED), table("turns", AT_ONCE, pipeline.OVERLAPPED)],
)


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    overlap = pipeline.overlap(CLOCKED, names=GROUPS)
    parts = pipeline.pipeline(RECORDED), pipeline.handover(RECORDED, names=NAMES), overlap
    with page_with(tmp_path_factory.mktemp("pipeline"), "pipeline", *parts) as url:
        yield url


@pytest.fixture
def open_page(open_site, url):
    return lambda query="", **options: open_site(url + query, **{"reduced_motion": "reduce"} | options)


def said(page, of="pipeline") -> list[str]:
    return page.locator(f"#{of} output").text_content().split("\n")


def bars(drawn) -> list[tuple[str, float, float]]:
    """Return kind, begin and end of each bar in a picture, lane by lane."""
    found = re.findall(r'class="lanes__(\w+) pid-\d" style="--b: (-?\d+); --e: (\d+)"', drawn)
    return [(kind, int(begin), int(end)) for kind, begin, end in found]


def choose(page, stages):
    page.locator(f"#pipeline [name=stages][value='{stages}']").evaluate("it => it.click()")


def tank(page) -> list[str]:
    buffers = page.locator(".tank__buffer:visible")
    return buffers.evaluate_all("all => all.map(it => it.dataset.holds)")


# What is drawn


def test_bars_stand_where_the_clock_says():
    launch = pipeline.launch_of(2, pipeline.read(RECORDED.benchmark("stages_2")), window=10_000)
    first, second, unit = launch.lanes
    assert [(bar.kind, bar.begin, bar.end) for bar in first.bars[:3]] == [
        ("asked", 0, LOAD), ("multiplied", LOAD, LOAD + MULTIPLY), ("asked", LOAD + MULTIPLY, 2 * LOAD + MULTIPLY),
    ]  # fmt: skip
    assert (second.bars[1].begin, second.bars[1].end) == (2100, 2700), "after the first one, for there is one unit"
    assert [bar.label for bar in unit.bars if bar.kind == "multiplied"][:3] == ["1", "2", "3"]
    assert all(a.end <= b.begin for a, b in zip(unit.bars, unit.bars[1:], strict=False))


def test_all_stages_share_one_window():
    drawn = pipeline.pipeline(RECORDED)
    (window,) = re.findall(r"--window: (\d+)", drawn)
    assert max(end for _, _, end in bars(drawn)) <= int(window)
    assert "3 stages: in" in drawn and re.search(r"<b>671</b>", drawn), "the rates are those of persistent_measured"


def test_the_tank_is_to_scale_and_the_last_buffer_is_beyond_its_rim():
    held = pipeline.Tank(pipeline.read_rooms(OUTPUT))
    assert (held.limit, held.stage, held.stages) == (232448, 49000, 5)
    assert held.rest == 229000 - 4 * 49000
    assert held.share(held.rest + 4 * held.stage) < 1 < held.share(held.rest + 5 * held.stage)
    assert REFUSED in pipeline.pipeline(RECORDED).unescape()


def test_between_two_tiles():
    each, loop = (pipeline.Cut(name, *pipeline.read_pair(RECORDED.benchmark(name))) for name in NAMES)
    assert each.apart and not loop.apart
    assert each.gap == STORE + LOAD and loop.gap == STORE, "where all runs on, the loads have come in the meantime"
    for cut in (each, loop):
        launch = cut.launch(20_000)
        unit, store, *buffers = launch.lanes
        assert unit.name == "matrix unit" and store.bars[0].tile == 0 and len(buffers) == 3
        steps = [bar for bar in unit.bars if bar.kind == "multiplied"]
        assert [bar.tile for bar in steps] == [0] * 5 + [1] * 5, "each tile has its color"
        assert (launch.gap.begin, launch.gap.end) == (steps[4].end, steps[5].begin)
    asked = [
        bar.begin for lane in loop.launch(20_000).lanes[2:] for bar in lane.bars if bar.kind == "asked" and bar.tile
    ]
    assert min(asked) < loop.launch(20_000).gap.begin, "of the next tile, while this one is multiplied"


def test_products_and_softmax_of_two_groups():
    tables = {name: CLOCKED.benchmark(name).medians() for name in GROUPS}
    waiting, turns = (pipeline.Overlap(name, rows, 1500) for name, rows in tables.items())
    products, softmax, *_ = waiting.launch.lanes
    assert [lane.name for lane in waiting.launch.lanes] == ["products 0", "softmax 0", "products 1", "softmax 1"]
    assert [(bar.begin, bar.end) for bar in products.bars] == [(0, 300), (700, 1000), (1000, 1300)]
    assert [(bar.begin, bar.end) for bar in softmax.bars] == [(300, 700), (1300, 1500)], "cut at the edge"
    assert (waiting.steps, waiting.flying, waiting.both) == (1, 900 / 1500, 0), "both groups do the same at once"
    assert [bar.tile for lane in turns.launch.lanes for bar in lane.bars[:1]] == [0, 0, 1, 1]
    assert [(bar.begin, bar.end) for bar in turns.launch.lanes[0].bars[:2]] == [(0, 300), (300, 700)]
    assert turns.flying == 1 and turns.both == 1200 / 1500, "a product is in flight during a softmax"


@pytest.mark.parametrize(
    "draw, error",
    [
        (
            lambda: pipeline.pipeline(replace(RECORDED, output="## room\nnum_stages=1: 5 bytes of shared memory")),
            "room",
        ),
        (lambda: pipeline.pipeline(RECORDED, of="nothing"), "no benchmark"),
        (lambda: pipeline.handover(RECORDED, names=["each_tile"]), "names must map"),
        (lambda: pipeline.overlap(CLOCKED), "names must map"),
        (
            lambda: pipeline.handover(replace(RECORDED, benchmarks=[ONE]), names={"one_loop": "one"}),
            "must have two tiles",
        ),
    ],
)
def test_refuses(draw, error):
    with pytest.raises(RecorderError, match=error):
        draw()


# What moves


def test_counts_what_was_multiplied_until_then(open_page):
    page = open_page("?pipeline.stages=1&pipeline.time=4200")
    assert said(page) == ["1 stage: after 4.2 µs, 2 steps multiplied; waited 71% of the time."]
    choose(page, 3)
    assert said(page)[0].startswith("3 stages: after 4.2 µs, 4 steps")
    assert "pipeline.stages=3" not in page.evaluate("location.search"), "it is the first"


def test_the_tank_shows_what_each_buffer_holds(open_page):
    page = open_page("?pipeline.stages=2&pipeline.time=1800")
    assert tank(page) == ["multiplied", "asked"]
    choose(page, 5)
    assert tank(page) == ["nothing"] * 5
    assert page.locator(".tank--over").count() == 1
    assert page.get_by_text("Hardware limit: 232448").is_visible()
    assert said(page) == ["5 stages do not fit: the launch is refused."]


def test_who_drags_in_the_tank_chooses_stages(open_page):
    page = open_page(viewport={"width": 1000, "height": 900})
    box = page.locator(".tank__walls").bounding_box()
    x, bottom, high = box["x"] + box["width"] / 2, box["y"] + box["height"] - 2, box["height"] / 232448
    page.mouse.move(x, bottom - (33000 + 30000) * high)
    page.mouse.down()
    assert len(tank(page)) == 1
    page.mouse.move(x, bottom - (33000 + 3.5 * 49000) * high)
    assert len(tank(page)) == 4
    page.mouse.up()


def test_bars_are_buttons_for_keys(open_page):
    page = open_page()
    page.get_by_role("radio", name="671").focus()
    page.keyboard.press("ArrowRight")
    assert said(page)[0].startswith("4 stages:")
    page.keyboard.press("ArrowRight")
    assert "do not fit" in said(page)[0]


def test_both_kernels_are_said(open_page):
    page = open_page()
    first, second = said(page, "handover")
    assert first == "A program for each tile: between two tiles the matrix unit is idle for at least 2.5 µs."
    assert second.startswith("One program: between two tiles the matrix unit is idle for 1.0 µs")


def test_what_two_groups_do_is_said(open_page):
    page = open_page("?overlap.time=700")
    assert said(page, "overlap") == ["One after another: 2 products finished", "Taking turns: 3 products finished"]
    first, second = said(open_page(), "overlap")
    assert first.startswith("One after another: ") and first.endswith("a product in flight 60% of the time")
    assert second == "Taking turns: 2 steps of each group in 2 µs, a product in flight 85% of the time"


def test_the_gap_is_named_above_the_matrix_unit(open_page):
    for width in (1000, 360):
        page = open_page(viewport={"width": width, "height": 900})
        named = page.locator("#handover .lanes__gap b")
        assert named.all_inner_texts() == ["idle ≥ 2.5 µs", "idle 1.0 µs"]
        for name, gap in zip(named.all(), page.locator("#handover .lanes__idle").all(), strict=True):
            over, under, words = name.bounding_box(), gap.bounding_box(), name.locator("span").bounding_box()
            assert abs(over["x"] - under["x"]) < 1 and abs(over["width"] - under["width"]) < 2
            assert words["y"] + words["height"] < over["y"]
        tops = "all => all.map(it => getComputedStyle(it, '::after').top)"
        lines = page.locator("#handover .lanes").evaluate_all(tops)
        assert lines == ["23px"] * 2, "the line at the moment begins below it"


def test_begins_as_it_stands_without_a_script(open_page):
    shown = ".pipeline .lanes:visible"
    for enabled in (False, True):
        page = open_page(java_script_enabled=enabled)
        (launch,) = page.locator(shown).evaluate_all("all => all.map(it => it.dataset.launch)") if enabled else ["3"]
        assert launch == "3" and page.locator(shown).count() == 1
        assert page.locator(".tank__buffer:visible").count() == 3


@pytest.mark.parametrize("stages", [3, 5])
def test_no_axe_violation(open_page, stages):
    page = open_page(f"?pipeline.stages={stages}&pipeline.time=3000")
    assert_accessible(page)


def test_fits_a_phone(open_page):
    page = open_page(viewport={"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
