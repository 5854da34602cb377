# SPDX-License-Identifier: Apache-2.0
"""The page that answers a query of readers is among the first three results of the search."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from playwright.sync_api import expect

from render.config import address
from tests.chromium import taken_over

QUERIES = tomllib.loads((Path(__file__).parent / "queries.toml").read_text("utf-8"))
MISSED = 3  # of them all; a new one comes with what finds it
ASK = """async queries => {
    const { search } = JSON.parse(document.getElementById("__config").textContent);
    const settings = await (await fetch("search/search_index.json")).json();
    const worker = new Worker(new URL(search, location));
    const answer = (type, wanted, data) => new Promise(done => {
        worker.onmessage = ({ data }) => data.type === wanted && done(data.data);
        worker.postMessage({ type, data });
    });
    worker.postMessage({ type: 0, data: { ...settings, options: { suggest: true } } });
    const results = {};
    for (const query of queries)
        results[query] = (await answer(2, 3, query)).items.map((group) => group.map((part) => part.location));
    return results;
}"""


# Messages as people paste them, with names and numbers of their own, and what their entry's address has in it.
PASTED = {
    "RuntimeError: 0 active drivers ([]). There should only be one.": "0-active-drivers",
    "AssertionError: Torch not compiled with CUDA enabled": "torch-not-compiled",
    "RuntimeError: Failed to find C compiler. Please specify via CC environment variable": "failed-to-find-c-compiler",
    "ptxas fatal   : Value 'sm_121' is not defined for option 'gpu-name'": "ptxas-fatal",
    "ModuleNotFoundError: No module named 'triton'": "no-module-named-triton",
    "ModuleNotFoundError: No module named 'numpy'": "no-module-named-numpy",
    "ValueError: arange's range must be a power of 2": "aranges-range",
    "ValueError: numel (2097152) exceeds triton maximum tensor numel (1048576)": "numel-exceeds",
    "UnsupportedLanguageConstruct: at 5:12: unsupported AST node type: Continue": "unsupported-ast-node-type",
    "Loop-carried variable acc has initial type int64 but is re-assigned to fp16 in loop!": "loop-carried",
    "Cannot access global variable SCALE from within @jit'ed function.": "cannot-access-global",
    "Both operands must be same dtype. Got fp32 and bf16": "both-operands",
    "Unsupported ptr type int32 in `tl.load`": "unsupported-ptr-type",
    "Mask argument cannot be block type if pointer argument is not a block": "value-argument",
    "AttributeError: 'int' object has no attribute 'to'": "int-object-has-no-attribute-to",
    "Input shapes should have M >= 16, N >= 16 and K >= 16": "input-shapes",
    "TypeError: failed to specialize argument of type: dtype": "failed-to-specialize",
    "TypeError: dynamic_func() missing 1 required positional argument: 'BLOCK_M'": "dynamic_func",
    "PermissionError: [Errno 13] Permission denied: '/home/jovyan/.triton/cache'": "permission-denied",
    "torch.AcceleratorError: CUDA error: misaligned address": "cuda-error-misaligned",
    "torch.AcceleratorError: CUDA error: device-side assert triggered": "cuda-error-device-side",
    "CUDA error: no kernel image is available for execution on the device": "kernel-image",
    "RuntimeError: Offset increment outside graph capture encountered unexpectedly.": "offset-increment",
    "Segmentation fault (core dumped)": "segmentation-fault",
    "segmentation fault": "segmentation-fault",
    "OutOfResources: out of resource: shared memory, Required: 147456, Hardware limit: 101376.": "out-of-resource",
    "Kernel requires a runtime memory allocation, but no allocator was set.": "kernel-requires",
    "InterpreterError: IndexError('index 4 is out of bounds for axis 0 with size 4')": "indexerror",
    "IndexError: index 128 is out of bounds for axis 0 with size 128": "indexerror",
    "IndexError: list index out of range": "indexerror",
    "AttributeError: module 'triton.language' has no attribute 'libdevice'": "module-tritonlanguage",
    "AttributeError: 'JITFunction' object has no attribute 'cache'": "jitfunction-object",
    "torch 2.9.0 requires triton==3.5.0; but you have triton 3.7.1 which is incompatible.": "torch-requires",
    "RuntimeError: No CUDA GPUs are available": "no-cuda-gpus",
    "ValueError: Pointer argument (at 2) cannot be accessed from Triton (cpu tensor?)": "pointer-argument",
    "fatal error: Python.h: No such file or directory": "failed-to-find-c-compiler",
    "torch.AcceleratorError: CUDA error: an illegal memory access was encountered": "cuda-error-an-illegal",
    "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 180224, Hardware limit: 166912. "
    "Reducing block sizes or `num_stages` may help.": "out-of-resource",
    "Required: 180224, Hardware limit: 166912.": "out-of-resource",
    "triton.compiler.errors.CompileTimeAssertionFailure: at 9:4:": "compiletimeassertionfailure",
    "input_precision must be one of ('ieee', 'tf32'). Got bf16": "input_precision",
    "KeyError: 'Keyword argument BLOCK_N was specified but unrecognised'": "keyword-argument",
    "numpy data itemsize (16 bits) exceeds dtype primitive_bitwidth (8 bits) for triton type fp8e4nv": "numpy-data",
    "TypeError: only length-1 arrays can be converted to Python scalars": "only-0-dimensional",
    "ModuleNotFoundError: No module named 'triton.ops'": "no-module-named-triton",
    "ERROR: Could not find a version that satisfies the requirement triton (from versions: none)": "no-matching",
    "torch.cuda.is_available() returns False": "is-available-returns-false",
    "First input shape (['constexpr[32]', 'constexpr[64]']) and second input shape ['constexpr[32]', 'constexpr[64]'] "
    "are not compatible for matmul (second index of first shape (64) must be equal": "first-input-shape",
    "All values in both first input shape ([constexpr[16]]) and second input shape ([16]) must be >= 16": "all-values",
    "Reducing block sizes or `num_stages` may help.": "reduce-block-sizes",
    "RuntimeError: Triton Error [CUDA]: invalid device context": "triton-error-cuda-invalid-device",
    "RuntimeError: Triton Error [CUDA]: invalid argument": "triton-error-cuda-invalid-argument",
}


@pytest.fixture(scope="module")
def found(site, browser) -> dict[str, list[list[str]]]:
    """What the site's own worker finds for each query, the best first: of each page, the parts of it."""
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(site.url)
        others = ["memory access", "lesson 25", "zzzz", "device_prin", "TL.LOAD", '"+mask~^', "  "]
        return page.evaluate(ASK, [*QUERIES, *PASTED, *others])


@pytest.fixture(scope="module")
def results(found) -> dict[str, list[str]]:
    """The pages that are found for each query, the best first."""
    return {query: [parts[0].partition("#")[0] for parts in pages] for query, pages in found.items()}


def test_each_pasted_error_finds_its_own_entry_first(found):
    first = {query: found[query][0] for query in PASTED}
    missed = {query: parts for query, parts in first.items() if f"reference/errors/#{PASTED[query]}" not in parts[0]}
    assert not missed and {len(parts) for parts in first.values()} == {1}, "no page stands above the entry"


def test_words_of_a_lesson_are_no_message(found):
    """Two words that a message has too, and a question whose words stand in one, lead where they led."""
    for query in ("memory access", "how to get the ptx of a kernel", "works in the interpreter but not on the gpu"):
        assert not found[query][0][0].startswith("reference/errors/"), query


def test_readers_find_what_they_look_for(results):
    missed = {
        query: results[query][:3]
        for query, pages in QUERIES.items()
        if not {address(page) for page in pages} & set(results[query][:3])
    }
    assert len(missed) <= MISSED, "\n".join(f"{query}: {found}" for query, found in missed.items())


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
    first = page.locator(".md-search-result__item").first.locator("a").first
    first.wait_for()
    expect(first).to_have_attribute("href", re.compile(rf"reference/errors/.*#.*{ERRORS[query]}"))
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/reference/errors/**#*{ERRORS[query]}*")


def test_who_reaches_for_the_search_gets_its_documents(open_site, site):
    page = open_site(site.url)
    taken_over(page)
    with page.expect_response("**/search/documents.json"):
        page.hover(".md-search__input")
    assert page.input_value(".md-search__input") == ""


def test_there_are_no_results_until_they_are_those_that_stay(open_site, site):
    page, held = open_site(site.url), []
    page.route("**/search/documents.json", lambda route: held.append(route))
    taken_over(page)
    page.keyboard.press("/")
    page.keyboard.insert_text("CUDA graph")
    said, links = page.locator(".md-search-result__meta"), page.locator(".md-search-result__item a")
    expect(said).to_have_text("Searching…")
    page.wait_for_timeout(300)
    assert links.count() == 0
    held[0].continue_()
    links.first.wait_for()
    expect(links.first).to_have_attribute("href", re.compile("pytorch/launch-overhead/"))


def test_documents_that_do_not_come_are_asked_for_again(browser, site):
    with browser.new_context() as context:
        page, lost = context.new_page(), []
        page.route("**/search/documents.json", lambda route: lost.append(0) or route.abort(), times=1)
        page.goto(site.url)
        taken_over(page)
        page.keyboard.press("/")
        page.keyboard.insert_text("softmax")
        page.locator(".md-search-result__item").first.wait_for()
        assert lost


def test_a_result_says_where_in_the_course_it_is(open_site, site):
    page = open_site(site.url)
    taken_over(page)
    page.keyboard.press("/")
    page.keyboard.insert_text("softmax")
    first = page.locator(".md-search-result__item").first
    first.wait_for()
    expect(first.locator(".md-tag")).to_have_text("Lesson 6")
    expect(first.locator("h1")).not_to_have_text(re.compile("^6"))
    expect(page.locator(".md-search-result__meta")).to_have_text(re.compile(r"^\d+ pages$"))


def test_who_asks_for_an_exercise_gets_it_first(results):
    assert results["exercise softmax"][0] == "practice/softmax/"
    assert results["matmul exercise"][0] == "practice/matmul/"


@pytest.mark.parametrize(
    ("query", "first"),
    {
        "softmax": "programs/softmax/",
        "CUDA graph": "pytorch/launch-overhead/",
        "mask": "programs/masks/",
        "coalescing": "gpu/coalescing/",
        "lesson 25": "fusion/dropout/",
        "what is a program": "reference/glossary/",
        "flash attention": "fusion/attention/",
        "flash attn": "fusion/attention/",
        "sum over rows": "programs/masks/",
        "shared memory": "reference/glossary/",
        "deterministic": "pytorch/determinism/",
        "vectorized load": "gpu/coalescing/",
        "backprop": "fusion/autograd/",
        "windows": "start/install/",
        "playground": "practice/playground/",
    }.items(),
)
def test_a_page_that_is_called_what_was_asked_for_comes_first(results, query, first):
    assert results[query][0] == first


def test_a_term_that_was_asked_for_comes_before_pages_that_have_it_as_a_keyword(found):
    assert found["CUDA graph"][1][0] == "reference/glossary/#cuda-graph"


def test_a_result_shows_the_page_s_description_and_a_whole_sentence_of_a_section(open_site, site):
    page = open_site(site.url)
    taken_over(page)
    page.keyboard.press("/")
    page.keyboard.insert_text("softmax")
    first = page.locator(".md-search-result__item a").first
    expect(first.locator("p")).to_contain_text("A Triton softmax kernel with one program per row")
    page.locator(".md-search__input").fill("warp shuffle")
    page.keyboard.press("End")
    section = page.locator(".md-search-result__item").first.locator("a:has(h2) p").first
    expect(section).to_have_text(re.compile(r"^[A-Z].*[.?!:]$"))


def test_what_every_exercise_has_is_not_searched(site):
    documents = json.loads((site.folder / "search/documents.json").read_text("utf-8"))
    assert not [each["location"] for each in documents if each["location"].startswith("practice/softmax/#")]


def test_who_has_no_gpu_finds_how_to_start(results):
    ways = ["start/install/", "reference/browser/", "practice/playground/"]
    assert results["no gpu"][0] == results["mac"][0] == ways[0]
    assert set(results["no gpu"][:3]) == set(ways)


def test_a_name_is_found_while_it_is_typed_and_with_other_capitals(results):
    assert "reference/debugging/" in results["device_prin"][:3]
    assert results["TL.LOAD"]


def test_signs_of_the_search_engine_are_no_errors_and_nothing_finds_nothing(results):
    assert results['"+mask~^'] == results["mask"] and results["zzzz"] == [] == results["  "]


def test_an_enter_before_the_results_follows_the_first_of_them(open_site, site):
    page, held = open_site(site.url), []
    page.route("**/search/documents.json", lambda route: held.append(route))
    taken_over(page)
    with page.expect_request("**/search/documents.json"):
        page.keyboard.press("/")
        page.keyboard.insert_text("out of resource: shared memory")
        page.keyboard.press("Enter")
    page.wait_for_timeout(300)
    assert page.url == site.url and page.locator(".md-search-result__item").count() == 0
    held[0].continue_()
    page.wait_for_url("**/reference/errors/**#out-of-resource*")


def test_an_enter_at_once_sends_no_form(open_site, site):
    """Material knows a moment after it is entered that somebody searches; until then Enter would load the page anew."""
    page = open_site(site.url)
    taken_over(page)
    sent = page.evaluate("""() => {
        const box = document.querySelector(".md-search__input");
        box.focus();
        box.value = "softmax";
        return box.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true }));
    }""")
    assert not sent


def test_enter_leads_to_the_section_that_is_called_what_was_asked_for(open_site, site):
    page = open_site(site.url)
    taken_over(page)
    page.keyboard.press("/")
    page.keyboard.insert_text("top-k")
    page.keyboard.press("End")
    page.locator(".md-search-result__item").first.locator("[href$='#top-k']").wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url("**/fusion/scan-sort-histogram/*#top-k")


LABELS = [
    ("matmul/split-k/", "another tile of 6 steps"),
    ("notes/fusion-bytes/", "24 stored"),
    ("practice/add/", "program 0"),
]


@pytest.mark.parametrize(("address", "label"), LABELS)
def test_labels_of_drawings_are_not_searched(site, address, label):
    documents = json.loads((site.folder / "search/documents.json").read_text("utf-8"))
    texts = [each["text"] for each in documents if each["location"].startswith(address)]
    assert label in site.text(address) and len("".join(texts)) > 300
    assert not [text for text in texts if label in text]


@pytest.mark.parametrize("query", ["print inside kernel"])
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


def test_before_a_question_it_offers_places_and_queries_at_once(open_site, site):
    page = open_site(site.url, viewport={"width": 1280, "height": 800})
    taken_over(page)
    page.route("**/search/documents.json", lambda route: None)  # which never come
    page.keyboard.press("/")
    offer = page.locator(".search-offer")
    expect(offer.get_by_role("link", name="Error messages")).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(offer.get_by_role("link", name="Error messages")).to_be_focused()
    page.unroute("**/search/documents.json")
    page.keyboard.press("Enter")
    page.wait_for_url("**/reference/errors/")


def test_a_result_says_what_its_page_is_about_unless_a_section_says_more(open_site, site):
    page = open_site(site.url, viewport={"width": 1280, "height": 800})
    taken_over(page)
    page.keyboard.press("/")
    page.keyboard.insert_text("flash attention")
    page.keyboard.press("End")
    first = page.locator(".md-search-result__item").first.locator("> a")
    expect(first).to_have_count(1)
    expect(first.locator("p")).to_contain_text("FlashAttention in Triton, step by step")
    page.locator(".md-search__input").fill("shared memory")
    page.keyboard.press("End")
    said = page.locator(".md-search-result__item").first.locator("> a p")
    expect(said.last).to_contain_text("inside a multiprocessor")


def test_where_nothing_is_found_it_offers_what_is_spelled_almost_so_and_places(open_site, site):
    page = open_site(site.url, viewport={"width": 390, "height": 844})
    taken_over(page)
    page.locator("label.md-header__button[for=__search]").click()
    box, offer = page.locator(".md-search__input"), page.locator(".search-offer--none")
    box.fill("zzzzqq")
    expect(offer.get_by_role("link", name="Glossary")).to_be_visible()
    expect(offer.get_by_role("button")).to_have_count(0)
    box.fill("attantoin")
    offer.get_by_role("button", name="attention", exact=True).click()
    page.locator(".md-search-result__item a[href*='fusion/attention/']").first.wait_for()
    expect(offer).to_have_count(0)


def test_a_query_that_is_offered_is_asked(open_site, site):
    page = open_site(site.url, viewport={"width": 390, "height": 844})
    taken_over(page)
    page.locator("label.md-header__button[for=__search]").click()
    page.locator(".search-offer").get_by_role("button", name="out of shared memory").click()
    page.locator(".md-search-result__item a[href*='reference/errors/']").first.wait_for()
    expect(page.locator(".search-offer")).to_be_hidden()


def test_down_goes_from_result_to_result_and_right_unfolds_one(open_site, site):
    page = open_site(site.url, viewport={"width": 1280, "height": 800})
    taken_over(page)
    page.keyboard.press("/")
    page.keyboard.insert_text("softmax")
    page.keyboard.press("End")
    results = page.locator(".md-search-result__item")
    results.nth(2).wait_for()
    more = results.locator("details")
    more.first.wait_for(state="attached")
    for _ in range(12):
        page.keyboard.press("ArrowDown")
        assert page.evaluate("document.activeElement.matches('a.md-search-result__link')")
        if page.evaluate("!!document.activeElement.parentElement.querySelector('details')"):
            break
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.parentElement.querySelector('details').open")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    assert not page.locator(".md-search-result__item details[open]").count()
    expect(page.locator(".md-search__input")).not_to_be_focused()
