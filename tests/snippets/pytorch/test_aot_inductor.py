# SPDX-License-Identifier: Apache-2.0
"""A model whose norm is a custom_op is packaged by name alone; that it runs from C++, too, is what a replay shows."""

import shutil
import sys

import pytest

from snippets.pytorch import aot_inductor as snippet


@pytest.mark.skipif(not shutil.which("g++"), reason="AOTInductor compiles by g++")
def test_who_loads_a_package_needs_the_operator(device, tmp_path):
    path = snippet.package(snippet.NORMS["custom_op"], tmp_path / "closed.pt2")
    said = {
        how: snippet.outcome([sys.executable, "-c", snippet.PYTHON.format(first=first), path, device], tmp_path)
        for how, first in snippet.FIRST.items()
    }
    assert said["in Python, the operator imported"] == f"{snippet.expected():.0f}"
    assert said["in Python"] == "fails: Could not find schema for course::rms_norm_closed"


def test_a_failure_is_told_by_its_reason(tmp_path):
    raises = [sys.executable, "-c", "raise OSError('no such model')"]
    assert snippet.outcome(raises, tmp_path) == "fails: OSError: no such model"
    assert snippet.outcome([sys.executable, "-c", "print(7)"], tmp_path) == "7"
