# SPDX-License-Identifier: Apache-2.0
"""Each exercise: its skeleton fails as it should, its solution passes, each wrong solution gets its own message."""

import ast
import re
from itertools import filterfalse

import pytest
from coach import check as checks
from coach import gaps
from coach.case import Case, make_inputs
from coach.exercise import exercises
from coach.finding import STAGES
from coach.spec import FINISHED, KINDS

from recorder import recording
from recorder.project import find, interpreted

EXERCISES = exercises()
RECORDED = {e: recording.load(find(f"practice/{e.name}"), "cpu") for e in EXERCISES}
SERVED = {e: [w for w in e.wrong() if not w.gpu] for e in EXERCISES}
WRONG = [(e, w) for e, wrong in SERVED.items() for w in wrong]
SLOW = [(e, w) for e in EXERCISES for w in e.wrong() if w.gpu]
slow = pytest.mark.parametrize(("exercise", "wrong"), SLOW, ids=[f"{e.name}-{w.name}" for e, w in SLOW])
named = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.name)


def assert_fails(verdict, expected):
    assert verdict.finding, "it passes"
    text = verdict.finding.text()
    assert (verdict.finding.stage, expected.message in " ".join(text.split())) == (expected.stage, True), text
    assert max(map(len, text.splitlines())) <= 80


@named
def test_the_skeleton_fails_as_intended(exercise, check):
    assert_fails(check(exercise, exercise.skeleton), exercise.start())


@named
def test_the_solution_passes(exercise, check):
    verdict = check(exercise, exercise.solution)
    assert verdict.finding is None, checks.report(exercise, verdict)
    assert verdict.passed == list(STAGES)
    message = checks.report(exercise, verdict)
    assert ("fast enough" in message) == (verdict.timing == checks.TIMED and exercise.timed()), message
    assert ("not timed" in message) == (verdict.timing == checks.NO_GPU and exercise.timed()), message


@pytest.mark.gpu
@named
def test_the_solution_is_right_and_fast_enough_on_a_gpu(exercise, check):
    verdict = check(exercise, exercise.solution)
    assert verdict.finding is None, checks.report(exercise, verdict)
    assert any("on this GPU" in note or "On this GPU" in note for note in verdict.notes)


@pytest.mark.parametrize(
    ("exercise", "wrong"),
    [
        pytest.param(e, w, id=f"{e.name}-{w.name}", marks=[pytest.mark.shown] if (e, w) == WRONG[0] else [])
        for e, w in WRONG
    ],
)
def test_a_wrong_solution_fails_with_its_message(exercise, wrong, check):
    verdict = check(exercise, wrong.text)
    assert_fails(verdict, wrong.expected)
    recorded = RECORDED[exercise]
    assert recorded.coached.caught[wrong.name] == verdict.finding.stage
    if wrong.name == recorded.coached.shown:
        assert (checks.report(exercise, verdict), verdict.finding.launch) == (recorded.output, recorded.coached.launch)


@pytest.mark.parametrize("exercise", [e for e in EXERCISES if e.timed()], ids=lambda exercise: exercise.name)
def test_the_least_rests_on_what_the_solution_reaches(exercise):
    recorded = find(f"practice/{exercise.name}")
    for device in filterfalse(interpreted, recording.devices(recorded)):
        made = recording.load(recorded, device)
        (row,) = made.benchmark("speed", "solution").medians().values()
        assert 0.6 * row.solution <= exercise.spec().speed.least <= 0.95 * row.solution
        assert list(made.coached.caught) == [wrong.name for wrong in exercise.wrong() if wrong.gpu]


@slow
def test_what_is_only_slow_passes_without_a_gpu(exercise, wrong, check):
    verdict = check(exercise, wrong.text, tasks=("compile", "interpret"))
    assert verdict.finding is None, checks.report(exercise, verdict)


@pytest.mark.gpu
@slow
def test_what_is_only_slow_fails_on_a_gpu(exercise, wrong, check):
    assert_fails(check(exercise, wrong.text, tasks=("speed",)), wrong.expected)


@named
def test_the_gaps_of_the_skeleton_are_open(exercise):
    """They hold placeholders, or code of the solution; or code that is to go, to find a bug or to make it faster."""
    begun, solved = gaps.gaps(exercise.skeleton), gaps.gaps(exercise.solution)
    assert begun
    for number, gap in begun.items():
        own = [statement for statement in gaps.code(gap.text) if statement not in gaps.code(solved[number].text)]
        assert gaps.code(gap.text) != gaps.code(solved[number].text)
        assert exercise.card.kind in FINISHED or all(map(is_placeholder, own)), own


def is_placeholder(statement: str) -> bool:
    """Return whether it is ``...``, ``pass``, ``return``, ``return None``, or a name set to a neutral value."""
    return bool(re.fullmatch(r"\.\.\.|pass|return( None)?|(\w+ = )+(None|\.\.\.|[01](\.0)?|False|True|'')", statement))


@named
def test_it_ships_four_wrong_solutions_that_differ(exercise):
    wrong = exercise.wrong()
    assert len(wrong) >= 4
    assert len({w.text for w in wrong} | {exercise.solution}) == len(wrong) + 1
    for w in wrong:
        assert w.expected.stage in STAGES
        ast.parse(w.text)


@named
def test_no_number_is_always_the_same(exercise):
    """Else one that is typed in passes in its place."""
    spec, numbers = exercise.spec(), {}
    for case in [Case(size, seed=seed) for size in spec.sizes for seed in (0, 1)]:
        for name, value in make_inputs(spec, case).items():
            if isinstance(value, int | float):
                numbers.setdefault(name, set()).add(value)
    assert [name for name, values in numbers.items() if len(values) == 1] == []


@named
def test_the_card_is_that_of_the_spec(exercise):
    spec = exercise.spec()
    assert exercise.card.kind in KINDS
    for field in ("title", "kind", "lesson", "goal", "hints"):
        assert getattr(exercise.card, field) == getattr(spec, field)
    question, link, line = exercise.card.hints
    assert question.endswith("?")
    assert exercise.card.lesson in link
    assert (checks.PRACTICE.parent / "docs/en" / exercise.card.lesson).exists()
    assert line.strip()
