# SPDX-License-Identifier: Apache-2.0
"""What Triton's ways to print and assert put out is what the page says of them."""

import subprocess
import sys
from pathlib import Path

import pytest
from guards import environment

from snippets.tools import debugging_prints
from snippets.tools.debugging_prints import KERNELS, launch
from tests.limits import HANGS

SOURCE = Path(debugging_prints.__file__)


def test_device_print_in_the_interpreter(capsys):
    KERNELS["device_print"][(3,)](6, BLOCK=4)
    assert [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()] == [
        "(0, 0, 0) offsets: [0 1 2 3]",
        "(1, 0, 0) offsets: [4 5 6 7]",
        "(1, 0, 0) mask: [ True True False False]",
        "(2, 0, 0) offsets: [ 8 9 10 11]",
    ]


def test_static_print_in_the_interpreter_prints_in_every_program(capsys):
    launch("static_print")
    assert capsys.readouterr().out.splitlines() == ["BLOCK: 4  type of n: int32"] * 4


def test_static_assert(capsys):
    launch("static_assert")
    assert "BLOCK must be at least 16" in capsys.readouterr().out
    KERNELS["static_assert"][(1,)](6, BLOCK=16)
    with pytest.raises(Exception, match="BLOCK must be at least 16"):
        KERNELS["static_assert"][(1,)](6, BLOCK=8)


def test_print_of_a_type_works_in_the_interpreter(capsys):
    launch("plain print")
    assert capsys.readouterr().out == "<class 'triton.language.core.tensor'>\n" * 2


def test_prefix_must_be_ascii(capsys):
    launch("prefix")
    assert "größe is not an ascii string" in capsys.readouterr().out


def sections(device):
    done = subprocess.run(
        [sys.executable, SOURCE], env=environment(device), capture_output=True, text=True, timeout=HANGS
    )
    assert done.returncode == 0, done.stderr
    return {part.partition("\n")[0]: part.partition("\n")[2] for part in done.stdout.split("## ")[1:]}


@pytest.mark.gpu
def test_compiled():
    shown = sections("cuda")
    lines = shown["device_print"].splitlines()
    assert {line.partition(" × ")[2] for line in lines[1:]} == {
        *(f"pid ({i // 4}, 0, 0) idx ({i % 4}) offsets: {i}" for i in range(8)),
        *(f"pid (1, 0, 0) idx ({i}) mask: {int(i < 2)}" for i in range(4)),
    }
    assert shown["static_print"].count("BLOCK: 4") == 1, "once, when it is compiled, however often it is launched"
    assert "CompileTimeAssertionFailure" in shown["static_assert"]
    assert "NameError('type is not defined')" in shown["plain print"]
    assert "größe is not an ascii string" in shown["prefix"]
    assert shown["static_print, in the next process"].endswith(": 0\n"), "it comes from the cache on disk"


@pytest.mark.gpu
def test_each_thread_prints_what_it_holds():
    script = "import torch; from snippets.tools.debugging_prints import device_print_kernel as kernel"
    script += "; kernel[(1,)](6, BLOCK=128); torch.cuda.synchronize()"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=SOURCE.parents[2], env=environment("cuda"), capture_output=True, text=True
    )
    assert done.stdout.count("offsets: ") == 128, done.stderr
