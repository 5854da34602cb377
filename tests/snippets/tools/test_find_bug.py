# SPDX-License-Identifier: Apache-2.0
"""Each bug passes the first test; which tool finds it is as the page says; no tool blames a kernel without one."""

import subprocess

import pytest

from snippets.tools import find_bug as snippet

FOUND_BY = {  # the interpreter finds what depends neither on an order nor on a formula
    "a missing mask": {"guards", "interpreter", "assert", "memcheck"},
    "programs that race": {"awkward", "guards", "GSan"},
    "a missing barrier": {"awkward", "guards"},
    "a row of nothing": {"awkward", "guards", "interpreter", "assert", "FpSan"},
    "a sum in float16": {"awkward", "guards", "interpreter", "FpSan"},
    "a formula, nearly right": {"FpSan"},
}


def test_a_verdict_is_what_noticed_first():
    def of(out, error="", status=0):
        return snippet.verdict(subprocess.CompletedProcess([], status, out, error))

    assert of("right\n") == "right" and of("wrong: NaN\n") == "wrong: NaN"
    assert of("right\n", "========= Invalid __global__ write of size 4 bytes\n", 9) == (
        "Invalid __global__ write of size 4 bytes"
    )
    asserted = "x.py:1: Assertion `not a number` failed.\nRuntimeError: CUDA"
    assert of("", asserted, 1) == "Assertion `not a number` failed"
    assert of("", "", -11) == "failed with -11: no message"


@pytest.mark.parametrize("version", ["bug", "right"])
@pytest.mark.parametrize("name", snippet.CASES)
def test_what_the_interpreter_finds(name, version, monkeypatch):
    if not snippet.INTERPRETED:
        pytest.skip("kernels are compiled here")
    found = snippet.judge("interpreter", name, version) != "right"
    assert found == (version == "bug" and "interpreter" in FOUND_BY[name])


@pytest.mark.gpu
@pytest.mark.parametrize("tool", snippet.TOOLS)
@pytest.mark.parametrize("name", snippet.CASES)
def test_which_tool_finds_it(name, tool):
    if "race" in name and tool == "memcheck":
        pytest.skip("under it programs may run one after the other")
    said = snippet.verdict(snippet.run(tool, name, "bug"))
    assert not said.startswith("failed") and (said != "right") == (tool in FOUND_BY[name]), said
