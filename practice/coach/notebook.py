# SPDX-License-Identifier: Apache-2.0
"""Check exercises in a notebook: ``%load_ext coach.notebook``.

``%%exercise NAME`` on top of a cell keeps the cell as ``mine/NAME.py`` and checks it; a launch that is wrong is drawn.
``%hint NAME`` gives one more hint of three, ``%solution NAME`` a solution after a try.
"""

import atexit
import itertools
from dataclasses import replace

from . import svg
from .check import Coach, read, report
from .desk import Desk
from .exercise import PracticeError

_pictures = itertools.count(1)


class Notebook:
    def __init__(self, desk: Desk | None = None, coach: Coach | None = None):
        self.desk, self.coach = desk or Desk(), coach or Coach()

    def exercise(self, line: str, cell: str):
        """Check what stands in the cell."""
        with _in_one_line():
            exercise = self.desk.choose(line.strip() or None)
            self.desk.mine.mkdir(exist_ok=True)
            path = self.desk.copy_of(exercise)
            if cell.strip() == exercise.skeleton.strip() and path.exists() and read(path) != cell:
                self.desk.keep(exercise)  # the cell as it came is not to replace what was written elsewhere
            path.write_text(cell, "utf-8")
            verdict = self.desk.judged(exercise, self.coach)
            launch = verdict.finding.launch if verdict.finding else None
            if not launch:
                print(report(exercise, verdict))
            else:
                drawn = replace(verdict, finding=replace(verdict.finding, picture=[]))
                print(report(exercise, drawn))
                _show(svg.launch(launch, f"launch-{next(_pictures)}"))
            if verdict.finding and self.desk.progress.of(exercise.name).hints < len(exercise.card.hints):
                print(f"\nStuck? %hint {exercise.name}")

    def hint(self, line: str):
        with _in_one_line():
            self.desk.hint(self.desk.choose(line.strip() or None), more=f"%solution {line.strip()}")

    def solution(self, line: str):
        with _in_one_line():
            self.desk.solution(self.desk.choose(line.strip() or None))


class _in_one_line:
    """Print a mistake in a name in one line, without a traceback."""

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback) -> bool:
        if isinstance(error, PracticeError):
            print(error)
            return True
        return False


def _show(picture: str):
    from IPython.display import SVG, display

    display(SVG(picture))


def load_ipython_extension(ipython):
    """Register the magics; ``%load_ext`` calls this."""
    notebook = Notebook()
    atexit.register(notebook.coach.__exit__)
    ipython.register_magic_function(notebook.exercise, "cell", "exercise")
    ipython.register_magic_function(notebook.hint, "line", "hint")
    ipython.register_magic_function(notebook.solution, "line", "solution")
