# SPDX-License-Identifier: Apache-2.0
"""The page of a lab: its cells in the site's own forms, and what is refused."""

import json
import re
import sys
from types import SimpleNamespace

import markdown
import pytest
from mkdocs.exceptions import PluginError

from render.labs import markdown_of
from render.mkdocs import labs
from tests.render.conftest import LAB, SCRIPT, cell, cells

GITHUB = "https://github.com/someone/something"


@pytest.fixture
def shown(course):
    """A function that makes the page of the lab as MkDocs does; returns its HTML and the address of its source."""

    def show(repository=""):
        text = LAB.notebook.read_text("utf-8")
        source = "programs/a-lab.ipynb"
        file = SimpleNamespace(src_uri=source, abs_src_path=str(LAB.notebook), content_string=text)
        edit = f"{GITHUB}/edit/main/docs/en/{source}" if repository else None
        page = SimpleNamespace(file=file, edit_url=edit)
        config = SimpleNamespace(
            config_file_path=str(course.root / "mkdocs.yml"), repo_url=repository, edit_uri="edit/main/docs/en/"
        )
        made = labs.on_page_markdown(text, page=page, config=config)
        content = markdown.markdown(made, extensions=["attr_list", "toc"])
        return labs.on_page_content(content, page=page, config=config), page.edit_url

    return show


def code(outputs, name="cell-2", tags=()):
    return cell("code", name, "print(7)", outputs=outputs, execution_count=1) | {"metadata": {"tags": list(tags)}}


def stream(text, name="stdout"):
    return {"output_type": "stream", "name": name, "text": text}


def test_cells_and_what_they_printed_stand_in_their_order(shown, course):
    first, _, last = cells()
    result = {"output_type": "execute_result", "data": {"text/plain": "42"}, "metadata": {}, "execution_count": 1}
    some = [code([stream("<b>&\n"), stream("no\n", "stderr"), result]), cell("markdown", "cell-3", "## Try it")]
    course.lab(first, *some, code([stream("hidden\n")], "cell-4", ["solution"]), last)
    page, _ = shown()
    open_, folded = page.split("<details>")
    printed = re.findall(r'<pre class="jp-OutputArea-output( jp-mod-stderr)?"><code tabindex="0">(.*?)</code>', page)
    assert printed == [("", "&lt;b&gt;&amp;"), (" jp-mod-stderr", "no"), ("", "42"), ("", "hidden")]
    assert "hidden" in folded and open_.index("jp-OutputArea") < open_.index('id="try-it"')
    assert re.search(r'<p class="recording__where">Ran on a CPU</p>', page) and "recording__notice" not in page


def test_it_can_be_had_as_a_notebook_and_opened_where_the_repository_is_known(shown):
    page, edit = shown()
    assert '</h1>\n<p class="lab-actions"><a href="a-lab.ipynb" download>' in page and "colab" not in page
    assert edit is None
    page, edit = shown(GITHUB)
    assert "https://colab.research.google.com/github/someone/something/blob/main/docs/en/programs/a-lab.ipynb" in page
    assert edit == f"{GITHUB}/edit/main/snippets/programs/labs/a_lab.py"


def _stale(course):
    course.write("snippets/programs/labs/a_lab.py", SCRIPT.replace("7", "8"))


def _edited(course):
    LAB.notebook.write_text(LAB.notebook.read_text("utf-8").replace("& 7", "& 8"), "utf-8")


def _orphaned(course):
    LAB.path.unlink()


@pytest.mark.parametrize("change", [_stale, _edited, _orphaned])
def test_what_is_not_as_its_script_makes_it_is_refused_or_under_serve_marked(shown, course, monkeypatch, change):
    change(course)
    with pytest.raises(PluginError, match=rf"programs/a-lab\.ipynb: {change.__name__[1:]}"):
        shown()
    monkeypatch.setattr(sys, "argv", ["mkdocs", "serve"])
    assert "recording__notice--stale" in shown()[0]


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ({"output_type": "error", "ename": "NameError", "evalue": "no x", "traceback": []}, "failed: NameError: no x"),
        ({"output_type": "display_data", "data": {"image/png": "AAAA"}, "metadata": {}}, "shows image/png"),
    ],
)
def test_an_error_and_a_picture_are_refused(shown, course, output, why):
    first, _, last = cells()
    course.lab(first, code([output]), last)
    with pytest.raises(PluginError, match=rf"programs/a-lab\.ipynb: cell-2 {why}"):
        shown()


def test_a_lab_opens_on_its_question_and_a_recording_that_no_notebook_shows():
    title = cell("markdown", "cell-1", "# A lab\n\nWho does\nthe rest?")
    title["metadata"] = {"of": "start/first_kernel", "view": "explorer", "launch": "add_kernel[0]"}
    notebook = json.dumps({"cells": [title, cell("markdown", "cell-2", "# B\n\nOne.\n\nTwo.")]})
    fence = "```recording\nof: start/first_kernel\nview: explorer\nlaunch: add_kernel[0]\n```"
    opening = "# A lab\n\nWho does\nthe rest?\n{ .question }"
    assert markdown_of(notebook) == "\n\n".join([opening, fence, "", "# B", "One.", "Two."])


ASKED = "Here it is.\n\n**Predict:** what's\nprinted?\n\n- `'6'`\n- seven, as\n  it's\n- eight"


def asked(**metadata):
    return cell("markdown", "cell-3", ASKED) | {"metadata": metadata}


def test_a_prediction_is_a_question_on_the_page_and_what_follows_it_is_folded(shown, course):
    first, _, last = cells()
    course.lab(first, asked(right=2, then="It's prime."), code([stream("7\n")]), code([stream("8\n")], "cell-4"), last)
    lines = markdown_of(LAB.notebook.read_text("utf-8")).splitlines()
    at = lines.index("```predict")
    assert lines[at - 2 : at] == ["Here it is.", ""] and not any("Predict:" in line for line in lines)
    choices = ["  - `'6'`", "  - [x] seven, as it’s", "  - eight"]
    assert lines[at + 1 : at + 7] == ["ask: What’s printed?", "choices:", *choices, "then: It’s prime."]
    page, _ = shown()
    folds = re.findall(r'(?s)<details class="jp-asked">.*?</details>', page)
    assert len(folds) == 1 and ">7</code>" in folds[0] and ">8</code>" in page


def test_a_prediction_without_an_answer_stays_a_sentence(course):
    first, _, last = cells()
    course.lab(first, asked(), last)
    assert "**Predict:** what’s\nprinted?" in markdown_of(LAB.notebook.read_text("utf-8"))


def test_what_is_for_the_notebook_alone_is_on_no_page(course):
    first, _, last = cells()
    alone = cell("markdown", "cell-3", "Run it.") | {"metadata": {"tags": ["notebook"]}}
    course.lab(first, alone, last)
    assert "Run it." not in markdown_of(LAB.notebook.read_text("utf-8"))
