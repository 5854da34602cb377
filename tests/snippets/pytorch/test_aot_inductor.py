# SPDX-License-Identifier: Apache-2.0
"""A model is packaged; who loads it needs the operator where that is a custom_op, from Python or from C++."""

import shutil
import sys

import pytest
import torch

from snippets.pytorch import aot_inductor as snippet


@pytest.mark.skipif(torch.cuda.is_available() or not shutil.which("g++"), reason="on a CPU, by g++")
def test_a_package_without_its_operator(tmp_path):
    path = snippet.package(snippet.closed, tmp_path / "closed.pt2", "cpu")
    holds = snippet.inside(path)
    assert holds[".so"] == 1 and not holds[".py"]
    python = {name: [sys.executable, "-c", snippet.PYTHON.format(first=first)] for name, first in snippet.FIRST.items()}
    said = {name: snippet.outcome([*command, path, "cpu"], tmp_path) for name, command in python.items()}
    said["C++"] = snippet.outcome([snippet.build(tmp_path, "cpu"), path, "cpu"], tmp_path)
    there = said.pop("Python, the operator imported")
    assert there == f"{snippet.expected('cpu'):.0f}"
    assert {*said.values()} == {"fails: Could not find schema for course::rms_norm_closed"}


@pytest.mark.gpu
def test_a_package_with_its_kernel(tmp_path):
    path = snippet.package(snippet.named, tmp_path / "named.pt2")
    wanted = f"{snippet.expected('cuda'):.0f}"
    for command in ([sys.executable, "-c", snippet.PYTHON.format(first="")], [snippet.build(tmp_path)]):
        assert snippet.outcome([*command, path, "cuda"], tmp_path) == wanted
