# SPDX-License-Identifier: Apache-2.0
"""A reader's download from a lesson runs in an empty folder, without a checkout and without a GPU."""

import ast
import io
import json
import os
import re
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from recorder.project import Snippet, find
from render.config import address
from render.lessons import lessons
from tests import interpreter
from tests.chromium import taken_over, until
from tests.limits import HANGS
from tests.processes import PRELOADED

ROOT = Path(__file__).resolve().parents[2]
LESSONS = [page for page in lessons() if page.endswith(".md")]
TAKE_A_GPU = ("pytorch/", "tools/find-", "below/")  # chapters about what only a GPU and torch.compile show
OF_A_CHECKOUT = "pytorch/package.md"  # its file builds the package that lies there
SHOWN = "programs/vector-add.md"  # runs, though a replay does so, too: one file in an empty folder
INSTALLED = {"torch", "triton", "numpy", *sys.stdlib_module_names} - {"importlib", "runpy", "subprocess", "inspect"}
FINDS_FILES = {"__file__", "__import__", "open", "Path", "cwd", "getcwd", "listdir", "exec", "argv"}
# Imports torch, with what compiles its graphs, once, and spares the interpreter work that changes nothing: tests of
# snippets run the same files without. Then each download runs in a fork of its own, in its own folder, where no
# checkout can be found; or its modules are imported, if a replay runs the rest.
BEFORE = f"""
import {", ".join(PRELOADED["interpreted"])}
{Path(interpreter.__file__).read_text("utf-8")}
spare_work()
"""
EACH = """
import importlib, json, os, runpy, sys, tempfile, traceback
root, jobs = sys.argv[1], json.loads(sys.argv[2])
sys.meta_path = [finder for finder in sys.meta_path if "editable" not in str(finder)]
ours = lambda path: not path or "editable" in path or (path + "/").startswith(root + "/")
sys.path = [path for path in sys.path if "site-packages" in path or not ours(path)]
for page, (folder, name, modules) in jobs.items():
    sys.stdout.flush()
    if not (child := os.fork()):
        os.chdir(folder)
        sys.path.insert(0, folder)
        sys.argv, status, results = [name], 0, os.dup(1)
        printed = tempfile.TemporaryFile("w+")  # also what processes that it starts print
        os.dup2(printed.fileno(), 1)
        try:
            if modules:
                print(*map(importlib.import_module, modules))
            else:
                (runpy.run_path if name.endswith(".py") else runpy.run_module)(name, run_name="__main__")
        except BaseException as error:
            status = 1
            traceback.print_exc(file=sys.stdout)
        sys.stdout.flush()
        printed.seek(0)
        os.write(results, (json.dumps([page, status, printed.read()[-2000:]]) + chr(10)).encode())
        os._exit(status)
    os.waitpid(child, 0)
"""
RUN = BEFORE + EACH


def offered(site, page: str) -> tuple[str, bytes, str]:
    """Name and content of what a lesson offers at its end, and what the page says beside the whole file."""
    html = BeautifulSoup(site.text(address(page)), "html.parser")
    link = html.select_one(".page-origin__code a[download]")
    whole = html.select_one(f".recording--file:has(a[href='{link['href']}'])")
    data = (site.folder / address(page) / link["href"]).resolve().read_bytes()
    return link["download"], data, " ".join(whole.select_one("details").get_text().split())


def replay_runs_it(snippet: Snippet, files: dict[str, bytes]) -> bool:
    """Return whether ``make replay`` runs these very files, and what they do beside importing needs no other.

    They then neither look where they lie nor read another file, and import each other before anything is called.
    """
    replayed = snippet.settings.replay and "cpu" in snippet.settings.devices
    return replayed and all(
        data == (ROOT / name).read_bytes() and needs_only_imports(data) for name, data in files.items()
    )


def needs_only_imports(data: bytes) -> bool:
    tree = ast.parse(data)
    nodes = list(ast.walk(tree))
    later = {module for node in nodes if node not in tree.body for module in imports(node)}
    words = {node.id for node in nodes if isinstance(node, ast.Name)}
    words |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return later <= INSTALLED and not words & FINDS_FILES


def imports(node: ast.AST) -> set[str]:
    """Return the packages that a statement imports, ``.`` for its own."""
    if isinstance(node, ast.ImportFrom):
        return {"." if node.level else node.module.partition(".")[0]}
    return {alias.name.partition(".")[0] for alias in node.names} if isinstance(node, ast.Import) else set()


@pytest.mark.skipif(find_spec("triton") is None, reason="snippets run where Triton is installed")
@pytest.mark.long
def test_what_lessons_offer_runs_by_itself(site, tmp_path):
    """All in one test, since torch is slow to import. Without what takes a GPU; what a replay runs is but imported."""
    jobs = {}
    for number, page in enumerate(LESSONS):
        name, data, text = offered(site, page)
        folder = tmp_path / str(number)
        folder.mkdir()
        snippet = find(re.search(r"Read (\S+)", text)[1])
        if name.endswith(".zip"):
            zipfile.ZipFile(io.BytesIO(data)).extractall(folder)
            name = re.search(r"python -m ([\w.]*\w)", text)[1]
            files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.py")}
            modules = [file.removesuffix(".py").replace("/", ".") for file in files]
        else:
            (folder / name).write_bytes(data)
            files, modules = {snippet.path.relative_to(ROOT).as_posix(): data}, [name.removesuffix(".py")]
        if "cpu" in snippet.settings.devices and page != OF_A_CHECKOUT:
            jobs[page] = str(folder), name, page != SHOWN and replay_runs_it(snippet, files) and modules
    kernels = [page for page in LESSONS if not page.startswith(TAKE_A_GPU)]
    assert SHOWN in jobs and len(jobs.keys() & {*kernels}) > len(kernels) - 4
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", RUN, str(ROOT), json.dumps(jobs)]
    done = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0, done.stderr
    results = {page: (status, printed) for page, status, printed in map(json.loads, done.stdout.splitlines())}
    assert results.keys() == jobs.keys()
    assert not {page: printed for page, (status, printed) in results.items() if status or not printed.strip()}


@pytest.mark.parametrize("page", lessons())
def test_every_lesson_offers_its_code(site, page):
    if page.endswith(".md"):
        name, data, _ = offered(site, page)
        assert re.fullmatch(r"\w+\.(py|zip)", name) and len(data) > 500
    else:
        assert 'class="lab-actions"><a href="' in site.text(address(page))


def test_the_link_under_the_title_leads_to_the_file(open_site, site):
    page = open_site(f"{site.url}matmul/grouped/")
    taken_over(page)
    page.get_by_role("link", name="run it").click()
    page.wait_for_url("**/matmul/grouped/#run-it")
    with page.expect_download() as download:
        page.locator("#run-it").get_by_role("link", name="Download grouped.py").click()
    assert download.value.suggested_filename == "grouped.py"
    assert page.url.partition("#")[0].endswith("/matmul/grouped/")  # and does not go there


def test_where_a_lesson_runs_in_the_page_the_link_leads_there(site):
    html = site.text("programs/vector-add/")
    assert '<a href="#run">run it</a>' in html and html.count('<div class="run" id="run"') == 1


def test_a_whole_file_comes_when_it_is_unfolded(open_site, site):
    """Not before: most of a lesson's bytes would be its files."""
    page = open_site(f"{site.url}fusion/autograd/", permissions=["clipboard-read", "clipboard-write"])
    taken_over(page)
    whole, source = page.locator("#file-fusion-autograd"), (ROOT / "snippets/fusion/autograd.py").read_text("utf-8")
    link = whole.locator("details a", has_text="Read snippets/fusion/autograd.py")
    assert link.count() == 1 and whole.locator("pre").count() == 0
    page.locator(".behind > summary").click()
    assert whole.locator("pre").count() == 0, "nor when the fold opens in which the files are"
    whole.locator("summary").click()
    whole.locator("pre").wait_for()
    assert whole.locator("code").last.text_content() == source
    assert link.count() == 0 and whole.locator("code .k").first.is_visible()
    whole.locator("pre").hover()
    whole.get_by_title("Copy to clipboard").click()
    until(page, "async text => await navigator.clipboard.readText() === text.trimEnd()", arg=source)


def test_who_follows_a_link_to_a_file_can_read_it(open_site, site):
    page = open_site(f"{site.url}programs/masks/#file-programs-masks")
    page.locator("#file-programs-masks pre").wait_for()
    page.evaluate("location.hash = document.querySelectorAll('.recording--file')[1].id")
    page.locator(".recording--file").nth(1).locator("pre").wait_for()
    assert page.locator(".recording--file details[open]").count() == 2


def test_a_whole_file_that_does_not_come_can_still_be_read(browser, site):
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{site.url}fusion/autograd/")
    taken_over(page)
    whole = page.locator("#file-fusion-autograd")
    page.route("**/snippets/**", lambda route: route.fulfill(status=503, body="<div class='highlight'>away</div>"))
    page.locator(".behind > summary").click()
    with page.expect_response("**/snippets/**"):
        whole.locator("summary").click()
    page.unroute("**/snippets/**")
    whole.get_by_role("link", name="Read snippets/fusion/autograd.py").click()
    page.get_by_text("def silu_mul").first.wait_for()
    assert page.url.endswith("/snippets/fusion/autograd.html")
    context.close()
