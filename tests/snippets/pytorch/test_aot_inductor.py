# SPDX-License-Identifier: Apache-2.0
"""A model whose norm is a custom_op is packaged by name alone, and one whose norm is a triton_op with its machine code.

That a package runs from C++, too, is what a replay shows.
"""

import shutil
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pytest

from snippets.pytorch import aot_inductor as snippet


@pytest.mark.skipif(not shutil.which("g++"), reason="AOTInductor compiles by g++")
def test_who_loads_a_package_needs_the_operator(tmp_path):
    path = snippet.package(snippet.NORMS["custom_op"], tmp_path / "closed.pt2")
    said = {
        how: snippet.outcome([sys.executable, "-c", snippet.PYTHON.format(first=first), path, "cpu"], tmp_path)
        for how, first in snippet.FIRST.items()
    }
    assert said["in Python, the operator imported"] == f"{snippet.expected():.0f}"
    assert said["in Python"] == "fails: Could not find schema for course::rms_norm_closed"


def test_a_failure_is_told_by_its_reason(tmp_path):
    said = lambda code: snippet.outcome([sys.executable, "-c", code], tmp_path)
    assert said("raise OSError('no such model')") == "fails: OSError: no such model"
    assert said("print(7)") == "7"
    assert said("raise SystemExit('too old')") == "fails: too old"


def test_a_process_that_a_signal_ends_has_no_words(tmp_path):
    said = lambda code: snippet.outcome([sys.executable, "-c", f"import os, signal; {code}"], tmp_path)
    assert said("os.kill(os.getpid(), signal.SIGSEGV)") == "ends by SIGSEGV"
    assert said("print(7, flush=True); os.kill(os.getpid(), signal.SIGKILL)") == "7 ends by SIGKILL"
    assert said("raise SystemExit(3)") == "fails: no message"


def test_of_a_crash_python_names_the_function(tmp_path):
    code = "import ctypes\ndef load():\n    ctypes.string_at(0)\nload()"
    said = snippet.outcome([sys.executable, "-X", "faulthandler", "-c", code], tmp_path)
    assert said == "ends by SIGSEGV in string_at"


def test_kernels_of_a_package_are_those_with_machine_code(tmp_path):
    with zipfile.ZipFile(tmp_path / "some.pt2", "w") as package:
        package.writestr("model/a.cubin", b"\x7fELF .text.norm_kernel\0 .nv.info.norm_kernel\0")
        package.writestr("model/wrapper.cpp", b".text.not_this")
    assert snippet.machine_code(tmp_path / "some.pt2") == "norm_kernel"


@pytest.mark.gpu
@pytest.mark.skipif(not shutil.which("g++"), reason="AOTInductor compiles by g++")
@pytest.mark.parametrize("name", [snippet.PLAIN, "triton_op"])
def test_a_package_has_the_machine_code_of_its_kernel_and_runs_from_cpp(name, tmp_path):
    path = tmp_path / "model.pt2"
    command = [sys.executable, snippet.__file__, name, path]
    with ThreadPoolExecutor() as pool:
        building = pool.submit(snippet.build, tmp_path)
        assert snippet.outcome(command, tmp_path) == ""
        assert "rms_norm_kernel" in snippet.machine_code(path)
        assert snippet.outcome([building.result(), path, "cuda"], tmp_path) == f"{snippet.expected():.0f}"
