# SPDX-License-Identifier: Apache-2.0
"""An exercise's check in the browser: solutions pass, and wrong ones fail where the coach's own check fails them."""

import re

import pytest
from coach.exercise import exercises

from browser.check import check, counted
from tests.modeled import in_browser

# What the model does not see, by exercise and wrong solution.
UNSEEN = {"softmax methods_of_torch": "it is right: the interpreter alone refuses it"}


@pytest.fixture(autouse=True)
def modeled():
    with in_browser():
        yield


@pytest.mark.parametrize("exercise", exercises(), ids=lambda each: each.name)
def test_the_solution_is_right_and_the_file_to_fill_is_not(exercise):
    assert check(exercise, exercise.solution)["text"] == ""
    assert check(exercise, exercise.skeleton)["text"]


WRONG = [(each, wrong) for each in exercises() for wrong in each.wrong() if not wrong.gpu]


@pytest.mark.parametrize(("exercise", "wrong"), WRONG, ids=[f"{e.name}-{w.name}" for e, w in WRONG])
def test_a_wrong_solution_fails(exercise, wrong):
    verdict = check(exercise, wrong.text)
    if f"{exercise.name} {wrong.name}" in UNSEEN:
        assert verdict["text"] == "", "it is seen by now: take it from the list"
        return
    assert verdict["text"], f"the coach says: {wrong.expected.message}"
    element = re.match(r"The result\[[\d, ]*\]", wrong.expected.message)
    if element and verdict["stage"] == wrong.expected.stage:
        assert element[0] in " ".join(verdict["text"].split())


@pytest.mark.parametrize("exercise", exercises(), ids=lambda each: each.name)
def test_the_last_stage_promises_no_timing(exercise):
    assert counted(exercise).startswith("few enough ") or counted(exercise) == "the counts"
    assert check(exercise, exercise.solution)["passed"][-1] == counted(exercise)


NAMED = [(each, wrong) for each, wrong in WRONG if wrong.expected.stage == "nan" or wrong.name in (
    "no_device", "lanes", "seed_plus_one", "cheat", "by_torch", "sixty_four_warps")]  # fmt: skip


@pytest.mark.parametrize(("exercise", "wrong"), NAMED, ids=[f"{e.name}-{w.name}" for e, w in NAMED])
def test_the_cause_is_named_as_the_coach_names_it(exercise, wrong):
    verdict = check(exercise, wrong.text)
    if verdict["stage"] == wrong.expected.stage:
        assert wrong.expected.message.partition(": `")[0] in " ".join(verdict["text"].split())


def test_of_what_it_prints_in_each_case_the_first_lines_are_shown(capsys):
    from browser import page

    (scale,) = (each for each in exercises() if each.name == "scale")
    page.check_exercise("scale", scale.solution.replace("    n = x.numel()", "    n = x.numel()\n    print('here', n)"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["Your code prints:", "here 10"] and lines[-1] == "…" and len(lines) == 14


def test_a_program_per_element_is_refused_before_larger_sizes_take_minutes():
    """Their lanes would also fill the memory of a browser's Python."""
    (scale,) = (each for each in exercises() if each.name == "scale")
    verdict = check(scale, scale.solution.replace("(triton.cdiv(n, block),)", "(n,)"))
    assert verdict["text"].startswith("With n = 10:\n9 of 10 programs of scale_kernel store nothing.")
    assert verdict["passed"][-1] == "values at awkward sizes"


def test_and_between_masks_is_refused_by_its_line():
    exercise, wrong = next((e, w) for e, w in WRONG if w.name == "and_of_python")
    text = " ".join(check(exercise, wrong.text)["text"].split())
    assert "use '&' or '|' instead." in text and "22: mask = (rows < n_rows) and" in text
