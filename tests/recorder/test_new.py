# SPDX-License-Identifier: Apache-2.0
"""Begin a lesson: it runs, its test passes, and the gates name what is left to do."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from recorder import judge
from recorder.menu import number
from recorder.new import new
from recorder.project import RecorderError, Snippet
from tests.limits import HANGS

ROOT = Path(__file__).parents[2]
MENU = """\
site_name: A toy
nav:
  - Home: index.md
  - Programs:
      - programs/toy.md
  - Tools:
      - tools/x.md
"""


@pytest.fixture
def chapter(toy):
    toy.write("mkdocs.yml", MENU)
    return toy


def test_everything_has_the_name_and_the_menu_has_the_page(chapter):
    steps = new("programs/saxpy_twice")
    assert "snippets/programs/saxpy_twice.py" in steps and "programs/saxpy-twice/" in steps
    menu = (chapter.root / "mkdocs.yml").read_text("utf-8")
    assert "      - programs/toy.md\n      - programs/saxpy-twice.md\n  - Tools:" in menu
    assert Snippet("programs/saxpy_twice").settings.devices == ("cpu",)
    assert Snippet("programs/toy").settings.launches  # as they were
    page = (chapter.root / "docs/en/programs/saxpy-twice.md").read_text("utf-8")
    assert '--8<-- "programs/saxpy_twice.py:kernel"' in page and "# Saxpy twice" in page
    faults = {problem.fault for problem in judge.all_problems() if "saxpy_twice" in problem.path}
    assert faults == {"missing", "unfinished"}


def test_it_is_a_numbered_lesson_where_those_of_its_chapter_are(chapter):
    lessons = """      - 1. Toy: programs/toy.md
      - "2. Tools: a look": tools/x.md
  - More:
      - 3. Bugs: programs/toy-bug.md
      - 4. Other: tools/y.md
      - 5. Last: programs/last.md
"""
    chapter.write("mkdocs.yml", MENU.partition("      - programs")[0] + lessons)
    assert "this line: - 6. Saxpy twice: programs/saxpy-twice.md" in new("programs/saxpy_twice")
    menu = (chapter.root / "mkdocs.yml").read_text("utf-8")
    assert menu.endswith("- 5. Last: programs/last.md\n      - 6. Saxpy twice: programs/saxpy-twice.md\n")
    moved = menu.replace("      - 6. Saxpy twice: programs/saxpy-twice.md\n", "").replace(
        "  - More:", "      - 6. Saxpy twice: programs/saxpy-twice.md\n  - More:"
    )
    chapter.write("mkdocs.yml", moved)
    assert number() == 6
    numbered = (chapter.root / "mkdocs.yml").read_text("utf-8")
    assert "- 3. Saxpy twice: programs" in numbered and '"2. Tools: a look"' in numbered and "- 6. Last:" in numbered


def test_it_runs_and_its_test_passes(chapter):
    pytest.importorskip("triton")
    new("programs/saxpy")
    for name in ("conftest.py", "tests/snippets/guards.py"):
        target = chapter.root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
    for name in ("chromium", "compiled", "interpreter", "limits", "quick", "toy"):
        shutil.copy(ROOT / f"tests/{name}.py", chapter.root / f"tests/{name}.py")
    for name in ("snippets/tools/testing.py", "pyproject.toml"):
        (chapter.root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, chapter.root / name)
    files = ["tests/snippets/programs/test_saxpy.py", "snippets/programs/saxpy.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files], cwd=chapter.root, text=True,
        env=chapter.environment() | {"CI": "true"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=HANGS,
    )  # fmt: skip
    assert done.returncode == 0 and "24 passed" in done.stdout, done.stdout
    assert os.listdir(chapter.root / "recordings/programs") == ["toy"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("saxpy", "is no name of a lesson"),
        ("programs/Saxpy", "is no name of a lesson"),
        ("program/saxpy", "there is no chapter 'program'; the nearest that exist: programs"),
        ("programs/toy", "is there already"),
    ],
)
def test_what_cannot_be_begun(chapter, name, message):
    before = chapter.files()
    with pytest.raises(RecorderError, match=message):
        new(name)
    assert chapter.files() == before and (chapter.root / "mkdocs.yml").read_text("utf-8") == MENU


def test_a_chapter_that_is_not_in_the_menu(chapter):
    chapter.write("mkdocs.yml", "site_name: A toy\nnav:\n  - Home: index.md\n")
    with pytest.raises(RecorderError, match=r"the menu in mkdocs\.yml has no page of programs/"):
        new("programs/saxpy")
    assert not (chapter.root / "snippets/programs/saxpy.py").exists()
