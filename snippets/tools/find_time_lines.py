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
import re
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
def watch(kernel: str, report: str, script: str, *arguments: str) -> None:
    """Run a script under ncu, and let it keep what it saw of a kernel."""
    keep = ["--section", "SourceCounters", "--import-source", "yes"]
    only = ["--kernel-name", kernel, "--profile-from-start", "off"]
    python = [sys.executable, script, *arguments]
    run("ncu", *keep, *only, "--clock-control", "none", "-o", report, *python)


def source_view(report: str) -> str:
    """Return the lines of code with their samples, as CSV."""
    page = ["--page", "source", "--print-source", "cuda,sass", "--csv"]
    return run("ncu", "-i", f"{report}.ncu-rep", *page)
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
def by_line(view: str, file: str) -> dict[int, Counter]:
    r"""Return for each line of a file its samples, and those of each reason to wait.

    A row with a number is a line of code. It has the sums of the instructions below it, which have addresses.

    >>> view = '"Line No","Source","Address","Source","# Samples","stall_wait"\n"7","x = 1","","","30","20"\n'
    >>> by_line(view + '"","","0x10","MOV","30","20"\n', "any.py")
    {7: Counter({'# Samples': 30, 'stall_wait': 20})}
    """
    found, header, here = defaultdict(Counter), [], True
    for row in csv.reader(view.splitlines()):
        if row and row[0].startswith("File"):
            here = Path(file).name in ",".join(row)
        elif "Source" in row:
            header = row
        elif here and SAMPLES in header and len(row) == len(header) and row[0].isdigit():
            for name, value in zip(header, row, strict=True):
                if name == SAMPLES or re.fullmatch(r"stall_\w+", name):
                    found[int(row[0])][name] += int(float(value.replace(",", "") or 0))
    return {line: samples for line, samples in found.items() if samples[SAMPLES]}
# --8<-- [end:lines]


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; ncu watches one")
    code = Path(find_time.__file__).read_text("utf-8").splitlines()
    for way, kernel in KERNELS.items():
        with tempfile.TemporaryDirectory() as folder:
            report = f"{folder}/report"
            watch(kernel, report, find_time.__file__, "turn")
            lines = by_line(source_view(report), find_time.__file__)
        total = sum(samples[SAMPLES] for samples in lines.values())
        print(f"## {way}\n{way}, samples: {total}")
        for line, samples in sorted(lines.items()):
            print(f"{samples[SAMPLES] / total:5.1%}  {code[line - 1].strip()}")
            waits = {name: count for name, count in samples.items() if name.startswith("stall_")}
            for name, count in Counter(waits).most_common(2):
                print(f"         {name.removeprefix('stall_')}: {count / samples[SAMPLES]:.0%}")
        store = sum(samples[SAMPLES] for line, samples in lines.items() if "tl.store" in code[line - 1])
        print(f"{way}, at the store, percent: {100 * store / max(total, 1):.0f}")


if __name__ == "__main__":
    main()
