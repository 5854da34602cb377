# SPDX-License-Identifier: Apache-2.0
"""From "an illegal memory access was encountered" to its cause, each step a run of this file.

The kernels add up the prices of what is on a list of ids. The buffer of ids is larger than the list: six ids count,
and behind them lies whatever was there before. ``total_kernel_bug`` forgets that.

- ``python debugging_illegal_access_bug.py`` takes all the steps, each in a process of its own;
- ``python debugging_illegal_access_bug.py bug`` runs the wrong kernel once, ``… checked`` the same with an assertion
  that says why, ``… mended`` the right one.

On a GPU, or with ``TRITON_INTERPRET=1`` in the interpreter, which takes only the steps that need no GPU.
"""

import linecache
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import torch
import triton
import triton.language as tl

from snippets.tools.debugging import assert_all, print_if


# --8<-- [start:kernel]
@triton.jit
def total_kernel_bug(out_ptr, prices_ptr, ids_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    lanes = pid * BLOCK + tl.arange(0, BLOCK)
    ids = tl.load(ids_ptr + lanes)
    prices = tl.load(prices_ptr + ids)
    tl.store(out_ptr + pid, tl.sum(prices))
# --8<-- [end:kernel]


@triton.jit
def total_kernel_checked_bug(out_ptr, prices_ptr, ids_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    lanes = pid * BLOCK + tl.arange(0, BLOCK)
    # --8<-- [start:checked]
    ids = tl.load(ids_ptr + lanes)
    print_if("*", "ids", ids)
    assert_all((ids >= 0) & (ids < 8), "there are 8 prices")
    # --8<-- [end:checked]
    prices = tl.load(prices_ptr + ids)
    tl.store(out_ptr + pid, tl.sum(prices))


@triton.jit
def total_kernel(out_ptr, prices_ptr, ids_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    lanes = pid * BLOCK + tl.arange(0, BLOCK)
    # --8<-- [start:mended]
    mask = lanes < n
    ids = tl.load(ids_ptr + lanes, mask=mask, other=0)
    prices = tl.load(prices_ptr + ids, mask=mask, other=0.0)
    # --8<-- [end:mended]
    tl.store(out_ptr + pid, tl.sum(prices))


KERNELS = {"bug": total_kernel_bug, "checked": total_kernel_checked_bug, "mended": total_kernel}
COMPILED = isinstance(total_kernel, triton.JITFunction)


# --8<-- [start:host]
def totals(kernel, prices, ids, block=4):
    """The sum of ``prices[ids]``, in parts: one from each program."""
    parts = torch.empty(triton.cdiv(len(ids), block), device=prices.device)
    kernel[(len(parts),)](parts, prices, ids, len(ids), BLOCK=block)
    return parts


def work(kernel):
    device = "cuda" if COMPILED else "cpu"
    discounts = torch.ones(1000, device=device)
    prices = 2.0 ** torch.arange(8, device=device)
    buffer = torch.full((8,), 2**40, device=device)
    buffer[:6] = torch.tensor([3, 1, 4, 1, 5, 2])
    bill = totals(kernel, prices, buffer[:6])
    print("discounts:", discounts.sum().item())
    print("bill:", bill.sum().item())
# --8<-- [end:host]


# --8<-- [start:steps]
SANITIZER = ["compute-sanitizer", "--report-api-errors", "no", "--show-backtrace", "no"]
FAULTS = ["-X", "faulthandler"]  # has Python say where it was when it was brought down
UNCACHED = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
INTERPRETED = {"TRITON_INTERPRET": "1"}
STEPS = {  # what a step puts before python, Python's own options, the kernel, the environment
    "it fails": ([], [], "bug", {}),
    "launches that wait": ([], [], "bug", {"CUDA_LAUNCH_BLOCKING": "1"}),
    "the interpreter": ([], FAULTS, "bug", INTERPRETED),
    "the sanitizer": (SANITIZER, [], "bug", UNCACHED),
    "no line information": (SANITIZER, [], "bug", {"TRITON_DISABLE_LINE_INFO": "1", **UNCACHED}),
    "the cause": ([], [], "checked", INTERPRETED),
    "mended": (SANITIZER, [], "mended", UNCACHED),
}
# --8<-- [end:steps]


def command(wrapper, options, kernel, environment) -> str:
    """What a reader types for a step."""
    variables = [f"{name}={value}" for name, value in environment.items()]
    parts = [["$", *variables], wrapper, ["python", *options, Path(__file__).name, kernel]]
    return (" \\\n    " if wrapper else " ").join(" ".join(part) for part in parts if part)


def shortened(printed: str) -> list[str]:
    """What matters of the output of a step: our own file's lines and the last words, addresses replaced by 0x…

    Behind a line of a kernel that is only named by its number, ``←`` and its code are added.
    """
    lines = [re.sub(r"0x[0-9a-f]+", "0x…", line.rstrip()) for line in printed.splitlines() if line.strip()]
    lines = [re.sub(rf'[^\s"]*{re.escape(Path(__file__).name)}', Path(__file__).name, line) for line in lines]
    faults = [number for number, line in enumerate(lines) if line.startswith("========= Invalid")]
    if len(faults) > 1:  # every thread reports its own
        last = next((n for n, line in enumerate(lines) if "ERROR SUMMARY" in line), len(lines))
        lines[faults[1] : last] = [f"========= … {len(faults) - 1} more like it"]
    kept, skipped = [], False
    for number, line in enumerate(lines):
        frame = lines[number - 1] if number and line.startswith("    ") else line  # its second line is the code
        notable = re.match(NOTABLE, line) or (f'File "{Path(__file__).name}"' in frame and "in <module>" not in frame)
        if notable and not re.match(r"\s*[~^]+$", line):
            kept += ["  …"] * skipped + [line]
            if found := re.search(rf'{re.escape(Path(__file__).name)}(?:", line (\d+) in \w*kernel\w*|:(\d+))$', line):
                kept.append(f"        ← {linecache.getline(__file__, int(found[1] or found[2])).strip()}")
        skipped = not notable and not line.startswith("=====")
    return kept


NOTABLE = (
    r"Traceback|Fatal Python error|[\w.]*Error\b|RuntimeError|discounts:|bill:|pid \(|"
    r"=+ (Invalid|ERROR SUMMARY|…|\s+(at |by thread|Access|Address))"
)


def run(wrapper, options, kernel, environment, time_limit=200) -> list[str]:
    """Run one step in a process of its own and return what it printed, shortened."""
    inherited = {name: value for name, value in os.environ.items() if name not in INTERPRETED}
    done = subprocess.run(
        [*wrapper, sys.executable, *options, __file__, kernel],
        env=inherited | environment,
        capture_output=True,
        text=True,
        timeout=time_limit,
    )
    return shortened(done.stdout + done.stderr)


def main():
    if COMPILED and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    for name, step in STEPS.items():
        if not COMPILED and step[3] is not INTERPRETED:
            continue
        print("##", name)
        print(command(*step))
        if step[0] and not shutil.which(step[0][0]):
            print(f"{step[0][0]} is not installed; it comes with the CUDA toolkit")
        else:
            print("\n".join(run(*step)))


if __name__ == "__main__":
    work(KERNELS[sys.argv[1]]) if sys.argv[1:] and sys.argv[1] in KERNELS else main()
