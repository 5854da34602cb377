# SPDX-License-Identifier: Apache-2.0
"""Faults planted in the kernels of ``testing.py``, and which check finds which. Do not copy these kernels.

Each wrong kernel is the sound one with one slip. The first table has a line for each of them and a column for each
check; the second sets three ways to compare a sum beside each other. On a GPU there is no list of accesses, so the
columns that need one are empty there.
"""

import torch
import triton
import triton.language as tl

from snippets.tools import testing


# --8<-- [start:factor]
@triton.jit
def scale_adds_bug(x_ptr, out_ptr, factor, n, BLOCK: tl.constexpr):
    start = tl.program_id(axis=0).to(tl.int64) * BLOCK
    offsets = start + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, factor + x, mask=mask)  # should multiply
# --8<-- [end:factor]


# --8<-- [start:tail]
@triton.jit
def scale_tail_bug(x_ptr, out_ptr, factor, n, BLOCK: tl.constexpr):
    start = tl.program_id(axis=0).to(tl.int64) * BLOCK
    offsets = start + tl.arange(0, BLOCK)
    mask = offsets < n // BLOCK * BLOCK  # forgets what is left over
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, factor * x, mask=mask)
# --8<-- [end:tail]


# --8<-- [start:store]
@triton.jit
def scale_store_bug(x_ptr, out_ptr, factor, n, BLOCK: tl.constexpr):
    start = tl.program_id(axis=0).to(tl.int64) * BLOCK
    offsets = start + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, factor * x)  # no mask
# --8<-- [end:store]


# --8<-- [start:accumulate]
@triton.jit
def scale_accumulates_bug(x_ptr, out_ptr, factor, n, BLOCK: tl.constexpr):
    start = tl.program_id(axis=0).to(tl.int64) * BLOCK
    offsets = start + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    before = tl.load(out_ptr + offsets, mask=mask)  # harmless if it is zero
    tl.store(out_ptr + offsets, before + factor * x, mask=mask)
# --8<-- [end:accumulate]


# --8<-- [start:load]
@triton.jit
def scale_load_bug(x_ptr, out_ptr, factor, n, BLOCK: tl.constexpr):
    start = tl.program_id(axis=0).to(tl.int64) * BLOCK
    offsets = start + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets)  # no mask
    tl.store(out_ptr + offsets, factor * x, mask=mask)
# --8<-- [end:load]


# --8<-- [start:overflow]
@triton.jit
def scale_overflow_bug(x_ptr, out_ptr, factor, n, BLOCK: tl.constexpr):
    start = tl.program_id(axis=0) * BLOCK  # 32 bits
    offsets = start + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, factor * x, mask=mask)
# --8<-- [end:overflow]


# --8<-- [start:lost]
@triton.jit
def sum_lost_bug(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    sums = tl.zeros((BLOCK,), dtype=x_ptr.dtype.element_ty)
    for start in range(0, n, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        sums += tl.load(x_ptr + offsets, mask=offsets < n - 1, other=0)  # loses the last term
    tl.store(out_ptr, tl.sum(sums))
# --8<-- [end:lost]


KERNELS = {
    "sound": testing.scale_kernel,
    "adds, not multiplies": scale_adds_bug,
    "skips the last block": scale_tail_bug,
    "stores without a mask": scale_store_bug,
    "adds to what was there": scale_accumulates_bug,
    "loads without a mask": scale_load_bug,
    "counts in 32 bits": scale_overflow_bug,
}
SUMS = [
    ("sound, 1,001 terms", testing.sum_kernel, "between 0 and 1", 1001),
    ("sound, 2,097,153 terms", testing.sum_kernel, "between 0 and 1", 2**21 + 1),
    ("sound, terms cancel", testing.sum_kernel, "canceling", 2**20),
    ("loses 1 of 1,001", sum_lost_bug, "between 0 and 1", 1001),
    ("loses 1 of 2,097,153", sum_lost_bug, "between 0 and 1", 2**21 + 1),
]


def line(label: str, cells, width: int) -> str:
    return label.ljust(24) + "".join(cell.center(width) for cell in cells).rstrip()


def main():
    device = "cuda" if isinstance(testing.scale_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    print(line("scale_kernel", testing.CHECKS, 9))
    words = {True: "CAUGHT", False: "-", None: ""}
    found = {label: testing.caught_by(kernel, device) for label, kernel in KERNELS.items()}
    for label, results in found.items():
        print(line(label, (words[result] for result in results.values()), 9))
    for check in testing.CHECKS:
        print(f"caught by {check}: {sum(bool(results[check]) for results in found.values())}")

    words = {True: "accepts", False: "REJECTS"}
    for number, (label, *case) in enumerate(SUMS):
        results = testing.verdicts(*case, device)
        if number == 0:
            print(line("sum_kernel", results, 15))
        print(line(label, (words[result] for result in results.values()), 15))


if __name__ == "__main__":
    main()
