# SPDX-License-Identifier: Apache-2.0
"""A read out of bounds that a GPU does not show, because the compiler moves it behind the mask of a later store.

``gather_kernel_bug`` copies rows of a table, ``out[i] = table[ids[i]]``. Six ids count, and behind them in their buffer
lies whatever was there before. Only the store has a mask.

Run it on a GPU with ``python debugging_hidden_bug.py``, or with ``TRITON_INTERPRET=1`` in the interpreter. With a
number after its name, that number is what lies behind the ids.
"""

import os
import re
import shutil
import signal
import subprocess
import sys

import torch
import triton
import triton.language as tl


# --8<-- [start:kernel]
@triton.jit
def gather_kernel_bug(out_ptr, table_ptr, ids_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ids = tl.load(ids_ptr + lanes)
    values = tl.load(table_ptr + ids)
    tl.store(out_ptr + lanes, values, mask=lanes < n)
# --8<-- [end:kernel]


COMPILED = isinstance(gather_kernel_bug, triton.JITFunction)


def gather(left_over: int) -> list[float]:
    device = "cuda" if COMPILED else "cpu"
    table = 10 * torch.arange(8.0, device=device)
    buffer = torch.full((8,), left_over, device=device)
    buffer[:6] = torch.tensor([3, 1, 4, 1, 5, 2])
    out = torch.empty(6, device=device)
    gather_kernel_bug[(2,)](out, table, buffer, 6, BLOCK=4)
    return out.tolist()


def child(left_over: int, wrapper=(), time_limit: float = 120) -> str:
    """Return the result of another process, or what ended it, or how many errors the sanitizer around it found."""
    command = [*wrapper, sys.executable, __file__, str(left_over)]
    environment = os.environ | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=time_limit)
    if done.returncode < 0:
        return f"ended by {signal.Signals(-done.returncode).name}"
    found = re.search(r"ERROR SUMMARY: (\d+ errors?)", done.stdout)
    return found[1] if found else (done.stdout or done.stderr).strip().rpartition("\n")[2]


def main():
    if COMPILED and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    print("zeros behind the ids:", gather(0))
    print("2**40 behind the ids:", child(2**40))
    if COMPILED and shutil.which("compute-sanitizer"):
        print("2**40, under compute-sanitizer:", child(2**40, ["compute-sanitizer"]))


if __name__ == "__main__":
    print(gather(int(sys.argv[1]))) if sys.argv[1:] and sys.argv[1].isdigit() else main()
