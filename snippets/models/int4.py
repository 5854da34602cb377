# SPDX-License-Identifier: Apache-2.0
"""Multiply by a weight of 4 bits per number, or 8: as a language model does that was quantized.

``y = x @ W.T``, where ``W[n, k] = scale * (q - zero)``. ``q`` is a whole number from 0 to 15. ``scale`` and ``zero``
belong to a row of ``W`` and a group of neighbors along K, often 128. With few rows in ``x``, the time is the time it
takes to read ``W``, so a weight of a quarter of the bytes can take a quarter of the time. What must not take longer is
the unpacking, and so:

- 4 weights lie in a 16-bit word: not neighbors, but numbers j, 32 + j, 64 + j and 96 + j of 128 along K. So what one
  shift takes out of 32 words are 32 neighbors again, which multiply 32 neighbors of ``x``.
- Two words lie in a 32-bit register, and three instructions make two numbers of them: shift, mask and set the bits of
  128 (or 1024 in float16), subtract 128 + zero.
- The scale is multiplied with the sum of a group, not with each weight.
- ``W`` is the left side of ``tl.dot``, so that what was unpacked stays in registers.

Shapes: ``x`` is (M, K), ``W`` is (N, K), ``y`` is (M, N). Bytes: N * K / 2, and 4 for each group. FLOPs: 2 * M * N * K.

Run it on a GPU with ``python int4.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import functools
from typing import NamedTuple

import torch
import triton
import triton.language as tl

from snippets.matmul.few_rows import counters, limits_of

DTYPES = torch.float16, torch.bfloat16
BLOCK = 128  # numbers along K that are packed together


# --8<-- [start:pack]
class Packed(NamedTuple):
    """A weight of ``n`` x ``k`` in 4 or 8 bits."""

    words: torch.Tensor  # (blocks of 128 along K, n, 32 or 64), int16
    scales: torch.Tensor  # (groups, n), int32: a float32, its last 8 bits the zero
    n: int
    k: int
    group: int
    bits: int


def pack(q: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor, bits: int = 4) -> Packed:
    n, k = q.shape
    groups, blocks, parts = scale.shape[1], -(-k // BLOCK), 16 // bits
    group = -(-k // groups)
    q = torch.nn.functional.pad(q.to(torch.int32), (0, blocks * BLOCK - k))
    # (n, blocks, parts, words): part p of word j is number p * words + j
    q = q.view(n, blocks, parts, BLOCK // parts)
    shifts = torch.arange(0, 16, bits, device=q.device, dtype=torch.int32)
    words = (q << shifts[:, None]).sum(2, dtype=torch.int32).to(torch.int16)
    bits_of = scale.to(torch.float32).contiguous().view(torch.int32)
    scales = bits_of & ~0xFF | zero.to(torch.int32)
    return Packed(words.transpose(0, 1).contiguous(), scales.t().contiguous(), n, k, group, bits)
# --8<-- [end:pack]


# --8<-- [start:plain]
@triton.jit
def unpack(words, zero, PART: tl.constexpr, BITS: tl.constexpr, DTYPE: tl.constexpr):
    q = (words >> (PART * BITS)) & (2**BITS - 1)
    return (q - zero).to(DTYPE)
# --8<-- [end:plain]


# --8<-- [start:fast]
@triton.jit
def minus(zero, BITS: tl.constexpr, DTYPE: tl.constexpr):
    if DTYPE == tl.float16:
        return (zero | 0xE400).to(tl.int16)  # -(1024 + zero)
    elif BITS == 4:
        return (zero | 0xC300).to(tl.int16)  # -(128 + zero)
    else:
        return (128 - zero).to(tl.bfloat16).to(tl.int16, bitcast=True)


@triton.jit
def unpack_pairs(words, less, PART: tl.constexpr, BITS: tl.constexpr, DTYPE: tl.constexpr):
    if DTYPE == tl.float16:
        return tl.inline_asm_elementwise(
            f"""{{
            .reg .b32 q, one;
            mov.b32 one, 0x3c003c00;
            shr.u32 q, $1, {PART * BITS};
            lop3.b32 q, q, {(2**BITS - 1) * 0x10001}, 0x64006400, 0xea;
            fma.rn.f16x2 $0, q, one, $2;
            }}""", "=r,r,r", [words, less], dtype=tl.float16, is_pure=True, pack=2,
        )
    elif BITS == 4:
        return tl.inline_asm_elementwise(
            f"""{{
            .reg .b32 q, one;
            mov.b32 one, 0x3f803f80;
            shr.u32 q, $1, {PART * BITS};
            lop3.b32 q, q, 0x000f000f, 0x43004300, 0xea;
            fma.rn.bf16x2 $0, q, one, $2;
            }}""", "=r,r,r", [words, less], dtype=tl.bfloat16, is_pure=True, pack=2,
        )
    else:
        return tl.inline_asm_elementwise(
            f"""{{
            .reg .b32 q, h, one, c;
            mov.b32 one, 0x3f803f80;
            mov.b32 c, 0xc3c0c3c0;
            shr.u32 q, $1, {PART * BITS};
            lop3.b32 h, q, 0x00800080, 0x43004300, 0xea;
            lop3.b32 q, q, 0x007f007f, 0x43004300, 0xea;
            fma.rn.bf16x2 h, h, one, c;
            fma.rn.bf16x2 q, q, one, h;
            fma.rn.bf16x2 $0, q, one, $2;
            }}""", "=r,r,r", [words, less], dtype=tl.bfloat16, is_pure=True, pack=2,
        )
# --8<-- [end:fast]


# --8<-- [start:kernel]
@triton.jit(do_not_specialize=["M", "blocks", "row_tiles", "parts"])
def int4_kernel(
    x_ptr, words_ptr, scales_ptr, y_ptr, partial_ptr, count_ptr, M, N, blocks, stride_x, row_tiles, parts,
    GROUP: tl.constexpr, BITS: tl.constexpr, FAST: tl.constexpr, SPLIT: tl.constexpr,
    ROWS: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    BLOCK: tl.constexpr = 128
    PARTS: tl.constexpr = 16 // BITS
    WORDS: tl.constexpr = BLOCK // PARTS
    DTYPE: tl.constexpr = x_ptr.dtype.element_ty
    tile, part = tl.program_id(0), tl.program_id(1)
    row = tile % row_tiles * ROWS
    n = tile // row_tiles * BLOCK_N
    begin, end = part * blocks // parts, (part + 1) * blocks // parts
    rows, columns, lanes = tl.arange(0, ROWS), tl.arange(0, BLOCK_N), tl.arange(0, WORDS)
    is_row, is_column = rows < M - row, columns < N - n
    x_ptrs = (
        x_ptr + (row.to(tl.int64) * stride_x + begin * BLOCK)
        + tl.multiple_of(rows * stride_x, 8)[:, None] + lanes[None, :]
    )
    words_ptrs = (
        words_ptr + (begin.to(tl.int64) * N + n) * WORDS
        + columns[:, None] * WORDS + lanes[None, :]
    )
    scales_ptrs = scales_ptr + n + columns
    acc = tl.zeros((BLOCK_N, ROWS), dtype=tl.float32)
    for block in range(begin, end):
        words = tl.load(words_ptrs, mask=is_column[:, None], other=0)
        for p in tl.static_range(PARTS):
            if p * WORDS % GROUP == 0:
                group = (block * BLOCK + p * WORDS) // GROUP
                both = tl.load(scales_ptrs + group.to(tl.int64) * N, mask=is_column, other=0)
                scale = (both & -256).to(tl.float32, bitcast=True)
                zero = both & 255
                sums = tl.zeros((BLOCK_N, ROWS), dtype=tl.float32)
            if FAST:
                w = unpack_pairs(words, minus(zero, BITS, DTYPE)[:, None], p, BITS, DTYPE)
            else:
                w = unpack(words, zero[:, None], p, BITS, DTYPE)
            x = tl.load(x_ptrs + p * WORDS, mask=is_row[:, None], other=0.0)
            sums = tl.dot(w, x.T, sums)
            if (p + 1) * WORDS % GROUP == 0 or p + 1 == PARTS:
                acc += scale[:, None] * sums
        words_ptrs += tl.cast(N, tl.int64) * WORDS
        x_ptrs += BLOCK
    y_ptrs = y_ptr + (row.to(tl.int64) * N + n) + columns[:, None] + rows[None, :] * N
    mask = is_column[:, None] & is_row[None, :]
    if not SPLIT:
        tl.store(y_ptrs, acc, mask=mask)
    else:
        TILE: tl.constexpr = BLOCK_N * ROWS
        pieces = partial_ptr + tile.to(tl.int64) * parts * TILE + (rows[None, :] * BLOCK_N + columns[:, None])
        tl.store(pieces + part * TILE, acc, mask=is_row[None, :])
        tl.debug_barrier()
        before = tl.atomic_add(count_ptr + tile, 1, sem="acq_rel", scope="gpu")
        if before == parts - 1:
            total = tl.load(pieces, mask=is_row[None, :], cache_modifier=".cg")
            for piece in tl.range(1, parts, loop_unroll_factor=4):
                total += tl.load(pieces + piece * TILE, mask=is_row[None, :], cache_modifier=".cg")
            tl.store(y_ptrs, total, mask=mask)
            tl.store(count_ptr + tile, 0)
# --8<-- [end:kernel]


class Plan(NamedTuple):
    rows: int
    block_n: int
    num_warps: int
    num_stages: int
    parts: int


def launch(x, packed, found, fast=True):
    M, N, blocks = len(x), packed.n, len(packed.words)
    y = torch.empty(M, N, dtype=x.dtype, device=x.device)
    tiles, row_tiles = -(-N // found.block_n), -(-M // found.rows)
    partial = count = y
    if found.parts > 1:
        partial = torch.empty(tiles * row_tiles * found.parts * found.block_n * found.rows, dtype=torch.float32, device=x.device)
        count = counters(x.device, tiles * row_tiles)
    int4_kernel[(tiles * row_tiles, found.parts)](
        x, packed.words, packed.scales, y, partial, count, M, N, blocks, x.stride(0), row_tiles, found.parts,
        GROUP=packed.group, BITS=packed.bits, FAST=fast, SPLIT=found.parts > 1, ROWS=found.rows, BLOCK_N=found.block_n,
        num_warps=found.num_warps, num_stages=found.num_stages,
    )
    return y
