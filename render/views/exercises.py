# SPDX-License-Identifier: Apache-2.0
"""The views ``exercise``, ``exercises`` and ``caught``, and the links to its exercises at the end of a lesson.

An exercise's page shows its card, skeleton and solution from its folder in ``practice/exercises/``; so does the list of
all.
"""

import ast
import math
import re
import textwrap

from markupsafe import Markup, escape

from practice.coach import svg
from practice.coach.exercise import Exercise
from practice.coach.finding import STAGES
from practice.coach.pages import PAGE
from practice.coach.spec import FINISHED, KINDS
from recorder import recording
from recorder.judge import problems
from recorder.project import RecorderError, find, nearest
from recorder.recording import Recording
from render.code import highlight_python
from render.lessons import lessons
from render.links import way, way_if_there
from render.page import Page
from render.practice.exercises import OVERVIEW, ZIP, all_of_them, check_cards, heading, page_of
from render.recordings import devices
from render.templates import render
from render.views.registry import view

BEGIN = {"gap": "Fill the gap", "bug": "Find the bug", "faster": "Make it faster", "scratch": "Write it"}
TRY = re.compile(r'<h2 id="try-it">.*?</h2>')  # below which a lesson leads to its exercises
NAME = re.compile(r"`([^`]+)`|\b((?:tl|gpu)\.\w+(?:\([^)]*\))?|[a-z]\w*_\w+)")  # in the text of a task
TYPED = re.compile(rf"{NAME.pattern}|(?<=\w)'|(?<![\w)\]=-])-(?=\d)|(?<= )-(?= )")  # code, or a sign to set


@view
def exercise(page: Page, of: str) -> Markup:
    """Return the exercise: its goal and file, an answer of the coach, with hints and solution folded."""
    known = {each.name: each for each in all_of_them()}  # in the order of the menu
    if of not in known:
        raise RecorderError(f"there is no exercise {of!r}{nearest(str(of), known)}")
    each = known[of]
    lesson = lessons()[each.card.lesson]
    answered, _ = recordings_of(each)
    wrong = {w.name: w for w in each.wrong()}
    return render(
        "exercise.html",
        name=each.name,
        number=list(known).index(of) + 1,
        total=len(known),
        card=each.card,
        goal=typeset(each.card.goal),
        kind=KINDS[each.card.kind],
        begin=BEGIN[each.card.kind],
        lesson=lesson,
        lesson_link=way(page.name, lesson.page),
        hints=[with_links(hint, page.name) for hint in each.card.hints[:2]],
        line=highlight_python(each.card.hints[2]),
        task=told(each.skeleton),
        skeleton=highlight_python(without_text(each.skeleton)),
        right=each.start().stage == "speed",
        full=each.card.kind in FINISHED,
        here="numpy" not in each.spec_text,  # which a browser's Python does not have
        solution=highlight_python(without_text(each.solution)),
        reached=reached(each),
        mistake=coded(wrong[answered.coached.shown].why),
        answer=answered.output,
        example=example(answered),
        picture=picture(each, answered.coached.launch),
        where=answered.provenance,
        mistakes=[(coded(wrong[name].why), STAGES[stage]) for name, stage in caught_by(each).items()],
        zip=way(page.name, OVERVIEW) + "../" + ZIP.rpartition("/")[2],
        overview=way(page.name, OVERVIEW),
    )


@view
def exercises(page: Page) -> Markup:
    """Return a list of all exercises, by chapter."""
    chapters = {}
    for each in all_of_them():
        lesson = lessons()[each.card.lesson]
        chapters.setdefault(lesson.section, []).append(
            {
                "link": way(page.name, page_of(each)),
                "card": each.card,
                "goal": coded(each.card.goal),
                "kind": KINDS[each.card.kind],
                "lesson": lesson,
                "lesson_link": way(page.name, lesson.page),
            }
        )
    return render("exercises.html", chapters=chapters, kinds=KINDS)


@view
def caught(page: Page) -> Markup:
    """Return a table of how many wrong solutions of each exercise each check caught."""
    rows, totals, pairs = [], dict.fromkeys(STAGES, 0), [recordings_of(each) for each in all_of_them()]
    for each in all_of_them():
        stages = list(caught_by(each).values())
        counts = [stages.count(stage) for stage in STAGES]
        totals = {stage: totals[stage] + count for stage, count in zip(STAGES, counts, strict=True)}
        rows.append({"link": way(page.name, page_of(each)), "title": each.card.title, "counts": counts})
    values = {"rows": rows, "stages": STAGES, "totals": totals.values(), "total": sum(totals.values())}
    latest = lambda made: max((each.provenance for each in made if each), key=lambda where: where.date, default=None)
    where, gpu = map(latest, zip(*pairs, strict=True))
    return render("caught.html", **values, where=where, gpu=gpu)


def example(answered: Recording) -> dict[str, list[dict]]:
    """Return what comes in and what has to come out, with a sign where only a part of a tensor is shown."""
    said: dict[str, list[dict]] = {}
    for each in answered.coached.example:
        rows = [[number.replace("-", "−") for number in row] for row in each.rows]
        if each.shape and each.shape[-1] > len(rows[0]):
            rows = [[*row, "…"] for row in rows]
        if math.prod(each.shape[:-1]) > len(rows):
            rows.append(["⋮"])
        about = f"{' × '.join(map(str, each.shape))}, {each.dtype}" if each.shape else ""
        part = {"name": each.name, "about": about, "rows": rows}
        said.setdefault("Comes in" if each.comes_in else "Has to come out", []).append(part)
    return said


def picture(each: Exercise, launch: dict | None) -> Markup:
    """Draw the launch that an answer is about, if it is about one."""
    return Markup(svg.launch(launch, f"launch-{each.name.replace('_', '-')}")) if launch else Markup()


def recordings_of(each: Exercise) -> tuple[Recording, Recording | None]:
    """Return what was recorded of an exercise without a GPU and, where it is timed, on one.

    Raise ``RecorderError`` where either is missing or stale.
    """
    recorded = find(f"practice/{each.name}")
    if faults := problems(recorded):
        raise RecorderError("; ".join(map(str, faults)))
    gpus = devices(recorded, "gpu") if each.timed() else []
    return recording.load(recorded, "cpu"), recording.load(recorded, gpus[0]) if gpus else None


def caught_by(each: Exercise) -> dict[str, str]:
    """Return which check caught each wrong solution; those that need a GPU come last."""
    return {name: stage for made in recordings_of(each) if made for name, stage in made.coached.caught.items()}


def reached(each: Exercise) -> dict | None:
    """Return what its solution reaches on a GPU, if its speed is asked for."""
    _, timed = recordings_of(each)
    if not timed:
        return None
    ((against, row),) = timed.benchmark("speed", "solution").medians().items()
    low, high = (f"{share:.0%}" for share in (row.solution.least, row.solution.most))
    share = low if low == high else f"{low} to {high}"
    return {"gpu": timed.provenance.device, "share": share, "against": against, "least": f"{least(each):.0%}"}


def least(each: Exercise) -> float:
    """Return the share of speed that its spec asks for, read without torch."""
    (speed,) = [keyword.value for keyword in each.spec_call().keywords if keyword.arg == "speed"]
    return next(ast.literal_eval(keyword.value) for keyword in speed.keywords if keyword.arg == "least")


def told(file: str) -> Markup:
    """Return what the text at the top of an exercise's file says below its first line, as paragraphs.

    On a page they have the width of prose, where the file's long lines would be cut off.
    """
    parts = re.split(r"\n\s*\n", ast.get_docstring(ast.parse(file)))[1:]
    return Markup("\n").join(map(_paragraph, parts))


def _paragraph(part: str) -> Markup:
    if part.startswith(" "):
        return Markup("<pre>{}</pre>").format(textwrap.dedent(part))
    text = NAME.sub(lambda match: f"<code>{match[1] or match[2]}</code>", str(escape(typeset(" ".join(part.split())))))
    return Markup('<div class="exercise__says">{}</div>').format(Markup(text))


def typeset(text: str) -> str:
    """Return a text of a spec, which is typed as code is, with the apostrophes and minus signs of prose.

    >>> typeset("a row's `x - 1` becomes -1, of n - 1")
    'a row’s `x - 1` becomes −1, of n − 1'
    """
    return TYPED.sub(lambda found: {"'": "’", "-": "−"}.get(found[0], found[0]), text)


def coded(text: str) -> Markup:
    """Return a text whose names in backticks are code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(typeset(text)))))


def without_text(file: str) -> str:
    """Return an exercise's file from below the text at its top."""
    lines = file.splitlines(keepends=True)
    return "".join(lines[ast.parse(file).body[0].end_lineno :]).lstrip("\n")


def with_links(hint: str, page: str) -> Markup:
    """Return a hint in which the name of a page is a link to it."""

    def link(match: re.Match) -> str:
        there = way_if_there(page, match["page"], match["place"] or "")
        if not there:
            raise RecorderError(f"the hint {hint!r} names {match['page']}, which is no page")
        lesson = lessons().get(match["page"])
        title = lesson.title if lesson else heading(match["page"])
        return f'<a href="{there}">{title}</a>'

    return Markup(PAGE.sub(link, str(escape(typeset(hint)))))


def with_invitation(html: str, page: str) -> str:
    """Return a lesson's page with links to its exercises at the head of the part *Try it*."""
    mine = [each for each in check_cards() if page in (each.card.lesson, *each.card.also)]
    if not mine:
        return html
    links = [(way(page, page_of(each)), each.card.title, KINDS[each.card.kind]) for each in mine]
    return TRY.sub(lambda title: f"{title[0]}{render('invitation.html', exercises=links)}", html, count=1)
