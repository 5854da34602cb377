# SPDX-License-Identifier: Apache-2.0
"""Multiply a few rows by a large matrix, as a language model does when it writes one word at a time.

``c = a @ b``, where ``a`` has 1 to 64 rows. Each element of ``b`` is used only once per row, so the time is the time it
takes to read ``b``. Three things keep the memory busy:

- Many loads are under way. A program computes a tile of columns over a stretch of K, and there are one or two programs
  per multiprocessor. The last program of a tile adds everyone's sums in the order of K, so all runs give the same bits.
- Loads are wide, 16 bytes per thread, along the dimension in which ``b`` is contiguous. That is N, or else K, as in the
  weight of ``torch.nn.Linear``, which you pass as ``weight.t()``.
- There is little else to do. The product is computed transposed, ``cᵀ = bᵀ aᵀ``, because matrix units multiply 64 or 16
  rows at once, but can do with as few as 8 columns. So the many columns of ``b`` become the rows.

Shapes: ``a`` is (M, K), ``b`` is (K, N), ``c`` is (M, N). Bytes: roughly those of ``b``. FLOPs: 2 * M * N * K.

Run it on a GPU with ``python few_rows.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import functools
from typing import NamedTuple

import torch
import triton
import triton.language as tl

DTYPES = torch.float16, torch.bfloat16, torch.float32
MOST_ROWS = 64


# --8<-- [start:kernel]
@triton.jit
def few_rows_kernel(
    a_ptr, b_ptr, c_ptr, partial_ptr, count_ptr, M, N, K, stride_a, stride_b, parts,
    B_ALONG_K: tl.constexpr, SPLIT: tl.constexpr, K_EVEN: tl.constexpr, UNIT: tl.constexpr, N_UNIT: tl.constexpr,
    INDEX: tl.constexpr, PRECISION: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    # --8<-- [start:stretch]
    tile, part = tl.program_id(axis=0), tl.program_id(axis=1)
    steps = tl.cdiv(K, BLOCK_K)
    begin, end = part * steps // parts, (part + 1) * steps // parts
    n, k = tile * BLOCK_N, begin * BLOCK_K
    # --8<-- [end:stretch]
    # --8<-- [start:pointers]
    # The offset to the tile, one for the whole program, has 64 bits. Offsets
    # within the tile have 32, unless that's too few.
    far_n, far_k = n.to(tl.int64), k.to(tl.int64)
    rows, columns, lanes = (
        tl.arange(0, ROWS), tl.arange(0, BLOCK_N),
        tl.arange(0, BLOCK_K).to(INDEX),
    )
    # These promise the compiler that runs of memory begin and end at
    # multiples of 16 bytes, so it can load 16 bytes at a time.
    left = tl.multiple_of(N - n, N_UNIT)
    is_row, is_column = rows < M, columns < left
    a_ptrs = (
        a_ptr
        + far_k
        + tl.multiple_of(rows.to(INDEX) * stride_a, UNIT)[:, None]
        + lanes[None, :]
    )
    # Columns past the last wrap around to n, so they need no mask.
    there = (columns % left).to(INDEX)
    if B_ALONG_K:
        b_ptrs = (
            b_ptr
            + (far_n * stride_b + far_k)
            + tl.multiple_of(there * stride_b, UNIT)[:, None]
            + lanes[None, :]
        )
        b_step = BLOCK_K
    else:
        b_ptrs = (
            b_ptr
            + (far_n + far_k * stride_b)
            + there[:, None]
            + tl.multiple_of(lanes * stride_b, UNIT)[None, :]
        )
        b_step = BLOCK_K * tl.cast(stride_b, tl.int64)
    # --8<-- [end:pointers]
    # --8<-- [start:loop]
    acc = tl.zeros((BLOCK_N, ROWS), dtype=tl.float32)
    for step in range(begin, end):
        if K_EVEN:
            # Sums of the other rows aren't stored.
            a = tl.load(a_ptrs, mask=is_row[:, None])
            b = tl.load(b_ptrs)
        else:
            inside = tl.arange(0, BLOCK_K) < tl.multiple_of(
                K - step * BLOCK_K, UNIT
            )
            a = tl.load(
                a_ptrs, mask=is_row[:, None] & inside[None, :], other=0.0
            )
            b = tl.load(b_ptrs, mask=inside[None, :], other=0.0)
        acc = tl.dot(b, a.T, acc, input_precision=PRECISION)
        a_ptrs += BLOCK_K
        b_ptrs += b_step
    # --8<-- [end:loop]
    # --8<-- [start:finish]
    c_ptrs = c_ptr + n + columns[:, None] + tl.multiple_of(rows.to(INDEX) * N, N_UNIT)[None, :]
    mask = is_column[:, None] & is_row[None, :]
    if not SPLIT:
        tl.store(c_ptrs, acc, mask=mask)  # rounded to c's dtype
    else:
        TILE: tl.constexpr = BLOCK_N * ROWS
        pieces = partial_ptr + tile.to(tl.int64) * parts * TILE + (rows[None, :] * BLOCK_N + columns[:, None])
        tl.store(pieces + part * TILE, acc, mask=is_row[None, :])
        tl.debug_barrier()  # all threads store before one of them counts
        before = tl.atomic_add(count_ptr + tile, 1, sem="acq_rel", scope="gpu")
        if before == parts - 1:  # the others have stored theirs
            total = tl.load(pieces, mask=is_row[None, :], cache_modifier=".cg")
            for piece in tl.range(1, parts, loop_unroll_factor=4):
                total += tl.load(pieces + piece * TILE, mask=is_row[None, :], cache_modifier=".cg")
            tl.store(c_ptrs, total, mask=mask)
            tl.store(count_ptr + tile, 0)  # for the next launch
    # --8<-- [end:finish]
# --8<-- [end:kernel]


# --8<-- [start:plan]
class Plan(NamedTuple):
    """How to divide a product among programs."""

    # The rows of a, rounded up to a power of two, at least 8.
    rows: int
    block_n: int
    block_k: int
    num_warps: int
    num_stages: int
    tiles: int
    parts: int  # stretches of K, one per program


# An H200's multiprocessors, and the bytes of shared memory per program.
LIMITS = {"multiprocessors": 132, "shared": 232_448}
# Programs per multiprocessor, and stages per program: one tile of b is
# being multiplied while the others are under way. One program is best, if
# it leaves few multiprocessors without work.
ONE, TWO = (1, 6), (2, 4)
FILLED = 0.9


def plan(
    M: int,
    N: int,
    K: int,
    *,
    size: int = 2,
    by_hand: bool = False,
    wide: bool = True,
    multiprocessors: int = LIMITS["multiprocessors"],
    shared: int = LIMITS["shared"],
) -> Plan:
    """Choose the tile and the parts so that all multiprocessors begin and
    end together.

    There is one program per multiprocessor, with six stages, if at least
    nine tenths of the multiprocessors get one. Otherwise there are two,
    with four stages each. We found this rule by timing a few hundred plans
    on an H200, for 15 sizes from real models.

    Args:
        M, N, K: At least 1. M is at most 64.
        size: Bytes per element of a and b.
        by_hand: Whether to multiply float32 in full precision, which the
            matrix units can't do.
        wide: Whether loads are 16 bytes wide. Loads of single elements go
            through registers, so the tile has to be small.
        multiprocessors, shared: The GPU's number of multiprocessors, and
            the bytes of shared memory that a program may use.

    >>> plan(1, 4096, 4096).tiles, plan(1, 4096, 4096).parts
    (64, 2)
    """
    rows = max(8, triton.next_power_of_2(M))
    block_n, block_k = (
        (32, 32) if by_hand else (64, (256 if wide else 64) // size)
    )
    if wide and -(-N // block_n) > 2 * multiprocessors:
        block_n *= 2
    # wgmma, which needs 4 warps, reads float32 only along K. With 2 warps,
    # another instruction is used, which reads it along N as well.
    warps = 2 if size == 4 and not by_hand else 4
    tiles, steps = -(-N // block_n), -(-K // block_k)
    for each, stages in (ONE, TWO):
        # Keep parts * steps below 2**31.
        most = max(1, min(steps // 2, 2**30 // steps))
        parts = min(most, max(1, each * multiprocessors // tiles))
        stages = max(
            1, min(stages, shared // ((rows + block_n) * block_k * size))
        )
        if FILLED * multiprocessors <= tiles * parts <= multiprocessors:
            break
    return Plan(rows, block_n, block_k, warps, stages, tiles, parts)
# --8<-- [end:plan]


# --8<-- [start:host]
@torch.compiler.disable  # torch.compile calls it as it is
def few_rows(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return ``a @ b``, with sums in float32 and the same bits in every run.

    Args:
        a: ``(M, K)`` with at most 64 rows, float16, bfloat16 or float32, with any strides; on a GPU, or in the
            interpreter on the CPU. If its rows aren't contiguous, it is copied first. float32 is multiplied as TF32
            if ``torch.set_float32_matmul_precision`` allows that.
        b: ``(K, N)`` with the dtype and the device of ``a``, contiguous along N or along K.

    Returns:
        ``(M, N)`` of the dtype of ``a``, contiguous. The kernel may still be running.

    Raises:
        ValueError: If an argument is something the kernel can't serve.

    >>> few_rows(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0], [4.0]]))
    tensor([[11.]])
    """
    return product(a, b)


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    check_arguments(a, b)
    (M, K), N, size = a.shape, b.shape[1], a.itemsize
    c = torch.empty(M, N, dtype=a.dtype, device=a.device)
    if M * N * K == 0:
        return c.zero_()
    if a.stride(1) != 1 and K > 1:
        a = a.contiguous()
    along_k = b.stride(0) == 1 or K == 1
    stride_a = 0 if M == 1 else a.stride(0)  # a single row's stride means nothing
    stride_b = 0 if along_k and N == 1 else b.stride(1 if along_k else 0)
    precision = "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"
    # Are all runs of memory multiples of 16 bytes long? (Triton itself checks where they begin.)
    unit, n_unit = 16 // size, 1 if N * size % 16 else 16 // size
    if (K | stride_a | stride_b | (0 if along_k else N)) % unit:
        unit = 1
    wide = unit > 1 and (a.data_ptr() | b.data_ptr()) % 16 == 0
    found = planned(M, N, K, size, size == 4 and precision == "ieee", wide, a.device)
    # An offset within a tile may pass 2**31.
    far = max(found.rows * max(stride_a, N), (found.block_n if along_k else found.block_k) * stride_b) >= 2**31 - 2**10
    partial = count = c  # placeholders that nobody reads or writes
    with torch.cuda.device_of(a):
        if found.parts > 1:
            elements = found.tiles * found.parts * found.block_n * found.rows
            partial = torch.empty(elements, dtype=torch.float32, device=a.device)
            count = counters(a.device, found.tiles)
        few_rows_kernel[(found.tiles, found.parts)](
            a, b, c, partial, count, M, N, K, stride_a, stride_b, found.parts,
            B_ALONG_K=along_k, SPLIT=found.parts > 1, K_EVEN=K % found.block_k == 0, UNIT=unit,
            N_UNIT=n_unit, INDEX=tl.int64 if far else tl.int32, PRECISION=precision,
            ROWS=found.rows, BLOCK_N=found.block_n, BLOCK_K=found.block_k,
            num_warps=found.num_warps, num_stages=found.num_stages,
        )  # fmt: skip
    return c
# --8<-- [end:host]


@functools.lru_cache(maxsize=4096)
def planned(M: int, N: int, K: int, size: int, by_hand: bool, wide: bool, device: torch.device) -> Plan:
    """Return the plan for a product, cached because choosing one takes longer than some products."""
    return plan(M, N, K, size=size, by_hand=by_hand, wide=wide, **limits_of(device))


def limits_of(device: torch.device) -> dict[str, int]:
    """Return the limits that :func:`plan` needs to know of a GPU; in the interpreter, an H200's."""
    if device.type != "cuda":
        return LIMITS
    properties = torch.cuda.get_device_properties(device)
    # A program can ask for more than the default. torch has no such limit for AMD's GPUs.
    shared = getattr(properties, "shared_memory_per_block_optin", properties.shared_memory_per_block)
    return {"multiprocessors": properties.multi_processor_count, "shared": shared}


# --8<-- [start:counters]
KEPT = {}  # by device and stream; launches on one stream run one after another, so they can share
FOR_GRAPHS = {}  # by device; not given to a graph yet. A graph may run on any stream at any time, so it never shares
ROOM = 2**20


def counters(device: torch.device, tiles: int) -> torch.Tensor:
    """Return zeros for a launch on the current stream. The launch leaves them as zeros."""
    on_gpu = device.type == "cuda"
    if on_gpu and torch.cuda.is_current_stream_capturing():
        tiles = -(-tiles // 4) * 4  # so that the next ones begin at a multiple of 16 bytes
        left = FOR_GRAPHS.get(device, ())
        if len(left) < tiles:  # no product came before the graph, or there are too many graphs
            return torch.zeros(tiles, dtype=torch.int32, device=device)  # one more kernel in the graph
        FOR_GRAPHS[device] = left[tiles:]
        return left[:tiles]
    key = device, torch.cuda.current_stream(device).cuda_stream if on_gpu else 0
    if key not in KEPT or len(KEPT[key]) < tiles:
        KEPT[key] = torch.zeros(max(tiles, 4096), dtype=torch.int32, device=device)
        if on_gpu and device not in FOR_GRAPHS:
            FOR_GRAPHS[device] = torch.zeros(ROOM, dtype=torch.int32, device=device)
            torch.cuda.current_stream(device).synchronize()  # once: other streams will read these zeros
    return KEPT[key]
# --8<-- [end:counters]


def check_arguments(a: torch.Tensor, b: torch.Tensor) -> None:
    """Raise ``ValueError`` for arguments that the kernel would get wrong, or can't serve at all."""
    for name, x in (("a", a), ("b", b)):
        if x.layout != torch.strided:
            raise ValueError(f"{name} is {x.layout}; pass {name}.to_dense()")
        if x.is_neg():  # its memory doesn't have the sign applied yet
            raise ValueError(f"{name} is negated lazily; pass {name}.resolve_neg()")
        if x.requires_grad and torch.is_grad_enabled():
            raise ValueError(f"{name} requires a gradient, which few_rows does not compute; use torch.no_grad()")
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or a.dtype != b.dtype or a.device != b.device:
        raise ValueError(
            "a must be (M, K) and b (K, N), of one dtype and on one device; "
            f"got {tuple(a.shape)} of {a.dtype} on {a.device} and {tuple(b.shape)} of {b.dtype} on {b.device}"
        )
    if len(a) > MOST_ROWS or max(b.shape) >= 2**30:
        raise ValueError(
            f"a must have at most {MOST_ROWS} rows, and K and N be below 2**30; "
            f"got {tuple(a.shape)} and {tuple(b.shape)}"
        )
    if 1 not in b.stride() and min(b.shape) > 1:
        raise ValueError(f"b must be contiguous along N or along K; got strides {b.stride()}; pass b.contiguous()")
    if a.dtype not in DTYPES:
        raise ValueError(f"dtype {a.dtype} is not supported; use one of {', '.join(map(str, DTYPES))}")
    interpreted = not isinstance(few_rows_kernel, triton.JITFunction)
    if a.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"a is on {a.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}")
    if interpreted and a.dtype == torch.bfloat16:
        raise ValueError("Triton's interpreter multiplies bfloat16 wrongly (seen in 3.6 to 3.9); use float32 there")


# --8<-- [start:main]
def main():
    device = "cuda" if isinstance(few_rows_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    torch.manual_seed(0)
    print("## right")
    for M, N, K in ((1, 200, 2000), (5, 100, 1001)):
        a, b = (torch.randint(-3, 4, shape).to(device, torch.float16) for shape in ((M, K), (K, N)))
        for layout, x in (("N", b), ("K", b.t().contiguous().t())):
            equal = torch.equal(few_rows(a, x).double(), a.double() @ b.double())
            print(f"{M} x {N} x {K}, b contiguous along {layout}:", "equal" if equal else "NOT equal")
    print("## plans")
    for M, N, K in ((1, 4096, 4096), (1, 28672, 8192), (16, 4096, 14336), (64, 1024, 8192), (1, 128256, 4096)):
        found = plan(M, N, K)
        print(f"{M} x {N} x {K}: {found.tiles} tiles, {found.parts} parts, {found.tiles * found.parts} programs")
# --8<-- [end:main]


if __name__ == "__main__":
    main()
