# SPDX-License-Identifier: Apache-2.0
"""The softmax of rows in Gluon, with the layout that Triton would choose: ``exp(x - max(x)) / sum(exp(x - max(x)))``.

Shapes: ``x`` and the result are ``(rows, columns)``, bfloat16, contiguous; a row fits into one program.
Needs an NVIDIA GPU, and a Triton that brings Gluon. Source: Triton, *Gluon*, tutorial 2.
"""

import torch
import triton
from torch import Tensor
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

WARPS = 8


# --8<-- [start:kernel]
@gluon.jit
def softmax_kernel(
    x_ptr, out_ptr, columns, LAYOUT: gl.constexpr, BLOCK: gl.constexpr
):
    row = gl.program_id(0).to(gl.int64) * columns
    column = gl.arange(0, BLOCK, layout=LAYOUT)
    mask = column < columns
    x = gl.load(x_ptr + row + column, mask=mask, other=-float("inf"))
    x = x.to(gl.float32)
    numerator = gl.exp(x - gl.max(x, axis=0))
    share = numerator / gl.sum(numerator, axis=0)
    share = share.to(out_ptr.dtype.element_ty)
    gl.store(out_ptr + row + column, share, mask=mask)


# 8 neighbors for each thread, 32 threads for each warp
LAYOUT = gl.BlockedLayout([8], [32], [WARPS], [0])


def softmax(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    rows, columns = x.shape
    block = triton.next_power_of_2(columns)
    softmax_kernel[rows,](x, out, columns, LAYOUT, block, num_warps=WARPS)
    return out
# --8<-- [end:kernel]
