# SPDX-License-Identifier: Apache-2.0
"""A toy with pages: one lesson, its glossary and a home page, under the settings of the real site."""

import json

import pytest

from recorder import lab
from recorder.project import Lab
from render import config
from tests.toy import ROOT, Project

LESSON = """\
# Toy

It loads {{ cpu: launches["toy_kernel"][0].arguments.n; d; == 3 }} elements
in a [block](../reference/glossary.md#block).

```python
--8<-- "programs/toy.py:kernel"
```

## It runs

```recording
view: output
device: h200
```

## The whole file

```recording
view: file
```
"""
PAGES = {
    "index.md": "# Home\n\nThe [lesson](programs/toy.md#it-runs), the [lab](programs/a-lab.ipynb).\n",
    "programs/toy.md": LESSON,
    "reference/glossary.md": "# Glossary\n\n## Block\n\nSome lanes.\n\n## Lane\n\nOne of them.\n",
}
NAV = [*PAGES, "programs/a-lab.ipynb"]
SCRIPT = "# SPDX-License-Identifier: Apache-2.0\n# %% [markdown]\n# # A lab\n\n# %%\nprint('<b>&', 7)\n"
LAB = Lab("programs/labs/a_lab")
PAGE = "docs/en/programs/toy.md"
FILE = "```recording\nview: file\n```\n"


def cell(kind: str, name: str, source: str, **more) -> dict:
    return {"cell_type": kind, "id": name, "metadata": {}, "source": source, **more}


def notebook(*cells: dict) -> str:
    """The text of the lab's notebook with these cells, fresh, as the recorder would write it."""
    versions = {"device": "CPU, Triton's interpreter", "triton": "3.7.1", "torch": "2.13.0", "date": "2026-01-02"}
    made = {"script": "snippets/programs/labs/a_lab.py", "fingerprint": lab.fingerprint(LAB), **versions}
    whole = {"cells": list(cells), "metadata": {"provenance": made}, "nbformat": 4, "nbformat_minor": 5}
    whole["metadata"]["digest"] = lab.digest(whole)
    return json.dumps(whole)


def cells() -> list[dict]:
    printed = {"output_type": "stream", "name": "stdout", "text": "<b>& 7\n"}
    last = cell("markdown", "provenance", "Ran on a CPU") | {"metadata": {"tags": ["provenance"]}}
    code = cell("code", "cell-2", "print('<b>&', 7)", outputs=[printed], execution_count=1)
    return [cell("markdown", "cell-1", "# A lab"), code, last]


class Course(Project):
    """A project with pages."""

    def page(self, text: str, name: str = "programs/toy.md") -> None:
        self.write(f"docs/en/{name}", text)

    def settings(self, nav: list) -> None:
        """The settings of the real site with another menu."""
        config.forget()
        text = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:")[0]
        self.write("mkdocs.yml", f"{text}\nnav: {json.dumps(nav)}\n")

    def lab(self, *given: dict) -> None:
        self.write("docs/en/programs/a-lab.ipynb", notebook(*(given or cells())))


@pytest.fixture
def course(toy) -> Course:
    """A toy with pages in which nothing is wrong."""
    course = Course(toy.root)
    course.settings(NAV)
    for name, text in PAGES.items():
        course.page(text, name)
    course.write("snippets/programs/labs/a_lab.py", SCRIPT)
    course.lab()
    yield course
    config.forget()


@pytest.fixture
def convert(course):
    """Turn Markdown into the HTML of the lesson's page, under the settings of the site."""

    def convert(text, whole_file=True):
        text += f"\n\n{FILE}" if whole_file else ""
        converter = config.converter()
        converter.page_of_check = (course.write(PAGE, text), "programs/toy.md")
        return converter.convert(text)

    return convert
