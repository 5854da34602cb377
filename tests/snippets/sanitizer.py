# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's compute-sanitizer, which runs a program and reports accesses out of bounds, or races in shared memory."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from guards import environment

ROOT = Path(__file__).resolve().parents[2]
FOUND = 99  # its exit status when it has found something
CLEAN = {  # what each tool says when it has found nothing
    "memcheck": "ERROR SUMMARY: 0 errors",
    "racecheck": "RACECHECK SUMMARY: 0 hazards displayed",
}


def sanitize(*arguments: str | Path, tool: str = "memcheck") -> subprocess.CompletedProcess:
    """``python *arguments`` under one of its tools; skips the test where it is not installed."""
    if not shutil.which("compute-sanitizer"):
        pytest.skip("compute-sanitizer is not on the PATH; it comes with the CUDA toolkit")
    # Calls of the driver that fail are not asked about: Triton asks for more shared memory than there is, to see.
    options = ["--tool", tool, "--error-exitcode", str(FOUND)]
    options += ["--report-api-errors", "no"] if tool == "memcheck" else []
    # Lanes of a warp may store the same sum to one place; a contracted a·b + c leaves some of these sums one bit apart.
    fusion = {"TRITON_DEFAULT_FP_FUSION": "0"} if tool == "racecheck" else {}
    # torch's caching allocator hands out pieces of large blocks, past whose ends the tool sees nothing wrong.
    env = environment("cuda", PYTORCH_NO_CUDA_MEMORY_CACHING="1", PYTHONPATH=str(ROOT), **fusion)
    command = ["compute-sanitizer", *options, sys.executable, *map(str, arguments)]
    return subprocess.run(command, env=env, capture_output=True, text=True)


def check_sanitized(*arguments: str | Path, tool: str = "memcheck") -> str:
    """It finds nothing, and the program ends well; returns what was printed."""
    done = sanitize(*arguments, tool=tool)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert CLEAN[tool] in done.stdout, done.stdout[-4000:]
    return done.stdout
