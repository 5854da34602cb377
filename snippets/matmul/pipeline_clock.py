# SPDX-License-Identifier: Apache-2.0
"""The pipeline of a matrix product by the clock: when each step's tiles were asked for, came, and were multiplied.

The steps are those of ``persistent.py`` in tiles of 128 x 256 x 64. But the kernel is written in Gluon, Triton's
language for those who place loads and waits by themselves, because it reads the multiprocessor's clock between them.
So that the clock tells when a multiplication is over, it waits for each before the next begins, and writes down four
times a step. That makes its steps longer than those of Triton's own pipeline; :func:`speed` has both.

- ``stages_1`` … ``stages_4``: the steps of one tile, by the number of buffers
- ``each_tile``, ``one_loop``: two tiles that one multiprocessor computed one after the other, by a program for each,
  and by one program that takes tile after tile. Each program's cycles become nanoseconds by its own clock rate, which
  may change by a hundredth: between the two programs of ``each_tile`` that is half a microsecond, more than the time
  from the one to the other, so compare times within a program only

Shapes: ``a`` is (M, K), ``b`` is (K, N), ``c`` is (M, N), bfloat16. Units: nanoseconds; TFLOP/s.
Sources: ``%clock64`` and ``%globaltimer`` in NVIDIA's PTX ISA; Triton's Gluon tutorials on TMA and on Hopper's wgmma.

Run it on a Hopper GPU with ``python pipeline_clock.py``.
"""

import functools
import statistics
from typing import NamedTuple

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma, warpgroup_mma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from snippets.matmul import persistent
from snippets.matmul.persistent import LARGE
from snippets.matmul.persistent_measured import random_pair
from snippets.tools.benchmarking_cold import rates

BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M = 128, 256, 64, 8
SIDE = 4096
STAGES = (1, 2, 3, 4)  # a fifth does not fit
STORE = SIDE // BLOCK_K  # the number that stands for the store, after the last step


# --8<-- [start:clock]
@gluon.jit
def clock():
    return gl.inline_asm_elementwise("mov.u64 $0, %clock64;", "=l", [], dtype=gl.int64, is_pure=False, pack=1)


@gluon.jit
def nanoseconds():
    return gl.inline_asm_elementwise("mov.u64 $0, %globaltimer;", "=l", [], dtype=gl.int64, is_pure=False, pack=1)


@gluon.jit
def multiprocessor():
    return gl.inline_asm_elementwise("mov.u32 $0, %smid;", "=r", [], dtype=gl.int32, is_pure=False, pack=1)


# --8<-- [end:clock]


@gluon.jit
def place(tile, tiles_n, GROUP: gl.constexpr):
    """Return row and column of a tile, in the grouped order."""
    group, inside = tile // (GROUP * tiles_n), tile % (GROUP * tiles_n)
    return group * GROUP + inside % GROUP, inside // GROUP


# --8<-- [start:ask]
@gluon.jit
def ask(a, b, a_tiles, b_tiles, ready, times, i, total, steps, tiles_n, GROUP: gl.constexpr, BUFFERS: gl.constexpr):
    """Begin to load the tiles of step ``i``, and write down when."""
    rows: gl.constexpr = a.block_type.shape[0]
    depth: gl.constexpr = a.block_type.shape[1]
    columns: gl.constexpr = b.block_type.shape[1]
    tile = gl.program_id(0) + i // steps * gl.num_programs(0)
    row, column = place(tile, tiles_n, GROUP)
    k = i % steps * depth
    slot, wanted = i % BUFFERS, i < total
    mbarrier.expect(ready.index(slot), a.nbytes_per_cta + b.nbytes_per_cta, pred=wanted)
    tma.async_load(a, [row * rows, k], ready.index(slot), a_tiles.index(slot), pred=wanted)
    tma.async_load(b, [k, column * columns], ready.index(slot), b_tiles.index(slot), pred=wanted)
    gl.store(times + i * 4, clock(), mask=wanted)


# --8<-- [end:ask]


# --8<-- [start:kernel]
@gluon.jit
def clocked_kernel(
    a, b, c, times_ptr, spans_ptr, tiles, tiles_n, steps, rounds,
    GROUP: gl.constexpr, BUFFERS: gl.constexpr,
):  # fmt: skip
    rows: gl.constexpr = a.block_type.shape[0]
    depth: gl.constexpr = a.block_type.shape[1]
    columns: gl.constexpr = b.block_type.shape[1]
    half: gl.constexpr = columns // 2
    pid, programs = gl.program_id(0), gl.num_programs(0)
    total = (tiles - pid + programs - 1) // programs * steps  # of all tiles of this program
    times = times_ptr + pid * rounds * steps * 4
    spans = spans_ptr + pid * (rounds + 5)
    gl.store(spans, multiprocessor().to(gl.int64))
    gl.store(spans + 1, nanoseconds())
    gl.store(spans + 2, clock())

    a_tiles = gl.allocate_shared_memory(a.dtype, [BUFFERS, rows, depth], a.layout)
    b_tiles = gl.allocate_shared_memory(b.dtype, [BUFFERS, depth, columns], b.layout)
    c_tile = gl.allocate_shared_memory(c.dtype, c.block_type.shape, c.layout)
    ready = mbarrier.allocate_mbarrier(batch=BUFFERS)
    for buffer in gl.static_range(BUFFERS):
        mbarrier.init(ready.index(buffer), count=1)
    fence_async_shared()
    gl.barrier()
    for i in range(BUFFERS):
        ask(a, b, a_tiles, b_tiles, ready, times, i, total, steps, tiles_n, GROUP, BUFFERS)

    registers: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[8, 1], instr_shape=[16, columns, 16]
    )
    sums = gl.zeros([rows, columns], gl.float32, registers)
    for i in range(total):
        slot = i % BUFFERS
        waits = clock()
        mbarrier.wait(ready.index(slot), i // BUFFERS & 1)
        begins = clock()
        sums = warpgroup_mma(a_tiles.index(slot), b_tiles.index(slot), sums, use_acc=i % steps > 0)
        ends = clock()
        gl.store(times + i * 4 + 1, waits)
        gl.store(times + i * 4 + 2, begins)
        gl.store(times + i * 4 + 3, ends)
        gl.barrier()  # both halves of the warps are done with the buffer
        ask(a, b, a_tiles, b_tiles, ready, times, i + BUFFERS, total, steps, tiles_n, GROUP, BUFFERS)
        if i % steps == steps - 1:
            row, column = place(pid + i // steps * programs, tiles_n, GROUP)
            left, right = gl.split(gl.permute(gl.reshape(sums, [rows, 2, half]), [0, 2, 1]))
            store(c, row * rows, column * columns, left, c_tile)
            store(c, row * rows, column * columns + half, right, c_tile)
            gl.store(spans + 5 + i // steps, clock())
    tma.store_wait(pendings=0)
    gl.store(spans + 3, nanoseconds())
    gl.store(spans + 4, clock())


# --8<-- [end:kernel]


@gluon.jit
def store(c, row, column, values, c_tile):
    """Begin to store half a tile, once the half before has left its buffer."""
    tma.store_wait(pendings=0)
    gl.barrier()
    c_tile.store(values.to(c.dtype))
    fence_async_shared()
    gl.barrier()
    tma.async_store(c, [row, column], c_tile)


# --8<-- [start:host]
class Clocked(NamedTuple):
    """What a launch wrote down."""

    out: torch.Tensor
    times: torch.Tensor  # (programs, rounds * steps, 4): cycles when a step's tiles were asked for, when the program
    # began to wait for them, when it began to multiply, and when it had multiplied
    spans: torch.Tensor  # (programs, 5 + rounds): multiprocessor, ns and cycles at its begin, ns and cycles at its end,
    # and cycles when each tile was handed over to be stored
    shared: int  # bytes of shared memory that a program takes


def clocked(a: torch.Tensor, b: torch.Tensor, *, stages: int = 3, per_tile: bool = True) -> Clocked:
    """Multiply by :func:`clocked_kernel`: a program for each tile, or without ``per_tile`` one for each SM at most.

    Both are contiguous bfloat16 on a Hopper GPU; M is a multiple of 1,024, N of 256, K of 64, or it raises
    ``ValueError``. Raises ``triton.OutOfResources`` if so many stages do not fit.
    """
    (M, K), N = a.shape, b.shape[1]
    if a.dtype != torch.bfloat16 or M % (GROUP_M * BLOCK_M) or N % BLOCK_N or K % BLOCK_K or b.shape[0] != K:
        raise ValueError(f"a and b must be bfloat16, in whole groups of tiles; got {(M, K)} and {tuple(b.shape)}")
    if not (a.is_contiguous() and b.is_contiguous() and a.is_cuda):
        raise ValueError("a and b must be contiguous, on a GPU")
    out = torch.empty(M, N, dtype=a.dtype, device=a.device)
    tiles, steps = M // BLOCK_M * (N // BLOCK_N), K // BLOCK_K
    rounds = 1 if per_tile else -(-tiles // persistent.multiprocessors(a.device))
    programs = -(-tiles // rounds)
    times = torch.empty(programs, rounds * steps, 4, dtype=torch.int64, device=a.device)
    spans = torch.empty(programs, 5 + rounds, dtype=torch.int64, device=a.device)
    described = [
        TensorDescriptor.from_tensor(x, block, gl.NVMMASharedLayout.get_default_for(block, gl.bfloat16))
        for x, block in ((a, [BLOCK_M, BLOCK_K]), (b, [BLOCK_K, BLOCK_N]), (out, [BLOCK_M, BLOCK_N // 2]))
    ]
    made = clocked_kernel[(programs,)](
        *described, times, spans, tiles, N // BLOCK_N, steps, rounds,
        GROUP=GROUP_M, BUFFERS=stages, num_warps=8,
    )  # fmt: skip
    return Clocked(out, times, spans, made.metadata.shared)


# --8<-- [end:host]


class Step(NamedTuple):
    """Nanoseconds since the program, or the first of two, began."""

    asked: float  # its loads were begun
    waits: float  # the program had nothing else to do than to wait for them
    begins: float  # they were there, and the multiplication began
    ends: float  # it was over


def in_nanoseconds(times: list, span: list, start: int) -> list[Step]:
    """Turn cycles into nanoseconds since ``start``, by the clock's rate between a program's begin and its end.

    >>> in_nanoseconds([[100, 110, 150, 200]], [0, 1000, 100, 1050, 200, 190], 100)
    [Step(asked=0.0, waits=5.0, begins=25.0, ends=50.0)]
    """
    _, begin_ns, begin, end_ns, end, *_ = span
    rate = (end_ns - begin_ns) / (end - begin)
    return [Step(*(round((time - start) * rate, 1) for time in step)) for step in times]


@functools.cache
def launched(stages: int, per_tile: bool) -> tuple[list, list]:
    """Return times and spans of a launch with random numbers, the second one: the first loads the code onto the GPU."""
    torch.manual_seed(0)
    a, b = random_pair(SIDE)
    for _ in range(2):
        found = clocked(a, b, stages=stages, per_tile=per_tile)
    return found.times.tolist(), found.spans.tolist()


@functools.cache
def one_tile(stages: int) -> list[Step]:
    """Return the steps of one program, and its store: the program whose time is the median of all."""
    times, spans = launched(stages, True)
    lasts = [span[3] - span[1] for span in spans]
    pid = lasts.index(statistics.median_low(lasts))
    steps = in_nanoseconds(times[pid], spans[pid], spans[pid][2])
    return [*steps, stored(spans[pid], 0, times[pid][-1][3], spans[pid][2])]


def stored(span: list, turn: int, from_: int, start: int) -> Step:
    """Return the store of a program's tile as a step: all but its end are when it began."""
    over = span[4] if len(span) == 6 else span[5 + turn]
    return in_nanoseconds([[from_, from_, from_, over]], span, start)[0]


@functools.cache
def two_tiles(per_tile: bool) -> dict[tuple[int, int], Step]:
    """Return the steps of two tiles that one multiprocessor computed in a row, each with its store, by three stages.

    The multiprocessor is the one whose time from the first step of the one to the last of the other is the median of
    all; the tiles are its second and its third.
    """
    times, spans = launched(3, per_tile)
    pairs = []
    if per_tile:
        programs = {}  # by multiprocessor, in the order in which they began
        for pid in sorted(range(len(spans)), key=lambda pid: spans[pid][2]):
            programs.setdefault(spans[pid][0], []).append(pid)
        for pids in programs.values():
            if len(pids) > 2:
                pairs.append([(times[pid], spans[pid], 0) for pid in pids[1:3]])
    else:
        for pid, span in enumerate(spans):
            if pid + 2 * len(spans) < (SIDE // BLOCK_M) * (SIDE // BLOCK_N):  # it took three tiles, or more
                pairs.append([(times[pid][turn * STORE : (turn + 1) * STORE], span, turn) for turn in (1, 2)])
    lasts = [second[0][-1][3] - first[0][0][2] for first, second in pairs]
    pair = pairs[lasts.index(statistics.median_low(lasts))]
    start = pair[0][0][0][2]  # the first step of the first tile is multiplied
    found = {}
    for tile, (steps, span, turn) in enumerate(pair):
        for number, step in enumerate(in_nanoseconds(steps, span, start)):
            found[tile, number] = step
        found[tile, STORE] = stored(span, turn, steps[-1][3], start)
    return found


# --8<-- [start:benchmarks]
LINES = dict(asked="loads begun", waits="waits for them", begins="multiplies", ends="is done")
COMMON = dict(
    ylabel="ns", line_arg="what", line_vals=list(LINES), line_names=list(LINES.values()), x_names=["step"],
    x_vals=list(range(STORE + 1)), xlabel=f"step ({STORE}: the store)",
)  # fmt: skip


@triton.testing.perf_report(
    [triton.testing.Benchmark(plot_name=f"stages_{stages}", **COMMON, args={"stages": stages}) for stages in STAGES]
)
def steps(step, what, stages):
    """Nanoseconds since a program began: its steps along K, 4096 x 4096 x 4096, bfloat16; then the store of a tile."""
    return getattr(one_tile(stages)[step], what)


@triton.testing.perf_report([
    triton.testing.Benchmark(
        plot_name=name,
        **COMMON | {
            "x_names": ["tile", "step"], "x_vals": [(t, s) for t in (0, 1) for s in range(STORE + 1)],
        },
        args={"per_tile": per_tile},
    )
    for name, per_tile in (("each_tile", True), ("one_loop", False))
])  # fmt: skip
def tiles(tile, step, what, per_tile):
    """Nanoseconds since the first step of two tiles that one multiprocessor computed in a row, by three stages."""
    return getattr(two_tiles(per_tile)[tile, step], what)


@functools.cache
def measured() -> dict:
    sides = {}
    for stages in STAGES:
        config = LARGE._replace(per_sm=0, flatten=False, num_stages=stages)
        sides["clocked", stages] = lambda a, b, stages=stages: clocked(a, b, stages=stages).out
        sides["triton", stages] = functools.partial(persistent.matmul, config=config)
    return rates(sides, lambda: random_pair(SIDE), 2 * SIDE**3)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="speed", x_names=["stages"], x_vals=list(STAGES), xlabel="num_stages", ylabel="TFLOP/s",
        line_arg="how", line_vals=["clocked", "triton"], line_names=["with the clock", "persistent.py"], args={},
    )
)  # fmt: skip
def speed(stages, how):
    """Rate of the kernel with the clock, and of Triton's pipeline, 4096 x 4096 x 4096, a program for each tile."""
    return measured()[how, stages]


# --8<-- [end:benchmarks]


# --8<-- [start:fits]
def fits(stages: int) -> str:
    """Launch one program of ``persistent.py`` with so many stages; return what it takes, or how it is refused."""
    a, b = random_pair(256)
    out = torch.empty_like(a)
    blocks = [(a, [BLOCK_M, BLOCK_K]), (b, [BLOCK_K, BLOCK_N]), (out, [BLOCK_M, BLOCK_N // LARGE.subtiles])]
    try:
        made = persistent.matmul_kernel[(2,)](
            *(persistent.TensorDescriptor.from_tensor(x, block) for x, block in blocks), 256, 256, 256,
            BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, GROUP_M=GROUP_M, SUBTILES=LARGE.subtiles,
            FLATTEN=False, A_TRANSPOSED=False, B_TRANSPOSED=False, PRECISION="ieee", EARLY=False,
            num_warps=LARGE.num_warps, num_stages=stages,
        )  # fmt: skip
    except triton.OutOfResources as error:
        return str(error)
    return f"{made.metadata.shared} bytes of shared memory"


# --8<-- [end:fits]


def main():
    if not isinstance(persistent.matmul_kernel, triton.JITFunction) or not torch.cuda.is_available():
        raise SystemExit("no GPU found, or TRITON_INTERPRET is set; this needs a Hopper GPU")
    print("## room")
    for stages in range(1, 7):
        print(f"num_stages={stages}: {fits(stages)}")
    print("## exact")
    random = torch.Generator().manual_seed(0)
    a, b = (torch.randint(-2, 3, (2048, 2048), generator=random).to("cuda", torch.bfloat16) for _ in range(2))
    expected = (a.float() @ b.float()).bfloat16()
    for stages in STAGES:
        exact = [torch.equal(clocked(a, b, stages=stages, per_tile=each).out, expected) for each in (True, False)]
        print(f"{stages} stages, a program for each tile and one loop: {exact}")


if __name__ == "__main__":
    main()
