# SPDX-License-Identifier: Apache-2.0
"""What a lesson's page runs: the file of its kernel, whose examples print in the model what they print with torch."""

import ast
import contextlib
import doctest
import io
import json
import re

import pytest

from browser import page
from tests.modeled import ROOT, in_browser

PAGES = sorted((ROOT / "docs/en").rglob("*.md"))
RUN = re.compile(r'<div class="run" data-of="([\w/]+\.py):(\w+)" markdown>')
OFFERED = sorted({of for each in PAGES for of in RUN.findall(each.read_text("utf-8"))})


@pytest.fixture(autouse=True)
def modeled():
    with in_browser():
        yield


@pytest.mark.parametrize(("file", "section"), OFFERED, ids=[file for file, _ in OFFERED])
def test_its_examples_print_what_they_say(file, section):
    whole = (ROOT / "snippets" / file).read_text("utf-8")
    before, after = page.split(whole, section)
    shown = whole.removeprefix(before).removesuffix(after)
    assert "@triton.jit" in shown
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        answer = json.loads(page.run(shown, None, whole, section))
    assert (answer["error"], answer["troubles"]) == ("", []) and answer["pictures"]
    functions = [node for node in ast.parse(whole).body if isinstance(node, ast.FunctionDef)]
    texts = [ast.get_docstring(node) or "" for node in functions]
    wanted = [example for text in texts for example in doctest.DocTestParser().get_examples(text)]
    got = re.split(r"^>>> ", output.getvalue(), flags=re.M)[1:]
    assert got
    by_source = {example.source.rstrip().replace("\n", "\n... "): example for example in wanted}
    for one in got:  # of the functions that launch this kernel
        source = next(source for source in sorted(by_source, key=len, reverse=True) if one.startswith(source + "\n"))
        example, result = by_source[source], one.removeprefix(source).strip()
        printed = result + "\n" * bool(result)
        assert doctest.OutputChecker().check_output(example.want, printed, doctest.NORMALIZE_WHITESPACE)
