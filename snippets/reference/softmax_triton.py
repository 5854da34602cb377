# SPDX-License-Identifier: Apache-2.0
"""The softmax of rows in Triton, as short as it gets: ``exp(x - max(x)) / sum(exp(x - max(x)))``.

Shapes: ``x`` and the result are ``(rows, columns)``, bfloat16, contiguous; a row fits into one program.
The one to copy, which checks what it is given, is ``snippets/programs/softmax.py``.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor


# --8<-- [start:kernel]
@triton.jit
def softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    column = tl.arange(0, BLOCK)
    mask = column < columns
    x = tl.load(x_ptr + row + column, mask=mask, other=-float("inf"))
    x = x.to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=0))
    share = numerator / tl.sum(numerator, axis=0)
    tl.store(out_ptr + row + column, share, mask=mask)


def softmax(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    rows, columns = x.shape
    block = triton.next_power_of_2(columns)
    softmax_kernel[rows,](x, out, columns, block, num_warps=8)
    return out
# --8<-- [end:kernel]
