# SPDX-License-Identifier: Apache-2.0
"""Check every wrong solution and write what the coach answers: ``practice/answers.json``, which pages show.

``python -m tests.practice.answers [NAME…]``: of all exercises, or of some, which leaves the others' entries as they
are. ``test_exercises.py`` runs the same checks and compares.
"""

import argparse
import datetime
import os
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "practice"))

from coach import answers  # noqa: E402
from coach.check import Checker, Verdict, report  # noqa: E402
from coach.exercise import Exercise, PracticeError, exercises, find  # noqa: E402


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.practice.answers", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="exercises; all of them by default")
    given = parser.parse_args(arguments)
    try:
        chosen = [find(name, exercises()) for name in given.names] or exercises()
    except PracticeError as error:
        parser.error(str(error))
    entries = {} if not given.names else dict(answers.read().exercises)
    with Checker() as checker, tempfile.TemporaryDirectory() as folder:
        for exercise in chosen:
            entries[exercise.name] = of(exercise, checker, Path(folder))
            print(exercise.name, entries[exercise.name].shown, flush=True)
    before = answers.read() if answers.ANSWERS.is_file() else None
    where = {"torch": version("torch").partition("+")[0], "triton": version("triton")}
    if before and before.exercises == entries and where.items() <= before.where.items():
        where = before.where
    else:
        where["date"] = datetime.date.today().isoformat()
    beside = answers.ANSWERS.with_suffix(f".{os.getpid()}")
    beside.write_text(answers.text(answers.Answers(where, entries)), "utf-8")
    os.replace(beside, answers.ANSWERS)
    return 0


def of(exercise: Exercise, checker: Checker, folder: Path) -> answers.Answered:
    verdicts = {}
    for wrong in exercise.wrong():
        path = folder / f"{exercise.name}.py"
        path.write_text(wrong.text, "utf-8")
        if not wrong.gpu:
            verdicts[wrong.name] = checker.check(exercise, path)
    if passed := [name for name, verdict in verdicts.items() if not verdict.finding]:
        raise SystemExit(f"{exercise.name}: {', '.join(passed)} passes, and is wrong")
    shown = chosen(verdicts)
    return answered(exercise, verdicts, shown)


def chosen(verdicts: dict[str, Verdict]) -> str:
    """The one to show: the first that draws a launch in which lanes are off or wrong, else that draws one, else any."""

    def merit(name):
        finding = verdicts[name].finding
        lanes = "".join(program["lanes"] for program in finding.launch["programs"]) if finding.launch else ""
        return bool(set(lanes) & set("!✗○")), bool(lanes), bool(finding.guess)

    return max(verdicts, key=merit)  # of equals the first


def answered(exercise: Exercise, verdicts: dict[str, Verdict], shown: str) -> answers.Answered:
    caught = {name: verdict.finding.stage for name, verdict in verdicts.items()}
    lines = tuple(report(exercise, verdicts[shown]).splitlines())
    return answers.Answered(caught, shown, lines, verdicts[shown].finding.launch)


if __name__ == "__main__":
    sys.exit(main())
