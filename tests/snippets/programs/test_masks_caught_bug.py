# SPDX-License-Identifier: Apache-2.0
"""The missing mask is caught: by the list of accesses on a CPU, by compute-sanitizer on a GPU."""

import shutil
from pathlib import Path

import pytest
from guards import environment

from snippets.programs import masks_caught_bug as caught
from tests.processes import run_script

SOURCE = Path(caught.__file__)
REPORT = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at some_kernel+0x1a0 in /home/someone/file.py:20
=========     by thread (5,0,0) in block (1,0,0)
=========     Access to 0x7f5c3be00028 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f5c3be00000 of size 40 bytes
=========
========= Invalid __global__ read of size 4 bytes
=========     at some_kernel+0x1a0 in /home/someone/file.py:20
=========
========= ERROR SUMMARY: 2 errors
"""


def run(device):
    root = str(SOURCE.parents[2])
    return run_script(SOURCE, env=environment(device, PYTHONPATH=root))


def test_the_first_error_of_a_report_without_addresses():
    assert caught.essential(REPORT) == [
        "Invalid __global__ read of size 4 bytes",
        "    at some_kernel+0x… in file.py:20",
        "    by thread (5,0,0) in block (1,0,0)",
        "    Access to 0x… is out of bounds",
        "    and is 1 bytes after the nearest allocation at 0x… of size 40 bytes",
        "ERROR SUMMARY: 2 errors",
    ]
    assert caught.essential("") == []


def test_the_list_of_accesses_shows_it():
    with pytest.raises(AssertionError, match="3 loads outside of x: one at element 10 of x, which has 10"):
        caught.on_the_cpu()
    done = run("cpu")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "program 0 loads elements [0, 1, 2, 3, 4, 5, 6, 7]",
        "program 1 loads elements [5, 6, 7, 8, 9, 10, 11, 12]",
        "AssertionError: 3 loads outside of x: one at element 10 of x, which has 10",
    ]


@pytest.mark.gpu
def test_compute_sanitizer_shows_it():
    if not shutil.which("compute-sanitizer"):
        pytest.skip("compute-sanitizer is not on the PATH; it comes with the CUDA toolkit")
    done = run("cuda")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Invalid __global__ read of size 4 bytes\n    at row_sum_no_mask_bug")
    assert "in block (1,0,0)" in done.stdout and "ERROR SUMMARY: 48 errors" in done.stdout  # 16 threads hold each lane
