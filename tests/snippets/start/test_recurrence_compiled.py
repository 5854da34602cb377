# SPDX-License-Identifier: Apache-2.0
"""The compiler copies four neighbors at once for each thread, and begins again without the interpreter."""

import os
import subprocess
import sys
from unittest import mock

import pytest

from snippets.start import recurrence_compiled as module


def test_in_the_interpreter_it_begins_again_without(monkeypatch, capsys, device):
    if device != "cpu":
        pytest.skip("kernels are compiled here")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with mock.patch("subprocess.run", return_value=subprocess.CompletedProcess([], 0, "what that printed")) as again:
        module.main()
    assert again.call_args.args[0] == [sys.executable, os.path.abspath(module.__file__)]
    assert "TRITON_INTERPRET" not in again.call_args.kwargs["env"]
    assert capsys.readouterr().out == "what that printed"
