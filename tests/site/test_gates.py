# SPDX-License-Identifier: Apache-2.0
"""The built site passes its gate; ``make check`` judges the pages. That a fault fails is tested in tests/render."""

from render import config
from render.gates import built
from tests.chromium import SITE_URL


def test_all_that_pages_ask_for_was_built_and_no_link_is_dead(site, monkeypatch):
    monkeypatch.setenv("SITE_URL", SITE_URL)  # for which it was built
    config.forget()
    assert built.problems(site.folder) == []
    config.forget()
