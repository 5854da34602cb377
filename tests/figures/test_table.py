# SPDX-License-Identifier: Apache-2.0
"""The table of a benchmark: its unit, its numbers and its label."""

import re

from recorder import views


def recorded(ylabel, value):
    table = {"name": "a", "x": ["n"], "xlabel": "n", "ylabel": ylabel, "lines": {"one": "One"}}
    return {"benchmarks": [table | {"rows": [{"n": 1, "one": [value]}]}]}


def cells(*rows):
    """What a table of these rows shows."""
    lines = {name: name for name in "abcd"[: len(rows[0])]}
    data = {"name": "t", "x": ["n"], "xlabel": "n", "ylabel": "", "lines": lines}
    data["rows"] = [{"n": n} | {a: [value] for a, value in zip(lines, row, strict=True)} for n, row in enumerate(rows)]
    body = views.table(None, {"benchmarks": [data]}, name="t").split("<tbody>")[1]
    return [re.findall("<td>(.*?)</td>", row)[1:] for row in body.split("</tr>")[:-1]]


def test_the_unit_stands_over_the_table_where_there_is_one():
    assert "<table><caption>ns</caption><thead>" in views.table(None, recorded("ns", 1.0), name="a")
    assert "<table><thead>" in views.table(None, recorded("", 1.0), name="a")


def test_numbers_have_three_digits():
    assert cells([0.0001234, 1.0, 9.996], [99.95, 12345.6, 0.0]) == [
        ["0.000123", "1.00", "10.0"], ["100", "12,346", "0"],
    ]  # fmt: skip


def test_counts_have_no_decimals():
    assert cells([2.0, 0.5], [3.0, 1.0]) == [["2", "0.500"], ["3", "1"]]  # the last row is one of whole numbers, too
    assert cells([2.5, 3.0], [26.0, 25.5]) == [["2.50", "3.00"], ["26.0", "25.5"]]


def test_tiny_numbers_have_exponents():
    assert cells([4.71e-7, 0.000123, 0.0501]) == [["4.7e-07", "1.2e-04", "0.0501"]]


def test_the_spread_stands_under_the_median():
    data = recorded("", 0.0)
    data["benchmarks"][0]["rows"][0]["one"] = [2.0, 1.0, 3.5]
    assert "<td>2<small>1–3.50</small></td>" in views.table(None, data, name="a", spread=True)


def test_a_single_reading_has_no_spread():
    assert "<td>2</td>" in views.table(None, recorded("", 2.0), name="a", spread=True)


def test_its_label_tells_it_from_a_table_of_the_same_name():
    assert 'aria-label="a: One"' in views.table(None, recorded("", 1.0), name="a")


def test_its_label_tells_it_from_other_rows_of_the_same_table():
    x = next(iter(recorded("", 1.0)["benchmarks"][0]["rows"]))["n"]
    assert f'aria-label="a: One; 1 rows from {x}"' in views.table(None, recorded("", 1.0), name="a", rows=[x])
