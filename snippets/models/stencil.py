# SPDX-License-Identifier: Apache-2.0
"""Blur a picture: each result is the mean of nine numbers, an element and its neighbors, in one short kernel.

``out[h, w] = (x[h - 1, w - 1] + … + x[h + 1, w + 1]) / 9``. What lies outside of the picture counts as 0. Such a
kernel, whose every result needs a fixed pattern of neighbors, is called a stencil.

Shapes: ``x`` and ``out`` are (height, width), float32, float16 or bfloat16.
Bytes: each element is loaded nine times. From memory it needs to come once.

Run it on a GPU with ``python stencil.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import torch
import triton
import triton.language as tl

DTYPES = torch.float16, torch.bfloat16, torch.float32


# --8<-- [start:kernel]
@triton.jit
def blur_kernel(
    x_ptr, out_ptr, height, width, x_stride, out_stride,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Blur a tile; a row begins ``x_stride`` elements after another."""
    # --8<-- [start:body]
    row = tl.program_id(1).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for down in tl.static_range(-1, 2):
        for right in tl.static_range(-1, 2):
            h, w = row + down, column + right
            in_height = (h >= 0) & (h < height)
            in_width = (w >= 0) & (w < width)
            total += tl.load(
                x_ptr + (h * x_stride)[:, None] + w[None, :],
                mask=in_height[:, None] & in_width[None, :], other=0.0,
            )  # fmt: skip
    # --8<-- [end:body]
    tl.store(
        out_ptr + (row * out_stride)[:, None] + column[None, :],
        total / 9,
        mask=(row < height)[:, None] & (column < width)[None, :],
    )
# --8<-- [end:kernel]


# --8<-- [start:host]
def blur(x: torch.Tensor, *, rows: int = 4, columns: int = 64, num_warps: int = 4) -> torch.Tensor:
    """Return the mean of each element and its eight neighbors; those outside count as 0.

    Args:
        x: ``(height, width)``, one of ``DTYPES``, on a GPU, or in the interpreter on the CPU; a row's elements are
            neighbors in memory.
        rows: Of a program's tile, a power of two; so is ``columns``.
        columns: See ``rows``.
        num_warps: Of a program.

    Returns:
        A new tensor of the shape and dtype of ``x``, contiguous.

    Raises:
        ValueError: An argument is something that the kernel cannot serve.

    >>> blur(torch.tensor([[9.0, 0.0, 0.0]]))
    tensor([[1., 1., 0.]])
    """
    check_arguments(x, rows, columns)
    height, width = x.shape
    out = torch.empty(height, width, dtype=x.dtype, device=x.device)
    grid = triton.cdiv(width, columns), triton.cdiv(height, rows)
    if grid[1] >= 2**16:
        raise ValueError(f"x has {height} rows, too many for tiles of {rows}; take higher ones")
    if out.numel():
        with torch.cuda.device_of(x):  # Triton launches on the current device, which need not be theirs
            blur_kernel[grid](
                x, out, height, width, x.stride(0), width, ROWS=rows, COLUMNS=columns, num_warps=num_warps
            )
    return out
# --8<-- [end:host]


def check_arguments(x: torch.Tensor, rows: int, columns: int) -> None:
    """Raise ``ValueError`` for arguments that the kernel would compute wrongly or not at all."""
    if x.layout != torch.strided:
        raise ValueError(f"x is {x.layout}; pass x.to_dense()")
    if x.ndim != 2 or max(x.shape) >= 2**30:
        raise ValueError(f"x must be (height, width), both less than 2**30; got {tuple(x.shape)}")
    if x.dtype not in DTYPES:
        raise ValueError(f"x's dtype {x.dtype} is not supported; use one of {', '.join(map(str, DTYPES))}")
    if x.stride(1) != 1 and x.shape[1] > 1:
        raise ValueError(f"x has strides {x.stride()}; a row's elements must be neighbors: pass x.contiguous()")
    if x.is_neg():
        raise ValueError("x is negated lazily; pass x.resolve_neg()")
    if x.requires_grad and torch.is_grad_enabled():
        raise ValueError("x requires a gradient, which blur does not compute; use torch.no_grad()")
    for name, value in (("rows", rows), ("columns", columns)):
        if type(value) is not int or value < 1 or value & (value - 1) or value > 2**14:
            raise ValueError(f"{name} must be a power of two up to 16,384; got {value!r}")
    if rows * columns > 2**16:
        raise ValueError(f"a tile of {rows} × {columns} is too large; 65,536 elements at most")
    interpreted = not isinstance(blur_kernel, triton.JITFunction)
    if x.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"x is on {x.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}")
    if interpreted and x.dtype == torch.bfloat16:
        raise ValueError("Triton's interpreter rounds to bfloat16 wrongly (seen in 3.7.1); use float32 there, or a GPU")


# --8<-- [start:counts]
def reads(side: int, rows: int, columns: int) -> tuple[int, int, int]:
    """Return how often a program in the middle loads, how many elements it needs, and how many results it has.

    >>> reads(3, 4, 4)
    (144, 36, 16)
    """
    around = side - 1
    return side * side * rows * columns, (rows + around) * (columns + around), rows * columns
# --8<-- [end:counts]


def main():
    device = "cuda" if isinstance(blur_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    shown = lambda x: print(*(" ".join(f"{value:2g}" for value in row) for row in x.tolist()), sep="\n")

    print("## a picture")
    x = torch.zeros(8, 8, device=device)
    x[2, 3] = x[7, 7] = 9
    x[5, 5] = 18
    shown(x)

    print("## blurred")
    shown(blur(x, rows=4, columns=4).round(decimals=4))

    print("## beside torch")
    torch.manual_seed(0)
    for height, width in ((37, 61), (1, 1), (16, 300)):
        x = torch.randn(height, width).to(device)
        wanted = torch.nn.functional.avg_pool2d(x[None], 3, stride=1, padding=1)[0]
        print(f"{height} × {width}:", "as torch" if torch.allclose(blur(x), wanted, atol=1e-6) else "NOT as torch")

    print("## tiles")
    for rows, columns in ((1, 1), (4, 4), (16, 16), (4, 64)):
        loads, elements, results = reads(3, rows, columns)
        print(f"{rows} × {columns}: {loads / results:g} loads and {elements / results:.2f} elements for each result")


if __name__ == "__main__":
    main()
