# SPDX-License-Identifier: Apache-2.0
"""A browser for tests, and the built site to open in it.

These fixtures are those of ``conftest.py``: a second copy of them would start a second Playwright, which it
refuses. The browser is found, or the tests are skipped with a reason; under ``CI=true`` it must be there.
"""

import contextlib
import fcntl
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.limits import HANGS, IN_BROWSER, paced

ROOT = Path(__file__).resolve().parent.parent
SITE_URL = "http://127.0.0.1/course/"
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


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
    """The path of Debian's Chromium, of Chrome, or of Playwright's own Chromium.

    The first, Chromium without windows, is the same engine, and takes a third less time for a page.
    """
    found = next(filter(None, map(shutil.which, NAMES)), None) or playwright.chromium.executable_path
    if not Path(found).exists():
        _unavailable("no browser found: install chromium, or run `playwright install chromium`")
    return found


@pytest.fixture(scope="session")
def browser(playwright, browser_path):
    """A running Chromium. Its sandbox is off: it opens nothing but pages of this checkout, on 127.0.0.1."""
    limit = IN_BROWSER * 1000
    running = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"], timeout=limit)
    new_context = running.new_context

    def patient(**options):
        context = new_context(**options)
        context.set_default_timeout(limit)
        return context

    running.new_context = patient
    yield running
    running.close()


@dataclass(frozen=True)
class Site:
    """A built site, served: the address of its home page, its folder, and the usual processor's seconds to build it."""

    url: str
    folder: Path
    seconds: float

    @property
    def pages(self) -> list[str]:
        """The address of every page, relative to the home page: ``""``, ``404.html``, ``programs/…/``, …

        What render/mkdocs/files.py writes, to be shown on pages, is none, and neither is what leads to another page.
        """
        found = (path for path in self.folder.rglob("*.html") if 'http-equiv="refresh"' not in path.read_text("utf-8"))
        files = (path.relative_to(self.folder).as_posix() for path in found)
        return sorted(file.removesuffix("index.html") for file in files if not file.startswith("snippets/"))

    def text(self, address: str) -> str:
        """The HTML of a page as it was built."""
        path = self.folder / address
        return (path / "index.html" if path.is_dir() else path).read_text("utf-8")


def build(folder: Path, **environment: str) -> float:
    """Build the site into ``folder`` as ``make site`` does; return the seconds that the usual processor would take."""
    kept = {name: value for name, value in os.environ.items() if name not in ("SITE_URL", "REPO_URL", "EDIT_URI")}
    with paced() as pace:
        done = subprocess.run(
            [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
            cwd=ROOT, env=kept | {"NO_MKDOCS_2_WARNING": "1"} | environment, timeout=HANGS, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return pace.seconds


@contextlib.contextmanager
def served(root: Path, folder: Path):
    """Serve ``root``, and where nothing is found the page for that in ``folder``; yields the address of ``root``."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=root)

        def send_error(self, code, *_):
            body = (folder / "404.html").read_bytes()
            self.send_response(code)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Iterator[Site]:
    """The site without a repository, under a path of its host, as GitHub Pages would serve it.

    The first of pytest-xdist's workers that wants it builds it; each serves it at a port of its own.
    """
    root = tmp_path_factory.getbasetemp()
    root = (root.parent if "PYTEST_XDIST_WORKER" in os.environ else root) / "site"
    root.mkdir(exist_ok=True)
    with (root / "built.json").open("a+") as built:
        fcntl.flock(built, fcntl.LOCK_EX)
        built.seek(0)
        outcome = json.loads(built.read() or "null")
        if outcome is None:
            try:
                outcome = {"seconds": build(root / "course", SITE_URL=SITE_URL)}
            except (AssertionError, subprocess.TimeoutExpired) as error:
                outcome = {"failed": str(error)}  # once: every test of every worker would build it again
            built.write(json.dumps(outcome))
    if "failed" in outcome:
        pytest.fail(outcome["failed"], pytrace=False)
    with served(root, root / "course") as host:
        yield Site(f"{host}course/", root / "course", outcome["seconds"])


@contextlib.contextmanager
def quiet(context, url):
    """Fails at its end if a page of a browser's context logged an error, or asked another host than that of ``url``."""
    host, faults = url.split("/")[2], []
    mine = (f"http://{host}/", f"blob:http://{host}/", "data:")
    seen = {
        "weberror": lambda error: faults.append(f"{error.page.url}: {error.error}"),
        "console": lambda said: said.type == "error" and faults.append(f"{said.page.url}: {said.text}"),
        "request": lambda sent: sent.url.startswith(mine) or faults.append(sent.url),
    }
    for event, note in seen.items():
        context.on(event, note)
    yield
    for event, note in seen.items():
        context.remove_listener(event, note)
    assert not faults


def until(page, condition: str, arg=None):
    """Wait until a condition holds on a page. Playwright's own way evaluates a text in the page, which the page's
    policy refuses."""
    from playwright.sync_api import Error

    end = time.monotonic() + 60
    while time.monotonic() < end:
        with contextlib.suppress(Error):  # between two pages there is none
            if page.evaluate(condition, arg):
                return
        page.wait_for_timeout(20)
    raise AssertionError(f"it never held: {condition}")


def taken_over(page):
    """Wait until Material has done with a page what it does at its start."""
    until(page, "window.document$ && document.readyState === 'complete'")
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


@pytest.fixture
def open_site(browser):
    """A function that opens an address, in a context of its own; what is not ``quiet`` fails the test."""
    with contextlib.ExitStack() as to_close:

        def open_site(url, **options):
            context = to_close.enter_context(browser.new_context(**options))
            to_close.enter_context(quiet(context, url))
            page = context.new_page()
            page.goto(url)
            return page

        yield open_site
