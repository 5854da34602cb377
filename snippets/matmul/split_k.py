# SPDX-License-Identifier: Apache-2.0
"""Matrix product for small or skinny results: several programs share a tile, each a part of its way along K.

``c = a @ b``. A result of few tiles leaves most of a GPU without work, however long K is. So lay all steps of all tiles
in a row, tile after tile, and give each program an equal stretch of it. As many programs as tiles is the ordinary
product; ``s`` times as many is split-K; as many as there are multiprocessors, whatever the tiles, is stream-K. A
program that has only a piece of a tile leaves its sums in float32. Someone must add the pieces: the program that comes
last to a tile, in the same launch, or a second kernel. Both add in the order of K, so every run gives the same bits.

Shapes: ``a`` is (M, K), ``b`` is (K, N), ``c`` is (M, N). FLOPs: 2 * M * N * K.
Sources: Osama et al., *Stream-K* (2023), for the idea; the PTX ISA's memory consistency model for the counter.

Run it on a GPU with ``python split_k.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import functools
from typing import NamedTuple

import torch
import triton
import triton.language as tl

DTYPES = torch.float16, torch.bfloat16, torch.float32
PRECISIONS = "tf32", "tf32x3", "ieee"


# --8<-- [start:pieces]
@triton.jit
def sum_of_pieces(
    partial_ptr, within, tile, steps, total, programs, TILE: tl.constexpr
):  # fmt: skip
    """Add up a tile's pieces in the order of K, at offsets ``within``."""
    # The program with the tile's first step, and the one with its last:
    first = ((tile * steps + 1) * programs - 1) // total
    last = ((tile + 1) * steps * programs - 1) // total
    acc = tl.load(
        partial_ptr + (2 * first + 1) * TILE + within, cache_modifier=".cg"
    )
    for program in tl.range(first + 1, last + 1, loop_unroll_factor=4):
        acc += tl.load(
            partial_ptr + 2 * program * TILE + within, cache_modifier=".cg"
        )
    return acc
# --8<-- [end:pieces]


@triton.jit
def store_rows(c_ptr, acc, rows, columns, M, N, stride_cm, stride_cn):
    c_ptrs = c_ptr + rows.to(tl.int64)[:, None] * stride_cm + columns.to(tl.int64)[None, :] * stride_cn
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=(rows[:, None] < M) & (columns[None, :] < N))


# --8<-- [start:kernel]
@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, partial_ptr, count_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    FINISH: tl.constexpr, K_EVEN: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    TILE: tl.constexpr = BLOCK_M * BLOCK_N
    # --8<-- [start:stretch]
    pid, programs = tl.program_id(axis=0).to(tl.int64), tl.num_programs(axis=0)
    tiles_m, steps = tl.cdiv(M, BLOCK_M), tl.maximum(tl.cdiv(K, BLOCK_K), 1)
    total = steps.to(tl.int64) * tiles_m * tl.cdiv(N, BLOCK_N)
    begin, end = pid * total // programs, (pid + 1) * total // programs
    for tile in range(begin // steps, (end - 1) // steps + 1):
        # The program does this tile's steps from first up to last.
        first = tl.maximum(begin - tile * steps, 0).to(tl.int32)
        last = tl.minimum(end - tile * steps, steps).to(tl.int32)
        rows = (tile % tiles_m).to(tl.int32) * BLOCK_M + tl.arange(0, BLOCK_M)
        columns = (tile // tiles_m).to(tl.int32) * BLOCK_N + tl.arange(0, BLOCK_N)
        # --8<-- [end:stretch]
        # --8<-- [start:loop]
        # Beyond the end, rows and columns begin again at 0, and need no mask.
        m, n = (rows % M).to(tl.int64), (columns % N).to(tl.int64)
        lanes = tl.arange(0, BLOCK_K)
        k = first.to(tl.int64) * BLOCK_K + lanes
        a_ptrs = a_ptr + m[:, None] * stride_am + k[None, :] * stride_ak
        b_ptrs = b_ptr + k[:, None] * stride_bk + n[None, :] * stride_bn
        one_step = tl.full((), BLOCK_K, tl.int64)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for i in range(first, last):
            if K_EVEN:
                a, b = tl.load(a_ptrs), tl.load(b_ptrs)
            else:
                inside = lanes < K - i * BLOCK_K
                a = tl.load(a_ptrs, mask=inside[None, :], other=0.0)
                b = tl.load(b_ptrs, mask=inside[:, None], other=0.0)
            acc = tl.dot(a, b, acc, input_precision=PRECISION)
            a_ptrs += one_step * stride_ak
            b_ptrs += one_step * stride_bk
        # --8<-- [end:loop]
        # --8<-- [start:finish]
        if last - first == steps:
            store_rows(c_ptr, acc, rows, columns, M, N, stride_cm, stride_cn)
        elif FINISH != "alone":
            # A piece. A program has at most two, and one of them begins a tile.
            top, left = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
            within = top[:, None] * BLOCK_N + left[None, :]
            piece = 2 * pid + (first == 0).to(tl.int64)
            tl.store(partial_ptr + piece * TILE + within, acc)
            if FINISH == "last":
                tl.debug_barrier()  # all threads store before one of them counts
                done = tl.atomic_add(
                    count_ptr + tile, last - first, sem="acq_rel", scope="gpu"
                )
                if done + last - first == steps:  # all pieces are there
                    acc = sum_of_pieces(
                        partial_ptr, within, tile, steps, total, programs, TILE
                    )
                    store_rows(
                        c_ptr, acc, rows, columns, M, N, stride_cm, stride_cn
                    )
                    tl.store(count_ptr + tile, 0)  # for the next launch
        # --8<-- [end:finish]
# --8<-- [end:kernel]


# --8<-- [start:second]
@triton.jit
def finish_kernel(
    c_ptr, partial_ptr, M, N, K, stride_cm, stride_cn, programs,
    ROWS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Add up the pieces in a second launch: each program adds up ROWS rows of a tile."""
    PARTS: tl.constexpr = BLOCK_M // ROWS
    TILE: tl.constexpr = BLOCK_M * BLOCK_N
    pid = tl.program_id(axis=0).to(tl.int64)
    tile, top = pid // PARTS, (pid % PARTS * ROWS).to(tl.int32)
    tiles_m, steps = tl.cdiv(M, BLOCK_M), tl.cdiv(K, BLOCK_K)
    total = steps.to(tl.int64) * tiles_m * tl.cdiv(N, BLOCK_N)
    first = ((tile * steps + 1) * programs - 1) // total
    if (first + 1) * total // programs < (tile + 1) * steps:  # otherwise one program had all of it, and stored it
        rows, columns = top + tl.arange(0, ROWS), tl.arange(0, BLOCK_N)
        within = rows[:, None] * BLOCK_N + columns[None, :]
        acc = sum_of_pieces(partial_ptr, within, tile, steps, total, programs, TILE)
        rows += (tile % tiles_m).to(tl.int32) * BLOCK_M
        columns += (tile // tiles_m).to(tl.int32) * BLOCK_N
        store_rows(c_ptr, acc, rows, columns, M, N, stride_cm, stride_cn)
# --8<-- [end:second]


# --8<-- [start:plan]
class Plan(NamedTuple):
    """A way to share out a product: the tile, how many programs, who adds the pieces."""

    block_m: int
    block_n: int
    block_k: int
    num_warps: int
    num_stages: int
    programs: int
    finish: str


FINISH = "alone", "last", "second"  # nobody; the program that comes last; a second kernel
TILES = [  # block_m, block_n, block_k for elements of 2 bytes, num_warps, num_stages
    (128, 256, 64, 8, 4),
    (128, 128, 64, 4, 6),
    (64, 128, 128, 4, 4),
    (64, 64, 128, 4, 4),
    (64, 32, 128, 4, 5),
    (32, 64, 128, 4, 5),
    (16, 128, 64, 4, 5),
    (16, 64, 128, 2, 5),
]

# --8<-- [start:constants]
# Numbers for the estimate, fitted to an H200's times. What a multiprocessor
# does in a nanosecond: FLOPs (times the bytes of an element), FLOPs without
# matrix units, bytes loaded from L2, and bytes of pieces that one program
# adds up:
FLOPS, FLOPS_BY_HAND, L2_BYTES, ONE_READS = 12_000, 500, 82, 40
# What all multiprocessors do: bytes from memory, bytes of pieces.
MEMORY, ALL_READ = 4_300, 1_300
# Nanoseconds: the first launch and loads, the second launch, waiting for
# the last program, a load that nothing hides, and what a step takes
# besides.
FIRST, SECOND, LAST, LATENCY, TURN = 2_600, 1_900, 1_900, 1_200, 15
# --8<-- [end:constants]


def split(M: int, N: int, K: int, **given) -> Plan:
    """Choose the quickest :class:`Plan` by an estimate; takes what :func:`plans` takes.

    >>> split(512, 512, 16384).finish, split(8192, 8192, 8192).finish
    ('second', 'alone')
    """
    # Of equals, the one with more rows: from 64 on the matrix units work by themselves.
    return min(plans(M, N, K, **given), key=lambda found: (found[0], -found[1].block_m))[1]


def plans(M, N, K, *, size=2, by_hand=False, multiprocessors=132, shared=232_448):
    """Yield ``(nanoseconds, plan)`` for each plan that is worth a thought.

    Args:
        size: Bytes of an element of a and b.
        by_hand: Whether it is float32 in full precision, which matrix units cannot do.
        multiprocessors, shared: How many there are, and bytes of shared memory that a
            program may use; by default an H200's.
    """
    for block_m, block_n, block_k, warps, stages in TILES:
        block_k = 16 if by_hand else max(16, block_k * 2 // size)
        if block_m >= 2 * max(M, 16) or block_n >= 2 * max(N, 64):
            continue  # half of the tile would do nothing
        if by_hand and block_m * block_n > 128**2:
            continue  # too many registers
        loaded = (block_m + block_n) * block_k * size  # bytes, in a step
        stages = min(stages, shared // loaded)
        if stages < 2:
            continue
        tiles = triton.cdiv(M, block_m) * triton.cdiv(N, block_n)
        steps = max(triton.cdiv(K, block_k), 1)
        flops = FLOPS_BY_HAND if by_hand else FLOPS / size
        if block_m < 64 and not by_hand:
            flops *= 0.2  # wgmma takes 64 rows; below, an older instruction works
        # --8<-- [start:reckon]
        arithmetic = 2 * block_m * block_n * block_k / flops
        step = TURN + max(arithmetic, loaded / L2_BYTES, LATENCY / (stages - 1))
        # Split into equal parts, as many as there are multiprocessors for.
        parts = max(1, min(multiprocessors // tiles, steps))
        for programs in sorted({tiles, tiles * parts}):
            turns = triton.cdiv(programs, multiprocessors)
            each = triton.cdiv(tiles * steps, programs)  # steps of a program
            memory = size * (M * K + K * N) / MEMORY
            ns = FIRST + max(turns * each * step, memory)
            made = functools.partial(
                Plan, block_m, block_n, block_k, warps, stages, programs
            )
            tile_bytes = 4 * block_m * block_n
            if programs == tiles:
                yield ns, made("alone")
            else:
                # With a larger tile, adding would spill.
                if block_m * block_n <= 128**2:
                    yield ns + LAST + parts * tile_bytes / ONE_READS, made("last")
                yield ns + SECOND + programs * tile_bytes / ALL_READ, made("second")
        # --8<-- [end:reckon]
# --8<-- [end:plan]


# --8<-- [start:host]
def matmul(
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    plan: Plan | None = None,
    counters: torch.Tensor | None = None,
    input_precision: str = "ieee",
) -> torch.Tensor:
    """Return ``a @ b``, added up in float32, the same bits in every run.

    Args:
        a: ``(M, K)``, float16, bfloat16 or float32, any strides; on a GPU, or in the interpreter on the CPU.
        b: ``(K, N)`` of the dtype and on the device of ``a``, any strides.
        plan: How to share out the work; :func:`split` chooses if there is none.
        counters: int32 zeros, one for each tile, contiguous, which no other launch uses meanwhile; they are zeros again
            afterwards. Without them ``matmul`` keeps some for each stream. While a CUDA graph is captured it makes new
            ones for each call, and filling them is one more kernel in the graph.
        input_precision: For float32, ``"ieee"``, or the faster ``"tf32"`` or ``"tf32x3"``, as in ``tl.dot``.

    Returns:
        ``(M, N)`` of the dtype of ``a``, contiguous.

    Raises:
        ValueError: If an argument is something the kernel can't serve.

    >>> matmul(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0], [4.0]]))
    tensor([[11.]])
    """
    check_arguments(a, b, input_precision)
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty(M, N, dtype=a.dtype, device=a.device)
    if not c.numel():
        return c
    plan = plan or chosen(M, N, K, a.device, a.itemsize, a.dtype == torch.float32 and input_precision == "ieee")
    tiles = -(-M // plan.block_m) * -(-N // plan.block_n)  # rounded up; triton.cdiv takes microseconds in Triton 3.7
    check_plan(plan, tiles, tiles * max(-(-K // plan.block_k), 1))
    partial = count = c  # which nobody reads or writes
    if plan.finish != "alone":
        partial = torch.empty(2 * plan.programs * plan.block_m * plan.block_n, dtype=torch.float32, device=a.device)
    blocks = {"BLOCK_M": plan.block_m, "BLOCK_N": plan.block_n, "BLOCK_K": plan.block_k}
    with torch.cuda.device_of(a):
        if plan.finish == "last":
            count = kept_counters(a.device, tiles) if counters is None else check_counters(counters, a.device, tiles)
        matmul_kernel[(plan.programs,)](
            a, b, c, partial, count, M, N, K, *a.stride(), *b.stride(), *c.stride(),
            FINISH=plan.finish, K_EVEN=K > 0 and K % plan.block_k == 0, PRECISION=input_precision, **blocks,
            num_warps=plan.num_warps, num_stages=plan.num_stages,
        )  # fmt: skip
        if plan.finish == "second":
            rows = max(1, min(plan.block_m, 1024 // plan.block_n))
            finish_kernel[(tiles * plan.block_m // rows,)](
                c, partial, M, N, K, *c.stride(), plan.programs, ROWS=rows, **blocks, num_warps=4
            )
    return c
# --8<-- [end:host]


# --8<-- [start:counters]
KEPT = {}  # by device and stream: launches on one stream follow each other, so they can share


def kept_counters(device: torch.device, tiles: int) -> torch.Tensor:
    """Return zeros for the counters of a launch on the current stream of the current device, which leaves them zeros.
    """
    if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        return torch.zeros(tiles, dtype=torch.int32, device=device)  # a graph may run on any stream, at any time
    key = device, torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0
    if key not in KEPT or len(KEPT[key]) < tiles:
        KEPT[key] = torch.zeros(max(tiles, 4096), dtype=torch.int32, device=device)
    return KEPT[key]
# --8<-- [end:counters]


@functools.lru_cache(maxsize=1024)
def chosen(M: int, N: int, K: int, device: torch.device, size: int, by_hand: bool) -> Plan:
    """Return the plan for a product on a device; choosing it takes longer than some products."""
    return split(M, N, K, size=size, by_hand=by_hand, **limits_of(device))


def limits_of(device: torch.device) -> dict[str, int]:
    if device.type != "cuda":
        return {}
    properties = torch.cuda.get_device_properties(device)
    # A program can ask for more than the default. torch has no such limit for AMD's GPUs.
    shared = getattr(properties, "shared_memory_per_block_optin", properties.shared_memory_per_block)
    return {"multiprocessors": properties.multi_processor_count, "shared": shared}


def check_arguments(a: torch.Tensor, b: torch.Tensor, input_precision: str) -> None:
    """Raise ``ValueError`` for what the kernel would get wrong, or can't serve at all."""
    interpreted = not isinstance(matmul_kernel, triton.JITFunction)
    for name, x in (("a", a), ("b", b)):
        if x.device.type != ("cpu" if interpreted else "cuda"):
            where = "the CPU, interpreted" if interpreted else "a GPU"
            raise ValueError(f"{name} is on {x.device}; kernels run on {where}")
        if x.dtype not in DTYPES:
            raise ValueError(f"{name} is {x.dtype}; it must be one of {', '.join(map(str, DTYPES))}")
        if x.dtype == torch.bfloat16 and interpreted:
            raise ValueError("Triton's interpreter multiplies bfloat16 wrongly (seen in 3.6 to 3.9); use float32 there")
        if x.layout != torch.strided:
            raise ValueError(f"{name} is {x.layout}; pass {name}.to_dense()")
        if x.is_neg():  # its memory doesn't have the sign applied yet
            raise ValueError(f"{name} is negated lazily; pass {name}.resolve_neg()")
        if x.requires_grad and torch.is_grad_enabled():
            raise ValueError(f"{name} requires a gradient, which matmul does not compute; use torch.no_grad()")
        if x.ndim != 2 or max(x.shape) >= 2**30:
            raise ValueError(f"{name} must have 2 dimensions, each below 2**30; got shape {tuple(x.shape)}")
    if a.shape[1] != b.shape[0] or a.dtype != b.dtype or a.device != b.device:
        raise ValueError(
            f"a must be (M, K) and b (K, N), of one dtype and on one device; "
            f"got {tuple(a.shape)} of {a.dtype} on {a.device} and {tuple(b.shape)} of {b.dtype} on {b.device}"
        )
    if input_precision not in PRECISIONS:
        raise ValueError(f"input_precision must be one of {', '.join(PRECISIONS)}; got {input_precision!r}")
    if input_precision == "tf32x3" and torch.version.hip is not None:
        raise ValueError("Triton has no tf32x3 on AMD's GPUs; use ieee there")


def check_plan(plan: Plan, tiles: int, steps: int) -> None:
    blocks = plan[:3]
    if not all(isinstance(side, int) and side > 0 and side & (side - 1) == 0 for side in blocks):
        raise ValueError(f"blocks must be powers of two; got {blocks}")
    if plan.block_k < 16 or plan.num_stages < 1 or plan.num_warps not in (1, 2, 4, 8, 16, 32):
        raise ValueError(f"block_k must be from 16, num_stages from 1, num_warps a power of two to 32; got {plan}")
    if plan.finish not in FINISH:
        raise ValueError(f"finish must be one of {', '.join(FINISH)}; got {plan.finish!r}")
    if plan.finish == "alone" and plan.programs != tiles:
        raise ValueError(f"without pieces there is a program for each tile: {tiles}; got {plan.programs}")
    if plan.finish != "alone" and steps == tiles:  # and with K = 1, which is compiled in, the kernel does not compile
        raise ValueError(f"a tile of one step has no pieces, so finish must be 'alone'; got {plan.finish!r}")
    if not 1 <= plan.programs <= min(steps, 2**31 - 1):
        raise ValueError(f"there must be 1 to {min(steps, 2**31 - 1)} programs, so many steps; got {plan.programs}")


def check_counters(counters: torch.Tensor, device: torch.device, tiles: int) -> torch.Tensor:
    if counters.dtype != torch.int32 or counters.device != device or not counters.is_contiguous():
        got = f"{counters.dtype} on {counters.device}, strides {counters.stride()}"
        raise ValueError(f"counters must be contiguous int32 on {device}; got {got}")
    if counters.numel() < tiles:
        raise ValueError(f"counters must be {tiles}, one for each tile; got {counters.numel()}")
    return counters


# --8<-- [start:main]
def describe(M, N, K):
    plan = split(M, N, K)
    tiles = triton.cdiv(M, plan.block_m) * triton.cdiv(N, plan.block_n)
    return f"{tiles} tiles of {plan.block_m} x {plan.block_n}, {plan.programs} programs, {plan.finish}"


def main():
    device = "cuda" if isinstance(matmul_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    torch.manual_seed(0)
    print("## right")
    a, b = (torch.randint(-3, 4, shape).to(device, torch.float16) for shape in ((20, 300), (300, 100)))
    for name, programs, finish in (("not split", 8, "alone"), ("split-K", 24, "last"), ("stream-K", 13, "second")):
        plan = Plan(16, 32, 32, 4, 2, programs, finish)  # 2 x 4 tiles, of 10 steps each
        equal = torch.equal(matmul(a, b, plan=plan).double(), a.double() @ b.double())
        print(f"{name}:", "equal" if equal else "NOT equal")
    print("## plans")
    for shape in (
        (512, 512, 512), (512, 512, 4096), (512, 512, 16384), (1536, 1536, 1536), (4096, 4096, 4096),
        (1, 4096, 4096), (64, 4096, 4096),
    ):  # fmt: skip
        print(f"{' x '.join(map(str, shape))}: {describe(*shape)}")
# --8<-- [end:main]


if __name__ == "__main__":
    main()
