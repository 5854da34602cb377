# SPDX-License-Identifier: Apache-2.0
"""Attention in Gluon by the clock: when products are in flight, and when exponentials are taken.

The kernel is ``specialized_kernel`` of ``attention.py``, with a warp that loads and two groups of four warps, that
reads the multiprocessor's clock four times a step. Each group has 64 queries of its own.

- ``waiting``: scores, softmax, product with the values, one after another
- ``flying``: the values of the step before, and the scores of this one, are multiplied while exponentials are taken
- ``turns``: the same, and the groups take turns in asking for products

Both groups are on one multiprocessor, whose clock they share. Reading it, and writing it down, makes steps longer.

Shapes: 4 sequences of 16 heads of 128 columns, 8,192 queries and keys, bfloat16, not causal. Units: nanoseconds.
Sources: ``%clock64`` and ``%globaltimer`` in NVIDIA's PTX ISA.

Run it on a Hopper GPU with ``python attention_clock.py``.
"""

import functools
import math
import statistics

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma, warpgroup_mma_wait

from snippets.below.attention import (
    BLOCK,
    COUNTS,
    ROWS,
    add_values,
    as_operand,
    begin,
    describe,
    loading,
    make_mbarriers,
    make_tiles,
    place,
    rescaled,
    scores,
    softmax,
    store,
    tile_of,
    wait_for,
)
from snippets.matmul.pipeline_clock import clock, nanoseconds

BATCH, HEADS, SIDE, HEAD_DIM, KEYS, BUFFERS = 4, 16, 8192, 128, 128, 2
STEPS = SIDE // KEYS
GROUPS = gl.constexpr(2)
FIRST, SHOWN = 20, 8  # steps that are read: in the middle, for at first both groups wait for the same tiles
WAYS = {"waiting": (False, False), "flying": (True, False), "turns": (True, True)}


# --8<-- [start:group]
@gluon.jit
def attending(
    q, k, v, out, counts, room, arrived, free, turn, times_ptr,
    FACTOR: gl.constexpr, FLYING: gl.constexpr, TURNS: gl.constexpr,
    WHO: gl.constexpr,
):  # fmt: skip
    """What a group does, and writes down: when it began, had its scores, had its weights, had added its values."""
    q_tiles, k_tiles, v_tiles, o_tiles = room
    q_arrived, k_arrived, v_arrived = arrived
    _, k_free, v_free = free
    BUFFERS: gl.constexpr = k_tiles.shape[0]
    KEYS: gl.constexpr = k.block_type.shape[2]
    D: gl.constexpr = k.block_type.shape[3]
    pid = gl.program_id(0)
    batch, head, row, steps = place(pid, counts, GROUPS * ROWS, KEYS, False)
    times = times_ptr + (pid * GROUPS + WHO) * (steps + 1) * 4
    span = times + steps * 4
    q_tile = tile_of(q_tiles, WHO)
    mbarrier.wait(q_arrived.index(WHO), 0)
    gl.store(span, nanoseconds())
    gl.store(span + 1, clock())
    highest, total, acc = begin(ROWS, KEYS, D)
    if FLYING:
        s = warpgroup_mma_wait(0, deps=(scores(q_tile, 0, k_tiles, k_arrived),))
        mbarrier.arrive(k_free.index(0), count=1)
        p, highest, total, less = softmax(s, highest, total, FACTOR)
        weight = as_operand(p, v.dtype, D)
        wait_for(0, v_tiles, v_arrived)
        for i in range(1, steps):
            if TURNS:
                mbarrier.wait(turn.index(WHO), i - 1 & 1 ^ 1 - WHO)
            begins = clock()
            s = scores(q_tile, i, k_tiles, k_arrived)
            acc = add_values(weight, acc, i - 1, v_tiles)
            if TURNS:
                mbarrier.arrive(turn.index(1 - WHO), count=1)
            s = warpgroup_mma_wait(1, deps=(s,))
            scored = clock()
            mbarrier.arrive(k_free.index(i % BUFFERS), count=1)
            p, highest, total, less = softmax(s, highest, total, FACTOR)
            wait_for(i, v_tiles, v_arrived)
            weighed = clock()
            acc = warpgroup_mma_wait(0, deps=(acc,))
            gl.store(times + i * 4, begins)
            gl.store(times + i * 4 + 1, scored)
            gl.store(times + i * 4 + 2, weighed)
            gl.store(times + i * 4 + 3, clock())
            mbarrier.arrive(v_free.index((i - 1) % BUFFERS), count=1)
            acc = rescaled(acc, less)
            weight = as_operand(p, v.dtype, D)
        acc = add_values(weight, acc, steps - 1, v_tiles)
        acc = warpgroup_mma_wait(0, deps=(acc,))
    else:
        for i in range(steps):
            begins = clock()
            s = warpgroup_mma_wait(0, deps=(scores(q_tile, i, k_tiles, k_arrived),))
            scored = clock()
            mbarrier.arrive(k_free.index(i % BUFFERS), count=1)
            p, highest, total, less = softmax(s, highest, total, FACTOR)
            acc = rescaled(acc, less)
            weight = as_operand(p, v.dtype, D)
            wait_for(i, v_tiles, v_arrived)
            weighed = clock()
            acc = warpgroup_mma_wait(0, deps=(add_values(weight, acc, i, v_tiles),))
            gl.store(times + i * 4, begins)
            gl.store(times + i * 4 + 1, scored)
            gl.store(times + i * 4 + 2, weighed)
            gl.store(times + i * 4 + 3, clock())
            mbarrier.arrive(v_free.index(i % BUFFERS), count=1)
    store(out, batch, head, row + WHO * ROWS, acc, total, o_tiles.index(WHO))
    tma.store_wait(pendings=0)
    gl.store(span + 2, nanoseconds())
    gl.store(span + 3, clock())
# --8<-- [end:group]


@gluon.jit(do_not_specialize=COUNTS)
def clocked_kernel(
    q, k, v, out, times_ptr, blocks, heads, group, together, keys, tiles,
    FACTOR: gl.constexpr, BUFFERS: gl.constexpr, FLYING: gl.constexpr, TURNS: gl.constexpr,
):  # fmt: skip
    q_tiles, q_arrived = make_tiles(q, GROUPS)
    k_tiles, k_arrived = make_tiles(k, BUFFERS)
    v_tiles, v_arrived = make_tiles(v, BUFFERS)
    o_tiles, turn = make_tiles(out, GROUPS)
    counts = blocks, heads, group, together, keys, tiles
    room = q_tiles, k_tiles, v_tiles, o_tiles
    arrived = q_arrived, k_arrived, v_arrived
    free = make_mbarriers(GROUPS, 1), make_mbarriers(BUFFERS, GROUPS), make_mbarriers(BUFFERS, GROUPS)
    gl.warp_specialize(
        [
            (attending, (q, k, v, out, counts, room, arrived, free, turn, times_ptr, FACTOR, FLYING, TURNS, 0)),
            (attending, (q, k, v, out, counts, room, arrived, free, turn, times_ptr, FACTOR, FLYING, TURNS, 1)),
            (loading, (q, k, v, counts, room, arrived, free, False, GROUPS)),
        ],
        worker_num_warps=[4, 1], worker_num_regs=[240, 24],
    )  # fmt: skip


def clocked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, way: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return attention, not causal, and (programs, 2, steps + 1, 4) readings of the clock.

    All are (batch, heads, rows, 128), bfloat16, on a Hopper GPU, and rows is a multiple of 128. Of a step there are the
    cycles when a group began, had its scores, its weights, and had added its values; in the last row ns and cycles at
    the group's begin, then at its end.
    """
    batch, heads, side, D = q.shape
    out = torch.empty_like(q)
    blocks, steps = side // BLOCK, side // KEYS
    programs = batch * heads * blocks
    times = torch.zeros(programs, 2, steps + 1, 4, dtype=torch.int64, device=q.device)
    flying, turns = WAYS[way]
    clocked_kernel[(programs,)](
        *describe(q, k, v, out, rows=ROWS.value, keys=KEYS), times, blocks, heads, 1, 1, side, programs,
        FACTOR=D**-0.5 * math.log2(math.e), BUFFERS=BUFFERS, FLYING=flying, TURNS=turns, num_warps=4,
    )  # fmt: skip
    return out, times


def random_heads() -> list[torch.Tensor]:
    torch.manual_seed(0)
    shape = BATCH, HEADS, SIDE, HEAD_DIM
    return [torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3)]


@functools.cache
def seen(way: str) -> dict[tuple[int, int], list[float]]:
    """Return nanoseconds of some steps of both groups, by group and step, of the program whose time is the median."""
    operands = random_heads()
    for _ in range(3):  # the first loads the code onto the GPU
        _, times = clocked(*operands, way)
    times = times.tolist()
    lasts = [program[0][-1][2] - program[0][-1][0] for program in times]
    return in_nanoseconds(times[lasts.index(statistics.median_low(lasts))])


def in_nanoseconds(program: list) -> dict[tuple[int, int], list[float]]:
    """Turn cycles into nanoseconds since the first step that is shown began, by the clock's rate of the first group.

    >>> steps = [[100 * i, 100 * i + 40, 100 * i + 70, 100 * i + 90] for i in range(FIRST + SHOWN)]
    >>> in_nanoseconds([[*steps, [0, 0, 2000, 4000]]] * 2)[1, 1]
    [50.0, 70.0, 85.0, 95.0]
    """
    begin_ns, begin, end_ns, end = program[0][-1]
    rate = (end_ns - begin_ns) / (end - begin)
    start = min(group[FIRST][0] for group in program)
    return {
        (group, number): [round((time - start) * rate, 1) for time in program[group][FIRST + number]]
        for group in range(2)
        for number in range(SHOWN)
    }


# --8<-- [start:benchmarks]
LINES = dict(begins="asks for scores", scored="has scores", weighed="has weights", added="has added values")


@triton.testing.perf_report([
    triton.testing.Benchmark(
        plot_name=way, x_names=["group", "step"], x_vals=[(g, s) for g in range(2) for s in range(SHOWN)],
        xlabel="step", ylabel="ns", line_arg="what", line_vals=[*LINES, "asked"],
        line_names=[*LINES.values(), "asks for values"], args={"way": way},
    )
    for way in WAYS
])  # fmt: skip
def steps(group, step, what, way):
    """Nanoseconds since the first of these steps began, of the two groups of a program."""
    if what == "asked":  # together with the scores, or not before there are weights
        what = "begins" if WAYS[way][0] else "weighed"
    return seen(way)[group, step][list(LINES).index(what)]
# --8<-- [end:benchmarks]


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; this needs a Hopper GPU")
    q, k, v = (x[:1, :1, :1024].contiguous() for x in random_heads())
    expected = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double())
    for way in WAYS:
        error = (clocked(q, k, v, way)[0].double() - expected).abs().max() / expected.abs().max()
        print(f"{way}: error below 1%: {error.item() < 0.01}")


if __name__ == "__main__":
    main()
