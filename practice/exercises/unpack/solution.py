# SPDX-License-Identifier: Apache-2.0
"""Fill in the gap: eight whole numbers of 4 bits lie in one int32, and a scale makes the weight of each.

A row of the weight has 8 * columns numbers. Word j of the row holds those at j, columns + j, 2 * columns + j and so on:
part p, the one at p * columns + j, is in bits 4 * p to 4 * p + 3. With two words a row, the first being 0x7654321F, the
row's number 0 is 15, its number 2 is 1, number 4 is 2, and number 14 is 7.

Subtract from each number its row's zero, then multiply by its row's scale. With a zero of 8 and a scale of 0.5, 15 is
(15 - 8) * 0.5 = 3.5.

A word is signed. If its highest bit is 1, a shift to the right fills it with ones from the left.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def unpack_kernel(words_ptr, scale_ptr, zero_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(axis=0)
    j = tl.program_id(axis=1) * BLOCK + tl.arange(0, BLOCK)
    mask = j < columns
    words = tl.load(words_ptr + row * columns + j, mask=mask)
    scale = tl.load(scale_ptr + row)
    zero = tl.load(zero_ptr + row)
    out_ptrs = out_ptr + row * 8 * columns + j
    for p in tl.static_range(8):
        # gap 1: the weights of part p, each stored at its place
        q = (words >> (4 * p)) & 15
        tl.store(out_ptrs + p * columns, scale * (q - zero), mask=mask)
        # end of gap 1


def unpack(words: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor) -> torch.Tensor:
    """Return the weight, float32, of words of int32, (rows, columns), and a scale and an int32 zero for each row."""
    if not (words.is_contiguous() and scale.is_contiguous() and zero.is_contiguous()):
        raise ValueError(f"words has the strides {words.stride()}; it takes contiguous tensors")
    rows, columns = words.shape
    out = torch.empty(rows, 8 * columns, dtype=torch.float32, device=words.device)
    if out.numel():
        BLOCK = 64
        unpack_kernel[(rows, triton.cdiv(columns, BLOCK))](words, scale, zero, out, columns, BLOCK=BLOCK)
    return out
