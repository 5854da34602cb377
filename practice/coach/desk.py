# SPDX-License-Identifier: Apache-2.0
"""Keep the reader's own copies in ``mine/``, and do with them what the commands of ``practice.py`` say."""

import time
from collections.abc import Callable
from pathlib import Path

from .check import Coach, Verdict, read, report
from .exercise import PRACTICE, Exercise, PracticeError, exercises, find
from .pages import named
from .progress import Progress, without_number
from .spec import KINDS

POLL_S = 0.3
READ_FIRST = "Read it first: what will it do wrong, and where?"


class Desk:
    def __init__(self, practice: Path = PRACTICE, mine: Path | None = None, say: Callable[[str], None] = print):
        self.all, self.mine, self.say = exercises(practice), mine or practice / "mine", say
        if not self.all:
            raise PracticeError(f"There are no exercises in {practice / 'exercises'}. Unpack the zip again.")
        for path in sorted(self.mine.glob("[0-9][0-9]_*.py")):
            if not (renamed := path.with_name(without_number(path.name))).exists():
                path.rename(renamed)
        self.progress = Progress(self.mine / "progress.json", warn=self.say)

    def copy_of(self, exercise: Exercise) -> Path:
        return self.mine / f"{exercise.name}.py"

    def choose(self, name: str | None) -> Exercise:
        """Return the exercise of that name, else the next that has not passed, else the last."""
        if name:
            return find(name, self.all)
        return next((e for e in self.all if not self.progress.of(e.name).passed), self.all[-1])

    def following(self, exercise: Exercise) -> tuple[Exercise | None, int]:
        """Return the next exercise that has not passed, else the first such; and how many are open before it."""
        left = [e for e in self.all if not self.progress.of(e.name).passed]
        order = self.all.index(exercise)
        following = next((e for e in left if self.all.index(e) > order), left[0] if left else None)
        return following, left.index(following) if following else 0

    def lay_out(self, exercise: Exercise) -> bool:
        """Copy the skeleton to ``mine/`` unless a copy is there; return whether it did."""
        path = self.copy_of(exercise)
        if path.exists():
            return False
        self.mine.mkdir(exist_ok=True)
        path.write_text(exercise.skeleton, "utf-8")
        return True

    def unread(self, exercise: Exercise) -> bool:
        """Return whether a bug is still to be looked for: its copy is as it came, and a check would name the bug."""
        path = self.copy_of(exercise)
        return (
            exercise.card.kind == "bug"
            and path.is_file()
            and path.read_text("utf-8-sig", "replace") == exercise.skeleton
        )

    def begin(self, exercise: Exercise, then: str = "") -> bool:
        """Introduce an exercise that has no copy yet; return whether its bug is to be looked for before any check.

        ``then`` says how the reader has the copy checked, if not by the command ``check``.
        """
        if not self.lay_out(exercise):
            return False
        self.introduce(exercise)
        self.say(f"Your copy is new: {self.copy_of(exercise)}")
        if exercise.card.kind != "bug":
            return False
        then = then or f"Then check your copy with\npython practice.py check {exercise.name}"
        self.say(f"\n{exercise.skeleton}\n{READ_FIRST} {then}")
        return True

    # Commands; each returns the exit status

    def status(self, coach: Coach) -> int:
        passed = sum(self.progress.of(e.name).passed for e in self.all)
        self.say(f"{passed} of {len(self.all)} exercises done.")
        if passed == len(self.all):
            self.say("That is all of them. `python practice.py check NAME` checks one again.")
            return 0
        exercise = self.choose(None)
        new = self.lay_out(exercise)
        self.introduce(exercise)
        if new:
            self.say(f"Your copy is new: {self.copy_of(exercise)}")
            task = READ_FIRST if self.unread(exercise) else "Work on what is between its `# gap` lines."
            self.say(f"{task} Then run this again, or `python practice.py watch`.")
            return 0
        return self.check(exercise, coach)

    def introduce(self, exercise: Exercise):
        card = exercise.card
        self.say(f"\n{exercise.name}: {card.title} ({KINDS[card.kind]})\n{card.goal}\nAfter: {named(card.lesson)}\n")

    def judged(self, exercise: Exercise, coach: Coach) -> Verdict:
        """Check the reader's copy, and remember how that went."""
        path = self.copy_of(exercise)
        verdict = coach.check(exercise, path)
        with self.progress.changing(exercise.name) as record:
            if verdict.finding is None:
                record.passed_at = record.passed_at if record.passed else record.tries + 1
                record.passed = True
            elif path.exists() and read(path) != exercise.skeleton:
                record.tries += 1
        return verdict

    def check(self, exercise: Exercise, coach: Coach) -> int:
        path = self.copy_of(exercise)
        verdict = self.judged(exercise, coach)
        self.say(report(exercise, verdict))
        if verdict.finding is None:
            following, before = self.following(exercise)
            if following is None:
                self.say("That was the last one.")
            elif before:
                self.say(f"Next: {following.name}. ({before} before it {are(before)} still open.) "
                         f"Run `python practice.py check {following.name}`.")  # fmt: skip
            else:
                self.say(f"Next: {following.name}. Run `python practice.py`.")
            return 0
        self.say(f"\nYour file: {path}")
        if self.progress.of(exercise.name).hints < len(exercise.card.hints):
            self.say(f"Stuck? python practice.py hint {exercise.name}")
        return 1

    def watch(self, exercise: Exercise, coach: Coach, rounds: int | None = None) -> int:
        """Check at once, and again when the file is saved, until Ctrl-C (or for so many looks).

        A bug that nobody has looked for yet waits for the first saving.
        """
        path, seen = self.copy_of(exercise), None
        then = "Then change it and save it: every save is checked here. Ctrl-C ends this."
        new = self.begin(exercise, then)
        if self.unread(exercise):
            seen = saved(path)
            if not new:
                self.introduce(exercise)
                self.say(f"{path} is as it came. {READ_FIRST} {then}")
        while rounds is None or rounds > 0:
            now = saved(path)
            if now is None and seen != "gone":
                self.say(f"{path} is gone. Save it again, or end this with Ctrl-C.")
                seen = "gone"
            elif now is not None and now != seen:
                seen = now
                self.say(f"\n── {time.strftime('%H:%M:%S')} {exercise.name} " + "─" * 30)
                try:
                    if self.check(exercise, coach) == 0:
                        return 0
                except PracticeError as error:  # gone since, or not to be read: the next save may fix it
                    self.say(str(error))
                self.say("Watching your file; Ctrl-C ends this.")
            rounds = None if rounds is None else rounds - 1
            time.sleep(POLL_S)
        return 1

    def hint(self, exercise: Exercise, more: str = "python practice.py solution") -> int:
        """Show one more hint than before, of three."""
        hints = exercise.card.hints
        with self.progress.changing(exercise.name) as record:
            record.hints = min(record.hints + 1, len(hints))
        for number, hint in enumerate(hints[: record.hints], start=1):
            self.say(f"Hint {number} of {len(hints)}: {named(hint)}")
        if record.hints == len(hints):
            self.say(f"That was the last one. `{more}` shows a solution, once you have tried.")
        return 0

    def solution(self, exercise: Exercise) -> int:
        record = self.progress.of(exercise.name)
        if not record.tries and not record.passed:
            raise PracticeError(f"Try {exercise.name} first: change {self.copy_of(exercise)} and check it.")
        self.say(exercise.solution)
        return 0

    def list(self) -> int:
        for exercise in self.all:
            record = self.progress.of(exercise.name)
            sign = "✓" if record.passed else "·"
            message = f"{sign} {exercise.name:24} {KINDS[exercise.card.kind]:22} {exercise.card.title}"
            if record.passed and record.passed_at:
                message += f" (passed at check {record.passed_at})"
            elif record.tries > 1:
                message += f" ({record.tries} tries)"
            self.say(message)
        return 0

    def keep(self, exercise: Exercise):
        """Give the reader's text, if there is one, another name."""
        path = self.copy_of(exercise)
        if path.exists():
            number, kept = 1, path.with_name(f"{exercise.name}.bak.py")
            while kept.exists():
                number += 1
                kept = path.with_name(f"{exercise.name}.bak{number}.py")
            path.rename(kept)
            self.say(f"Your old file is kept as {kept}")

    def reset(self, exercise: Exercise) -> int:
        """Begin anew. The old text is kept, under the first name that is free."""
        path = self.copy_of(exercise)
        self.keep(exercise)
        self.lay_out(exercise)
        self.progress.forget(exercise.name)
        self.say(f"{path} is back to how it began.")
        return 0


def are(count: int) -> str:
    return "is" if count == 1 else "are"


def saved(path: Path) -> tuple[int, int] | None:
    """Return a value that changes when a file is saved; None where there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
