# SPDX-License-Identifier: Apache-2.0
"""Exercises on pages, each from its folder alone; and the zip that readers download, which runs."""

import ast
import json
import subprocess
import sys
import zipfile
from types import SimpleNamespace

import pytest
from bs4 import BeautifulSoup
from msgspec import structs

from practice.coach.exercise import PRACTICE
from practice.coach.finding import STAGES
from practice.coach.spec import FINISHED
from recorder import fingerprint
from recorder.project import RecorderError, read_text
from recorder.recording import Benchmark, Coached, Reading
from render.config import docs, nav
from render.gates.check import convert
from render.lessons import lessons
from render.mkdocs import practice
from render.page import Page
from render.practice import exercises
from render.views import exercises as views

EXERCISES = exercises.all_of_them()
each = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.name)
FIRST = EXERCISES[0]
SCALE = next(each for each in EXERCISES if each.name == "scale")  # it has a solution that is too slow
PLAYGROUND = "practice/playground.md"  # beside them


def on(name: str) -> Page:
    """Return a page of this name, on which a view is shown."""
    page = Page()
    page.name = name
    return page


@each
def test_each_exercise_has_its_page(exercise):
    page = exercises.page_of(exercise)
    html, faults = convert([page])
    assert not faults
    soup = BeautifulSoup(html[page], "html.parser")
    assert soup.h1.get_text().removesuffix("¶") == exercise.card.title
    text = lambda part: part.get_text().replace("\xa0·", " ·")  # the page lets no line begin with a dot
    shown = text(soup)
    assert views.typeset(exercise.card.goal) in shown and f"check {exercise.name}" in shown
    code = {text: text[text.index('"""\n\nimport ') + 5 :].strip() for text in (exercise.solution, exercise.skeleton)}
    assert all(part in shown for part in code.values())
    said = ast.get_docstring(ast.parse(exercise.solution)).split("\n\n")[1:]  # in a column that fits, not in the code
    said = [part if part.startswith(" ") else views.typeset(" ".join(part.split())) for part in said]
    assert all(" ".join(part.replace("`", "").split()) in " ".join(shown.split()) for part in said)
    assert not any(line.startswith('"""') for line in shown.splitlines())
    slow, wrong = "right result and still fails" in shown, "As it stands, it fails" in shown
    assert slow == (exercise.start().stage == "speed") != wrong
    assert ("Fill in what is between" in shown) == (exercise.card.kind not in FINISHED) != ("Change what is" in shown)
    folded = " ".join(text(fold) for fold in soup.find_all("details"))
    assert views.typeset(exercise.card.hints[0]) in folded and code[exercise.solution] in folded
    lesson = next(link for link in soup.find_all("a") if link.get_text().startswith("lesson "))
    assert lesson["href"].startswith("../../") and lesson["href"].endswith("/")


@each
def test_its_page_shows_what_the_coach_answered(exercise):
    page = exercises.page_of(exercise)
    soup = BeautifulSoup(convert([page])[0][page], "html.parser")
    recorded, _ = views.recordings_of(exercise)
    assert soup.select_one("pre.exercise__answer").get_text() == recorded.output
    assert bool(soup.select_one("svg.coach-launch")) == bool(recorded.coached.launch)
    (why,) = [wrong.why for wrong in exercise.wrong() if wrong.name == recorded.coached.shown]
    assert f"Suppose you make this mistake: {views.typeset(why).replace('`', '')}." in soup.get_text()
    rows = soup.select("details table tbody tr")
    assert len(rows) == len(views.caught_by(exercise)) >= 4
    assert not any("`" in row.get_text() for row in rows)


def test_a_recording_that_is_stale_stops_the_build(monkeypatch):
    monkeypatch.setattr(fingerprint, "of", lambda *_: "another")
    stale = r"stale: .*fix: python -m recorder run practice/" + FIRST.name
    with pytest.raises(RecorderError, match=stale):
        views.exercise(on(f"practice/{FIRST.name}.md"), FIRST.name)
    with pytest.raises(RecorderError, match=stale):
        views.caught(on("practice/exercises.md"))


def test_the_matrix_counts_what_each_check_caught():
    soup = BeautifulSoup(views.caught(on("practice/exercises.md")), "html.parser")
    heads, (totals, *rows) = soup.select("th"), soup.select("tbody tr")
    assert [head.get_text().lower() for head in heads] == ["exercise", *STAGES] and len(rows) == len(EXERCISES)
    counted = [[int(cell.get_text() or 0) for cell in row.select("td")[1:]] for row in rows]
    assert counted[0] == [list(views.caught_by(FIRST).values()).count(stage) for stage in STAGES]
    columns = [sum(column) for column in zip(*counted, strict=True)]
    assert [int(cell.get_text()) for cell in totals.select("td")[1:]] == columns
    assert f"{sum(columns)} wrong solutions to {len(EXERCISES)} exercises" in soup.get_text()


def test_what_a_solution_reaches_on_a_gpu_is_shown(monkeypatch):
    recorded, timed = views.recordings_of(SCALE)
    reading = Reading(x=["a copy of as many bytes"], y={"solution": [0.914, 0.91, 0.93]})
    table = Benchmark("speed", ["against"], "", "", {"solution": "the solution"}, [reading])
    slow = next(wrong for wrong in SCALE.wrong() if wrong.gpu)
    where = structs.replace(recorded.provenance, device="H")
    timed = structs.replace(recorded, provenance=where, benchmarks=[table], coached=Coached({slow.name: "speed"}))
    monkeypatch.setattr(views, "recordings_of", lambda each: (recorded, timed))
    shown = BeautifulSoup(views.exercise(on("practice/scale.md"), SCALE.name), "html.parser").get_text()
    assert "On an H it runs at 91% to 93% of the speed of a copy of as many bytes. To pass" in shown
    assert views.typeset(slow.why) in shown


@pytest.mark.parametrize(
    ("repository", "edit", "link"),
    [
        ("", None, None),
        ("https://codeberg.org/a/b", None, None),
        ("https://github.com/a/b/", "edit/dev/docs/en/", "github/a/b/blob/dev/practice/practice.ipynb"),
        ("https://github.com/a/b", "", "github/a/b/blob/main/practice/practice.ipynb"),
    ],
)
def test_the_notebook_opens_in_colab_where_the_repository_is_known(repository, edit, link):
    config = SimpleNamespace(repo_url=repository, edit_uri=edit)
    page = SimpleNamespace(file=SimpleNamespace(src_uri=exercises.OVERVIEW))
    html, faults = convert([exercises.OVERVIEW])
    shown = practice.on_page_content(html[exercises.OVERVIEW], page=page, config=config)
    links = [a["href"] for a in BeautifulSoup(shown, "html.parser").find_all("a") if a.get_text() == "Open in Colab"]
    assert links == ([f"https://colab.research.google.com/{link}"] if link else []) and not faults


def test_no_page_is_of_an_exercise_that_is_not_there():
    there = {path.relative_to(docs()).as_posix() for path in (docs() / "practice").glob("*.md")}
    assert there == {exercises.OVERVIEW, PLAYGROUND, *map(exercises.page_of, EXERCISES)}


def test_the_menu_has_them_in_the_order_of_the_lessons():
    named = [page for page in nav() if page.startswith("practice/")]
    assert named == ["practice/exercises.md", PLAYGROUND, *map(exercises.page_of, EXERCISES)]
    numbers = [lessons()[exercise.card.lesson].number for exercise in EXERCISES]
    assert numbers == sorted(numbers)


def test_the_list_names_all():
    listed = BeautifulSoup(views.exercises(on("practice/exercises.md")), "html.parser")
    links = [line.a["href"] for line in listed.find_all("li")]
    assert links == [f"../{exercise.name.replace('_', '-')}/" for exercise in EXERCISES]


def test_a_lesson_leads_to_its_exercises():
    page = FIRST.card.lesson
    part = '<h2 id="try-it">Try it</h2>'
    html = views.with_invitation(f"<p>Text.</p>{part}<ol></ol>", page)
    link = BeautifulSoup(html, "html.parser").select_one("h2 + p.invitation a")
    assert link.get_text() == FIRST.card.title and html.index("invitation") < html.index("<ol>")
    leading = {lesson for exercise in EXERCISES for lesson in (exercise.card.lesson, *exercise.card.also)}
    for lesson in lessons().keys() - leading:  # a package is no single file, so its lesson has an exercise of its own
        assert "{ #exercise }" in read_text(docs() / lesson), f"{lesson} has no exercise"
    none = "notes/int64-offsets.md"
    assert views.with_invitation(part, none) == part


def test_a_wrong_name_gets_the_nearest():
    with pytest.raises(RecorderError, match=f"no exercise '{FIRST.name}x'.*{FIRST.name}"):
        views.exercise(on("practice/exercises.md"), FIRST.name + "x")
    with pytest.raises(RecorderError, match="no exercise None"):
        views.exercise(on("practice/exercises.md"), None)


def test_an_exercise_of_no_lesson_is_refused(monkeypatch):
    monkeypatch.setattr(exercises, "lessons", dict)
    with pytest.raises(RecorderError, match=f"{FIRST.name}/spec.py: it is of the lesson {FIRST.card.lesson}"):
        exercises.all_of_them()


def test_a_hint_links_the_page_that_it_names():
    hint = views.with_links("a < b, see programs/masks.md#other, or", "practice/row-sum.md")
    link = BeautifulSoup(hint, "html.parser").a
    assert link["href"] == "../../programs/masks/#other" and "a &lt; b, see" in hint
    with pytest.raises(RecorderError, match=r"programs/mask\.md, which is no page"):
        views.with_links("see programs/mask.md", "practice/row-sum.md")


def test_a_hint_calls_a_page_that_is_no_lesson_by_its_heading():
    hint = views.with_links("how: matmul/split-k.md#the-shortest-kernel", "practice/split.md")
    assert hint.endswith(">Split-K: few rows, long sums</a>")


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    site = tmp_path_factory.mktemp("site")
    practice.on_post_build({"site_dir": site})
    return site / exercises.ZIP


def test_the_same_files_make_the_same_zip(packed, tmp_path):
    practice.on_post_build({"site_dir": tmp_path})
    assert packed.read_bytes() == (tmp_path / exercises.ZIP).read_bytes()


def test_nothing_of_ones_own_is_packed(packed):
    names = zipfile.ZipFile(packed).namelist()
    assert "practice/practice.py" in names and f"practice/exercises/{FIRST.name}/exercise.py" in names
    assert not [name for name in names if "mine/" in name or "__pycache__" in name]
    assert len(names) == len(exercises.files()) + len(EXERCISES) == len(set(names))


def test_the_zip_knows_the_address_of_the_site(tmp_path):
    practice.on_post_build({"site_dir": tmp_path, "site_url": "https://e.org/"})
    pages = zipfile.ZipFile(tmp_path / exercises.ZIP).read("practice/pages.json")
    assert json.loads(pages)["site"] == "https://e.org/" and FIRST.card.lesson in json.loads(pages)["titles"]
    assert (tmp_path / "practice" / "practice.ipynb").read_bytes() == (PRACTICE / "practice.ipynb").read_bytes()


@pytest.mark.long
def test_what_is_downloaded_runs(packed, tmp_path):
    """In an empty folder, where no checkout can be found; the first exercise, as it comes and then solved."""
    zipfile.ZipFile(packed).extractall(tmp_path)
    folder = tmp_path / "practice"

    def run(*arguments: str) -> subprocess.CompletedProcess:
        code = (
            "import runpy, sys; sys.meta_path = [f for f in sys.meta_path if 'editable' not in str(f)]; "
            f"sys.path.insert(0, {str(folder)!r}); sys.argv[0] = 'practice.py'; "
            "runpy.run_path('practice.py', run_name='__main__')"
        )
        return subprocess.run(
            [sys.executable, "-c", code, *arguments], cwd=folder, capture_output=True, text=True, check=False
        )

    first = run()
    copy = folder / "mine" / f"{FIRST.name}.py"
    assert copy.read_text() == FIRST.skeleton, first.stdout + first.stderr
    empty = run()
    assert empty.returncode == 1 and "Gap 1 is still empty" in empty.stdout, empty.stdout + empty.stderr
    copy.write_text(FIRST.solution)
    solved = run("check", FIRST.name)
    assert solved.returncode == 0, solved.stdout + solved.stderr
    assert PRACTICE not in folder.parents
