# SPDX-License-Identifier: Apache-2.0
"""A browser on a page that shows a figure and nothing else. A module of tests names it, or brings fixtures of its own:

SHOWN = "warp_load", warp_load(RECORDED)  # the figure, and how it is drawn, once or several times
"""

import pytest

from tests.figures.explorer_support import page_with


@pytest.fixture(scope="module")
def url(request, tmp_path_factory):
    name, *parts = request.module.SHOWN
    with page_with(tmp_path_factory.mktemp(name), name, *parts) as url:
        yield url


@pytest.fixture
def open_page(open_site, url):
    """A function that opens the page, at rest unless ``reduced_motion`` says otherwise."""
    return lambda query="", **options: open_site(url + query, **{"reduced_motion": "reduce"} | options)


@pytest.fixture
def page(open_page):
    return open_page()
