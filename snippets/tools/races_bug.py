# SPDX-License-Identifier: Apache-2.0
"""Races between programs, and what Triton's Global Memory Sanitizer (GSan) says of each. Do not copy from here.

A kernel named ``…_bug`` has a race; the one behind it does the same without. Each runs in a process of its own, as
``python -m triton.tools.gsan races_bug.py CASE`` would run it, for the first report ends the process. What is reported
is printed with the line of this file that it names.

Run it with ``python races_bug.py``, on an NVIDIA GPU under Triton 3.9 or newer.
Source: Triton's sanitizer, https://github.com/triton-lang/triton/tree/main/python/triton/experimental/gsan.
"""

import linecache
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import torch
import triton
import triton.language as tl

REPORT = re.compile(r"races_bug\.py:(\d+):.*Assertion `(.*?)` failed")
PROGRAMS = 256


# --8<-- [start:counter]
@triton.jit
def counter_bug(counter_ptr):
    tl.store(counter_ptr, tl.load(counter_ptr) + 1)


@triton.jit
def counter(counter_ptr):
    tl.atomic_add(counter_ptr, 1)
# --8<-- [end:counter]


# --8<-- [start:overlap]
@triton.jit
def overlap_bug(x_ptr, BLOCK: tl.constexpr):
    first = tl.program_id(0) * (BLOCK - 1)  # a block's last element is the next one's first
    tl.store(x_ptr + first + tl.arange(0, BLOCK), 1)


@triton.jit
def apart(x_ptr, BLOCK: tl.constexpr):
    first = tl.program_id(0) * BLOCK
    tl.store(x_ptr + first + tl.arange(0, BLOCK), 1)
# --8<-- [end:overlap]


# --8<-- [start:flag]
@triton.jit
def hand_over(box_ptr, flag_ptr, out_ptr, WRITE: tl.constexpr, READ: tl.constexpr):
    block = tl.arange(0, 128)
    if tl.program_id(0) == 0:
        tl.store(box_ptr + block, block)
        tl.debug_barrier()  # all threads have stored
        tl.atomic_store(flag_ptr, 1, sem=WRITE)
    else:
        tl.atomic_poll(flag_ptr, 1, sem=READ)
        tl.store(out_ptr + block, tl.load(box_ptr + block))
# --8<-- [end:flag]


# --8<-- [start:lanes]
@triton.jit
def lanes_bug(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x_ptr + i, i)
    tl.store(out_ptr + i, tl.load(x_ptr + N - 1 - i))  # other threads stored these
# --8<-- [end:lanes]


def numbers(n: int) -> torch.Tensor:
    return torch.zeros(n, dtype=torch.int32, device="cuda")


def handed_over(write: str, read: str) -> None:
    hand_over[(2,)](numbers(128), numbers(1), numbers(128), WRITE=write, READ=read)


# --8<-- [start:cases]
CASES = {
    "one element, load and store": lambda: counter_bug[(PROGRAMS,)](numbers(1)),
    "one element, tl.atomic_add": lambda: counter[(PROGRAMS,)](numbers(1)),
    "blocks that overlap by one": lambda: overlap_bug[(PROGRAMS,)](numbers(2**16), BLOCK=128),
    "blocks side by side": lambda: apart[(PROGRAMS,)](numbers(2**16), BLOCK=128),
    "a flag, relaxed": lambda: handed_over("relaxed", "relaxed"),
    "a flag, release and relaxed": lambda: handed_over("release", "relaxed"),
    "a flag, release and acquire": lambda: handed_over("release", "acquire"),
    "threads of one program, no barrier": lambda: lanes_bug[(1,)](numbers(8192), numbers(8192), N=8192, num_warps=16),
}
# --8<-- [end:cases]


def run(case: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "triton.tools.gsan", __file__, case]
    return subprocess.run(command, capture_output=True, text=True)


def reports(text: str) -> list[str]:
    """Return each race once, with its line of this file, in the order of the lines.

    >>> reports("races_bug.py:1: : block: [1,0,0], thread: [0,0,0] Assertion `Write after read race detected` failed.")
    ['Write after read race detected: # SPDX-License-Identifier: Apache-2.0']
    """
    found = sorted({(int(line), what) for line, what in REPORT.findall(text)})
    return [f"{what}: {linecache.getline(__file__, line).strip()}" for line, what in found]


def verdict(done: subprocess.CompletedProcess) -> str:
    """Return what a run came to: its reports, ``no report``, or the last line of another error."""
    if done.returncode == 0:
        return "no report"
    return "; ".join(reports(done.stderr)) or f"failed: {(done.stderr.splitlines() or ['no message'])[-1]}"


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; the sanitizer takes one")
    if len(sys.argv) > 1:
        CASES[sys.argv[1]]()
        return torch.cuda.synchronize()
    print("## What GSan says")
    with ThreadPoolExecutor(max_workers=4) as pool:  # each takes seconds, most of them to begin
        for case, done in zip(CASES, pool.map(run, CASES), strict=True):
            print(f"  {case}\n    says: {verdict(done)}", flush=True)


if __name__ == "__main__":
    main()
