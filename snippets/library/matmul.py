# SPDX-License-Identifier: Apache-2.0
"""Products with gradients, ``alpha * a @ b + beta * c``, and linear layers with bias, activation and gate, in a kernel.

The lessons of the chapter *Matmul* derive the kernel: tiles that the TMA fetches, from ``matmul/persistent.py``; what
is done to a tile before it is stored, from ``matmul/fused.py``; tiles of two pieces, from ``matmul/matmul.py``. Here
two pieces serve twice: side by side they are a tile whose width is no power of two, and as the columns of a gate and
those of what it multiplies they are a gated layer. A single row is multiplied without ``tl.dot``.

- :func:`matmul`: any strides, batches, ``out=``, results in float32, ``alpha``, ``beta``
- :func:`linear`: ``activation(x @ weight.T + bias)``; gated, ``activation(gate) * up``, as SwiGLU

Backward, with ``grad`` of the result: ``grad_a = alpha * grad @ b.T``, ``grad_b = alpha * a.T @ grad``. A layer with an
activation stores, if a gradient is needed, what the activation was given, rounded to the dtype of ``x``: one more write
of (M, N) elements, or (M, 2N) gated, as torch keeps them, too. Nothing is multiplied twice.

Sums are in float32, in an order that only shapes, strides, dtypes and the GPU decide, so equal inputs give equal bits.
FLOPs: 2 * M * N * K; forward and backward three times that. Sources: ``torch.matmul``, ``addmm`` and
``torch.nn.functional`` define the results; Noam Shazeer, *GLU Variants Improve Transformer*, 2020.

Run it on a GPU with ``python matmul.py``, or with ``TRITON_INTERPRET=1 python matmul.py`` in the interpreter.
"""

import dataclasses
import functools
import inspect
import itertools
import threading
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
ACTIVATIONS = ("relu", "relu2", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh")
LONGEST = 2**30  # of a dimension, so that a step beyond its end still fits in 32 bits


# --8<-- [start:kernel]
@triton.jit
def matmul_kernel(
    a,
    b,
    b_more,
    out,
    added_ptr,
    pre,
    batches,
    M,
    N,
    K,
    added_batch,
    added_m,
    added_n,
    out_batch,
    out_m,
    out_n,
    alpha,
    beta,
    A_ALONG_K: tl.constexpr,
    B_ALONG_K: tl.constexpr,
    A_BATCHED: tl.constexpr,
    B_BATCHED: tl.constexpr,
    ADDED_ROW: tl.constexpr,
    ACTIVATION: tl.constexpr,
    GATED: tl.constexpr,
    DESCRIBED: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    MORE_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PART: tl.constexpr,
    GROUP_M: tl.constexpr,
    FLATTEN: tl.constexpr,
):
    """Compute tile after tile of ``out = activation(alpha * a @ b + beta * added)``, or of a gated layer.

    Parameters:
        a, b: Descriptors of (batches or 1, M, K) and (batches or 1, N, K), or (…, 2 * N, K) gated. Not ALONG_K, of
            their transposes.
        b_more: Of the same matrix as ``b``, with a block of MORE_N columns; not read if that is 0.
        out: A descriptor of (batches, M, N) if DESCRIBED, else a pointer, with the strides ``out_…``.
        added_ptr: (batches, M, N) with the strides ``added_…``, the same for all rows if ADDED_ROW; or None.
        pre: (M, N), or (M, 2 * N) gated, contiguous, for what the activation is given; or None. If DESCRIBED, a
            descriptor of (1 or 2, M, N), the gate's first.
        A_BATCHED, B_BATCHED: 0 for an operand that all batches share, else 1.
        MORE_N: Columns of a tile's second piece: further ones of ``out``, or gated as many as BLOCK_N, of ``up``.
        PART: Columns that are stored at a time: fewer need fewer registers and less shared memory.
        FLATTEN: Whether one loop goes over tiles and steps, so that the next tile's loads begin before the store.
    """
    WIDTH: tl.constexpr = BLOCK_N if GATED else BLOCK_N + MORE_N
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, WIDTH)
    tiles = tiles_m * tiles_n
    pid, programs = tl.program_id(axis=0), tl.num_programs(axis=0)
    done = pid - programs
    for tile in tl.range(pid, batches * tiles, programs, flatten=FLATTEN):
        batch = tile // tiles
        pid_m, pid_n = position(tile % tiles, tiles_m, tiles_n, GROUP_M)
        m, n = pid_m * BLOCK_M, pid_n * WIDTH
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        if MORE_N:
            acc_more = tl.zeros((BLOCK_M, MORE_N), tl.float32)
        for k in range(0, K, BLOCK_K):
            a_tile = load_tile(a, batch * A_BATCHED, m, k, A_ALONG_K, BLOCK_M, BLOCK_K)
            b_tile = load_tile(b, batch * B_BATCHED, n, k, B_ALONG_K, BLOCK_N, BLOCK_K)
            acc = tl.dot(a_tile, b_tile.T, acc, input_precision=PRECISION)
            if MORE_N:
                column = n + N if GATED else n + BLOCK_N
                more_tile = load_tile(b_more, batch * B_BATCHED, column, k, B_ALONG_K, MORE_N, BLOCK_K)
                acc_more = tl.dot(a_tile, more_tile.T, acc_more, input_precision=PRECISION)
        done += programs  # computed again from here, because the loads may be at the next tile by now
        batch = done // tiles
        pid_m, pid_n = position(done % tiles, tiles_m, tiles_n, GROUP_M)
        m, n = pid_m * BLOCK_M, pid_n * WIDTH
        added = None
        if added_ptr is not None:
            added = added_ptr + batch.to(tl.int64) * added_batch
        if GATED:
            finish(acc, acc_more, out, added, pre, batch, m, n, M, N, alpha, beta, added_m, added_n,
                   out_batch, out_m, out_n, ADDED_ROW, ACTIVATION, DESCRIBED, BLOCK_M, BLOCK_N, PART)  # fmt: skip
        else:
            finish(acc, None, out, added, pre, batch, m, n, M, N, alpha, beta, added_m, added_n,
                   out_batch, out_m, out_n, ADDED_ROW, ACTIVATION, DESCRIBED, BLOCK_M, BLOCK_N, PART)  # fmt: skip
            if MORE_N:
                finish(acc_more, None, out, added, pre, batch, m, n + BLOCK_N, M, N, alpha, beta, added_m, added_n,
                       out_batch, out_m, out_n, ADDED_ROW, ACTIVATION, DESCRIBED, BLOCK_M, MORE_N, PART)  # fmt: skip


@triton.jit
def position(tile, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    """Return row and column of a tile, by the grouped order: GROUP_M tiles down, then the next column."""
    per_group = GROUP_M * tiles_n
    first_m = tile // per_group * GROUP_M
    height = min(tiles_m - first_m, GROUP_M)  # the last group may be lower
    within = tile % per_group
    return first_m + within % height, within // height


@triton.jit
def load_tile(x, batch, row, k, ALONG_K: tl.constexpr, ROWS: tl.constexpr, BLOCK_K: tl.constexpr):
    """Return (ROWS, BLOCK_K) of a described matrix; beyond its ends are zeros."""
    if ALONG_K:
        return x.load([batch, row, k]).reshape(ROWS, BLOCK_K)
    else:
        return x.load([batch, k, row]).reshape(BLOCK_K, ROWS).T


@triton.jit
def finish(
    acc, up, out, added_ptr, pre, batch, m, n, M, N, alpha, beta, added_m, added_n, out_batch, out_m, out_n,
    ADDED_ROW: tl.constexpr, ACTIVATION: tl.constexpr, DESCRIBED: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, PART: tl.constexpr,
):  # fmt: skip
    """Scale, add, activate, multiply by ``up`` unless it is None, and store: PART columns, then the next."""
    if BLOCK_N > PART:
        HALF: tl.constexpr = BLOCK_N // 2
        left, right = halves(acc, BLOCK_M, HALF)
        up_left, up_right = None, None
        if up is not None:
            up_left, up_right = halves(up, BLOCK_M, HALF)
        finish(left, up_left, out, added_ptr, pre, batch, m, n, M, N, alpha, beta, added_m, added_n,
               out_batch, out_m, out_n, ADDED_ROW, ACTIVATION, DESCRIBED, BLOCK_M, HALF, PART)  # fmt: skip
        finish(right, up_right, out, added_ptr, pre, batch, m, n + HALF, M, N, alpha, beta, added_m, added_n,
               out_batch, out_m, out_n, ADDED_ROW, ACTIVATION, DESCRIBED, BLOCK_M, HALF, PART)  # fmt: skip
    else:
        rows, columns = m + tl.arange(0, BLOCK_M)[:, None], n + tl.arange(0, BLOCK_N)[None, :]
        inside = (rows < M) & (columns < N)
        acc = scale_and_add(acc, added_ptr, rows, columns, inside, alpha, beta, added_m, added_n, ADDED_ROW, N)
        if pre is not None:
            store_pre(pre, acc, 0, 1 if up is None else 2, m, n, rows, columns, inside, N, DESCRIBED)
        acc = activate(acc, ACTIVATION)
        if up is not None:
            if added_ptr is not None:
                added_ptr += N * added_n
            up = scale_and_add(up, added_ptr, rows, columns, inside, alpha, beta, added_m, added_n, ADDED_ROW, N)
            if pre is not None:
                store_pre(pre, up, 1, 2, m, n, rows, columns, inside, N, DESCRIBED)
            acc *= up
        # The only rounding after float32, to the dtype of out.
        if DESCRIBED:
            out.store([batch, m, n], acc.to(out.dtype).reshape(1, BLOCK_M, BLOCK_N))
        else:
            offsets = batch.to(tl.int64) * out_batch + rows.to(tl.int64) * out_m + columns.to(tl.int64) * out_n
            tl.store(out + offsets, acc, mask=inside)


@triton.jit
def store_pre(pre, acc, piece, pieces, m, n, rows, columns, inside, N, DESCRIBED: tl.constexpr):
    if DESCRIBED:
        pre.store([piece, m, n], acc.to(pre.dtype).reshape(1, acc.shape[0], acc.shape[1]))
    else:
        tl.store(pre + (rows.to(tl.int64) * pieces + piece) * N + columns, acc, mask=inside)


@triton.jit
def halves(x, ROWS: tl.constexpr, HALF: tl.constexpr):
    return tl.split(tl.permute(tl.reshape(x, (ROWS, 2, HALF)), (0, 2, 1)))


@triton.jit
def scale_and_add(
    acc, added_ptr, rows, columns, inside, alpha, beta, added_m, added_n, ADDED_ROW: tl.constexpr, N
):  # fmt: skip
    acc *= alpha
    if added_ptr is not None:
        ptrs, mask = added_ptr + columns.to(tl.int64) * added_n, columns < N
        if not ADDED_ROW:
            ptrs, mask = ptrs + rows.to(tl.int64) * added_m, inside
        acc += beta * tl.load(ptrs, mask=mask, other=0).to(tl.float32)
    return acc
# --8<-- [end:kernel]


@triton.jit
def row_kernel(
    a_ptr,
    b_ptr,
    out_ptr,
    added_ptr,
    pre_ptr,
    N,
    K,
    a_batch,
    b_batch,
    b_n,
    added_batch,
    added_n,
    out_batch,
    out_n,
    alpha,
    beta,
    ACTIVATION: tl.constexpr,
    GATED: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Compute BLOCK_N columns of what :func:`matmul_kernel` computes, where each batch of ``a`` is a single row.

    Parameters:
        a_ptr, b_ptr: Of (batches or 1, K) and (batches or 1, N or 2 * N, K), contiguous along K.
        out_ptr, added_ptr, pre_ptr: Pointers of what they are there, or None.
    """
    tiles = tl.cdiv(N, BLOCK_N)
    batch, n = tl.program_id(axis=0) // tiles, tl.program_id(axis=0) % tiles * BLOCK_N
    columns, lanes = n + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + batch.to(tl.int64) * a_batch + lanes
    b_ptrs = b_ptr + batch.to(tl.int64) * b_batch + columns.to(tl.int64)[:, None] * b_n + lanes[None, :]
    # --8<-- [start:row]
    # Summed after the loop, so that no thread waits for another in it.
    acc = tl.zeros((BLOCK_N, BLOCK_K), tl.float32)
    acc_up = tl.zeros((BLOCK_N, BLOCK_K), tl.float32)
    for k in range(0, K, BLOCK_K):
        mask = (columns < N)[:, None] & (k + lanes < K)[None, :]
        a = tl.load(
            a_ptrs + k, mask=k + lanes < K, other=0
        ).to(tl.float32)[None, :]  # fmt: skip
        acc += a * tl.load(b_ptrs + k, mask=mask, other=0).to(tl.float32)
        if GATED:
            acc_up += a * tl.load(
                b_ptrs + tl.cast(N, tl.int64) * b_n + k, mask=mask, other=0
            ).to(tl.float32)  # fmt: skip
    # --8<-- [end:row]
    up = None
    if GATED:
        up = tl.sum(acc_up, axis=1)[None, :]
    added = None
    if added_ptr is not None:
        added = added_ptr + batch.to(tl.int64) * added_batch
    finish(tl.sum(acc, axis=1)[None, :], up, out_ptr, added, pre_ptr, batch, 0, n, 1, N, alpha, beta, 0, added_n,
           out_batch, 0, out_n, True, ACTIVATION, False, 1, BLOCK_N, BLOCK_N)  # fmt: skip


# --8<-- [start:activate]
@triton.jit
def activate(x, ACTIVATION: tl.constexpr):
    if ACTIVATION == "relu":
        x = tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)  # as in torch
    elif ACTIVATION == "relu2":
        x = tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)
        x = x * x
    elif ACTIVATION == "gelu":  # x * (1 + erf(x / sqrt(2))) / 2 is a relu, less the tail of a normal distribution
        size = tl.minimum(tl.abs(x), 20.0)
        x = tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL) - size * tail(size)
    elif ACTIVATION == "gelu_tanh":  # 0.5 * (1 + tanh(y)) is sigmoid(2 * y)
        x = x * sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    elif ACTIVATION == "silu":
        x = x * sigmoid(x)
    elif ACTIVATION == "sigmoid":
        x = sigmoid(x)
    elif ACTIVATION == "tanh":
        x = 2 * sigmoid(2 * x) - 1
    return x


@triton.jit
def slope(x, ACTIVATION: tl.constexpr):
    """Return the derivative of :func:`activate`."""
    if ACTIVATION == "relu":
        x = tl.where(x <= 0, 0.0, 1.0)
    elif ACTIVATION == "relu2":
        x = 2 * tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)
    elif ACTIVATION == "gelu":
        size = tl.minimum(tl.abs(x), 20.0)
        below = tl.where(x < 0, tail(size), 1 - tail(size))
        x = below + x * 0.3989422804014327 * tl.exp2(-0.7213475204444817 * x * x)
    elif ACTIVATION == "gelu_tanh":
        share = sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
        x = share + x * share * (1 - share) * 1.5957691216057308 * (1 + 0.134145 * x * x)
    elif ACTIVATION == "silu":
        share = sigmoid(x)
        x = share * (1 + x * (1 - share))
    elif ACTIVATION == "sigmoid":
        share = sigmoid(x)
        x = share * (1 - share)
    elif ACTIVATION == "tanh":
        share = sigmoid(2 * x)
        x = 4 * share * (1 - share)
    else:
        x = tl.full(x.shape, 1.0, tl.float32)
    return x


@triton.jit
def sigmoid(x):
    return 1 / (1 + tl.exp2(-1.4426950408889634 * x))


@triton.jit
def tail(x):
    """Return a normal distribution's share beyond x, for x from 0 to 20: 2 to a polynomial, fitted in the lesson."""
    p = 9.1918980e-6 + x * -5.8392946e-7
    p = -5.9228967e-4 + x * (-2.3049869e-5 + x * p)
    p = -5.3065901e-2 + x * (7.7604569e-3 + x * p)
    p = -1.1511339 + x * (-0.45898791 + x * p)
    return tl.exp2(x * p - 1)


@triton.jit
def activation_backward_kernel(
    grad_ptr,
    pre_ptr,
    grad_pre_ptr,
    N,
    ACTIVATION: tl.constexpr,
    GATED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute the gradient of what the activation, or the gate, was given.

    Parameters:
        grad_ptr: (M, N), contiguous: the gradient of the result.
        pre_ptr, grad_pre_ptr: (M, N), or (M, 2 * N) gated, contiguous.
    """
    blocks = tl.cdiv(N, BLOCK)
    row = (tl.program_id(axis=0) // blocks).to(tl.int64)
    columns = tl.program_id(axis=0) % blocks * BLOCK + tl.arange(0, BLOCK)
    mask = columns < N
    grad = tl.load(grad_ptr + row * N + columns, mask=mask, other=0).to(tl.float32)
    at = row * (2 * N if GATED else N) + columns
    pre = tl.load(pre_ptr + at, mask=mask, other=0).to(tl.float32)
    if GATED:
        up = tl.load(pre_ptr + at + N, mask=mask, other=0).to(tl.float32)
        tl.store(grad_pre_ptr + at + N, grad * activate(pre, ACTIVATION), mask=mask)
        grad *= up
    tl.store(grad_pre_ptr + at, grad * slope(pre, ACTIVATION), mask=mask)
# --8<-- [end:activate]


# --8<-- [start:tiles]
class Tile(NamedTuple):
    """How to cut a product into tiles and schedule them."""

    block_m: int  # rows
    block_n: int  # columns of the first piece
    more_n: int  # columns of the second piece, or 0
    block_k: int  # elements of 2 bytes along K in one step
    num_warps: int
    num_stages: int  # steps whose loads are under way, and the one that is computed
    part: int  # columns that are stored at a time
    persistent: bool  # a program for each multiprocessor, or for each tile
    group_m: int  # tiles down before the next column of tiles, for reuse in L2
    speed: float  # beside the fastest tile, with all multiprocessors at work on an H200; see choose_tile


TILES = (
    Tile(128, 256, 0, 64, 8, 4, 64, True, 8, 1.0),
    Tile(64, 256, 64, 64, 4, 4, 64, False, 8, 0.87),
    Tile(64, 256, 32, 64, 4, 4, 32, False, 8, 0.87),
    Tile(128, 128, 64, 64, 8, 4, 64, False, 8, 0.8),
    Tile(128, 128, 0, 64, 4, 3, 32, False, 4, 0.93),
    Tile(64, 128, 0, 128, 4, 4, 128, False, 8, 0.82),
    Tile(128, 64, 0, 128, 4, 4, 64, False, 8, 0.66),
    Tile(64, 64, 0, 128, 4, 4, 64, False, 8, 0.55),
    Tile(64, 32, 0, 256, 4, 3, 32, False, 4, 0.43),
)
# For float32 in full precision, which matrix units do not multiply
TILES_BY_HAND = (Tile(64, 64, 0, 32, 4, 3, 64, False, 8, 1.0), Tile(32, 32, 0, 64, 4, 3, 32, False, 8, 0.6))

# For a single row: 16 columns, and 1,024 elements along K of whatever dtype
ROW = Tile(1, 16, 0, 1024, 8, 1, 16, False, 1, 1.0)


@functools.lru_cache(maxsize=4096)
def choose_tile(batches: int, M: int, N: int, size: int, by_hand: bool, gated: bool, multiprocessors: int) -> Tile:
    """Return the tile whose programs get the most done at a time.

    That is its speed, times how much of what all multiprocessors compute in some rounds is part of the result.

    >>> choose_tile(1, 4096, 4096, 2, False, False, 132)[:3]
    (128, 256, 0)
    >>> choose_tile(1, 512, 512, 2, False, False, 132)[:3]
    (64, 32, 0)
    """

    def done(tile):
        width = tile.block_n + tile.more_n
        rounds = -(-(batches * -(-M // tile.block_m) * -(-N // width)) // multiprocessors)
        return tile.speed * batches * M * N / (rounds * multiprocessors * tile.block_m * width)

    tiles = TILES_BY_HAND if by_hand else TILES
    return adapt(max((tile for tile in tiles if not (gated and tile.more_n)), key=done), size, gated)


def adapt(tile: Tile, size: int, gated: bool) -> Tile:
    """Return a tile for elements of ``size`` bytes; gated, half of its columns are those of the gate."""
    tile = tile._replace(block_k=max(tile.block_k * 2 // size, 16))
    if gated:
        half = max(tile.block_n // 2, 16)
        tile = tile._replace(block_n=half, more_n=half)
    return tile._replace(part=min(tile.part, tile.block_n, tile.more_n or tile.block_n))
# --8<-- [end:tiles]


# --8<-- [start:launch]
def product(
    a: torch.Tensor,
    b: torch.Tensor,
    added: torch.Tensor | None,
    out: torch.Tensor,
    pre: torch.Tensor | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    activation: str | None = None,
    gated: bool = False,
    tile: Tile | None = None,
) -> "Launch | None":
    """Launch the kernel that fills ``out``, and ``pre`` if it is given.

    Args:
        a, b: (batches or 1, M, K) and (batches or 1, K, N), or (1, K, 2 * N) gated, any strides.
        added: (batches, M, N), or (1, M, 2 * N) gated, any strides; or None.
        out: (batches, M, N), any strides.
        tile: Instead of the one that :func:`choose_tile` takes.

    Returns:
        The launch, for other tensors that lie as these do; or None if there was none, or operands were copied first.
    """
    if out.numel() == 0:
        return None
    (batches, M, N), K = out.shape, a.shape[2]
    if K == 0:  # a descriptor describes no empty tensor, and a sum of one zero is a sum of nothing
        a, b = a.new_zeros(1, M, 1), b.new_zeros(1, 1, b.shape[2])
        product(a, b, added, out, pre, alpha, beta, activation, gated, tile)
        return None
    a, b = (x[:1] if x.stride(0) == 0 else x for x in (a, b))  # one matrix for all batches
    precision = "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"
    by_hand = a.dtype == torch.float32 and precision == "ieee"
    count = multiprocessors(out.device)
    if tile is None and M == 1 and (K == 1 or a.stride(2) == b.stride(1) == 1):
        tile = ROW
    chosen = tile or choose_tile(batches, M, N * (1 + gated), a.itemsize, by_hand, gated, count)
    tile = FEWER.get((chosen, out.device), chosen)
    layouts = (layout(a), layout(b), layout(added), layout(out), layout(pre))
    launch = prepared(*layouts, precision, activation, gated, tile, count)
    if any(launch.copied):
        a, b = (copy(x) if copied else x for x, copied in zip((a, b), launch.copied, strict=True))
        product(a, b, added, out, pre, alpha, beta, activation, gated, chosen)
        return None
    try:
        launch.run(a, b, out, added, pre, alpha, beta)
        return launch
    except triton.OutOfResources as error:  # only the compiler knows how much shared memory it takes on this GPU
        if tile.num_stages == 1:
            raise ValueError(f"{tile} does not fit on {out.device}: {error}") from None
        FEWER[chosen, out.device] = tile._replace(num_stages=tile.num_stages - 1)
        return product(a, b, added, out, pre, alpha, beta, activation, gated, chosen)


FEWER = {}  # by tile and device: the same with fewer stages, where a GPU has no room for all


class Layout(NamedTuple):
    """Say all of a tensor that decides how a kernel is launched, but not where the tensor is."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    aligned: bool  # whether it begins at a multiple of 16 bytes
    negated: bool  # lazily

    def transposed(self) -> "Layout":
        (x, y, z), (of_x, of_y, of_z) = self.shape, self.stride
        return self._replace(shape=(x, z, y), stride=(of_x, of_z, of_y))

    def fits_tma(self) -> bool:
        """Return whether the TMA can reach (batches, rows, columns): rows contiguous, at multiples of 16 bytes."""
        batch, row, column = (0 if size == 1 else stride for size, stride in zip(self.shape, self.stride, strict=True))
        return (
            self.aligned
            and (column == 1 or self.shape[2] == 1)
            and (batch | row) * self.dtype.itemsize % 16 == 0
            and (row == 0 or row >= self.shape[2])
            and (row or self.shape[1] == 1)
            and max(batch, row) < 2**36
        )

    def described(self, *block: int) -> tuple:
        """Return shape, strides and block of a descriptor. Where there is one of something, its stride isn't used."""
        valid = 16 // self.dtype.itemsize  # for the stride is checked even so
        strides = [valid if size == 1 else stride for size, stride in zip(self.shape[:2], self.stride, strict=False)]
        return list(self.shape), [*strides, 1], [1, *block]


def layout(x: torch.Tensor | None) -> Layout | torch.layout | None:
    if x is None or x.layout != torch.strided:
        return x if x is None else x.layout
    return Layout(x.shape, x.stride(), x.dtype, x.device, x.data_ptr() % 16 == 0, x.is_neg())


def describable(x: Layout) -> tuple[Layout, bool] | None:
    """Return what a descriptor can hold, and whether its rows run along K: (batches, rows, K), its transpose, or None.

    >>> x = torch.zeros(1, 8, 16, dtype=torch.float16)
    >>> [(view.stride, along) for view, along in (describable(layout(x)), describable(layout(x.mT)))]
    [((128, 16, 1), True), ((128, 16, 1), False)]
    >>> describable(layout(x[..., 1:])) is None
    True
    """
    for view, along in ((x, True), (x.transposed(), False)):
        if view.fits_tma():
            return view, along
    return None


def copy(x: torch.Tensor) -> torch.Tensor:
    """Return a copy that can be described: its rows, or columns, begin at multiples of 16 bytes.

    >>> copy(torch.zeros(1, 8, 15, dtype=torch.float16)).stride()
    (128, 16, 1)
    """
    along = x.stride(2) <= x.stride(1)
    view = x if along else x.transpose(1, 2)
    width = -(-view.shape[2] * x.itemsize // 16) * 16 // x.itemsize
    view = x.new_empty((*view.shape[:2], width))[..., : view.shape[2]].copy_(view)
    return view if along else view.transpose(1, 2)


@dataclasses.dataclass
class Launch:
    """Hold everything about a launch that stays the same from call to call.

    Attributes:
        copied: Whether ``a`` and ``b`` must be copied first; then there is no launch.
        described: Which of the tensors are described, and how.
        numbers: Arguments after the tensors.
        constants: Arguments after ``alpha`` and ``beta``.
        options: The same by name, and warps and stages.
    """

    copied: tuple[bool, bool]
    kernel: triton.JITFunction | None = None
    programs: int = 0
    described: tuple = ()
    numbers: tuple[int, ...] = ()
    constants: tuple = ()
    options: dict = dataclasses.field(default_factory=dict)
    compiled: triton.compiler.CompiledKernel | None = None  # set by the first launch, except in the interpreter

    def run(self, a, b, out, added, pre, alpha, beta) -> None:
        """Launch the kernel for tensors of :func:`product`, or of other shapes that lie as those do.

        After the first launch, Triton isn't asked which compiled kernel fits the arguments.
        It is always the same one, since everything that Triton looks at is part of the key of :func:`prepared`.
        """
        grid = (self.programs, 1, 1)
        tensors = [a, b, b, out, added, pre] if self.described else [a, b, out, added, pre]
        for i, how in self.described:
            tensors[i] = TensorDescriptor(tensors[i], *how)
        given = *tensors, *self.numbers, alpha, beta
        with torch.cuda.device_of(out):  # Triton launches on the current device, which need not be that of out
            begin_thread(out)
            if self.compiled is None:
                self.compiled = self.kernel[grid](*given, **self.options)
            else:
                self.compiled[grid](*given, *self.constants)


@functools.lru_cache(maxsize=4096)
def prepared(
    a: Layout,
    b: Layout,
    added: Layout | None,
    out: Layout,
    pre: Layout | None,
    precision: str,
    activation: str | None,
    gated: bool,
    tile: Tile,
    count: int,
) -> Launch:
    """Return how to launch the kernel for such tensors on a GPU of so many multiprocessors; see :func:`product`."""
    (batches, M, N), K = out.shape, a.shape[2]
    width = tile.block_n if gated else tile.block_n + tile.more_n
    tiles = batches * -(-M // tile.block_m) * -(-N // width)
    if tiles >= 2**31 - 2**16 or max(M, N, K) > LONGEST:  # counted in 32 bits
        raise ValueError(f"a product of {batches} x {M} x {K} and {K} x {N} is too large for one launch; split it")
    if tile is ROW:
        options = {"ACTIVATION": activation, "GATED": gated, "BLOCK_N": tile.block_n // (1 + gated)}
        options["BLOCK_K"] = min(tile.block_k, max(triton.next_power_of_2(K), 16))
        batch = lambda x: x.stride[0] if x.shape[0] > 1 else 0
        of_added = (0, 0) if added is None else (added.stride[0], added.stride[2])
        numbers = (N, K, batch(a), batch(b), b.stride[2], *of_added, out.stride[0], out.stride[2])
        constants, programs = tuple(options.values()), batches * -(-N // options["BLOCK_N"])
        options["num_warps"] = tile.num_warps
        return Launch((False, False), row_kernel, programs, (), numbers, constants, options)
    a_described, b_described = describable(a), describable(b.transposed())
    if not a_described or not b_described:
        return Launch((not a_described, not b_described))
    (a_view, a_along), (b_view, b_along) = a_described, b_described
    rows = lambda along, block: (block, tile.block_k) if along else (tile.block_k, block)
    described = [
        (0, a_view.described(*rows(a_along, tile.block_m))),
        (1, b_view.described(*rows(b_along, tile.block_n))),
        (2, b_view.described(*rows(b_along, tile.more_n or tile.block_n))),
    ]
    pieces = pre and pre._replace(shape=(1 + gated, M, N), stride=(N, (1 + gated) * N, 1))
    stored = [(3, out)] if pre is None else [(3, out), (5, pieces)]
    fits = all(each.fits_tma() for _, each in stored)
    if fits:
        described += [(i, each.described(tile.block_m, tile.part)) for i, each in stored]
    options = {
        "A_ALONG_K": a_along,
        "B_ALONG_K": b_along,
        "A_BATCHED": int(a.shape[0] > 1),
        "B_BATCHED": int(b.shape[0] > 1),
        "ADDED_ROW": added is not None and added.stride[1] == 0,
        "ACTIVATION": activation,
        "GATED": gated,
        "DESCRIBED": fits,
        "PRECISION": precision,
        "BLOCK_M": tile.block_m,
        "BLOCK_N": tile.block_n,
        "MORE_N": tile.more_n,
        "BLOCK_K": tile.block_k,
        "PART": tile.part,
        "GROUP_M": tile.group_m,
        "FLATTEN": tile.persistent,
    }
    constants = tuple(options.values())
    options |= {"num_warps": tile.num_warps, "num_stages": tile.num_stages}
    rounds = -(-tiles // count) if tile.persistent else 1
    numbers = (batches, M, N, K, *((0, 0, 0) if added is None else added.stride), *out.stride)
    programs = -(-tiles // rounds)
    return Launch((False, False), matmul_kernel, programs, tuple(described), numbers, constants, options)


class Plan(NamedTuple):
    """Hold what stays the same from call to call with such tensors."""

    launch: Launch
    shape: tuple[int, ...]  # of the result
    dtype: torch.dtype

    def run(self, a, b, added, out, alpha, beta) -> torch.Tensor:
        out = a.new_empty(self.shape, dtype=self.dtype) if out is None else out
        self.launch.run(a, b, out, added, None, alpha, beta)
        return out


PLANS = {}  # by the layouts of tensors, and by options. What is found here has passed all checks


def remember(key: tuple, launch: Launch | None, given, read, shape, dtype) -> None:
    """Keep a launch for the next such call, unless the kernel read, or wrote, elsewhere than where the tensors lie."""
    there = lambda x: None if x is None else x.data_ptr()
    if launch is None or [*map(there, given)] != [*map(there, read)]:
        return
    if len(PLANS) >= 4096:  # shapes that never end, such as of texts of all lengths, must not fill the memory
        PLANS.clear()
    PLANS[key] = Plan(launch, tuple(shape), dtype)


def begin_thread(x: torch.Tensor) -> None:
    """Launch something once in each thread: before, a thread of autograd's has no context to describe tensors in."""
    if not hasattr(THREAD, "began"):
        torch.zeros(1, device=x.device)
        THREAD.began = True


THREAD = threading.local()


@functools.cache
def multiprocessors(device: torch.device) -> int:
    """Return how many multiprocessors a GPU has; in the interpreter, made up, as many as an H200."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 132
# --8<-- [end:launch]


# --8<-- [start:gradients]
def multiply(a, b, added, alpha, beta, dtype):
    """Return a new ``alpha * a @ b + beta * added``, of matrices as for :func:`product`."""
    out = empty_product(a, b, dtype)
    product(a, b, added, out, None, alpha, beta)
    return out


def empty_product(a, b, dtype):
    return a.new_empty((len(a) if len(b) == 1 else len(b), a.shape[1], b.shape[2]), dtype=dtype)


def multiply_gradients(ctx, grad, multiply):
    """Return the gradients of ``a``, ``b`` and ``added``. They are products, too, so they have gradients themselves."""
    a, b = ctx.saved_tensors
    of_added = (ctx.beta * grad).to(ctx.added_dtype) if ctx.needs_input_grad[2] else None
    grad, found = grad.to(a.dtype), []
    for needed, x, given in (
        (ctx.needs_input_grad[0], a, lambda: (grad, b.transpose(1, 2))),
        (ctx.needs_input_grad[1], b, lambda: (a.transpose(1, 2), grad)),
    ):
        of_x = multiply(*given(), None, ctx.alpha, 0.0, x.dtype) if needed else None
        shared = needed and len(x) != len(of_x)  # by all batches
        found.append(of_x.sum(0, keepdim=True) if shared else of_x)
    return *found, of_added


class Multiply(torch.autograd.Function):
    """Tie both directions together. Saved: both operands."""

    @staticmethod
    def forward(a, b, added, alpha, beta, dtype):
        return multiply(a, b, added, alpha, beta, dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        a, b, added, ctx.alpha, ctx.beta, _ = inputs
        ctx.added_dtype = None if added is None else added.dtype
        ctx.save_for_backward(a, b)

    @staticmethod
    def backward(ctx, grad):
        return *multiply_gradients(ctx, grad, Multiply.apply), None, None, None

    @staticmethod
    def vmap(info, in_dims, a, b, added, alpha, beta, dtype):
        """Map by one more dimension of batches."""
        front = lambda x, dim: x if x is None else x[None] if dim is None else x.movedim(dim, 0)
        a, b, added = map(front, (a, b, added), in_dims[:3])
        return matmul(a, b, c=added, alpha=alpha, beta=beta, out_dtype=dtype), 0


class Linear(torch.autograd.Function):
    """Tie both directions of a layer with an activation together. Saved: its operands, and what it activated."""

    @staticmethod
    def forward(x, weight, bias, activation, gated, keep):
        return tuple(layer(x, weight, bias, activation, gated, keep))

    @staticmethod
    def setup_context(ctx, inputs, output):
        keep_for_backward(ctx, inputs, output)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, grad, _):
        return *layer_gradients(ctx, grad, Unactivate.apply, Multiply.apply), None, None, None

    @staticmethod
    def vmap(info, in_dims, x, weight, bias, *options):
        if in_dims[1:3] != (None, None):
            raise NotImplementedError(
                "a layer with an activation is mapped by torch.vmap over x alone; for a weight of each, use matmul"
            )
        x = x.movedim(in_dims[0], 0)
        out, pre = Linear.apply(x.flatten(0, 1), weight, bias, *options)
        return (out.unflatten(0, x.shape[:2]), pre.unflatten(0, (x.shape[0], -1)) if len(pre) else pre), (0, 0)


class Unactivate(torch.autograd.Function):
    """Refuse a second gradient. As a function of its own it also serves ``torch.func.grad`` and ``vjp``."""

    @staticmethod
    def forward(grad, pre, activation, gated, x, weight):  # the last two, because what was activated hangs on them
        return unactivate(grad, pre, activation, gated)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad):
        raise RuntimeError("an activation here has no gradient of its gradient; call it without create_graph=True")

    @staticmethod
    def vmap(info, in_dims, *given):
        raise NotImplementedError("the gradient of a layer with an activation is not mapped by torch.vmap")


for function in (Multiply, Linear, Unactivate):  # torch asks for it in each call, and without this works it out anew
    function.forward.__signature__ = inspect.signature(function.forward)


def layer(x, weight, bias, activation, gated, keep) -> list[torch.Tensor]:
    """Return the result of (M, K) and (N or 2 * N, K), and what was activated, empty unless it is to be kept."""
    return [*launch_layer(x, weight, bias, activation, gated, keep)[:2]]


def launch_layer(x, weight, bias, activation, gated, keep) -> tuple[torch.Tensor, torch.Tensor, Launch | None]:
    N = weight.shape[0] // 2 if gated else weight.shape[0]
    out = x.new_empty(len(x), N)
    pre = x.new_empty(len(x) if keep else 0, len(weight))
    added = None if bias is None else bias.expand(1, len(x), len(weight))
    kept = pre if keep else None
    launch = product(x[None], weight.t()[None], added, out[None], kept, 1.0, 1.0, activation, gated)
    return out, pre, launch


def unactivate(grad, pre, activation, gated):
    """Return the gradient of what was activated."""
    grad, grad_pre = grad.contiguous(), torch.empty_like(pre)
    M, N = grad.shape
    if grad.numel():
        block = min(triton.next_power_of_2(N), 1024)
        if M * -(-N // block) >= 2**31:
            raise ValueError(f"a gradient of {M} x {N} is too large for one launch; split x")
        with torch.cuda.device_of(grad):
            activation_backward_kernel[(M * -(-N // block),)](
                grad, pre, grad_pre, N, ACTIVATION=activation, GATED=gated, BLOCK=block
            )
    return grad_pre


def keep_for_backward(ctx, inputs, output):
    x, weight, bias, ctx.activation, ctx.gated, _ = inputs
    ctx.bias_dtype = None if bias is None else bias.dtype
    ctx.save_for_backward(x, weight, output[1])


def layer_gradients(ctx, grad, unactivate, multiply):
    """Return the gradients of ``x``, ``weight`` and ``bias``."""
    x, weight, pre = ctx.saved_tensors
    grad = unactivate(grad, pre, ctx.activation, ctx.gated, x, weight)
    needs_x, needs_weight, needs_bias, *_ = ctx.needs_input_grad
    of_x = multiply(grad[None], weight[None], None, 1.0, 0.0, x.dtype)[0] if needs_x else None
    of_weight = multiply(grad.t()[None], x[None], None, 1.0, 0.0, weight.dtype)[0] if needs_weight else None
    return of_x, of_weight, grad.sum(0, dtype=torch.float32).to(ctx.bias_dtype) if needs_bias else None
# --8<-- [end:gradients]


# The same for torch.compile, which does not look into a custom op


@torch.library.custom_op("triton_by_example_library::multiply", mutates_args=())
def multiply_op(
    a: torch.Tensor, b: torch.Tensor, added: torch.Tensor | None, alpha: float, beta: float, dtype: torch.dtype
) -> torch.Tensor:
    return multiply(a, b, added, alpha, beta, dtype)


@multiply_op.register_fake
def _(a, b, added, alpha, beta, dtype):
    return empty_product(a, b, dtype)


@torch.library.custom_op("triton_by_example_library::layer", mutates_args=())
def layer_op(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, activation: str | None, gated: bool, keep: bool
) -> list[torch.Tensor]:
    return layer(x, weight, bias, activation, gated, keep)


@layer_op.register_fake
def _(x, weight, bias, activation, gated, keep):
    N = weight.shape[0] // 2 if gated else weight.shape[0]
    return [x.new_empty(x.shape[0], N), x.new_empty(x.shape[0] if keep else 0, weight.shape[0])]


@torch.library.custom_op("triton_by_example_library::unactivate", mutates_args=())
def unactivate_op(grad: torch.Tensor, pre: torch.Tensor, activation: str | None, gated: bool) -> torch.Tensor:
    return unactivate(grad, pre, activation, gated)


@unactivate_op.register_fake
def _(grad, pre, activation, gated):
    return torch.empty_like(pre)


multiply_op.register_autograd(
    lambda ctx, grad: (*multiply_gradients(ctx, grad, multiply_op), None, None, None),
    setup_context=Multiply.setup_context,
)
layer_op.register_autograd(
    lambda ctx, grads: (
        *layer_gradients(ctx, grads[0], lambda *given: unactivate_op(*given[:4]), multiply_op), None, None, None,
    ),
    setup_context=keep_for_backward,
)


# --8<-- [start:host]
def matmul(
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    out: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    alpha: float = 1,
    beta: float = 0,
    c: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return ``alpha * a @ b + beta * c``, computed in float32 and rounded once; it has gradients for all tensors.

    As torch's ``matmul``: no option. As ``addmm(c, a, b)`` and ``baddbmm``: ``c=c, beta=1``.

    Args:
        a: ``(..., M, K)`` or ``(K,)`` on a GPU (in the interpreter: on the CPU), of one of ``DTYPES``. It is copied
            unless its rows, or those of its transpose, are contiguous and begin at multiples of 16 bytes. Float32 is
            multiplied as TF32 if ``torch.set_float32_matmul_precision`` allows that.
        b: ``(..., K, N)`` or ``(K,)``, of the dtype of ``a``. Batches are broadcast as by torch; where both operands
            have several but one has to be repeated, it is copied.
        out: Where to write the result; of its shape and dtype, with any strides. It may be ``c``. It must not overlap
            ``a`` or ``b``, and nothing may need a gradient. Under ``torch.compile``, the result is copied there.
        out_dtype: ``torch.float32`` for a result that is not rounded, or the dtype of ``a``, which is the default.
        alpha, beta: Numbers of Python or NumPy, or tensors on the CPU. With ``beta=0``, ``c`` is not read.
        c: Of any of ``DTYPES``, and any shape that broadcasts to that of the result.

    Returns:
        A new contiguous tensor, or ``out``. Under autocast, ``a`` and ``b`` are cast to its dtype first. Gradients have
        the dtypes of what they belong to, and gradients themselves. The kernel may still be running.

    Raises:
        ValueError: An argument is something that the kernel cannot serve.
        NotImplementedError: It is called with ``out`` under ``torch.vmap``.

    >>> a = torch.tensor([[1.0, 2.0]], requires_grad=True)
    >>> b = torch.tensor([[3.0], [4.0]])
    >>> matmul(a, b, c=torch.tensor(100.0), beta=0.5).detach()
    tensor([[61.]])
    >>> matmul(a, b).backward()
    >>> a.grad
    tensor([[3., 4.]])
    """
    alpha, beta = as_float("alpha", alpha), as_float("beta", beta)
    a, b = autocast(a, b)
    c = c if beta else None
    dtype = a.dtype if out_dtype is None else out_dtype
    direct = not torch.compiler.is_compiling() and not seen_by_autograd(a, b, c, out)
    if direct and isinstance(dtype, torch.dtype):
        key = layout(a), layout(b), layout(c), layout(out), dtype, torch.get_float32_matmul_precision()
        if plan := PLANS.get(key):
            if out is not None:
                check_memory(out, a, b, c)
            return plan.run(a, b, c, out, alpha, beta)
    check_arguments({"a": a, "b": b}, {"c": c})
    if not a.ndim or not b.ndim:
        raise ValueError(f"a and b must have a dimension or more; got {tuple(a.shape)} and {tuple(b.shape)}")
    given, shape = (a, b), product_shape(a.shape, b.shape)
    if dtype not in (a.dtype, torch.float32):
        raise ValueError(f"out_dtype must be {a.dtype}, as a, or torch.float32; got {out_dtype}")
    if c is not None and not broadcasts(c.shape, shape):
        raise ValueError(f"c must broadcast to the result, {shape}; got {tuple(c.shape)}")
    as_matrix = lambda x: unsqueeze(x, first=given[0].ndim == 1, second=given[1].ndim == 1)
    a, b = a[None] if a.ndim == 1 else a, b[:, None] if b.ndim == 1 else b
    (M, K), N = a.shape[-2:], b.shape[-1]
    batch = torch.Size(shape[: len(shape) - (given[0].ndim > 1) - (given[1].ndim > 1)])
    added = None if c is None else as_matrix(c.resolve_neg().expand(shape))
    if b.ndim == 2 and (c is None or c.ndim < 2) and out is None:  # one matrix of the rows of all batches
        M, batch = batch.numel() * M, torch.Size()
    flat = lambda x, rows, columns: x.resolve_neg().reshape(x.shape[:-2].numel() if batch else 1, rows, columns)
    if len(batch) > 1 or (a.ndim != b.ndim and batch):  # an operand of one matrix for all stays one
        a, b = (x if x.shape[:-2].numel() == 1 else x.expand(*batch, *x.shape[-2:]) for x in (a, b))
    a, b = flat(a, M, K), flat(b, K, N)
    added = None if added is None else added.reshape(batch.numel(), M, N)
    compiling = torch.compiler.is_compiling()
    if out is not None:
        check_out(out, shape, dtype, *given, c)
    if direct and out is None:
        result = empty_product(a, b, dtype)
        launch = product(a, b, added, result, None, alpha, beta)
        remember(key, launch, (*given, c), (a, b, added), shape, dtype)
        return result.reshape(shape)
    if out is None or compiling:
        run = multiply_op if compiling else Multiply.apply
        result = run(a, b, added, alpha, beta, dtype).reshape(shape)
        return result if out is None else out.copy_(result)  # the compiler lets no kernel write over what it is given
    check_memory(out, *given, c)
    try:
        target = as_matrix(out).view(batch.numel(), M, N)
    except RuntimeError:  # its batches do not lie evenly apart
        return out.copy_(matmul(*given, out_dtype=dtype, alpha=alpha, beta=beta, c=c))
    launch = product(a, b, added, target, None, alpha, beta)
    if direct:
        remember(key, launch, (*given, c, out), (a, b, added, target), shape, dtype)
    return out


def linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    *,
    gated: bool = False,
) -> torch.Tensor:
    """Return ``activation(x @ weight.T + bias)``, computed in float32 and rounded once; it has gradients for all.

    Args:
        x: ``(..., K)``, else as ``a`` of :func:`matmul`.
        weight: ``(N, K)``, of the dtype of ``x``. Gated: ``(2 * N, K)``, the rows of the gate, then those of ``up``.
        bias: A number for each row of ``weight``, of any of ``DTYPES``, or None.
        activation: ``None`` or one of ``ACTIVATIONS``; ``"gelu"`` is the exact one, without tanh.
        gated: Whether to return ``activation(gate) * up``: with ``"silu"`` it is a SwiGLU, with ``"gelu"`` a GEGLU.

    Returns:
        A new contiguous tensor ``(..., N)``. Dtypes and autocast are as for :func:`matmul`. Where a gradient is needed
        and there is an activation or a gate, what they were given is stored, too, in the dtype of ``x``.

    Raises:
        ValueError: An argument is something that the kernel cannot serve.
        NotImplementedError: There is an activation or a gate, and ``torch.vmap`` maps weights or gradients.
        RuntimeError: There is an activation or a gate, and the gradient of a gradient is asked for.

    >>> x, weight = torch.tensor([[1.0, -2.0]]), torch.tensor([[3.0, 1.0], [1.0, 2.0]])
    >>> linear(x, weight, torch.tensor([0.5, 1.0]), "relu")
    tensor([[1.5000, 0.0000]])
    >>> linear(x, weight, activation="relu", gated=True)
    tensor([[-3.]])
    """
    x, weight = autocast(x, weight)
    direct = not torch.compiler.is_compiling() and not seen_by_autograd(x, weight, bias)
    if direct and (activation is None or isinstance(activation, str)):
        options = activation, bool(gated), torch.get_float32_matmul_precision()
        key = layout(x), layout(weight), layout(bias), *options
        if plan := PLANS.get(key):
            return plan.run(x, weight, bias, None, 1.0, 1.0)
    check_arguments({"x": x, "weight": weight}, {"bias": bias})
    if not x.ndim or weight.ndim != 2 or x.shape[-1] != weight.shape[1] or (gated and len(weight) % 2):
        raise ValueError(
            f"x must be (..., K) and weight {'(2 * N, K)' if gated else '(N, K)'}; got {tuple(x.shape)} and"
            f" {tuple(weight.shape)}"
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(f"bias must have the shape ({len(weight)},); got {tuple(bias.shape)}")
    if activation is not None and activation not in ACTIVATIONS:
        raise ValueError(f"activation must be None or one of {', '.join(ACTIVATIONS)}; got {activation!r}")
    if direct:
        rows = x.reshape(x.shape[:-1].numel(), x.shape[-1]).resolve_neg()
        read = rows, weight.resolve_neg(), bias if bias is None else bias.resolve_neg()
        out, _, launch = launch_layer(*read, activation, bool(gated), False)
        shape = *x.shape[:-1], out.shape[1]
        remember(key, launch, (x, weight, bias), read, shape, x.dtype)
        return out.reshape(shape)
    if activation is None and not gated:
        return matmul(x, weight.t(), c=bias, beta=1.0)
    needs = torch.is_grad_enabled() and any(each is not None and each.requires_grad for each in (x, weight, bias))
    rows = x.reshape(x.shape[:-1].numel(), x.shape[-1]).resolve_neg()
    run = layer_op if torch.compiler.is_compiling() else Linear.apply
    out, _ = run(rows, weight.resolve_neg(), bias, activation, bool(gated), needs)
    return out.reshape(*x.shape[:-1], out.shape[1])
# --8<-- [end:host]


def seen_by_autograd(*tensors: torch.Tensor | None) -> bool:
    """Return whether a call must go through ``Function.apply``, which takes the host longer than all else together.

    It must where a gradient is recorded, and where ``torch.func`` or a forward-mode gradient is at work.
    """
    needed = (x.requires_grad for x in tensors if x is not None)
    return (
        torch._C._are_functorch_transforms_active()
        or torch.autograd.forward_ad._current_level >= 0
        or (torch.is_grad_enabled() and any(needed))
    )


def autocast(*given: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return tensors as torch's products get them under autocast, or as they are."""
    kind = given[0].device.type
    if not torch.is_autocast_enabled(kind):
        return given
    dtype = torch.get_autocast_dtype(kind)
    return tuple(each.to(dtype) if each.is_floating_point() else each for each in given)


def as_float(name: str, value) -> float:
    """Return a number of Python or NumPy, or of a tensor on the CPU, as Python's ``float``."""
    if isinstance(value, float):
        return value
    try:
        if isinstance(value, str) or getattr(value, "is_cuda", False):  # the host would wait for the GPU
            raise TypeError
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"{name} must be a number, not on a GPU; got {value!r}") from None


def product_shape(a, b) -> tuple[int, ...]:
    """Return the shape of the product of tensors of these shapes, as torch's ``matmul`` has it."""
    inner = b[-2] if len(b) > 1 else b[-1]
    # Not torch.broadcast_shapes, which takes longer than all else that is computed here.
    pairs = [*itertools.zip_longest(a[-3::-1], b[-3::-1], fillvalue=1)] if len(a) > 2 or len(b) > 2 else []
    if a[-1] != inner or any(x != y and 1 not in (x, y) for x, y in pairs):
        raise ValueError(f"a must be (..., M, K) and b (..., K, N), or (K,); got {tuple(a)} and {tuple(b)}")
    batches = [y if x == 1 else x for x, y in reversed(pairs)]
    return (*batches, *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))


def broadcasts(shape, to) -> bool:
    return len(shape) <= len(to) and all(x in (1, y) for x, y in zip(shape[::-1], to[::-1], strict=False))


def unsqueeze(x: torch.Tensor, first: bool, second: bool) -> torch.Tensor:
    """Return a result as matrices: with the dimension of a vector on the left, and of one on the right."""
    x = x.unsqueeze(-1) if second else x
    return x.unsqueeze(-2) if first else x


def check_arguments(operands: dict[str, torch.Tensor], added: dict[str, torch.Tensor | None]) -> None:
    """Raise ``ValueError`` for tensors that the kernel would get wrong or cannot serve at all."""
    (first, x), (second, y) = operands.items()
    for name, tensor in (operands | {name: each for name, each in added.items() if each is not None}).items():
        if tensor.layout != torch.strided:
            raise ValueError(f"{name} is {tensor.layout}; pass {name}.to_dense()")
        if tensor.device != x.device:
            raise ValueError(f"{first} is on {x.device} and {name} on {tensor.device}; move them to one device")
        if tensor.dtype not in DTYPES:
            supported = ", ".join(map(str, DTYPES))
            raise ValueError(f"{name} is {tensor.dtype}, which is not supported; use one of {supported}")
    if x.dtype != y.dtype:
        raise ValueError(f"{first} is {x.dtype} and {second} {y.dtype}; cast one, or use torch.autocast")
    if x.device.type != ("cpu" if INTERPRETED else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        where = "the CPU, interpreted" if INTERPRETED else "a GPU"
        raise ValueError(f"{first} is on {x.device}; kernels run on {where}")
    if INTERPRETED and x.dtype == torch.bfloat16:
        raise ValueError("Triton's interpreter multiplies bfloat16 wrongly (seen in 3.7.1); use float32, or a GPU")


def check_out(out, shape, dtype, a, b, c) -> None:
    """Raise ``ValueError`` for an ``out`` that cannot be written to."""
    if tuple(out.shape) != tuple(shape) or out.dtype != dtype or out.device != a.device:
        got = f"{tuple(out.shape)} of {out.dtype} on {out.device}"
        raise ValueError(f"out must be {tuple(shape)} of {dtype} on {a.device}; got {got}")
    if out.layout != torch.strided:
        raise ValueError(f"out must be a dense tensor; got {out.layout}")
    if torch.is_grad_enabled() and any(each is not None and each.requires_grad for each in (out, a, b, c)):
        raise ValueError("out= keeps no gradient; leave it out, or use torch.no_grad()")
    if out.numel() and any(size > 1 and stride == 0 for size, stride in zip(out.shape, out.stride(), strict=True)):
        raise ValueError("out has elements that share memory; pass out.clone()")


def check_memory(out, a, b, c) -> None:
    """Raise an error for an ``out`` where a kernel cannot write while it reads the operands."""
    if out.is_neg():
        raise ValueError("out must be a tensor that is not negated lazily; pass out.resolve_neg()")
    read = [a, b] if c is None or (c.shape == out.shape and c.stride() == out.stride()) else [a, b, c]
    try:
        begin, begins = out.data_ptr(), [each.data_ptr() for each in read]
    except RuntimeError as error:  # tensors that torch.vmap maps have no address
        raise NotImplementedError("out= is not mapped by torch.vmap; leave it out") from error
    if out.numel() and begin in begins:
        raise ValueError("out begins where an operand does, which would be overwritten while read; pass another tensor")


INTERPRETED = not isinstance(matmul_kernel, triton.JITFunction)


# --8<-- [start:torch]
def in_torch(x, weight, bias=None, activation=None, *, gated=False):
    """Return what :func:`linear` computes, by torch's functions, in the dtype of its arguments."""
    pre = torch.nn.functional.linear(x, weight, bias)
    gate, up = pre.chunk(2, dim=-1) if gated else (pre, None)
    functions = {
        None: lambda x: x,
        "relu": torch.relu,
        "relu2": lambda x: torch.relu(x).square(),
        "gelu": torch.nn.functional.gelu,
        "gelu_tanh": functools.partial(torch.nn.functional.gelu, approximate="tanh"),
        "silu": torch.nn.functional.silu,
        "sigmoid": torch.sigmoid,
        "tanh": torch.tanh,
    }
    out = functions[activation](gate)
    return out * up if gated else out
# --8<-- [end:torch]


def main():
    device = "cpu" if INTERPRETED else "cuda"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    torch.manual_seed(0)
    make = lambda *shape: torch.randn(shape, device=device, requires_grad=True)

    print("## options")
    a, b, rows = make(5, 7), make(7, 3), make(2, 5, 7)
    c = make(5, 3)
    x, weight, wide, wide_bias = make(2, 5, 7), make(6, 7), make(12, 7), make(12)
    cases = {
        "matmul": (matmul, torch.matmul, (a, b), {}),
        "matmul, transposed": (matmul, torch.matmul, (b.T, a.T), {}),
        "matmul, batches by one matrix": (matmul, torch.matmul, (rows, b), {}),
        "matmul, batches by batches": (matmul, torch.matmul, (rows, rows.mT), {}),
        "matmul, a matrix by a vector": (matmul, torch.matmul, (a, b[:, 0]), {}),
        "2 * a @ b + 0.5 * c": (
            lambda a, b, c: matmul(a, b, c=c, alpha=2, beta=0.5),
            lambda a, b, c: torch.addmm(c, a, b, alpha=2, beta=0.5), (a, b, c), {},
        ),
        "linear": (linear, in_torch, (x, weight, None), {}),
        "linear, bias": (linear, in_torch, (x, weight, make(6)), {}),
        **{f"linear, {name}": (linear, in_torch, (x, weight, make(6), name), {}) for name in ACTIVATIONS},
        "linear, gated by silu": (linear, in_torch, (x, wide, wide_bias, "silu"), {"gated": True}),
    }  # fmt: skip
    for name, (ours, theirs, given, options) in cases.items():
        tensors = [each for each in given if isinstance(each, torch.Tensor)]
        results = []
        for run in (ours, theirs):
            out = run(*given, **options)
            results.append([out, *torch.autograd.grad((out**2).sum(), tensors)])
        same = all(torch.allclose(x, y, rtol=1e-3, atol=1e-4) for x, y in zip(*results, strict=True))
        print(f"{name}: result and gradients", "as by torch" if same else "NOT as by torch")


if __name__ == "__main__":
    main()
