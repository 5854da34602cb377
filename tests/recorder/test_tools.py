# SPDX-License-Identifier: Apache-2.0
"""List every program that a GPU machine needs beside pip's packages, with its source."""

import re
import sysconfig
from pathlib import Path

import pytest

from recorder import tools

ROOT = Path(__file__).resolve().parents[2]
OTHERS = {"clang", "cc"} | {"make", "zizmor", "false"}  # in place of gcc; and what no GPU is needed for
NVIDIA = r'\["(nvidia-smi|ncu|nsys|nvcc|compute-sanitizer|cuda-gdb|cuobjdump|nvdisasm)"'


def test_all_that_snippets_and_tests_call_is_listed():
    """Found by the programs that they look for on the PATH, and by the first words of their commands."""
    files = [path for folder in ("snippets", "tests/snippets") for path in (ROOT / folder).rglob("*.py")]
    called = {name for path in files for name in re.findall(rf'which\("([\w-]+)"|{NVIDIA}', path.read_text("utf-8"))}
    called = {name for pair in called for name in pair if name}
    assert {"ncu", "compute-sanitizer", "nvidia-smi", "gcc"} <= called <= tools.TOOLS.keys() | OTHERS


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Make this an empty machine; return a function that puts a program on it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    for variable in ("CC", "CXX"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"include": str(tmp_path)})

    def put(name):
        path = tmp_path / name
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        return str(path)

    return put


def test_what_is_missing_is_listed_with_its_source(machine, capsys):
    assert tools.main() == 1
    out = capsys.readouterr().out.splitlines()
    assert [line.split(" is missing; it comes with ")[0] for line in out] == [*tools.TOOLS]
    assert "ncu is missing; it comes with NVIDIA's CUDA toolkit" in "\n".join(out)


def test_a_whole_machine(machine, capsys):
    paths = {tool: machine(tool) for tool in tools.TOOLS}
    assert tools.main() == 0 and tools.missing() == []
    assert capsys.readouterr().out.splitlines() == [f"{tool}: {path}" for tool, path in paths.items()]


@pytest.mark.parametrize("compiler", ["clang", "CC"])
def test_another_compiler_will_do(machine, monkeypatch, compiler):
    if compiler == "CC":
        monkeypatch.setenv("CC", "/opt/cc")
    else:
        machine(compiler)
    assert tools.find("gcc") and not any(line.startswith("gcc") for line in tools.missing())
