# SPDX-License-Identifier: Apache-2.0
"""A hook of MkDocs: the whole files of the snippets, beside the pages: to read, and to download."""

from pathlib import Path

from recorder.project import relative, snippets
from render.code import colored, needed, zipped


def on_post_build(config, **_):
    for snippet in snippets():
        target = Path(config["site_dir"], relative(snippet.path))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.with_suffix(".html").write_text(colored(snippet), "utf-8")
        if needed(snippet.path):
            target.with_suffix(".zip").write_bytes(zipped(snippet))
        else:
            target.write_bytes(snippet.path.read_bytes())
