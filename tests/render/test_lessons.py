# SPDX-License-Identifier: Apache-2.0
"""The main path: its numbers, its times, and what a reader's browser remembers of it."""

import json

import pytest
from bs4 import BeautifulSoup
from msgspec.structs import replace

from render import config
from render.gates import check
from render.lessons import lessons, minutes
from tests.render.conftest import LESSON, NAV, cell, cells
from tests.toy import made

TOY = "programs/toy.md"
NUMBERED = ["index.md", {"Learn": [{"1. A lab": "programs/a-lab.ipynb"}, {"2. Toy": TOY}]}, "reference/glossary.md"]


def under_title(text: str) -> str:
    converter = config.converter()
    converter.page_of_check = (config.docs() / TOY, TOY)
    return converter.convert(text).partition("</h1>")[2].lstrip()


def at_the_end(text: str) -> str:
    """What a page says in small print below all else."""
    return under_title(text).partition(' id="run-it" data-search-exclude>')[2].removesuffix("</p>")


def test_lessons_are_the_pages_with_a_number(course):
    assert lessons() == {}
    course.settings(NUMBERED)
    assert [(each.page, each.number, each.of) for each in lessons().values()] == [
        ("programs/a-lab.ipynb", 1, 2),
        (TOY, 2, 2),
    ]
    assert check.problems() == []


def test_a_lesson_says_so_in_a_few_words_under_its_title(course):
    assert not under_title(LESSON).startswith("<p class"), "other pages begin with what they say"
    course.settings(NUMBERED)
    head = '<p class="page-head" data-search-exclude><span class="lesson">Lesson 2</span>\u00a0· 2 minutes'
    code = '<span class="page-head__code">\u00a0· <a href="#run-it">run it</a></span></p>'
    assert under_title(LESSON).startswith(head + code)


def test_a_page_ends_with_where_what_it_shows_ran(course):
    place = "ran on an NVIDIA H200 (Triton 3.7.1)"
    assert at_the_end(LESSON) == f"What this page shows {place}."
    assert at_the_end("# Toy\n") == ""


def test_a_lesson_offers_its_own_file_at_its_end(course):
    course.settings(NUMBERED)

    def offered(text: str) -> str:
        course.page(text)
        return at_the_end(text).partition("</span>")[0]

    own = '<span class="page-origin__code">Run it: <a href="../../snippets/programs/toy.py" download="toy.py">'
    own += "Download toy.py</a>."
    assert offered(LESSON) == own
    course.snippet("other", "x = 1\n")
    other = "```recording\nof: programs/other\nview: file\n```\n\n"
    assert offered(LESSON.replace("## It runs", f"{other}## It runs")) == own  # though another one comes first
    assert offered(f"# Toy\n\n{other}") == own.replace("toy", "other")
    assert offered("# Toy\n") == ""


def test_a_lesson_leads_to_the_file_for_a_project_of_ones_own(course):
    course.settings(NUMBERED)
    course.page("---\nto_copy: reference/glossary.md\n---\n\n" + LESSON)
    page = BeautifulSoup(check.convert([TOY])[0][TOY], "html.parser")
    (link,) = [each for each in page.select(".page-head a") if each.text == "copy it"]
    assert link["href"] == "../../reference/glossary/"
    course.page("---\nto_copy: notes/none.md\n---\n\n" + LESSON)
    assert check.problems() == ["docs/en/programs/toy.md: to_copy names notes/none.md, which is no page"]


def test_a_button_downloads_a_file(course):
    course.page(LESSON + "\n\n```recording\nview: download\n```\n")
    page = BeautifulSoup(check.convert([TOY])[0][TOY], "html.parser")
    (link,) = page.select("a.download")
    assert (link["href"], link["download"], link.text) == (
        "../../snippets/programs/toy.py", "toy.py", "Download toy.py"
    )  # fmt: skip


def test_what_was_compiled_is_said_last(course):
    stage = "```recording\nview: stage\nlaunch: toy_kernel[0]\ntarget: sm_90\nstage: ptx\n```\n\n"
    text = LESSON.replace("## It runs", stage + "## It runs")
    both = "What this page shows ran on an NVIDIA H200 (Triton 3.7.1) and was compiled by Triton 3.9.0."
    assert at_the_end(text) == both
    interpreted = "```recording\nview: output\ndevice: cpu\n```\n\n"
    ran = "ran in Triton’s interpreter (3.7.1) and on an NVIDIA H200 (Triton 3.7.1), and was compiled by Triton 3.9.0."
    assert at_the_end(text.replace("## It runs", interpreted + "## It runs")).endswith(ran)
    stage = "view: stage\nlaunch: toy_kernel[0]\ntarget: sm_90\nstage: ttir"
    compiled = text.replace("view: output\ndevice: h200", stage)
    assert at_the_end(compiled) == "What this page shows was compiled by Triton 3.9.0."


def test_a_table_of_all_versions_names_the_first_and_the_last(course):
    for device, version in {"cpu": "3.7.1", "cpu-triton-3.10.0": "3.10.0", "cpu-triton-3.9.0": "3.9.0"}.items():
        provenance = replace(made("cpu").provenance, triton=version)
        course.record(device, output="## Rows\n  a row\n    ran: yes\n", provenance=provenance)
    file = "```recording\nview: file\n```\n"
    end = at_the_end(f"# Toy\n\n```recording\nview: verdicts\nsection: Rows\n```\n\n{file}")
    assert end == "What this page shows ran in Triton’s interpreter (3.7.1 to 3.10.0)."


def test_the_view_of_the_path(course):
    course.settings(NUMBERED)
    course.page("# Home\n\n```recording\nview: path\n```\n", "index.md")
    assert check.problems() == []
    page = BeautifulSoup(check.convert(["index.md"])[0]["index.md"], "html.parser")
    assert page.select_one(".path p").text.startswith("2 lessons, 0 h 3 min")
    (chapter,) = page.select(".path__chapter")
    assert chapter.h3.text.startswith("Learn ") and chapter.ol["start"] == "1"
    links = [(link["href"], link.text) for link in chapter.select("a.path__lesson")]
    assert links == [("programs/a-lab/", "A lab"), ("programs/toy/", "Toy")]


def test_what_follows_the_lessons_is_listed_after_them_as_optional(course):
    more = {"Compiler": [{"Toy, again": "programs/again.md"}]}
    course.page("# Toy\n", "programs/again.md")
    course.settings(["index.md", {"Learn": [*NUMBERED[1]["Learn"], more]}, {"Reference": ["reference/glossary.md"]}])
    course.page("# Home\n\n```recording\nview: path\n```\n", "index.md")
    assert check.problems() == []
    page = BeautifulSoup(check.convert(["index.md"])[0]["index.md"], "html.parser")
    _, optional = page.select(".path__chapter")
    assert optional.h3.text == "Compiler optional"
    assert [(link["href"], link.text) for link in optional.select("a")] == [("programs/again/", "Toy, again")]
    assert page.select_one(".path p").text.startswith("2 lessons, ")


ROUTE = "```recording\nview: route\nlessons:\n  programs/toy: the <rule>\n  programs/a-lab: numbers\n```\n"


def test_a_route_has_the_lessons_in_its_own_order_and_adds_up_their_minutes(course):
    course.settings(NUMBERED)
    course.page(f"# Glossary\n\n{ROUTE}", "reference/glossary.md")
    assert check.problems() == []
    page = BeautifulSoup(check.convert(["reference/glossary.md"])[0]["reference/glossary.md"], "html.parser")
    stops = page.select(".route li")
    assert [stop.text for stop in stops] == ["Toy, 2 min: the <rule>", "A lab, 1 min: numbers"]
    assert [stop.a["href"] for stop in stops] == ["../../programs/toy/", "../../programs/a-lab/"]
    assert page.select_one(".route + p").text.startswith("Together 3 minutes")


@pytest.mark.parametrize(
    ("route", "message"),
    [
        (ROUTE.replace("programs/toy", "programs/tey"), "'programs/tey'; the nearest that exist: programs/toy"),
        (ROUTE.replace("programs/toy", "index"), "there is no lesson 'index'"),
        (ROUTE.replace("the <rule>", ""), "the view 'route' needs `lessons:`"),
        ("```recording\nview: route\n```\n", "the view 'route' needs the option 'lessons'"),
        ("```recording\nview: route\nof: programs/toy\n```\n", "the view 'route' has no option 'of'"),
    ],
)
def test_a_route_that_is_wrong(course, route, message):
    course.settings(NUMBERED)
    course.page(f"{LESSON}\n\n{route}")
    (fault,) = check.problems()
    assert message in fault


def menu(*titles: str) -> list:
    return [{"Learn": [{title: page} for title, page in zip(titles, NAV, strict=True)]}]


@pytest.mark.parametrize(
    ("titles", "message"),
    [
        (("Home", "2. Toy", "Glossary", "1. A lab"), "not numbered 1, 2, 3 …: 2 stands in the wrong place"),
        (("Home", "1. Toy", "Glossary", "1. A lab"), "1 stands in the wrong place"),
        (("Home", "1. Tey", "Glossary", "2. A lab"), "its title is 'Toy', and the menu in mkdocs.yml calls it 'Tey'"),
    ],
)
def test_a_menu_that_is_wrong(course, titles, message):
    course.settings(menu(*titles))
    (fault,) = check.problems()
    assert message in fault


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("As in [lesson 1](a-lab.ipynb).", None),
        ("Lesson 1, [A lab](a-lab.ipynb#top): one. Lesson 2 has [the rule](toy.md).", None),
        ("As in [lesson 2](a-lab.ipynb).", "'lesson 2': the menu calls programs/a-lab.ipynb lesson 1; better link its"),
        ("As in [the lab of lesson\n3](a-lab.ipynb).", "'lesson\\n3': the menu calls programs/a-lab.ipynb lesson 1"),
        ("From lesson 1. See [it](a-lab.ipynb).", "'lesson 1': a lesson is called by its title, or by its number in"),
        ("See [it](a-lab.ipynb), lesson 1.", "'lesson 1': a lesson is called by its title, or by its number in"),
        ("As in [lesson 1](../index.md).", "'lesson 1': a lesson is called by its title, or by its number in"),
    ],
)
def test_a_lesson_called_by_its_number(course, text, message):
    course.settings(NUMBERED)
    course.page(f"{LESSON}\n\n{text}\n")
    line = LESSON.count("\n") + 3
    faults = check.problems()
    assert len(faults) == bool(message) and all(each.startswith(f"docs/en/{TOY}:{line}: {message}") for each in faults)


def test_a_lesson_called_by_its_number_in_a_lab(course):
    course.settings(NUMBERED)
    first, *others = cells()
    course.lab(first | {"source": "# A lab\n\nLesson 1, [Toy](toy.md)"}, *others)
    assert "'Lesson 1': the menu calls programs/toy.md lesson 2" in "\n".join(check.problems())


def test_what_takes_time_to_read():
    words, listing, figure = "word " * 200, "\n```python\nx = 1\n```\n", "\n```recording\nview: output\n```\n"
    assert minutes(words) == 1 and minutes(words * 3) == 3
    assert minutes(words + listing * 2) == 2 and minutes(words + figure * 2) == 2
    assert minutes(words + listing.replace("x = 1", words) * 2) == 2  # a listing is looked at as one
    assert minutes(f"---\ndescription: {words}\n---\n{words}") == 1
    assert minutes(f"{words}\n??? tip\n\n    {words}\n    {listing}\n\nword") == 2  # all but a word is folded
    assert minutes("[word](https://a.test/long/address) " * 200) == 1
    assert minutes('<b class="x">word</b> ' * 200) == 1 and minutes(f"`a < n` {words * 2} `b > 1`") == 3
    assert minutes("word " * 199 + "{{ cpu: an + expression; d; > 1 }}") == 1
    assert minutes(words + figure.replace("output", "file") * 9) == 1  # folded, too


def test_a_notebook_takes_time():
    cells = [cell("markdown", "a", "word " * 200), *(cell("code", name, "x = 1") for name in "bc")]
    assert minutes(json.dumps({"cells": cells}), notebook=True) == 2
