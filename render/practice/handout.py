# SPDX-License-Identifier: Apache-2.0
"""Writes the files of ``practice/`` that come from the site: the notebook of all exercises, and titles of pages.

``python -m render.practice.handout`` writes both; a test compares. ``--repository URL``, once the course has an address
on GitHub: the notebook, opened in Colab, then fetches the folder from there. Without one it asks for the zip.
"""

import argparse
import json
import re
import sys

from practice.coach.exercise import PRACTICE, Exercise
from practice.coach.pages import PAGE
from practice.coach.spec import KINDS
from recorder.project import ROOT, RecorderError, read_text
from recorder.recording import write_atomically
from render.config import docs
from render.lessons import lessons
from render.practice import exercises

NOTEBOOK, PAGES = PRACTICE / "practice.ipynb", PRACTICE / "pages.json"
PINNED = ("torch", "triton", "numpy")
BEGIN = """\
# Practice: write Triton kernels

Each cell that begins with `%%exercise` is a file with gaps. Fill in what is between the marks, leave the rest alone, \
and run the cell. A coach tells you what is wrong and where, and draws the launch. You don't need a GPU, but if you \
have one, your kernel is timed as well.

`%hint scale` gives the next of three hints, and `%solution scale` shows a solution once you have tried. Your \
versions are kept in the folder `mine`.

First, run these three cells."""
LOAD = "%load_ext coach.notebook"
FETCH = """\
import os, sys
if not os.path.isdir("coach"):  # in Colab
{fetch}
    os.chdir("practice")
sys.path.insert(0, os.getcwd())"""
CLONE = """\
    !git clone --quiet --depth 1 {repository} course
    os.chdir("course")"""
UPLOAD = """\
    import zipfile
    from google.colab import files
    print("Upload triton-practice.zip, which you find on the course's Practice page:")
    zipfile.ZipFile(next(iter(files.upload()))).extractall()"""


def pins() -> list[str]:
    """Return the exact versions of an exercise's requirements, with the Python that each is for."""
    exact = []
    for line in read_text(ROOT / "requirements.txt").splitlines():
        if match := re.fullmatch(r"(?P<name>[\w-]+)==(?P<version>[\w.]+)\s*(;\s*(?P<marker>.*))?", line.strip()):
            marker = match["marker"] if "python" in (match["marker"] or "") else ""
            if match["name"] in PINNED:
                exact.append(f"{match['name']}=={match['version']}" + (f"; {marker}" if marker else ""))
    if missing := set(PINNED) - {pin.partition("==")[0] for pin in exact}:
        raise RecorderError(f"requirements.txt has no exact version of {min(missing)}")
    return sorted(exact, key=lambda pin: PINNED.index(pin.partition("==")[0]))


def notebook(repository: str = "") -> str:
    """Return the notebook's text."""
    quoted = " ".join(f'"{pin}"' for pin in pins())
    fetch = FETCH.format(fetch=CLONE.format(repository=repository) if repository else UPLOAD)
    cells = [
        _cell("markdown", "begin", BEGIN),
        _cell("code", "install", f"%pip install --quiet {quoted}"),
        _cell("code", "fetch", fetch),
        _cell("code", "load", LOAD),
    ]
    for each in exercises.all_of_them():
        cells += [_cell("markdown", f"about-{each.name}", _about(each)), _cell("code", each.name, _filled(each))]
    made = {
        "cells": cells,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
            "license": "Apache-2.0",
            "repository": repository,
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def _cell(kind: str, name: str, text: str) -> dict:
    cell = {"cell_type": kind, "id": name.replace("_", "-"), "metadata": {}, "source": text.splitlines(keepends=True)}
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def _about(each: Exercise) -> str:
    after = lessons()[each.card.lesson]
    head = f"## {each.card.title}\n\n{KINDS[each.card.kind].capitalize()} · after lesson {after.number}, {after.title}"
    return f"{head}\n\n{each.card.goal}"


def _filled(each: Exercise) -> str:
    return f"%%exercise {each.name}\n{each.skeleton.rstrip()}"


def pages(site: str = "") -> str:
    """Return the order of exercises and the titles of the pages that they name, as JSON."""
    named = {page for each in exercises.all_of_them() for page in (each.card.lesson, *_pages(each))}
    titles = {page: _title(page) for page in sorted(named)}
    order = [each.name for each in exercises.all_of_them()]
    return json.dumps({"site": site, "exercises": order, "titles": titles}, indent=1, ensure_ascii=False) + "\n"


def _title(page: str) -> str:
    if lesson := lessons().get(page):
        return f"lesson {lesson.number}, {lesson.title}"
    if not (docs() / page).is_file():
        raise RecorderError(f"a hint names {page}, which is no page")
    return exercises.heading(page)


def _pages(each: Exercise) -> list[str]:
    return [match["page"] for hint in each.card.hints for match in PAGE.finditer(hint)]


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m render.practice.handout", description=__doc__.splitlines()[0])
    parser.add_argument("--repository", default=None, metavar="URL", help="where the course can be cloned from")
    given = parser.parse_args(arguments)
    repository = given.repository if given.repository is not None else repository_of()
    write_atomically(NOTEBOOK, notebook(repository))
    write_atomically(PAGES, pages())
    print(f"written: {NOTEBOOK.relative_to(ROOT)}, {PAGES.relative_to(ROOT)}")
    return 0


def repository_of() -> str:
    """Return the address of the repository that the notebook was written with."""
    return json.loads(NOTEBOOK.read_text("utf-8"))["metadata"]["repository"] if NOTEBOOK.is_file() else ""


if __name__ == "__main__":
    sys.exit(main())
