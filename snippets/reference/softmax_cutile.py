# SPDX-License-Identifier: Apache-2.0
"""The softmax of rows in cuTile, NVIDIA's CUDA Tile in Python.

Shapes: ``x`` and the result are ``(rows, columns)``, bfloat16; COLUMNS is a power of two, ``columns`` or more.
Needs ``pip install cuda-tile[tileiras]``, and a GPU to run. Source: NVIDIA, *cuTile Python*.
"""

import cuda.tile as ct
import torch
from torch import Tensor

FARTHEST = ct.PaddingMode.NEG_INF


# --8<-- [start:kernel]
@ct.kernel
def softmax_kernel(x, out, COLUMNS: ct.Constant[int]):
    row = ct.bid(0)
    tile = ct.load(x, (row, 0), (1, COLUMNS), padding_mode=FARTHEST)
    tile = tile.astype(ct.float32)
    numerator = ct.exp(tile - ct.max(tile, 1, keepdims=True))
    share = numerator / ct.sum(numerator, 1, keepdims=True)
    ct.store(out, (row, 0), share.astype(out.dtype))


def softmax(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    rows, columns = x.shape
    tile = 1 << (columns - 1).bit_length()
    stream = torch.cuda.current_stream()
    ct.launch(stream, (rows,), softmax_kernel, (x, out, tile))
    return out
# --8<-- [end:kernel]
