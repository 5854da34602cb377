# SPDX-License-Identifier: Apache-2.0
"""Every Python fence that a page shows is executed by pytest-markdown-docs, or shows a snippet that has its own tests.

pytest-markdown-docs reads pages with markdown-it, the site is built with Python-Markdown. Where the two disagree, or
where a page turns the execution off, code would be shown that never ran: that is what the tests here refuse.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from unittest import mock

import pytest

from render import config

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "en").rglob("*.md"))

# All names by which Pygments colors Python that a reader could run; pytest-markdown-docs knows three of them.
PYTHON = {"py", "python", "python3", "py3", "pyi", "pycon", "python-console", "python2", "py2", "ipython", "ipython3"}
PYTHON |= {"sage", "numpy", "pyodide", "starlark"}
PLAIN = {"", "text", "txt", "plain", "none", "output"}
FORBIDDEN = {
    "jit": "defines a kernel; kernels live in snippets/, and pages show them by --8<--",
    "exec": "runs code from a string; write it as code, or as a snippet",
    "eval": "runs code from a string; write it as code, or as a snippet",
    "pytest": "may skip itself; a fence is ordinary Python",
}


# Two readings of a page


@lru_cache(maxsize=1)
def site_extensions():
    """The extensions of mkdocs.yml with their options, less the project's own: what that renders are recordings."""
    names, options = config.extensions()
    fences = options["pymdownx.superfences"]["custom_fences"]
    options["pymdownx.superfences"] = {"custom_fences": [fence | {"format": lambda *a, **k: ""} for fence in fences]}
    return [name for name in names if name != "render.extension"], options


def rendered(text, *, snippets):
    """``{line: (language, code)}`` of each fence that the site renders; ``snippets``: with ``--8<--`` replaced.

    Lines are those of the page only without ``snippets``.
    """
    from markdown import Markdown
    from pymdownx.superfences import SuperFencesBlockPreprocessor

    fences = {}
    original = SuperFencesBlockPreprocessor.process_nested_block

    def process(self, ws, content, start, end):
        fences[start + 1] = (self.lang or "").lower(), self.rebuild_block(self.code)
        return original(self, ws, content, start, end)

    extensions, options = site_extensions()
    extensions = [name for name in extensions if snippets or name != "pymdownx.snippets"]
    with mock.patch.object(SuperFencesBlockPreprocessor, "process_nested_block", process):
        Markdown(extensions=extensions, extension_configs=options).convert(text)
    return fences


def executed(text, path, parser, tokens=None):
    """Return ``{line: code}`` of each fence that pytest-markdown-docs executes; ``tokens`` are those of the text."""
    from pytest_markdown_docs.plugin import FenceSyntax, extract_fence_tests

    tests = extract_fence_tests(parser, text, 0, path, fence_syntax=FenceSyntax.superfences)
    fences = [token for token in tokens or parser.parse(text) if token.type == "fence" and token.map]
    code = {token.map[0] + 1: token.content for token in fences}
    return {test.start_line: code[test.start_line] for test in tests}


# The gate


def faults(path, parser):
    """Return the faults of a page's fences, as ``page:line: fault``."""
    text = path.read_text("utf-8")
    name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    site = rendered(text, snippets=False)
    python = {line: code for line, (language, code) in site.items() if language in PYTHON}
    tokens = parser.parse(text)
    run = executed(text, path, parser, tokens)
    shown = {t.map[0] + 1 for t in tokens if "shows_snippet" in t.meta}
    problems = []

    for line in python.keys() - run.keys() - shown:
        problems.append((line, "this Python is shown but not executed: pytest-markdown-docs does not see it here"))
    for line in run.keys() - python.keys():
        problems.append((line, "this is executed, but the site does not render it as a Python fence"))
    for token in tokens:
        if token.type == "fence" and token.map[0] + 1 not in site:
            problems.append((token.map[0] + 1, "the site does not render this as a fence; look at its first line"))
    for line in run.keys() & python.keys():
        if _tidy(run[line]) != _tidy(python[line]):
            problems.append((line, "what is executed is not what the site shows"))
        problems += [(line, what) for what in _faults_of_code(python[line])]
    for line in python:
        header = text.splitlines()[line - 1]
        problems += [(line, f"the option {option!r} is not allowed here") for option in _foreign_options(header)]
    for line, (language, code) in site.items():
        if language in PLAIN and _looks_like_python(code):
            problems.append((line, "this is Python; name the language, so that it is executed"))
    for token in tokens:
        if token.type == "code_block" and _looks_like_python(token.content):
            why = "this is Python in an indented block; use a fence, so that it is executed"
            problems.append((token.map[0] + 1, why))
        if token.type in ("html_block", "html_inline") and re.search(r"<(pre|code)\b", token.content):
            problems.append(((token.map or [0])[0] + 1, "code in HTML is not executed; use a fence"))
    with_snippets = [language for language, _ in rendered(text, snippets=True).values() if language in PYTHON]
    if len(with_snippets) != len(python):
        problems.append((1, "a page or snippet that is included here brings Python fences, which are not executed"))
    return [f"{name}:{line}: {what}" for line, what in sorted(problems)]


def _tidy(code):
    return [line.expandtabs(4).rstrip() for line in code.strip("\n").splitlines()]


def _foreign_options(header):
    """Return the options in a fence's header that are not known to be harmless."""
    header = re.sub(r'\b(title|hl_lines|linenums)="[^"]*"', "", header.strip(" \t>`~-*+0123456789."))
    words = header.strip("{} ").split()
    return [word for word in words[1:] if word not in ("continuation", ".annotate")]


def _faults_of_code(code):
    if re.search(r"^\s*-+8<-+", code, re.M):
        yield "--8<-- lines and code of its own in one fence; make it two"
        return
    try:
        tree = ast.parse(code)
    except SyntaxError as error:
        yield f"not Python: {error.msg}"
        return
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.name.partition(".")[0] for alias in node.names} | {getattr(node, "module", None)}
    yield from (f"{name}: {why}" for name, why in FORBIDDEN.items() if name in names)


def _looks_like_python(code):
    """Return whether plain text is Python that does something, and not output that happens to parse."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return False
    telling = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.For, ast.With)
    return any(isinstance(node, telling) for node in ast.walk(tree))


@pytest.fixture
def parser(pytestconfig):
    return pytestconfig.hook.pytest_markdown_docs_markdown_it()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT / "docs" / "en").as_posix())
def test_every_python_fence_is_executed_or_shows_a_snippet(page, parser):
    problems = faults(page, parser)
    assert not problems, "\n" + "\n".join(problems)


# The gate itself: pages that must pass, and pages that must not

PLACES = {
    "top level": "Text.\n\n```python\nCODE\n```\n",
    "list": "1. Text.\n\n    ```python\n    CODE\n    ```\n",
    "nested list": "- Text.\n    - Text.\n\n        ```python\n        CODE\n        ```\n",
    "tab": '=== "One"\n\n    Text.\n\n    ```python\n    CODE\n    ```\n',
    "later tab": '=== "One"\n\n    Text.\n\n=== "Two"\n\n    ```python\n    CODE\n    ```\n',
    "new set of tabs": '===! "One"\n\n    ```python\n    CODE\n    ```\n',
    "selected tab": '===+ "One"\n\n    ```python\n    CODE\n    ```\n',
    "details": "??? note\n\n    Text.\n\n\n    ```python\n    CODE\n    ```\n",
    "open details": '???+ tip "Title"\n    ```python\n    CODE\n    ```\n',
    "admonition": "!!! note\n    Text.\n\n    ```python\n    CODE\n    ```\n",
    "tab in a list": '- Text.\n\n    === "One"\n\n        ```python\n        CODE\n        ```\n',
    "admonition in details": "??? note\n\n    !!! tip\n\n        ```python\n        CODE\n        ```\n",
    "quotation": "> ```python\n> CODE\n> ```\n",
    "with a title": '```python title="a.py" hl_lines="1"\nCODE\n```\n',
    "braces": '```{.python title="a.py"}\nCODE\n```\n',
    "after front matter": "---\ndescription: Text.\n---\n\n```python\nCODE\n```\n",
    "after a paragraph": "Text.\n```python\nCODE\n```\n",
}
PASSES = {
    "snippet": '```python\n--8<-- "programs/vector_add.py:kernel"\n```\n',
    "snippet in a tab": '=== "One"\n\n    ```python\n    --8<-- "programs/vector_add.py:kernel"\n    ```\n',
    "two snippets": '```python\n--8<-- "programs/vector_add.py:mask"\n\n--8<-- "programs/vector_add.py:memory"\n```\n',
    "continuation": "```python\nx = 1\n```\n\n```{.python continuation}\nassert x == 1\n```\n",
    "output": "```text\n[1.0, 2.0]\n```\n",
    "shell": "```console\n$ python vector_add.py\n```\n",
    "recording": "```recording\nview: output\n```\n",
}
REFUSED = {
    "notest": ("```{.python notest}\nx = 1\n```\n", 1, "not executed"),
    "notest as a class": ("```{.python .notest}\nx = 1\n```\n", 1, "'.notest' is not allowed"),
    "notest in a title": ('```python title="a notest b"\nx = 1\n```\n', 1, "not executed"),
    "runner": ("```{.python runner:mine}\nx = 1\n```\n", 1, "'runner:mine' is not allowed"),
    "retry": ("```{.python retry:3}\nx = 1\n```\n", 1, "'retry:3' is not allowed"),
    "fixture": ("```{.python fixture:tmp_path}\nx = 1\n```\n", 1, "'fixture:tmp_path' is not allowed"),
    "option that the site does not know": ("```python notest\nx = 1\n```\n", 1, "does not render"),
    "markdown-exec": ('```{.python exec="on"}\nx = 1\n```\n', 1, "'exec=\"on\"' is not allowed"),
    "console session": ("Text.\n\n```pycon\n>>> 1 + 1\n2\n```\n", 3, "not executed"),
    "py3": ("```py3\nx = 1\n```\n", 1, "not executed"),
    "capital letter": ("```Python\nx = 1\n```\n", 1, "not executed"),
    "no language": ("```\nimport torch\n```\n", 1, "name the language"),
    "as text": ("```text\ndef f():\n    pass\n```\n", 1, "name the language"),
    "indented": ("Text.\n\n    import torch\n    x = 1\n", 3, "indented block"),
    "HTML": ("Text.\n\n<pre>x = 1</pre>\n", 3, "HTML"),
    "footnote": ("Text.[^1]\n\n[^1]:\n    Text.\n\n    ```python\n    x = 1\n    ```\n", 6, "not executed"),
    "definition list": ("Term\n:   Text.\n\n    ```python\n    x = 1\n    ```\n", 4, "not executed"),
    "HTML around it": ("<div markdown>\n```python\nx = 1\n```\n</div>\n", 2, "not executed"),
    "comment": ("<!--\n```python\nx = 1\n```\n-->\n", 2, "not executed"),
    "kernel": ("```python\n@triton.jit\ndef kernel(x_ptr):\n    pass\n```\n", 1, "kernels live in snippets/"),
    "kernel, imported jit": ("```python\nfrom triton import jit as j\n```\n", 1, "kernels live in snippets/"),
    "kernel in a string": ("```python\nexec('@triton.jit')\n```\n", 1, "from a string"),
    "skips itself": ("```python\nimport pytest\npytest.skip()\n```\n", 1, "may skip itself"),
    "syntax error": ("Text.\n\n```python\nx =\n```\n", 3, "not Python"),
    "half a snippet": ('```python\n--8<-- "programs/vector_add.py:mask"\nx = 1\n```\n', 1, "make it two"),
}


def page_of(text, folder):
    page = folder / "page.md"
    page.write_text(text, "utf-8")
    return page


@pytest.mark.parametrize("text", [*PLACES.values(), *PASSES.values()], ids=[*PLACES, *PASSES])
def test_passes(text, tmp_path, parser):
    text = text.replace("CODE", "x = 1")
    assert faults(page_of(text, tmp_path), parser) == []
    if "x = 1" in text:
        assert executed(text, tmp_path, parser)


@pytest.mark.parametrize("text, line, why", REFUSED.values(), ids=REFUSED)
def test_refuses(text, line, why, tmp_path, parser):
    problems = faults(page_of(text, tmp_path), parser)
    assert any(fault.startswith(f"page.md:{line}: ") and why in fault for fault in problems), problems


def test_refuses_fences_that_an_included_page_brings(tmp_path, parser):
    included = tmp_path / "included.md"
    included.write_text("```python\nx = 1\n```\n", "utf-8")
    options = {**site_extensions()[1], "pymdownx.snippets": {"base_path": [str(tmp_path)]}}
    with mock.patch(f"{__name__}.site_extensions", return_value=(site_extensions()[0], options)):
        (problem,) = faults(page_of('--8<-- "included.md"\n', tmp_path), parser)
    assert problem == "page.md:1: a page or snippet that is included here brings Python fences, which are not executed"


# Fences that raise


@pytest.fixture(scope="module")
def run_of_failing_pages(tmp_path_factory):
    """The output of pytest, with this project's settings, on a page for each place in which a fence raises."""
    copy = tmp_path_factory.mktemp("copy")
    (copy / "tests").mkdir()
    (copy / "docs" / "en").mkdir(parents=True)
    for name in ("pyproject.toml", "conftest.py"):
        shutil.copy(ROOT / name, copy)
    for name in ("chromium", "compiled", "interpreter", "limits", "quick", "toy"):  # and what it imports
        shutil.copy(ROOT / "tests" / f"{name}.py", copy / "tests")
    for place, text in PLACES.items():
        page = copy / "docs" / "en" / f"{place.replace(' ', '-')}.md"
        page.write_text(text.replace("CODE", 'raise KeyError("planted")'), "utf-8")
    (copy / "docs" / "en" / "sound.md").write_text("```python\nx = 1\n```\n", "utf-8")
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    env["PYTHONPATH"] = str(ROOT)
    options = ["-rA", "-p", "no:cacheprovider", "--color=no", "--ignore=tests/quick.py"]
    command = [sys.executable, "-m", "pytest", *options]
    return subprocess.run(command, cwd=copy, env=env, capture_output=True, text=True).stdout


@pytest.mark.parametrize("place", PLACES)
def test_a_fence_that_raises_fails(place, run_of_failing_pages):
    page = f"docs/en/{place.replace(' ', '-')}.md"
    fence = next(i for i, line in enumerate(PLACES[place].splitlines(), 1) if "```" in line)
    assert f"FAILED {page}::[CodeFence#1][line:{fence}]" in run_of_failing_pages
    assert re.search(rf'{page}", line {fence + 1}\b', run_of_failing_pages), "the traceback names the line that raised"


def test_a_sound_fence_passes(run_of_failing_pages):
    assert "PASSED docs/en/sound.md::[CodeFence#1][line:1]" in run_of_failing_pages
    assert f"{len(PLACES)} failed, 1 passed" in run_of_failing_pages
