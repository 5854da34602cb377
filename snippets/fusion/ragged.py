# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: SIM108, SIM300  a branch on a constant is what is shown; bounds are read from left to right
"""A tensor descriptor that ends where a sequence ends, for sequences packed one after another.

A plain descriptor knows where the tensor ends: a tile that goes beyond the end of a sequence gets the rows of the next
one. ``triton.tools.ragged_tma`` makes one descriptor for all sequences; each load says where
its sequence begins and how many rows it has, and gets zeros beyond.

Shapes: ``x`` is (rows of all sequences, width). A load gives (height, width).
Source: ``triton/tools/ragged_tma.py``.

Run it with ``python ragged.py``, on a GPU with a TMA (Hopper or newer), or with ``TRITON_INTERPRET=1`` on a CPU.
"""

import torch
import triton
import triton.language as tl
from triton.tools.ragged_tma import create_ragged_descriptor, load_ragged
from triton.tools.tensor_descriptor import TensorDescriptor


# --8<-- [start:kernel]
@triton.jit
def load_kernel(
    x, out_ptr, begin, rows, first,
    RAGGED: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    if RAGGED:
        tile = load_ragged(x, begin, rows, [first, 0])
    else:
        tile = x.load([begin + first, 0])
    offsets = (
        tl.arange(0, HEIGHT)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    )
    tl.store(out_ptr + offsets, tile)
# --8<-- [end:kernel]


# --8<-- [start:host]
def load(x: torch.Tensor, begin: int, rows: int, first: int, height: int, ragged: bool = True) -> torch.Tensor:
    """Return a tile of a sequence, as a kernel would load it.

    Args:
        x: ``(total, width)``, contiguous; a width that is a power of two, of 16 bytes at least.
        begin, rows: Where the sequence begins in ``x``, and how many rows it has.
        first: First row of the tile, counted from ``begin``, not beyond the sequence's end.
        height: Rows of the tile, a power of two up to 256.
        ragged: Whether the descriptor ends with the sequence, or with ``x``.

    Returns:
        ``(height, width)``; zeros beyond the end.

    Raises:
        ValueError: An argument is something else.

    >>> load(torch.ones(5, 4), begin=1, rows=2, first=0, height=4)[:, 0]
    tensor([1., 1., 0., 0.])
    """
    total, width = x.shape if x.ndim == 2 else (0, 0)
    if not x.is_contiguous() or width & (width - 1) or width * x.element_size() < 16:
        raise ValueError(
            f"x must be contiguous, (total, width), width a power of two of 16 bytes or more; got {tuple(x.shape)}"
        )
    if not (0 <= begin and 0 <= first <= rows and begin + rows <= total):
        raise ValueError(f"no such rows: begin {begin}, rows {rows}, first {first}, of {total}")
    if not 1 <= height <= 256 or height & (height - 1):
        raise ValueError(f"height must be a power of two up to 256; got {height}")
    out = torch.empty(height, width, dtype=x.dtype, device=x.device)
    block = [height, width]
    described = create_ragged_descriptor(x, block) if ragged else TensorDescriptor.from_tensor(x, block)
    with torch.cuda.device_of(x):
        load_kernel[(1,)](described, out, begin, rows, first, RAGGED=ragged, HEIGHT=height, WIDTH=width)
    return out
# --8<-- [end:host]


def main():
    device = "cuda" if isinstance(load_kernel, triton.JITFunction) else "cpu"
    x = torch.arange(1, 10, dtype=torch.float32, device=device)[:, None].expand(9, 4).contiguous()
    shown = lambda tile: " ".join(f"{number:.0f}" for number in tile[:, 0].tolist())
    print("## tiles of four rows")
    print("rows: 1 2 3 | 4 5 6 7 8 9")
    for name, ragged in (("plain", False), ("ragged", True)):
        print(f"{name}, first sequence: {shown(load(x, 0, 3, 0, 4, ragged))}")
        print(f"{name}, second sequence, from its fifth row: {shown(load(x, 3, 6, 4, 4, ragged))}")


if __name__ == "__main__":
    main()
