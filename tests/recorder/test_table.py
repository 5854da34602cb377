# SPDX-License-Identifier: Apache-2.0
"""The table of a benchmark: its heads have a unit where there is one, and numbers that nobody could read are cut."""

from recorder import views


def recorded(ylabel, value):
    table = {"name": "a", "x": ["n"], "xlabel": "n", "ylabel": ylabel, "lines": {"one": "One"}}
    return {"benchmarks": [table | {"rows": [{"n": 1, "one": [value]}]}]}


def test_a_head_has_a_unit_where_there_is_one():
    assert '<th scope="col">One, ns</th>' in views.table(None, recorded("ns", 1.0), name="a")
    assert '<th scope="col">One</th>' in views.table(None, recorded("", 1.0), name="a")


def test_numbers_have_three_digits_and_no_exponent():
    said = {0.0: "0", 4.7e-5: "&lt; 0.0001", 0.00012: "0.00012", 1.234: "1.23", 12345.6: "12,346"}
    for value, text in said.items():
        assert f"<td>{text}</td>" in views.table(None, recorded("", value), name="a")


def test_its_label_tells_it_from_a_table_of_the_same_name():
    assert 'aria-label="a: One"' in views.table(None, recorded("", 1.0), name="a")
