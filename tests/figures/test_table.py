# SPDX-License-Identifier: Apache-2.0
"""The table of a benchmark: its unit, its numbers and its label."""

import re

import pytest
from msgspec.structs import replace

from figures.table import table
from recorder.project import RecorderError
from recorder.recording import Benchmark, Reading
from tests.toy import made

ONE = re.compile(r'<span class="share-of-one".*?</span>')  # of a title


def shown(*rows, ylabel="ns", x=None, **options):
    """The table of these rows: for each line a number, or its median, least and most."""
    rows = [[[value] if isinstance(value, int | float) else value for value in row] for row in rows]
    lines = dict(zip("abcd", ["One", "Two", "Three", "Four"][: len(rows[0])], strict=False))
    readings = [Reading([n], dict(zip(lines, row, strict=True))) for n, row in zip(x or range(9), rows, strict=False)]
    data = Benchmark(name="t", x=["n"], xlabel="n", ylabel=ylabel, lines=lines, rows=readings)
    return ONE.sub("", table(replace(made("h200"), benchmarks=[data]), name="t", **options))


def cells(text):
    body = re.sub('<span class="share"[^>]*>(.*?)</span>', r"\1", text.split("<tbody>")[1])
    return [re.findall("<td>(.*?)</td>", row) for row in body.split("</tr>")[:-1]]


def numbers(*rows):
    return [row[1:] for row in cells(shown(*rows))]


def test_the_unit_stands_over_the_table_where_there_is_one():
    assert "n <small>numbers in ns</small></th>" in shown([1.0]) and "<caption>" not in shown([1.0])
    assert "<caption>cycles for a step</caption>" in shown([1.0], ylabel="cycles for a step")
    assert "<caption>" not in shown([1.0], ylabel="") and "<small>" not in shown([1.0], ylabel="")


def test_a_page_can_give_a_line_another_title():
    text = shown([1.0, 0.5], titles={"b": "Two, share of the faster one"})
    assert ">One</th>" in text and ">Two, share of the faster one</th>" in text
    assert text.count('class="share"') == 1, "a share is a bar under its new title, too"
    with pytest.raises(RecorderError, match="'t' has no line 'e'"):
        shown([1.0], titles={"e": "Five"})


def test_a_page_can_give_a_row_another_name():
    text = shown([1.0], [2.0], x=["1 tensors", "8 tensors"], names={"1 tensors": "1 tensor"})
    assert ">1 tensor</" in text and ">8 tensors</" in text and "1 tensors" not in text
    with pytest.raises(RecorderError, match="there is no row '2 tensors'"):
        shown([1.0], x=["1 tensors"], names={"2 tensors": "2 tensor"})


def test_numbers_have_three_digits():
    assert numbers([0.0001234, 1.0, 9.996], [99.95, 12345.6, 0.0]) == [
        ["0.00012", "1.00", "10.0"], ["100", "12,346", "0"],
    ]  # fmt: skip


def test_a_share_is_a_bar_with_a_mark_at_1():
    bars = lambda text: [tuple(map(float, each)) for each in re.findall(r"--share: ([\d.]+); --one: ([\d.]+)", text)]
    assert bars(shown([1.0, 2.0], [2.0, 2.0], share_of="b")) == [(0.5, 1), (1, 1)]
    assert bars(shown([0.5], [1.25], ylabel="share of a copy")) == [(0.4, 0.8), (1, 0.8)]
    assert bars(shown([0.75], [6.0], ylabel="share of a copy")) == [(0.5, 0.667), (1, 0.667)], "one far away"
    assert bars(shown([0.5], [float("nan")], ylabel="share of a copy")) == [(0.5, 1)], "nothing was measured"
    assert bars(shown([1.0, 2.0])) == []


def test_a_bar_that_is_too_long_ends_in_an_arrow():
    far = shown([0.75], [6.0], ylabel="share of a copy")
    assert far.count(" data-far>6<") == far.count(" data-far") == 1 and "an arrow where" in far
    near = shown([0.75], [1.5], ylabel="share of a copy")
    assert "data-far" not in near and "an arrow" not in near


def test_counts_have_no_decimals():
    assert numbers([2.0, 0.5], [3.0, 1.0]) == [["2", "0.500"], ["3", "1"]]  # the last row is of whole numbers, too
    assert numbers([2.5, 3.0], [26.0, 25.5]) == [["2.50", "3.00"], ["26.0", "25.5"]]


def test_what_was_not_measured_is_a_dash():
    assert numbers([2.0, float("nan")], [3.0, 1.5]) == [["2", "–"], ["3", "1.50"]]


def test_tiny_numbers_have_no_exponents():
    assert numbers([4.71e-7, 0.000123, 0.0501]) == [["0.00000047", "0.00012", "0.0501"]]


def test_x_is_a_power_only_where_every_x_is_and_one_is_long():
    assert [row[0] for row in cells(shown([1.0], [2.0], x=[1024, 2**20]))] == ["2<sup>10</sup>", "2<sup>20</sup>"]
    assert [row[0] for row in cells(shown([1.0], [2.0], x=[1024, 4096]))] == ["1,024", "4,096"]
    assert [row[0] for row in cells(shown([1.0], [2.0], x=[1024, 2**20 + 1]))] == ["1,024", "1,048,577"]


def test_a_power_in_the_name_of_a_case():
    names = [row[0] for row in cells(shown([1.0], [2.0], x=["add, 2**20", "a <b>, 12**3"]))]
    assert names == ["add, 2<sup>20</sup>", "a &lt;b&gt;, 12**3"]


def test_the_spread_stands_under_the_median():
    assert "<td>2<small>1–3.50</small></td>" in shown([[2.0, 1.0, 3.5]], spread=True)


def test_a_single_reading_has_no_spread():
    assert "<td>2</td>" in shown([2.0], spread=True)


def test_shares_and_some_rows():
    text = shown([1.0, 4.0], [2.0, 4.0], [3.0, 4.0], share_of="b", rows=[0, 2])
    assert cells(text) == [["0", "1", "4", "0.25"], ["2", "3", "4", "0.75"]] and "One, share of Two</th>" in text


def test_some_lines_in_another_order():
    text = shown([1.0, 2.0, 4.0], [3.0, 2.0, 4.0], lines=["c", "a"], share_of="b")
    assert cells(text) == [["0", "4", "1", "2.00", "0.50"], ["1", "4", "3", "2.00", "1.50"]]
    assert text.index(">Three</th>") < text.index(">One</th>") and ">Two</th>" not in text
    assert "One, share of Two</th>" in text and 'aria-label="t by n: Three, One"' in text


def test_its_label_tells_it_from_others_of_its_name_and_from_other_rows():
    assert 'aria-label="t by n: One"' in shown([1.0])
    assert 'aria-label="t by n: One; 1 rows from 1"' in shown([1.0], [2.0], rows=[1])


def test_a_version_stays_with_its_name():
    readings = [Reading([1], {"a": [1.0]})]
    data = Benchmark(name="t", x=["n"], xlabel="n", ylabel="", lines={"a": "Flash-2"}, rows=readings)
    assert ">Flash-\u20602</th>" in table(replace(made("h200"), benchmarks=[data]), name="t")


def test_titles_are_text():
    assert "a &lt;copy&gt; &amp; &#34;more&#34;</th>" in table(made("h200"), name="bandwidth")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "u"}, "no benchmark 'u'; the nearest"),
        ({"name": "t", "share_of": "z"}, "no line 'z'; the nearest"),
        ({"name": "t", "lines": ["a", "z"]}, "no line 'z'; the nearest"),
        ({"name": "t", "rows": [7]}, "no row 7; the nearest"),
    ],
)
def test_what_is_not_there(options, message):
    data = Benchmark(name="t", x=["n"], xlabel="n", ylabel="", lines={"a": "A"}, rows=[Reading([1], {"a": [1.0]})])
    with pytest.raises(RecorderError, match=message):
        table(replace(made("h200"), benchmarks=[data]), **options)
