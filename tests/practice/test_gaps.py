# SPDX-License-Identifier: Apache-2.0
"""Gaps: what is refused of a skeleton and its solution."""

import pytest
from coach import gaps

FILE = "a = 1\n# gap 1: what\n{}# end of gap 1\nb = 2\n"


@pytest.mark.parametrize("placeholder", ["", "...\n", "pass\n", "x = None\n", "x = 0.0\n", "# a comment\n", "y = 3\n"])
def test_a_placeholder_is_no_code_of_its_own(placeholder):
    gaps.check_pair(FILE.format(placeholder), FILE.format("x = a\ny = 3\n"), holds_code=False)


@pytest.mark.parametrize("code", ["x = a + 1\n", "print()\n", "x = 2\n", "z: int = a\n", "return a\n"])
def test_code_that_the_solution_lacks_is_refused(code):
    with pytest.raises(gaps.GapError, match="holds code that its solution lacks"):
        gaps.check_pair(FILE.format(code), FILE.format("x = a\n"), holds_code=False)


def test_code_that_is_to_be_mended_is_not():
    gaps.check_pair(FILE.format("x = 2\n"), FILE.format("x = a\n"), holds_code=True)


@pytest.mark.parametrize(
    ("skeleton", "said"),
    [
        (FILE.format("...\n").replace("b = 2", "b = 3"), "differ outside"),
        (FILE.format("...\n").replace("what", "that"), "differ outside"),
        (FILE.format("x = a\n"), "filled already"),
        (FILE.format("...\n").replace("# end of gap 1\n", ""), "has no"),
        (FILE.format("# gap 2: inside\n"), "begins before"),
        ("# end of gap 1\n", "did not begin"),
    ],
)
def test_other_differences_are_refused(skeleton, said):
    with pytest.raises(gaps.GapError, match=said):
        gaps.check_pair(skeleton, FILE.format("x = a\n"), holds_code=False)


def test_filling_changes_a_gap_and_nothing_else():
    assert gaps.fill(FILE.format("...\n"), {1: "x = a"}) == FILE.format("x = a\n")
    with pytest.raises(gaps.GapError, match="no gap 2"):
        gaps.fill(FILE.format(""), {2: "x = a"})


def test_a_gap_with_only_its_placeholder_is_untouched():
    skeleton = FILE.format("...\n")
    assert [gap.number for gap in gaps.untouched(FILE.format("\n# mine\n...\n"), skeleton)] == [1]
    assert gaps.untouched(FILE.format("x = a\n"), skeleton) == []
    assert gaps.untouched("x = a\n", skeleton) == []  # the markers may go
