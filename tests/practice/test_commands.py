# SPDX-License-Identifier: Apache-2.0
"""``practice.py``, as a reader runs it, in a copy of the folder; and the commands behind it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from coach import check, draw
from coach.check import NO_GPU, TIMED, Verdict, report
from coach.desk import Desk
from coach.exercise import PracticeError, exercises, find
from coach.finding import STAGES, Finding
from coach.pages import named
from coach.progress import Progress

from tests.limits import HANGS, gone, wait_for
from tests.practice.conftest import PRACTICE

NAMES = ("scale", "copy", "row_sum")
RIGHT, WRONG = Verdict(None, ["compiles"], ["No GPU here."]), Verdict(Finding("It is off.", stage="values"), [])


class Toy:
    """Stands in for the coach: gives one verdict after another, and remembers what it was asked."""

    def __init__(self, *verdicts):
        self.verdicts, self.asked = list(verdicts), []

    def check(self, exercise, path):
        self.asked.append(exercise.name)
        return self.verdicts.pop(0)


@pytest.fixture
def desk(tmp_path):
    """A desk with three exercises; what it says is in ``desk.said``."""
    folder = tmp_path / "practice"
    for name in NAMES:
        shutil.copytree(PRACTICE / "exercises" / name, folder / "exercises" / name)
    shutil.copy(PRACTICE / "pages.json", folder)
    message = []
    desk = Desk(folder, say=message.append)
    desk.message = message
    return desk


def test_one_begins_with_a_copy_of_the_first_and_goes_on_when_it_is_right(desk):
    coach = Toy(WRONG, RIGHT)
    assert desk.status(coach) == 0
    first = desk.all[0]
    assert desk.copy_of(first).read_text() == first.skeleton
    assert (desk.message[0], coach.asked) == ("0 of 3 exercises done.", [])
    assert desk.status(coach) == 1
    assert "It is off." in desk.message[-3]
    assert desk.status(coach) == 0
    assert desk.message[-1] == "Next: copy. Run `python practice.py`."
    desk.status(coach)
    assert desk.copy_of(desk.all[1]).exists() and "Read it first" in desk.message[-1]  # the second is a bug hunt


def test_the_next_is_behind_what_passed_and_what_is_open_before_it_is_counted(desk):
    first, second, third = desk.all
    for exercise in desk.all:
        desk.lay_out(exercise)
    desk.check(second, Toy(RIGHT))
    assert desk.message[-1] == "Next: row_sum. (1 before it is still open.) Run `python practice.py check row_sum`."
    desk.check(third, Toy(RIGHT))
    assert desk.message[-1] == "Next: scale. Run `python practice.py`."
    desk.check(first, Toy(RIGHT))
    assert desk.message[-1] == "That was the last one."
    assert desk.following(first) == (None, 0)


def test_several_that_are_open_are_counted(tmp_path):
    message = []
    desk = Desk(mine=tmp_path, say=message.append)
    exercise = find("combine", desk.all)
    desk.lay_out(exercise)
    desk.check(exercise, Toy(RIGHT))
    before = [e.name for e in desk.all].index("add_norm") - 1
    assert message[-1].startswith(f"Next: add_norm. ({before} before it are still open.) Run ")
    assert "`python practice.py check add_norm`" in message[-1]


@pytest.mark.parametrize(
    ("name", "timing", "mark", "note"),
    [
        ("add", NO_GPU, "✓ few enough reads, launches and programs; not timed: no GPU here", False),
        ("add", TIMED, "✓ fast enough", False),
        ("copy", NO_GPU, "✓ few enough reads, launches and programs", True),
        ("copy", TIMED, "✓ few enough reads, launches and programs", False),
        ("one_read", "", "✓ few enough reads, bytes, launches and programs", False),
        ("grid_stride", TIMED, "✓ few enough reads and launches", False),
        ("clock", TIMED, "✓ few enough programs", False),
    ],
)
def test_a_report_says_fast_only_where_a_gpu_timed_it(name, timing, mark, note):
    message = report(find(name, exercises()), Verdict(None, list(STAGES), timing=timing)).splitlines()
    assert message[len(STAGES) - 1] == mark
    assert any("interpreter" in line for line in message) == note
    wrong = report(find(name, exercises()), Verdict(Finding("It is off.", stage="speed"), list(STAGES)[:-1]))
    assert "✗ few enough" in wrong and "fast" not in wrong and "timed" not in wrong


@pytest.mark.parametrize(("name", "mark"), [("add", "right and fast enough"), ("copy", "right")])
def test_what_fails_on_a_gpu_is_not_said_of_counts(name, mark):
    wrong = Verdict(Finding("It is off.", stage="speed"), list(STAGES)[:-1], timing=TIMED)
    assert f"✗ {mark} on this GPU" in report(find(name, exercises()), wrong).splitlines()


def test_all_done_is_said(desk):
    for exercise in desk.all:
        with desk.progress.changing(exercise.name) as record:
            record.passed = True
    assert desk.status(Toy()) == 0
    assert "That is all of them." in desk.message[-1]


def test_hints_come_one_by_one_and_stay(desk):
    exercise = desk.all[0]
    for shown in (1, 2, 3, 3):
        desk.message.clear()
        desk.hint(exercise)
        assert desk.message[:shown] == [f"Hint {i + 1} of 3: {named(exercise.card.hints[i])}" for i in range(shown)]
    assert Progress(desk.progress.path).of(exercise.name).hints == 3


def test_a_page_is_named_by_its_title_and_where_the_site_is_known_by_its_address():
    hint, page = "The kernel: programs/masks.md#sum-each-row, or a.md", "programs/masks.md"
    known = {"site": "", "titles": {page: "lesson 5, Masks"}}
    assert named(hint, known) == "The kernel: lesson 5, Masks, or a.md"
    there = "The kernel: lesson 5, Masks (https://e.org/c/programs/masks/#sum-each-row), or a.md"
    assert named(hint, known | {"site": "https://e.org/c/"}) == there
    assert named("See programs/lab.ipynb", {"site": "https://e.org", "titles": {"programs/lab.ipynb": "L"}}) == (
        "See L (https://e.org/programs/lab/)"
    )


def test_no_hint_names_a_file_of_the_site(desk):
    for exercise in exercises():
        assert ".md" not in named(" ".join((*exercise.card.hints, exercise.card.lesson)))


def test_a_solution_is_shown_after_a_try_and_not_before(desk):
    exercise = desk.all[0]
    desk.lay_out(exercise)
    desk.check(exercise, Toy(WRONG))  # of the skeleton: no try
    with pytest.raises(PracticeError, match="Try scale first"):
        desk.solution(exercise)
    desk.copy_of(exercise).write_text(exercise.skeleton + "\n")
    desk.check(exercise, Toy(WRONG))
    desk.solution(exercise)
    assert desk.message[-1] == exercise.solution


def test_the_list_says_at_which_check_it_passed(desk):
    exercise = desk.all[0]
    desk.lay_out(exercise)
    desk.copy_of(exercise).write_text("# mine\n")
    for verdict in (WRONG, WRONG, RIGHT, WRONG, RIGHT):
        desk.check(exercise, Toy(verdict))
    desk.message.clear()
    desk.list()
    assert desk.message[0].endswith("(passed at check 3)")
    assert "check" not in desk.message[1] and "tries" not in desk.message[1]


def test_a_reset_keeps_every_old_text(desk):
    exercise = desk.all[0]
    for text in ("first\n", "second\n"):
        desk.lay_out(exercise)
        desk.copy_of(exercise).write_text(text)
        with desk.progress.changing(exercise.name) as record:
            record.passed = True
        desk.reset(exercise)
        assert ".bak" in desk.message[-2]
    assert (desk.mine / "scale.bak.py").read_text() == "first\n"
    assert (desk.mine / "scale.bak2.py").read_text() == "second\n"
    assert desk.copy_of(exercise).read_text() == exercise.skeleton
    assert not Progress(desk.progress.path).of(exercise.name).passed


def test_watch_checks_once_for_each_saving(desk, monkeypatch):
    exercise = desk.all[0]
    events = iter(["", "save", "", "", "remove", "", "save", ""])

    def look(seconds):
        match next(events):
            case "save":
                desk.copy_of(exercise).write_text(f"# {time.time_ns()}\n")
            case "remove":
                desk.copy_of(exercise).unlink()

    monkeypatch.setattr("coach.desk.time.sleep", look)
    coach = Toy(WRONG, WRONG, RIGHT)
    assert desk.watch(exercise, coach, rounds=8) == 0
    assert len(coach.asked) == 3
    assert sum("is gone" in line for line in desk.message) == 1


def test_watch_goes_on_after_a_file_that_cannot_be_read(desk, monkeypatch):
    exercise = desk.all[0]
    texts = iter(["é".encode("latin-1"), "# right\n".encode("utf-16"), b"# right\n"])
    monkeypatch.setattr("coach.desk.time.sleep", lambda _: desk.copy_of(exercise).write_bytes(next(texts)))
    read = []

    class Reading:
        def check(self, exercise, path):
            read.append(check.read(path))
            return RIGHT if read[-1] == "# right\n" else WRONG

    assert desk.watch(exercise, Reading(), rounds=4) == 0
    assert read == [exercise.skeleton, "# right\n"]
    assert sum("is not UTF-8" in line for line in desk.message) == 2


@pytest.mark.parametrize("begun", [False, True])
def test_watch_names_no_bug_before_it_was_looked_for(desk, monkeypatch, begun):
    exercise, coach, seen = desk.all[1], Toy(WRONG), []
    if begun:
        desk.lay_out(exercise)

    def look(seconds):
        seen.append("\n".join(desk.message))
        desk.copy_of(exercise).write_text("# mine\n")
        desk.message.clear()

    monkeypatch.setattr("coach.desk.time.sleep", look)
    assert desk.watch(exercise, coach, rounds=2) == 1
    assert exercise.card.goal in seen[0] and "Read it first" in seen[0] and "It is off." not in seen[0]
    assert "It is off." in seen[1] and "Read it first" not in seen[1]


def test_what_another_terminal_changes_meanwhile_is_kept(desk):
    exercise, other = desk.all[0], Desk(desk.mine.parent, say=lambda text: None)
    other.hint(exercise)
    desk.lay_out(exercise)
    desk.copy_of(exercise).write_text("# mine\n")
    desk.check(exercise, Toy(WRONG))
    other.hint(exercise)
    desk.check(desk.all[1], Toy(RIGHT))
    other.reset(desk.all[2])
    progress = Progress(desk.progress.path)
    record = progress.of(exercise.name)
    assert (record.hints, record.tries, progress.of("copy").passed) == (2, 1, True)


def test_changes_at_the_same_moment_are_all_kept(tmp_path):
    code = "import sys; sys.path.append(sys.argv[1]); from pathlib import Path; from coach.progress import Progress\n"
    code += "for _ in range(50):\n    with Progress(Path(sys.argv[2])).changing('a') as record: record.tries += 1\n"
    call = [sys.executable, "-c", code, str(PRACTICE), str(tmp_path / "progress.json")]
    running = [subprocess.Popen(call) for _ in range(3)]
    assert [process.wait() for process in running] == [0, 0, 0]
    assert Progress(tmp_path / "progress.json").of("a").tries == 150


@pytest.mark.parametrize("text", ["{", "[]", '{"exercises": {"scale": {"triez": 1}}}', '{"exercises": 3}', "\xff"])
def test_a_broken_progress_file_is_kept_and_named(desk, text):
    desk.mine.mkdir()
    for broken, kept in {text: "progress.broken.json", "[1, ": "progress.broken2.json"}.items():
        desk.progress.path.write_text(broken, "latin-1")
        assert Progress(desk.progress.path, warn=desk.message.append).of("scale").tries == 0
        assert kept in desk.message[-1]
    assert (desk.mine / "progress.broken.json").read_text("latin-1") == text
    assert (desk.mine / "progress.broken2.json").read_text("latin-1") == "[1, "


def test_progress_is_written_whole_or_not_at_all(desk, monkeypatch):
    with desk.progress.changing("scale") as record:
        record.tries = 1
    monkeypatch.setattr("coach.progress.os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(OSError), desk.progress.changing("scale") as record:
        record.tries = 2
    assert Progress(desk.progress.path).of("scale").tries == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("scal", "Did you mean scale?"),
        ("row_sums", "Did you mean row_sum?"),
        ("99", "`python practice.py list` shows all."),
        ("../exercises", "`python practice.py list` shows all."),
    ],
)
def test_a_wrong_name_is_answered_with_the_nearest(name, message, desk):
    with pytest.raises(PracticeError) as error:
        find(name, desk.all)
    assert repr(name) in str(error.value) and message in str(error.value)


@pytest.mark.parametrize("name", ["scale", "SCALE", "mine/scale.py"])
def test_an_exercise_is_found_by_its_file_too(name):
    assert find(name, exercises()).name == "scale"


def test_what_older_versions_named_with_a_number_still_counts(desk):
    desk.mine.mkdir()
    (desk.mine / "03_copy.py").write_text("mine\n")
    desk.progress.path.write_text('{"version": 1, "exercises": {"03_copy": {"passed": true}}}')
    again = Desk(desk.all[0].folder.parents[1])
    assert again.progress.of("copy").passed and (again.mine / "copy.py").read_text() == "mine\n"


def test_everything_of_a_picture_has_a_sign_in_ascii():
    assert all(mark.translate(draw.ASCII).isascii() for mark in [*draw.LEGEND, "…", "×", "–", "✓", "✗", "─"])


# The program itself


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(PRACTICE, tmp_path / "p", ignore=shutil.ignore_patterns("mine", "__pycache__", "exercises"))
    for name in NAMES:
        shutil.copytree(PRACTICE / "exercises" / name, tmp_path / "p" / "exercises" / name)
    return tmp_path / "p"


def environment(**more):
    kept = {k: v for k, v in os.environ.items() if k not in ("TRITON_INTERPRET", "PYTHONPATH")}
    return kept | {"PYTHONUTF8": "1"} | more


def practice(folder, *arguments, **more):
    command = [sys.executable, str(folder / "practice.py"), *arguments]
    return subprocess.run(
        command, cwd=folder.parent, env=environment(**more), capture_output=True, text=True, timeout=HANGS
    )


def test_a_reader_does_the_first_exercise(folder):
    done = practice(folder)
    assert done.returncode == 0 and "0 of 3 exercises done." in done.stdout, done.stderr
    mine = folder / "mine" / "scale.py"
    mine.write_text((folder / "exercises/scale/solution.py").read_text())
    done = practice(folder)
    assert done.returncode == 0 and "scale is right." in done.stdout, done.stdout + done.stderr
    assert "Next: copy" in done.stdout
    assert json.loads((folder / "mine/progress.json").read_text())["exercises"]["scale"]["passed"]
    assert "✓ scale" in practice(folder, "list").stdout


def test_a_check_of_a_new_copy_says_which_lesson_leads_to_it(folder):
    done = practice(folder, "check", "row_sum")
    assert "Sum each row with a mask" in done.stdout and "\nAfter: " in done.stdout and "Gap 1 is still" in done.stdout
    assert "After: " not in practice(folder, "check", "row_sum").stdout


def test_the_first_check_of_a_bug_shows_the_file_and_no_diagnosis(desk):
    exercise = next(each for each in desk.all if each.card.kind == "bug")
    assert desk.begin(exercise)  # then nothing is checked
    assert exercise.skeleton in "".join(desk.message)
    assert not desk.begin(exercise)  # the second is checked
    assert not desk.begin(next(each for each in desk.all if each.card.kind != "bug"))


def test_practice_does_not_check_a_bug_that_nobody_has_read(folder):
    first = practice(folder, "check", "copy")
    assert first.returncode == 0 and "Read it first" in first.stdout
    second = practice(folder, "check", "copy")
    assert second.returncode == 1 and "Read it first" not in second.stdout


def test_the_progress_does_not_depend_on_the_terminal(folder):
    done = practice(folder, "list", PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "scale" in done.stdout


def test_nobody_waits_for_torch_who_has_nothing_checked(folder):
    (folder / "torch.py").write_text("raise SystemExit('torch was imported')\n")
    for arguments in ([], ["list"], ["hint"], ["reset", "scale"]):
        assert practice(folder, *arguments).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "skale"], "practice: There is no exercise 'skale'. Did you mean scale?"),
        (["solution", "scale"], "practice: Try scale first"),
        (["chekc"], "invalid choice: 'chekc'"),
    ],
)
def test_bad_input_is_answered_without_a_traceback(folder, arguments, message):
    done = practice(folder, *arguments)
    assert done.returncode == 2
    assert message in done.stderr and "Traceback" not in done.stderr


def test_what_is_missing_is_named(folder):
    command = "import sys; sys.modules['triton'] = None; import runpy; runpy.run_path(sys.argv[1], run_name='__main__')"
    call = [sys.executable, "-c", command, str(folder / "practice.py")]
    done = subprocess.run(call, env=environment(), capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 1
    assert "triton cannot be found" in done.stderr and "pip install triton" in done.stderr
    assert "Traceback" not in done.stderr


def test_ctrl_c_ends_it_with_a_sentence_and_leaves_no_process(folder):
    practice(folder)
    mine = folder / "mine" / "scale.py"
    mine.write_text(f"open({str(folder / 'pid')!r}, 'w').write(str(__import__('os').getpid()))\nwhile True: pass\n")
    call = [sys.executable, str(folder / "practice.py"), "check", "scale"]
    running = subprocess.Popen(call, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert wait_for(lambda: (folder / "pid").exists() and (folder / "pid").read_text())
    running.send_signal(signal.SIGINT)
    _, message = running.communicate(timeout=HANGS)
    assert (running.returncode, message.strip()) == (130, "Stopped. Your files are as you saved them.")
    assert gone(int((folder / "pid").read_text()))
