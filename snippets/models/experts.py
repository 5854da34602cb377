# SPDX-License-Identifier: Apache-2.0
"""Mixture of experts: each token goes to a few experts of many, and all experts' products are one launch.

Every token has a logit for each expert. It goes to the ``top_k`` experts with the largest, and its result is the sum of
theirs, weighted by the softmax of those logits. A *pair* is a token and one of its experts; there are
``tokens * top_k``, numbered token by token. Four kernels:

- :func:`route_kernel` chooses the experts, and counts how many tokens of its block go to each.
- :func:`place_kernel` adds up the counts, and so gives each pair its row: expert by expert, in the order of tokens.
- :func:`grouped_kernel` multiplies each row by its expert's weight. Each tile belongs to one expert; the last may be
  partly empty, but no row is added to fill it. A program finds out by itself which expert's tile it has, so the
  host never asks how many rows there are.
- :func:`combine_kernel` gathers each token's rows and adds them up, weighted.

:func:`weight_gradient_kernel` and :func:`combine_backward_kernel` are for the backward. Nothing is added with atomics:
all runs give the same bits.

Shapes: ``x`` is (tokens, hidden), ``logits`` is (tokens, experts), a weight is (experts, K, N).
FLOPs of a grouped product: 2 * tokens * top_k * K * N.

Run it on a GPU with ``python experts.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import functools
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from triton.tools.ragged_tma import create_ragged_descriptor, load_ragged
from triton.tools.tensor_descriptor import TensorDescriptor

from snippets.fusion.swiglu import swiglu

DTYPES = torch.float16, torch.bfloat16, torch.float32
MOST_EXPERTS, MOST_COLUMNS = 256, 2**23


# --8<-- [start:route]
@triton.jit
def route_kernel(
    logits_ptr, experts_ptr, weights_ptr, counts_ptr, tokens, experts, stride_t, stride_e,
    TOP_K: tl.constexpr, SLOTS: tl.constexpr, EXPERTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    block = tl.program_id(axis=0)
    token = block * BLOCK + tl.arange(0, BLOCK)
    expert, slot = tl.arange(0, EXPERTS), tl.arange(0, SLOTS)
    inside = (token < tokens)[:, None] & (expert < experts)[None, :]
    offsets = token.to(tl.int64)[:, None] * stride_t + expert.to(tl.int64)[None, :] * stride_e
    logits = tl.load(logits_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    # As integers in the same order. NaN is the largest, and the least is for
    # experts that are taken or don't exist, so each is chosen only once.
    bits = logits.to(tl.int32, bitcast=True)
    key = tl.where(logits == logits, bits ^ ((bits >> 31) & 0x7FFFFFFF), 0x7FFFFFFF)
    key = tl.where((expert < experts)[None, :], key, -0x80000000)
    chosen = tl.zeros((BLOCK, SLOTS), tl.int32)
    values = tl.full((BLOCK, SLOTS), float("-inf"), tl.float32)
    # --8<-- [start:choose]
    for i in tl.static_range(TOP_K):
        best = tl.argmax(key, axis=1)
        is_best = expert[None, :] == best[:, None]
        value = tl.sum(tl.where(is_best, logits, 0.0), axis=1)
        chosen = tl.where(slot[None, :] == i, best[:, None], chosen)
        values = tl.where(slot[None, :] == i, value[:, None], values)
        key = tl.where(is_best, -0x80000000, key)
    weights = tl.exp(values - tl.max(values, axis=1)[:, None])
    weights /= tl.sum(weights, axis=1)[:, None]
    # --8<-- [end:choose]
    pair = token.to(tl.int64)[:, None] * TOP_K + slot[None, :]
    is_pair = (token < tokens)[:, None] & (slot < TOP_K)[None, :]
    tl.store(experts_ptr + pair, chosen, mask=is_pair)
    tl.store(weights_ptr + pair, weights, mask=is_pair)
    # --8<-- [start:count]
    # How many tokens of this block go to each expert
    taken = (key == -0x80000000) & inside
    tl.store(
        counts_ptr + block * EXPERTS + expert,
        tl.sum(taken.to(tl.int32), axis=0),
    )
    # --8<-- [end:count]
# --8<-- [end:route]


# --8<-- [start:place]
@triton.jit
def place_kernel(
    experts_ptr, counts_ptr, pairs_ptr, rows_ptr, offsets_ptr, order_ptr, tokens, experts, blocks,
    TOP_K: tl.constexpr, EXPERTS: tl.constexpr, BLOCK: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    block = tl.program_id(axis=0)
    expert = tl.arange(0, EXPERTS)
    # --8<-- [start:add]
    # How many tokens go to each expert, from all blocks and from those
    # before this one
    total, before = (
        tl.zeros((EXPERTS,), tl.int32), tl.zeros((EXPERTS,), tl.int32)
    )  # fmt: skip
    for first in range(0, blocks, STEP):
        other = first + tl.arange(0, STEP)
        counts = tl.load(
            counts_ptr + other[:, None] * EXPERTS + expert[None, :],
            mask=(other < blocks)[:, None],
            other=0,
        )
        total += tl.sum(counts, axis=0)
        before += tl.sum(tl.where((other < block)[:, None], counts, 0), axis=0)
    ends = tl.cumsum(total, axis=0)
    begins = ends - total
    # --8<-- [end:add]
    if block == 0:
        tl.store(offsets_ptr, 0)
        tl.store(offsets_ptr + 1 + expert, ends, mask=expert < experts)
        # The experts with the most rows first.
        key = total.to(tl.int64) * EXPERTS + (EXPERTS - 1 - expert)
        key = tl.sort(tl.where(expert < experts, key, -1), descending=True)
        tl.store(order_ptr + expert, (EXPERTS - 1 - key % EXPERTS).to(tl.int32), mask=expert < experts)
    # --8<-- [start:rows]
    # The slot in which a token has chosen an expert, or -1
    token = block * BLOCK + tl.arange(0, BLOCK)
    pair = token * TOP_K
    slot = tl.full((BLOCK, EXPERTS), -1, tl.int32)
    for i in tl.static_range(TOP_K):
        chosen = tl.load(
            experts_ptr + pair + i, mask=token < tokens, other=-1
        )
        slot = tl.where(expert[None, :] == chosen[:, None], i, slot)
    goes = slot >= 0
    # Before a pair's row are those of the experts before its own, and of
    # the tokens before it: in other blocks, and in this one.
    row = (
        (begins + before)[None, :]
        + tl.cumsum(goes.to(tl.int32), axis=0)
        - 1
    )  # fmt: skip
    tl.store(pairs_ptr + row, pair[:, None] + slot, mask=goes)
    tl.store(rows_ptr + pair[:, None] + slot, row, mask=goes)
    # --8<-- [end:rows]
# --8<-- [end:place]


# --8<-- [start:find]
# --8<-- [start:until]
@triton.jit
def tiles_until(
    offsets_ptr, experts, EXPERTS: tl.constexpr, BLOCK_M: tl.constexpr
):
    """Return how many tiles of rows there are up to each expert's end."""
    expert = tl.arange(0, EXPERTS)
    begin = tl.load(offsets_ptr + expert, mask=expert < experts, other=0)
    end = tl.load(offsets_ptr + expert + 1, mask=expert < experts, other=0)
    return tl.cumsum(tl.cdiv(end - begin, BLOCK_M), axis=0)
# --8<-- [end:until]


@triton.jit
def find(
    tile, until, offsets_ptr, tiles_n,
    BLOCK_M: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """Return a tile's expert, where its rows begin, how many there are,
    and the tile's row and column among the expert's tiles.
    """
    # --8<-- [start:find_expert]
    # Which experts' tiles all come before this one?
    over = until <= tile // tiles_n
    expert = tl.sum(over.to(tl.int32), axis=0)
    # From now on, count from the expert's first tile.
    tile -= tl.max(tl.where(over, until, 0), axis=0) * tiles_n
    begin = tl.load(offsets_ptr + expert)
    rows = tl.load(offsets_ptr + expert + 1) - begin
    # --8<-- [end:find_expert]
    # The grouped order: GROUP_M tiles down, then the next column.
    per_group = GROUP_M * tiles_n
    first = tile // per_group * GROUP_M
    height = tl.minimum(tl.cdiv(rows, BLOCK_M) - first, GROUP_M)
    return (
        expert, begin, rows,
        first + tile % per_group % height, tile % per_group // height,
    )  # fmt: skip
# --8<-- [end:find]


# --8<-- [start:grouped]
@triton.jit
def grouped_kernel(
    x, w, out_ptr, pairs_ptr, offsets_ptr, stride_x, experts, K, N,
    TOP_K: tl.constexpr, X_DESCRIBED: tl.constexpr, W_ALONG_K: tl.constexpr, K_EVEN: tl.constexpr,
    SWAPPED: tl.constexpr, FLATTEN: tl.constexpr, UNIT: tl.constexpr, N_UNIT: tl.constexpr, INDEX: tl.constexpr,
    PRECISION: tl.constexpr, EXPERTS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    tiles_n = tl.cdiv(N, BLOCK_N)
    until = tiles_until(offsets_ptr, experts, EXPERTS, BLOCK_M)
    tiles = tl.max(until, axis=0) * tiles_n
    for tile in tl.range(tl.program_id(axis=0), tiles, tl.num_programs(axis=0), flatten=FLATTEN):
        expert, begin, rows, pid_m, pid_n = find(tile, until, offsets_ptr, tiles_n, BLOCK_M, GROUP_M)
        m, n = pid_m * BLOCK_M, pid_n * BLOCK_N
        # --8<-- [start:loop]
        # --8<-- [start:arange]
        row, step = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_K)
        # --8<-- [end:arange]
        if not X_DESCRIBED:
            # --8<-- [start:source]
            # Rows past the expert's last read row 0, and aren't stored.
            source = tl.where(m + row < rows, begin + m + row, 0)
            # --8<-- [end:source]
            if TOP_K:  # rows of x are tokens, in their own order
                # --8<-- [start:token]
                source = tl.load(pairs_ptr + source) // TOP_K
                # --8<-- [end:token]
            # --8<-- [start:x_ptrs]
            x_ptrs = x + (
                tl.multiple_of(source.to(INDEX) * stride_x, UNIT)[:, None]
                + step[None, :]
            )
            # --8<-- [end:x_ptrs]
        if SWAPPED:  # outᵀ = wᵀ xᵀ
            acc = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32)
        else:
            # --8<-- [start:acc]
            acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
            # --8<-- [end:acc]
        # --8<-- [start:along_k]
        for k in range(0, K, BLOCK_K):
            # --8<-- [end:along_k]
            if X_DESCRIBED:
                x_tile = x.load([begin + m, k])
            elif K_EVEN:
                # --8<-- [start:x_tile]
                x_tile = tl.load(x_ptrs + k)
                # --8<-- [end:x_tile]
            else:
                inside = step < tl.multiple_of(K - k, UNIT)
                x_tile = tl.load(x_ptrs + k, mask=inside[None, :], other=0.0)
            if W_ALONG_K:
                w_tile = w.load([expert, n, k]).reshape(BLOCK_N, BLOCK_K).T
            else:
                # --8<-- [start:w_tile]
                w_tile = w.load([expert, k, n]).reshape(BLOCK_K, BLOCK_N)
                # --8<-- [end:w_tile]
            if SWAPPED:
                acc = tl.dot(w_tile.T, x_tile.T, acc, input_precision=PRECISION)
            else:
                # --8<-- [start:dot]
                acc = tl.dot(x_tile, w_tile, acc, input_precision=PRECISION)
                # --8<-- [end:dot]
        # --8<-- [end:loop]
        if SWAPPED:
            acc = acc.T
        # --8<-- [start:store]
        column = tl.arange(0, BLOCK_N)
        inside = (row < rows - m)[:, None]
        inside &= (column < tl.multiple_of(N - n, N_UNIT))[None, :]
        offsets = tl.multiple_of(row * N, N_UNIT)[:, None] + column[None, :]
        first = (begin + m).to(tl.int64) * N + n
        tl.store(out_ptr + first + offsets, acc, mask=inside)
        # --8<-- [end:store]
# --8<-- [end:grouped]


# --8<-- [start:combine]
@triton.jit
def combine_kernel(
    y_ptr, rows_ptr, weights_ptr, out_ptr, N, stride_y,
    WEIGHTED: tl.constexpr, TOP_K: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(axis=0).to(tl.int64)
    column = tl.program_id(axis=1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for i in tl.static_range(TOP_K):
        row = tl.load(rows_ptr + token * TOP_K + i).to(tl.int64)
        y = tl.load(
            y_ptr + row * stride_y + column, mask=column < N, other=0.0
        )
        if WEIGHTED:
            acc += tl.load(weights_ptr + token * TOP_K + i) * y
        else:
            acc += y
    tl.store(out_ptr + token * N + column, acc, mask=column < N)
# --8<-- [end:combine]


# --8<-- [start:combine_backward]
@triton.jit
def combine_backward_kernel(
    grad_ptr, y_ptr, pairs_ptr, weights_ptr, y_grad_ptr, weight_grad_ptr, N, stride_grad, stride_y,
    TOP_K: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(axis=0).to(tl.int64)
    pair = tl.load(pairs_ptr + row)
    weight = tl.load(weights_ptr + pair)
    grad_ptr += (pair // TOP_K).to(tl.int64) * stride_grad
    acc = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, N, BLOCK):
        column = first + tl.arange(0, BLOCK)
        grad = tl.load(grad_ptr + column, mask=column < N, other=0.0).to(tl.float32)
        y = tl.load(
            y_ptr + row * stride_y + column, mask=column < N, other=0.0
        )
        tl.store(y_grad_ptr + row * N + column, weight * grad, mask=column < N)
        acc += grad * y
    tl.store(weight_grad_ptr + pair, tl.sum(acc, axis=0))
# --8<-- [end:combine_backward]


# --8<-- [start:weight_gradient]
@triton.jit
def weight_gradient_kernel(
    x, grad, out_ptr, pairs_ptr, offsets_ptr, order_ptr, stride_x, stride_grad, K, N,
    TOP_K: tl.constexpr, X_DESCRIBED: tl.constexpr, GRAD_DESCRIBED: tl.constexpr, UNIT: tl.constexpr,
    INDEX: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """An expert's gradient is xᵀ grad, of its rows alone: here the sums are along the rows, and they are ragged."""
    pid, tiles_m, tiles_n = tl.program_id(axis=0), tl.cdiv(K, BLOCK_M), tl.cdiv(N, BLOCK_N)
    expert = tl.load(order_ptr + pid // (tiles_m * tiles_n))  # the one with the most rows begins
    tile, per_group = pid % (tiles_m * tiles_n), GROUP_M * tiles_n
    above = tile // per_group * GROUP_M
    height = tl.minimum(tiles_m - above, GROUP_M)
    m, n = (above + tile % per_group % height) * BLOCK_M, tile % per_group // height * BLOCK_N
    begin = tl.load(offsets_ptr + expert)
    rows = tl.load(offsets_ptr + expert + 1) - begin
    row, column_m, column_n = tl.arange(0, BLOCK_K), tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    left_m, left_n = tl.multiple_of(K - m, UNIT), tl.multiple_of(N - n, UNIT)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    # --8<-- [start:ragged]
    for first in range(0, rows, BLOCK_K):
        # Past the expert's last row both must be zeros, for 0 * NaN is NaN.
        inside = (first + row < rows)[:, None]
        if X_DESCRIBED:
            x_tile = load_ragged(x, begin, rows, [first, m])
        else:
            source = begin + first + row
            if TOP_K:
                source = tl.load(
                    pairs_ptr + source, mask=first + row < rows, other=0
                ) // TOP_K  # fmt: skip
            x_at = (
                tl.multiple_of(source.to(INDEX) * stride_x, UNIT)[:, None]
                + column_m[None, :]
            )
            x_tile = tl.load(
                x + m + x_at,
                mask=inside & (column_m < left_m)[None, :],
                other=0.0,
            )
        if GRAD_DESCRIBED:
            grad_tile = load_ragged(grad, begin, rows, [first, n])
        else:
            grad_at = (
                tl.multiple_of(
                    (begin + first + row).to(INDEX) * stride_grad, UNIT
                )[:, None]
                + column_n[None, :]
            )
            grad_tile = tl.load(
                grad + n + grad_at,
                mask=inside & (column_n < left_n)[None, :],
                other=0.0,
            )
        acc = tl.dot(x_tile.T, grad_tile, acc, input_precision=PRECISION)
    # --8<-- [end:ragged]
    first = (expert.to(tl.int64) * K + m) * N + n
    at = tl.multiple_of(column_m * N, UNIT)[:, None] + column_n[None, :]
    tl.store(out_ptr + first + at, acc, mask=(column_m < left_m)[:, None] & (column_n < left_n)[None, :])
# --8<-- [end:weight_gradient]


# --8<-- [start:routing]
class Routing(NamedTuple):
    """Where each pair goes. All of it is on the GPU; the host knows only the shapes."""

    weights: torch.Tensor  # (tokens, top_k) float32, with sums of 1
    experts: torch.Tensor  # (tokens, top_k) int32, the one with the largest logit first
    pairs: torch.Tensor  # (tokens * top_k,) int32: of each row, its pair
    rows: torch.Tensor  # (tokens * top_k,) int32: of each pair, its row
    offsets: torch.Tensor  # (experts + 1,) int32: expert e has the rows from offsets[e] to offsets[e + 1]
    order: torch.Tensor  # (experts,) int32: the experts, the one with the most rows first
# --8<-- [end:routing]


# --8<-- [start:launch_routing]
def choose(logits: torch.Tensor, top_k: int) -> Routing:
    (tokens, experts), lanes = logits.shape, width(logits.shape[1])
    # Tokens of a program: few enough for 128 programs, and at most so many that a tile fits into registers.
    block = min(64, max(1, 8192 // lanes), triton.next_power_of_2(max(1, -(-tokens // 128))))
    blocks = triton.cdiv(tokens, block)
    ints = lambda *shape: torch.empty(shape, dtype=torch.int32, device=logits.device)
    weights = torch.empty(tokens, top_k, dtype=torch.float32, device=logits.device)
    chosen, pairs, rows = ints(tokens, top_k), ints(tokens * top_k), ints(tokens * top_k)
    offsets, order, counts = ints(experts + 1), ints(experts), ints(blocks, lanes)
    meta = {"TOP_K": top_k, "EXPERTS": lanes, "BLOCK": block}
    warps = max(1, min(8, block * lanes // 1024))
    with torch.cuda.device_of(logits):  # Triton launches on the current device
        if tokens:
            route_kernel[(blocks,)](
                logits, chosen, weights, counts, tokens, experts, *logits.stride(),
                SLOTS=triton.next_power_of_2(top_k), num_warps=2 * warps, **meta,
            )  # fmt: skip
        place_kernel[(max(1, blocks),)](
            chosen, counts, pairs, rows, offsets, order, tokens, experts, blocks,
            STEP=max(1, 1024 * warps // lanes), num_warps=warps, **meta,
        )  # fmt: skip
    return Routing(weights, chosen, pairs, rows, offsets, order)
# --8<-- [end:launch_routing]


def width(experts: int) -> int:
    return max(2, triton.next_power_of_2(experts))


# --8<-- [start:plan]
class Plan(NamedTuple):
    """How to divide a grouped product among programs."""

    block_m: int
    block_n: int
    block_k: int
    num_warps: int
    num_stages: int
    swapped: bool = False  # compute the transpose, so that few rows become columns


def plan(rows: int, experts: int, size: int, by_hand: bool = False) -> Plan:
    """Choose the tile by how many rows an expert has on average.

    The host knows no more, and asking the GPU would make it wait.

    >>> plan(32768, 8, size=2).block_m, plan(32, 8, size=2).block_m
    (128, 16)
    """
    average = rows // experts
    if by_hand:  # float32 without matrix units
        return Plan(32, 64, 16, 4, 3)
    if average <= 16:
        return Plan(16, 128, 256 // size, 4, 4, swapped=size == 2)
    if size == 4:
        return Plan(64, 64, 32, 4, 3)
    if average <= 64:
        return Plan(64, 128, 64, 4, 4)
    return Plan(128, 256, 64, 8, 3)


def most_tiles(rows: int, experts: int, block: int) -> int:
    """Return the most tiles of rows that experts can have, however the tokens choose.

    >>> most_tiles(16, experts=4, block=4)  # as many as 13, 1, 1 and 1 rows have
    7
    """
    some = min(rows, experts)  # experts with rows; each may have a tile with one row
    return some + (rows - some) // block
# --8<-- [end:plan]


# --8<-- [start:launch]
def multiply(x: torch.Tensor, weight: torch.Tensor, routing: Routing, gather: bool) -> torch.Tensor:
    """Multiply each row by its expert's weight. With ``gather``, ``x`` has a row for each token."""
    (experts, K, N), rows, size = weight.shape, len(routing.pairs), x.itemsize
    out = torch.empty(rows, N, dtype=x.dtype, device=x.device)
    if not out.numel() or not K:
        return out.zero_()
    if x.stride(1) != 1 and K > 1:
        x = x.contiguous()
    stride_x = 0 if len(x) == 1 else x.stride(0)  # a single row's stride means nothing
    unit = 16 // size if (K | stride_x) * size % 16 == 0 and x.data_ptr() % 16 == 0 else 1
    described = not gather and unit > 1 and (stride_x >= K or len(x) == 1)
    weight, along_k = as_described(weight)
    found = plan(rows, experts, size, size == 4 and precision() == "ieee")
    block = [1, found.block_n, found.block_k] if along_k else [1, found.block_k, found.block_n]
    tiles = most_tiles(rows, experts, found.block_m) * triton.cdiv(N, found.block_n)
    # Where tiles are large and descriptors do the loading, a program that takes many tiles loads the next while it
    # stores one. Otherwise there is a program for each tile that there could be; those without one end at once.
    persistent = described and found.num_warps == 8
    programs = min(tiles, multiprocessors(x.device)) if persistent else tiles
    with torch.cuda.device_of(x):
        grouped_kernel[(programs,)](
            TensorDescriptor(x, [len(x), K], [max(stride_x, K), 1], [found.block_m, found.block_k]) if described else x,
            TensorDescriptor(weight, weight.shape, weight.stride(), block),
            out, routing.pairs, routing.offsets, stride_x, experts, K, N,
            TOP_K=routing.experts.shape[1] if gather else 0, X_DESCRIBED=described, W_ALONG_K=along_k,
            K_EVEN=K % found.block_k == 0, SWAPPED=found.swapped, FLATTEN=persistent, UNIT=unit,
            N_UNIT=16 // size if N * size % 16 == 0 else 1, INDEX=index(x), PRECISION=precision(),
            EXPERTS=width(experts), BLOCK_M=found.block_m, BLOCK_N=found.block_n, BLOCK_K=found.block_k, GROUP_M=8,
            num_warps=found.num_warps, num_stages=found.num_stages + persistent,
        )  # fmt: skip
    return out


def as_described(weight: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """Return the weight as a tensor descriptor can have it, and whether its last axis is K.

    Rows must begin at multiples of 16 bytes, and their elements be neighbors. A weight that isn't so is copied.
    """
    along_k = weight.stride(2) != 1 and weight.stride(1) == 1
    turned = weight.transpose(1, 2) if along_k else weight
    unit = 16 // weight.itemsize
    of_expert, of_row, of_column = turned.stride()
    far = of_row >= turned.shape[2] and of_expert >= of_row
    if of_column == 1 and far and (of_expert | of_row) % unit == 0 and weight.data_ptr() % 16 == 0:
        return turned, along_k
    experts, K, N = weight.shape
    copy = torch.empty(experts, K, N + -N % unit, dtype=weight.dtype, device=weight.device)[:, :, :N]
    return copy.copy_(weight), False


def weight_gradient(x: torch.Tensor, grad: torch.Tensor, routing: Routing, gather: bool) -> torch.Tensor:
    """Return xᵀ grad of each expert's rows, ``(experts, K, N)``."""
    (K, N), size, experts = (x.shape[1], grad.shape[1]), x.itemsize, len(routing.order)
    out = torch.empty(experts, K, N, dtype=x.dtype, device=x.device)
    if not len(grad) or not out.numel():
        return out.zero_()
    x, grad = as_rows(x), as_rows(grad)
    strides = x.stride(0), grad.stride(0)
    wide = (K | N | strides[0] | strides[1]) * size % 16 == 0 and (x.data_ptr() | grad.data_ptr()) % 16 == 0
    block_m, block_n, block_k, warps = (128, 256, 64, 8) if size == 2 else (64, 64, 16, 4)
    tiles = experts * triton.cdiv(K, block_m) * triton.cdiv(N, block_n)
    of_grad = wide and strides[1] >= N and len(grad) <= 2**30
    of_x = of_grad and not gather and strides[0] >= K
    with torch.cuda.device_of(x):
        weight_gradient_kernel[(tiles,)](
            create_ragged_descriptor(x, [block_k, block_m]) if of_x else x,
            create_ragged_descriptor(grad, [block_k, block_n]) if of_grad else grad,
            out, routing.pairs, routing.offsets, routing.order, *strides, K, N,
            TOP_K=routing.experts.shape[1] if gather else 0, X_DESCRIBED=of_x, GRAD_DESCRIBED=of_grad,
            UNIT=16 // size if wide else 1, INDEX=tl.int64 if tl.int64 in (index(x), index(grad)) else tl.int32,
            PRECISION=precision(), BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUP_M=8,
            num_warps=warps, num_stages=5 if gather else 3,  # the loads of tokens wait for those of their numbers
        )  # fmt: skip
    return out


def add_up(y: torch.Tensor, routing: Routing, weighted: bool) -> torch.Tensor:
    """Add up the rows of each token, multiplied by their weights or not."""
    (tokens, top_k), N = routing.experts.shape, y.shape[1]
    out = torch.empty(tokens, N, dtype=y.dtype, device=y.device)
    if out.numel():
        y, block = as_rows(y), min(2048, triton.next_power_of_2(N))
        with torch.cuda.device_of(y):
            combine_kernel[(tokens, triton.cdiv(N, block))](
                y, routing.rows, routing.weights, out, N, y.stride(0), WEIGHTED=weighted, TOP_K=top_k, BLOCK=block
            )
    return out


@functools.cache
def multiprocessors(device: torch.device) -> int:
    """Return how many a GPU has; in the interpreter, as many as an H200."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 132


def as_rows(x: torch.Tensor) -> torch.Tensor:
    return x if x.stride(1) == 1 else x.contiguous()


def index(x: torch.Tensor):
    """Return 64 bits if 32 don't suffice for an offset."""
    return tl.int64 if len(x) * x.stride(0) >= 2**31 - 2**24 else tl.int32


def precision() -> str:
    return "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"
# --8<-- [end:launch]


# --8<-- [start:functions]
class Route(torch.autograd.Function):
    @staticmethod
    def forward(logits, top_k):
        return tuple(choose(logits, top_k))

    @staticmethod
    def setup_context(ctx, inputs, output):
        weights, chosen, *others = output
        ctx.shape, ctx.dtype = inputs[0].shape, inputs[0].dtype
        ctx.save_for_backward(weights, chosen)
        ctx.mark_non_differentiable(chosen, *others)

    @staticmethod
    def backward(ctx, grad, *_):
        refuse_second_gradient()
        weights, chosen = ctx.saved_tensors
        # Of a softmax, and 0 for the experts that aren't chosen.
        of_chosen = weights * (grad - (weights * grad).sum(dim=1, keepdim=True))
        zeros = torch.zeros(ctx.shape, dtype=ctx.dtype, device=grad.device)
        return zeros.scatter_(1, chosen.long(), of_chosen.to(ctx.dtype)), None


class Grouped(torch.autograd.Function):
    @staticmethod
    def forward(x, weight, gather, *routing):
        return multiply(x, weight, Routing(*routing), gather)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, ctx.gather, *routing = inputs
        ctx.save_for_backward(x, weight, *routing)

    @staticmethod
    def backward(ctx, grad):
        refuse_second_gradient()
        x, weight, *routing = ctx.saved_tensors
        routing, of_x, of_weight = Routing(*routing), None, None
        if ctx.needs_input_grad[0]:
            of_x = multiply(grad, weight.transpose(1, 2), routing, gather=False)
            if ctx.gather:
                of_x = add_up(of_x, routing, weighted=False)
        if ctx.needs_input_grad[1]:
            of_weight = weight_gradient(x, grad, routing, ctx.gather)
        return of_x, of_weight, None, *[None] * len(routing)


class Combine(torch.autograd.Function):
    @staticmethod
    def forward(y, *routing):
        return add_up(y, Routing(*routing), weighted=True)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        refuse_second_gradient()
        y, *routing = ctx.saved_tensors
        routing, N = Routing(*routing), y.shape[1]
        of_y = torch.empty(y.shape, dtype=y.dtype, device=y.device)
        of_weights = torch.empty_like(routing.weights)
        grad, y = as_rows(grad), as_rows(y)
        if len(y):
            with torch.cuda.device_of(y):
                combine_backward_kernel[(len(y),)](
                    grad, y, routing.pairs, routing.weights, of_y, of_weights, N, grad.stride(0), y.stride(0),
                    TOP_K=routing.experts.shape[1], BLOCK=min(2048, triton.next_power_of_2(max(N, 1))),
                )  # fmt: skip
        return of_y, of_weights, *[None] * (len(routing) - 1)


def refuse_second_gradient() -> None:
    if torch.is_grad_enabled():  # as under create_graph=True
        raise RuntimeError(
            "the functions of experts.py have no gradient of their gradient, so they refuse create_graph=True, and"
            " torch.func.grad and vjp, which always ask for it; use torch.autograd.grad"
        )
# --8<-- [end:functions]


# --8<-- [start:host]
@torch.compiler.disable  # torch.compile calls it as it is
def route(logits: torch.Tensor, top_k: int) -> Routing:
    """Choose each token's experts, and give each pair of a token and an expert its row.

    Args:
        logits: ``(tokens, experts)``, one of ``DTYPES``, with any strides; on a GPU, or in the interpreter on the CPU.
            At most 256 experts. NaN counts as the largest; of equal ones, the first expert is chosen.
        top_k: How many experts each token goes to, from 1 to the number of experts.

    Returns:
        A :class:`Routing`. Its weights, the softmax of the chosen logits, have a gradient.

    Raises:
        ValueError: If an argument is something the kernels can't serve.

    >>> route(torch.tensor([[0.0, 2.0, 1.0], [5.0, 0.0, 4.0]]), top_k=2).experts
    tensor([[1, 2],
            [0, 2]], dtype=torch.int32)
    """
    check_tensors(2, logits=logits)
    experts = logits.shape[1]
    if experts > MOST_EXPERTS:
        raise ValueError(f"logits has {experts} experts; at most {MOST_EXPERTS} are served")
    if not isinstance(top_k, int) or not 1 <= top_k <= experts:
        raise ValueError(f"top_k must be an int from 1 to the {experts} experts of logits; got {top_k!r}")
    if len(logits) * top_k >= 2**31:
        raise ValueError(f"{len(logits)} tokens * top_k = {top_k} must be below 2**31; route fewer tokens at a time")
    return Routing(*Route.apply(logits, top_k))


@torch.compiler.disable
def grouped_matmul(x: torch.Tensor, weight: torch.Tensor, routing: Routing, *, gather: bool = False) -> torch.Tensor:
    """Multiply each row by its expert's weight, all experts in one launch; sums are in float32.

    Args:
        x: ``(rows, K)`` in the order of ``routing``, or with ``gather`` the tokens, ``(tokens, K)``, in their own. One
            of ``DTYPES``, with any strides; copied first if its rows aren't contiguous. float32 is multiplied as TF32
            if ``torch.set_float32_matmul_precision`` allows that.
        weight: ``(experts, K, N)``, of the dtype and the device of ``x``. Copied first unless K or N is contiguous, and
            its rows begin at multiples of 16 bytes.
        routing: From :func:`route`.
        gather: Whether ``x`` has a row for each token.

    Returns:
        ``(rows, N)`` in the order of ``routing``, contiguous. Both tensors have gradients. All runs give the same bits.

    Raises:
        ValueError: If an argument is something the kernels can't serve.
        RuntimeError: In the backward, under ``create_graph=True``: there is no gradient of the gradient.

    >>> routing = route(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), top_k=1)  # token 0 to expert 1, token 1 to expert 0
    >>> weight = torch.tensor([[[10.0]], [[100.0]]])
    >>> grouped_matmul(torch.tensor([[1.0], [2.0]]), weight, routing, gather=True)
    tensor([[ 20.],
            [100.]])
    """
    check_tensors(2, x=x)
    check_tensors(3, weight=weight)
    check_alike("x", x, "weight", weight)
    (tokens, top_k), experts = routing.experts.shape, len(routing.order)
    rows = tokens if gather else tokens * top_k
    if len(x) != rows or len(weight) != experts or x.shape[1] != weight.shape[1]:
        raise ValueError(
            f"x must be ({rows}, K) and weight ({experts}, K, N) for this routing with gather={gather}; "
            f"got {tuple(x.shape)} and {tuple(weight.shape)}"
        )
    if max(weight.shape[1:]) > MOST_COLUMNS:
        raise ValueError(f"K and N of weight must be {MOST_COLUMNS} at most; got {tuple(weight.shape)}")
    return Grouped.apply(x, weight, bool(gather), *routing)


@torch.compiler.disable
def combine(y: torch.Tensor, routing: Routing) -> torch.Tensor:
    """Add up the rows of each token, multiplied by their weights.

    Args:
        y: ``(rows, N)`` in the order of ``routing``, one of ``DTYPES``, with any strides; copied first if its rows
            aren't contiguous.
        routing: From :func:`route`.

    Returns:
        ``(tokens, N)``, contiguous, of the dtype of ``y``. ``y`` and the weights have gradients.

    Raises:
        ValueError, RuntimeError: As :func:`grouped_matmul`.

    >>> routing = route(torch.zeros(1, 2), top_k=2)  # both weights are 0.5
    >>> combine(torch.tensor([[1.0], [3.0]]), routing)
    tensor([[2.]])
    """
    check_tensors(2, y=y)
    rows = len(routing.pairs)
    if len(y) != rows or y.shape[1] > MOST_COLUMNS:
        raise ValueError(f"y must be ({rows}, N) for this routing, N {MOST_COLUMNS} at most; got {tuple(y.shape)}")
    if y.device != routing.weights.device:
        raise ValueError(f"y is on {y.device}, and the routing on {routing.weights.device}; move one of them")
    return Combine.apply(y, *routing)


@torch.compiler.disable
def experts(x: torch.Tensor, logits: torch.Tensor, w_in: torch.Tensor, w_out: torch.Tensor, top_k: int) -> torch.Tensor:
    """Return a layer of experts: ``combine(swiglu(x @ w_in) @ w_out)``, of each token's experts.

    Args:
        x: ``(tokens, hidden)``.
        logits: ``(tokens, experts)``, as from ``router(x)``.
        w_in: ``(experts, hidden, 2 * inner)``, the gate in the first half of the columns, up in the second.
        w_out: ``(experts, inner, hidden)``.
        top_k: As of :func:`route`.

    Returns:
        ``(tokens, hidden)``. All four tensors have gradients.

    Raises:
        ValueError, RuntimeError: As :func:`route` and :func:`grouped_matmul`.

    >>> experts(torch.ones(3, 4), torch.zeros(3, 2), torch.ones(2, 4, 2), torch.ones(2, 1, 4), top_k=1)[0]
    tensor([15.7122, 15.7122, 15.7122, 15.7122])
    """
    routing = route(logits, top_k)
    hidden = swiglu(grouped_matmul(x, w_in, routing, gather=True))
    return combine(grouped_matmul(hidden, w_out, routing), routing)
# --8<-- [end:host]


# --8<-- [start:check]
def check_tensors(axes: int, **tensors: torch.Tensor) -> None:
    """Raise ``ValueError`` for a tensor that the kernels would get wrong, or can't serve at all."""
    for name, x in tensors.items():
        if x.ndim != axes:
            raise ValueError(f"{name} must have {axes} axes; got the shape {tuple(x.shape)}")
        if x.layout != torch.strided:
            raise ValueError(f"{name} is {x.layout}; pass {name}.to_dense()")
        if x.is_neg():  # its memory doesn't have the sign applied yet
            raise ValueError(f"{name} is negated lazily; pass {name}.resolve_neg()")
        if x.dtype not in DTYPES:
            raise ValueError(f"dtype {x.dtype} is not supported; use one of {', '.join(map(str, DTYPES))}")
        interpreted = not isinstance(grouped_kernel, triton.JITFunction)
        if x.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
            raise ValueError(
                f"{name} is on {x.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}"
            )
        if interpreted and x.dtype == torch.bfloat16:
            raise ValueError("Triton's interpreter multiplies bfloat16 wrongly (seen in 3.6 to 3.9); use float32 there")


def check_alike(name: str, x: torch.Tensor, other: str, y: torch.Tensor) -> None:
    if x.dtype != y.dtype or x.device != y.device:
        raise ValueError(
            f"{name} and {other} must be of one dtype and on one device; got {x.dtype} on {x.device} and {y.dtype} on"
            f" {y.device}"
        )
# --8<-- [end:check]


def in_torch(x, logits, w_in, w_out, top_k):
    """Compute the same by torch, expert by expert: :func:`experts`, but each expert makes the host wait."""
    top = logits.topk(top_k, dim=1)
    weights, out = torch.softmax(top.values.to(torch.float32), dim=1), torch.zeros_like(x)
    for expert in range(len(w_in)):
        token, slot = (top.indices == expert).nonzero(as_tuple=True)
        gate, up = (x[token] @ w_in[expert]).chunk(2, dim=1)
        y = (torch.nn.functional.silu(gate) * up) @ w_out[expert]
        out = out.index_add(0, token, (y * weights[token, slot, None]).to(x.dtype))
    return out


# --8<-- [start:main]
def main():
    device = "cuda" if isinstance(grouped_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    random = torch.Generator().manual_seed(0)
    new = lambda *shape, scale=1.0: (scale * torch.randn(shape, generator=random)).to(device).requires_grad_()

    print("## a routing")
    routing = route(new(6, 4), top_k=2)
    print("experts of each token:", *("".join(map(str, pair)) for pair in routing.experts.tolist()))
    print("offsets:", *routing.offsets.tolist())

    print("## as torch, expert by expert")
    torch.set_float32_matmul_precision("highest")
    for tokens, count, top_k in ((50, 8, 2), (20, 32, 8), (1, 4, 1)):
        given = new(tokens, 24), new(tokens, count), new(count, 24, 80, scale=0.2), new(count, 40, 24, scale=0.2)
        found, wanted = experts(*given, top_k), in_torch(*given, top_k)
        of = torch.randn(found.shape, generator=random).to(device)
        pairs = zip(
            (found, *torch.autograd.grad(found, given, of)), (wanted, *torch.autograd.grad(wanted, given, of)),
            strict=True,
        )  # fmt: skip
        right = [torch.allclose(a, b, rtol=1e-3, atol=1e-4) for a, b in pairs]
        named = zip(("result", "x", "logits", "w_in", "w_out"), right, strict=True)
        print(f"{tokens} tokens, {top_k} of {count}:", *(name if fine else f"{name} WRONG" for name, fine in named))
# --8<-- [end:main]


if __name__ == "__main__":
    main()
