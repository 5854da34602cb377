# SPDX-License-Identifier: Apache-2.0
"""The Content-Security-Policy of every page: what a browser refuses to load and to run. That pages work under it, all
tests here show: a console that reports anything fails them."""

import re

import pytest
from bs4 import BeautifulSoup

PLANTED = {  # what a recording, or a page's prose, might bring: (HTML, the directive that stops it)
    "script": ("<script>window.ran = 1</script>", "script-src-elem"),
    "handler": ("<img src=assets/logo.svg onload='window.ran = 1'>", "script-src-attr"),
    "handler in a drawing": ("<svg onload='window.ran = 1'></svg>", "script-src-attr"),
    "picture": ("<img src=https://other.test/x.png>", "img-src"),
    "style sheet": ("<link rel=stylesheet href=//other.test/x.css>", "style-src-elem"),
    "style": ("<style>@import 'https://other.test/x.css'</style>", "style-src-elem"),
    "background": ("<p style='background: url(https://other.test/x.png)'>x</p>", "img-src"),
    "font": ("<style>@font-face { font-family: x; src: url(//other.test/x) } p { font-family: x }</style>", "font-src"),
    "frame": ("<iframe src=https://other.test></iframe>", "frame-src"),
    "object": ("<object data=https://other.test/x></object>", "object-src"),
    "video": ("<video src=https://other.test/x.mp4></video>", "media-src"),
    "script of another host": ("<script src=https://other.test/x.js></script>", "script-src-elem"),
    "base": ("<base href=https://other.test/>", "base-uri"),
}
PLANT = """([html, directive]) => new Promise(done => {
    addEventListener("securitypolicyviolation", e => e.effectiveDirective === directive && done("refused"));
    setTimeout(() => done("not refused"), 3000);
    document.body.append(document.createRange().createContextualFragment(html));  // by which scripts run, too
})"""


def test_every_page_says_first_what_it_may_load(site):
    files = list(site.folder.rglob("*.html"))
    for file in files:
        head = BeautifulSoup(file.read_text("utf-8").partition("</head>")[0], "html.parser").head
        first, second, *_ = head.find_all(True)
        assert first.get("charset") == "utf-8", file
        assert second["http-equiv"] == "Content-Security-Policy", file
        allowed = dict(part.strip().split(" ", 1) for part in second["content"].split(";"))
        assert allowed["default-src"] == "'none'", file
        hosts = re.sub(r"'sha256-[^']+'", "", second["content"])  # a digest may have what looks like one
        scripts = allowed.get("script-src", "")
        runs = '<div class="run"' in file.read_text("utf-8")
        assert ("'wasm-unsafe-eval'" in scripts, "blob:" in allowed.get("worker-src", "")) == (runs, runs), file
        assert "unsafe" not in scripts.replace("wasm-unsafe-eval", "") and "//" not in hosts, file
    assert len(files) > len(site.pages), "those of whole snippets, too"


@pytest.fixture(scope="module")
def planted_in(browser, site):
    context = browser.new_context()
    asked = []
    context.on("request", lambda request: asked.append(request))
    page = context.new_page()
    yield page, asked
    context.close()


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_neither_runs_nor_asks_another_host(planted_in, site, name):
    page, asked = planted_in
    page.goto(site.url, wait_until="load")
    asked.clear()
    assert page.evaluate(PLANT, PLANTED[name]) == "refused"
    assert page.evaluate("window.ran") is None
    assert page.evaluate("fetch('https://other.test').then(() => 'asked', () => 'refused')") == "refused"
    assert {request.failure for request in asked if "other.test" in request.url} <= {"csp"}
