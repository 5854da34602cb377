# SPDX-License-Identifier: Apache-2.0
"""The project itself passes every gate. That a fault fails is tested in tests/render, on a small project."""

from render import config
from render.gates import built, check
from tests.browser import SITE_URL


def test_the_project_is_clean():
    assert check.problems() == []


def test_all_that_pages_ask_for_was_built_and_no_link_is_dead(site, monkeypatch):
    monkeypatch.setenv("SITE_URL", SITE_URL)  # for which it was built
    config.forget()
    assert built.problems(site.folder) == []
    config.forget()
