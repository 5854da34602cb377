# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.changed [BASE]``: run the tests that a change since BASE (by default the last commit) can touch.

A snippet is touched when what it runs is no longer what was recorded of it at BASE, so a change of one definition
leaves alone who imports others of its file. Of pages, those are touched that changed or that show such a snippet.
What is touched is tested whole, with what ``tests/quick.py`` leaves out of a run of all.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

from recorder import fingerprint, recording, replay
from recorder.project import ROOT, RecorderError, Snippet, snippets
from render.config import address

ROOMS = ("recorder", "figures", "render", "browser", "practice")  # the tests of each stand in the folder of its name
NO_TESTS = 5  # pytest's exit status
EVERYTHING = ("requirements", "pyproject.toml", "conftest.py", "Makefile")  # reach into every test


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def changed_files(base: str) -> list[str]:
    """Files that differ from those of a commit, also those that git does not know yet."""
    known = git("diff", "--name-only", "--no-renames", base)
    return sorted({*known.splitlines(), *git("ls-files", "--others", "--exclude-standard").splitlines()})


def touched_snippets(base: str, files: list[str]) -> list[Snippet]:
    """Those that would run differently from what was recorded at ``base``, and those whose files changed."""
    found = []
    for snippet in snippets():
        device = "cpu" if "cpu" in snippet.settings.devices else "h200"
        done = subprocess.run(
            ["git", "show", f"{base}:recordings/{snippet.name}/{device}.json"], cwd=ROOT, capture_output=True
        )
        then = json.loads(done.stdout)["provenance"]["fingerprint"] if done.returncode == 0 else None
        own = {snippet.path, snippet.test}
        made = recording.load(snippet, device) if device in recording.devices(snippet) else None
        differs = then and then != fingerprint.of(snippet, device, made)
        if differs or any(ROOT / file in own for file in files):
            found.append(snippet)
    return found


def touched_tests(files: list[str]) -> set[str]:
    """Test files that changed, and those that import a helper of tests that changed."""
    ours = [file for file in files if file.startswith("tests/")]
    found = {file for file in ours if Path(file).stem.startswith("test_")}
    helpers = [Path(file).stem for file in ours if file not in found]
    for path in (ROOT / "tests").rglob("test_*.py"):
        text = path.read_text("utf-8")
        if any(f"import {name}" in text or f".{name} import" in text or f"from {name} " in text for name in helpers):
            found.add(path.relative_to(ROOT).as_posix())
    return {file for file in found if (ROOT / file).is_file()}


def more_than_the_menu(base: str) -> bool:
    """Whether mkdocs.yml changed in what stands before ``nav``, which is its last part."""
    then, now = git("show", f"{base}:mkdocs.yml"), (ROOT / "mkdocs.yml").read_text("utf-8")
    return then.partition("\nnav:")[0] != now.partition("\nnav:")[0]


def selection(base: str) -> list[list[str]]:
    """Return the arguments of the runs of pytest that cover the change; ``--quick`` alone is ``make test``."""
    files = changed_files(base)
    if any(file.startswith(EVERYTHING) for file in files):
        return [["--quick"]]
    chosen = touched_tests(files)
    shown, again = touched_snippets(base, files), replay.jobs()
    if shown:
        chosen.add("tests/snippets/test_contract.py")
    for snippet in shown:
        chosen |= {path.relative_to(ROOT).as_posix() for path in (snippet.path, snippet.test) if path.is_file()}
        if snippet in again:
            chosen.add(f"tests/test_replay.py::test_it_comes_out_as_recorded[{snippet.name}]")
    for room in ROOMS:
        if any(file.startswith(f"{room}/") for file in files):
            chosen.add(f"tests/{room}")
    if any(file.startswith("template/") for file in files):
        chosen.add("tests/test_template.py")
    pages = {file.removeprefix("docs/en/") for file in files if re.match(r"docs/en/.+\.(md|ipynb)$", file)}
    for path in (ROOT / "docs/en").rglob("*.md"):
        text, name = path.read_text("utf-8"), path.relative_to(ROOT / "docs/en").as_posix()
        own = name.removesuffix(".md").replace("-", "_")
        if any(snippet.name == own or f"{snippet.name}" in text for snippet in shown):
            pages.add(name)
    pages = {page for page in pages if (ROOT / "docs/en" / page).is_file()}
    chosen |= {f"docs/en/{page}" for page in pages if page.endswith(".md")}
    runs = [sorted(chosen)] if chosen else []
    if any(file.startswith("theme/") for file in files) or ("mkdocs.yml" in files and more_than_the_menu(base)):
        runs.append(["tests/site"])
    elif pages:
        runs.append(["tests/site/test_site.py", "-k", " or ".join(sorted(map(_id, pages)))])
    return runs


def _id(page: str) -> str:
    """What a page's tests are called by pytest."""
    return f"[{address(page)}]"


def main(base: str = "HEAD") -> int:
    if base.startswith("-"):
        print(__doc__)
        return 0
    try:
        runs = selection(base)
    except (RecorderError, subprocess.CalledProcessError) as error:
        print(f"tests.changed: {getattr(error, 'stderr', '') or error}", file=sys.stderr)
        return 2
    status = 0
    commands = [[sys.executable, "-m", "render", "check"]]
    commands += [[sys.executable, "-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal", *run] for run in runs]
    for command in commands:
        print("==", *command[1:], flush=True)
        code = subprocess.run(command, cwd=ROOT).returncode
        if code == NO_TESTS:
            print("No test ran." if "-k" in command else "Nothing of these is tested without a GPU.", flush=True)
            code = int("-k" in command)  # a page without a fence holds no test; but those of the site must be there
        status = status or code
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
