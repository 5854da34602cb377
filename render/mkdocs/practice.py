# SPDX-License-Identifier: Apache-2.0
"""A hook of MkDocs that packs the folder ``practice/`` for readers to download."""

import json
from pathlib import Path

from markupsafe import Markup

from practice.coach.exercise import PRACTICE, exercises
from recorder.project import read_text
from render.code import zipped
from render.lessons import lessons
from render.practice.exercises import OVERVIEW, ZIP, check_cards, files, page_of

NOTEBOOK = "practice.ipynb"


def on_page_content(html, *, page, config, **_):
    """Add a link to the notebook in Colab to the overview, where the repository is on GitHub."""
    if page.file.src_uri != OVERVIEW:
        return html
    return html.replace('<span class="exercises__colab"></span>', colab(config))


def on_page_context(context, *, page, nav, **_):
    """Tell an exercise's page which lesson comes after its own, for theme/partials/onward.html."""
    for each in exercises():
        if page_of(each) == page.file.src_uri:
            order = list(lessons())
            after = order[order.index(each.card.lesson) + 1 :][:1]
            context["lesson_after"] = next((there for there in nav.pages if [there.file.src_uri] == after), None)
    return context


def colab(config) -> str:
    repository = config.repo_url or ""
    if not repository.startswith("https://github.com/"):
        return ""
    branch = (config.edit_uri or "edit/main").split("/")[1]
    named = repository.removeprefix("https://github.com/").strip("/")
    link = f"https://colab.research.google.com/github/{named}/blob/{branch}/practice/{NOTEBOOK}"
    return Markup('<a href="{}">Open in Colab</a>').format(link)


def on_post_build(config, **_):
    target = Path(config["site_dir"], ZIP)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.with_name(NOTEBOOK).write_bytes((PRACTICE / NOTEBOOK).read_bytes())
    texts = {f"practice/{path.relative_to(PRACTICE).as_posix()}": read_text(path) for path in files()}
    pages = json.loads(texts["practice/pages.json"]) | {"site": config.get("site_url") or ""}
    texts["practice/pages.json"] = json.dumps(pages, indent=1, ensure_ascii=False)
    texts |= {f"practice/exercises/{each.name}/exercise.py": each.skeleton for each in check_cards()}
    target.write_bytes(zipped(dict(sorted(texts.items()))))
