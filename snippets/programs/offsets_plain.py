# SPDX-License-Identifier: Apache-2.0
"""Copy a matrix with any strides into a contiguous one, ``out[i, j] = x[i, j]``: the plainest kernel in two dimensions.

A program takes one tile. Where an element lies follows from its row, its column and the strides:
``offset = i * stride_row + j * stride_column``. ``offsets.py`` does the same for batches and beyond 2**31 elements.

Shapes: ``x`` is a matrix with any strides; the result has the same shape.
Traffic: each element is read once and written once.
Source: strides are PyTorch's, counted in elements.

Run it on a GPU with ``python offsets_plain.py``, or without one in Triton's interpreter with
``TRITON_INTERPRET=1 python offsets_plain.py``.
"""

import torch
import triton
import triton.language as tl

# Copying is about bits, not about numbers: elements are moved as integers of their size in bytes.
INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


# --8<-- [start:kernel]
@triton.jit
def copy_matrix_kernel(
    x_ptr, out_ptr, n_rows, n_columns, stride_row, stride_column,
    BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr,
):  # fmt: skip
    # --8<-- [start:body]
    rows = tl.program_id(axis=1) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    columns = tl.program_id(axis=0) * BLOCK_COLUMNS + tl.arange(
        0, BLOCK_COLUMNS
    )
    rows, columns = rows[:, None], columns[None, :]
    mask = (rows < n_rows) & (columns < n_columns)
    tile = tl.load(
        x_ptr + rows * stride_row + columns * stride_column, mask=mask
    )
    tl.store(out_ptr + rows * n_columns + columns, tile, mask=mask)
    # --8<-- [end:body]
# --8<-- [end:kernel]


# --8<-- [start:host]
def copy_matrix(x: torch.Tensor, *, block: tuple[int, int] = (64, 64)) -> torch.Tensor:
    """Return a contiguous copy of the matrix ``x``.

    Args:
        x: A matrix on a GPU (or, in the interpreter, on the CPU) with any strides and any dtype of 1, 2, 4 or 8 bytes.
            No element, of ``x`` or of the result, may lie 2**31 or more elements behind the first.
        block: Rows and columns of the tile of one program, each a power of two, together at most 64 KiB.

    Returns:
        A new tensor with the shape, dtype and device of ``x``. The kernel may still be running when it is returned.

    Raises:
        ValueError: If ``x`` or ``block`` is something the kernel can't serve.

    >>> copy_matrix(torch.arange(6).view(2, 3).t()).tolist()
    [[0, 3], [1, 4], [2, 5]]
    """
    check_matrix(x)
    check_block(block, x)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out  # nothing to launch
    bits, out_bits = x.detach().view(INTEGERS[x.itemsize]), out.view(INTEGERS[x.itemsize])
    # Triton launches on the current device, which may not be that of x.
    with torch.cuda.device_of(x):
        # --8<-- [start:launch]
        n_rows, n_columns = x.shape
        tiles_across = triton.cdiv(n_columns, block[1])
        tiles_down = triton.cdiv(n_rows, block[0])
        copy_matrix_kernel[(tiles_across, tiles_down)](
            bits, out_bits, n_rows, n_columns, *x.stride(),
            BLOCK_ROWS=block[0], BLOCK_COLUMNS=block[1],
        )  # fmt: skip
        # --8<-- [end:launch]
    return out
# --8<-- [end:host]


def check_matrix(x: torch.Tensor) -> None:
    """Raise ``ValueError`` for a tensor that the kernel would copy wrongly or not at all."""
    if x.ndim != 2:
        raise ValueError(f"x has shape {tuple(x.shape)}; it takes a matrix")
    if x.itemsize not in INTEGERS:
        raise ValueError(f"dtype {x.dtype} has {x.itemsize} bytes; it takes dtypes of 1, 2, 4 or 8")
    if x.layout != torch.strided:
        raise ValueError(f"x has layout {x.layout}, which has no strides; pass x.to_dense()")
    if x.device.type not in ("cuda", "cpu"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"x is on {x.device}; move it to a GPU, as in x.cuda()")
    if x.device.type == "cpu" and isinstance(copy_matrix_kernel, triton.JITFunction):
        raise ValueError("x is on the CPU; move it to a GPU, or set TRITON_INTERPRET=1 before importing this file")
    if x.is_neg():  # its memory doesn't have the sign applied yet
        raise ValueError("x is negated lazily; pass x.resolve_neg()")
    if x.is_conj():
        raise ValueError("x is conjugated lazily; pass x.resolve_conj()")
    if x.requires_grad and torch.is_grad_enabled():
        raise ValueError("x requires a gradient, which this function does not compute; use torch.no_grad()")
    last = sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True))
    if max(last, x.numel() - 1) >= 2**31:  # the kernel computes offsets in 32 bits
        raise ValueError(f"the last element has offset {max(last, x.numel() - 1)}; it takes offsets below 2**31")


def check_block(block: tuple[int, int], x: torch.Tensor) -> None:
    """Raise ``ValueError`` for a tile that Triton cannot make, or of which ``x`` has too many."""
    if len(block) != 2 or not all(isinstance(side, int) and side > 0 and side & (side - 1) == 0 for side in block):
        raise ValueError(f"block must be two powers of two, rows and columns; got {block}")
    if block[0] * block[1] * x.itemsize > 2**16:  # a tile may have to go through shared memory
        raise ValueError(f"block {block} has {block[0] * block[1] * x.itemsize} bytes; it takes at most 2**16")
    if triton.cdiv(x.shape[0], block[0]) > 65535:  # CUDA's limit along axis 1; along axis 0 it is 2**31 - 1
        raise ValueError(f"{x.shape[0]} rows are too many for tiles of {block[0]}; it takes at most 65,535 tiles down")


# --8<-- [start:main]
def main():
    device = "cuda" if isinstance(copy_matrix_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    numbers = torch.arange(24, dtype=torch.int32, device=device)
    x, wide = numbers[:15].view(3, 5), numbers.view(3, 8)
    for name, matrix, block in (("x", x, (2, 4)), ("x.t()", x.t(), (4, 2)), ("wide[:, 1:6:2]", wide[:, 1:6:2], (2, 4))):
        print("##", name)
        print(f"shape {tuple(matrix.shape)}, strides {matrix.stride()}")
        for row in copy_matrix(matrix, block=block).tolist():
            print(row)
# --8<-- [end:main]


if __name__ == "__main__":
    main()
