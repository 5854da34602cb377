# SPDX-License-Identifier: Apache-2.0
"""Faults that once ended in a traceback, or were said of another place: each is said clearly, by file and line."""

import re
import shutil
import zipfile

import pytest

from practice.coach import exercise
from recorder.project import RecorderError
from render import config
from render.gates import check
from render.mkdocs import files, practice
from render.practice import exercises
from tests.render.conftest import LESSON, NAV

SETTINGS = {  # of mkdocs.yml: the text that takes another's place, and the message
    "no YAML": ((r"(?s).*", "nav: [a"), "cannot be read"),
    "nothing": ((r"(?s).*", ""), "holds no settings, `name: value`, but None"),
    "a list": ((r"(?s).*", "- nav\n"), "holds no settings, `name: value`, but ['nav']"),
    "no nav": ((r"(?m)^nav: .*", ""), "nav is None; write it as a list of pages, such as `- Home: index.md`"),
    "a nav of text": ((r"(?m)^nav: .*", "nav: index.md"), "nav is 'index.md'; write it as a list"),
    "a nav of numbers": ((r"(?m)^nav: .*", "nav: [1]"), "1 in nav is no entry such as"),
    "an empty entry": ((r"(?m)^nav: .*", "nav: [{Learn: [{Home: }]}]"), "{'Home': None} in nav is no entry such as"),
    "no docs_dir": ((r"docs_dir: .*", ""), "docs_dir is None; write it as docs_dir: docs/en"),
    "another docs_dir": ((r"docs_dir: .*", "docs_dir: docs/fr"), "docs_dir is 'docs/fr', and there is no such folder"),
    "a docs_dir of many": ((r"docs_dir: .*", "docs_dir: [docs]"), "docs_dir is ['docs']; write it as"),
    "no extensions": ((r"markdown_extensions:", "extensions:"), "markdown_extensions is None; write it as a list"),
    "an extension by number": ((r"  - def_list", "  - 3"), "3 is no Markdown extension: a name"),
    "an unknown extension": ((r"  - def_list", "  - deff"), "Markdown's extension 'deff' cannot be loaded"),
    "an extension's options": ((r"  - def_list", "  - def_list: [1]"), "{'def_list': [1]} is no Markdown extension"),
    "an extension's option": (
        (r"  - def_list", "  - def_list: {loose: 1}"),
        "extension 'def_list' cannot be loaded (Key",
    ),
    "an unknown Python name": ((r"extension\.accept", "extension.gone"), "has no attribute 'gone'"),
    "no folder of snippets": ((r"base_path: \[snippets, \.\], ", ""), "base_path of pymdownx.snippets is None"),
}


def problems() -> list[str]:
    """Return the lines that ``python -m render check`` prints."""
    config.forget()
    try:
        return check.problems()
    except RecorderError as error:
        return [str(error)]


@pytest.mark.parametrize(("change", "message"), SETTINGS.values(), ids=SETTINGS)
def test_settings_of_the_site_that_cannot_be_used(course, change, message):
    text = re.sub(*change, (course.root / "mkdocs.yml").read_text("utf-8"), count=1)
    course.write("mkdocs.yml", text)
    (fault,) = [each for each in problems() if each.startswith("mkdocs.yml")]
    assert message in fault


@pytest.mark.parametrize(
    "name", ["mkdocs.yml", "docs/en/index.md", "docs/en/programs/toy.md", "docs/en/reference/glossary.md"]
)
def test_a_file_that_is_not_utf_8_is_named(course, name):
    course.page("# Home\n\n```recording\nview: path\n```\n", "index.md")
    course.settings([NAV[0], {"1. Toy": NAV[1]}, *NAV[2:]])
    course.write(name, (course.root / name).read_bytes() + b"\n# \xff\n")
    faults = problems()
    assert [each for each in faults if each.startswith(f"{name} is not UTF-8")], faults


def test_a_lesson_that_the_menu_names_and_that_is_gone(course):
    course.page("# Home\n\n```recording\nview: path\n```\n", "index.md")
    course.settings([*NAV, {"1. Gone": "gone.md"}])
    faults = "\n".join(check.problems())
    assert "mkdocs.yml: the menu names gone.md, which is no page" in faults and "Error" not in faults


FENCES = {  # what follows the lesson, and the line of it whose fence is not closed
    "the last": ("```python\nx = 1\n```\n\n```python\ny = 2\n", 5),
    "before others of its kind": ("```python\nx = 1\n\n```python\ny = 2\n```\n\n```python\nz = 3\n```\n", 1),
    "before another kind": ("```text\nx\n```\n\n```text\ny\n\n```console\n$ z\n```\n\n```text\nz\n```\n", 5),
    "of tildes": ("~~~text\nx\n~~~\n\n~~~text\n```\ny\n```\n", 5),
    "around a shorter one": ("````text\n```python\nx\n```\n````\n\n````text\n```\ny\n```\n", 7),
}


@pytest.mark.parametrize(("text", "line"), FENCES.values(), ids=FENCES)
@pytest.mark.parametrize("above", ["", "---\nsnippet: programs/toy\n---\n"])
def test_the_line_of_the_fence_that_is_not_closed(course, text, line, above):
    begin = above + LESSON + "\n"
    course.page(begin + text)
    assert f"docs/en/programs/toy.md:{begin.count(chr(10)) + line}: a fence is not closed" in check.problems()


# A link


def test_no_site_is_built_from_what_a_link_brings_from_elsewhere(course, tmp_path_factory):
    secret = tmp_path_factory.mktemp("outside") / "secret.py"
    secret.write_text("# --8<-- [start:all]\nprint('secret')\n# --8<-- [end:all]\n")
    (course.root / "snippets/elsewhere").symlink_to(secret.parent)
    course.page(LESSON.replace("programs/toy.py:kernel", "elsewhere/secret.py:all"))
    faults = "\n".join(check.problems())
    assert re.search(r"docs/en/programs/toy\.md:\d+: snippets/elsewhere/secret\.py leads out of the checkout", faults)
    with pytest.raises(Exception, match="snippets/elsewhere is a link that leads out of the checkout"):
        files.on_pre_build({})


# Exercises


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder practice/, to be changed."""
    target = tmp_path / "practice"
    shutil.copytree(exercise.PRACTICE, target, ignore=shutil.ignore_patterns("__pycache__", "mine"))
    monkeypatch.setattr(exercises, "PRACTICE", target)
    monkeypatch.setattr(practice, "PRACTICE", target)
    monkeypatch.setattr(practice, "read_text", lambda path: path.read_text("utf-8"))
    monkeypatch.setattr(exercises, "exercises", lambda: exercise.exercises(target))
    return target


SPECS = {
    "no Python": ((r"SPEC = Spec\(", "SPEC = Spec(("), r"spec\.py:\d+: it is not Python"),
    "not UTF-8": ((r"\A", "\udcff"), r"spec\.py:1: it is not Python: 'utf-8' codec"),
    "no Spec": ((r"(?s)SPEC = .*", "SPEC = 1\n"), r"spec\.py has no line SPEC = Spec"),
    "a field that is missing": ((r"goal=", "gaol="), r"spec\.py:\d+: Spec\(…\) has no goal"),
    "code in the card": ((r"title=", "title=1 or "), r"spec\.py:\d+: title is to be written out, no code"),
    "an unknown kind": ((r'kind="\w+"', 'kind="draw"'), r"spec\.py:\d+: there is no kind 'draw'; there are gap, bug"),
}


@pytest.mark.parametrize(("change", "message"), SPECS.values(), ids=SPECS)
def test_a_fault_of_an_exercise_is_said_of_its_file(course, folder, change, message):
    spec = folder / "exercises/scale/spec.py"
    spec.write_text(re.sub(*change, spec.read_text("utf-8"), count=1), "utf-8", errors="surrogateescape")
    (fault,) = check.page_problems(["programs/toy.md"])
    assert re.match(rf"practice/exercises/scale/{message}", fault)


@pytest.mark.parametrize("stray", ["notes.txt", "secret.py", "coach/key.toml", "exercises/scale/mine.py", "a.ipynb"])
def test_a_stray_file_is_not_published(folder, tmp_path, stray):
    (folder / stray).write_text("secret")
    (folder / "mine").mkdir()
    (folder / "mine/notes.txt").write_text("mine")
    practice.on_post_build({"site_dir": tmp_path / "site"})
    names = zipfile.ZipFile(tmp_path / "site" / exercises.ZIP).namelist()
    assert f"practice/{stray}" not in names and "practice/coach/check.py" in names
    assert exercises.strays() == [f"practice/{stray}: it is no part of the exercises; move it to practice/mine/"]
