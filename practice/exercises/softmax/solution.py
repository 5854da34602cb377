# SPDX-License-Identifier: Apache-2.0
"""Fill in the gaps. Softmax of scale · x, where only the first elements of each row take part.

With a scale of 1, the row [0, 0, 7] of length 2 becomes [0.5, 0.5, 0]: two elements share 1, and the third gets
nothing. lengths says how long each row is, which is at least 1, as in attention over sentences of different lengths.
Store all columns of the result, with 0 past the length. scale may be negative.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, lengths_ptr, out_ptr, n_columns, scale, stride_row, BLOCK: tl.constexpr):
    row = tl.program_id(axis=0)
    columns = tl.arange(0, BLOCK)
    mask = columns < tl.load(lengths_ptr + row)  # this row's length
    # gap 1: load the row, scale it, subtract its maximum; then the numerators, and each lane's share
    x = tl.load(x_ptr + row * stride_row + columns, mask=mask)
    x = tl.where(mask, x * scale, -float("inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))
    share = numerator / tl.sum(numerator, axis=0)
    # end of gap 1
    tl.store(out_ptr + row * n_columns + columns, share, mask=columns < n_columns)


def softmax(x: torch.Tensor, lengths: torch.Tensor, scale: float) -> torch.Tensor:
    """Return the softmax of scale · x over the first lengths[i] elements of each row i, and 0 past them."""
    if x.stride(1) != 1 or not lengths.is_contiguous():
        raise ValueError("in x the elements of a row, in lengths all elements have to be neighbors in memory")
    n_rows, n_columns = x.shape
    out = torch.empty(n_rows, n_columns, dtype=x.dtype, device=x.device)
    # gap 2: the size of the block, for a whole row
    block = triton.next_power_of_2(n_columns)
    # end of gap 2
    softmax_kernel[(n_rows,)](x, lengths, out, n_columns, scale, x.stride(0), BLOCK=block)
    return out
