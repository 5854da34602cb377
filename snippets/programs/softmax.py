# SPDX-License-Identifier: Apache-2.0
"""Softmax of each row: ``out[i] = exp(x[i] - max(x)) / sum(exp(x - max(x)))``. Positive shares that add up to 1.

Each program keeps a whole row in one block: it loads the row once, does all the work there, and stores it once.
It subtracts the row's maximum first, which changes none of the shares and keeps ``exp`` from overflowing.

- :func:`softmax`: the shares
- :func:`log_softmax`: their logarithms, ``x - max(x) - log(sum(exp(x - max(x))))``

Shapes: ``x`` and the result are ``(rows, columns)``; a row has at most ``MOST_COLUMNS`` columns.
Traffic: each element is read once and written once. Everything is computed in float32.
Source: the results are those of ``torch.softmax`` and ``torch.log_softmax`` with ``dim=1``.

Run it on a GPU with ``python softmax.py``, or with ``TRITON_INTERPRET=1 python softmax.py`` in Triton's interpreter.
"""

import torch
import triton
import triton.language as tl

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
MOST_COLUMNS = 2**15  # a row of 2**16 wouldn't fit in a program's registers, so the compiler would spill (on sm_90)


# --8<-- [start:kernel]
@triton.jit
def softmax_kernel(
    x_ptr, out_ptr, columns, stride_row, BLOCK_SIZE: tl.constexpr
):
    # --8<-- [start:body]
    row = tl.program_id(axis=0).to(tl.int64)
    column = tl.arange(0, BLOCK_SIZE)
    mask = column < columns
    row_ptr = x_ptr + row * stride_row
    x = tl.load(row_ptr + column, mask=mask, other=-float("inf")).to(
        tl.float32
    )
    numerator = tl.exp(x - tl.max(x, axis=0))
    share = numerator / tl.sum(numerator, axis=0)
    tl.store(out_ptr + row * columns + column, share, mask=mask)
    # --8<-- [end:body]
# --8<-- [end:kernel]


# --8<-- [start:log_kernel]
@triton.jit
def log_softmax_kernel(
    x_ptr, out_ptr, columns, stride_row, BLOCK_SIZE: tl.constexpr
):
    row = tl.program_id(axis=0).to(tl.int64)
    column = tl.arange(0, BLOCK_SIZE)
    mask = column < columns
    row_ptr = x_ptr + row * stride_row
    x = tl.load(row_ptr + column, mask=mask, other=-float("inf")).to(
        tl.float32
    )
    x -= tl.max(x, axis=0)
    log_share = x - tl.log(tl.sum(tl.exp(x), axis=0))
    tl.store(out_ptr + row * columns + column, log_share, mask=mask)
# --8<-- [end:log_kernel]


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Return the softmax of each row, like ``torch.softmax(x, dim=1)``.

    Args:
        x: ``(rows, columns)`` on a GPU (in the interpreter, on the CPU), of one of ``DTYPES``. A row's elements are
            neighbors in memory. The rows may be anywhere, as in a slice of a wider tensor.

    Returns:
        A new contiguous tensor of the shape and dtype of ``x``, computed in float32. A row that is all -inf, or has
        a NaN or +inf, becomes NaN, as in torch. The kernel may still be running when it is returned.

    Raises:
        ValueError: If ``x`` is something the kernel can't serve, such as a row of more than ``MOST_COLUMNS``.

    >>> softmax(torch.tensor([[1.0, 1.0, 1.0], [0.0, 1000.0, 1000.0]]))
    tensor([[0.3333, 0.3333, 0.3333],
            [0.0000, 0.5000, 0.5000]])
    """
    return by_rows(softmax_kernel, x)


def log_softmax(x: torch.Tensor) -> torch.Tensor:
    """Return the logarithm of each share, like ``torch.log_softmax(x, dim=1)``, even of shares too small to store.

    Argument, result and errors are those of :func:`softmax`.

    >>> log_softmax(torch.tensor([[0.0, 1000.0]]))
    tensor([[-1000.,     0.]])
    """
    return by_rows(log_softmax_kernel, x)


# --8<-- [start:launch]
def by_rows(kernel, x: torch.Tensor) -> torch.Tensor:
    """Launch a program for each row of ``x`` and return the results."""
    check_arguments(x)
    rows, columns = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out  # nothing to launch
    # Triton launches on the current device, which may not be that of x.
    with torch.cuda.device_of(x):
        # --8<-- [start:sizes]
        block = triton.next_power_of_2(columns)
        # more warps for wider rows
        num_warps = min(max(block // 256, 1), 16)
        kernel[(rows,)](
            x, out, columns, x.stride(0),
            BLOCK_SIZE=block, num_warps=num_warps,
        )  # fmt: skip
        # --8<-- [end:sizes]
    return out
# --8<-- [end:launch]


def check_arguments(x: torch.Tensor) -> None:
    """Raise ``ValueError`` for what the kernels of this file would get wrong, or can't serve at all."""
    if x.ndim != 2:
        raise ValueError(f"x must have 2 dimensions, rows and columns; got the shape {tuple(x.shape)}")
    if x.dtype not in DTYPES:
        raise ValueError(f"dtype {x.dtype} is not supported; use one of {', '.join(map(str, DTYPES))}")
    rows, columns = x.shape
    if columns > MOST_COLUMNS:
        raise ValueError(f"a row has {columns} columns, at most {MOST_COLUMNS} are served: one program holds a whole "
                         "row in its registers; a longer one needs a loop over blocks")  # fmt: skip
    # --8<-- [start:neighbors]
    if columns > 1 and x.stride(1) != 1:
        raise ValueError(
            f"x has strides {x.stride()}, and the elements of a row "
            "must be neighbors in memory; "
            "pass x.contiguous(), which copies it"
        )
    # --8<-- [end:neighbors]
    if rows > 2**31 - 1:  # CUDA's limit for programs along one axis
        raise ValueError(f"{rows} rows are too many for one launch; split x")
    if x.device.type not in ("cuda", "cpu"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"x is on {x.device}; move it to a GPU, as in x.cuda()")
    interpreted = not isinstance(softmax_kernel, triton.JITFunction)
    if x.device.type == "cpu" and not interpreted:
        raise ValueError("x is on the CPU; move it to a GPU, or set TRITON_INTERPRET=1 before importing this file")
    if x.dtype == torch.bfloat16 and interpreted:
        raise ValueError("Triton's interpreter rounds bfloat16 wrongly (seen in 3.7.1); use float32 there, or a GPU")
    if x.is_neg():  # its memory doesn't have the sign applied yet
        raise ValueError("x is negated lazily; pass x.resolve_neg()")
    if x.requires_grad and torch.is_grad_enabled():
        raise ValueError("x requires a gradient, which this function does not compute; use torch.no_grad()")


def shown(values: torch.Tensor) -> str:
    return " ".join(f"{value:7.3f}" for value in values.flatten().tolist())


def named(row: torch.Tensor) -> str:
    return f"{row[0].item():.0f} to {row[-1].item():.0f}"


# --8<-- [start:toy]
def toy(device):
    """Return two rows of five: 0 to 4, and 1000 to 1004."""
    return torch.arange(5.0, device=device) + torch.tensor([[0.0], [1000.0]], device=device)
# --8<-- [end:toy]


# --8<-- [start:steps]
def steps(x):
    """Print what becomes of the first row of ``x``, one torch operation at a time."""
    maximum = x.amax(dim=1, keepdim=True)
    shifted = x - maximum
    numerator = shifted.exp()
    total = numerator.sum(dim=1, keepdim=True)
    share = numerator / total
    print("x        ", shown(x[0]))
    print("maximum  ", shown(maximum[0]))
    print("shifted  ", shown(shifted[0]))
    print("numerator", shown(numerator[0]))
    print("total    ", shown(total[0]))
    print("share    ", shown(share[0]))
# --8<-- [end:steps]


def main():
    device = "cuda" if isinstance(softmax_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    x = toy(device)
    print("## steps")
    steps(x)
    print("## softmax")
    for row, share in zip(x, softmax(x), strict=True):
        print(f"{named(row):>12}:", shown(share))
    print("## log_softmax")
    for row, share in zip(x, log_softmax(x), strict=True):
        print(f"{named(row):>12}:", shown(share))
    print("## real sizes")
    for rows, columns in ((64, 781), (8, 4096), (2, 32768)):
        x = torch.randn(rows, columns, generator=torch.Generator().manual_seed(0)).to(device)
        same = torch.allclose(softmax(x), torch.softmax(x, dim=1), rtol=1e-5, atol=0)
        print(f"{rows} x {columns}, as torch.softmax: {same}")
    print("most columns:", MOST_COLUMNS)


if __name__ == "__main__":
    main()
