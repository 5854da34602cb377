# SPDX-License-Identifier: Apache-2.0
"""Counts that were printed in columns, as a table."""

import re

import pytest
from msgspec.structs import replace

from figures.counts import counts
from recorder.project import RecorderError
from tests.toy import made

PRINTED = """## cases
who     what          cases  run
A & B   layer norm    25118   12
A & B   RoPE              3    0
C       RoPE              4    4

## other
1
"""
OPTIONS = {"section": "cases", "columns": ["what", "cases", "run"], "by": "who"}


def shown(text=PRINTED, **options):
    return counts(replace(made("h200"), output=text), **OPTIONS | options)


def test_rows_stand_below_what_they_are_of():
    groups = shown().split("<tbody>")[1:]
    assert [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", group) for group in groups] == [
        ["A &amp; B", "layer norm", "25,118", "12", "RoPE", "3", "0"],
        ["C", "RoPE", "4", "4"],
    ]
    assert re.findall(r'<th scope="col">(.*?)</th>', shown(columns=["what", "run"])) == ["what", "run"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"section": "case"}, "no section 'case'; the nearest"),
        ({"by": "whom"}, "no column is called 'whom'; the nearest"),
        ({"columns": ["runs"]}, "no column is called 'runs'; the nearest"),
        ({"text": PRINTED.replace("  12", "")}, "other columns than the first: 'A & B  layer norm  25118'"),
    ],
)
def test_what_is_not_there(options, message):
    with pytest.raises(RecorderError, match=message):
        shown(**options)
