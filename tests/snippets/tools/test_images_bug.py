# SPDX-License-Identifier: Apache-2.0
"""Code for another GPU, half a file and unknown PTX are refused as the page says."""

import signal

import pytest
import torch

from snippets.tools import images_bug as snippet


def test_ptxas_knows_its_versions(capsys):
    snippet.assemble("8.0", "sm_90")
    assert capsys.readouterr().out == "accepted\n"
    with pytest.raises(RuntimeError, match=r"Unsupported \.version 9\.9; current version is"):
        snippet.assemble("9.9", "sm_90")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu_it_says_so():
    with pytest.raises(SystemExit, match="no GPU found"):
        snippet.main()


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("print(7)", "7"),
        ("raise SystemExit('3: Assertion `n` failed.\\nRuntimeError: CUDA error')", "3: Assertion `n` failed."),
        ("raise OSError('the first')", "OSError: the first"),
        ("raise SystemExit('too old')", "code 1: too old"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", f"code {-signal.SIGSEGV}: no message"),
    ],
)
def test_an_attempt_is_told_by_what_says_most(code, said, tmp_path, monkeypatch):
    program = tmp_path / "attempt.py"
    program.write_text(code)
    monkeypatch.setattr(snippet, "__file__", str(program))
    assert snippet.outcome() == said


@pytest.mark.gpu
def test_what_is_refused(capsys, monkeypatch):
    monkeypatch.setattr(snippet.sys, "argv", [snippet.__file__])  # main() takes what pytest was given for an attempt
    snippet.main()
    said = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines() if ": " in line)
    major, minor = torch.cuda.get_device_capability()
    assert "int32 overflow detected for operation mul" in said["debug=True"]
    assert said[f"code for sm{major}{minor}"] == "accepted" or (major, minor) not in ((8, 0), (8, 9), (9, 0))
    assert said["half a file"].endswith("device kernel image is invalid")
    assert "unsupported toolchain" in said["version 9.9, sm_90"]
