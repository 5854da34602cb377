# SPDX-License-Identifier: Apache-2.0
"""Fill in the gaps. The keys of attention were split into parts; combine the parts of each query.

Take two parts with the maxima 3 and 5, the sums 1.5530 and 1.4360, and the accumulators 3.4381 and 8.9706. Their common
maximum is 5, so the factors are 0.1353 and 1. That makes the sum 1.6462, the accumulator 9.4359 and the result 5.732.
Each program handles one query and has already loaded all of its parts. Write the result. A part that saw no keys has
the maximum -inf, the sum 0 and an accumulator of zeros. A query without any keys gets zeros.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def combine_kernel(
    maximum_ptr, total_ptr, accumulator_ptr, out_ptr, parts, DIM: tl.constexpr, PARTS: tl.constexpr
):  # fmt: skip
    query = tl.program_id(axis=0)
    column = tl.arange(0, DIM)
    there = tl.arange(0, PARTS) < parts
    part = query * parts + tl.arange(0, PARTS)
    maximum = tl.load(maximum_ptr + part, mask=there, other=-float("inf"))
    total = tl.load(total_ptr + part, mask=there, other=0.0)
    accumulator_ptrs = accumulator_ptr + part[:, None] * DIM + column[None, :]
    accumulator = tl.load(accumulator_ptrs, mask=there[:, None], other=0.0)  # a row for each part
    # gap 1: out, from the maximum, total and accumulator of all parts
    shift = tl.max(maximum, axis=0)
    shift = tl.where(shift == -float("inf"), 0.0, shift)
    factor = tl.exp(maximum - shift)
    total = tl.sum(factor * total, axis=0)
    accumulator = tl.sum(factor[:, None] * accumulator, axis=0)
    out = accumulator / tl.where(total == 0.0, 1.0, total)
    # end of gap 1
    tl.store(out_ptr + query * DIM + column, out)


def combine(maximum: torch.Tensor, total: torch.Tensor, accumulator: torch.Tensor) -> torch.Tensor:
    """Return the result of each query, (queries, 16), from contiguous float32 parts.

    maximum and total are (queries, parts), accumulator is (queries, parts, 16); there is at least one part.
    """
    if not (maximum.is_contiguous() and total.is_contiguous() and accumulator.is_contiguous()):
        raise ValueError("it takes contiguous tensors")
    queries, parts, dim = accumulator.shape
    out = torch.empty(queries, dim, dtype=accumulator.dtype, device=accumulator.device)
    # gap 2: the launch
    block = triton.next_power_of_2(parts)
    combine_kernel[(queries,)](maximum, total, accumulator, out, parts, DIM=dim, PARTS=block)
    # end of gap 2
    return out
