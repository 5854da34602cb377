# SPDX-License-Identifier: Apache-2.0
"""Snippets that pages offer to copy: a kernel and its host function, without a benchmark."""

import ast
import re

import pytest

from recorder.project import ROOT, find

FENCE = re.compile(r"^```recording\n(.*?)^```", re.M | re.S)
FENCES = [fence for page in ROOT.glob("docs/en/**/*.md") for fence in FENCE.findall(page.read_text("utf-8"))]
OFFERED = sorted({re.search(r"^of: (\S+)$", f, re.M)[1] for f in FENCES if re.search(r"^view: snippet$", f, re.M)})


@pytest.mark.parametrize("name", OFFERED)
def test_holds_no_benchmark(name):
    tree = ast.parse(find(name).path.read_text("utf-8"))
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert "perf_report" not in attributes, f"move its benchmarks to {name}_measured, which nobody copies"
