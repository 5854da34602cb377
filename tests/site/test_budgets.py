# SPDX-License-Identifier: Apache-2.0
"""What the site may weigh and how long it may take: kB are 1000 bytes, compressed as a server would.

What a page may weigh is tested where each page is opened anyway: in test_site.py, on a phone.
"""

import gzip
import json
from pathlib import Path

from tests.browser import build, taken_over

ROOT = Path(__file__).resolve().parents[2]


def size(folder: Path, pattern: str) -> int:
    """Bytes of all files in a folder whose path matches. Asserts that there are any."""
    sizes = [path.stat().st_size for path in folder.rglob(pattern) if path.is_file()]
    assert sizes, f"no {pattern} in {folder}"
    return sum(sizes)


def test_strict_build_takes_under_15_s(site, tmp_path):
    seconds = site.seconds
    if seconds >= 15:  # what else the machine did meanwhile can only have added to it
        seconds = min(seconds, build(tmp_path / "again"))
    assert 1 < seconds < 15


def test_the_search_index_is_under_150_kb_and_comes_when_it_is_wanted(browser, site):
    context = browser.new_context()
    page, asked = context.new_page(), []
    page.on("request", lambda request: asked.append(request.url))
    index = f"{site.url}search/search_index.json"
    page.goto(site.url)
    taken_over(page)
    page.wait_for_timeout(500)  # the index would follow at once
    assert len(asked) > 5 and index not in asked
    with page.expect_response(index) as answer:
        page.keyboard.press("/")
    assert 10_000 < len(gzip.compress(answer.value.body())) < 150_000
    with page.expect_response(index):
        page.goto(f"{site.url}programs/vector-add/?h=lane")
    page.locator("article mark").first.wait_for()
    assert asked.count(index) == 2
    context.close()


def test_errors_can_be_searched_and_code_of_lessons_cannot(site):
    index = (site.folder / "search" / "search_index.json").read_text("utf-8")
    assert "CompilationError: at" in index and "def add_kernel_three_bug" in index
    assert "SUBTILES" in site.text("matmul/persistent/") and "SUBTILES" not in index


def test_exercises_and_sources_are_on_the_page_and_not_in_the_index(site):
    index = (site.folder / "search" / "search_index.json").read_text("utf-8")
    entries = {entry["location"] for entry in json.loads(index)["docs"]}
    assert "matmul/persistent/#the-four-tiles" in entries
    page = site.text("matmul/persistent/")
    for aside in ("try-it", "next", "sources", "the-whole-file"):
        assert f'id="{aside}"' in page and f"matmul/persistent/#{aside}" not in entries


def test_own_javascript_is_under_30_kb():
    assert size(ROOT / "theme", "*.js") < 30_000


def test_recordings_are_under_60_mb():
    assert size(ROOT / "recordings", "*") < 60_000_000
