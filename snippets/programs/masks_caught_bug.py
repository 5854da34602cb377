# SPDX-License-Identifier: Apache-2.0
"""Catch a missing mask: on a CPU by the list of accesses, on a GPU by NVIDIA's compute-sanitizer.

The kernel is ``row_sum_no_mask_bug`` of ``masks_bug.py``, on two rows of five columns, by blocks of eight.

- ``TRITON_INTERPRET=1 python masks_caught_bug.py`` runs it in the interpreter and looks at what it touched;
- ``python masks_caught_bug.py`` runs ``python masks_caught_bug.py bug`` under compute-sanitizer, on a GPU, and prints
  the lines that matter.
"""

import os
import re
import subprocess
import sys

import torch
import triton

from snippets.programs.masks_bug import row_sum_no_mask_bug, run
from snippets.tools.testing import check_inside, recorded_accesses


def bug(device):
    """Add up two rows of five; nothing of ours lies behind them."""
    x = torch.arange(10.0, device=device).view(2, 5)
    run(row_sum_no_mask_bug, x, columns=5, BLOCK=8)
    return x


# --8<-- [start:cpu]
def on_the_cpu():
    with recorded_accesses() as accesses:
        x = bug("cpu")
    loads = [addresses for op, addresses in accesses if op == "load"]
    for program, addresses in enumerate(loads):
        elements = (addresses - x.data_ptr()) // x.itemsize
        print(f"program {program} loads elements", elements.tolist())
    check_inside(accesses, "load", x=x)
# --8<-- [end:cpu]


# --8<-- [start:gpu]
def on_the_gpu():
    options = ["--show-backtrace", "no", "--report-api-errors", "no"]
    program = [sys.executable, __file__, "bug"]
    # One allocation for each tensor, not a piece of a larger one.
    env = os.environ | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    command = ["compute-sanitizer", *options, *program]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    print("\n".join(essential(done.stdout)))
# --8<-- [end:gpu]


def essential(report: str) -> list[str]:
    """The first error of a report of compute-sanitizer, addresses replaced by 0x…, and the summary.

    >>> essential("========= Invalid __global__ read of size 4 bytes\\n=========     at k+0x70 in f.py:3\\n=========")
    ['Invalid __global__ read of size 4 bytes', '    at k+0x… in f.py:3']
    """
    lines = [re.sub(r"^=+ ?", "", line).rstrip() for line in report.splitlines() if line.startswith("=====")]
    lines = [re.sub(r"0x[0-9a-f]+", "0x…", line) for line in lines]
    lines = [re.sub(r"/\S*/(?=\w+\.py)", "", line) for line in lines]
    first = next((i for i, line in enumerate(lines) if line.startswith("Invalid")), len(lines))
    error = []
    for line in lines[first:]:
        if not line:
            break
        error.append(line)
    return error + [line for line in lines if line.startswith("ERROR SUMMARY")]


def main():
    device = "cuda" if isinstance(row_sum_no_mask_bug, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    if sys.argv[1:] == ["bug"]:
        bug(device)
        torch.cuda.synchronize()
    elif device == "cuda":
        on_the_gpu()
    else:
        try:
            on_the_cpu()
        except AssertionError as error:
            print(f"AssertionError: {error}")


if __name__ == "__main__":
    main()
