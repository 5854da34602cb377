# SPDX-License-Identifier: Apache-2.0
"""A hook of MkDocs that writes the repository's address into the command that clones it, where the build knows it."""

CLONE = "git clone ADDRESS "
ASKED = "Put the repository’s address in place of `ADDRESS`:"


def on_page_markdown(markdown, *, config, **_):
    if CLONE not in markdown or not config.repo_url:
        return markdown
    return markdown.replace(CLONE, f"git clone {config.repo_url} ").replace(ASKED, "Clone it:")
