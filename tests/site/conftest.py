# SPDX-License-Identifier: Apache-2.0
"""The browser that the site's tests run in: found, or skipped with a reason; under ``CI=true`` it must be there."""

import os
import shutil
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def _unavailable(reason: str):
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def playwright():
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _unavailable("Playwright is not installed: pip install -r requirements.txt")
    with sync_playwright() as running:
        yield running


@pytest.fixture(scope="session")
def browser_path(playwright) -> str:
    """The path of Debian's Chromium, of Chrome, or of Playwright's own Chromium."""
    found = next(filter(None, map(shutil.which, NAMES)), None) or playwright.chromium.executable_path
    if not Path(found).exists():
        _unavailable("no browser found: install chromium, or run `playwright install chromium`")
    return found


@pytest.fixture(scope="session")
def browser(playwright, browser_path):
    """A running Chromium. Its sandbox is off: it opens nothing but pages of this checkout, on 127.0.0.1."""
    running = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
    yield running
    running.close()
