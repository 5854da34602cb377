# SPDX-License-Identifier: Apache-2.0
"""The page that answers a query of readers is among the first three results of the search."""

import tomllib
from pathlib import Path

import pytest

from render.config import address
from tests.browser import taken_over

QUERIES = tomllib.loads((Path(__file__).parent / "queries.toml").read_text("utf-8"))
ENOUGH = 0.95
ASK = """async queries => {
    const { search } = JSON.parse(document.getElementById("__config").textContent);
    const settings = await (await fetch("search/search_index.json")).json();
    const worker = new Worker(new URL(search, location));
    const answer = (type, wanted, data) => new Promise(done => {
        worker.onmessage = ({ data }) => data.type === wanted && done(data.data);
        worker.postMessage({ type, data });
    });
    worker.postMessage({ type: 0, data: { ...settings, options: { suggest: true } } });
    await answer(2, 3, "titles come first, and then the documents");
    await new Promise((done) => {
        worker.onmessage = ({ data }) => data.type === 3 && done();
        setTimeout(done, 5000);
    });
    const results = {};
    const pages = ({ items }) => items.map(([page]) => page.location.split("#")[0]);
    for (const query of queries) results[query] = pages(await answer(2, 3, query));
    return results;
}"""


@pytest.fixture(scope="module")
def results(site, browser) -> dict[str, list[str]]:
    """The pages that the site's own worker finds for each query, the best first."""
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(site.url)
        return page.evaluate(ASK, [*QUERIES, "zzzz", "device_prin", "TL.LOAD", '"+mask~^', "  "])


def test_readers_find_what_they_look_for(results):
    missed = {
        query: results[query][:3]
        for query, pages in QUERIES.items()
        if not {address(page) for page in pages} & set(results[query][:3])
    }
    assert len(missed) <= (1 - ENOUGH) * len(QUERIES), missed


ERRORS = {
    "illegal memory access": "an-illegal-memory-access",
    "CUDA error: an illegal memory access was encountered": "an-illegal-memory-access",
    "RuntimeError: Triton Error [CUDA]: an illegal memory access was encountered": "an-illegal-memory-access",
    "Cannot make_shape_compatible": "cannot-make",
    "Cannot make_shape_compatible: incompatible dimensions at index 0: 64 and 128": "cannot-make",
    "out of resource: shared memory": "out-of-resource",
    "out of resource: shared memory, Required: 262144, Hardware limit: 101376.": "out-of-resource",
}


@pytest.mark.parametrize("query", ERRORS)
def test_a_pasted_error_finds_its_own_entry_first(open_site, site, query):
    page = open_site(site.url)
    taken_over(page)
    page.keyboard.press("/")
    page.keyboard.insert_text(query)
    page.keyboard.press("End")
    first = page.locator(".md-search-result__item").first
    first.locator(f"[href*='reference/errors/'][href*='#'][href*='{ERRORS[query]}']").first.wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/reference/errors/**#*{ERRORS[query]}*")


def test_titles_are_found_while_the_documents_load(browser, site):
    with browser.new_context() as context:
        page = context.new_page()
        page.route("**/search/documents.json", lambda route: None)  # never
        page.goto(site.url)
        taken_over(page)
        page.keyboard.press("/")
        page.keyboard.insert_text("coalesced mem")
        page.keyboard.press("End")
        page.locator(".md-search-result__item [href*='gpu/coalescing/']").wait_for()


def test_what_a_section_is_called_comes_first(results):
    assert results["softmax"][0] == "programs/softmax/"


def test_a_name_is_found_while_it_is_typed_and_with_other_capitals(results):
    assert "reference/debugging/" in results["device_prin"][:3]
    assert results["TL.LOAD"]


def test_signs_of_the_search_engine_are_no_errors_and_nothing_finds_nothing(results):
    assert results['"+mask~^'] == results["mask"] and results["zzzz"] == [] == results["  "]


@pytest.mark.parametrize("query", ["print inside kernel", "warp shuffle"])
def test_enter_opens_the_first_result_and_a_section_stands_under_each(open_site, site, query):
    page = open_site(site.url)
    taken_over(page)
    page.keyboard.press("/")
    page.keyboard.insert_text(query)  # at once: typed letter by letter, the results of its beginning come first
    page.keyboard.press("End")  # the search listens to keys
    result = page.locator(".md-search-result__item").first
    result.wait_for()
    first = result.locator(".md-search-result__link").first.get_attribute("href")
    assert result.locator("> .md-search-result__link").count() > 1, "the page, and a section of it"
    page.keyboard.press("Enter")
    page.wait_for_url(f"{first.split('?')[0]}*")
