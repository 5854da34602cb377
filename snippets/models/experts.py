# SPDX-License-Identifier: Apache-2.0
"""Mixture of experts: each token goes to a few experts of many, and all experts' products are one launch.

Every token has a logit for each expert. It goes to the ``top_k`` experts with the largest, and its result is the sum of
theirs, weighted by the softmax of those logits. A *pair* is a token and one of its experts; there are
``tokens * top_k``, numbered token by token. Four kernels:

- :func:`route_kernel` chooses the experts, and counts how many tokens of its block go to each.
- :func:`place_kernel` adds up the counts, and so gives each pair its row: expert by expert, in the order of tokens.
- :func:`grouped_kernel` multiplies each row by its expert's weight. Tiles belong to one expert each, so the last tile of
  an expert may be partly empty, but no row is added to fill it. A program finds out by itself which expert's tile it
  has, so the host never asks how many rows there are.
- :func:`combine_kernel` gathers each token's rows and adds them up, weighted.

:func:`weight_gradient_kernel` and :func:`combine_backward_kernel` are for the backward. Nothing is added with atomics:
all runs give the same bits.

Shapes: ``x`` is (tokens, hidden), ``logits`` is (tokens, experts), a weight is (experts, K, N).
FLOPs of a grouped product: 2 * tokens * top_k * K * N.

Run it on a GPU with ``python experts.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from snippets.fusion.swiglu import swiglu

DTYPES = torch.float16, torch.bfloat16, torch.float32
MOST_EXPERTS = 256


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
    for i in tl.static_range(TOP_K):
        best = tl.argmax(key, axis=1)
        is_best = expert[None, :] == best[:, None]
        value = tl.sum(tl.where(is_best, logits, 0.0), axis=1)
        chosen = tl.where(slot[None, :] == i, best[:, None], chosen)
        values = tl.where(slot[None, :] == i, value[:, None], values)
        key = tl.where(is_best, -0x80000000, key)
    weights = tl.exp(values - tl.max(values, axis=1)[:, None])
    weights /= tl.sum(weights, axis=1)[:, None]
    pair = token.to(tl.int64)[:, None] * TOP_K + slot[None, :]
    is_pair = (token < tokens)[:, None] & (slot < TOP_K)[None, :]
    tl.store(experts_ptr + pair, chosen, mask=is_pair)
    tl.store(weights_ptr + pair, weights, mask=is_pair)
    # Count: how many tokens of this block go to each expert.
    taken = (key == -0x80000000) & inside
    tl.store(counts_ptr + block * EXPERTS + expert, tl.sum(taken.to(tl.int32), axis=0))
# --8<-- [end:route]


# --8<-- [start:place]
@triton.jit
def place_kernel(
    experts_ptr, counts_ptr, pairs_ptr, rows_ptr, offsets_ptr, order_ptr, tokens, experts, blocks,
    TOP_K: tl.constexpr, EXPERTS: tl.constexpr, BLOCK: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    block = tl.program_id(axis=0)
    expert = tl.arange(0, EXPERTS)
    # How many tokens go to each expert: from all blocks, and from those before this one.
    total, before = tl.zeros((EXPERTS,), tl.int32), tl.zeros((EXPERTS,), tl.int32)
    for first in range(0, blocks, STEP):
        other = first + tl.arange(0, STEP)
        counts = tl.load(
            counts_ptr + other[:, None] * EXPERTS + expert[None, :], mask=(other < blocks)[:, None], other=0
        )
        total += tl.sum(counts, axis=0)
        before += tl.sum(tl.where((other < block)[:, None], counts, 0), axis=0)
    ends = tl.cumsum(total, axis=0)
    begins = ends - total
    if block == 0:
        tl.store(offsets_ptr, 0)
        tl.store(offsets_ptr + 1 + expert, ends, mask=expert < experts)
        # The experts with the most rows first.
        key = total.to(tl.int64) * EXPERTS + (EXPERTS - 1 - expert)
        key = tl.sort(tl.where(expert < experts, key, -1), descending=True)
        tl.store(order_ptr + expert, (EXPERTS - 1 - key % EXPERTS).to(tl.int32), mask=expert < experts)
    # Which of its slots each token of this block has given to an expert, if any.
    token = block * BLOCK + tl.arange(0, BLOCK)
    pair = token * TOP_K
    slot = tl.full((BLOCK, EXPERTS), -1, tl.int32)
    for i in tl.static_range(TOP_K):
        chosen = tl.load(experts_ptr + pair + i, mask=token < tokens, other=-1)
        slot = tl.where(expert[None, :] == chosen[:, None], i, slot)
    goes = slot >= 0
    # A pair's row: after those of other experts, of other blocks, and of tokens above it.
    row = (begins + before)[None, :] + tl.cumsum(goes.to(tl.int32), axis=0) - 1
    tl.store(pairs_ptr + row, pair[:, None] + slot, mask=goes)
    tl.store(rows_ptr + pair[:, None] + slot, row, mask=goes)
# --8<-- [end:place]


# --8<-- [start:find]
@triton.jit
def tiles_until(offsets_ptr, experts, EXPERTS: tl.constexpr, BLOCK_M: tl.constexpr):
    """Return how many tiles of rows there are up to the end of each expert."""
    expert = tl.arange(0, EXPERTS)
    begin = tl.load(offsets_ptr + expert, mask=expert < experts, other=0)
    end = tl.load(offsets_ptr + expert + 1, mask=expert < experts, other=0)
    return tl.cumsum(tl.cdiv(end - begin, BLOCK_M), axis=0)


@triton.jit
def find(tile, until, offsets_ptr, tiles_n, BLOCK_M: tl.constexpr, GROUP_M: tl.constexpr):
    """Return a tile's expert, where its rows begin, how many it has, and the tile's row and column among its tiles."""
    over = until <= tile // tiles_n
    expert = tl.sum(over.to(tl.int32), axis=0)
    tile -= tl.max(tl.where(over, until, 0), axis=0) * tiles_n
    begin = tl.load(offsets_ptr + expert)
    rows = tl.load(offsets_ptr + expert + 1) - begin
    # The grouped order: GROUP_M tiles down, then the next column.
    per_group = GROUP_M * tiles_n
    first = tile // per_group * GROUP_M
    height = tl.minimum(tl.cdiv(rows, BLOCK_M) - first, GROUP_M)
    return expert, begin, rows, first + tile % per_group % height, tile % per_group // height
# --8<-- [end:find]


# --8<-- [start:grouped]
@triton.jit
def grouped_kernel(
    x, w, out, pairs_ptr, offsets_ptr, map_ptr, stride_x, experts, K, N, MAP: tl.constexpr,
    TOP_K: tl.constexpr, X_DESCRIBED: tl.constexpr, W_ALONG_K: tl.constexpr, K_EVEN: tl.constexpr,
    SWAPPED: tl.constexpr, RAGGED: tl.constexpr, FLATTEN: tl.constexpr,
    UNIT: tl.constexpr, N_UNIT: tl.constexpr, INDEX: tl.constexpr, PRECISION: tl.constexpr, EXPERTS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    tiles_n = tl.cdiv(N, BLOCK_N)
    until = tiles_until(offsets_ptr, experts, EXPERTS, BLOCK_M)
    tiles = tl.max(until, axis=0) * tiles_n
    for tile in tl.range(tl.program_id(axis=0), tiles, tl.num_programs(axis=0), flatten=FLATTEN):
        if MAP:
            expert = tl.load(map_ptr + tile // tiles_n * 2)
            tile -= tl.load(map_ptr + tile // tiles_n * 2 + 1) * tiles_n
            begin = tl.load(offsets_ptr + expert)
            rows = tl.load(offsets_ptr + expert + 1) - begin
            per_group = GROUP_M * tiles_n
            first = tile // per_group * GROUP_M
            height = tl.minimum(tl.cdiv(rows, BLOCK_M) - first, GROUP_M)
            pid_m, pid_n = first + tile % per_group % height, tile % per_group // height
        else:
            expert, begin, rows, pid_m, pid_n = find(tile, until, offsets_ptr, tiles_n, BLOCK_M, GROUP_M)
        m, n = pid_m * BLOCK_M, pid_n * BLOCK_N
        row, step = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_K)
        if not X_DESCRIBED:
            source = begin + m + row
            if TOP_K:
                source = tl.load(pairs_ptr + source, mask=m + row < rows, other=0) // TOP_K
            else:
                source = tl.where(m + row < rows, source, 0)
            x_ptrs = x + (tl.multiple_of(source.to(INDEX) * stride_x, UNIT)[:, None] + step[None, :])
        if SWAPPED:
            acc = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32)
        else:
            acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, K, BLOCK_K):
            if X_DESCRIBED:
                x_tile = x.load([begin + m, k])
            elif K_EVEN:
                x_tile = tl.load(x_ptrs + k)
            else:
                x_tile = tl.load(x_ptrs + k, mask=(step < tl.multiple_of(K - k, UNIT))[None, :], other=0.0)
            if W_ALONG_K:
                w_tile = w.load([expert, n, k]).reshape(BLOCK_N, BLOCK_K).T
            else:
                w_tile = w.load([expert, k, n]).reshape(BLOCK_K, BLOCK_N)
            if SWAPPED:
                acc = tl.dot(w_tile.T, x_tile.T, acc, input_precision=PRECISION)
            else:
                acc = tl.dot(x_tile, w_tile, acc, input_precision=PRECISION)
        if SWAPPED:
            acc = acc.T
        if RAGGED:
            halves = tl.permute(tl.reshape(acc.to(out.dtype), (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1))
            left, right = tl.split(halves)
            at = 0x40000000 - rows + m
            out.store([0x40000000, begin + rows, at, n], tl.reshape(left, (1, 1, BLOCK_M, BLOCK_N // 2)))
            out.store([0x40000000, begin + rows, at, n + BLOCK_N // 2],
                      tl.reshape(right, (1, 1, BLOCK_M, BLOCK_N // 2)))
        else:
            column = tl.arange(0, BLOCK_N)
            inside = (row < rows - m)[:, None] & (column < tl.multiple_of(N - n, N_UNIT))[None, :]
            first = (begin + m).to(tl.int64) * N + n
            tl.store(out + first + (tl.multiple_of(row * N, N_UNIT)[:, None] + column[None, :]), acc, mask=inside)
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
        y = tl.load(y_ptr + row * stride_y + column, mask=column < N, other=0.0)
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
        y = tl.load(y_ptr + row * stride_y + column, mask=column < N, other=0.0)
        tl.store(y_grad_ptr + row * N + column, weight * grad, mask=column < N)
        acc += grad * y
    tl.store(weight_grad_ptr + pair, tl.sum(acc, axis=0))
# --8<-- [end:combine_backward]


# --8<-- [start:weight_gradient]
@triton.jit
def weight_gradient_kernel(
    x_ptr, grad_ptr, out_ptr, pairs_ptr, offsets_ptr, order_ptr, stride_x, stride_grad, K, N,
    TOP_K: tl.constexpr, UNIT: tl.constexpr, INDEX: tl.constexpr, PRECISION: tl.constexpr,
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
    inside_m, inside_n = column_m < tl.multiple_of(K - m, UNIT), column_n < tl.multiple_of(N - n, UNIT)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for first in range(0, rows, BLOCK_K):
        inside = first + row < rows
        source = begin + first + row
        grad_at = tl.multiple_of(source.to(INDEX) * stride_grad, UNIT)[:, None] + column_n[None, :]
        if TOP_K:
            source = tl.load(pairs_ptr + source, mask=inside, other=0) // TOP_K
        x_at = tl.multiple_of(source.to(INDEX) * stride_x, UNIT)[:, None] + column_m[None, :]
        x = tl.load(x_ptr + m + x_at, mask=inside[:, None] & inside_m[None, :], other=0.0)
        grad = tl.load(grad_ptr + n + grad_at, mask=inside[:, None] & inside_n[None, :], other=0.0)
        acc = tl.dot(x.T, grad, acc, input_precision=PRECISION)
    first = (expert.to(tl.int64) * K + m) * N + n
    at = tl.multiple_of(column_m * N, UNIT)[:, None] + column_n[None, :]
    tl.store(out_ptr + first + at, acc, mask=inside_m[:, None] & inside_n[None, :])
# --8<-- [end:weight_gradient]


# --8<-- [start:routing]
class Routing(NamedTuple):
    """Where each pair goes. All on the GPU; the host knows only the shapes."""

    weights: torch.Tensor  # (tokens, top_k) float32, sums of 1
    experts: torch.Tensor  # (tokens, top_k) int32, the one with the largest logit first
    pairs: torch.Tensor  # (tokens * top_k,) int32: of each row, its pair
    rows: torch.Tensor  # (tokens * top_k,) int32: of each pair, its row
    offsets: torch.Tensor  # (experts + 1,) int32: expert e has the rows from offsets[e] to offsets[e + 1]
    order: torch.Tensor  # (experts,) int32: the experts with the most rows first


class Route(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, top_k):
        (tokens, experts), of = logits.shape, {"device": logits.device}
        chosen = torch.empty(tokens, top_k, dtype=torch.int32, **of)
        weights = torch.empty(tokens, top_k, dtype=torch.float32, **of)
        pairs, rows = torch.empty(2, tokens * top_k, dtype=torch.int32, **of)
        width = max(2, triton.next_power_of_2(experts))
        block = max(1, min(64, 8192 // width))
        blocks = triton.cdiv(tokens, block)
        counts = torch.empty(blocks, width, dtype=torch.int32, **of)
        offsets, order = torch.empty(experts + 1, dtype=torch.int32, **of), torch.empty(experts, dtype=torch.int32, **of)
        with torch.cuda.device_of(logits):
            if tokens:
                route_kernel[(blocks,)](
                    logits, chosen, weights, counts, tokens, experts, *logits.stride(),
                    TOP_K=top_k, SLOTS=triton.next_power_of_2(top_k), EXPERTS=width, BLOCK=block, num_warps=8,
                )  # fmt: skip
            place_kernel[(max(1, blocks),)](
                chosen, counts, pairs, rows, offsets, order, tokens, experts, blocks,
                TOP_K=top_k, EXPERTS=width, BLOCK=block, STEP=max(1, 4096 // width), num_warps=8,
            )  # fmt: skip
        ctx.save_for_backward(weights, chosen)
        ctx.shape, ctx.dtype = logits.shape, logits.dtype
        ctx.mark_non_differentiable(chosen, pairs, rows, offsets, order)
        return weights, chosen, pairs, rows, offsets, order

    @staticmethod
    def backward(ctx, grad, *_):
        weights, chosen = ctx.saved_tensors
        of_chosen = weights * (grad - (weights * grad).sum(1, keepdim=True))
        zeros = torch.zeros(ctx.shape, dtype=ctx.dtype, device=grad.device)
        return zeros.scatter_(1, chosen.long(), of_chosen.to(ctx.dtype)), None
# --8<-- [end:routing]


# --8<-- [start:plan]
def plan(rows: int, experts: int, N: int, size: int) -> dict[str, int]:
    """Return the tile for an average expert's rows. The host knows no more, and asking the GPU would make it wait."""
    average = rows / experts
    block_m = 16 if average <= 16 else 32 if average <= 32 else 64 if average <= 64 else 128
    block_n, warps, stages = {16: (64, 4, 5), 32: (128, 4, 4), 64: (128, 4, 4), 128: (256, 8, 4)}[block_m]
    block_k = (64 if block_m > 16 else 128) * 2 // size
    if size == 4:
        block_m, block_n, warps, stages = min(block_m, 64), min(block_n, 64), 4, 3
    return {"BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": block_k, "GROUP_M": 8,
            "num_warps": warps, "num_stages": stages}  # fmt: skip
# --8<-- [end:plan]


# --8<-- [start:launch]
def multiply(x, weight, routing: Routing, gather: bool, how=None, programs=None, swapped=False, ragged=None,
             flatten=False, described=None, the_map=None) -> torch.Tensor:
    pairs, offsets = routing.pairs, routing.offsets
    (experts, K, N), rows, size = weight.shape, len(pairs), x.itemsize
    out = torch.empty(rows, N, dtype=x.dtype, device=x.device)
    if rows * N * K == 0:
        return out.zero_()
    how = plan(rows, experts, N, size) | (how or {})
    m, n, k = how["BLOCK_M"], how["BLOCK_N"], how["BLOCK_K"]
    tiles = most_tiles(rows, experts, m) * triton.cdiv(N, n)
    if tiles >= 2**31:
        raise ValueError("too many")
    if K > 1 and x.stride(1) != 1:
        x = x.contiguous()
    stride_x = 0 if len(x) == 1 else x.stride(0)
    unit = 16 // size
    if (K | stride_x) % unit or x.data_ptr() % 16:
        unit = 1
    weight = aligned(weight)
    along_k = weight.stride(2) != 1
    if along_k:
        w = TensorDescriptor.from_tensor(weight.transpose(1, 2), [1, n, k])
    else:
        w = TensorDescriptor.from_tensor(weight, [1, k, n])
    far = len(x) * stride_x >= 2**31 - 2**24
    described = (not gather and unit > 1) if described is None else described
    if described:
        x = TensorDescriptor(x, [len(x), K], [max(stride_x, K), 1], [m, k])
    ragged = False if ragged is None else ragged
    given = out
    if ragged:
        from triton.tools.ragged_tma import create_ragged_descriptor
        given = create_ragged_descriptor(out, [m, n // 2])
    with torch.cuda.device_of(out):
        grouped_kernel[(min(tiles, programs or tiles),)](
            x, w, given, pairs, offsets, offsets if the_map is None else the_map, stride_x, experts, K, N, the_map is not None,
            TOP_K=len(pairs) // len(routing.experts) if gather else 0, X_DESCRIBED=described, W_ALONG_K=along_k,
            K_EVEN=K % k == 0, SWAPPED=swapped, RAGGED=ragged, FLATTEN=flatten, UNIT=unit,
            N_UNIT=1 if N * size % 16 else 16 // size,
            INDEX=tl.int64 if far else tl.int32, PRECISION=precision(), EXPERTS=width(experts), **how,
        )  # fmt: skip
    return out


def most_tiles(rows: int, experts: int, block: int) -> int:
    """Return the most tiles of rows that experts can have, however the tokens choose: each may have one not full.

    >>> most_tiles(16, experts=4, block=4)  # as many as 13, 1, 1 and 1 rows have
    7
    """
    return max(0, (rows - min(rows, experts)) // block + min(rows, experts))


def width(experts: int) -> int:
    return max(2, triton.next_power_of_2(experts))


def precision() -> str:
    return "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"


def aligned(weight: torch.Tensor) -> torch.Tensor:
    """Return the weight, or a copy of it whose rows begin at multiples of 16 bytes, as a descriptor demands."""
    experts, K, N = weight.shape
    unit = 16 // weight.itemsize
    of_expert, of_k, of_n = weight.stride()
    inner, outer = (of_n, of_k) if of_n == 1 else (of_k, of_n)
    length = N if of_n == 1 else K
    if inner == 1 and outer >= length and of_expert >= outer and (of_expert | outer) % unit == 0 and weight.data_ptr() % 16 == 0:
        return weight
    more = -N % unit
    copy = torch.empty(experts, K, N + more, dtype=weight.dtype, device=weight.device)[:, :, :N]
    return copy.copy_(weight)


def weight_gradient(x, grad, routing: Routing, gather: bool, experts: int) -> torch.Tensor:
    (K, N), size = (x.shape[1], grad.shape[1]), x.itemsize
    out = torch.empty(experts, K, N, dtype=x.dtype, device=x.device)
    if len(grad) * out.numel() == 0:
        return out.zero_()
    x, grad = (each if each.stride(1) == 1 else each.contiguous() for each in (x, grad))
    unit = 16 // size
    if (K | N | x.stride(0) | grad.stride(0)) % unit or (x.data_ptr() | grad.data_ptr()) % 16:
        unit = 1
    far = max(len(x) * x.stride(0), len(grad) * grad.stride(0)) >= 2**31 - 2**24
    block_m, block_n, block_k, warps = (128, 128, 64, 8) if size == 2 else (64, 64, 32, 4)
    tiles = experts * triton.cdiv(K, block_m) * triton.cdiv(N, block_n)
    with torch.cuda.device_of(out):
        weight_gradient_kernel[(tiles,)](
            x, grad, out, routing.pairs, routing.offsets, routing.order, x.stride(0), grad.stride(0), K, N,
            TOP_K=routing.experts.shape[1] if gather else 0, UNIT=unit, INDEX=tl.int64 if far else tl.int32,
            PRECISION=precision(), BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUP_M=8,
            num_warps=warps, num_stages=3,
        )  # fmt: skip
    return out


def add_up(y, routing: Routing, weighted: bool) -> torch.Tensor:
    (tokens, top_k), N = routing.experts.shape, y.shape[1]
    out = torch.empty(tokens, N, dtype=y.dtype, device=y.device)
    if tokens * N:
        block = min(2048, triton.next_power_of_2(N))
        y = y if y.stride(1) == 1 else y.contiguous()
        with torch.cuda.device_of(y):
            combine_kernel[(tokens, triton.cdiv(N, block))](
                y, routing.rows, routing.weights, out, N, y.stride(0), WEIGHTED=weighted, TOP_K=top_k, BLOCK=block,
            )  # fmt: skip
    return out
# --8<-- [end:launch]


# --8<-- [start:functions]
class Grouped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, gather, *routing):
        ctx.save_for_backward(x, weight, *routing)
        ctx.gather = gather
        return multiply(x, weight, Routing(*routing), gather)

    @staticmethod
    def backward(ctx, grad):
        x, weight, *routing = ctx.saved_tensors
        routing, of_x, of_weight = Routing(*routing), None, None
        if ctx.needs_input_grad[0]:
            of_x = multiply(grad, weight.transpose(1, 2), routing, gather=False)
            of_x = add_up(of_x, routing, weighted=False) if ctx.gather else of_x
        if ctx.needs_input_grad[1]:
            of_weight = weight_gradient(x, grad, routing, ctx.gather, len(weight))
        return of_x, of_weight, None, *[None] * len(routing)


class Combine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y, *routing):
        ctx.save_for_backward(y, *routing)
        return add_up(y, Routing(*routing), weighted=True)

    @staticmethod
    def backward(ctx, grad):
        y, *routing = ctx.saved_tensors
        routing, N = Routing(*routing), y.shape[1]
        of_y, of_weights = torch.empty_like(y), torch.zeros_like(routing.weights)
        if y.numel():
            grad = grad if grad.stride(1) == 1 else grad.contiguous()
            with torch.cuda.device_of(y):
                combine_backward_kernel[(len(y),)](
                    grad, y, routing.pairs, routing.weights, of_y, of_weights, N, grad.stride(0), y.stride(0),
                    TOP_K=routing.experts.shape[1], BLOCK=min(2048, triton.next_power_of_2(N)),
                )  # fmt: skip
        return of_y, of_weights, *[None] * (len(routing) - 1)
# --8<-- [end:functions]


# --8<-- [start:host]
def route(logits, top_k: int) -> Routing:
    return Routing(*Route.apply(logits, top_k))


def grouped_matmul(x, weight, routing: Routing, *, gather: bool = False):
    return Grouped.apply(x, weight, gather, *routing)


def combine(y, routing: Routing):
    return Combine.apply(y, *routing)


def experts(x, logits, w_in, w_out, top_k: int):
    routing = route(logits, top_k)
    gate, up = grouped_matmul(x, w_in, routing, gather=True).chunk(2, dim=1)
    return combine(grouped_matmul(swiglu(gate, up), w_out, routing), routing)
# --8<-- [end:host]
