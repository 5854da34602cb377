# SPDX-License-Identifier: Apache-2.0
"""Blocks are powers of two and cannot be sliced. Ways round both.

- :func:`row_sum_two_ranges`: rows of 12 as a range of 8 and a range of 4, so that no lane is off
- :func:`front`: the first elements of a block, ``x[:k]``, by ``tl.gather``
- :func:`halves`: both halves of a block, by ``tl.reshape`` and ``tl.split``
- :func:`element`: one element of a block, ``x[i]``, by a mask and a sum

Two more ways are in ``masks.py``: a block that is too large, with a mask; and a loop over blocks. Where the elements
are still in memory, the best slice of a block is another load, from an offset of your choice.
Shapes: one-dimensional blocks of a power of two of elements, so that a program holds all of ``x``.
Source: none is needed; the results are those of indexing in torch.

Run it on a GPU with ``python masks_ranges.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import torch
import triton
import triton.language as tl

DTYPES = (torch.float32, torch.float64, torch.int32, torch.int64)


# --8<-- [start:two]
@triton.jit
def row_sum_two_ranges_kernel(
    x_ptr, out_ptr, FIRST: tl.constexpr, SECOND: tl.constexpr
):  # fmt: skip
    row = tl.program_id(axis=0).to(tl.int64)
    start = x_ptr + row * (FIRST + SECOND)
    first = tl.load(start + tl.arange(0, FIRST))
    # A range may begin and end anywhere; only its length matters.
    second = tl.load(start + tl.arange(FIRST, FIRST + SECOND))
    tl.store(out_ptr + row, tl.sum(first) + tl.sum(second))
# --8<-- [end:two]


# --8<-- [start:front]
@triton.jit
def front_kernel(x_ptr, out_ptr, N: tl.constexpr, K: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    lanes = tl.arange(0, K)
    tl.store(out_ptr + lanes, tl.gather(x, lanes, axis=0))
# --8<-- [end:front]


# --8<-- [start:halves]
@triton.jit
def halves_kernel(x_ptr, first_ptr, second_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    # tl.split takes the last axis apart, which must have size 2.
    first, second = tl.split(tl.trans(tl.reshape(x, (2, N // 2))))
    lanes = tl.arange(0, N // 2)
    tl.store(first_ptr + lanes, first)
    tl.store(second_ptr + lanes, second)
# --8<-- [end:halves]


# --8<-- [start:element]
@triton.jit
def element_kernel(x_ptr, out_ptr, i, N: tl.constexpr):
    lanes = tl.arange(0, N)
    x = tl.load(x_ptr + lanes)
    tl.store(out_ptr, tl.sum(tl.where(lanes == i, x, 0)))
# --8<-- [end:element]


def row_sum_two_ranges(x: torch.Tensor) -> torch.Tensor:
    """Return the sum of each row of ``x``, a contiguous tensor ``(rows, columns)`` of one of ``DTYPES``.

    Sums are computed in the dtype of ``x``. The number of columns must be the sum of two powers
    of two, such as 12 = 8 + 4, and at most 2**16.

    Raises:
        ValueError: If ``x`` is something the kernel can't serve.

    >>> row_sum_two_ranges(torch.tensor([[1, 2, 3], [10, 20, 30]]))
    tensor([ 6, 60])
    """
    check_arguments(x, 2)
    rows, columns = x.shape
    if columns.bit_count() != 2 or columns > 2**16:
        raise ValueError(f"columns must be the sum of two powers of two, at most 2**16; got {columns}")
    out = torch.empty(rows, dtype=x.dtype, device=x.device)
    second = columns & -columns  # the lower of the two bits
    if rows:
        with torch.cuda.device_of(x):
            row_sum_two_ranges_kernel[(rows,)](x, out, FIRST=columns - second, SECOND=second)
    return out


def front(x: torch.Tensor, k: int) -> torch.Tensor:
    """Return ``x[:k]`` of a block ``x``; ``k`` is a power of two.

    >>> front(torch.tensor([3, 1, 4, 1]), 2)
    tensor([3, 1])
    """
    check_one_block(x)
    if not isinstance(k, int) or not 1 <= k <= x.numel() or k & (k - 1):
        raise ValueError(f"k must be a power of two, at most {x.numel()}; got {k}")
    out = torch.empty(k, dtype=x.dtype, device=x.device)
    with torch.cuda.device_of(x):
        front_kernel[(1,)](x, out, N=x.numel(), K=k)
    return out


def halves(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the first and the second half of a block ``x`` of two elements or more.

    >>> halves(torch.tensor([3, 1, 4, 1]))
    (tensor([3, 1]), tensor([4, 1]))
    """
    check_one_block(x)
    if x.numel() < 2:
        raise ValueError("a block of one element has no halves")
    first, second = (torch.empty(x.numel() // 2, dtype=x.dtype, device=x.device) for _ in range(2))
    with torch.cuda.device_of(x):
        halves_kernel[(1,)](x, first, second, N=x.numel())
    return first, second


def element(x: torch.Tensor, i: int) -> torch.Tensor:
    """Return ``x[i]`` of a block ``x``, as a tensor of no dimensions. NaN in others does no harm. -0.0 becomes 0.0.

    >>> element(torch.tensor([3, 1, 4, 1]), 2)
    tensor(4)
    """
    check_one_block(x)
    if not isinstance(i, int) or not 0 <= i < x.numel():
        raise ValueError(f"i must be between 0 and {x.numel() - 1}; got {i}")
    out = torch.empty((), dtype=x.dtype, device=x.device)
    with torch.cuda.device_of(x):
        element_kernel[(1,)](x, out, i, N=x.numel())
    return out


def check_one_block(x: torch.Tensor) -> None:
    """Raise ``ValueError`` unless ``x`` fits into one block of just its size."""
    check_arguments(x, 1)
    if x.numel().bit_count() != 1 or x.numel() > 2**13:
        raise ValueError(f"x must have a power of two of elements, at most 2**13; got {x.numel()}")


def check_arguments(x: torch.Tensor, ndim: int) -> None:
    """Raise ``ValueError`` for tensors that the kernels of this file would get wrong, or can't serve at all."""
    if x.ndim != ndim:
        raise ValueError(f"x must have {ndim} dimension{'s' * (ndim > 1)}; got the shape {tuple(x.shape)}")
    if x.dtype not in DTYPES:
        raise ValueError(f"dtype {x.dtype} is not supported; use one of {', '.join(map(str, DTYPES))}")
    interpreted = not isinstance(element_kernel, triton.JITFunction)
    if x.device.type != ("cpu" if interpreted else "cuda"):
        raise ValueError(f"x is on {x.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}")
    if not x.is_contiguous():
        raise ValueError(f"x has strides {x.stride()}; pass x.contiguous(), which copies it")
    if x.is_neg():  # its memory doesn't have the sign applied yet
        raise ValueError("x is negated lazily; pass x.resolve_neg()")
    if x.requires_grad and torch.is_grad_enabled():
        raise ValueError("x requires a gradient, which these functions do not compute; use torch.no_grad()")


def main():
    device = "cuda" if isinstance(element_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    rows = torch.arange(24, device=device).view(2, 12)
    print("rows of 12, as 8 and 4:", row_sum_two_ranges(rows).tolist())
    x = torch.tensor([3, 1, 4, 1, 5, 9, 2, 6], device=device)
    print("x =", x.tolist())
    print("x[0:2] by tl.gather:", front(x, 2).tolist())
    print("x[:4], x[4:] by tl.split:", *(half.tolist() for half in halves(x)))
    print("x[5] by a mask and a sum:", element(x, 5).item())
    print("largest block:", tl.TRITON_MAX_TENSOR_NUMEL)


if __name__ == "__main__":
    main()
