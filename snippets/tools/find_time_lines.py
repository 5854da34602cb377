# SPDX-License-Identifier: Apache-2.0
"""Ask ``ncu`` on which lines of a kernel its warps wait: the source view, as a table, without a window.

While a kernel runs, ``ncu`` looks at each multiprocessor again and again, and notes the instruction at which some warp
stands, and why it cannot go on: a *sample*. The compiler kept which line each instruction comes from, so the samples
can be added up by lines of the Python file. The kernels are the two of ``find_time.py`` that turn a matrix.

Run it on an NVIDIA GPU with ``python find_time_lines.py``, with ``ncu`` on the path.
Source: NVIDIA, *Nsight Compute*, on the source page and on the reasons of stalls.
"""

import csv
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import torch

from snippets.tools import find_time

KERNELS = {"by rows": "turn_row_kernel", "by tiles": "turn_tile_kernel"}


# --8<-- [start:view]
def source_view(kernel: str, script: str, *arguments: str) -> str:
    """Run a script under ncu; return the lines and samples of a kernel."""
    with tempfile.TemporaryDirectory() as folder:
        report = f"{folder}/report.ncu-rep"
        ncu = ["ncu", "--section", "SourceCounters", "--import-source", "yes"]
        only = ["--kernel-name", kernel, "--profile-from-start", "off"]
        python = [sys.executable, script, *arguments]
        run(*ncu, *only, "--clock-control", "none", "-o", report, *python)
        page = ["--page", "source", "--print-source", "cuda", "--csv"]
        return run("ncu", "-i", report, *page)
# --8<-- [end:view]


def run(*command: str) -> str:
    """Run a command and return what it printed. Raise ``RuntimeError`` if it fails."""
    if shutil.which("ncu") is None:
        raise RuntimeError("ncu was not found; it comes with NVIDIA's CUDA toolkit, as Nsight Compute")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.stdout


SAMPLES = "# Samples"


# --8<-- [start:lines]
def by_line(report: str, file: str) -> dict[int, Counter]:
    """Return for each line of a file its samples, and those of each reason to wait.

    >>> report = '"#","Source","# Samples","stall_wait"\\n"7","x = 1","30","20"\\n'
    >>> by_line(report, "any.py")
    {7: Counter({'# Samples': 30, 'stall_wait': 20})}
    """
    found, header, here = defaultdict(Counter), None, True
    for row in csv.reader(report.splitlines()):
        if row and row[0].startswith("File"):
            here = Path(file).name in ",".join(row)
        elif SAMPLES in row:
            header = row
        elif header and here and len(row) == len(header) and row[0].isdigit():
            for name, value in zip(header, row, strict=True):
                if name == SAMPLES or name.startswith("stall_"):
                    found[int(row[0])][name] += int(value or 0)
    return {line: samples for line, samples in found.items() if samples[SAMPLES]}
# --8<-- [end:lines]


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; ncu watches one")
    code = Path(find_time.__file__).read_text("utf-8").splitlines()
    for way, kernel in KERNELS.items():
        report = source_view(kernel, find_time.__file__, "turn")
        if sys.argv[1:]:
            Path(sys.argv[1], f"{kernel}.csv").write_text(report)
        lines = by_line(report, find_time.__file__)
        total = sum(samples[SAMPLES] for samples in lines.values())
        print(f"## {way}\n{way}, samples: {total}")
        for line, samples in sorted(lines.items()):
            waits = [(count, name) for name, count in samples.items() if name.startswith("stall_")]
            count, why = max(waits, default=(0, "none"))
            print(f"{samples[SAMPLES] / total:5.1%}  {code[line - 1].strip()}")
            print(f"        most often {why.removeprefix('stall_')} ({count / samples[SAMPLES]:.0%})")


if __name__ == "__main__":
    main()
