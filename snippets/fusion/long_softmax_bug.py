# SPDX-License-Identifier: Apache-2.0
"""Softmax of long rows, wrong on purpose in two ways. Do not copy these kernels.

- ``no_rescale_bug`` does not rescale the old sum when the maximum grows: rows whose maximum is not in the first block
  come out too small, all shares by the same factor. Rows sorted in descending order hide it.
- ``minus_infinity_bug`` begins with a maximum of -inf: where all of the first block is -inf, it subtracts -inf from
  -inf, and the whole row becomes NaN.

The second pass is that of ``long_softmax.py``.
Run it on a GPU with ``python long_softmax_bug.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import torch
import triton
import triton.language as tl

from snippets.fusion.long_softmax import shown, write_shares
from snippets.fusion.long_softmax_blocks import running


@triton.jit
def no_rescale_bug(
    x_ptr, out_ptr, columns,
    LOWEST: tl.constexpr, COMPUTE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(axis=0).to(tl.int64)
    x_ptr += row * columns
    # --8<-- [start:no_rescale]
    maximum = tl.full((), LOWEST, COMPUTE)
    total = tl.full((), 0.0, COMPUTE)
    column = tl.arange(0, BLOCK)
    for start in range(0, columns, BLOCK):
        mask = column < columns - start
        x = tl.load(x_ptr + start + column, mask=mask, other=-float("inf"))
        maximum = tl.maximum(maximum, tl.max(x, axis=0))
        total += tl.sum(tl.exp(x - maximum), axis=0)
    # --8<-- [end:no_rescale]
    write_shares(x_ptr, out_ptr + row * columns, columns, maximum, total, COMPUTE, BLOCK)


@triton.jit
def minus_infinity_bug(
    x_ptr, out_ptr, columns,
    LOWEST: tl.constexpr, COMPUTE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(axis=0).to(tl.int64)
    x_ptr += row * columns
    # --8<-- [start:minus_infinity]
    maximum = tl.full((), -float("inf"), COMPUTE)
    # --8<-- [end:minus_infinity]
    total = tl.full((), 0.0, COMPUTE)
    column = tl.arange(0, BLOCK)
    for start in range(0, columns, BLOCK):
        mask = column < columns - start
        x = tl.load(x_ptr + start + column, mask=mask, other=-float("inf"))
        grown = tl.maximum(maximum, tl.max(x, axis=0))
        total = total * tl.exp(maximum - grown) + tl.sum(tl.exp(x - grown), axis=0)
        maximum = grown
    write_shares(x_ptr, out_ptr + row * columns, columns, maximum, total, COMPUTE, BLOCK)


def launched(kernel, x, block):
    """Launch ``kernel`` on ``x``, (rows, columns) of float32 and contiguous, and return the result."""
    out = torch.empty_like(x)
    rows, columns = x.shape
    kernel[(rows,)](x, out, columns, LOWEST=torch.finfo(x.dtype).min, COMPUTE=tl.float32, BLOCK=block)
    return out


def main():
    device = "cuda" if isinstance(no_rescale_bug, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    inf = float("inf")

    print("## no rescaling")
    x = torch.tensor([[1.0, 3.0, 2.0, 5.0], [5.0, 3.0, 2.0, 1.0], [2.0, 5.0, 1.0, 3.0]], device=device)
    for row, shares in zip(x, launched(no_rescale_bug, x, 2), strict=True):
        names = " ".join(f"{value:g}" for value in row.tolist())
        print(f"{names}: {shown(shares)}  sum {shares.sum().item():.4f}")
    row = x[0]
    sums = [running(block, 2)[0][1] for block in row.view(2, 2)]
    print(f"sum of the blocks' own sums: {sum(sums):.4f}")

    print("## begin with -inf")
    x = torch.tensor([[-inf, -inf, 2.0, 5.0], [2.0, 5.0, -inf, -inf], [-inf, 2.0, -inf, 5.0]], device=device)
    for row, shares in zip(x, launched(minus_infinity_bug, x, 2), strict=True):
        names = " ".join(f"{value:g}" for value in row.tolist())
        print(f"{names:>13}: {shown(shares)}")


if __name__ == "__main__":
    main()
