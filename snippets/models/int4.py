# SPDX-License-Identifier: Apache-2.0
"""Multiply by a weight of 4 bits a number, or 8, as a quantized language model does when it writes.

``y = x @ W.T``, where ``W[n, k] = scale * (q - zero)`` and ``q`` is a whole number from 0 to 15. A ``scale`` and a
``zero`` serve a group of numbers, often 128, that are neighbors along K. With few rows in ``x`` the time is the time
it takes to read ``W``, so a quarter of the bytes may take a quarter of the time, if unpacking doesn't take longer.
Therefore:

- A 16-bit word holds 4 numbers, not neighbors, but those 32 apart. So what one mask takes out of 32 words are 32
  neighbors, and the four parts of the words one after the other are 128 numbers in their order.
- A 32-bit register holds two words. A mask takes a number out of both, and needs no conversion: as the last bits of a
  bfloat16, q is a number already, q * 2**-133. One multiplication and addition makes (q - zero) / 64 of it.
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
LARGEST = 2**28  # N and K are smaller


# --8<-- [start:pack]
class Packed(NamedTuple):
    """A weight of ``n`` × ``k`` numbers, packed.

    Attributes:
        words: ``(blocks, n, words)``, int16. With 4 bits, a block of 128
            along K has 32 words, and part p of word j is number 32 * p + j.
        scales: ``(groups, n)``, int32. The bits of a float32, but the last 8
            are the zero.
        n, k, bits, group: Its rows, columns, bits a number, and numbers that
            share a scale.
    """

    words: torch.Tensor
    scales: torch.Tensor
    n: int
    k: int
    bits: int
    group: int


def block_of(group: int) -> int:
    """Return how many numbers along K are packed together."""
    return min(group, 128)


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
            128, or 64 or 32, which are slower.

    Raises:
        ValueError: If these don't fit together.
    """
    check_packable(q, scale, zero, bits, group)
    # --8<-- [start:words]
    (n, k), parts, block = q.shape, 16 // bits, block_of(group)
    blocks = -(-k // block)
    q = torch.nn.functional.pad(q.int(), (0, blocks * block - k))
    q = q.view(n, blocks, parts, block // parts)
    place = torch.arange(0, 16, bits, dtype=torch.int32, device=q.device)
    words = (q << place[:, None]).sum(2, dtype=torch.int32).short()
    scales = scale.float().contiguous().view(torch.int32) & ~0xFF
    scales = scales | zero.int()
    words, scales = (x.transpose(0, 1).contiguous() for x in (words, scales))
    # --8<-- [end:words]
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
    q = q.flatten(1)[:, : weight.k]
    scale, zero = ((weight.scales & ~0xFF).view(torch.float32), weight.scales & 0xFF)
    scale, zero = (x.t().repeat_interleave(weight.group, 1)[:, : weight.k] for x in (scale, zero))
    return scale * (q - zero)


# --8<-- [start:order]
@triton.jit
def in_order(parts, BLOCK_N: tl.constexpr, BLOCK: tl.constexpr):
    # Parts of words, (n, words) each, side by side: (n, block).
    if len(parts) == 2:
        w = tl.permute(tl.join(parts[0], parts[1]), (0, 2, 1))
    else:
        even = tl.join(parts[0], parts[2])
        odd = tl.join(parts[1], parts[3])
        w = tl.permute(tl.join(even, odd), (0, 2, 3, 1))
    return tl.reshape(w, (BLOCK_N, BLOCK))
# --8<-- [end:order]


# --8<-- [start:plain]
@triton.jit
def number(words, zero, PART: tl.constexpr, BITS: tl.constexpr):
    return ((words >> (PART * BITS)) & (2**BITS - 1)) - zero


@triton.jit
def unpack(words, zero, BITS: tl.constexpr):
    if BITS == 8:
        return number(words, zero, 0, 8), number(words, zero, 1, 8)
    return (
        number(words, zero, 0, 4), number(words, zero, 1, 4),
        number(words, zero, 2, 4), number(words, zero, 3, 4),
    )  # fmt: skip
# --8<-- [end:plain]


# --8<-- [start:fast]
@triton.jit
def unpack_pairs(words, less, BITS: tl.constexpr, HALF: tl.constexpr):
    # --8<-- [start:powers]
    # For two numbers: 2**127, or 2**15 in float16; and a 16th of it.
    UP: tl.constexpr = "0x78007800" if HALF else "0x7f007f00"
    UP_16: tl.constexpr = "0x68006800" if HALF else "0x7d007d00"
    FMA: tl.constexpr = "fma.rn.f16x2" if HALF else "fma.rn.bf16x2"
    # --8<-- [end:powers]
    if BITS == 8:
        return tl.inline_asm_elementwise(
            f"""{{
            .reg .b32 q, r, up;
            mov.b32 up, {UP};
            and.b32 q, $2, 0x00ff00ff;
            {FMA} $0, q, up, $3;
            shr.u32 r, $2, 8;
            and.b32 r, r, 0x00ff00ff;
            {FMA} $1, r, up, $3;
            }}""",
            constraints="=&r,=&r,r,r", args=[words, less],
            dtype=(tl.int16, tl.int16), is_pure=True, pack=2,
        )  # fmt: skip
    # --8<-- [start:four]
    return tl.inline_asm_elementwise(
        f"""{{
        .reg .b32 q, r, up, up_16;
        mov.b32 up, {UP};
        mov.b32 up_16, {UP_16};
        and.b32 q, $4, 0x000f000f;
        {FMA} $0, q, up, $5;
        and.b32 q, $4, 0x00f000f0;
        {FMA} $1, q, up_16, $5;
        shr.u32 r, $4, 8;
        and.b32 q, r, 0x000f000f;
        {FMA} $2, q, up, $5;
        and.b32 q, r, 0x00f000f0;
        {FMA} $3, q, up_16, $5;
        }}""",
        constraints="=&r,=&r,=&r,=&r,r,r", args=[words, less],
        dtype=(tl.int16, tl.int16, tl.int16, tl.int16), is_pure=True, pack=2,
    )  # fmt: skip
    # --8<-- [end:four]
# --8<-- [end:fast]


# --8<-- [start:kernel]
@triton.jit(do_not_specialize=["M", "each", "more", "parts"])
def int4_kernel(
    x_ptr, words_ptr, scales_ptr, y_ptr, partial_ptr, count_ptr, M, N, stride_x, row_tiles, parts, each, more,
    BITS: tl.constexpr, GROUP: tl.constexpr, PAIRS: tl.constexpr, SPLIT: tl.constexpr,
    ROWS: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    # --8<-- [start:pointers]
    WORDS: tl.constexpr = BLOCK * BITS // 16  # of a row, in a block
    DTYPE: tl.constexpr = x_ptr.dtype.element_ty
    HALF: tl.constexpr = x_ptr.dtype.element_ty == tl.float16
    UNIT: tl.constexpr = 512.0 if HALF else 64.0  # of what pairs become
    tile, part = tl.program_id(axis=0), tl.program_id(axis=1)
    # Each part has so many blocks, and the first ones have one more.
    begin = part * each + tl.minimum(part, more)
    end = begin + each + (part < more).to(tl.int32)
    row = (tile % row_tiles).to(tl.int64) * ROWS
    n = tile // row_tiles * BLOCK_N
    rows, columns = tl.arange(0, ROWS), tl.arange(0, BLOCK_N)
    is_row, is_column = rows < M - row, columns < N - n
    x_ptrs = (
        x_ptr
        + begin * BLOCK
        + tl.multiple_of((row + rows) * stride_x, 8)[:, None]
        + tl.arange(0, BLOCK)[None, :]
    )
    # A tile of words is one piece of memory: one row after the other.
    words_ptrs = (
        words_ptr
        + (begin.to(tl.int64) * N + n) * WORDS
        + columns[:, None] * WORDS
        + tl.arange(0, WORDS)[None, :]
    )
    scales_ptrs = scales_ptr + n + columns
    wide_n = tl.cast(N, tl.int64)
    # --8<-- [end:pointers]
    # --8<-- [start:loop]
    acc = tl.zeros((BLOCK_N, ROWS), dtype=tl.float32)
    for block in range(begin, end):
        words = tl.load(words_ptrs, mask=is_column[:, None])
        group = block * BLOCK // GROUP
        both = tl.load(scales_ptrs + group * wide_n, mask=is_column)
        scale = (both & -256).to(tl.float32, bitcast=True)
        zero = both & 255
        if PAIRS:
            less = (zero.to(tl.float32) * (-1 / UNIT)).to(DTYPE)
            less = less.to(tl.int16, bitcast=True)[:, None]
            pairs = unpack_pairs(words, less, BITS, HALF)
            w = in_order(pairs, BLOCK_N, BLOCK).to(DTYPE, bitcast=True)
            scale *= UNIT
        else:
            parts_of = unpack(words, zero[:, None], BITS)
            w = in_order(parts_of, BLOCK_N, BLOCK).to(DTYPE)
        x = tl.load(x_ptrs, mask=is_row[:, None])
        acc += scale[:, None] * tl.dot(w, x.T)
        words_ptrs += wide_n * WORDS
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
            total = tl.zeros((BLOCK_N, ROWS), dtype=tl.float32)
            for piece in tl.range(0, parts, loop_unroll_factor=4):
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


# By the rows of x, up to so many: rows, columns, warps and stages of a
# tile, and programs per multiprocessor. The fastest of about ten each on an
# H200, for 4096 x 14336 and 14336 x 4096.
TILES = {
    8: (8, 64, 2, 3, 8),
    16: (16, 64, 2, 3, 4),
    32: (32, 128, 4, 3, 2),
    64: (64, 64, 4, 3, 3),
}
MANY = (64, 128, 4, 3, 2)  # for more rows than those


def plan(M: int, N: int, blocks: int, *, multiprocessors: int = 132) -> Plan:
    """Choose the tile, and as many parts as give each multiprocessor its
    programs, and none a turn more.

    Args:
        M, N, blocks: At least 1. Blocks are those along K.
        multiprocessors: The GPU's number of them.
    """
    tile = next((TILES[most] for most in TILES if most >= M), MANY)
    rows, block_n, warps, stages, each = tile
    tiles, row_tiles = -(-N // block_n), -(-M // rows)
    parts = each * multiprocessors // (tiles * row_tiles)
    parts = max(1, min(blocks, parts))
    return Plan(rows, block_n, warps, stages, tiles, row_tiles, parts)
# --8<-- [end:plan]


# --8<-- [start:host]
@torch.compiler.disable  # torch.compile calls it as it is
def int4_matmul(x: torch.Tensor, weight: Packed) -> torch.Tensor:
    """Return ``x @ W.T``, with sums in float32 and the same bits in every run.

    Args:
        x: ``(M, K)``, float16 or bfloat16, with any strides; on a GPU, or in the interpreter on the CPU. If its rows
            don't begin at multiples of 16 bytes, or the last block isn't whole, it is copied first.
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
    M, (blocks, N), block = len(x), weight.words.shape[:2], block_of(weight.group)
    y = torch.empty(M, N, dtype=x.dtype, device=x.device)
    if M * N * blocks == 0:
        return y.zero_()
    wide = x.stride(1) == 1 and (M == 1 or x.stride(0) % 8 == 0) and x.data_ptr() % 16 == 0
    if weight.k % block or not wide:
        x = padded(x, blocks * block)
    stride_x = 0 if M == 1 else x.stride(0)  # a single row's stride means nothing
    found = found or planned(M, N, blocks, x.device)
    pairs = has_pairs(x.device) if pairs is None else pairs
    partial = count = y  # placeholders that nobody reads or writes
    with torch.cuda.device_of(x):
        if found.parts > 1:
            tiles = found.tiles * found.row_tiles
            partial = torch.empty(
                tiles * found.parts * found.block_n * found.rows, dtype=torch.float32, device=x.device
            )
            count = counters(x.device, tiles)
        int4_kernel[(found.tiles * found.row_tiles, found.parts)](
            x, weight.words, weight.scales, y, partial, count, M, N, stride_x, found.row_tiles, found.parts,
            *divmod(blocks, found.parts),
            BITS=weight.bits, GROUP=weight.group, PAIRS=pairs, SPLIT=found.parts > 1,
            ROWS=found.rows, BLOCK_N=found.block_n, BLOCK=block,
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
def planned(M: int, N: int, blocks: int, device: torch.device) -> Plan:
    """Return the plan for a product, cached because choosing one takes longer than some products."""
    return plan(M, N, blocks, multiprocessors=limits_of(device)["multiprocessors"])


@functools.cache
def has_pairs(device: torch.device) -> bool:
    """Tell whether one instruction multiplies two bfloat16, as on NVIDIA's GPUs from compute capability 8.0 on."""
    return device.type == "cuda" and torch.version.hip is None and torch.cuda.get_device_capability(device) >= (8, 0)


def check_packable(q: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor, bits: int, group: int) -> None:
    """Raise ``ValueError`` for what :func:`pack` can't pack."""
    if bits not in (4, 8):
        raise ValueError(f"bits is {bits!r}; use 4 or 8")
    if not (type(group) is int and group > 0 and (group % 128 == 0 or group in (32, 64))):
        raise ValueError(f"group is {group!r}; use 32, 64 or a multiple of 128")
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
    block = block_of(group)
    for name, part, shape, dtype in (
        ("words", words, (-(-k // block), n, block * bits // 16), torch.int16),
        ("scales", scales, (-(-k // group), n), torch.int32),
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
    """Take two words apart as :func:`unpack_pairs` does, on the CPU, in bfloat16.

    Returns:
        For each part, the register of 32 bits after the shift and after the mask, and the two numbers in it after
        multiplication and subtraction, 64 times as large.
    """
    found = []
    for part in range(4):
        shifted = (high << 16 | low) >> 8 * (part // 2)
        masked = shifted & (0x000F000F << 4 * (part % 2))
        pair = torch.tensor([masked], dtype=torch.int64).view(torch.bfloat16)[:2].float()
        pair = pair * 2.0 ** (127 - 4 * (part % 2)) - zero / 64
        found.append((f"{shifted:08x}", f"{masked:08x}", " ".join(f"{64 * x:g}" for x in pair.tolist())))
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
