# SPDX-License-Identifier: Apache-2.0
"""``make site`` in a small project: MkDocs builds it, and what is wrong fails, also where MkDocs says nothing.

The site whole is in tests/site.
"""

import json
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from importlib.util import find_spec

import pytest
import yaml
from bs4 import BeautifulSoup
from msgspec.structs import replace
from PIL import Image

from tests.limits import HANGS
from tests.processes import run_python
from tests.render.conftest import LESSON, NAV, cells
from tests.toy import ROOT, TOY, made

PAGE, LAB = "docs/en/programs/toy.md", "docs/en/programs/a-lab.ipynb"
RECORDED = "recordings/programs/toy"
SILENT = "import logging\n\nlogging.disable()\n"  # so MkDocs counts no warnings, which is all that --strict does


class Small:
    """The course with all that MkDocs wants of a project."""

    def __init__(self, course):
        self.course, self.root, self.write = course, course.root, course.write
        shutil.rmtree(self.root / "theme")
        # Faces, and Python for browsers, take longer to fetch than all else of a small site.
        for folder in ("browser", "figures", "render", "theme", ".cache/browser", ".cache/faces"):
            (ROOT / folder).mkdir(parents=True, exist_ok=True)
            (self.root / folder).parent.mkdir(exist_ok=True)
            (self.root / folder).symlink_to(ROOT / folder)
        shutil.copytree(ROOT / "template", self.root / "template", dirs_exist_ok=True)

    def edit(self, path: str, old: str, new: str) -> None:
        text = (self.root / path).read_text("utf-8")
        assert old in text, f"{path} has no {old!r}"
        self.write(path, text.replace(old, new, 1))

    def hook(self, name: str, code: str) -> None:
        self.write(name, code)
        self.edit("mkdocs.yml", "hooks:\n", f"hooks:\n  - {name}\n")

    def environment(self, **more: str) -> dict[str, str]:
        return self.course.environment() | {"NO_MKDOCS_2_WARNING": "1", "COLUMNS": "200"} | more

    def python(self, *arguments: str, **more: str) -> tuple[int, str]:
        """Exit status and output."""
        done = run_python(*arguments, env=self.environment(**more), cwd=self.root)
        return done.returncode, done.stdout + done.stderr

    def make(self) -> tuple[str, str]:
        """The command of ``make site`` that fails, and what it says; or nothing and what all said."""
        printed = ""
        for command in commands():
            status, output = self.python("-m", *command.removeprefix("python -m ").split())
            assert "Traceback" not in output, output
            if status:
                return command, output
            printed += output
        return "", printed

    def html(self, address: str) -> str:
        return (self.root / "site" / address / "index.html").read_text("utf-8")


def commands() -> list[str]:
    """Return the commands that ``make site`` runs, all of them Python."""
    if not shutil.which("make"):
        pytest.skip("make is not installed")
    call = ["make", "-n", "-o", ".venv/site.done", "-o", ".venv/all.done", "site", "BIN=BIN"]
    lines = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    lines = [line for line in lines if line.startswith("BIN/")]
    assert len(lines) == 3
    return [f"python -m {line.removeprefix('BIN/').removeprefix('python -m ')}" for line in lines]


@pytest.fixture
def small(course):
    return Small(course)


CHECK, BUILD, BUILT = "python -m render check", "python -m mkdocs build --strict", "python -m render check --built site"


def test_all_is_well(small):
    assert commands() == [CHECK, BUILD, BUILT]
    command, printed = small.make()
    assert command == "" and "WARNING" not in printed, printed
    page = small.html("programs/toy/")
    assert 'class="recording__notice' not in page and '<data class="claim"' in page and "sum: 1,024" in page
    documents = json.loads((small.root / "site/search/documents.json").read_text("utf-8"))
    prose = {entry["location"]: entry["text"] for entry in documents}
    assert "elements in a" in "".join(prose.values()), prose
    assert not any("toy_kernel" in text for text in prose.values())
    assert "programs/toy/#it-runs" in prose and "programs/toy/#the-whole-file" not in prose
    assert "jp-OutputArea" in small.html("programs/a-lab/") and "&lt;b&gt;&amp; 7" in small.html("programs/a-lab/")


def test_a_shared_link_shows_a_card(small):
    build = lambda **known: small.python(*BUILD.split()[1:], **known)
    status, output = build(SITE_URL="https://example.org/course/")
    assert status == 0, output
    head = BeautifulSoup(small.html("programs/toy/"), "html.parser").head
    graph = {meta["property"]: meta["content"] for meta in head.find_all("meta", property=True)}
    assert graph["og:image"] == "https://example.org/course/assets/cards/programs-toy.png"
    assert graph["og:url"] == "https://example.org/course/programs/toy/"
    assert graph["og:title"] and graph["og:description"]
    cards = {path.name for path in (small.root / "site/assets/cards").iterdir()}
    assert {"home.png", "programs-toy.png", "programs-a-lab.png"} <= cards
    with Image.open(small.root / "site/assets/cards/programs-toy.png") as card:
        colors = {color for _, color in card.getcolors(2**20)}
        assert card.size == (1200, 630)
    assert {(0x00, 0x72, 0xB2), (0x5F, 0x6B, 0x73), (0xFF, 0xFF, 0xFF)} <= colors  # of programs 0 and 7, and paper
    build(SITE_URL="")
    assert "og:title" in small.html("programs/toy/") and "og:image" not in small.html("programs/toy/")


# With MkDocs silenced

FAULTS = {
    "a stale recording": (lambda small: small.write("snippets/programs/toy.py", TOY + "x = 1\n"), CHECK, "stale"),
    "a missing recording": (lambda small: (small.root / RECORDED / "cpu.json").unlink(), CHECK, "missing"),
    "an edited recording": (lambda small: small.edit(f"{RECORDED}/h200.json", "1,024", "1,025"), CHECK, "edited"),
    "an orphaned recording": (lambda small: small.write("recordings/programs/gone/cpu.json", "{}"), CHECK, "orphaned"),
    "a wrong claim": (lambda small: small.edit(PAGE, "== 3", "== 4"), CHECK, "toy.md:3: the sentence relies on"),
    "a lost lab": (lambda small: (small.root / LAB).unlink(), CHECK, "a-lab.ipynb: missing"),
    "a lab that no plugin shows": (
        lambda small: small.edit("mkdocs.yml", 'include: ["*.ipynb"]', 'include: ["*.none"]'),
        BUILT,
        "programs/a-lab.ipynb: the menu names it, and it was not built",
    ),
    "a lost figure": (
        lambda small: small.hook("lost.py", REPLACE.format('<figure class="recording"', "<p")), BUILT, "1 of them"
    ),
    "a lost claim": (
        lambda small: small.hook("lost.py", REPLACE.format('<data class="claim"', "<i")), BUILT, "0 of them"
    ),
    "a dead link": (
        lambda small: small.write("docs/en/index.md", "# Home\n\n[x](gone.md)\n"), BUILT, "gone.md leads nowhere"
    ),
    "a dead link in raw HTML": (
        lambda small: small.write("docs/en/index.md", "# Home\n\n<a href='gone/'>x</a>\n"), BUILT, "gone/ leads nowhere"
    ),
}  # fmt: skip
REPLACE = "def on_page_content(html, **_):\n    return html.replace('{}', '{}')\n"


@pytest.mark.parametrize(("plant", "fails", "message"), FAULTS.values(), ids=FAULTS)
def test_a_fault_fails_also_where_mkdocs_says_nothing(small, plant, fails, message):
    small.hook("silent.py", SILENT)
    plant(small)
    command, output = small.make()
    assert command == fails, output
    assert message in output


@pytest.mark.parametrize("fault", ["a stale recording", "an edited recording", "a wrong claim"])
def test_what_a_page_shows_wrongly_stops_mkdocs_by_itself(small, fault):
    """Also without ``--strict``, and with nothing that counts warnings."""
    small.hook("silent.py", SILENT)
    FAULTS[fault][0](small)
    status, output = small.python("-m", "mkdocs", "build", "--quiet")
    assert status == 1 and "Traceback" not in output, output


@pytest.mark.parametrize("target", ["gone.md", "toy.md#gone", "#gone", "/programs/toy/"])
def test_mkdocs_itself_names_a_dead_link_in_a_page_or_a_lab(small, target):
    text = f"# A lab\n\n[x]({target})"
    first, *others = cells()
    small.course.lab(first | {"source": text}, *others)
    small.write(PAGE, f"{LESSON}\n\nSee [this]({target}).\n")
    status, output = small.python("-m", "mkdocs", "build", "--strict")
    assert status == 1 and output.count(target) >= (1 if target == "toy.md#gone" else 2), output


# Served


@pytest.mark.skipif(find_spec("triton") is None, reason="previews run where Triton is installed")
def test_who_serves_sees_a_preview_of_what_is_stale_and_all_else_is_refused(small):
    small.write("snippets/programs/toy.py", "print('sum: 2,048')\n")
    small.write("snippets/programs/recorder.toml", "")  # it launches nothing any more
    small.write(PAGE, LESSON.replace('```python\n--8<-- "programs/toy.py:kernel"\n```', "").replace("h200", "cpu"))
    before = small.course.files()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    call = [sys.executable, "-m", "mkdocs", "serve", "--dev-addr", f"127.0.0.1:{port}", "--no-livereload"]
    with subprocess.Popen(call, cwd=small.root, env=small.environment(), stderr=subprocess.PIPE, text=True) as served:
        try:
            page = wait_for(f"http://127.0.0.1:{port}/programs/toy/", served)
        finally:
            served.terminate()
    assert "recording__notice--preview" in page and "sum: 2,048" in page and "sum: 1,024" not in page
    assert "claim--stale" in page
    assert small.course.files() == before
    small.edit(PAGE, "== 3", "== 4")
    done = subprocess.run(call, cwd=small.root, env=small.environment(), capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 1 and "toy.md:3: the sentence relies on" in done.stderr and "Traceback" not in done.stderr


def wait_for(url: str, process: subprocess.Popen) -> str:
    end = time.monotonic() + HANGS
    while process.poll() is None and time.monotonic() < end:
        try:
            with urllib.request.urlopen(url) as answer:
                return answer.read().decode()
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)
    raise AssertionError(process.stderr.read())


# The repository


def test_links_to_the_repository_where_it_is_known(small):
    repository = "https://github.com/example/triton-by-example"
    known = {"REPO_URL": repository, "EDIT_URI": "edit/main/docs/en/", "SITE_URL": "https://example.org/"}
    status, printed = small.python("-m", "mkdocs", "build", "--strict", **known)
    assert status == 0, printed
    sources = {name: f"docs/en/{name}" for name in NAV} | {"programs/a-lab.ipynb": "snippets/programs/labs/a_lab.py"}
    for name, source in sources.items():
        address = re.sub(r"(^|/)index/$", r"\1", f"{name.rpartition('.')[0]}/")
        page = BeautifulSoup(small.html(address), "html.parser")
        assert page.find("a", rel="edit")["href"] == f"{repository}/edit/main/{source}"
        correct, *reports = [link["href"] for link in page.select(".page-foot a")]
        assert correct == f"{repository}/edit/main/{source}"
        for report, form in zip(reports, ("wrong-number", "unclear-page"), strict=True):
            assert report == f"{repository}/issues/new?template={form}.yml&page=https%3A//example.org/{address}"
            fields = yaml.safe_load((ROOT / f".github/ISSUE_TEMPLATE/{form}.yml").read_text("utf-8"))["body"]
            assert fields[0]["id"] == "page"  # which the address fills in
        colab = [link["href"] for link in page.find_all("a") if link.get_text(strip=True) == "Open in Colab"]
        host = "https://colab.research.google.com/github/example/triton-by-example/blob/main/docs/en/"
        assert colab == ([host + name] if name.endswith(".ipynb") else [])
        assert page.select(f"a.md-source[href^='{repository}']")
        assert page.find("link", rel="canonical")["href"] == f"https://example.org/{address}"


@pytest.mark.parametrize("text", ["</title><script>alert(1)</script>", "<img src=x onerror=alert(1)>"])
def test_a_claim_in_a_heading_is_text_in_the_menu_too(small, text):
    """Titles go on to the menu, the list of contents and the window; MkDocs takes them for HTML."""
    small.course.record("cpu", provenance=replace(made("cpu").provenance, torch=text))
    small.write(PAGE, LESSON.replace("# Toy", "# {{ cpu: made.torch }}").replace("It runs", "So {{ cpu: made.torch }}"))
    status, printed = small.python("-m", "mkdocs", "build")
    assert text not in "".join(file.read_text("utf-8") for file in (small.root / "site").rglob("*.html"))
    assert status == 1 and "toy.md:1: a heading" in printed, printed
