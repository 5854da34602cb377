# SPDX-License-Identifier: Apache-2.0
"""A hook of MkDocs for who shortens an address: a folder that is no page leads to the first in it by the menu."""

from pathlib import Path, PurePosixPath

from markupsafe import Markup

from render.mkdocs.policy import with_policy

REDIRECT = Markup(
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
    '<meta name="robots" content="noindex"><meta http-equiv="refresh" content="0; url={link}"></head>'
    '<body><a href="{link}">{title}</a></body></html>\n'
)
first = {}  # of each folder, by its address: the first page in it, in the menu's order


def on_nav(nav, **_):
    first.clear()
    for page in nav.pages:
        for folder in PurePosixPath(page.url).parents:
            first.setdefault(folder.as_posix(), page)


def on_post_build(config, **_):
    for folder, page in first.items():
        index = Path(config.site_dir, folder, "index.html")
        if not index.is_file():
            link = PurePosixPath(page.url).relative_to(folder).as_posix() + "/"
            index.write_text(with_policy(REDIRECT.format(title=page.title, link=link)), "utf-8")
