# SPDX-License-Identifier: Apache-2.0
"""Branches that do not agree are refused, and those that do compile."""

from pathlib import Path

from guards import environment

from snippets.tools import branches_bug as snippet
from tests.processes import run_python


def test_what_the_compiler_says():
    printed = run_python(Path(snippet.__file__), env=environment("gpu")).stdout
    said = dict(part.strip().split("\n", 1) for part in printed.replace("\n  ", " ").split("## ")[1:])
    assert list(said) == list(snippet.KERNELS)
    assert "Mismatched type for x between then block (fp32) and else block (int32)" in said["two types"]
    assert "initial value for `x` is of type" in said["two shapes"]
    assert said["one branch alone"] == "NameError: x is not defined"
    assert said["one type, and a value before"] == "compiled"
