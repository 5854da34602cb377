# SPDX-License-Identifier: Apache-2.0
"""A transpose through shared memory, whose tile lies there in a layout of your choice: with bank conflicts or without.

Shared memory has 32 banks of four bytes, and each gives or takes one word at a time. A tile of 32 x 32 numbers of four
bytes is stored row by row and loaded column by column:

- plain: row after row, so a column is in one bank
- padded: an empty word behind each row, so the next row begins in the next bank
- swizzled: an element's column is xored with its row, so a column is in 32 banks
- NVMMA: the swizzle of TMA and of wgmma, which keeps 16 bytes together

Shapes: ``x`` is (M, N), of a dtype of four bytes; the result is (N, M). Bytes moved: 2 * x.nbytes.
Source: ``SwizzledSharedLayout`` and ``PaddedSharedLayout`` in Gluon's source; banks in NVIDIA's CUDA Programming Guide.

Run it on a GPU with ``python shared_memory.py``: Triton's interpreter knows no Gluon.
"""

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from snippets.below.gluon_copy import check_on_gpu, offsets_of

TILE = 32

# --8<-- [start:threads]
# A warp has a row of the tile, or a column.
ROWS = gl.BlockedLayout([1, 1], [1, 32], [4, 1], order=[1, 0])
COLUMNS = gl.BlockedLayout([1, 1], [32, 1], [1, 4], order=[0, 1])
# --8<-- [end:threads]


# --8<-- [start:layouts]
def swizzled(vec: int, per_phase: int, max_phase: int):
    """Return the layout that puts column c at c ^ phase * vec."""
    return gl.SwizzledSharedLayout(vec, per_phase, max_phase, order=[1, 0])


def padded(words: int):
    """Return the layout with that many empty words after each row."""
    return gl.PaddedSharedLayout.with_identity_for(
        [[TILE, words]], [TILE, TILE], order=[1, 0]
    )


LAYOUTS = {
    "plain": swizzled(1, 1, 1),
    "padded": padded(1),
    "swizzled": swizzled(1, 1, 32),
    "NVMMA": gl.NVMMASharedLayout(128, 32, rank=2),
}
# --8<-- [end:layouts]


# --8<-- [start:kernel]
@gluon.jit
def transpose_kernel(
    x_ptr, out_ptr, M, N, stride_m, stride_n,
    TILE: gl.constexpr, ROWS: gl.constexpr, COLUMNS: gl.constexpr,
    SHARED: gl.constexpr,
):  # fmt: skip
    tiles_n = gl.cdiv(N, TILE)
    row = (gl.program_id(0) // tiles_n).to(gl.int64) * TILE
    column = (gl.program_id(0) % tiles_n).to(gl.int64) * TILE
    offsets, mask = offsets_of(
        row, column, stride_m, stride_n, M, N, TILE, ROWS
    )  # fmt: skip
    x = gl.load(x_ptr + offsets, mask=mask)
    tile = gl.allocate_shared_memory(x.dtype, [TILE, TILE], SHARED)
    tile.store(x)  # each warp a row at a time
    x = tile.load(COLUMNS)  # each warp a column at a time
    offsets, mask = offsets_of(row, column, 1, M, M, N, TILE, COLUMNS)
    gl.store(out_ptr + offsets, x, mask=mask)
# --8<-- [end:kernel]


# --8<-- [start:transpose]
def transpose(
    x: torch.Tensor, shared=LAYOUTS["swizzled"]
) -> torch.Tensor:  # fmt: skip
    """Return ``x.t()``, its rows one after another in memory.

    Args:
        x: (M, N) on a GPU, of a dtype of four bytes, of any strides. It is read fastest if its rows are contiguous.
        shared: How a tile of 32 x 32 lies in shared memory: one of Gluon's layouts, such as those of ``LAYOUTS``.

    Raises:
        ValueError: The arguments are not as above.
    """
    check_on_gpu(x=x)
    if x.ndim != 2 or x.itemsize != 4 or x.is_complex():
        raise ValueError(f"x must be a matrix of a dtype of four bytes; got {tuple(x.shape)} of {x.dtype}")
    if not isinstance(shared, tuple({type(layout) for layout in LAYOUTS.values()})):
        raise ValueError(f"shared must be one of Gluon's layouts of shared memory; got {shared!r}")
    M, N = x.shape
    out = x.new_empty(N, M)
    tiles = triton.cdiv(M, TILE) * triton.cdiv(N, TILE)
    if tiles:
        with torch.cuda.device_of(x):
            transpose_kernel[(tiles,)](
                x, out, M, N, *x.stride(),
                TILE=TILE, ROWS=ROWS, COLUMNS=COLUMNS, SHARED=shared, num_warps=4,
            )  # fmt: skip
    return out
# --8<-- [end:transpose]


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; Gluon runs on a GPU only")
    x = torch.randn(1000, 777, device="cuda")
    for name, layout in LAYOUTS.items():
        print(f"{name}, equal to x.t(): {torch.equal(transpose(x, layout), x.t())}")


if __name__ == "__main__":
    main()
