# SPDX-License-Identifier: Apache-2.0
"""``tl.swizzle2d`` beside the grouped order of ``grouped.py``, and on a grid of two axes.

With one axis, a program's pid says when it starts, roughly. With two there are two pids, and something must count one
of them first. The number of a program is here ``i + j * tiles_m``: axis 0 first, as CUDA numbers its thread blocks.
Triton's interpreter counts axis 0 last.

Source: the matmul and the swizzle of lecture 14 of the GPU MODE series, which launch on two axes.

Run it on a GPU with ``python grouped_two_axes.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import torch
import triton
import triton.language as tl

from snippets.matmul.grouped import order, tile_order, tile_reads


# --8<-- [start:kernel]
@triton.jit
def two_axes_kernel(number_ptr, GROUP_M: tl.constexpr):
    i, j = tl.program_id(axis=0), tl.program_id(axis=1)
    tiles_m, tiles_n = tl.num_programs(axis=0), tl.num_programs(axis=1)
    number = i + j * tiles_m  # axis 0 counts first
    pid_m, pid_n = tl.swizzle2d(i, j, tiles_m, tiles_n, GROUP_M)
    tl.store(number_ptr + pid_m * tiles_n + pid_n, number)
# --8<-- [end:kernel]


def numbered(tiles_m: int, tiles_n: int, group: int, *, device: str = "cpu") -> torch.Tensor:
    """Return the number of the program that takes each tile, ``(tiles_m, tiles_n)`` of int32.

    The grid is ``(tiles_m, tiles_n)``. A ``group`` of 1 leaves each program where it is.
    """
    taken = torch.empty((tiles_m, tiles_n), dtype=torch.int32, device=device)
    with torch.cuda.device_of(taken):
        two_axes_kernel[(tiles_m, tiles_n)](taken, GROUP_M=group)
    return taken


def in_order(taken: torch.Tensor) -> list[tuple[int, int]]:
    """Return the tile of program 0, of program 1 and so on: the form that ``tile_reads`` takes."""
    columns = taken.shape[1]
    return [divmod(tile, columns) for tile in taken.flatten().argsort().tolist()]


def main():
    device = "cuda" if isinstance(two_axes_kernel, triton.JITFunction) else "cpu"
    print("## 5 × 4 tiles in groups of 3")
    print("our grouped         tl.swizzle2d")
    ours, built_in = order(5, 4, 3, device=device), order(5, 4, 3, swizzle2d=True, device=device)
    for row, other in zip(ours.tolist(), built_in.tolist(), strict=True):
        print(*(f"{pid:3}" for pid in row), "   ", *(f"{pid:3}" for pid in other))
    print(f"tiles that differ: {int((ours != built_in).sum())}")

    for tiles_m, tiles_n in (9, 9), (9, 10):
        orders = {
            "two axes": in_order(numbered(tiles_m, tiles_n, 1, device=device)),
            "two axes, tl.swizzle2d": in_order(numbered(tiles_m, tiles_n, 3, device=device)),
            "one axis, groups of 3": tile_order(tiles_m, tiles_n, 3),
        }
        for name, tiles in orders.items():
            label = f"{tiles_m} × {tiles_n}, {name}"
            print(f"## {label}")
            first = {tile: number for number, tile in enumerate(tiles[:9])}
            for m in range(tiles_m):
                print(*(first.get((m, n), "·") for n in range(tiles_n)))
            print(f"{label}, the first nine read: {tile_reads(tiles[:9], 9, resident=9).misses}")
            print(f"{label}, all read: {tile_reads(tiles, 9, resident=9, cache=60).misses}")


if __name__ == "__main__":
    main()
