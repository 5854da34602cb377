# SPDX-License-Identifier: Apache-2.0
"""A hook of MkDocs that packs the folder ``practice/`` for readers to download."""

import json
import zipfile
from pathlib import Path

from markupsafe import Markup

from practice.coach.exercise import PRACTICE
from recorder.project import read_text
from render.code import EPOCH
from render.exercises import OVERVIEW, ZIP, files

NOTEBOOK, PAGES = "practice.ipynb", PRACTICE / "pages.json"


def on_page_content(html, *, page, config, **_):
    """On the overview: a link to the notebook in Colab, where the repository is on GitHub."""
    if page.file.src_uri != OVERVIEW:
        return html
    return html.replace('<span class="exercises__colab"></span>', colab(config))


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
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in files():
            name = f"practice/{path.relative_to(PRACTICE).as_posix()}"
            text = read_text(path)
            if path == PAGES:  # the zip of a published site knows its address
                text = json.dumps(
                    json.loads(text) | {"site": config.get("site_url") or ""}, indent=1, ensure_ascii=False
                )
            archive.writestr(zipfile.ZipInfo(name, EPOCH), text, zipfile.ZIP_DEFLATED)
