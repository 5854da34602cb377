# SPDX-License-Identifier: Apache-2.0
"""List the programs that snippets and GPU tests call and pip does not install: ``python -m recorder.tools``."""

import os
import shutil
import sys
import sysconfig
from pathlib import Path

PATH = "its folder bin belongs on the PATH"
TOOLS = {  # with what installs them
    "gcc": "your system's package of that name; clang will do, and what the variable CC names",
    "g++": "your system's package of that name; torch.compile calls it, or what the variable CXX names, for a CPU",
    "Python.h": "your system's package python3-dev",
    "file": "your system's package of that name; Python asks it, and Triton's cache keeps the answer",
    "nvidia-smi": "NVIDIA's driver",
    "compute-sanitizer": f"NVIDIA's CUDA toolkit; {PATH}",
    "ncu": f"NVIDIA's CUDA toolkit, as Nsight Compute; {PATH}. To count, it wants root, or the driver's option "
    "NVreg_RestrictProfilingToAdminUsers=0",
}


def find(tool: str) -> str | None:
    """Return the path of a tool, looking where its callers look, or None."""
    if tool == "gcc":  # Triton compiles the launch of each kernel with it
        return os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    if tool == "g++":
        return shutil.which(os.environ.get("CXX", tool))
    if tool == "Python.h":  # and with this
        header = Path(sysconfig.get_paths()["include"], tool)
        return str(header) if header.is_file() else None
    return shutil.which(tool)


def missing() -> list[str]:
    """Return a line for each tool that this machine lacks, with what installs it."""
    return [f"{tool} is missing; it comes with {source}" for tool, source in TOOLS.items() if not find(tool)]


def main() -> int:
    for tool in filter(find, TOOLS):
        print(f"{tool}: {find(tool)}")
    for line in missing():
        print(line)
    return bool(missing())


if __name__ == "__main__":
    sys.exit(main())
