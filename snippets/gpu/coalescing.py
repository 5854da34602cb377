# SPDX-License-Identifier: Apache-2.0
"""Which elements the threads of a warp ask for at once, and what that costs: strides, gathers, widths, transposes.

A warp's load is answered in sectors, pieces of 32 bytes. Neighbors share a sector: 32 floats side by side are 4 of
them. Eight floats apart, each thread needs a sector of its own, and 28 of its 32 bytes were fetched for nothing.

- :func:`take_every`: ``x[::step]``
- :func:`gather`: ``x[index]``
- :func:`transpose`: ``x.T``, contiguous, by tiles of any shape
- :func:`sectors`: how many sectors a list of elements lies in

Traffic that counts as useful: each element of the result is read once and written once; an index is read.
Source: NVIDIA's CUDA C++ Best Practices Guide, on coalesced access.

Run it on a GPU with ``python coalescing.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import torch
import triton
import triton.language as tl

SECTOR = 32  # bytes
WARPS = 1, 2, 4, 8, 16, 32
STEPS = 1, 2, 4, 8, 16, 32  # from one element of a warp to the next
DTYPES = (
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
    torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64,
)  # fmt: skip


# --8<-- [start:strided]
@triton.jit
def take_every_kernel(x_ptr, out_ptr, n, step, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0).to(tl.int64) * BLOCK_SIZE + tl.arange(
        0, BLOCK_SIZE
    )
    mask = offsets < n
    x = tl.load(x_ptr + offsets * step, mask=mask)
    tl.store(out_ptr + offsets, x, mask=mask)
# --8<-- [end:strided]


# --8<-- [start:gather]
@triton.jit
def gather_kernel(
    x_ptr, index_ptr, out_ptr, elements, n, BLOCK_SIZE: tl.constexpr
):
    offsets = tl.program_id(axis=0).to(tl.int64) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    index = tl.load(index_ptr + offsets, mask=mask)
    x = tl.load(
        x_ptr + index,
        mask=mask & (index >= 0) & (index < elements), other=0,
    )
    tl.store(out_ptr + offsets, x, mask=mask)
# --8<-- [end:gather]


# --8<-- [start:transpose]
@triton.jit
def transpose_kernel(
    x_ptr, out_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    tiles = tl.cdiv(columns, COLUMNS)  # in a row of tiles
    pid = tl.program_id(axis=0)
    r = (pid // tiles).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    c = (pid % tiles).to(tl.int64) * COLUMNS + tl.arange(0, COLUMNS)[
        None, :
    ]
    mask = (r < rows) & (c < columns)
    x = tl.load(x_ptr + r * columns + c, mask=mask)
    tl.store(out_ptr + c * rows + r, x, mask=mask)
# --8<-- [end:transpose]


def check_tensor(name: str, x: torch.Tensor, dimensions: int, dtypes=DTYPES) -> None:
    """Raise ``ValueError`` for a tensor that the kernels would read wrongly or not at all."""
    interpreted = not isinstance(take_every_kernel, triton.JITFunction)
    if x.device.type != ("cpu" if interpreted else "cuda"):
        where = "the CPU, interpreted" if interpreted else "a GPU"
        raise ValueError(f"{name} is on {x.device}; kernels run on {where}")
    if x.dtype not in dtypes:
        raise ValueError(f"{name}: dtype {x.dtype} is not supported; use one of {', '.join(map(str, dtypes))}")
    if x.ndim != dimensions or not x.is_contiguous():
        raise ValueError(
            f"{name} must be contiguous and have {dimensions} dimension{'s' * (dimensions > 1)}; "
            f"got shape {tuple(x.shape)}, strides {x.stride()}"
        )
    if x.is_neg():  # the kernels would read memory in which the sign is not yet applied
        raise ValueError(f"{name} is negated lazily; pass {name}.resolve_neg()")
    if x.requires_grad and torch.is_grad_enabled():
        raise ValueError(f"{name} requires a gradient, which this function does not compute; use torch.no_grad()")


def check_sides(**sides: int) -> None:
    for name, side in sides.items():
        if not isinstance(side, int) or not 1 <= side <= 2**16 or side & (side - 1):
            raise ValueError(f"{name} must be a power of two between 1 and 2**16; got {side}")


def grid_of(programs: int) -> tuple[int]:
    if programs >= 2**31:  # CUDA's limit of programs along one axis
        raise ValueError(f"{programs} programs are too many; use larger blocks")
    return (programs,)


# --8<-- [start:host]
def take_every(
    x: torch.Tensor, step: int, *, block_size: int = 1024, num_warps: int | None = None
) -> torch.Tensor:
    """Return a contiguous ``x[::step]``.

    Args:
        x: Contiguous, of one dimension and of one of ``DTYPES``; on a GPU, or in the interpreter on the CPU.
        step: At least 1.
        block_size: Elements of the result for each program, a power of two, at most 2**16.
        num_warps: 1, 2, 4 … 32. Default: 4 for steps below 4, else so many that each thread has one element.

    Raises:
        ValueError: An argument is something that the kernel cannot serve.

    >>> take_every(torch.tensor([3, 1, 4, 1, 5]), 2, block_size=4)
    tensor([3, 4, 5])
    """
    check_tensor("x", x, 1)
    check_sides(block_size=block_size)
    if not isinstance(step, int) or step < 1:
        raise ValueError(f"step must be a whole number from 1; got {step}")
    if num_warps is None:
        num_warps = 4 if step < 4 else min(max(block_size // 32, 1), 32)
    elif num_warps not in WARPS:
        raise ValueError(f"num_warps must be one of {WARPS}; got {num_warps!r}")
    n = triton.cdiv(len(x), step)
    out = torch.empty(n, dtype=x.dtype, device=x.device)
    if n:
        grid = grid_of(triton.cdiv(n, block_size))
        with torch.cuda.device_of(x):
            take_every_kernel[grid](x, out, n, step, BLOCK_SIZE=block_size, num_warps=num_warps)
    return out
# --8<-- [end:host]


def gather(x: torch.Tensor, index: torch.Tensor, *, block_size: int = 1024) -> torch.Tensor:
    """Return ``x[index]``, with 0 where an index is negative or too large.

    Args:
        x: Contiguous, of one dimension and of one of ``DTYPES``; on a GPU, or in the interpreter on the CPU.
        index: Like ``x``, but of int32 or int64.
        block_size: Elements of the result for each program, a power of two, at most 2**16.

    Raises:
        ValueError: An argument is something that the kernel cannot serve.

    >>> gather(torch.tensor([3, 1, 4]), torch.tensor([2, 2, 0, 3]), block_size=4)
    tensor([4, 4, 3, 0])
    """
    check_tensor("x", x, 1)
    check_tensor("index", index, 1, (torch.int32, torch.int64))
    check_sides(block_size=block_size)
    if index.device != x.device:
        raise ValueError(f"x is on {x.device} and index on {index.device}; they must be on one device")
    n = len(index)
    out = torch.empty(n, dtype=x.dtype, device=x.device)
    if n:
        with torch.cuda.device_of(x):
            gather_kernel[grid_of(triton.cdiv(n, block_size))](x, index, out, len(x), n, BLOCK_SIZE=block_size)
    return out


def transpose(x: torch.Tensor, *, rows: int = 64, columns: int = 64) -> torch.Tensor:
    """Return a contiguous ``x.T``.

    Args:
        x: Contiguous, of two dimensions and of one of ``DTYPES``; on a GPU, or in the interpreter on the CPU.
        rows, columns: Sides of the tile that a program moves, powers of two, at most 2**16 together.

    Raises:
        ValueError: An argument is something that the kernel cannot serve.

    >>> transpose(torch.tensor([[1, 2, 3], [4, 5, 6]]), rows=2, columns=2).tolist()
    [[1, 4], [2, 5], [3, 6]]
    """
    check_tensor("x", x, 2)
    check_sides(rows=rows, columns=columns, together=rows * columns)
    out = torch.empty((x.shape[1], x.shape[0]), dtype=x.dtype, device=x.device)
    if out.numel():
        grid = grid_of(triton.cdiv(x.shape[0], rows) * triton.cdiv(x.shape[1], columns))
        with torch.cuda.device_of(x):
            transpose_kernel[grid](x, out, *x.shape, ROWS=rows, COLUMNS=columns)
    return out


# --8<-- [start:sectors]
def sectors(offsets, itemsize: int) -> int:
    """Return how many sectors these elements lie in; ``offsets`` are
    counted from one that begins a sector.

    >>> sectors(range(32), itemsize=4), sectors(range(0, 64, 2), itemsize=4), sectors([1, 1000], itemsize=4)
    (4, 8, 2)
    """
    return len({offset * itemsize // SECTOR for offset in offsets})
# --8<-- [end:sectors]


def main():
    device = "cuda" if isinstance(take_every_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    x = torch.arange(32.0, device=device)
    print("## toy")
    for step in (1, 4):
        taken = take_every(x[: 8 * step], step, block_size=4)
        found = sectors(range(0, 8 * step, step), itemsize=4)
        print(f"step {step}: {found} sector{'s' * (found > 1)} for {len(taken)} elements")
    print("## a warp")
    for step in STEPS:
        print(f"step {step}: {sectors(range(0, 32 * step, step), itemsize=4)} sectors for 32 threads")
    print("## checked")
    torch.manual_seed(0)
    x = torch.rand(4999, device=device)
    index = torch.randint(4999, (3001,), device=device)
    matrix = x[:4096].view(64, 64)
    for name, result, expected in (
        ("take_every", take_every(x, 7), x[::7]),
        ("gather", gather(x, index), x[index]),
        ("transpose", transpose(matrix), matrix.T),
    ):
        print(f"{name}:", "equal" if torch.equal(result, expected) else "NOT equal")


if __name__ == "__main__":
    main()
