# SPDX-License-Identifier: Apache-2.0
"""Show what a run printed: all of it, the lines that match, or one section."""

import html
import re

import pytest
from msgspec.structs import replace

from figures.output import output
from recorder import printed
from recorder.project import RecorderError
from tests.limits import at_most
from tests.toy import made

PRINTED = "first\n## one step\na < b\nc\n## another\n\nd ## e\n## empty\n"


def shown(text=PRINTED, **options):
    return html.unescape(re.sub(r"<[^>]*>", "", output(replace(made("cpu"), output=text), **options))).strip("\n")


def test_sections():
    assert shown() == PRINTED.rstrip("\n")
    assert shown(section="one step") == "a < b\nc"
    assert shown(section="another") == "d ## e"
    assert shown(section="one step", only="^c") == "c"
    assert shown(only="first|c") == "first\nc"


@pytest.mark.parametrize(
    ("options", "summary"),
    [
        ({"section": "one stop"}, r"no section 'one stop'; the nearest that exist: one step"),
        ({"section": "one step", "only": "first"}, "no line matches 'first'; the first is 'a < b'"),
        ({"only": "("}, r"'\(' is no regular expression: missing \)"),
        ({"only": "a{1,999999999999}"}, "is no regular expression"),
        ({"only": [1]}, "no line matches"),
    ],
)
def test_what_is_not_there(options, summary):
    with pytest.raises(RecorderError, match=summary):
        shown(**options)


def test_a_section_in_which_nothing_was_printed():
    with pytest.raises(RecorderError, match="no line matches"):
        shown(section="empty", only=".")


@pytest.mark.speed
def test_a_pattern_that_would_try_every_way_gives_up(monkeypatch):
    monkeypatch.setattr(printed, "SECONDS", 0.05)
    with at_most(20), pytest.raises(RecorderError, match=r"'\(a\|a\?\)\+\$' takes more than 0.05 s for a line"):
        shown("a" * 4000 + "b\n", only="(a|a?)+$")


@pytest.mark.speed
@pytest.mark.parametrize(
    "line", [" " * 100_000 + "x", "a:" + " " * 100_000, "a: " + "1" * 1_900 + "x", "=:" * 50_000, "1," * 900 + "x"]
)
def test_numbers_are_soon_found_in_whatever_was_printed(line):
    with at_most(10):
        assert printed.numbers(f"{line}\nsum: 1,024\n") == {"sum": 1024}
        with pytest.raises(RecorderError, match="no pixels"):
            printed.pixels(f"a: {'1' * 40}.5\na: {line}\n", "a")  # a number of forty digits is no row of pixels


def test_numbers_that_were_printed():
    lines = "a: 1\n  b = -2.5\nc: 1e-3\nd: 12,345 GB/s\nn = 98,432: 0.0\ne: [1, 2]\nf: 1.2.3x\nno number: here\n"
    lines += "v: 3.6.0\nw==2.11.0\n"
    assert printed.numbers(lines) == {"a": 1, "b": -2.5, "c": 1e-3, "d": 12345, "n = 98,432": 0.0}
    assert isinstance(printed.numbers("a: 1\n")["a"], int)
