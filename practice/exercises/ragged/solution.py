# SPDX-License-Identifier: Apache-2.0
"""Fill in the gaps. The rows of a matrix are sorted by expert; add each expert's bias to its rows.

Take three experts with 5, 0 and 3 rows, in tiles of 4. Their offsets are 0, 5, 5, 8. Tiles 0 and 1 are expert 0's, and
tile 1 has one row left, row 4. Tile 2 is expert 2's, and has the rows 5 to 7. Expert 1 has no tile. The offsets are on
the GPU, so the launch has as many programs as there could be tiles at most, and those without a tile do nothing.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def bias_kernel(
    x_ptr, bias_ptr, offsets_ptr, out_ptr, experts, columns,
    EXPERTS: tl.constexpr, COLUMNS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(axis=0)
    expert = tl.arange(0, EXPERTS)
    begin = tl.load(offsets_ptr + expert, mask=expert < experts, other=0)
    end = tl.load(offsets_ptr + 1 + expert, mask=expert < experts, other=0)
    # gap 1: mine, the expert of this tile; row, the tile's rows; there, which of them exist
    until = tl.cumsum(tl.cdiv(end - begin, BLOCK), axis=0)
    over = until <= tile
    mine = tl.sum(over.to(tl.int32), axis=0)
    tile -= tl.max(tl.where(over, until, 0), axis=0)
    is_mine = expert == mine
    row = tl.sum(tl.where(is_mine, begin, 0), axis=0) + tile * BLOCK + tl.arange(0, BLOCK)
    there = row < tl.sum(tl.where(is_mine, end, 0), axis=0)
    # end of gap 1
    column = tl.arange(0, COLUMNS)
    mask = there[:, None] & (column < columns)[None, :]
    offsets = row[:, None] * columns + column[None, :]
    bias = tl.load(bias_ptr + mine * columns + column, mask=(mine < experts) & (column < columns), other=0.0)
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    tl.store(out_ptr + offsets, x + bias[None, :], mask=mask)


def add_bias(x: torch.Tensor, bias: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """Return x, (rows, columns), plus the bias, (experts, columns), of each row's expert; all contiguous.

    Expert e has the rows from offsets[e] to offsets[e + 1], which may be none. The host does not read the offsets.
    """
    if not (x.is_contiguous() and bias.is_contiguous() and offsets.is_contiguous()):
        raise ValueError("it takes contiguous tensors")
    (rows, columns), experts = x.shape, len(bias)
    out = torch.empty_like(x)
    width, block = triton.next_power_of_2(experts), 4
    # gap 2: the most tiles that there can be
    tiles = rows // block + experts
    # end of gap 2
    bias_kernel[(tiles,)](
        x, bias, offsets, out, experts, columns,
        EXPERTS=width, COLUMNS=triton.next_power_of_2(columns), BLOCK=block,
    )  # fmt: skip
    return out
