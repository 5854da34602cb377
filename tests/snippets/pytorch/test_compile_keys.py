# SPDX-License-Identifier: Apache-2.0
"""Which change gives a kernel another key, and what a compiled kernel says of itself."""

from pathlib import Path

import pytest
from guards import environment

from snippets.pytorch import compile_keys as snippet
from tests.processes import run_python

SAME = {"nothing", "a function below it"}


@pytest.mark.parametrize("change", snippet.CHANGES)
def test_what_changes_the_key(tmp_path, change):
    first = snippet.key_of(snippet.FILE, tmp_path / "kernel.py")
    text = snippet.changed(change)
    assert first.strip() and (text == snippet.FILE) == (change == "nothing")
    assert (snippet.key_of(text, tmp_path / "kernel.py") == first) == (change in SAME)


def test_what_a_compiled_kernel_says():
    done = run_python(Path(snippet.__file__), env=environment("gpu"))
    about = dict(line.split(": ") for line in done.stdout.splitlines() if ": " in line)
    assert (about["name of the function"], about["threads of a program"]) == ("add_one_kernel", "128")
    assert (about["parameters of the function"], about["the machine code is an ELF file"]) == ("5", "True")
