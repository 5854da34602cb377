# SPDX-License-Identifier: Apache-2.0
"""``<online-softmax>``: it begins as recorded, computes as the kernel does, and everybody can use it."""

import math
import random

import pytest
from msgspec.structs import replace

from figures import online
from figures.online_softmax import Run, online_softmax
from recorder import printed, recording
from recorder.project import RecorderError, find
from tests.accessibility import assert_accessible
from tests.figures.explorer_support import move_and_copy

RECORDED = recording.load(find("fusion/attention_tiles"), "cpu")
SECTION = "online softmax"
RUN = Run(SECTION, printed.sections(RECORDED.output)[SECTION])
ROW = recording.load(find("fusion/long_softmax_blocks"), "cpu")  # with shares instead of values
BLOCKS = Run(SECTION, printed.sections(ROW.output)[SECTION])
SHOWN = (
    "online_softmax",
    online_softmax(RECORDED),
    online_softmax(RECORDED, id="other"),
    online_softmax(ROW, id="row"),
)


def sentence(page, of="online") -> str:
    return page.locator(f"#{of} .explorer__summary").inner_text()


def row(page, name, of="online") -> str:
    return page.locator(f"#{of} [data-of={name}] dd").inner_text()


def button(page, name):
    return page.locator("#online").get_by_role("button", name=name)


def query(page) -> str:
    return page.evaluate("location.search")


def to(page, of="online", **fields):
    for name, value in fields.items():
        page.locator(f"#{of}").evaluate(
            "(it, [name, value]) => { it.form.elements[name].value = value; it.update() }", [name, value]
        )


def computed(page, asked: list) -> list:
    return page.evaluate(
        "async all => { const it = await import('/figures/online.js'); return all.map(a => it.at(a)) }", asked
    )


# What it computes is what the kernel computes


def test_the_states_after_each_tile_are_those_that_the_run_printed(page):
    asked = [{"scores": RUN.scores, "values": RUN.values, "tile": 4, "moment": 4 * i} for i in (1, 2, 3)]
    for results, wanted in zip(computed(page, asked), RUN.states, strict=True):
        assert [f"{results['sum']:.4f}", f"{results['accumulator']:.4f}"] == [wanted.sum, wanted.accumulator]
        assert str(results["maximum"]) == wanted.maximum and results["part"] == "add"
    assert RUN.states[-1].result == f"{printed.numbers(RECORDED.output)['torch']:.4f}"


def test_every_moment_is_online_softmax(page):
    draw, asked = random.Random(0), []
    for _ in range(40):
        tile = draw.choice([2, 4, 12])
        scores, values = ([draw.randint(0, 8) for _ in range(12)] for _ in range(2))
        asked.append({"scores": scores, "values": values, "tile": tile, "moment": draw.randint(0, 4 * 12 // tile + 1)})
    for a, results in zip(asked, computed(page, asked), strict=True):
        tiles, part = divmod(a["moment"], 4)
        ended = a["moment"] > 4 * 12 // a["tile"]
        if ended:
            tiles, part = 12 // a["tile"], 0
        seen = a["scores"][: (tiles + (part >= 2)) * a["tile"]]
        added = a["scores"][: tiles * a["tile"]]
        maximum = max(seen, default=None)
        old = maximum if part == 3 or not part else max(added, default=None)  # to which the weights belong
        assert results["maximum"] == (-math.inf if maximum is None else maximum)
        weights = [math.exp(score - old) for score in added]
        assert math.isclose(results["sum"], sum(weights))
        assert math.isclose(results["accumulator"], sum(w * v for w, v in zip(weights, a["values"], strict=False)))
        assert (results["part"] == "end") == ended


def test_python_computes_what_the_script_computes(page):
    asked = [{"scores": RUN.scores, "values": RUN.values, "tile": 4, "moment": moment} for moment in range(14)]
    for a, results in zip(asked, computed(page, asked), strict=True):
        now = online.at(RUN.scores, RUN.values, 4, a["moment"])
        assert (now.part, now.tile, now.maximum) == (results["part"], results["tile"], results["maximum"])
        assert math.isclose(now.sum, results["sum"]) and math.isclose(now.accumulator, results["accumulator"])


def test_without_a_script_it_stands_where_old_sums_are_rescaled(open_page):
    page = open_page(java_script_enabled=False)
    assert row(page, "sum") == "1.5530 · 0.1353 = 0.2102" and row(page, "maximum") == "5"
    scores = page.locator("#online .online__scores .online__number").all_inner_texts()
    assert scores == [str(score) for score in RUN.scores]
    assert not page.locator("#online :is(button, output, fieldset):visible").count()
    page.locator("#online summary").click()
    cells = page.locator("#online tbody tr").all_inner_texts()
    assert [line.split() for line in cells] == [[str(s.seen), s.maximum, s.sum, s.accumulator] for s in RUN.states]


def test_with_a_script_it_begins_alike(open_page):
    look = lambda page, of: [
        page.locator(f"#{of} .online").inner_text().replace(", drag one", ""),
        page.locator(f"#{of} i").evaluate_all("all => all.map(i => i.style.getPropertyValue('--weight'))"),
        page.locator(f"#{of} .online").evaluate("it => it.style.getPropertyValue('--maximum')"),
        page.locator(f"#{of} [data-column]").evaluate_all("all => all.map(it => it.dataset.state)"),
    ]
    page, bare = open_page(), open_page(java_script_enabled=False)
    for of in ("online", "row"):
        assert look(page, of) == look(bare, of)


def test_says_what_it_cannot_draw():
    text = RECORDED.output
    for changed, fragment in [
        (text.replace("## online", "## offline"), "no section 'online softmax'"),
        (text.replace("after 8, sum", "after 8, total"), "must have states"),
        (text.replace("after 8", "after 7"), "a state after each tile"),
        (text.replace("values: 1 ", "values: "), "as many scores as values"),
        (text.replace("values: ", "value: "), "as many scores as values"),
        (text.replace("scores: 1", "scores: 9"), "beyond 0 to 8"),
    ]:
        with pytest.raises(RecorderError, match=fragment):
            online_softmax(replace(RECORDED, output=changed))


# What it shows


def test_rests_where_old_sums_are_rescaled_and_ends_in_the_result(page):
    assert sentence(page).startswith("The old weights belong to the old maximum") and query(page) == ""
    to(page, moment=13)
    assert sentence(page) == "All tiles have been seen. The accumulator divided by the sum is the result."
    assert button(page, "Step").is_disabled() and button(page, "Back").is_enabled()
    last = RUN.states[-1]
    assert row(page, "result") == f"{last.accumulator} / {last.sum} = {last.result}"


def test_a_long_row_rests_at_the_end_with_both_passes_named_and_every_share_written(open_page):
    wanted = [f"{float(share):.2f}".removeprefix("0") for share in BLOCKS.shares]
    for page in (open_page(), open_page(java_script_enabled=False)):
        assert page.locator("#row .online__shares .online__number").all_inner_texts() == wanted
        assert page.locator("#row .online__title strong").all_inner_texts() == ["Pass 1", "Pass 2"]
        assert page.locator("#row .online__weights .online__number").all_inner_texts()[-1] != ""
        assert row(page, "traffic", "row") == "24 read, 12 written"
        assert row(page, "sum", "row") == BLOCKS.states[-1].sum


def test_a_long_row_is_read_again_and_its_shares_are_written(page):
    for i, state in enumerate(BLOCKS.states, 1):
        to(page, of="row", moment=4 * i)
        assert row(page, "maximum", "row") == state.maximum and row(page, "sum", "row").endswith(f"= {state.sum}")
    assert row(page, "traffic", "row") == "12 read, 0 written"
    to(page, of="row", moment=13)
    assert sentence(page, "row").endswith("Block 1 is loaded again, and its shares are written.")
    assert row(page, "traffic", "row") == "16 read, 4 written"
    to(page, of="row", moment=15)
    shares = page.locator("#row .online__values .online__number").all_inner_texts()
    assert shares == [f"{float(share):.2f}".removeprefix("0") for share in BLOCKS.shares]
    assert row(page, "traffic", "row") == "24 read, 12 written"


def test_the_second_tile_moves_the_maximum_and_rescales(page):
    to(page, moment=4)
    heights = lambda: page.locator("#online i").evaluate_all("a => a.map(i => +i.style.getPropertyValue('--weight'))")
    assert heights()[:5] == [0.1353, 1, 0.3679, 0.0498, 0]
    button(page, "Step").click()
    assert sentence(page) == "Tile 2 arrives, with the scores 2, 5, 4 and 1." and query(page) == "?online.moment=5"
    button(page, "Step").click()
    assert sentence(page) == "Its largest score is 5, so the maximum moves from 3 to 5."
    assert row(page, "maximum") == "3 → 5" and heights()[1] == 1
    button(page, "Step").click()
    said = sentence(page)
    assert said == "The old weights belong to the old maximum, so sum and accumulator are multiplied by 0.1353."
    assert row(page, "sum") == "1.5530 · 0.1353 = 0.2102" and heights()[1] == 0.1353
    button(page, "Step").click()
    assert row(page, "sum") == "0.2102 + 1.4360 = 1.6462" and heights()[5] == 1
    assert page.locator("#online [data-of].online__now dt").all_inner_texts() == ["sum", "accumulator"]
    states = page.locator("#online label[data-column]").evaluate_all("all => all.map(it => it.dataset.state)")
    assert states == ["done"] * 4 + ["now"] * 4 + ["later"] * 4
    to(page, moment=10)
    assert sentence(page) == "Its largest score is 4, so the maximum stays 5."


def test_at_the_beginning_nothing_is_seen(page):
    to(page, moment=0)
    assert "The maximum is −∞" in sentence(page) and row(page, "maximum") == "−∞" and row(page, "sum") == "0.0000"
    assert button(page, "Back").is_disabled() and page.locator("#online .online__maximum").is_hidden()
    to(page, moment=3)
    assert sentence(page) == "There are no old weights yet, so sum and accumulator stay 0."


def test_a_score_is_dragged(page):
    thumb = page.locator("#online input[name=score3]")
    box = thumb.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] - 8)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 4, steps=8)
    page.mouse.up()
    assert thumb.input_value() == "8" and row(page, "maximum") == "8" and query(page) == "?online.score3=8"
    scores = [*RUN.scores[:3], 8, *RUN.scores[4:]]
    weights = [math.exp(score) for score in scores]
    result = sum(w * v for w, v in zip(weights, RUN.values, strict=True)) / sum(weights)
    to(page, moment=13)
    assert row(page, "result").endswith(f"= {result:.4f}")
    button(page, "Reset").click()
    page.wait_for_function("!location.search")
    assert sentence(page).startswith("The old weights")


def test_any_tile_gives_the_same_result(page):
    to(page, moment=13)
    for tile, moments in ((2, 25), (12, 5), (4, 13)):
        page.locator(f"#online label:has(input[name=tile][value='{tile}'])").click()
        assert row(page, "result").endswith("= 6.9656"), "at the end it stays at the end"
        assert page.locator("#online input[name=moment]").input_value() == str(moments)


def test_plays_from_the_beginning_though_it_rests_in_the_middle(open_page):
    page = open_page(reduced_motion="no-preference")
    assert sentence(page).startswith("The old weights")
    button(page, "Play").click()
    page.wait_for_function("document.querySelector('#online output').textContent.startsWith('Tile 1 arrives')")
    assert query(page) == ""


def test_no_motion_where_it_is_not_wanted(page):
    assert button(page, "Play").is_hidden() and button(page, "Back").is_visible()
    assert page.locator("#online i").first.evaluate("it => getComputedStyle(it).transitionDuration") == "0s"


def test_keyboard_alone_reaches_and_works_everything(page):
    page.locator("#online input[name=score0]").focus()
    page.keyboard.press("ArrowUp")
    assert page.locator("#online .online__scores .online__number").first.inner_text() == "2"
    button(page, "Back").focus()
    page.keyboard.press("Enter")
    assert sentence(page) == "Its largest score is 5, so the maximum moves from 3 to 5."
    page.locator("#online input[name=tile]:checked").focus()
    page.keyboard.press("ArrowRight")
    assert "online.tile=12" in query(page)


def test_address_keeps_the_state_and_may_hold_anything(open_page):
    page = open_page("?q=1&online.tile=2&online.moment=20&online.score1=6")
    assert sentence(page).startswith("The weights of the tile") and row(page, "maximum") == "6"
    assert query(page) == "?q=1&online.tile=2&online.moment=20&online.score1=6"
    page = open_page("?online.moment=<b>&online.tile=5&online.score0=x")
    assert sentence(page).startswith("The old weights") or "maximum" in sentence(page)
    assert row(open_page("?online.moment=999"), "result").endswith("= 6.9656")


def test_moving_or_copying_the_element_makes_no_second_one(page):
    move_and_copy(page, "#online")
    page.locator("#copy").get_by_role("button", name="Back").click()
    assert sentence(page, of="copy").startswith("Its largest") and sentence(page).startswith("The old weights")


def test_no_axe_violation(open_page):
    page = open_page("?online.moment=7", reduced_motion="reduce")
    page.locator("#online summary").click()
    assert_accessible(page)


def test_fits_on_a_phone(open_page):
    page = open_page("?online.moment=8", viewport={"width": 360, "height": 740}, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.locator("#online form").bounding_box()["height"] <= 600
    rows = page.locator("#online dd")
    assert rows.evaluate_all("all => all.every(it => it.scrollWidth <= it.clientWidth)")
    button(page, "Step").tap()
    assert sentence(page).startswith("Tile 3 arrives")
    touched = page.locator("#online :is(button:not([hidden]), .explorer__switch label)")
    heights = touched.evaluate_all("all => all.map(it => it.offsetHeight)")
    assert min(heights) >= 36
