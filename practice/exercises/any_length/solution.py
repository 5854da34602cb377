# SPDX-License-Identifier: Apache-2.0
"""Find the bug. Every new length of a row makes Triton compile this kernel again.

It returns the largest magnitude of each row, by which a quantized model scales it: of 1, -4, 2 that is 4. How long the
rows are depends on the request. Since `columns` is a tl.constexpr, each new length makes somebody wait while Triton
compiles, and each version stays in memory.

For an ordinary integer, Triton still compiles up to three versions, for 1, for multiples of 16 and for the rest, unless
do_not_specialize names it. `log` stands in for Triton's compiler, so that nobody has to wait here: it notes what each
launch would be compiled for, and launches as usual.
"""

import torch
import triton
import triton.language as tl


# gap 1: the kernel
@triton.jit(do_not_specialize=["columns"])
def largest_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(axis=0)
    largest = 0.0
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=0.0)
        largest = tl.maximum(largest, tl.max(tl.abs(x), axis=0))
    tl.store(out_ptr + row, largest)
# end of gap 1


def largest(x: torch.Tensor, log) -> torch.Tensor:
    """Return the largest magnitude of each row of a contiguous float32 matrix."""
    if not x.is_contiguous():
        raise ValueError(f"x has the strides {x.stride()}; it takes a contiguous matrix")
    rows, columns = x.shape
    out = torch.empty(rows, dtype=x.dtype, device=x.device)
    kernel = log.watch(largest_kernel)
    # gap 2: the launch
    kernel[(rows,)](x, out, columns, BLOCK=64)
    # end of gap 2
    return out
