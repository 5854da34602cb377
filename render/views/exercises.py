# SPDX-License-Identifier: Apache-2.0
"""The views ``exercise``, ``exercises`` and ``caught``, and the links to its exercises at the end of a lesson.

An exercise's page shows its card, skeleton and solution from its folder in ``practice/exercises/``; so does the list of
all.
"""

import re

from markupsafe import Markup, escape

from practice.coach import answers, measured, svg
from practice.coach.exercise import Exercise
from practice.coach.finding import STAGES
from practice.coach.pages import PAGE
from practice.coach.spec import FINISHED, KINDS
from recorder.project import RecorderError, nearest
from render.code import highlight_python
from render.config import docs
from render.exercises import OVERVIEW, ZIP, all_of_them, check_cards, heading, page_of
from render.lessons import lessons
from render.links import way
from render.page import Page
from render.templates import render
from render.views.registry import view

NEXT = '<h2 id="next">'  # before which a lesson leads to its exercises


@view
def exercise(page: Page, of: str) -> Markup:
    """Return the exercise: its goal and file, an answer of the coach, with hints and solution folded."""
    known = {each.name: each for each in all_of_them()}
    if of not in known:
        raise RecorderError(f"there is no exercise {of!r}{nearest(str(of), known)}")
    each = known[of]
    lesson = lessons()[each.card.lesson]
    answered, where = answers_of(each), answers.read().where
    wrong = {w.name: w for w in each.wrong()}
    return render(
        "exercise.html",
        name=each.name,
        card=each.card,
        kind=KINDS[each.card.kind],
        lesson=lesson,
        lesson_link=way(page.name, lesson.page),
        hints=[with_links(hint, page.name) for hint in each.card.hints[:2]],
        line=highlight_python(each.card.hints[2]),
        skeleton=highlight_python(each.skeleton),
        right=each.start().stage == "speed",
        full=each.card.kind in FINISHED,
        solution=highlight_python(each.solution),
        reached=reached(each),
        shown=wrong[answered.shown],
        answer="\n".join(answered.answer),
        picture=Markup(svg.launch(answered.launch, f"launch-{each.name.replace('_', '-')}")) if answered.launch else "",
        where=where,
        mistakes=[(wrong[name].why, STAGES[stage]) for name, stage in caught_by(each).items()],
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
                "kind": KINDS[each.card.kind],
                "lesson": lesson,
                "lesson_link": way(page.name, lesson.page),
            }
        )
    return render("exercises.html", chapters=chapters)


@view
def caught(page: Page) -> Markup:
    """Return a table of how many wrong solutions of each exercise each check caught."""
    rows, totals = [], dict.fromkeys(STAGES, 0)
    for each in all_of_them():
        stages = list(caught_by(each).values())
        counts = [stages.count(stage) for stage in STAGES]
        totals = {stage: totals[stage] + count for stage, count in zip(STAGES, counts, strict=True)}
        rows.append({"link": way(page.name, page_of(each)), "title": each.card.title, "counts": counts})
    values = {"rows": rows, "stages": STAGES, "totals": totals.values(), "total": sum(totals.values())}
    return render("caught.html", **values, where=answers.read().where, gpu=measured.read())


def answers_of(each: Exercise) -> answers.Answered:
    """Return the coach's answers to the wrong solutions. Raise ``RecorderError`` where they are of others."""
    answered = answers.read().exercises.get(each.name)
    if not answered or list(answered.caught) != [wrong.name for wrong in each.wrong() if not wrong.gpu]:
        raise RecorderError(f"{each.name}: answers.json is stale; mend: {answers.MENDED_BY} {each.name}")
    return answered


def caught_by(each: Exercise) -> dict[str, str]:
    """Return which check caught each wrong solution, as far as it was run: some need a GPU."""
    on_gpu = measured.read()
    slow = on_gpu.slow.get(each.name, ()) if on_gpu else ()
    return answers_of(each).caught | dict.fromkeys(slow, "speed")


def reached(each: Exercise) -> dict | None:
    """Return the speed that the solution reached on a GPU, where speed is asked for and was measured."""
    results = measured.read()
    if not results or not (own := results.solutions.get(each.name)):
        return None
    if own.fingerprint != measured.fingerprint(each):
        raise RecorderError(f"{each.name}: measured.json is stale; mend: python -m tests.practice.on_a_gpu")
    low, high = min(own.shares), max(own.shares)
    share = f"{low:.0%}" if f"{low:.0%}" == f"{high:.0%}" else f"{low:.0%} to {high:.0%}"
    least = measured.least(each)
    return {"gpu": results.where["gpu"], "share": share, "against": own.against, "least": f"{least:.0%}"}


def with_links(hint: str, page: str) -> Markup:
    """Return a hint in which the name of a page is a link to it."""

    def link(match: re.Match) -> str:
        if not (docs() / match["page"]).is_file():
            raise RecorderError(f"the hint {hint!r} names {match['page']}, which is no page")
        lesson = lessons().get(match["page"])
        title = lesson.title if lesson else heading(match["page"])
        return f'<a href="{way(page, match["page"], match["place"] or "")}">{title}</a>'

    return Markup(PAGE.sub(link, str(escape(hint))))


def with_invitation(html: str, page: str) -> str:
    """Return a lesson's page with links to its exercises before the part *Next*."""
    mine = [each for each in check_cards() if page in (each.card.lesson, *each.card.also)]
    if not mine or NEXT not in html:
        return html
    links = [(way(page, page_of(each)), each.card.title, KINDS[each.card.kind]) for each in mine]
    return html.replace(NEXT, f"{render('invitation.html', exercises=links)}{NEXT}", 1)
