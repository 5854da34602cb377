# SPDX-License-Identifier: Apache-2.0
from types import SimpleNamespace

from recorder.project import read_text
from render.config import docs
from render.mkdocs.address import on_page_markdown


def test_install_clones_the_repository_where_its_address_is_known():
    page = read_text(docs() / "start/install.md")
    known = on_page_markdown(page, config=SimpleNamespace(repo_url="https://example.org/a/b"))
    assert "Clone it:\n\n```console\ngit clone https://example.org/a/b triton-by-example\n" in known
    assert "ADDRESS" not in known
    assert on_page_markdown(page, config=SimpleNamespace(repo_url=None)) == page
    assert "in place of `ADDRESS`:\n\n```console\ngit clone ADDRESS " in page
