# SPDX-License-Identifier: Apache-2.0
"""Gaps and replaced pieces: what makes a skeleton and a wrong solution of a solution, and what is refused."""

import pytest
from coach import gaps
from coach.exercise import replaced

FILE = "a = 1\ndef f():\n    # gap 1: what\n{}    # end of gap 1\nb = 2\n"
SOLUTION = FILE.format("    x = a\n    y = x\n")


@pytest.mark.parametrize(
    ("held", "text"),
    [({}, "    ...\n"), ({1: ""}, ""), ({1: "x = 0\ny = 0"}, "    x = 0\n    y = 0\n"), ({1: "\n"}, "\n\n")],
)
def test_a_skeleton_is_the_solution_with_other_texts_in_its_gaps(held, text):
    assert gaps.emptied(SOLUTION, held) == FILE.format(text)


def test_a_text_for_a_gap_that_is_not_there_is_refused():
    with pytest.raises(gaps.GapError, match="no gap 2"):
        gaps.emptied(SOLUTION, {2: "pass"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SOLUTION.replace("    # end of gap 1\n", ""), "has no"),
        (FILE.format("# gap 2: inside\n"), "begins before"),
        ("# end of gap 1\n", "did not begin"),
        (SOLUTION + SOLUTION, "the same number"),
    ],
)
def test_gaps_that_are_not_whole_are_refused(text, message):
    with pytest.raises(gaps.GapError, match=message):
        gaps.gaps(text)


def test_a_wrong_solution_has_other_pieces():
    assert replaced("a < b < c", ["a <", "a <=", "< c", "> c"]) == "a <= b > c"


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        (["d", "e"], "'d' is found 0 times, and must be found once; quote it as it stands"),
        (["<", ">"], "'<' is found 2 times, and must be found once; quote it with more of its line"),
        (["a"], "replace has 1 texts; it takes pairs"),
    ],
)
def test_a_piece_that_is_not_there_once_is_refused(pieces, message):
    with pytest.raises(ValueError, match=message):
        replaced("a < b < c", pieces)


def test_a_gap_with_only_its_placeholder_is_untouched():
    skeleton = FILE.format("    ...\n")
    assert [gap.number for gap in gaps.untouched(FILE.format("\n    # mine\n    ...\n"), skeleton)] == [1]
    assert gaps.untouched(SOLUTION, skeleton) == []
    assert gaps.untouched("x = a\n", skeleton) == []  # the markers may go
