# SPDX-License-Identifier: Apache-2.0
"""``python -m render check [PAGE…] [--built FOLDER]``: judge recordings, snippets and pages, or what was built."""

import argparse
import sys
from pathlib import Path

from figures.words import plural
from recorder.project import RecorderError
from render.gates import built
from render.gates import check as pages


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m render", description="Judge the pages, whatever builds the site.")
    commands = parser.add_subparsers(required=True, metavar="check")
    checks = commands.add_parser("check", help="say what is wrong with recordings, snippets and pages; exit status 1")
    checks.add_argument("pages", nargs="*", metavar="PAGE", help="such as programs/saxpy: judge these alone, quickly")
    checks.add_argument("--built", type=Path, metavar="FOLDER", help="judge the site that was built there instead")
    options = parser.parse_args(arguments)
    try:
        if options.pages:
            problems = pages.page_problems([pages.find_page(name) for name in options.pages])
        else:
            problems = built.problems(options.built.resolve()) if options.built else pages.problems()
    except RecorderError as error:
        print(f"render: {error}", file=sys.stderr)
        return 2
    for problem in problems:
        print(problem)
    all_well = "Everything that the pages ask for was built, and no link is dead." if options.built else "All is well."
    print(f"{plural(len(problems), 'problem')}." if problems else all_well)
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
