# SPDX-License-Identifier: Apache-2.0
"""A copy in Triton, and the same copy in Gluon, where the kernel says which thread holds which element.

- :func:`copy`: elements in a row, ``per_thread`` neighbors for each thread
- :func:`copy_tiles`: a matrix in tiles of 64 x 64, of any strides. It is loaded in one layout and stored in another, if
  you like, and converted in between

Shapes: ``x`` and ``out`` have the same, of any dtype that Triton has. Bytes moved: 2 * x.nbytes.
Source: ``BlockedLayout`` in Gluon's documentation.

Run it on a GPU with ``python gluon_copy.py``: Triton's interpreter knows no Gluon.
"""

import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

BLOCK, TILE = 4096, 64
WARP = 32  # threads; on AMD's GPUs for data centers 64


# --8<-- [start:triton]
@triton.jit
def copy_in_triton(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * BLOCK
    offsets = start + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x, mask=mask)
# --8<-- [end:triton]


# --8<-- [start:gluon]
@gluon.jit
def copy_in_gluon(
    x_ptr, out_ptr, n, BLOCK: gl.constexpr, LAYOUT: gl.constexpr
):  # fmt: skip
    start = gl.program_id(0).to(gl.int64) * BLOCK
    offsets = start + gl.arange(0, BLOCK, layout=LAYOUT)
    mask = offsets < n
    x = gl.load(x_ptr + offsets, mask=mask)
    gl.store(out_ptr + offsets, x, mask=mask)
# --8<-- [end:gluon]


# --8<-- [start:row]
def row(per_thread: int, num_warps: int = 4) -> gl.BlockedLayout:
    """Give each thread that many neighbors, one thread after another."""
    return gl.BlockedLayout(
        size_per_thread=[per_thread],
        threads_per_warp=[WARP],
        warps_per_cta=[num_warps],
        order=[0],
    )
# --8<-- [end:row]


# --8<-- [start:copy]
def copy(
    x: torch.Tensor, *, per_thread: int = 4, num_warps: int = 4
) -> torch.Tensor:  # fmt: skip
    """Return a copy of ``x``, made by :func:`copy_in_gluon`.

    Args:
        x: On a GPU, contiguous.
        per_thread: Neighbors that a thread holds, a power of two.
        num_warps: Warps of a program, a power of two up to 16.

    Raises:
        ValueError: The arguments are not as above.
    """
    check_on_gpu(x=x)
    if not x.is_contiguous():
        raise ValueError(f"x must be contiguous, or use copy_tiles; got strides {x.stride()}")
    if num_warps not in (1, 2, 4, 8, 16):
        raise ValueError(f"num_warps must be a power of two up to 16; got {num_warps}")
    if per_thread < 1 or per_thread & (per_thread - 1) or per_thread * WARP * num_warps > BLOCK:
        most = BLOCK // (WARP * num_warps)
        raise ValueError(f"per_thread must be a power of two up to {most}, for {num_warps} warps; got {per_thread}")
    out = torch.empty_like(x)
    if x.numel():
        grid = (triton.cdiv(x.numel(), BLOCK),)
        layout = row(per_thread, num_warps)
        with torch.cuda.device_of(x):
            copy_in_gluon[grid](x, out, x.numel(), BLOCK=BLOCK, LAYOUT=layout, num_warps=num_warps)
    return out
# --8<-- [end:copy]


# --8<-- [start:tiles]
@gluon.jit
def offsets_of(row, column, stride_m, stride_n, M, N, TILE, LAYOUT):
    """Return where a tile's elements are, and which of them exist."""
    rows = row + gl.arange(0, TILE, layout=gl.SliceLayout(1, LAYOUT))
    columns = column + gl.arange(0, TILE, layout=gl.SliceLayout(0, LAYOUT))
    offsets = rows[:, None] * stride_m + columns[None, :] * stride_n
    return offsets, (rows < M)[:, None] & (columns < N)[None, :]


@gluon.jit
def tiles_kernel(
    x_ptr, out_ptr, M, N,
    x_stride_m, x_stride_n, out_stride_m, out_stride_n,
    TILE: gl.constexpr, LOAD: gl.constexpr, STORE: gl.constexpr,
):  # fmt: skip
    tiles_n = gl.cdiv(N, TILE)
    row = (gl.program_id(0) // tiles_n).to(gl.int64) * TILE
    column = (gl.program_id(0) % tiles_n).to(gl.int64) * TILE
    offsets, mask = offsets_of(
        row, column, x_stride_m, x_stride_n, M, N, TILE, LOAD
    )  # fmt: skip
    x = gl.load(x_ptr + offsets, mask=mask)
    x = gl.convert_layout(x, STORE)
    offsets, mask = offsets_of(
        row, column, out_stride_m, out_stride_n, M, N, TILE, STORE
    )  # fmt: skip
    gl.store(out_ptr + offsets, x, mask=mask)
# --8<-- [end:tiles]


# --8<-- [start:named]
def along_rows(num_warps: int = 4) -> gl.BlockedLayout:
    """Four neighbors of a row for each thread, 16 threads for a row."""
    return gl.BlockedLayout([1, 4], [2, 16], [num_warps, 1], order=[1, 0])


def along_columns(num_warps: int = 4) -> gl.BlockedLayout:
    """The same, transposed."""
    return gl.BlockedLayout([4, 1], [16, 2], [1, num_warps], order=[0, 1])
# --8<-- [end:named]


LAYOUTS = {"rows": along_rows(), "columns": along_columns()}


def copy_tiles(x: torch.Tensor, out: torch.Tensor, *, load: str = "rows", store: str = "rows") -> None:
    """Copy a matrix into another, both of any strides.

    Args:
        x: Read, on a GPU.
        out: Written: of the shape and dtype of ``x``, on the same GPU.
        load: "rows" or "columns": along which the threads load.
        store: "rows" or "columns": along which they store. If they differ, values change threads in between.

    Raises:
        ValueError: The arguments are not as above.
    """
    check_on_gpu(x=x, out=out)
    if x.ndim != 2 or x.shape != out.shape or x.dtype != out.dtype or x.device != out.device:
        raise ValueError(f"out must be a matrix like x, {tuple(x.shape)} of {x.dtype} on {x.device}; "
                         f"got {tuple(out.shape)} of {out.dtype} on {out.device}")  # fmt: skip
    for name, layout in (("load", load), ("store", store)):
        if layout not in LAYOUTS:
            raise ValueError(f"{name} must be one of {list(LAYOUTS)}; got {layout!r}")
    M, N = x.shape
    tiles = triton.cdiv(M, TILE) * triton.cdiv(N, TILE)
    if tiles:
        with torch.cuda.device_of(x):
            tiles_kernel[(tiles,)](
                x, out, M, N, *x.stride(), *out.stride(),
                TILE=TILE, LOAD=LAYOUTS[load], STORE=LAYOUTS[store], num_warps=4,
            )  # fmt: skip


def check_on_gpu(**tensors: torch.Tensor) -> None:
    for name, tensor in tensors.items():
        if not tensor.is_cuda:
            raise ValueError(f"{name} must be on a GPU, for Gluon has no interpreter; it is on {tensor.device}")


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; Gluon runs on a GPU only")
    print("## eight numbers of a thousand")
    x = torch.arange(1000.0, device="cuda")
    for per_thread in (1, 2, 4, 8):
        out = copy(x, per_thread=per_thread)
        print(f"{per_thread} for each thread: {out[-8:].int().tolist()}, all equal: {torch.equal(out, x)}")
    print("## tiles")
    x = torch.randn(1000, 777, device="cuda")
    for name, out in (("as it is", torch.empty_like(x)), ("transposed", torch.empty_like(x.t()).t())):
        for load in LAYOUTS:
            for store in LAYOUTS:
                copy_tiles(x, out.zero_(), load=load, store=store)
                print(f"{name}, loaded along {load}, stored along {store}: equal: {torch.equal(out, x)}")


if __name__ == "__main__":
    main()
