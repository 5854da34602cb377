# SPDX-License-Identifier: Apache-2.0
"""The pages of the built site, in Chromium: whole, quiet, and usable by everybody.

``quiet`` fails a test in which a page logs an error or asks another host for something.
"""

import functools
import itertools
import re
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from urllib.parse import urljoin

import pytest
from playwright.sync_api import expect

from practice.coach.exercise import exercises
from render.fences import at_first
from render.lessons import lessons
from tests.accessibility import Seen, assert_accessible
from tests.chromium import SITE_URL, quiet, taken_over, until

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs/en"
WRITTEN = [path for path in sorted(DOCS.rglob("*")) if path.suffix in (".md", ".ipynb")]
SOURCES = {  # address of a page: the file it is written in
    re.sub(r"(^|/)index/$", r"\1", f"{path.relative_to(DOCS).with_suffix('').as_posix()}/"): path for path in WRITTEN
}
LESSON, LAB = "programs/vector-add/", "programs/vector-add-step-by-step/"
EXERCISE = "practice/scale/"
PHONE = {"width": 360, "height": 740}
PHONE_SEEN, LOOKS_SEEN = Seen(), set()  # by axe, on the pages before, on a phone and on a desktop
UNFOLDED = set()  # what is large and alike, and was looked at on a page before
DRAWN = set()  # kinds of figures, by the pages before that were looked at as wide as on a desktop
STOOD = set()  # tags and classes of the pages before that stood without scripts
KINDS = """() => [...document.querySelectorAll("article :is(.recording__view > *, svg)")]
    .map(part => `${part.localName} ${part.getAttribute("class")}`)"""
# What is shown of figures in letters of less than 11 px: text, and its size on the screen.
SMALL = """() => [...document.querySelectorAll("article :is(figure, .recording__view, svg) *")].flatMap(part => {
    const own = [...part.childNodes].filter(node => node.nodeType === Node.TEXT_NODE && node.data.trim());
    if (!own.length || part.closest("pre, title, desc")) return [];
    if (!part.checkVisibility({ visibilityProperty: true })) return [];
    const drawn = part.closest("svg") && part.getScreenCTM();
    const size = parseFloat(getComputedStyle(part).fontSize) * (drawn ? Math.hypot(drawn.a, drawn.b) : 1);
    const { width, height } = part.getBoundingClientRect();
    return size && size < 10.99 && width > 2 && height > 2 ? [[own[0].data.trim(), size]] : [];
})"""

class Parsed(HTMLParser):
    """The elements of a page as it was built, before any script."""

    def __init__(self, text: str):
        super().__init__()
        self.elements = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def all(self, tag, **wanted):
        return [has for name, has in self.elements if name == tag and wanted.items() <= has.items()]


@pytest.fixture(scope="module", params=[*SOURCES, "404.html"])
def address(request) -> str:
    """Each page. Of a module's scope, so that pytest runs all tests of a page before those of the next."""
    return request.param


@functools.lru_cache(maxsize=2)
def built(site, address) -> Parsed:
    return Parsed(at_first(site.text(address)))


def ready(page):
    """Wait until the explorers of a page stand and everything that can be unfolded is."""
    until(
        page,
        "names => !document.querySelector(':not(:defined)') && [...document.querySelectorAll(names)]"
        ".every(explorer => explorer.querySelector('output:not(:empty), [aria-live]'))",
        arg="launch-explorer, stage-explorer, schedule-explorer, roofline-explorer, swizzle-explorer, layout-explorer",
    )
    page.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
    until(page, "!document.querySelector('details[open] .whole-file__code a')")  # a whole file is fetched then
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def tab(page):
    """Press Tab, and let the page do what it does then: Material opens and closes its search a moment later."""
    page.keyboard.press("Tab")
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def heading(page) -> str:
    return page.locator("article h1").evaluate("h1 => h1.firstChild.textContent.trim()")


# Every page


def test_these_are_all_pages(site):
    assert sorted([*SOURCES, "404.html"]) == site.pages
    listed = re.findall(r"<loc>(.*)</loc>", (site.folder / "sitemap.xml").read_text("utf-8"))
    assert sorted(listed) == sorted(SITE_URL + address for address in SOURCES)


FOLDERS = sorted({folder for address in SOURCES for folder in PurePosixPath(address).parents} - {PurePosixPath()})


def test_every_folder_that_holds_pages_is_a_page_or_leads_to_one_in_it(site):
    led = {}
    for folder in FOLDERS:
        index = site.folder / folder / "index.html"
        assert index.is_file(), f"{folder}/ is an address that readers shorten others to"
        if leads := re.search(r'http-equiv="refresh" content="0; url=([^"]+)"', index.read_text("utf-8")):
            led[f"{folder}/"] = urljoin(f"{folder}/", leads[1])
    assert set(led.values()) <= set(SOURCES) and all(page.startswith(folder) for folder, page in led.items())
    assert led["practice/"] == "practice/exercises/" and led["reference/"] == "reference/questions/"
    assert led["programs/"] == LAB, "the first in the menu"


def test_a_folder_leads_to_its_page_and_back_leads_to_where_one_was(open_site, site):
    page = open_site(site.url)
    page.goto(f"{site.url}practice/")
    page.wait_for_url("**/practice/exercises/")
    page.go_back()
    page.wait_for_url(site.url)


def test_robots_are_told_where_the_map_is(site):
    assert f"Sitemap: {SITE_URL}sitemap.xml" in (site.folder / "robots.txt").read_text("utf-8").splitlines()


def test_has_what_every_page_has(site, address):
    page = built(site, address)
    assert len(page.all("h1")) == 1
    assert page.all("html", lang="en")
    assert page.all("meta", name="description")[0]["content"]
    assert page.all("main") and page.all("link", rel="icon")
    ids = [has["id"] for _, has in page.elements if has.get("id")]
    assert len(ids) == len(set(ids)), sorted(i for i in set(ids) if ids.count(i) > 1)
    figures = [has for has in page.all("figure") if "recording" in has.get("class", "").split()]
    lab = bool(page.all("div", **{"class": "jupyter-wrapper"}))  # which says it once, at its end
    assert len(page.all("p", **{"class": "recording__where"})) == len(figures) + lab, "each says where it ran"
    kinds = {kind for _, has in page.elements for kind in (has.get("class") or "").split()}
    assert not kinds & {"claim--stale", "recording__notice", "md-source"}, "fresh, and of no repository"
    assert not [has for has in page.all("a") if "edit" in has.get("rel", "").split()]
    assert not [has for has in page.all("a") if "colab.research" in has.get("href", "")]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_scheme_is_that_of_the_reader(open_site, site, scheme):
    page = open_site(site.url + LESSON, color_scheme=scheme)
    dark = page.evaluate("getComputedStyle(document.body).getPropertyValue('color-scheme')") == "dark"
    assert dark == (scheme == "dark")


def test_a_reader_chooses_the_colors_by_keyboard(open_site, site):
    page = open_site(site.url + LESSON, color_scheme="light")
    taken_over(page)
    seen = "new Promise(done => new MutationObserver(() => 'mdColorSwitching' in document.body.dataset && done(true))"
    seen += ".observe(document.body, { attributeFilter: ['data-md-color-switching'] }))"
    page.evaluate(f"() => {{ window.switching = {seen}; }}")
    page.get_by_role("button", name="Switch to dark").focus()
    page.locator(".tooltip", has_text="Switch to dark").wait_for()
    page.keyboard.press("Enter")
    schemes = "[document.body, document.documentElement].map(part => getComputedStyle(part).colorScheme).join()"
    until(page, f"{schemes} === 'dark,dark'")
    assert page.evaluate("window.switching"), "all at once"
    until(page, "!('mdColorSwitching' in document.body.dataset)")
    assert not page.locator(".tooltip", has_text="Switch to dark").count(), "it is dark"
    page.locator(".onward [rel=next]").click()
    until(page, f"{schemes} === 'dark,dark' && location.pathname.indexOf('{LESSON}') < 0")


def test_dark_does_not_wait_for_material(browser, site):
    """Or a page would be shown light, and then turn dark."""
    with browser.new_context(color_scheme="dark") as context:
        context.route("**/bundle.*.js", lambda route: route.abort())
        page = context.new_page()
        page.goto(site.url + LESSON)
        schemes = "[document.body, document.documentElement].map(part => getComputedStyle(part).colorScheme)"
        assert page.evaluate(schemes) == ["dark", "dark"]
        assert page.evaluate("window.document$ === undefined"), "Material did not run"


@pytest.fixture(scope="module")
def phone(browser):
    """A page on a phone, for one address after the other: what Chromium keeps of the last makes the next quicker."""
    screen = {"viewport": PHONE, "has_touch": True, "is_mobile": True}
    with browser.new_context(color_scheme="light", reduced_motion="reduce", **screen) as context:
        page = context.new_page()
        yield page


TABLES = """() => {  // of words, which scroll sideways, also those that are folded away
    const folds = document.querySelectorAll("article details.as-table:not([open])");
    for (const fold of folds) fold.open = true;
    const wide = [...document.querySelectorAll("article :is(.table-scroll--words, .md-typeset__scrollwrap):has(table)")]
        .filter(it => !it.closest(".table-scroll:not(.table-scroll--words)") && !it.querySelector("[data-numbers]"))
        .filter(it => it.checkVisibility() && it.scrollWidth > it.clientWidth + 5).map(it => it.textContent.trim());
    for (const fold of folds) fold.open = false;
    return wide;
}"""


def check_on_a_phone(page):
    """Nothing lies beside the screen, pictures can be read, and the keyboard reaches what scrolls."""
    assert page.evaluate("innerWidth") == 360, "Chromium zooms out of a page that is too wide"
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    beside = "all => all.filter(row => row.scrollWidth > row.clientWidth).map(row => row.textContent)"
    assert not page.locator(".tabbed-labels").evaluate_all(beside), "nobody knows of tabs beside the screen"
    cut = page.locator("article .highlight pre > code:not(.in-columns)").evaluate_all(
        "all => all.filter(code => code.scrollWidth > code.clientWidth).map(code => code.textContent.slice(0, 100))"
    )
    assert not cut, "code wraps"
    unreachable = page.locator("article pre > code").evaluate_all(
        "all => all.filter(code => code.scrollWidth > code.clientWidth && !code.closest('[tabindex]') &&"
        " getComputedStyle(code).overflowX !== 'visible').map(code => code.parentElement.outerHTML.slice(0, 100))"
    )
    assert not unreachable, "Material leaves out the keyboard where nothing hovers"
    assert not page.evaluate(TABLES), "rows of words are cards where columns have no room"


def check_text_of_figures(page):
    """No text of a figure is smaller than 11 px; an output may be: it shrinks until its columns fit."""
    kinds = set(page.evaluate(KINDS))
    for width in (390, 1280) if kinds - DRAWN else (390,) if kinds else ():
        page.set_viewport_size({"width": width, "height": 740})
        assert not page.evaluate(SMALL), f"before nobody can read it at {width} px, it scrolls, or is drawn otherwise"
    page.set_viewport_size(PHONE)
    DRAWN.update(kinds)


def test_code_that_a_phone_wraps_is_copied_as_it_was(phone, site):
    phone.goto(site.url + LESSON)
    phone.context.grant_permissions(["clipboard-read", "clipboard-write"])
    block = phone.locator("article .highlight:has(.long)").first
    assert max(line.bounding_box()["height"] for line in block.locator(".long").all()) > 30, "it takes two lines"
    block.scroll_into_view_if_needed()
    block.locator("[data-md-type=copy]").wait_for(state="attached")
    block.locator("[data-md-type=copy]").evaluate("button => button.click()")
    phone.locator(".md-dialog--active").wait_for()
    copied = phone.evaluate("navigator.clipboard.readText()")
    assert copied.rstrip() == block.locator("code").evaluate("code => code.textContent").rstrip()


def leave_out_what_is_alike(page):
    """Take the menu and the whole files away, unless this is the first page that has them: they take long to draw."""
    for part in (".menu__parts", ".whole-file"):
        if part in UNFOLDED:
            page.evaluate("part => document.querySelectorAll(part).forEach(each => each.remove())", part)
        elif page.locator(part).count():
            UNFOLDED.add(part)


def test_on_a_phone_it_is_whole_quiet_and_usable(phone, site, address):
    """One visit for all that needs no fresh page."""
    with quiet(phone.context, site.url):
        phone.goto(site.url + address)
        leave_out_what_is_alike(phone)
        ready(phone)
        check_on_a_phone(phone)
        check_text_of_figures(phone)
        assert_accessible(phone, PHONE_SEEN)


@pytest.mark.parametrize("address", ["", LESSON, LAB, "notes/layouts/", "reference/errata/", "404.html"])
def test_no_axe_violation_beside_the_sidebars(open_site, site, address):
    """The sidebars and what stands side by side: a phone, on which each page is checked, has neither."""
    tall = {"width": 1280, "height": 1000}  # no menu scrolls, which axe would do, and then find a row half hidden
    page = open_site(site.url + address, viewport=tall, reduced_motion="reduce")
    ready(page)
    assert page.locator(".md-sidebar--primary").is_visible() == (address != ""), "the home page has none"
    assert_accessible(page, Seen(LOOKS_SEEN))  # with all blocks: a page that is cut short has its sidebars elsewhere


@pytest.mark.parametrize("by_click", [False, True])
def test_a_link_into_a_long_page_leads_to_its_heading(open_site, site, by_click):
    """Though what stands above it is not laid out until it is read."""
    heading, address = "second-pass-the-gradient", "fusion/cross-entropy/"
    page = open_site(site.url + address + ("" if by_click else f"#{heading}"))
    if by_click:
        page.locator(f".menu a[href$='#{heading}']").first.evaluate("link => link.click()")
    ready(page)
    assert 0 <= page.locator(f"#{heading}").bounding_box()["y"] < 200
    named = "document.querySelector('.md-sidebar--secondary .md-nav__link--active')?.hash"  # by the contents beside it
    until(page, f"{named} === '#{heading}'")


@pytest.fixture(scope="module")
def without_javascript(browser):
    with browser.new_context(java_script_enabled=False) as context:
        yield context.new_page()


def test_without_javascript_everything_stands(without_javascript, site, address):
    article = site.text(address).partition("<article")[2].partition("</article>")[0]
    kinds = {(tag, has.get("class")) for tag, has in built(site, address).elements}
    if not re.search(r'<[a-z]+-[a-z]+|class="tabbed-set| hidden[ >]', article) and kinds <= STOOD:
        return  # nothing of the page waits for a script, and it has nothing that no page before had
    page = without_javascript
    page.goto(site.url + address)
    assert page.locator("h1").is_visible()
    for number, tab in enumerate(page.locator("article .tabbed-labels > label").all()):  # one of a set is open
        tab.click()
        block = page.locator("article .tabbed-block").nth(number)
        assert block.is_visible()
    page.locator("article .tabbed-set").evaluate_all("all => all.forEach(set => set.remove())")
    # Nothing plays without a script; and what lies in a picture may be for screens of another width.
    svg = "figure svg:not(.time-bar svg, svg svg)"
    parts = f"article :is(h2, h3, p, figure > .recording__view, {svg}, svg.lost, stage-explorer pre)"
    hidden = "parts => parts.filter(part => !part.checkVisibility({ visibilityProperty: true })).map(part => %s)"
    assert page.locator(parts).count() > 1
    assert set(page.locator(parts).evaluate_all(hidden % "Boolean(part.closest('details'))")) <= {True}
    page.locator("article details").evaluate_all("all => all.forEach(details => { details.open = true })")
    assert page.locator(parts).evaluate_all(hidden % "part.outerHTML.slice(0, 200)") == []
    STOOD.update(kinds)


# From page to page


def test_next_leads_through_all_pages_and_previous_back(site):
    next_of, previous_of = {}, {}
    for address in SOURCES:
        here, (_, _, onward) = f"{site.url}{address}", site.text(address).partition('<nav class="onward"')
        for name, links in (("next", next_of), ("prev", previous_of)):
            if link := re.search(rf'<a [^>]*rel="{name}" href="([^"]*)"', onward):
                links[here] = urljoin(here, link[1])
    first = f"{site.url}start/install/"
    assert site.url not in next_of, "home has its own buttons"
    visited = [site.url, first]
    while visited[-1] in next_of:
        visited.append(next_of[visited[-1]])
        assert len(visited) <= len(SOURCES)
    assert sorted(visited) == sorted(site.url + address for address in SOURCES)
    assert previous_of == {following: page for page, following in next_of.items()} | {first: site.url}


def test_previous_leads_back(open_site, site):
    page = open_site(f"{site.url}start/install/")
    visited, back = [page.url], []
    for _ in range(5):
        following = page.locator(".onward [rel=next]")
        address = following.evaluate("link => link.href")
        following.click()
        page.wait_for_url(address + "**")
        visited.append(page.url.split("#")[0])
        back.append(page.locator(".onward [rel=prev]").evaluate("link => link.href"))
    assert back == visited[:-1] and len(set(visited)) == 6
    page.locator(".onward [rel=prev]").click()
    page.wait_for_url(visited[-2] + "**")


def test_explorers_work_also_when_one_comes_back(open_site, site):
    page = open_site(site.url)
    for _ in range(2):
        page.locator("article a:not(.home__continue)", has_text="Vector add").click()
        page.locator("article h1", has_text="Vector add").wait_for()
        launch = page.locator("launch-explorer")
        launch.get_by_role("button", name="Remove the mask").click()
        assert "2 out of bounds" in launch.locator(".explorer__summary").inner_text()
        page.locator("article a", has_text="From Python to machine code").click()
        page.locator("article h1", has_text="From Python to machine code").wait_for()
        stages = page.locator("stage-explorer")
        for stage, word in (("sass", "LDG.E.128"), ("ttir", "tt.load")):
            assert word not in stages.locator(".stages__code").inner_text()
            stages.locator(f"input[value={stage}]").check()
            assert word in stages.locator(".stages__code").inner_text()
        page.go_back()
        page.locator("article h1", has_text="Vector add").wait_for()
        page.go_back()
        page.locator("article h1", has_text="Write GPU kernels").wait_for()


@pytest.mark.parametrize(("address", "name"), [(LESSON, "Lesson 2, Vector add"), (LAB, "Lesson 1, Your first kernel")])
def test_the_menu_remembers_which_lessons_were_read(open_site, site, address, name):
    page = open_site(site.url + address, viewport={"width": 1280, "height": 720})
    page.clock.install()
    page.reload()
    taken_over(page)
    read = page.locator(".menu a.lesson-read, a.path__lesson.lesson-read")
    assert page.locator(".page-head .lesson").inner_text() == name.partition(",")[0] and read.count() == 0
    page.clock.run_for(60_000)
    assert read.count() == 0, "who stays at its beginning has not read it"
    page.reload()
    taken_over(page)
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    page.locator(".onward").scroll_into_view_if_needed()
    page.clock.run_for(15_000)
    assert read.count() == 0, "nor who looks through it in a few seconds"
    page.clock.run_for(10_000)
    read.first.wait_for(state="attached")
    assert page.locator(".menu__count").inner_text() == "1 of 51 lessons read"
    page.locator(".md-header__button.md-logo").first.click()
    page.locator("article h1", has_text="Write GPU kernels").wait_for()
    assert {link.split("/course/")[1] for link in read.evaluate_all("all => all.map(link => link.href)")} == {address}
    page.reload()
    page.locator("a.path__lesson.lesson-read").wait_for()
    order = [re.sub(r"\.\w+$", "/", page) for page in lessons()]
    after = order.index(address) + 1
    page.locator(".home__continue", has_text=f"Next up: Lesson {after + 1}, ").click()
    page.wait_for_url(f"**/{order[after]}")


def test_home_leads_on_to_where_one_was_or_to_what_comes_next(open_site, site):
    """The button that stands out: the lesson that was opened last, or after it the first that has not been read."""
    page, order = open_site(site.url + LESSON), [re.sub(r"\.\w+$", "/", page) for page in lessons()]
    stands_out = page.locator(".home__statement .md-button--primary")

    def home(*read):
        paths = [f"/course/{address}" for address in read]
        page.evaluate("paths => localStorage.setItem('lessons-read', JSON.stringify(paths))", paths)
        page.goto(site.url)
        page.locator(".home a", has_text="Install Triton").wait_for()
        taken_over(page)
        return stands_out.inner_text(), stands_out.get_attribute("href")

    page.evaluate("scrollTo(0, 3000)")
    page.wait_for_timeout(200)
    assert home()[0] == "Continue where you were: Lesson 2, Vector add"
    assert page.locator(".home__statement .md-button").count() == 1, "the start gives way, as a link"
    text, link = home(LESSON, order[2])
    assert text.startswith("Next up: Lesson 4, ") and link.endswith(order[3]), "the third has been read already"
    text, link = home(*order[1:])
    assert text.startswith("Next up: Lesson 1, ") and link.endswith(order[0]), "the only one that is left"
    start = page.locator(".home a", has_text="Start with the first lesson")
    assert not start.is_visible(), "it leads to the same lesson"
    assert home(*order)[0] == "Start with the first lesson"


def test_at_home_kernels_to_copy_are_beside_the_first_button(open_site, site):
    for width, height in ((1280, 800), (390, 844)):
        page = open_site(site.url, viewport={"width": width, "height": height})
        start, copied = (page.locator(".home__begin a", has_text=text).bounding_box() for text in ("Start", "copy"))
        assert start["y"] < copied["y"] < start["y"] + start["height"] < height * 0.55


@pytest.mark.parametrize("source", ["", '<div class="md-header__source"></div>'], ids=["", "with a repository"])
@pytest.mark.parametrize("width", [1220, 1280])
def test_the_open_search_leaves_the_parts_of_the_site_in_sight(open_site, site, width, source):
    page = open_site(site.url, viewport={"width": width, "height": 800}, reduced_motion="reduce")
    taken_over(page)
    page.evaluate("html => document.querySelector('.md-search').insertAdjacentHTML('afterend', html)", source)
    page.keyboard.press("/")
    page.wait_for_timeout(500)  # it becomes wider by and by
    *_, last = page.locator(".md-tabs__link").all()
    end = last.bounding_box()["x"] + last.bounding_box()["width"]
    box = page.locator(".md-search__inner").bounding_box()
    assert end < box["x"] and box["x"] + box["width"] <= width


@pytest.mark.parametrize("address", [
    LESSON, "gpu/coalescing/", "fusion/attention/", "compiler/stages/", "pytorch/launch-overhead/", "tools/find-bug/",
    "notes/products-to-copy/", "reference/library/", "reference/your-gpu/",
])
def test_blocks_begin_at_one_edge_and_end_at_one_of_two(open_site, site, address):
    page = open_site(site.url + address, viewport={"width": 1440, "height": 900})
    found = page.evaluate("""() => [...document.querySelectorAll(
        "article > :is(.highlight, .recording, .predict, .run, .wrong, .wide, .side-by-side, details.tip, "
        + "details.note, .md-typeset__scrollwrap)")].filter((part) => part.offsetHeight).map((part) => {
            const { left, right } = part.getBoundingClientRect();
            return [Math.round(left), Math.round(right)];
        })""")
    lefts, rights = map(set, zip(*found, strict=True))
    assert len(lefts) == 1 and len(rights) <= 2, found


def test_on_a_phone_nothing_lies_over_what_one_reads(open_site, site):
    page = open_site(site.url + LESSON, viewport={"width": 390, "height": 844})
    taken_over(page)
    for y in (3000, 2000):  # back towards the top, which on a desktop offers the way there
        page.evaluate("y => scrollTo(0, y)", y)
        page.wait_for_timeout(200)
    assert not page.locator(".md-top").is_visible()


# Matrix products have most to show, norms most bars, attention the most of all; dropout's rows say what they hold.
@pytest.mark.parametrize("address", ["matmul/grouped/", "fusion/norms/", "fusion/dropout/", "fusion/attention/"])
def test_a_phone_s_first_screen_has_what_plays_the_picture(open_site, site, address):
    page = open_site(site.url + address, viewport={"width": 390, "height": 844})
    box = page.locator("article .time-bar").first.bounding_box()
    assert box["y"] + box["height"] <= 844


# Moves each field of a page's explorers through its values: how far what is below them moves at most.
MOVED = """async () => {
    document.documentElement.classList.add("laid-out");
    let moved = 0;
    for (const form of document.querySelectorAll("form.explorer")) {
        const { height } = form.getBoundingClientRect();
        const fields = [...form.elements].filter(field => field.matches("[type=radio], [type=range], select")
            && field.checkVisibility() && !field.closest("details, .launch__lines"));
        const set = (field, changes) => {
            Object.assign(field, changes);
            field.dispatchEvent(new Event("input", { bubbles: true }));
            moved = Math.max(moved, Math.abs(form.getBoundingClientRect().height - height));
        };
        const state = fields.filter(field => field.type !== "radio" || field.checked)
            .map(field => [field, field.type === "radio" ? { checked: true } : { value: field.value }]);
        for (const field of fields) {
            if (field.type === "radio") set(field, { checked: true });
            const values = field.type === "range" ? [field.min, +field.min + 1, field.max]
                : [...field.options ?? []].filter(option => option.parentElement === field).map(option => option.value);
            for (const value of values) set(field, { value });
            for (const [each, was] of state) set(each, was);
        }
    }
    return moved;
}"""


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("address", [
    LESSON, "programs/offsets/", "programs/programs-and-threads/", "gpu/schedule/", "gpu/limits/", "matmul/naive/",
    "matmul/autotuned/", "fusion/attention/", "fusion/decoding/",
])  # fmt: skip
def test_what_is_below_an_explorer_stays_where_it_is(open_site, site, address, width):
    page = open_site(site.url + address, viewport={"width": width, "height": 844}, reduced_motion="reduce")
    page.locator("article form.explorer").first.wait_for()
    taken_over(page)
    assert page.evaluate(MOVED) < 1


def test_home_leads_back_into_the_middle_of_a_lesson(open_site, site):
    page = open_site(site.url + LESSON)
    page.locator("#what-goes-wrong").scroll_into_view_if_needed()
    page.goto(site.url)
    taken_over(page)
    page.locator(".home__continue").click()
    page.wait_for_url("**#what-goes-wrong")


def test_a_mere_look_at_a_lesson_moves_no_bookmark(open_site, site):
    page, other = open_site(site.url), "matmul/naive/"
    for address, top, place in ((LESSON, 0, LAB), (LESSON, 3000, LESSON), (other, 0, LESSON), (other, 3000, other)):
        page.goto(site.url + address)
        taken_over(page)
        page.evaluate("top => scrollTo(0, top)", top)
        page.wait_for_timeout(200)
        page.goto(site.url)
        taken_over(page)
        assert place in page.locator(".home__statement .md-button--primary").get_attribute("href")


def test_below_the_map_the_menu_begins_with_a_whole_item(open_site, site):
    page = open_site(site.url + "fusion/norms/", viewport={"width": 1280, "height": 800})
    taken_over(page)
    page.wait_for_timeout(300)
    map_ends = page.locator(".menu__so-far").bounding_box()
    end = map_ends["y"] + map_ends["height"]
    items = page.locator(".menu :is(.menu__page, summary):visible")
    boxes = [(item.inner_text(), item.bounding_box()) for item in items.all()]
    assert len(boxes) > 10
    assert not [text for text, box in boxes if box["y"] < end - 1 and box["y"] + box["height"] > end + 1]


@pytest.mark.parametrize("address", ["below/attention/", "fusion/layer/", "notes/tf32/"])
@pytest.mark.parametrize("height", [640, 800])
def test_a_page_s_own_row_stands_in_the_middle_of_a_long_menu(open_site, site, address, height):
    page = open_site(site.url + address, viewport={"width": 1280, "height": height})
    taken_over(page)
    page.wait_for_timeout(300)
    row, above, menu = (
        page.locator(f".md-sidebar--primary {part}").bounding_box()
        for part in ("[aria-current]", ".menu__so-far", ".md-sidebar__scrollwrap")
    )
    top, bottom = above["y"] + above["height"], menu["y"] + menu["height"]
    middle = (row["y"] + row["height"] / 2 - top) / (bottom - top)
    ends = page.locator(".md-sidebar--primary .md-sidebar__scrollwrap").evaluate(
        "menu => menu.scrollTop + menu.clientHeight >= menu.scrollHeight - 2"
    )
    assert 0.35 < middle < (0.85 if ends else 0.65)


def test_the_menu_of_a_phone_begins_with_the_parts_of_the_site(open_site, site):
    page = open_site(site.url + "below/attention/", viewport={"width": 390, "height": 844})
    taken_over(page)
    page.get_by_role("button", name="Menu").click()
    tabs = page.locator(".menu__tabs a")
    names = ["Home", "Learn", "Practice", "Notes", "Reference"]
    expect(tabs).to_have_text(names)
    assert all(tab.bounding_box()["y"] < 120 and tab.bounding_box()["height"] >= 40 for tab in tabs.all())
    tabs.nth(2).click()
    page.wait_for_url("**/practice/exercises/")


def test_what_tab_reaches_in_a_long_menu_stands_clear_of_the_map_and_of_the_fading_end(open_site, site):
    page = open_site(site.url + "fusion/norms/", viewport={"width": 1280, "height": 720})
    taken_over(page)
    hidden = page.evaluate("""() => {
        const box = (part) => document.querySelector(`.md-sidebar--primary ${part}`).getBoundingClientRect(), ring = 4;
        const all = [...document.querySelectorAll(".menu__parts :is(a, summary)")];
        const items = all.filter((item) => item.checkVisibility());
        const hides = (item) => {
            item.focus({ focusVisible: true });
            const { top, bottom } = item.getBoundingClientRect();
            const from = box(".menu__so-far").bottom, to = box(".md-sidebar__scrollwrap").bottom - 20;
            return top - ring < from || bottom + ring > to;
        };
        return [...items, ...items.toReversed()].filter(hides).map((item) => item.innerText);
    }""")
    assert hidden == []


def test_an_exercise_leads_on_to_the_lesson_after_its_own(site):
    order, led = list(lessons()), 0
    for each in exercises():
        address = f"practice/{each.name.replace('_', '-')}/"
        link = re.search(r'<a class="onward__lesson" href="([^"]+)">On to lesson (\d+): ', site.text(address))
        after = order[order.index(each.card.lesson) + 1 :][:1]
        assert bool(link) == bool(after), address
        if link:
            led += 1
            assert urljoin(SITE_URL + address, link[1]) == SITE_URL + re.sub(r"\.\w+$", "/", after[0]), address
            assert int(link[2]) == order.index(after[0]) + 1
    assert led > 20


def test_lessons_end_alike(site):
    """Sources, the whole files, and what comes next, right above the link to it."""
    last = re.compile("sources|the-whole-files?|the-file-behind-the-picture|the-kernels-file|next")
    for page in lessons():
        address = re.sub(r"\.\w+$", "/", page)
        parts = re.findall(r'<h2 id="([\w-]+)"', site.text(address))
        ends = [part for part in parts if last.fullmatch(part)]
        assert ends == parts[-len(ends) :] and ends[-1] == "next" and ends[:-1] == sorted(ends[:-1]), address


def test_the_tab_of_the_lessons_leads_to_the_first_with_its_chapter_unfolded(open_site, site):
    page = open_site(site.url + "start/install/", viewport={"width": 1280, "height": 800})
    chapter = page.locator(".menu__chapter", has_text="Vector add")
    assert chapter.get_attribute("open") is not None, "a page of no chapter shows where lessons begin"
    page.locator(".md-tabs__link", has_text="Learn").click()
    page.wait_for_url(f"**/{LAB}")
    assert (
        chapter.get_attribute("open") is not None
        and page.locator(".menu__part--here .menu__chapter[open]").count() == 1
    )


def test_what_stands_above_the_menu_stays_as_high(open_site, site):
    """So that the menu stays where it is from page to page, however far one has read. The map is for lessons only."""
    page = open_site(site.url + EXERCISE, viewport={"width": 1280, "height": 800})
    above, begin, on = (page.locator(f".menu__{name}") for name in ("so-far", "begin", "continue"))
    tops = {}
    for address in (EXERCISE, LESSON, EXERCISE, "reference/questions/", LESSON.replace("vector-add", "offsets")):
        page.goto(site.url + address)
        taken_over(page)
        lesson = address.startswith("programs/")
        assert page.locator(".menu__map").is_visible() == lesson
        assert begin.is_visible() == (not tops), "the way to the first lesson is for who has not opened any"
        assert lesson or on.is_visible() == bool(tops)
        tops.setdefault(lesson, set()).add(
            (above.bounding_box()["height"], page.locator(".menu__parts").bounding_box()["y"])
        )
        page.evaluate("scrollTo(0, 3000)")  # a mere look at a lesson would leave no mark
        page.wait_for_timeout(200)
    assert len(tops[True]) == 1 == len(tops[False]), tops


def test_a_reader_marks_an_exercise_as_done(open_site, site):
    page = open_site(site.url + EXERCISE, viewport={"width": 1280, "height": 720})
    taken_over(page)
    button = page.get_by_role("button", name="Mark as done")
    done = page.locator("a.exercise-done")
    assert done.count() == 0
    button.focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="✓ Done", pressed=True).wait_for()
    assert done.evaluate_all("all => all.map(link => link.pathname)") == [f"/course/{EXERCISE}"]  # in the menu
    page.locator(".exercise a[href$='practice/exercises/'], .exercise a[href$='../exercises/']").first.click()
    page.locator(".exercises__list .exercise-done").wait_for()
    assert page.locator(".exercises__count").inner_text().startswith(f"1 of {len(exercises())} done")
    page.go_back()
    page.get_by_role("button", name="✓ Done").click()
    page.reload()
    button.wait_for()
    assert done.count() == 0 and page.locator("button.exercise__done").get_attribute("aria-pressed") == "false"


def test_the_list_of_exercises_begins_on_the_first_screen_and_names_the_next(open_site, site):
    for size in ({"width": 1280, "height": 800}, {"width": 390, "height": 844}):
        page = open_site(site.url + "practice/exercises/", viewport=size)
        assert page.locator(".exercises__list li").first.bounding_box()["y"] < size["height"] - 60
    page.evaluate("localStorage.setItem('exercises-done', JSON.stringify(['/course/practice/add/']))")
    page.reload()
    expect(page.locator(".exercises .is-next a").first).to_have_text("Scale a vector")
    expect(page.locator("a.exercises__next")).to_have_text("Next for you: Scale a vector")
    page.locator(".exercises__kinds").get_by_text("Find the bug").click()
    kinds = "[...document.querySelectorAll('.exercises li')].filter(e => e.checkVisibility()).map(e => e.dataset.kind)"
    assert set(page.evaluate(kinds)) == {"bug"}


def test_a_number_leads_to_the_script_that_gave_it_and_its_tooltip_stays_beside_the_menu(open_site, site):
    page = open_site(site.url + "gpu/memory/", viewport={"width": 1280, "height": 800})
    taken_over(page)
    claim = page.locator("article .claim").first
    claim.hover()
    tooltip = page.locator(".tooltip")
    tooltip.wait_for()
    assert tooltip.bounding_box()["x"] >= page.locator("article").bounding_box()["x"]
    claim.click()
    file = page.locator("#file-gpu-memory")
    expect(file).to_be_in_viewport()
    expect(file.locator("details").first).to_have_attribute("open", "")


def test_what_was_done_in_one_tab_is_not_lost_in_another(open_site, site):
    first = open_site(site.url + EXERCISE)
    second = first.context.new_page()
    second.goto(site.url + "practice/add/")
    for page in (first, second):
        page.get_by_role("button", name="Mark as done").click()
    second.goto(site.url + "practice/exercises/")
    second.locator(".exercises__list .exercise-done").first.wait_for()
    assert second.locator(".exercises__list .exercise-done").count() == 2


@pytest.mark.parametrize("address", ["programs/softmax/", "fusion/attention/", "programs/vector-add-step-by-step/"])
def test_beside_the_sidebars_no_line_of_code_is_cut(open_site, site, address):
    page = open_site(site.url + address, viewport={"width": 1280, "height": 800})
    cut = "all => all.filter(it => it.scrollWidth > it.clientWidth + 1).map(it => it.textContent)"
    assert page.locator(".md-content pre > code:not(details *)").evaluate_all(cut) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


@pytest.mark.parametrize("address", ["notes/layouts/", "notes/tl-dot/"])  # wide drawings, long lines
def test_nothing_recorded_is_cut_at_the_edge_of_the_paper(open_site, site, address):
    page = open_site(site.url + address, viewport={"width": 672, "height": 900})  # A4 without its margins
    page.emulate_media(media="print")
    cut = page.locator(".recording__view, .recording__view *").evaluate_all("""parts => parts.filter(part => {
        const hides = getComputedStyle(part).overflowX !== "visible" && part.scrollWidth > part.clientWidth + 1;
        return hides || part.getBoundingClientRect().right > innerWidth;
    }).map(part => part.outerHTML.slice(0, 80))""")
    assert not cut


def test_every_lesson_ends_with_what_comes_next(site):
    """A reader who gets there has read it; and the next link leads to the next lesson."""
    order = [re.sub(r"\.\w+$", "/", page) for page in lessons()]
    for address, following in itertools.pairwise(order):
        end = site.text(address).partition('<h2 id="next">')[2]
        first = re.search(r'<a (?:class="onward__next" rel="next" )?href="([^"]+)"', end)
        assert first and urljoin(SITE_URL + address, first[1]) == SITE_URL + following, address


def test_every_lesson_opens_on_a_question_and_a_figure(browser, site):
    """On a desktop's first screen: one question, large, and below it something to look at."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    page, tops = context.new_page(), {}
    for lesson in lessons():
        page.goto(site.url + re.sub(r"\.\w+$", "/", lesson))
        assert page.locator("article .question").count() == 1, lesson
        figure = page.locator("article .question ~ * .recording__view, article .question ~ .recording").first
        tops[lesson] = figure.bounding_box()["y"]
        assert figure.bounding_box()["height"] > 100, lesson
    context.close()
    assert len(tops) == 51 and max(tops.values()) <= 330, {lesson: top for lesson, top in tops.items() if top > 330}


@pytest.mark.parametrize("address", [LESSON, LAB])
def test_a_term_shows_its_entry_on_hover(open_site, site, address):
    page = open_site(site.url + address)
    taken_over(page)
    page.locator("article a[href$='glossary/#kernel']").first.hover()
    preview = page.locator(".tooltip[role=dialog]")
    preview.wait_for()
    entry = re.search(r'<h2 id="kernel">.*?<p>([^<]{20,60})', site.text("reference/glossary/"), re.S)[1]
    assert entry.split("\n")[0] in preview.inner_text()


def test_a_term_shows_its_entry_by_keyboard(open_site, site):
    page = open_site(site.url + LESSON)
    taken_over(page)
    term, preview = page.locator("article a[href$='glossary/#kernel']").first, page.locator(".tooltip[role=dialog]")
    term.focus()
    preview.wait_for()
    assert term.get_attribute("aria-controls") == preview.get_attribute("id")
    assert preview.locator("a").evaluate_all("all => all.every(link => link.pathname.endsWith('/reference/glossary/'))")
    page.keyboard.press("Escape")
    preview.wait_for(state="detached")
    assert term.get_attribute("aria-controls") is None
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")
    preview.wait_for()


@pytest.mark.parametrize("touch", [False, True])
def test_a_claim_says_where_it_is_from(open_site, site, touch):
    page = open_site(site.url + "gpu/schedule/", has_touch=touch)
    taken_over(page)
    claim, tooltip = page.locator("article .claim").first, page.locator(".tooltip[role=tooltip]")
    title = claim.get_attribute("title")
    for _ in range(2):
        (claim.tap if touch else claim.hover)()
        tooltip.wait_for()
        assert "snippets/gpu/schedule.py" in title and title in tooltip.inner_text()
        if touch:  # no finger stays on it
            page.mouse.move(0, 0)
            page.wait_for_timeout(500)
            assert tooltip.is_visible()
        page.locator("h1").tap() if touch else page.mouse.move(0, 0)
        tooltip.wait_for(state="detached")
    assert claim.get_attribute("title") == title


def test_search_finds_the_lesson_by_keyboard(open_site, site):
    page = open_site(site.url)
    taken_over(page)
    page.keyboard.press("/")
    page.keyboard.type("vector add")
    page.locator(f".md-search-result__link[href*='{LESSON}']").first.wait_for()
    for _ in range(10):
        page.keyboard.press("ArrowDown")
        if LESSON in (page.evaluate("document.activeElement.href") or ""):
            break
    page.keyboard.press("Enter")
    page.locator("h1#vector-add-in-triton-line-by-line").wait_for()
    assert page.url.startswith(site.url + LESSON)


def test_the_menu_of_a_phone_opens_by_keyboard_and_is_no_stop_while_it_is_closed(open_site, site):
    page = open_site(site.url + LESSON, viewport={"width": 390, "height": 844})
    taken_over(page)
    in_menu = "document.activeElement.closest('.md-sidebar--primary') !== null"
    for _ in range(25):
        tab(page)
        assert not page.evaluate(in_menu)
    button = page.get_by_role("button", name="Menu")
    link = page.locator(".md-sidebar--primary a", has_text="Masks").first
    for key in ("Enter", "Space"):
        button.focus()
        page.keyboard.press(key)
        page.get_by_role("button", name="Menu", expanded=True).wait_for()
        for _ in range(25):
            tab(page)
            if page.evaluate("document.activeElement.innerText").strip() == link.inner_text().strip():
                break
        assert page.evaluate(in_menu), "Tab reaches the links of the open menu"
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Menu", expanded=False).wait_for()
        assert button.evaluate("button => button === document.activeElement")


@pytest.mark.parametrize("address", ["notes/cublas-kernel/", "practice/cumsum/", "fusion/scan-sort-histogram/", LESSON])
def test_the_menu_of_a_phone_shows_its_page_and_many_rows_that_a_finger_hits(open_site, site, address):
    page = open_site(site.url + address, viewport={"width": 390, "height": 844})
    taken_over(page)
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("button", name="Menu", expanded=True).wait_for()
    here = page.locator(".menu [aria-current=page]").bounding_box()
    above = page.locator(".menu__so-far").bounding_box()
    assert above["y"] >= 0, "and so are the map and the way back"
    assert above["y"] + above["height"] <= here["y"] < 844 - here["height"], "the page's own row is in sight"
    heights = page.locator(".menu :is(summary, .menu__page):visible").evaluate_all(
        "all => all.map(e => e.offsetHeight)"
    )
    assert min(heights) >= 40 and sorted(heights)[len(heights) // 2] <= 44


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("address", ["", LESSON, LAB])
def test_focus_is_seen_from_the_skip_link_on(open_site, site, address, width):
    page = open_site(site.url + address, viewport={"width": width, "height": 800})
    taken_over(page)
    page.keyboard.press("Tab")
    skip = page.locator(".md-skip")
    assert skip.evaluate("link => link === document.activeElement")
    until(page, "getComputedStyle(document.querySelector('.md-skip')).opacity === '1'")
    box = skip.bounding_box()
    assert box["x"] >= 0 and box["y"] >= 0 and box["width"] > 50
    on_top = "([x, y]) => document.elementFromPoint(x, y).closest('.md-skip') !== null"
    assert page.evaluate(on_top, [box["x"] + box["width"] / 2, box["y"] + box["height"] / 2])
    unseen, reached = [], set()
    for _ in range(60):
        tab(page)
        name, seen = page.evaluate("""async () => {
            const look = () => {
                const at = document.activeElement;
                const box = at.getBoundingClientRect();
                const style = getComputedStyle(at), form = at.closest(".md-search__form");
                const seen = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2
                    || form && getComputedStyle(form).boxShadow.includes("2px");
                const there = box.width > 0 && box.bottom > 0 && box.top < innerHeight;
                return [at.outerHTML.slice(0, 150), Boolean(seen && there) || at === document.body];
            };
            for (let frame = 0; frame < 60 && !look()[1]; frame++) await new Promise(requestAnimationFrame);
            return look();
        }""")
        reached.add(name)
        if not seen:
            unseen.append(name)
    assert not unseen
    assert len(reached) > 10
    page.goto(site.url + address)
    taken_over(page)
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    at = "[document.activeElement.localName, document.activeElement.closest('article') !== null, scrollY]"
    assert page.evaluate(at) == ["h1", True, 0], "the skip link leads to the heading"
    page.keyboard.press("Tab")
    assert page.evaluate(at)[1], "and the next stop is in the article"


def test_wrong_address_gets_a_whole_page_at_any_depth(site):
    """Its addresses begin at the root of the host: relative ones would miss on ``/course/a/b/c``."""
    page = built(site, "404.html")
    links = [has.get("href") or has.get("src") for _, has in page.elements if has.get("rel") != "canonical"]
    links = [link for link in links if link and not link.startswith(("#", "http"))]
    prefix = "/" + site.url.split("/", 3)[3]
    assert len(links) > 10 and all(link.startswith(prefix) for link in links), links


# Labs


def test_lab_can_be_downloaded(open_site, site):
    page = open_site(site.url + LAB)
    with page.expect_download() as download:
        page.get_by_role("link", name="Download this notebook").click()
    assert Path(download.value.path()).read_bytes() == SOURCES[LAB].read_bytes()


# The switch between GPUs

NAMED = """gpu => {
    const all = selector => [...document.querySelectorAll(selector)];
    const names = Object.fromEntries(all(".gpu-switch button").map(each => [each.dataset.gpu, each.textContent]));
    const others = Object.keys(names).filter(each => each !== gpu).map(each => names[each]);
    const says = text => !text.includes(names[gpu]) && others.some(other => text.includes(other));
    const claims = all("[data-by-gpu]").filter(each => gpu in JSON.parse(each.dataset.byGpu));
    const figures = all(".by-gpu").filter(each => gpu in each.drawn);
    const labels = figure => [...figure.querySelectorAll("[title], [aria-label], title, desc")]
        .map(each => each.title || each.ariaLabel || each.textContent);
    return [
        claims.map(each => each.title),
        figures.flatMap(each => [...labels(each), each.querySelector(".recording__repeat").textContent]),
    ].flat().filter(says);
}"""


@pytest.fixture
def switched(open_site, site):
    """The pages with a switch, each after another GPU was chosen, and that GPU."""

    def pages():
        page = open_site(site.url)
        for address in site.pages:
            if 'class="gpu-switch"' in site.text(address):
                page.goto(site.url + address, wait_until="domcontentloaded")
                for button in page.locator(".gpu-switch button").all()[1:]:
                    button.click()
                    yield address, page, button.get_attribute("data-gpu")

    return pages()


def test_what_is_shown_names_the_gpu_that_was_chosen(switched):
    count, wrong = 0, {}
    for address, page, gpu in switched:
        count += 1
        if names := page.evaluate(NAMED, gpu):
            wrong[address] = names
        marked = ".recording--elsewhere[data-device='h200']"  # what nobody ran on this GPU
        words = "all => all.map(figure => getComputedStyle(figure, '::before').content)"
        said = page.locator(marked).evaluate_all(words)
        assert said == ['"h200 only"'] * page.locator("figure.recording[data-device='h200']").count()
    assert count > 10 and not wrong
    page.locator("[data-by-gpu]").first.evaluate("claim => claim.title = '5: measured on an NVIDIA H200'")
    assert page.evaluate(NAMED, gpu) == ["5: measured on an NVIDIA H200"], "a planted one is seen"
