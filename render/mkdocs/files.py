# SPDX-License-Identifier: Apache-2.0
"""A hook of MkDocs that writes beside the pages what readers download: the snippets' whole files, and the template."""

from pathlib import Path

from mkdocs.exceptions import PluginError

from recorder.project import REPLACE_LINK, links_outside, relative, snippets
from recorder.reach import needed
from render import template
from render.code import color_file, make_zip, zipped


def on_pre_build(config, **_):
    if outside := links_outside():
        raise PluginError(f"{relative(outside[0])} is a link that leads out of the checkout; {REPLACE_LINK}")


def on_post_build(config, **_):
    for snippet in snippets():
        target = Path(config["site_dir"], relative(snippet.path))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.with_suffix(".html").write_text(color_file(snippet), "utf-8")
        if needed(snippet.path):
            target.with_suffix(".zip").write_bytes(make_zip(snippet))
        else:
            target.write_bytes(snippet.path.read_bytes())
    if texts := template.texts():
        packed = Path(config["site_dir"], template.ZIP)
        packed.parent.mkdir(parents=True, exist_ok=True)
        packed.write_bytes(zipped(texts))
