# SPDX-License-Identifier: Apache-2.0
"""A grouped order that forgets its last group: right whenever the rows of tiles are a multiple of ``GROUP_M``.

:func:`grouped_no_min_bug` takes every group to have ``GROUP_M`` rows of tiles. If the last one has fewer, some programs
take tiles that do not exist, where masks switch off all that they do, and as many tiles that do exist are nobody's.

Run it on a GPU with ``python grouped_bug.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import torch
import triton
import triton.language as tl


# --8<-- [start:bug]
@triton.jit
def grouped_no_min_bug(pid, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    programs = GROUP_M * tiles_n
    first_m = pid // programs * GROUP_M
    within = pid % programs
    return first_m + within % GROUP_M, within // GROUP_M
# --8<-- [end:bug]


@triton.jit
def order_bug_kernel(order_ptr, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    pid = tl.program_id(axis=0)
    pid_m, pid_n = grouped_no_min_bug(pid, tiles_m, tiles_n, GROUP_M)
    tl.store(order_ptr + pid_m * tiles_n + pid_n, pid, mask=pid_m < tiles_m)


def order_bug(tiles_m: int, tiles_n: int, group: int, device: str = "cpu") -> torch.Tensor:
    """Return which program takes which tile, ``(tiles_m, tiles_n)`` of int32; -1 is a tile that no program takes."""
    taken = torch.full((tiles_m, tiles_n), -1, dtype=torch.int32, device=device)
    order_bug_kernel[(tiles_m * tiles_n,)](taken, tiles_m, tiles_n, GROUP_M=group)
    return taken


def main():
    device = "cuda" if isinstance(order_bug_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    for rows in (5, 6):
        taken = order_bug(rows, 4, 3, device)
        print(f"## {rows} rows of tiles")
        for row in taken.tolist():
            print(*(f"{pid:3}" if pid >= 0 else "  ·" for pid in row))
        print(f"tiles that no program takes: {int((taken < 0).sum())}")


if __name__ == "__main__":
    main()
