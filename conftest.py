# SPDX-License-Identifier: Apache-2.0
"""How every test here runs: in Triton's interpreter, or (``pytest -m gpu``) compiled, on a GPU.

``pytest`` also runs the doctests of our modules and the Python fences of ``docs/en/``; this file stands above all of
them, so that ``pytest FILE`` does so, too, for any one. pytest-markdown-docs collects the fences. It is turned on here,
not on the command line, so that ``pytest -m gpu`` also works where it is not installed.
"""

import contextlib
import gc
import os
import re
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, settings

from tests import compiled, interpreter, quick
from tests.chromium import browser, browser_path, open_site, playwright, site  # noqa: F401, fixtures
from tests.toy import project, toy  # noqa: F401, fixtures

ROOT = Path(__file__).resolve().parent
if "PYTEST_XDIST_WORKER" in os.environ:  # workers share the cores; threads of torch and NumPy would only fight for them
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def runs_on_gpu(config) -> bool:
    return "gpu" in (config.option.markexpr or "").replace("not gpu", "")


def pytest_addoption(parser):
    parser.addoption("--quick", action="store_true", help="leave out what tests/quick.py says, as make test does")


def pytest_configure(config):
    quick.begin(config)
    settings.register_profile(
        "tests",
        deadline=None,  # the first launch of a kernel compiles it, and a machine may have other work
        max_examples=quick.EXAMPLES // 3 if quick.quick else quick.EXAMPLES,
        derandomize=not config.getoption("--hypothesis-seed", None),  # new examples only where a seed is given
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("tests")
    config.addinivalue_line("markers", "gpu: runs compiled, on a GPU; only under `pytest -m gpu`")
    config.addinivalue_line("markers", "shown: runs with `--quick`, though it starts a process, to show that kind")
    config.addinivalue_line("markers", "replay: runs a script again and compares with its recording; `make replay`")
    config.addinivalue_line("markers", "long: begins before others, which take less")
    config.addinivalue_line("markers", "speed: guards speed, by tests/limits.py")
    config.addinivalue_line("markers", "alone: times or counts, with no other test on the GPU or the processors")
    # Triton reads TRITON_INTERPRET when it is imported and when a kernel is decorated: this must come before both.
    if runs_on_gpu(config):
        os.environ.pop("TRITON_INTERPRET", None)
        import torch

        if not torch.cuda.is_available():
            raise pytest.UsageError(
                "-m gpu needs a GPU, and torch.cuda.is_available() is False: "
                f"torch {torch.__version__} finds none on this machine"
            )
    else:
        os.environ["TRITON_INTERPRET"] = "1"
    if config.pluginmanager.hasplugin("pytest_markdown_docs"):
        config.option.markdowndocs = True
        config.option.markdowndocs_syntax = "superfences"  # ```{.python …} counts too


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """One more worker than cores, for the tests in a browser wait a lot; ``--quick`` leaves those out."""
    return (os.cpu_count() or 1) + (not config.option.quick)


def pytest_collection_finish():
    """Spare the collector of garbage what stays: torch, Triton and thousands of tests, through which it would go again
    and again."""
    gc.freeze()
    if os.environ.get("TRITON_INTERPRET") and "triton" in sys.modules:
        interpreter.spare_work()


def triton_cannot_be_here() -> bool:
    return sys.platform != "linux" and find_spec("triton") is None


def pytest_report_header():
    if triton_cannot_be_here():
        return "Triton does not exist for this platform: snippets and the fences of pages are NOT tested"
    return "kernels: interpreted" if os.environ.get("TRITON_INTERPRET") else "kernels: compiled, on a GPU"


@pytest.hookimpl(tryfirst=True)  # before pytest goes by the marks
def pytest_collection_modifyitems(config, items):
    """Compiled and interpreted kernels cannot live in one process, so a run has one kind of test only."""
    gpu = runs_on_gpu(config)
    for item in filter(compiled.runs_compiled, items if gpu else []):
        item.add_marker("gpu")
    kept, others = [], []
    for item in items:
        (kept if (item.get_closest_marker("gpu") is not None) == gpu else others).append(item)
    config.hook.pytest_deselected(items=others)
    # Those that take longer than most come first, or one worker would wait for the other's last one.
    items[:] = sorted(kept, key=lambda item: item.get_closest_marker("long") is None)


def pytest_ignore_collect(collection_path):
    needs_triton = [ROOT / "snippets", ROOT / "docs", ROOT / "tests" / "snippets"]
    if triton_cannot_be_here() and any(collection_path.is_relative_to(folder) for folder in needs_triton):
        return True
    return None


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    collectors = yield
    # pytest-markdown-docs also imports every .py file, under another name than pytest does, to look for fences.
    return [collector for collector in collectors if type(collector).__name__ != "MarkdownDocstringCodeModule"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    moves = runs_on_gpu(item.config) and compiled.code(item) is not None
    with compiled.on_a_gpu(item) if moves else contextlib.nullcontext(), with_files_to_copy(item):
        return (yield)


def with_files_to_copy(item):
    """Let a fence of a note with files to copy import them as who has downloaded them does: ``from norms import …``."""
    if not item.path.name.endswith("-to-copy.md"):
        return contextlib.nullcontext()
    names = [name for name in re.findall(r"(?m)^from (\w+) import", compiled.code(item))
             if (ROOT / f"snippets/library/{name}.py").is_file()]  # fmt: skip
    return mock.patch.dict(sys.modules, {name: import_module(f"snippets.library.{name}") for name in names})


def pytest_generate_tests(metafunc):
    """Give each test that asks for ``device`` the one that this run tests on: "cpu", or under ``-m gpu`` "cuda"."""
    own = any("device" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    if "device" in metafunc.fixturenames and not own:
        here = pytest.param("cuda", marks=pytest.mark.gpu) if runs_on_gpu(metafunc.config) else "cpu"
        metafunc.parametrize("device", [here], scope="session")


# What pytest-markdown-docs sees of a page.

SNIPPET_LINE = re.compile(r'\s*-+8<-+ +"[^"]+"\s*$')
CONTAINER = re.compile(r"(!!!|\?\?\?\+?|===[!+]*) ")


@pytest.hookimpl(optionalhook=True)
def pytest_markdown_docs_markdown_it():
    """A parser that also looks into admonitions, details and tabs, and leaves out code that is pulled from snippets."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark")
    parser.block.ruler.before(
        "fence", "container", _container, {"alt": ["paragraph", "reference", "blockquote", "list"]}
    )
    parser.core.ruler.disable("inline")  # fences are blocks, so the text of paragraphs need not be parsed
    parser.core.ruler.push("snippets", _leave_out_snippets)
    return parser


def _container(state, start, end, silent):
    """Block rule of markdown-it: ``!!! note``, ``??? note`` or ``=== "tab"``, and what is indented below it."""
    first = state.bMarks[start] + state.tShift[start]
    if state.is_code_block(start) or not CONTAINER.match(state.src, first, state.eMarks[start]):
        return False
    if silent:
        return True
    indent = state.sCount[start] + 4
    stop = start + 1
    while stop < end and (state.isEmpty(stop) or state.sCount[stop] >= indent):
        stop += 1
    before = state.parentType, state.lineMax, state.blkIndent
    state.parentType, state.lineMax, state.blkIndent = "container", stop, indent
    state.md.block.tokenize(state, start + 1, stop)
    state.parentType, state.lineMax, state.blkIndent = before
    state.line = stop
    return True


def _leave_out_snippets(state):
    """Core rule of markdown-it: a fence of ``--8<--`` lines only shows a file that has tests of its own."""
    for token in state.tokens:
        lines = [line for line in token.content.splitlines() if line.strip()]
        if token.type == "fence" and lines and all(map(SNIPPET_LINE.match, lines)):
            token.meta["shows_snippet"] = token.info
            token.info = "snippet"
