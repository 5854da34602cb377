# SPDX-License-Identifier: Apache-2.0
"""Reports are read from what a run wrote, and no other error is taken for one; on a GPU each race is seen."""

import subprocess
from pathlib import Path

import pytest
import torch
from guards import environment

from snippets.tools import races_bug as snippet
from tests.processes import run_script

ASSERTION = "/a/races_bug.py:{}: : block: [{},0,0], thread: [0,0,0] Assertion `{}` failed.\n"
SOUND = {  # what GSan has nothing to say of: no race, or one inside a program, which it does not look for
    "one element, tl.atomic_add", "blocks side by side", "a flag, release and acquire",
    "threads of one program, no barrier",
}  # fmt: skip


def ended(status: int, text: str = "") -> subprocess.CompletedProcess:
    return subprocess.CompletedProcess([], status, "", text)


def test_each_race_is_told_once():
    text = ASSERTION.format(2, 1, "later") + ASSERTION.format(1, 1, "first") + ASSERTION.format(2, 2, "later")
    first, later = snippet.verdict(ended(1, text + "Traceback")).split("; ")
    assert first == "first: # SPDX-License-Identifier: Apache-2.0" and later.startswith("later: ")


def test_another_error_is_no_report():
    other = ASSERTION.format(1, 1, "index out of range").replace("races_bug", "other")
    assert snippet.verdict(ended(1, other + "RuntimeError: no such file")) == "failed: RuntimeError: no such file"
    assert snippet.verdict(ended(-11)) == "failed: no message" and snippet.verdict(ended(0)) == "no report"


def test_without_a_gpu_it_says_so():
    if torch.cuda.is_available():
        pytest.skip("this machine has one")
    done = run_script(Path(snippet.__file__), env=environment("cpu"))
    assert done.returncode and "no GPU found" in done.stderr


@pytest.mark.gpu
@pytest.mark.parametrize("case", snippet.CASES)
def test_what_the_sanitizer_reports(case):
    verdict = snippet.verdict(snippet.run(case))
    assert verdict == "no report" if case in SOUND else " race detected: tl." in verdict
