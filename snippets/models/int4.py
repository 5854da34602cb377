# SPDX-License-Identifier: Apache-2.0
"""Multiply by a weight of 4 bits a number, or 8, as a quantized language model does when it writes.

``y = x @ W.T``, where ``W[n, k] = scale * (q - zero)`` and ``q`` is a whole number from 0 to 15. A ``scale`` and a
``zero`` serve a group of numbers, often 128, that are neighbors along K. With few rows in ``x`` the time is the time
it takes to read ``W``, so a quarter of the bytes may take a quarter of the time, if unpacking doesn't take longer.
Therefore:

- A 16-bit word holds 4 numbers, not neighbors, but those 32 apart. So what one shift takes out of 32 words are 32
  neighbors, which meet 32 neighbors of ``x`` in ``tl.dot``.
- A 32-bit register holds two words, and three instructions take a number out of both: shift; mask, and set the bits
  that make 128 + q of it; subtract 128 + zero.
- The scale is multiplied by the sum of a group, not by each number.
- ``W`` is the left side of ``tl.dot``, so the numbers go from registers to the matrix units.

Shapes: ``x`` is (M, K), ``W`` (N, K), ``y`` (M, N). Bytes: N * K / 2 and 4 a group. FLOPs: 2 * M * N * K.

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
LARGEST = 2**28  # N and K are smaller


# --8<-- [start:pack]
class Packed(NamedTuple):
    """A weight of ``n`` × ``k`` numbers, packed.

    Attributes:
        words: ``(blocks, n, words)``, int16. A block is 128 along K. With 4
            bits it has 32 words, and part p of word j is number 32 * p + j.
        scales: ``(groups, n)``, int32. The bits of a float32, but the last 8
            are the zero. There are groups for whole blocks.
        n, k, bits, group: Its rows, columns, bits a number, and numbers that
            share a scale.
    """

    words: torch.Tensor
    scales: torch.Tensor
    n: int
    k: int
    bits: int
    group: int


def pack(
    q: torch.Tensor,
    scale: torch.Tensor,
    zero: torch.Tensor,
    *,
    bits: int = 4,
    group: int = 128,
) -> Packed:
    """Pack a quantized weight: ``scale * (q - zero)``.

    Args:
        q: ``(n, k)``, whole numbers from 0 to 15, or to 255 with 8 bits.
        scale: ``(n, groups)``. Of a float32, 16 bits of the fraction are
            kept, which is more than float16 and bfloat16 have.
        zero: ``(n, groups)``, whole numbers as ``q``.
        bits: 4 or 8.
        group: Numbers along K that share a scale and a zero: a multiple of
            128, or 64, or, with 4 bits, 32.

    Raises:
        ValueError: If these don't fit together.
    """
    check_packable(q, scale, zero, bits, group)
    (n, k), parts = q.shape, 16 // bits
    blocks = -(-k // BLOCK)
    q = torch.nn.functional.pad(q.int(), (0, blocks * BLOCK - k))
    q = q.view(n, blocks, parts, BLOCK // parts)
    place = torch.arange(0, 16, bits, dtype=torch.int32, device=q.device)
    words = (q << place[:, None]).sum(2, dtype=torch.int32).short()
    scales = scale.float().contiguous().view(torch.int32) & ~0xFF
    # Groups of a block's last numbers, if K has none there, are zeros.
    more = -(-blocks * BLOCK // group) - scale.shape[1]
    scales = torch.nn.functional.pad(scales | zero.int(), (0, more))
    words, scales = (x.transpose(0, 1).contiguous() for x in (words, scales))
    return Packed(words, scales, n, k, bits, group)
# --8<-- [end:pack]


# --8<-- [start:quantize]
def quantize(
    weight: torch.Tensor, *, bits: int = 4, group: int = 128
) -> Packed:
    """Round each number to the nearest of 16 (or 256) that its group has.

    The least and the largest number of a group, and 0, decide its scale.

    Args:
        weight: ``(n, k)``, floating point.
        bits, group: As in :func:`pack`.
    """
    n, k = weight.shape
    groups, top = -(-k // group), 2**bits - 1
    x = torch.nn.functional.pad(weight.float(), (0, groups * group - k))
    x = x.view(n, groups, group)
    low, high = x.amin(2).clamp(max=0), x.amax(2).clamp(min=0)
    scale = ((high - low) / top).bfloat16().float().clamp(min=1e-30)
    zero = (-low / scale).round().clamp(0, top)
    q = ((x / scale[:, :, None]).round() + zero[:, :, None]).clamp(0, top)
    q = q.view(n, groups * group)[:, :k]
    return pack(q.int(), scale, zero.int(), bits=bits, group=group)
# --8<-- [end:quantize]


def unpacked(weight: Packed) -> torch.Tensor:
    """Return the weight's numbers: ``(n, k)``, float32, exact."""
    place = torch.arange(0, 16, weight.bits, dtype=torch.int32, device=weight.words.device)
    q = weight.words.transpose(0, 1).int()[:, :, None] >> place[:, None] & (2**weight.bits - 1)
    q = q.reshape(weight.n, BLOCK * len(weight.words))[:, : weight.k]
    scale, zero = ((weight.scales & ~0xFF).view(torch.float32), weight.scales & 0xFF)
    scale, zero = (x.t().repeat_interleave(weight.group, 1)[:, : weight.k] for x in (scale, zero))
    return scale * (q - zero)


# --8<-- [start:plain]
@triton.jit
def unpack(
    words, zero, PART: tl.constexpr, BITS: tl.constexpr, dtype: tl.constexpr
):
    q = (words >> (PART * BITS)) & (2**BITS - 1)
    return (q - zero).to(dtype)
# --8<-- [end:plain]


# --8<-- [start:fast]
@triton.jit
def unpack_pairs(
    words, zero, PART: tl.constexpr, BITS: tl.constexpr, dtype: tl.constexpr
):
    HALF: tl.constexpr = dtype == tl.float16
    KIND: tl.constexpr = "f16x2" if HALF else "bf16x2"
    # Twice 1024 or 128, and twice 1.
    MAGIC: tl.constexpr = "0x64006400" if HALF else "0x43004300"
    ONE: tl.constexpr = "0x3c003c00" if HALF else "0x3f803f80"
    MASK: tl.constexpr = (2**BITS - 1) * 0x10001
    less = zero | (0xE400 if HALF else 0xC300)  # -(1024 or 128 + zero)
    # 0xea is the table of (q & MASK) | MAGIC; fma is q * 1 + less.
    pairs = tl.inline_asm_elementwise(
        f"""{{
        .reg .b32 q, one;
        mov.b32 one, {ONE};
        shr.u32 q, $1, {PART * BITS};
        lop3.b32 q, q, {MASK}, {MAGIC}, 0xea;
        fma.rn.{KIND} $0, q, one, $2;
        }}""",
        constraints="=r,r,r",
        args=[words, less.to(tl.int16)],
        dtype=tl.int16,
        is_pure=True,
        pack=2,
    )
    return pairs.to(dtype, bitcast=True)
# --8<-- [end:fast]


# --8<-- [start:kernel]
@triton.jit(do_not_specialize=["M", "blocks", "row_tiles", "parts"])
def int4_kernel(
    x_ptr, words_ptr, scales_ptr, y_ptr, partial_ptr, count_ptr, M, N, blocks, stride_x, row_tiles, parts,
    BITS: tl.constexpr, GROUP: tl.constexpr, PAIRS: tl.constexpr, SPLIT: tl.constexpr,
    ROWS: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    # --8<-- [start:pointers]
    PARTS: tl.constexpr = 16 // BITS  # of a word
    WORDS: tl.constexpr = BLOCK // PARTS  # of a row of the weight, in a block
    DTYPE: tl.constexpr = x_ptr.dtype.element_ty
    tile, part = tl.program_id(axis=0), tl.program_id(axis=1)
    begin, end = part * blocks // parts, (part + 1) * blocks // parts
    row = (tile % row_tiles).to(tl.int64) * ROWS
    n = tile // row_tiles * BLOCK_N
    rows, columns = tl.arange(0, ROWS), tl.arange(0, BLOCK_N)
    lanes = tl.arange(0, WORDS)
    is_row, is_column = rows < M - row, columns < N - n
    x_ptrs = (
        x_ptr
        + begin * BLOCK
        + tl.multiple_of((row + rows) * stride_x, 8)[:, None]
        + lanes[None, :]
    )
    # A tile of words is one piece of memory: row after row, 64 bytes each.
    words_ptrs = (
        words_ptr
        + (begin.to(tl.int64) * N + n) * WORDS
        + columns[:, None] * WORDS
        + lanes[None, :]
    )
    # --8<-- [end:pointers]
    # --8<-- [start:loop]
    acc = tl.zeros((BLOCK_N, ROWS), dtype=tl.float32)
    for block in range(begin, end):
        words = tl.load(words_ptrs, mask=is_column[:, None])
        for p in tl.static_range(PARTS):
            if p * WORDS % GROUP == 0:  # a block, or a group, begins
                group = (block * BLOCK + p * WORDS) // GROUP
                both = tl.load(
                    scales_ptr + group.to(tl.int64) * N + n + columns,
                    mask=is_column,
                )
                scale = (both & -256).to(tl.float32, bitcast=True)
                zero = (both & 255)[:, None]
                sums = tl.zeros((BLOCK_N, ROWS), dtype=tl.float32)
            if PAIRS:  # noqa: SIM108, for a reader sees two ways
                w = unpack_pairs(words, zero, p, BITS, DTYPE)
            else:
                w = unpack(words, zero, p, BITS, DTYPE)
            x = tl.load(x_ptrs + p * WORDS, mask=is_row[:, None])
            sums = tl.dot(w, x.T, sums)
            if (p + 1) * WORDS % GROUP == 0 or p + 1 == PARTS:
                acc += scale[:, None] * sums
        words_ptrs += tl.cast(N, tl.int64) * WORDS
        x_ptrs += BLOCK
    # --8<-- [end:loop]
    # --8<-- [start:finish]
    y_ptrs = y_ptr + n + columns[:, None] + (row + rows)[None, :] * N
    mask = is_column[:, None] & is_row[None, :]
    if not SPLIT:
        tl.store(y_ptrs, acc, mask=mask)  # rounded to y's dtype
    else:  # as in few_rows.py: whoever comes last adds, in the order of K
        TILE: tl.constexpr = BLOCK_N * ROWS
        pieces = partial_ptr + tile.to(tl.int64) * parts * TILE + (rows[None, :] * BLOCK_N + columns[:, None])
        tl.store(pieces + part * TILE, acc, mask=is_row[None, :])
        tl.debug_barrier()  # all threads store before one of them counts
        before = tl.atomic_add(count_ptr + tile, 1, sem="acq_rel", scope="gpu")
        if before == parts - 1:  # the others have stored theirs
            total = tl.load(pieces, mask=is_row[None, :], cache_modifier=".cg")
            for piece in tl.range(1, parts, loop_unroll_factor=4):
                total += tl.load(pieces + piece * TILE, mask=is_row[None, :], cache_modifier=".cg")
            tl.store(y_ptrs, total, mask=mask)
            tl.store(count_ptr + tile, 0)  # for the next launch
    # --8<-- [end:finish]
# --8<-- [end:kernel]


# --8<-- [start:plan]
class Plan(NamedTuple):
    """How to divide a product among programs."""

    rows: int  # of x, in a tile
    block_n: int
    num_warps: int
    num_stages: int
    tiles: int  # along N
    row_tiles: int
    parts: int  # stretches of K, one per program


def plan(M: int, N: int, K: int, *, multiprocessors: int = 132) -> Plan:
    """Choose the tile and the parts; we timed some hundred on an H200.

    Args:
        M, N, K: At least 1.
        multiprocessors: The GPU's number of them.

    >>> plan(1, 4096, 14336).tiles, plan(1, 4096, 14336).parts
    (64, 16)
    """
    rows = min(64, max(8, triton.next_power_of_2(M)))
    block_n, warps, stages, each = (64, 2, 5, 8) if rows <= 32 else (128, 4, 4, 2)
    tiles, row_tiles = -(-N // block_n), -(-M // rows)
    blocks = -(-K // BLOCK)
    most = min(blocks, 2**30 // blocks)  # parts * blocks stays below 2**31
    parts = max(1, min(most, each * multiprocessors // (tiles * row_tiles)))
    return Plan(rows, block_n, warps, stages, tiles, row_tiles, parts)
# --8<-- [end:plan]


# --8<-- [start:host]
@torch.compiler.disable  # torch.compile calls it as it is
def int4_matmul(x: torch.Tensor, weight: Packed) -> torch.Tensor:
    """Return ``x @ W.T``, with sums in float32 and the same bits in every run.

    Args:
        x: ``(M, K)``, float16 or bfloat16, with any strides; on a GPU, or in the interpreter on the CPU. If its rows
            don't begin at multiples of 16 bytes, or K is no multiple of 128, it is copied first.
        weight: ``W``, packed: ``(N, K)``, on the device of ``x``.

    Returns:
        ``(M, N)`` of the dtype of ``x``, contiguous. The kernel may still be running.

    Raises:
        ValueError: If an argument is something the kernel can't serve.

    >>> weight = pack(torch.tensor([[3, 15]]), torch.tensor([[0.5]]), torch.tensor([[7]]))  # -2 and 4
    >>> int4_matmul(torch.tensor([[1.0, 10.0]]).half(), weight)
    tensor([[38.]], dtype=torch.float16)
    """
    check_arguments(x, weight)
    return product(x, weight)


def product(x: torch.Tensor, weight: Packed, *, pairs: bool | None = None, found: Plan | None = None) -> torch.Tensor:
    """Do as :func:`int4_matmul`; ``pairs`` and ``found`` choose how."""
    M, (blocks, N) = len(x), weight.words.shape[:2]
    y = torch.empty(M, N, dtype=x.dtype, device=x.device)
    if M * N * blocks == 0:
        return y.zero_()
    wide = x.stride(1) == 1 and (M == 1 or x.stride(0) % 8 == 0) and x.data_ptr() % 16 == 0
    if weight.k % BLOCK or not wide:
        x = padded(x, blocks * BLOCK)
    stride_x = 0 if M == 1 else x.stride(0)  # a single row's stride means nothing
    found = found or planned(M, N, weight.k, x.device)
    if pairs is None:
        pairs = has_pairs(x.device) and (weight.bits == 4 or x.dtype == torch.float16)
    partial = count = y  # placeholders that nobody reads or writes
    with torch.cuda.device_of(x):
        if found.parts > 1:
            tiles = found.tiles * found.row_tiles
            partial = torch.empty(
                tiles * found.parts * found.block_n * found.rows, dtype=torch.float32, device=x.device
            )
            count = counters(x.device, tiles)
        int4_kernel[(found.tiles * found.row_tiles, found.parts)](
            x, weight.words, weight.scales, y, partial, count, M, N, blocks, stride_x, found.row_tiles, found.parts,
            BITS=weight.bits, GROUP=weight.group, PAIRS=pairs, SPLIT=found.parts > 1,
            ROWS=found.rows, BLOCK_N=found.block_n, BLOCK=BLOCK,
            num_warps=found.num_warps, num_stages=found.num_stages,
        )  # fmt: skip
    return y
# --8<-- [end:host]


def padded(x: torch.Tensor, columns: int) -> torch.Tensor:
    """Return a copy with zeros on the right, whose rows begin at multiples of 16 bytes."""
    wider = x.new_zeros(len(x), columns)
    wider[:, : x.shape[1]] = x
    return wider


@functools.lru_cache(maxsize=4096)
def planned(M: int, N: int, K: int, device: torch.device) -> Plan:
    """Return the plan for a product, cached because choosing one takes longer than some products."""
    return plan(M, N, K, multiprocessors=limits_of(device)["multiprocessors"])


@functools.cache
def has_pairs(device: torch.device) -> bool:
    """Tell whether one instruction multiplies two bfloat16, as on NVIDIA's GPUs from compute capability 8.0 on."""
    return device.type == "cuda" and torch.version.hip is None and torch.cuda.get_device_capability(device) >= (8, 0)


def check_packable(q: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor, bits: int, group: int) -> None:
    """Raise ``ValueError`` for what :func:`pack` can't pack."""
    if bits not in (4, 8):
        raise ValueError(f"bits is {bits!r}; use 4 or 8")
    part = BLOCK * bits // 16
    if not (type(group) is int and group > 0 and (group % BLOCK == 0 or group in (part, BLOCK // 2))):
        raise ValueError(f"group is {group!r}; with {bits} bits, use {sorted({part, 64})} or a multiple of {BLOCK}")
    if q.ndim != 2 or max(q.shape) >= LARGEST:
        raise ValueError(f"q must be (n, k), both below 2**28; got {tuple(q.shape)}")
    groups = len(q), -(-q.shape[1] // group)
    if tuple(scale.shape) != groups or tuple(zero.shape) != groups or not q.device == scale.device == zero.device:
        raise ValueError(
            f"scale and zero must be {groups}, and on {q.device}; got {tuple(scale.shape)} on {scale.device} "
            f"and {tuple(zero.shape)} on {zero.device}"
        )
    for name, x in (("q", q), ("zero", zero)):
        if x.is_floating_point() or x.is_complex() or x.dtype == torch.bool:
            raise ValueError(f"{name} has dtype {x.dtype}; use whole numbers, such as torch.int32")
        if x.numel() and not (x.amin() >= 0 and x.amax() < 2**bits):
            raise ValueError(f"{name} must be from 0 to {2**bits - 1}; got {int(x.amin())} to {int(x.amax())}")


def check_arguments(x: torch.Tensor, weight: Packed) -> None:
    """Raise ``ValueError`` for arguments that the kernel would get wrong, or can't serve at all."""
    if x.layout != torch.strided:
        raise ValueError(f"x is {x.layout}; pass x.to_dense()")
    if x.is_neg():  # its memory doesn't have the sign applied yet
        raise ValueError("x is negated lazily; pass x.resolve_neg()")
    if x.requires_grad and torch.is_grad_enabled():
        raise ValueError("x requires a gradient, which int4_matmul does not compute; use torch.no_grad()")
    interpreted = not isinstance(int4_kernel, triton.JITFunction)
    if x.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"x is on {x.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}")
    if not isinstance(weight, Packed):
        raise ValueError(f"weight must be what pack or quantize returns; got {type(weight).__name__}")
    words, scales, n, k, bits, group = weight
    blocks = -(-k // BLOCK)
    for name, part, shape, dtype in (
        ("words", words, (blocks, n, 8 * bits), torch.int16),
        ("scales", scales, (-(-blocks * BLOCK // group), n), torch.int32),
    ):
        if part.shape != shape or part.dtype != dtype or part.device != x.device or not part.is_contiguous():
            raise ValueError(
                f"weight.{name} must be contiguous, {shape} of {dtype}, on {x.device}, as pack returns it; "
                f"got {tuple(part.shape)} of {part.dtype} on {part.device}"
            )
    if x.ndim != 2 or x.shape[1] != k or len(x) >= 2**31:
        raise ValueError(f"x must be (M, {k}) for this weight; got {tuple(x.shape)}")
    if x.dtype not in DTYPES:
        raise ValueError(f"dtype {x.dtype} is not supported; use one of {', '.join(map(str, DTYPES))}")
    if interpreted and x.dtype == torch.bfloat16:
        raise ValueError("Triton's interpreter multiplies bfloat16 wrongly (seen in 3.6 to 3.9); use float16 there")


# --8<-- [start:steps]
def steps(low: int, high: int, zero: int) -> list[tuple[str, str, str]]:
    """Take two words apart as :func:`unpack_pairs` does, on the CPU.

    Returns:
        For each part, the register of 32 bits after the shift and after the mask and the magic number, and the two
        numbers in it.
    """
    found = []
    for part in range(4):
        shifted = (high << 16 | low) >> 4 * part
        magic = shifted & 0x000F000F | 0x43004300
        pair = torch.tensor([magic], dtype=torch.int64).view(torch.bfloat16)[:2]
        less = torch.tensor([0xC300 | zero], dtype=torch.int64).view(torch.bfloat16)[0]
        found.append((f"{shifted:08x}", f"{magic:08x}", " ".join(f"{x:g}" for x in (pair + less).tolist())))
    return found
# --8<-- [end:steps]


def main():
    device = "cuda" if isinstance(int4_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    torch.manual_seed(0)
    print("## Four numbers")
    numbers = torch.tensor([[-4.0, 0.6, 2.0, 3.5]], device=device)
    small = quantize(numbers)
    print("weight:", *(f"{x:g}" for x in numbers[0].tolist()))
    scale, zero = (small.scales & ~0xFF).view(torch.float32).item(), small.scales.item() & 0xFF
    print(f"scale {scale:g}, zero {zero}")
    print("q:", *(word & 0xF for word in small.words[0, 0, :4].tolist()))
    print("scale * (q - zero):", *(f"{x:g}" for x in unpacked(small)[0].tolist()))
    print("## Two words")
    low, high = ((9, 3, 12, 7), (5, 8, 1, 14))
    q = torch.zeros(1, 128, dtype=torch.int32)
    q[0, 0::32], q[0, 1::32] = torch.tensor(low), torch.tensor(high)
    words = pack(q, torch.ones(1, 1), torch.tensor([[8]])).words[0, 0, :2].int() & 0xFFFF
    for j, (numbers, word) in enumerate(zip((low, high), words.tolist(), strict=True)):
        print(f"word {j}: {word:04x}, numbers", ", ".join(f"{32 * p + j}: {x}" for p, x in enumerate(numbers)))
    print("zero 8")
    for part, (shifted, magic, pair) in enumerate(steps(*words.tolist(), zero=8)):
        print(f"part {part}: {shifted}, {magic}, {pair}")
    print("## Right")
    for M, N, K, bits, group in ((1, 200, 2048, 4, 128), (5, 100, 1001, 4, 32), (16, 64, 640, 8, 128)):
        weight = pack(
            torch.randint(2**bits, (N, K), device=device), torch.randint(1, 4, (N, -(-K // group)), device=device) / 8,
            torch.randint(2**bits, (N, -(-K // group)), device=device), bits=bits, group=group,
        )  # fmt: skip
        x = torch.randint(-1, 2, (M, K), device=device).half()
        exact = x.double() @ unpacked(weight).double().t()
        equal = torch.equal(int4_matmul(x, weight), exact.half())
        print(f"{M} x {N} x {K}, {bits} bits, groups of {group}:", "equal" if equal else "NOT equal")


if __name__ == "__main__":
    main()
