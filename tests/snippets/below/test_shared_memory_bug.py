# SPDX-License-Identifier: Apache-2.0
"""What padding does to 16 bytes: on a GPU an address that is not aligned, and a count that the compiler cannot make."""

import subprocess
from unittest import mock

import pytest

from snippets.below import shared_memory_bug
from snippets.below.shared_memory_bug import WIDE, apart


@pytest.mark.parametrize(
    "stdout, stderr, said",
    [
        ("ends, right\n", "a warning: nothing", "ends, right"),
        ("", "Traceback\nE: CUDA error: misaligned address\nmore", "CUDA error: misaligned address"),
        ("", "LLVM ERROR: no linear layout\nAborted", "LLVM ERROR: no linear layout"),
        ("", "first\nValueError: other", "ValueError: other"),
    ],
)
def test_what_came_of_a_process(stdout, stderr, said):
    done = subprocess.CompletedProcess([], 1, stdout, stderr)
    with mock.patch.object(subprocess, "run", return_value=done):
        assert apart("transpose", "1") == said


def test_a_thread_has_16_bytes():
    assert WIDE.size_per_thread == [1, 4] and WIDE.threads_per_warp == [4, 8]


def test_there_is_a_gpu_or_it_says_so():
    with mock.patch.object(shared_memory_bug.sys, "argv", ["it"]), pytest.raises(SystemExit, match="no GPU found"):
        shared_memory_bug.main()


@pytest.mark.gpu
def test_what_becomes_of_it():
    assert apart("transpose", "4") == "ends, right"
    assert "misaligned address" in apart("transpose", "1")
