# SPDX-License-Identifier: Apache-2.0
"""Copy a tensor with any strides into a contiguous one, tile by tile: ``out[b, i, j] = x[b, i, j]``.

An element's place in memory depends only on its indices and the strides:
``offset = b * stride_batch + i * stride_row + j * stride_column``. A kernel that computes offsets this way works on
transposed, sliced and expanded tensors without copying them first.

Shapes: ``x`` has up to three dimensions (batch, row, column) and any strides, and the result has the same shape.
Traffic: each element is read once and written once.
Source: strides are PyTorch's, counted in elements; tensor descriptors are Triton's.

Run it on a GPU with ``python offsets.py``, or without one in Triton's interpreter with
``TRITON_INTERPRET=1 python offsets.py``.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

# A copy only moves bits, so elements are treated as integers of the same size.
INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


# --8<-- [start:tile]
@triton.jit
def copy_tile(
    x_ptr,
    out_ptr,
    batch,
    tile_row,
    tile_column,
    n_rows,
    n_columns,
    stride_batch,
    stride_row,
    stride_column,
    out_stride_batch,
    out_stride_row,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
):
    # --8<-- [start:offsets]
    # 64 bits: an index fits in 32, but an index times a stride may not.
    rows = tile_row.to(tl.int64) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    columns = tile_column.to(tl.int64) * BLOCK_COLUMNS + tl.arange(
        0, BLOCK_COLUMNS
    )
    rows, columns = rows[:, None], columns[None, :]
    # --8<-- [end:offsets]
    mask = (rows < n_rows) & (columns < n_columns)
    # --8<-- [start:strides]
    batch = batch.to(tl.int64)
    x_offsets = (
        batch * stride_batch + rows * stride_row + columns * stride_column
    )
    out_offsets = batch * out_stride_batch + rows * out_stride_row + columns
    # --8<-- [end:strides]
    tile = tl.load(x_ptr + x_offsets, mask=mask)
    tl.store(out_ptr + out_offsets, tile, mask=mask)
# --8<-- [end:tile]


# --8<-- [start:axes]
@triton.jit
def copy_kernel(
    x_ptr, out_ptr, n_rows, n_columns,
    stride_batch, stride_row, stride_column, out_stride_batch, out_stride_row,
    BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr,
):  # fmt: skip
    tile_column = tl.program_id(axis=0)
    tile_row = tl.program_id(axis=1)
    batch = tl.program_id(axis=2)
    copy_tile(
        x_ptr, out_ptr, batch, tile_row, tile_column, n_rows, n_columns,
        stride_batch, stride_row, stride_column, out_stride_batch,
        out_stride_row, BLOCK_ROWS, BLOCK_COLUMNS,
    )
# --8<-- [end:axes]


# --8<-- [start:flat]
@triton.jit
def copy_flat_kernel(
    x_ptr, out_ptr, n_rows, n_columns,
    stride_batch, stride_row, stride_column, out_stride_batch, out_stride_row,
    tiles_down, tiles_across,
    BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr,
):  # fmt: skip
    # --8<-- [start:unflatten]
    pid = tl.program_id(axis=0)
    tile_column = pid % tiles_across
    tile_row = pid // tiles_across % tiles_down
    batch = pid // (tiles_across * tiles_down)
    # --8<-- [end:unflatten]
    copy_tile(
        x_ptr, out_ptr, batch, tile_row, tile_column, n_rows, n_columns,
        stride_batch, stride_row, stride_column, out_stride_batch, out_stride_row,
        BLOCK_ROWS, BLOCK_COLUMNS,
    )  # fmt: skip
# --8<-- [end:flat]


# --8<-- [start:host]
def contiguous(
    x: torch.Tensor, *, block: tuple[int, int] | None = None, num_warps: int = 4, flat: bool = True
) -> torch.Tensor:
    """Return a contiguous copy of ``x``, made by :func:`copy_flat_kernel`. (torch returns ``x`` if it is contiguous.)

    Args:
        x: A tensor on a GPU (or, in the interpreter, on the CPU) of up to three dimensions, with any strides and any
            dtype of 1, 2, 4 or 8 bytes.
        block: Rows and columns of a program's tile, powers of two, at most 64 KiB in all. The default suits the
            strides of ``x``.
        num_warps: Warps that share the work of a program, a power of two, at most 32.
        flat: ``False`` launches :func:`copy_kernel` over three axes. The last two can have 65,535 programs.

    Returns:
        A new tensor with the shape, dtype and device of ``x``. The kernel may still be running when it is returned.

    Raises:
        ValueError: If ``x`` or an option is something the kernel can't serve.

    >>> x = torch.arange(6).view(2, 3).t()
    >>> x.stride(), contiguous(x).stride()
    ((1, 3), (2, 1))
    >>> contiguous(x).tolist()
    [[0, 3], [1, 4], [2, 5]]
    """
    check_tensor(x)
    # --8<-- [start:launch]
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    bits, out_bits = batches(x), batches(out)
    if bits.shape[0] > 1 and 0 < bits.stride(0) < min(bits.stride()[1:]):
        # Neighbors in x are along the batch, so tiles span the batch, and axis 2 counts rows instead.
        bits, out_bits = bits.transpose(0, 1), out_bits.transpose(0, 1)
    block = default_block(bits) if block is None else block
    check_block(block, x.itemsize, num_warps)
    if out.numel() == 0:
        return out  # nothing to launch
    batch, n_rows, n_columns = bits.shape
    tiles_down, tiles_across = triton.cdiv(n_rows, block[0]), triton.cdiv(n_columns, block[1])
    grid = (tiles_across * tiles_down * batch,) if flat else (tiles_across, tiles_down, batch)
    check_grid(grid, block)
    arguments = bits, out_bits, n_rows, n_columns, *bits.stride(), *out_bits.stride()[:2]
    sizes = {"BLOCK_ROWS": block[0], "BLOCK_COLUMNS": block[1], "num_warps": num_warps}
    # Triton launches on the current device, which may not be that of x.
    with torch.cuda.device_of(x):
        if flat:
            copy_flat_kernel[grid](*arguments, tiles_down, tiles_across, **sizes)
        else:
            copy_kernel[grid](*arguments, **sizes)
    return out
    # --8<-- [end:launch]
# --8<-- [end:host]


def batches(x: torch.Tensor) -> torch.Tensor:
    """Return a view of ``x`` as integers with three dimensions. Nothing is copied."""
    return x.detach()[(None,) * (3 - x.ndim)].view(INTEGERS[x.itemsize])


def default_block(x: torch.Tensor) -> tuple[int, int]:
    """Return the rows and columns of a tile that suits the strides of ``x``.

    On both sides of the copy, neighbors in memory should be neighbors in the tile. The result is written along rows. If
    ``x`` is read along rows, too, the tile is one long row; if it is read along columns, the tile is a square.
    """
    n_rows, n_columns = (1, 1, *x.shape)[-2:]
    along_rows = x.ndim < 2 or x.stride(-1) <= x.stride(-2)
    elements, columns = (1024, 1024) if along_rows else (64 * 64, 64)
    # No larger than the matrix, because even lanes that are always off cost time.
    columns = min(columns, triton.next_power_of_2(max(n_columns, 1)))
    rows = min(elements // columns, triton.next_power_of_2(max(n_rows, 1)))
    return rows, min(elements // rows, triton.next_power_of_2(max(n_columns, 1)))


# --8<-- [start:descriptor]
@triton.jit
def copy_descriptor_kernel(
    x_desc, out_desc, BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr
):  # fmt: skip
    row = tl.program_id(axis=1) * BLOCK_ROWS
    column = tl.program_id(axis=0) * BLOCK_COLUMNS
    tile = x_desc.load([row, column])
    out_desc.store([row, column], tile)
# --8<-- [end:descriptor]


# --8<-- [start:made_inside]
@triton.jit
def copy_made_inside_kernel(
    x_ptr,
    out_ptr,
    n_rows,
    n_columns,
    stride_row,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
):
    x_desc = tl.make_tensor_descriptor(
        x_ptr, [n_rows, n_columns], [stride_row, 1],
        [BLOCK_ROWS, BLOCK_COLUMNS],
    )
    out_desc = tl.make_tensor_descriptor(
        out_ptr, [n_rows, n_columns], [n_columns, 1],
        [BLOCK_ROWS, BLOCK_COLUMNS],
    )
    row = tl.program_id(axis=1) * BLOCK_ROWS
    column = tl.program_id(axis=0) * BLOCK_COLUMNS
    tile = x_desc.load([row, column])
    out_desc.store([row, column], tile)
# --8<-- [end:made_inside]


# --8<-- [start:descriptor_host]
def copy_by_descriptor(
    x: torch.Tensor, *, block: tuple[int, int] = (64, 64), num_warps: int = 4, inside: bool = False
) -> torch.Tensor:
    """Return a contiguous copy of a matrix. Tiles are loaded and stored through tensor descriptors.

    Args:
        x: A matrix with contiguous rows on a GPU (or, in the interpreter, on the CPU), of a dtype of 1, 2, 4 or 8
            bytes. Its start, the distance between rows and the length of a row are multiples of 16 bytes.
        block: Rows and columns of a tile, powers of two up to 256, at most 64 KiB in all. A row has at least 16 bytes.
        num_warps: Warps that share the work of a program.
        inside: ``True`` makes the descriptors in the kernel. That needs memory, so call ``triton.set_allocator`` first.

    Raises:
        ValueError: If ``x`` or ``block`` is something a descriptor can't describe.

    >>> copy_by_descriptor(torch.arange(32).view(4, 8)[1:3, 2:6], block=(2, 2)).tolist()
    [[10, 11, 12, 13], [18, 19, 20, 21]]
    """
    check_tensor(x)
    check_block(block, x.itemsize, num_warps)
    check_describable(x, block)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    bits, out_bits = x.detach().view(INTEGERS[x.itemsize]), out.view(INTEGERS[x.itemsize])
    n_rows, n_columns = x.shape
    grid = triton.cdiv(n_columns, block[1]), triton.cdiv(n_rows, block[0])
    check_grid(grid, block)
    sizes = {"BLOCK_ROWS": block[0], "BLOCK_COLUMNS": block[1], "num_warps": num_warps}
    with torch.cuda.device_of(x):
        if inside:
            copy_made_inside_kernel[grid](bits, out_bits, n_rows, n_columns, bits.stride(0), **sizes)
        else:
            # --8<-- [start:descriptor_launch]
            x_desc = TensorDescriptor.from_tensor(bits, list(block))
            out_desc = TensorDescriptor.from_tensor(out_bits, list(block))
            copy_descriptor_kernel[grid](x_desc, out_desc, **sizes)
            # --8<-- [end:descriptor_launch]
    return out
# --8<-- [end:descriptor_host]


# --8<-- [start:check]
def check_tensor(x: torch.Tensor) -> None:
    """Raise ``ValueError`` for a tensor that the kernels would copy wrongly or not at all."""
    if x.ndim > 3:
        raise ValueError(f"x has shape {tuple(x.shape)}; it takes up to three dimensions: flatten some of them")
    if x.itemsize not in INTEGERS:
        raise ValueError(f"dtype {x.dtype} has {x.itemsize} bytes; it takes dtypes of 1, 2, 4 or 8")
    if x.layout != torch.strided:
        raise ValueError(f"x has layout {x.layout}, which has no strides; pass x.to_dense()")
    if x.device.type not in ("cuda", "cpu"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"x is on {x.device}; move it to a GPU, as in x.cuda()")
    if x.device.type == "cpu" and isinstance(copy_kernel, triton.JITFunction):
        raise ValueError("x is on the CPU; move it to a GPU, or set TRITON_INTERPRET=1 before importing this file")
    if x.is_neg():  # its memory doesn't have the sign applied yet
        raise ValueError("x is negated lazily; pass x.resolve_neg()")
    if x.is_conj():
        raise ValueError("x is conjugated lazily; pass x.resolve_conj()")
    if x.requires_grad and torch.is_grad_enabled():
        raise ValueError("x requires a gradient, which this function does not compute; use torch.no_grad()")


def check_block(block: tuple[int, int], itemsize: int, num_warps: int) -> None:
    """Raise ``ValueError`` for a tile that Triton can't make."""
    if len(block) != 2 or not all(isinstance(side, int) and side > 0 and side & (side - 1) == 0 for side in block):
        raise ValueError(f"block must be two powers of two, rows and columns; got {block}")
    if block[0] * block[1] * itemsize > 2**16:  # a tile may have to go through shared memory
        raise ValueError(f"block {block} has {block[0] * block[1] * itemsize} bytes; it takes at most 2**16")
    if num_warps not in (1, 2, 4, 8, 16, 32):
        raise ValueError(f"num_warps must be a power of two, at most 32; got {num_warps}")


def check_grid(grid: tuple[int, ...], block: tuple[int, int]) -> None:
    """Raise ``ValueError`` for more programs than CUDA can start along an axis."""
    for axis, (size, most) in enumerate(zip(grid, (2**31 - 1, 65535, 65535), strict=False)):
        if size > most:
            raise ValueError(f"{size} programs along axis {axis} with block {block}; CUDA starts at most {most}")


def check_describable(x: torch.Tensor, block: tuple[int, int]) -> None:
    """Raise ``ValueError`` for a tensor or a tile that a tensor descriptor can't describe."""
    if x.ndim != 2:
        raise ValueError(f"x has shape {tuple(x.shape)}; it takes a matrix")
    if max(block) > 256 or block[1] * x.itemsize < 16:
        raise ValueError(f"block is {block}; a descriptor takes sides up to 256, and rows of at least 16 bytes")
    if x.numel() and x.stride(1) != 1:
        raise ValueError(f"x has strides {x.stride()}, and the last must be 1 for a descriptor; use contiguous")
    # The result is contiguous, so the distance between its rows is the length of a row.
    strides = {"stride of a row": x.stride(0) * x.itemsize, "length of a row": x.shape[1] * x.itemsize}
    for name, size in {"start": x.data_ptr(), **strides}.items():
        if x.numel() and size % 16:
            raise ValueError(f"the {name} of x is no multiple of 16 bytes: {size % 16} too many; use contiguous")
# --8<-- [end:check]


# --8<-- [start:main]
def main():
    device = "cuda" if isinstance(copy_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    x = torch.arange(15, dtype=torch.int32, device=device).view(3, 5)
    wide = torch.arange(24, dtype=torch.int32, device=device).view(3, 8)
    batch = torch.arange(12, dtype=torch.int32, device=device).view(2, 3, 2)
    for label, tensor, block, flat in (
        ("x", x, (2, 4), False),
        ("x.t()", x.t(), (4, 2), False),
        ("wide[:, 1:6:2]", wide[:, 1:6:2], (2, 4), False),
        ("batch.mT", batch.mT, (2, 4), False),
        ("x, by a flat grid", x, (2, 4), True),
    ):
        print(f"## {label}")
        print(f"shape {tuple(tensor.shape)}, strides {tensor.stride()}")
        print(contiguous(tensor, block=block, flat=flat).tolist())

    print("## far")
    far = torch.empty(2**31 + 5, dtype=torch.int8, device=device)  # nothing touches most of it
    far = far.as_strided((3, 5), (2**30, 1))  # the third row begins at element 2**31
    far.copy_(torch.arange(1, 6, device=device) + 10 * torch.arange(3, device=device)[:, None])
    print("last row:", contiguous(far)[2].tolist())

    print("## descriptor")
    print(copy_by_descriptor(wide[:2, :4], block=(2, 4)).tolist())
    for label, refused in (
        ("wide[:, ::2]", wide[:, ::2]),
        ("x", x),
        ("wide[:, 1:5]", wide[:, 1:5]),
    ):
        try:
            TensorDescriptor.from_tensor(refused, [2, 4])
        except AssertionError as error:
            print(f"{label}, strides {refused.stride()}: {error}")
# --8<-- [end:main]


if __name__ == "__main__":
    main()
