# SPDX-License-Identifier: Apache-2.0
"""The compiler copies four neighbors at once for each thread, and begins again without the interpreter."""

import os
import subprocess
import sys
from unittest import mock

import pytest
from guards import environment

from snippets.start import recurrence_compiled as module
from tests.processes import run_script


def test_four_channels_of_a_thread_move_at_once():
    done = run_script(module.__file__, env=environment("cuda"))  # it compiles, and needs no GPU
    assert done.returncode == 0, done.stderr
    # 15 steps ahead and the one in the loop, of a and of b
    assert done.stdout.splitlines() == ["stores, 16 bytes: 1", "copies to shared memory, 16 bytes: 32"]


def test_in_the_interpreter_it_begins_again_without(monkeypatch, capsys, device):
    if device != "cpu":
        pytest.skip("kernels are compiled here")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with mock.patch("subprocess.run", return_value=subprocess.CompletedProcess([], 0, "what that printed")) as again:
        module.main()
    assert again.call_args.args[0] == [sys.executable, os.path.abspath(module.__file__)]
    assert "TRITON_INTERPRET" not in again.call_args.kwargs["env"]
    assert capsys.readouterr().out == "what that printed"
