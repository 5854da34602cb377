# SPDX-License-Identifier: Apache-2.0
"""Use masks: sums, maxima and products of rows of any length, padding, and a store that picks its elements.

A masked load keeps the shape of its block, and lanes that are off get ``other``. In a reduction, ``other`` has to be
a value that doesn't change the result: 0 for a sum, 1 for a product, the lowest value of the dtype for a maximum.

- :func:`row_sum`, :func:`row_max`, :func:`row_prod`: over each row of a tensor ``(rows, columns)`` with any strides
- :func:`pad`: a 1-D tensor, extended with ``other`` to a multiple of the block
- :func:`relu_`: sets every element that isn't above zero to zero, in place, with a mask that depends on the data

A program reduces ``ROWS`` whole rows, one tile of ``ROWS × COLUMNS`` elements at a time. That is good for many rows.
With a few very long ones, most of a GPU has nothing to do; there ``torch.sum`` also splits the rows.
Traffic: each element is read once, and one result per row is written.
Source: the results are those of ``torch.sum``, ``torch.amax`` and ``torch.prod``, including NaN.

Run it on a GPU with ``python masks.py``, or with ``TRITON_INTERPRET=1 python masks.py`` in Triton's interpreter.
"""

import math

import torch
import triton
import triton.language as tl

DTYPES = (
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
    torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64,
)  # fmt: skip
TRITON = {dtype: getattr(tl, str(dtype).removeprefix("torch.")) for dtype in DTYPES}


# --8<-- [start:row_sum]
@triton.jit
def row_sum_kernel(
    x_ptr, out_ptr, rows, columns, stride_row, stride_column,
    DTYPE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    # --8<-- [start:loop]
    row = tl.program_id(axis=0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    total = tl.zeros((ROWS, COLUMNS), DTYPE)  # one sum per lane
    for start in range(0, columns, COLUMNS):
        column = (start + tl.arange(0, COLUMNS)).to(tl.int64)
        offsets = (
            row[:, None] * stride_row + column[None, :] * stride_column
        )
        mask = (row[:, None] < rows) & (column[None, :] < columns)
        total += tl.load(x_ptr + offsets, mask=mask, other=0)
    tl.store(out_ptr + row, tl.sum(total, axis=1), mask=row < rows)
    # --8<-- [end:loop]
# --8<-- [end:row_sum]


# --8<-- [start:row_max]
# --8<-- [start:larger]
@triton.jit
def larger(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
# --8<-- [end:larger]


@triton.jit
def row_max_kernel(
    x_ptr, out_ptr, rows, columns, stride_row, stride_column,
    LOWEST: tl.constexpr, DTYPE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(axis=0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    # --8<-- [start:row_max_loop]
    best = tl.full((ROWS, COLUMNS), LOWEST, DTYPE)
    for start in range(0, columns, COLUMNS):
        column = (start + tl.arange(0, COLUMNS)).to(tl.int64)
        offsets = row[:, None] * stride_row + column[None, :] * stride_column
        mask = (row[:, None] < rows) & (column[None, :] < columns)
        best = larger(best, tl.load(x_ptr + offsets, mask=mask, other=LOWEST))
    tl.store(out_ptr + row, tl.reduce(best, 1, larger), mask=row < rows)
    # --8<-- [end:row_max_loop]
# --8<-- [end:row_max]


# --8<-- [start:row_prod]
# --8<-- [start:multiply]
@triton.jit
def multiply(a, b):
    return a * b
# --8<-- [end:multiply]


@triton.jit
def row_prod_kernel(
    x_ptr, out_ptr, rows, columns, stride_row, stride_column,
    DTYPE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(axis=0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    # --8<-- [start:row_prod_loop]
    product = tl.full((ROWS, COLUMNS), 1, DTYPE)
    for start in range(0, columns, COLUMNS):
        column = (start + tl.arange(0, COLUMNS)).to(tl.int64)
        offsets = row[:, None] * stride_row + column[None, :] * stride_column
        mask = (row[:, None] < rows) & (column[None, :] < columns)
        product = multiply(product, tl.load(x_ptr + offsets, mask=mask, other=1))
    tl.store(out_ptr + row, tl.reduce(product, 1, multiply), mask=row < rows)
    # --8<-- [end:row_prod_loop]
# --8<-- [end:row_prod]


# --8<-- [start:hosts]
def row_sum(x: torch.Tensor, *, tile: tuple[int, int] | None = None) -> torch.Tensor:
    """Return the sum of each row, like ``x.sum(dim=1)``. Integers give int64; float16 and bfloat16 add in float32.

    Args:
        x: ``(rows, columns)`` on a GPU (in the interpreter, on the CPU), with one of ``DTYPES`` and any strides.
        tile: Rows and columns that a program loads at a time, powers of two, at most 2**16 elements. The default has
            2,048 elements and is as wide as the rows, up to 1,024.

    Returns:
        A new tensor ``(rows,)`` of the dtype of ``x``, or int64 for integers. A row without columns has the sum 0.
        torch adds in another order, so floats may differ in the last digits. A NaN makes the sum of its row NaN.

    Raises:
        ValueError: If ``x`` or ``tile`` is something the kernel can't serve.

    >>> row_sum(torch.tensor([[1.0, 2.0, 3.0], [-1.0, -2.0, -4.0]]))
    tensor([ 6., -7.])
    """
    dtype = x.dtype if x.is_floating_point() else torch.int64
    return reduce_rows(row_sum_kernel, x, tile, dtype)


def row_max(x: torch.Tensor, *, tile: tuple[int, int] | None = None) -> torch.Tensor:
    """Return the maximum of each row, like ``x.amax(dim=1)``. A NaN makes the maximum of its row NaN.

    Arguments and errors are those of :func:`row_sum`. A row without columns has no maximum and is refused as well.
    The result is exact and has the dtype of ``x``. (If a row has both 0.0 and -0.0, either may be returned.)

    >>> row_max(torch.tensor([[1.0, 5.0, 3.0], [-1.0, -2.0, -4.0]]))
    tensor([ 5., -1.])
    """
    if x.ndim == 2 and x.shape[1] == 0:
        raise ValueError(f"x has the shape {tuple(x.shape)}: a row of no columns has no maximum")
    lowest = -math.inf if x.is_floating_point() or x.dtype not in DTYPES else torch.iinfo(x.dtype).min
    return reduce_rows(row_max_kernel, x, tile, x.dtype, LOWEST=lowest)


def row_prod(x: torch.Tensor, *, tile: tuple[int, int] | None = None) -> torch.Tensor:
    """Return the product of each row, like ``x.prod(dim=1)``. Integers give int64, which wraps around.

    Arguments, result and errors are those of :func:`row_sum`. A row without columns has the product 1.

    >>> row_prod(torch.tensor([[1.0, 5.0, 3.0], [-1.0, -2.0, -4.0]]))
    tensor([15., -8.])
    """
    dtype = x.dtype if x.is_floating_point() else torch.int64
    return reduce_rows(row_prod_kernel, x, tile, dtype)
# --8<-- [end:hosts]


def reduce_rows(kernel, x, tile, dtype, **constants):
    """Launch one of the three kernels over the rows of ``x``. The result has the given ``dtype``."""
    check_arguments(x, 2)
    rows, columns = x.shape
    if columns > 2**31 - 2**16:
        raise ValueError(f"{columns} columns are too many for one program; split the rows and reduce twice")
    if tile is None:
        width = min(1024, triton.next_power_of_2(max(columns, 1)))
        tile = 2048 // width, width
    for size in tile:
        if not isinstance(size, int) or not 1 <= size <= 2**16 or size & (size - 1) or tile[0] * tile[1] > 2**16:
            raise ValueError(f"tile must be two powers of two with a product of at most 2**16; got {tile}")
    if rows > tile[0] * (2**31 - 1):  # CUDA's limit for programs along one axis
        raise ValueError(f"{rows} rows are too many for a tile of {tile[0]}; use a taller one")
    # --8<-- [start:launch_rows]
    out = torch.empty(rows, dtype=dtype, device=x.device)
    if rows == 0:
        return out  # nothing to launch
    computed = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    with torch.cuda.device_of(x):
        kernel[(triton.cdiv(rows, tile[0]),)](
            x, out, rows, columns, *x.stride(),
            **constants, DTYPE=TRITON[computed], ROWS=tile[0], COLUMNS=tile[1],
        )  # fmt: skip
    return out
    # --8<-- [end:launch_rows]


# --8<-- [start:pad]
@triton.jit
def pad_kernel(
    x_ptr, out_ptr, n, OTHER: tl.constexpr, BLOCK_SIZE: tl.constexpr
):  # fmt: skip
    start = tl.program_id(axis=0).to(tl.int64) * BLOCK_SIZE
    offsets = start + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=OTHER)
    tl.store(out_ptr + offsets, x)  # all lanes, also those that are off
# --8<-- [end:pad]


def pad(x: torch.Tensor, *, other: float = 0, block_size: int = 1024) -> torch.Tensor:
    """Return ``x``, extended with ``other`` to a multiple of ``block_size``.

    Args:
        x: A contiguous 1-D tensor of one of ``DTYPES``, on a GPU or, in the interpreter, on the CPU.
        other: A Python number that the dtype of ``x`` can hold. The kernel is compiled anew for each value.
        block_size: A power of two, at most 2**16.

    Raises:
        ValueError: If ``x``, ``other`` or ``block_size`` is something the kernel can't serve.

    >>> pad(torch.tensor([8.0, 9.0]), other=-1, block_size=4)
    tensor([ 8.,  9., -1., -1.])
    """
    check_arguments(x, 1)
    check_block(x, block_size)
    if not isinstance(other, (int, float)):  # None means "anything" to Triton, and a tensor isn't a constant
        raise ValueError(f"other must be a number of Python's; got {other!r}, of the type {type(other).__name__}")
    if not x.is_floating_point():
        info = torch.iinfo(x.dtype)
        if not isinstance(other, int) or not info.min <= other <= info.max:
            raise ValueError(f"other must be an integer that {x.dtype} holds; got {other}")
    elif x.dtype == torch.float64 and math.isfinite(other) and torch.tensor(other, dtype=torch.float32).item() != other:
        raise ValueError(f"a constant in a kernel is a float32, which does not hold {other}")
    blocks = triton.cdiv(x.numel(), block_size)
    out = torch.empty(blocks * block_size, dtype=x.dtype, device=x.device)
    if blocks:
        with torch.cuda.device_of(x):
            pad_kernel[(blocks,)](x, out, x.numel(), OTHER=other, BLOCK_SIZE=block_size)
    return out


# --8<-- [start:relu]
@triton.jit
def relu_kernel(x_ptr, n, BLOCK_SIZE: tl.constexpr):
    start = tl.program_id(axis=0).to(tl.int64) * BLOCK_SIZE
    offsets = start + tl.arange(0, BLOCK_SIZE)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    tl.store(x_ptr + offsets, 0, mask=inside & (x <= 0))
# --8<-- [end:relu]


def relu_(x: torch.Tensor, *, block_size: int = 1024) -> torch.Tensor:
    """Set the elements of ``x`` that aren't above zero to zero, in place, write no others, and return ``x``.

    Args:
        x: A contiguous 1-D tensor of one of ``DTYPES``, on a GPU or, in the interpreter, on the CPU. NaN stays NaN.
        block_size: A power of two, at most 2**16.

    Raises:
        ValueError: If ``x`` or ``block_size`` is something the kernel can't serve.

    >>> relu_(torch.tensor([3.0, -1.0, 4.0, -1.0, -5.0]), block_size=4)
    tensor([3., 0., 4., 0., 0.])
    """
    check_arguments(x, 1)
    check_block(x, block_size)
    if x.numel():
        with torch.cuda.device_of(x):
            relu_kernel[(triton.cdiv(x.numel(), block_size),)](x, x.numel(), BLOCK_SIZE=block_size)
    return x


def check_arguments(x: torch.Tensor, ndim: int) -> None:
    """Raise ``ValueError`` for tensors that the kernels of this file would get wrong, or can't serve at all."""
    if x.ndim != ndim:
        raise ValueError(f"x must have {ndim} dimension{'s' * (ndim > 1)}; got the shape {tuple(x.shape)}")
    if x.dtype not in DTYPES:
        raise ValueError(f"dtype {x.dtype} is not supported; use one of {', '.join(map(str, DTYPES))}")
    if x.device.type not in ("cuda", "cpu"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"x is on {x.device}; move it to a GPU, as in x.cuda()")
    interpreted = not isinstance(row_sum_kernel, triton.JITFunction)
    if x.device.type == "cpu" and not interpreted:
        raise ValueError("x is on the CPU; move it to a GPU, or set TRITON_INTERPRET=1 before importing this file")
    if x.dtype == torch.bfloat16 and interpreted:
        raise ValueError("Triton's interpreter computes bfloat16 wrongly (seen in 3.7.1); use float32 there, or a GPU")
    if x.is_neg():  # its memory doesn't have the sign applied yet
        raise ValueError("x is negated lazily; pass x.resolve_neg()")
    if x.requires_grad and torch.is_grad_enabled():
        raise ValueError("x requires a gradient, which this function does not compute; use torch.no_grad()")


def check_block(x: torch.Tensor, block_size: int) -> None:
    """Raise ``ValueError`` for what :func:`pad` and :func:`relu_` can't serve."""
    if not x.is_contiguous():
        raise ValueError(f"x has strides {x.stride()}; pass x.contiguous(), which copies it")
    if not isinstance(block_size, int) or not 1 <= block_size <= 2**16 or block_size & (block_size - 1):
        raise ValueError(f"block_size must be a power of two between 1 and 2**16; got {block_size}")
    if x.numel() > block_size * (2**31 - 1):  # CUDA's limit for programs along one axis
        raise ValueError(f"{x.numel()} elements are too many for block_size {block_size}; use a larger block_size")


def main():
    device = "cuda" if isinstance(row_sum_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    print("## a masked load")
    # --8<-- [start:toy]
    x = torch.arange(10.0, device=device)
    block = torch.arange(8, 12, device=device)  # the offsets of the third program of four lanes
    print("in torch, x[block[block < 10]] =", x[block[block < 10]].tolist())
    print("in Triton, the same block      =", pad(x, other=-1, block_size=4)[8:].tolist())
    # --8<-- [end:toy]

    print("## a masked store")
    x = torch.tensor([3.0, -1.0, 4.0, -1.0, -5.0], device=device)
    print("before:", x.tolist())
    print("after: ", relu_(x, block_size=4).tolist())

    print("## rows")
    x = torch.tensor([[-1.0, -2.0, -3.0, -4.0, -5.0], [1.0, 2.0, 3.0, 4.0, 5.0]], device=device)
    for function in (row_sum, row_max, row_prod):
        print(f"{function.__name__}:", function(x, tile=(2, 4)).tolist())
    x[1, 2] = math.nan
    print("row_max, NaN in row 1:", row_max(x, tile=(2, 4)).tolist())


if __name__ == "__main__":
    main()
