#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Practice writing Triton kernels: says where you stand, and what is wrong with the exercise that you are at."""

import argparse
import importlib.util
import sys

if sys.version_info < (3, 11):  # noqa: UP036, for this is not installed by pip, which would look
    sys.exit(f"Python 3.11 or newer is needed; this is {sys.version.split()[0]}. Try: python3.12 practice.py")
if missing := [name for name in ("torch", "triton", "numpy") if importlib.util.find_spec(name) is None]:
    sys.exit(f"{' and '.join(missing)} cannot be found by {sys.executable}. Try: pip install {' '.join(missing)}")

from coach import draw
from coach.check import Coach
from coach.desk import Desk
from coach.exercise import PracticeError

COMMANDS = {
    "check": "check your copy of an exercise",
    "watch": "check it again each time you save it",
    "serve": "the same, with a picture of the launch, in a browser",
    "hint": "the next of three hints",
    "solution": "a solution, once you have tried",
    "list": "all exercises",
    "reset": "start an exercise over; your old file is kept",
}


def say(text: str):
    """Print, on terminals that know no ✓, too."""
    encoding = sys.stdout.encoding or "ascii"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(draw.ASCII).encode(encoding, "replace").decode(encoding)
    print(text, flush=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="practice.py", description=__doc__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, about in COMMANDS.items():
        command = commands.add_parser(name, help=about, description=about)
        if name != "list":
            command.add_argument("name", nargs=None if name == "reset" else "?", help="such as scale")
    given = parser.parse_args(arguments)
    try:
        desk = Desk(say=say)
        if given.command == "list":
            return desk.list()
        exercise = desk.choose(getattr(given, "name", None))
        if given.command in ("hint", "solution", "reset"):
            return getattr(desk, given.command)(exercise)
        with Coach() as coach:
            if given.command is None:
                return desk.status(coach)
            if given.command == "check" and desk.begin(exercise):
                return 0  # whoever hunts a bug reads the code first
            if given.command == "serve":
                from coach.serve import serve

                return serve(desk, exercise, coach)
            return getattr(desk, given.command)(exercise, coach)
    except PracticeError as error:
        print(f"practice: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nStopped. Your files are as you saved them.", file=sys.stderr)
        return 130
    except OSError as error:
        print(f"practice: {error.filename or ''}: {error.strerror or error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
