# SPDX-License-Identifier: Apache-2.0
"""Kernels case by case: each dot stands at its share, its number in a column, and the title counts what was found."""

from itertools import pairwise

import pytest
from bs4 import BeautifulSoup
from msgspec.structs import replace

from figures.chart import rivals
from recorder.project import RecorderError
from recorder.recording import Reading
from tests.figures.explorer_support import page_with
from tests.toy import made

TOY = made("h200").benchmark("bandwidth")
LINES = {"ours": "ours", "torch": "torch <1>", "base": "cuBLAS"}


def html_of(cases: dict, ylabel="µs", named=None, **options) -> str:
    """Cases by name: what each line measured there, the median or the median, the least and the most."""
    named = named or LINES
    readings = [Reading(x=[name], y=dict(zip(named, values, strict=True))) for name, values in cases.items()]
    data = replace(TOY, x=["shape"], xlabel="shape", ylabel=ylabel, lines=named, rows=readings)
    return rivals(replace(made("h200"), benchmarks=[data]), name="bandwidth", **options)


def drawn(cases: dict, **options) -> BeautifulSoup:
    return BeautifulSoup(html_of(cases, **options).partition("<details")[0], "html.parser")


def dots(page: BeautifulSoup) -> list[dict[str, float]]:
    """In each row, where each kernel's dot stands, in percent of the width, by the kernel's name."""
    keys = {span.use["href"]: span.text.strip() for span in page.select(".chart-rivals__key > span")}
    rows = [row.select("svg svg svg use") for row in page.select("li")]
    return [{keys[use["href"]]: float(use.parent["x"][:-1]) for use in row} for row in rows]


def ticks(page: BeautifulSoup) -> dict[str, float]:
    return {text.text: float(text["x"][:-1]) for text in page.select(".chart-rivals__scale text")}


def numbers(page: BeautifulSoup) -> list[list[str]]:
    """In each row, what stands in the columns, ours first."""
    return [[cell.text.strip() for cell in row.select("b")] for row in page.select("li")]


TIMES = {
    "won": ([10.0, 9.0, 11.0], [20.0, 19.0, 21.0], [12.0, 11.5, 13.0]),
    "even": ([10.0, 9.0, 11.0], [25.0], [10.5, 9.5, 11.5]),
    "lost": ([16.0, 15.5, 17.0], [30.0], [12.0, 11.0, 13.0]),
}


def test_a_dot_stands_at_its_share_and_each_has_its_number():
    page = drawn(TIMES, lines=["ours", "torch"], share_of="base")
    places = ticks(page)
    zero, one = places["0%"], places["100%"]
    for found, (ours, torch, base) in zip(dots(page), TIMES.values(), strict=True):
        for name, times in (("ours", ours), ("torch <1>", torch)):
            assert (found[name] - zero) / (one - zero) == pytest.approx(base[0] / times[0], abs=1e-3), "of the speed"
    assert numbers(page) == [["120%", "60%"], ["105%", "42%"], ["75%", "40%"]]
    assert page.select_one("li > svg")["aria-label"] == "ours 120%, torch <1> 60%", "the fastest first"
    assert page.select_one(".chart-rivals__one").text.strip() == "cuBLAS"
    level = next(line for line in page.select("defs line") if line["stroke"] == "var(--ink-muted)")
    assert float(level["x1"][:-1]) == pytest.approx(one, abs=0.01), "the line that all are compared with"


def test_the_title_counts_what_is_clear():
    title = lambda **options: drawn(TIMES, lines=["ours", "torch"], **options).select_one(".chart-plot__title").text
    assert title(share_of="base") == "Of 3 cases, ours is faster than cuBLAS in 1, even in 1, slower in 1"
    assert title(share_of="base", against="torch") == "Ours is faster than torch <1> in all 3 cases"
    asked = "{won}, {even}, {lost}; {wins} + {ties} + {losses} = {cases}; {low} to {high}"
    assert title(share_of="base", title=asked) == "1 of 3, 1 of 3, 1 of 3; 1 + 1 + 1 = 3; 75% to 120%"
    assert title(share_of="base", against="torch", title="{won}, {lost}") == "all 3, none of 3"
    assert title(share_of="base", title="{any}; {over_torch}") == "1 of 3; all 3"
    assert title(share_of="base", title="{ahead}, {behind}") == "2 of 3, 1 of 3", "by their medians"
    with pytest.raises(RecorderError, match="a title has no 'wens'; the nearest"):
        title(share_of="base", title="{wens}")


def test_more_is_better_of_a_rate():
    rates = {"one": ([30.0], [10.0], [20.0]), "two": ([16.0], [8.0], [20.0])}
    page = drawn(rates, ylabel="GB/s", lines=["ours", "torch"], share_of="base")
    assert numbers(page) == [["150%", "50%"], ["80%", "40%"]]
    assert page.select_one(".chart-plot__title").text == "Of 2 cases, ours is faster than cuBLAS in 1, slower in 1"


def test_less_memory_is_better_and_its_share_is_not_turned_around():
    page = drawn({"a": ([10.0], [20.0], [40.0])}, ylabel="MB", lines=["ours", "torch"], share_of="base", title="{won}")
    assert numbers(page) == [["25%", "50%"]] and page.select_one(".chart-plot__title").text == "all 1"
    assert page.select_one(".chart-plot__unit").text.startswith("memory, compared with cuBLAS")


SHARES = {"share": "ours, share of copy", "torch_share": "torch, share of copy"}


def test_recorded_shares_need_no_division_and_have_the_colors_of_their_lines():
    page = drawn(
        {"a": ([0.9], [0.5]), "b": ([0.8], [0.95])}, ylabel="GB/s", named=SHARES, lines=[*SHARES], against="torch_share"
    )
    assert numbers(page) == [["90%", "50%"], ["80%", "95%"]]
    keys = {span.text.strip(): span["style"] for span in page.select(".chart-rivals__key > span")}
    assert keys == {"ours": "color: var(--series-1)", "torch": "color: var(--series-0)"}
    assert page.select_one(".chart-rivals__one").text.strip() == "a copy"
    assert page.select_one(".chart-plot__title").text == "Of 2 cases, ours is faster than torch in 1, slower in 1"
    with pytest.raises(RecorderError, match="'ours' is no share"):
        drawn(TIMES, lines=["ours"])


def test_an_axis_shows_its_break_its_powers_and_nothing_at_zero():
    near = drawn({"a": ([10.0], [11.0], [9.5])}, lines=["ours", "torch"], share_of="base")
    assert "0%" not in ticks(near) and "the axis begins at" in near.select_one(".chart-rivals__scale").text
    cases = {"a": ([1.0], [20.0], [100.0]), "b": ([49.0], [50.0], [20.0])}
    far = drawn(cases, lines=["ours", "torch"], share_of="base")
    places = ticks(far)
    steps = [b - a for a, b in pairwise([places["1×"], places["10×"], places["100×"]])]
    assert steps[0] == pytest.approx(steps[1], abs=0.02) and "log scale" in far.select_one(".chart-plot__unit").text
    assert numbers(far) == [["100×", "5.0×"], ["0.41×", "0.40×"]]


def test_what_was_not_measured_has_no_dot_and_no_verdict():
    nan = float("nan")
    page = drawn({"a": ([10.0], [nan], [12.0]), "b": ([nan], [nan], [12.0])}, lines=["ours", "torch"], share_of="base")
    assert [[*row] for row in dots(page)] == [["ours"], []]
    assert numbers(page) == [["120%", "–"], ["–", "–"]]
    assert page.select_one(".chart-plot__title").text == "Ours is faster than cuBLAS"


def test_many_kernels_leave_room_for_ours_and_the_fastest_other():
    named = {f"k{i}": f"kernel {i}" for i in range(7)}
    cases = {"a": [[10.0 + i] for i in range(7)], "b": [[10.0], [30.0], [20.0], [5.0], [20.0], [20.0], [12.0]]}
    page = drawn(cases, named=named, lines=[*named][:6], share_of="k6")
    assert numbers(page) == [["1.60×", "1.45×"], ["1.20×", "2.40×"]] and len(dots(page)[0]) == 6
    colors = {span.text.strip(): span["style"] for span in page.select(".chart-rivals__key > span")}
    fastest = [row.select("b")[1]["style"] for row in page.select("li")]
    assert fastest == [colors["kernel 1"], colors["kernel 3"]], "one can tell which it is"
    assert [cell.text.strip() for cell in page.select(".chart-rivals__head b")] == ["", "fastest other"]


def test_ours_lies_over_a_dot_in_the_same_place():
    page = drawn({"a": ([10.0], [10.0], [20.0])}, lines=["ours", "torch"], share_of="base")
    assert [*dots(page)[0]] == ["torch <1>", "ours"] and len({*dots(page)[0].values()}) == 1


def test_rows_that_begin_alike_stand_under_one_heading():
    cases = {name: ([1.0], [2.0], [1.5]) for name in ("norm, 8", "norm, 9", "sum, 8")}
    page = drawn(cases, lines=["ours"], share_of="base")
    assert [each.text for each in page.select(".chart-rivals__group")] == ["norm", "sum"]
    assert [row.span.text for row in page.select("li")] == ["8", "9", "8"]


@pytest.mark.parametrize("width", [1280, 360])
def test_nothing_lies_outside_and_all_can_be_read(open_site, tmp_path, width):
    cases = {f"norm of a sum, {name}": values for name, values in TIMES.items()}
    cases |= {f"16384 tokens, {name}": values for name, values in TIMES.items()}
    html = html_of(cases, lines=["ours", "torch"], share_of="base")
    with page_with(tmp_path, "rivals", html) as url:
        page = open_site(url, viewport={"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert (
            page.evaluate(
                """() => [...document.querySelectorAll('.chart-rivals :is(text, span, p)')].filter(each => {
                const box = each.getBoundingClientRect()
                return each.textContent.trim() && box.width
                    && (box.left < 0 || box.right > innerWidth || parseFloat(getComputedStyle(each).fontSize) < 11)
            }).map(each => each.textContent)"""
            )
            == []
        ), "nothing is cut, or too small"
        covered = page.evaluate(
            """() => [...document.querySelectorAll('li.chart-rivals__row')].flatMap(row => {
                const words = [...row.querySelectorAll('span, b')], boxes = words.map(each => {
                    const range = new Range(); range.selectNodeContents(each); return range.getBoundingClientRect()})
                const over = (a, b) => a.left < b.right - 1 && b.left < a.right - 1
                    && a.top < b.bottom - 1 && b.top < a.bottom - 1
                const marks = [...row.querySelectorAll('svg svg use')].map(each => each.getBoundingClientRect())
                return words.filter((_, i) => [...boxes.slice(i + 1), ...marks].some(other => over(boxes[i], other)))
            }).map(each => each.textContent)"""
        )
        assert covered == [], "no name or number covers another, or a dot"
        row = page.locator(".chart-rivals__row")
        plot, scale = (row.locator(f"> {part}").first for part in ("svg[role]", ".chart-rivals__scale"))
        assert plot.bounding_box()["width"] == scale.bounding_box()["width"], "a dot stands above its value"
