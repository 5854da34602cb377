# SPDX-License-Identifier: Apache-2.0
"""A model is packaged and loaded, from Python and C++; where the norm is a custom_op, that needs the operator."""

import shutil
import sys

import pytest

from snippets.pytorch import aot_inductor as snippet


@pytest.mark.skipif(not shutil.which("g++"), reason="AOTInductor compiles by g++")
def test_who_loads_a_package_needs_the_operator(device, tmp_path):
    program = snippet.build(tmp_path)
    for norm, name in ((snippet.in_torch, "PyTorch's norm"), (snippet.closed, "custom_op")):
        assert snippet.NORMS[name] is norm
        path = snippet.package(norm, tmp_path / f"{len(name)}.pt2")
        python = {how: [sys.executable, "-c", snippet.PYTHON.format(first=each)] for how, each in snippet.FIRST.items()}
        said = {how: snippet.outcome([*command, path, device], tmp_path) for how, command in python.items()}
        said["C++"] = snippet.outcome([program, path, device], tmp_path)
        assert said.pop("in Python, the operator imported") == f"{snippet.expected():.0f}"
        fails = "fails: Could not find schema for course::rms_norm_closed"
        assert {*said.values()} == ({fails} if norm is snippet.closed else {f"{snippet.expected():.0f}"})
