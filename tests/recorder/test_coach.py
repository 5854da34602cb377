# SPDX-License-Identifier: Apache-2.0
"""Exercises are recorded like snippets: what of the coach is kept, and what makes it stale."""

import ast
import json
import re
import shutil

import pytest

from recorder import coach, fingerprint, judge, project
from recorder.coach import Fault, Finding, check, speed
from recorder.project import RecorderError, find

SCALE = coach.Exercise(find("practice/scale").path)
(SLOW,) = [wrong for wrong in SCALE.wrong() if wrong.gpu]
WRONG = next(wrong for wrong in SCALE.wrong() if not wrong.gpu)


def caught(stage: str, message: str, lanes: str = "") -> check.Verdict:
    launch = {"programs": [{"lanes": lanes}]} if lanes else None
    return check.Verdict(Finding(message, stage=stage, launch=launch), [])


@pytest.fixture
def answered(monkeypatch, tmp_path):
    """Record the exercise's answers, from verdicts of our own by wrong solution, the others being as expected."""

    def run(**verdicts):
        asked = iter([wrong for wrong in SCALE.wrong() if not wrong.gpu])

        def verdict(self, exercise, path, limit):
            wrong = next(asked)
            assert path.read_text() == wrong.text
            return verdicts.get(wrong.name) or caught(wrong.expected.stage, wrong.expected.message)

        monkeypatch.setattr(check.Coach, "check", verdict)
        return coach.answers(SCALE, tmp_path)

    return run


def test_each_wrong_solution_is_recorded_with_its_check(answered):
    coached = answered()["coached"]
    assert coached["caught"] == {wrong.name: wrong.expected.stage for wrong in SCALE.wrong() if not wrong.gpu}


def test_the_answer_with_lanes_that_are_wrong_is_shown(answered):
    wrongs = {wrong.name: wrong.expected for wrong in SCALE.wrong() if not wrong.gpu}
    drawn = {name: caught(wrongs[name].stage, wrongs[name].message, lanes)
             for name, lanes in zip(list(wrongs)[1:4], ("■■", "■!", "■!"), strict=True)}  # fmt: skip
    made = answered(**drawn)
    assert made["coached"]["shown"] == list(wrongs)[2]
    assert made["coached"]["launch"] == {"programs": [{"lanes": "■!"}]}
    assert wrongs[list(wrongs)[2]].message in " ".join(made["output"].split())


def test_an_example_holds_what_comes_in_and_what_has_to_come_out(answered):
    x, a, result = answered()["coached"]["example"]
    assert (x["name"], x["shape"], x["dtype"], x["comes_in"], len(x["rows"][0])) == ("x", [10], "float32", True, 10)
    assert a == {"name": "a", "comes_in": True, "rows": [["2.5"]]}
    assert (result["name"], result["comes_in"]) == ("result", False)
    products = [2.5 * float(number) for number in x["rows"][0]]
    assert [float(number) for number in result["rows"][0]] == pytest.approx(products, rel=0.01)


def test_an_example_shows_a_corner_and_the_gradients():
    matmul = coach.Exercise(find("practice/matmul").path).spec()
    a = coach.example(matmul)[0]
    assert a["shape"] == [7, 24] and [len(row) for row in a["rows"]] == [10] * 6
    backward = coach.Exercise(find("practice/backward").path).spec()
    names = ["x", "gradient of the result", "result", "gradient of x"]
    assert [each["name"] for each in coach.example(backward)] == names


@pytest.mark.parametrize(
    ("verdict", "message"),
    [
        (check.Verdict(None, ["values"]), "it passes"),
        (caught("values", WRONG.expected.message), "at values: "),
        (caught(WRONG.expected.stage, "It is off."), f"at {WRONG.expected.stage}: It is off."),
    ],
)
def test_one_that_is_not_caught_as_it_should_be_is_no_recording(verdict, message, answered):
    begin = f"{WRONG.name} must fail at {WRONG.expected.stage} with {WRONG.expected.message!r}; "
    with pytest.raises(SystemExit, match=re.escape(begin + message)):
        answered(**{WRONG.name: verdict})


@pytest.fixture
def timed(monkeypatch, tmp_path):
    """Record the exercise's speed, as if a GPU had measured these shares."""

    def run(shares, too_slow=SLOW.expected.message):
        def raise_slow(*_):
            if too_slow:
                raise Fault(Finding(too_slow))

        monkeypatch.setattr(speed, "check_speed", raise_slow)
        monkeypatch.setattr(speed, "measure", lambda spec, function, file: shares)
        return coach.speeds(SCALE, tmp_path)

    return run


def test_the_speed_is_recorded_with_its_range_and_what_is_too_slow(timed):
    made = timed([0.95, 0.9, 0.91])
    (table,) = made["benchmarks"]
    assert table["rows"] == [{"x": ["a copy of as many bytes"], "y": {"solution": [0.91, 0.9, 0.95]}}]
    assert made["coached"] == {"caught": {SLOW.name: "speed"}}


def test_a_solution_that_is_too_slow_is_no_recording(timed):
    with pytest.raises(SystemExit, match=r"reaches 0\.5 of the speed of a copy of as many bytes; 0\.\d+ is asked for"):
        timed([0.5])


@pytest.mark.parametrize("too_slow", ["", "It is off."])
def test_a_slow_one_that_is_not_caught_is_no_recording(timed, too_slow):
    with pytest.raises(SystemExit, match=rf"{SLOW.name} must fail at speed"):
        timed([0.9], too_slow)


# ---- What makes it stale ----


@pytest.fixture
def changed(monkeypatch, tmp_path):
    """Return the fingerprints of the exercise, without a GPU and on one, after a change of one of its files."""
    folder = tmp_path / "practice/exercises/scale"
    shutil.copytree(SCALE.folder, folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(project, "ROOT", tmp_path)

    def change(file="spec.py", old="", new=""):
        path = folder / file
        before = path.read_text()
        assert old in before
        path.write_text(before.replace(old, new))
        prints = [fingerprint.of(project.Exercise("practice/scale"), device) for device in ("cpu", "h200")]
        path.write_text(before)
        return prints

    return change


@pytest.mark.parametrize(
    ("file", "old", "new", "cpu", "gpu"),
    [
        ("spec.py", "Which elements belong", "Which ones belong", False, False),
        ("spec.py", "least=0.85", "least=0.5", True, False),
        ("spec.py", "2**25", "2**24", True, True),
        ("spec.py", "torch.randn", "torch.rand", True, True),
        ("spec.py", '{"n": 10}', '{"n": 11}', True, False),
        ("solution.py", "block = 1024", "block = 2048", True, True),
        ("solution.py", '"""Return a·x', '"""Returns a·x', True, False),
        ("wrong.toml", f'why = "{WRONG.why}', 'why = "another reason', False, False),
        ("wrong.toml", f'stage = "{WRONG.expected.stage}"', 'stage = "seed"', True, False),
        ("wrong.toml", "gpu = true\n", "", True, True),
    ],
)
def test_a_change_makes_stale_what_it_can_change(changed, file, old, new, cpu, gpu):
    before, after = changed(), changed(file, old, new)
    assert [a != b for a, b in zip(before, after, strict=True)] == [cpu, gpu]


def test_the_coach_counts_wherever_a_definition_stands(monkeypatch, tmp_path):
    exercise = find("practice/scale")
    shutil.copytree(fingerprint.COACH, tmp_path / "coach", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(project, "ROOT", tmp_path)
    monkeypatch.setattr(fingerprint, "COACH", tmp_path / "coach")
    monkeypatch.setattr(fingerprint, "read_text", lambda path: path.read_text("utf-8"))
    monkeypatch.setattr(project.Exercise, "path", SCALE.folder)
    monkeypatch.setattr("recorder.source.read_text", lambda path: path.read_text("utf-8"))
    before = fingerprint.of(exercise, "cpu")
    judge_file, stages = tmp_path / "coach/judge.py", tmp_path / "coach/stages.py"
    moved = ast.get_source_segment(text := judge_file.read_text(), ast.parse(text).body[-1])
    judge_file.write_text(text.replace(moved, ""))
    stages.write_text(f"{stages.read_text()}\n\n{moved}\n")
    assert fingerprint.of(exercise, "cpu") == before
    (tmp_path / "coach/serve.py").write_text("# it checks nothing\n")
    assert fingerprint.of(exercise, "cpu") == before
    stages.write_text(f"{stages.read_text()}\nROUNDS = 9\n")
    assert fingerprint.of(exercise, "cpu") != before


def test_an_exercise_is_judged_like_a_snippet(changed, tmp_path):
    exercise = project.Exercise("practice/scale")
    assert [problem.fault for problem in judge.problems(exercise)] == ["missing", "missing"]
    assert judge.problems(exercise)[0].fix == "python -m recorder run practice/scale"
    (exercise.path / "spec.py").write_text("SPEC = 1\n")
    with pytest.raises(RecorderError, match=r"practice/exercises/scale/spec\.py has no line SPEC"):
        judge.problems(exercise)


def test_it_writes_what_the_recorder_reads(monkeypatch, tmp_path):
    monkeypatch.setattr(coach, "answers", lambda exercise, folder: {"output": "off", "coached": {"caught": {}}})
    coach.main("practice/scale", "cpu", str(tmp_path / "result.json"))
    seen = json.loads((tmp_path / "result.json").read_text())
    assert seen["output"] == "off" and seen["provenance"]["torch"] and seen["benchmarks"] == []
