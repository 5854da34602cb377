# SPDX-License-Identifier: Apache-2.0
"""``python -m render check --built site``: what a generator lost on its way, and links that lead nowhere.

The site here is made without a generator; what MkDocs makes is judged in tests/site.
"""

import posixpath
import re

import pytest

from render import __main__ as command
from render.config import address, nav
from render.gates import built, check
from render.mkdocs import files
from tests.render.conftest import LESSON

LESSON_PAGE, LAB_PAGE, HOME_PAGE = "programs/toy/index.html", "programs/a-lab/index.html", "index.html"


@pytest.fixture
def site(course):
    """The pages of the course as any generator would lay them out; nothing is wrong."""
    course.page(f"{LESSON}\n\n```recording\nview: ledger\n```\n\n`{{{{ cpu: no claim }}}}`\n")
    return build(course)


def build(course):
    html, faults = check.convert(nav())
    assert faults == []
    for page in nav():
        at = address(page)

        def there(link, at=at, page=page):
            target = posixpath.normpath(posixpath.join(posixpath.dirname(page), link[1]))
            return f'href="{"../" * at.count("/")}{address(target)}{link[2] or ""}"'

        text = re.sub(r'href="([^":#]+\.(?:md|ipynb))(#[^"]*)?"', there, html[page])
        text = re.sub('<div id="cell-2" class="jp-Cell">', '<div id="cell-2"><div class="jp-InputArea"></div>', text)
        course.write(f"site/{at}index.html", f"<html><body>{text}</body></html>")
    files.on_post_build({"site_dir": course.root / "site"})
    return course.root / "site"


def change(site, page, old, new=""):
    text = (site / page).read_text("utf-8")
    assert old in text
    (site / page).write_text(text.replace(old, new, 1), "utf-8")


def test_all_is_well(site, capsys):
    assert built.problems(site) == []
    assert command.main(["check", "--built", str(site)]) == 0
    assert "Everything that the pages ask for was built" in capsys.readouterr().out


def test_what_is_wrong_is_said_and_fails(site, capsys):
    (site / LAB_PAGE).unlink()
    assert command.main(["check", "--built", str(site)]) == 1
    assert capsys.readouterr().out.endswith(" problems.\n")


def test_no_site_at_all(course):
    assert len(built.problems(course.root / "nothing")) == len(nav())


# Nothing is lost


@pytest.mark.parametrize("page", [LESSON_PAGE, LAB_PAGE, HOME_PAGE])
def test_a_lost_page(site, page):
    (site / page).unlink()
    source = {LESSON_PAGE: "programs/toy.md", LAB_PAGE: "programs/a-lab.ipynb", HOME_PAGE: "index.md"}[page]
    assert any(fault.startswith(f"{source}: the menu names it, and it was not built") for fault in built.problems(site))


@pytest.mark.parametrize(
    ("page", "lost", "message"),
    [
        (LESSON_PAGE, '<figure class="recording"', "programs/toy.md: 3 recordings, 2 of them on the built page"),
        (LESSON_PAGE, 'class="recording recording--file"', "programs/toy.md: 3 recordings, 2 of them"),
        (LESSON_PAGE, 'class="ledger"', "programs/toy.md: 3 recordings, 2 of them"),
        (LESSON_PAGE, '<data class="claim"', "programs/toy.md: 1 claims, 0 of them on the built page"),
        (LAB_PAGE, 'class="jp-InputArea"', "programs/a-lab.ipynb: 1 cells of code, 0 of them on the built page"),
    ],
)
def test_a_lost_part(site, page, lost, message):
    change(site, page, lost, "<p")
    assert [fault for fault in built.problems(site) if message in fault]


def test_a_ledger_of_many_chapters_makes_up_for_no_lost_figure(site):
    change(site, LESSON_PAGE, 'class="ledger"', 'class="ledger"></details><details class="ledger"')
    change(site, LESSON_PAGE, '<figure class="recording"', "<p")
    assert any("3 recordings, 2 of them" in fault for fault in built.problems(site))


@pytest.mark.parametrize(
    ("page", "old", "new"),
    [
        (LESSON_PAGE, "<figure", "<!-- <figure"),
        (LESSON_PAGE, "<figure", '<figure class="recording"></figure><figure'),
        (LESSON_PAGE, "<data", '<data class="claim">9</data><data'),
        (LAB_PAGE, 'class="jp-InputArea"', 'title=".jp-InputArea"'),
    ],
)
def test_a_part_that_is_hidden_or_not_from_the_page(site, page, old, new):
    change(site, page, old, new)
    assert any("of them on the built page" in fault for fault in built.problems(site))


def test_two_places_of_one_name(site):
    change(site, LESSON_PAGE, "</body>", '<p id="it-runs"></p></body>')
    assert built.problems(site) == [f"{LESSON_PAGE}: two places are called it-runs"]


@pytest.mark.parametrize(
    "html", ['<script src="https://a.test/x.js">', "<img src=//a.test/x.png>", "<iframe src=https://a.test>"]
)
def test_a_page_that_asks_another_host(site, html):
    change(site, LESSON_PAGE, "</body>", f"{html}</body>")
    (fault,) = (fault for fault in built.problems(site) if "nowhere" not in fault)
    assert fault.startswith(f"{LESSON_PAGE}:") and fault.endswith(" is of another host")


def test_a_generator_that_knows_no_fences_and_no_claims(course, site):
    (site / LESSON_PAGE).write_text(f"<html><pre>{LESSON}</pre></html>")
    faults = built.problems(site)
    assert any("recordings, 0 of them" in fault for fault in faults) and any("claims, 0" in fault for fault in faults)


# Links

DEAD = [
    ('<a href="../gone/">x</a>', "the link to ../gone/ leads nowhere"),
    ('<a href="#gone">x</a>', "#gone names a place that is not there"),
    ('<a href="../../#gone">x</a>', "../../#gone names a place that is not there"),
    ('<a href="../toy/#toy_kernel">x</a>', "names a place that is not there"),
    ('<a href="/gone/">x</a>', "the link to /gone/ leads nowhere"),
    ('<a href="../../../../etc/passwd">x</a>', "leads nowhere"),
    ('<a href="toy.md">x</a>', "the link to toy.md leads nowhere"),
    ('<img src="gone.png" alt="x">', "the link to gone.png leads nowhere"),
    ('<script src="gone.js"></script>', "the link to gone.js leads nowhere"),
    ('<link rel="stylesheet" href="gone.css">', "the link to gone.css leads nowhere"),
    ('<video><source src="gone.mp4"></video>', "the link to gone.mp4 leads nowhere"),
    ('<a href="javascript:alert(1)">x</a>', "'javascript:alert(1)' is no address"),
    ('<a href=" Java&#10;Script:alert(1)">x</a>', "is no address"),
    ('<a href="vbscript:x">x</a>', "'vbscript:x' is no address"),
    ('<a href="file:///etc/passwd">x</a>', "is no address"),
]


@pytest.mark.parametrize(("html", "message"), DEAD)
def test_a_dead_link(site, html, message):
    change(site, LESSON_PAGE, "</body>", f"<div>{html}</div></body>")
    assert [fault for fault in built.problems(site) if fault.startswith(LESSON_PAGE) and message in fault]


def test_links_that_lead_somewhere(site):
    (site / "a b.png").write_bytes(b"")
    (site / "404.html").write_text('<a href="/programs/toy/">x</a><a href="#x" id="x">x</a>')
    links = ["a%20b.png", "programs/toy/#it-runs", "programs/toy/?h=lane", "#", "https://a.test/x#y", "//a.test"]
    links += ["mailto:a@b.c", "/programs/toy/#it-runs", "data:text/plain,x", "#in-a-picture", "#__tabbed_1_2"]
    links += ["#named", "."]
    more = '<svg><g id="in-a-picture"></g></svg><a name="named"></a><p id="gr%C3%B6%C3%9Fe"></p>'
    change(site, HOME_PAGE, "</body>", "".join(f'<a href="{link}">x</a>' for link in links) + f"{more}</body>")
    assert built.problems(site) == []


def test_a_dead_link_in_raw_html_of_a_page(course):
    course.page('# Home\n\n<p>See <a href="programs/tow/">it</a>.</p>\n', "index.md")
    faults = built.problems(build(course))
    assert faults == [f"{HOME_PAGE}: the link to programs/tow/ leads nowhere"]
