# SPDX-License-Identifier: Apache-2.0
"""Matrix product of 8-bit floats with scales: ``c = (a @ b) * scale_a * scale_b``, as ``torch._scaled_mm`` computes it.

Eight bits hold few numbers: ``float8_e4m3fn`` has 3 bits of fraction and ends at 448, ``float8_e5m2`` has 2 and ends at
57344. So a tensor is divided by a scale before it is cast, and the result is multiplied by it again. One scale serves
a whole tensor, or each row of ``a`` and each column of ``b`` has its own.

- :func:`quantize`: a tensor as 8-bit numbers and their scale
- :func:`scaled_matmul`: the product

Shapes: ``a`` is (M, K), ``b`` is (K, N), ``c`` is (M, N). A scale is one number, or (M, 1) for ``a``, (1, N) for ``b``.
FLOPs: 2 * M * N * K. Bytes: M * K + K * N read, M * N of the result's dtype written.

A tile is fetched by a tensor descriptor; a program takes tile after tile, in the grouped order; the loops over tiles
and along K are one. That is the kernel of the lesson *Pipelines, tensor descriptors and persistent programs*.
Hopper's matrix units add 8-bit products in fewer bits than float32 has. Unless ``use_fast_accum`` is set, sums of
at most 128 products are therefore added up in float32, outside of the matrix units. That takes registers for the
result and for what is being added to it; so a tile is computed in two halves, one after the other.

Source: PyTorch's ``torch._scaled_mm`` defines the result; the formats are those of the OCP's specification OFP8.

Run it on a GPU with ``python fp8.py``, or without one in Triton's interpreter with ``TRITON_INTERPRET=1``.
"""

import functools
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

DTYPES = (torch.float8_e4m3fn, torch.float8_e5m2)
OUT_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
LONGEST = 2**31 - 2**9  # of a dimension: a tile that begins inside must end below 2**31


# --8<-- [start:quantize]
def quantize(
    x: torch.Tensor,
    *,
    dtype: torch.dtype = torch.float8_e4m3fn,
    dim: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ``x`` as 8-bit numbers, and the float32 scale to multiply them
    by: ``q.float() * scale`` is about ``x``.

    The scale puts the largest magnitude at the end of the range of
    ``dtype``; where all is zero, so is ``q``.

    Args:
        x: A tensor of floats that are finite in float32.
        dtype: One of ``DTYPES``.
        dim: The dimension to find the largest magnitude along: 1 gives each
            row of a matrix a scale, shape ``(M, 1)``, and 0 each column,
            ``(1, N)``. ``None``: one scale for all, of shape ``()``.

    Raises:
        ValueError: ``x`` is not of floats, or ``dtype`` not one of
            ``DTYPES``.

    >>> q, scale = quantize(torch.tensor([[1.0, -448.0], [2.0, 4.0]]), dim=1)
    >>> q.float().tolist(), scale.tolist()
    ([[1.0, -448.0], [224.0, 448.0]], [[1.0], [0.008928571827709675]])
    """
    if not x.is_floating_point():
        raise ValueError(f"x must be of floats; got {x.dtype}")
    if dtype not in DTYPES:
        raise ValueError(
            f"dtype must be one of {', '.join(map(str, DTYPES))}; got {dtype}"
        )
    x = x.float()
    if x.numel() == 0:  # an empty tensor has no largest element
        largest = x.new_zeros(
            ()
            if dim is None
            else [
                1 if i == dim % x.ndim else n for i, n in enumerate(x.shape)
            ]
        )
    else:
        largest = (
            x.abs().amax()
            if dim is None
            else x.abs().amax(dim, keepdim=True)
        )
    end = torch.finfo(dtype).max
    # Never 0: x is divided by it.
    scale = (largest / end).clamp(min=torch.finfo(torch.float32).tiny)
    # A guard: a rounded quotient may lie a hair beyond the end.
    return (x / scale).clamp(-end, end).to(dtype), scale
# --8<-- [end:quantize]


# --8<-- [start:position]
@triton.jit
def position(tile, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    """Return row and column of a tile, by the grouped order: GROUP_M tiles down, then the next column."""
    per_group = GROUP_M * tiles_n
    first_m = tile // per_group * GROUP_M
    height = min(tiles_m - first_m, GROUP_M)  # the last group may be lower
    within = tile % per_group
    return first_m + within % height, within // height
# --8<-- [end:position]


# --8<-- [start:store]
@triton.jit
def store_tile(c_desc, m, n, tile, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, PARTS: tl.constexpr):
    """Store a tile as PARTS tiles side by side: it passes through shared memory, which must have room for one."""
    if PARTS == 1:
        c_desc.store([m, n], tile)  # which rounds it to the dtype of c
    else:
        HALF: tl.constexpr = BLOCK_N // 2
        left, right = tl.split(tl.permute(tl.reshape(tile, (BLOCK_M, 2, HALF)), (0, 2, 1)))
        store_tile(c_desc, m, n, left, BLOCK_M, HALF, PARTS // 2)
        store_tile(c_desc, m, n + HALF, right, BLOCK_M, HALF, PARTS // 2)
# --8<-- [end:store]


# --8<-- [start:epilogue]
@triton.jit
def scale_and_store(
    acc,
    first_m,
    first_n,
    c_desc,
    scale_a_ptr,
    scale_b_ptr,
    M,
    N,
    stride_scale_a,
    stride_scale_b,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    PARTS: tl.constexpr,
):
    """Multiply each row and column of sums by its scale, and store."""
    m, n = first_m + tl.arange(0, ROWS), first_n + tl.arange(0, COLUMNS)
    # Lanes beyond the result get some scale or other. The descriptor stores
    # none of them, but up to 16 bytes of a row.
    scale_a = tl.load(scale_a_ptr + m * stride_scale_a, mask=m < M)
    scale_b = tl.load(scale_b_ptr + n * stride_scale_b, mask=n < N)
    store_tile(
        c_desc, first_m, first_n, acc * scale_a[:, None] * scale_b[None, :],
        ROWS, COLUMNS, PARTS,
    )
# --8<-- [end:epilogue]


# --8<-- [start:kernel]
@triton.jit
def scaled_matmul_kernel(
    a_desc, b_desc, c_desc, scale_a_ptr, scale_b_ptr, M, N, K, stride_scale_a, stride_scale_b,
    FAST: tl.constexpr, FLATTEN: tl.constexpr, PARTS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    HALF: tl.constexpr = BLOCK_M // 2
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    pid, programs = tl.program_id(axis=0), tl.num_programs(axis=0)
    stored = pid - programs
    for tile in tl.range(pid, tiles_m * tiles_n, programs, flatten=FLATTEN):
        pid_m, pid_n = position(tile, tiles_m, tiles_n, GROUP_M)
        if FAST:
            # --8<-- [start:fast]
            acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
            for k in range(0, K, BLOCK_K):
                a = a_desc.load([pid_m * BLOCK_M, k])
                # Of b transposed: both have K along their rows.
                b = b_desc.load([pid_n * BLOCK_N, k])
                acc = tl.dot(a, b.T, acc)
            # --8<-- [end:fast]
        else:
            # --8<-- [start:exact]
            upper = tl.zeros((HALF, BLOCK_N), tl.float32)
            lower = tl.zeros((HALF, BLOCK_N), tl.float32)
            for k in range(0, K, BLOCK_K):
                b = b_desc.load([pid_n * BLOCK_N, k])
                a_upper = a_desc.load([pid_m * BLOCK_M, k])
                a_lower = a_desc.load([pid_m * BLOCK_M + HALF, k])
                upper += tl.dot(a_upper, b.T)
                lower += tl.dot(a_lower, b.T)
            # --8<-- [end:exact]
        # The position again: kept from above, it would have to live through the loop along K.
        stored += programs
        pid_m, pid_n = position(stored, tiles_m, tiles_n, GROUP_M)
        m, n = pid_m * BLOCK_M, pid_n * BLOCK_N
        if FAST:
            scale_and_store(
                acc, m, n, c_desc, scale_a_ptr, scale_b_ptr, M, N, stride_scale_a, stride_scale_b,
                BLOCK_M, BLOCK_N, PARTS,
            )  # fmt: skip
        else:
            scale_and_store(
                upper, m, n, c_desc, scale_a_ptr, scale_b_ptr, M, N, stride_scale_a, stride_scale_b,
                HALF, BLOCK_N, PARTS,
            )  # fmt: skip
            scale_and_store(
                lower, m + HALF, n, c_desc, scale_a_ptr, scale_b_ptr, M, N, stride_scale_a, stride_scale_b,
                HALF, BLOCK_N, PARTS,
            )  # fmt: skip
# --8<-- [end:kernel]


# --8<-- [start:config]
class Config(NamedTuple):
    """A tile, and how it is computed."""

    block: tuple[int, int, int]  # BLOCK_M, BLOCK_N, BLOCK_K
    parts: int  # in which it is stored, or each half of it
    num_warps: int
    num_stages: int
    group: int = 8
    flatten: bool = True  # one loop over tiles and steps: loads of the next tile begin before this one is stored
    per_sm: int = 1  # programs for each multiprocessor


def choose_config(M: int, N: int, out_dtype: torch.dtype, use_fast_accum: bool, multiprocessors: int) -> Config:
    """Return how to compute a product, as searched for on an H200 with square matrices."""
    parts = out_dtype.itemsize
    if not use_fast_accum:  # two programs share a multiprocessor: one multiplies while the other adds
        return Config((128, 128, 128), parts, num_warps=4, num_stages=3, flatten=False, per_sm=2)
    tiles = triton.cdiv(M, 128) * triton.cdiv(N, 256)
    if tiles > 4096:
        return Config((128, 256, 128), parts, num_warps=8, num_stages=3, group=16)
    if tiles > multiprocessors // 2:
        return Config((128, 256, 128), parts, num_warps=8, num_stages=4)
    return Config((128, 128, 128), 1, num_warps=8, num_stages=5 if parts == 2 else 4)  # twice as many tiles
# --8<-- [end:config]


# --8<-- [start:host]
def scaled_matmul(
    a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor,
    out_dtype: torch.dtype = torch.bfloat16, *, use_fast_accum: bool = False, config: Config | None = None,
) -> torch.Tensor:  # fmt: skip
    """Return ``(a @ b) * scale_a * scale_b``, scaled in float32 and rounded once.

    Args:
        a, b: ``(M, K)`` and ``(K, N)``, each of one of ``DTYPES``, on a GPU with matrix units for 8 bits (in the
            interpreter: on the CPU). Any strides; copied first, unless rows of ``a`` and columns of ``b`` are without
            gaps and begin at multiples of 16 bytes, as ``torch._scaled_mm`` demands of them.
        scale_a, scale_b: float32, on the device of ``a``: one number each, or ``(M, 1)`` and ``(1, N)``, as
            :func:`quantize` returns them.
        out_dtype: bfloat16 (not in the interpreter), float16 or float32.
        use_fast_accum: Leave all sums to the matrix units, which on Hopper round them to fewer bits than float32 has.
        config: Tile and options; the default depends on the shape, and on how much shared memory the GPU has.

    Returns:
        A new tensor ``(M, N)``. Its rows begin at multiples of 16 bytes, so it is contiguous only where that is no
        gap. What lies in the gap belongs to nobody: on a GPU it may be written. K = 0 gives zeros. The kernel may
        still be running when it is returned.

    Raises:
        ValueError: The arguments are not as above.

    >>> a, b = torch.tensor([[1.0, 2.0]]).to(torch.float8_e4m3fn), torch.tensor([[3.0], [4.0]]).to(torch.float8_e5m2)
    >>> scaled_matmul(a, b, torch.tensor(0.5), torch.tensor(10.0), torch.float32)
    tensor([[55.]])
    """
    check_arguments(a, b, scale_a, scale_b, out_dtype)
    (M, K), N = a.shape, b.shape[1]
    pitch = triton.cdiv(N * out_dtype.itemsize, 16) * 16 // out_dtype.itemsize  # a descriptor's rows begin at 16 bytes
    c = torch.empty((M, pitch), dtype=out_dtype, device=a.device)[:, :N]
    if c.numel() == 0:
        return c
    if K == 0:
        return c.zero_()
    chosen = None
    if config is None:
        chosen = choose_config(M, N, out_dtype, use_fast_accum, multiprocessors(a.device)), a.device
        config = FEWER.get(chosen, chosen[0])
    else:
        check_config(config, use_fast_accum)
    programs = multiprocessors(a.device) * config.per_sm
    block_m, block_n, block_k = config.block
    rows = block_m if use_fast_accum else block_m // 2  # of a and c that move at a time
    tiles = triton.cdiv(M, block_m) * triton.cdiv(N, block_n)
    if max(tiles + programs, config.group * triton.cdiv(N, block_n)) >= 2**31:  # both are counted in 32 bits
        raise ValueError(f"a result of {M} x {N} takes too many tiles of {block_m} x {block_n}; split it")
    described = lambda x, block: TensorDescriptor(x, list(x.shape), [x.stride(0), 1], block)
    try:
        with torch.cuda.device_of(a):
            scaled_matmul_kernel[(min(tiles, programs),)](
                described(by_rows(a), [rows, block_k]),
                described(by_rows(b.T), [block_n, block_k]),
                described(c, [rows, block_n // config.parts]),
                scale_a, scale_b, M, N, K,
                1 if scale_a.numel() > 1 else 0, 1 if scale_b.numel() > 1 else 0,
                FAST=use_fast_accum, FLATTEN=config.flatten, PARTS=config.parts,
                BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUP_M=config.group,
                num_warps=config.num_warps, num_stages=config.num_stages,
            )  # fmt: skip
    except triton.OutOfResources as error:  # only the compiler knows how much shared memory it takes on this GPU
        if chosen is None or config.num_stages == 1:
            raise ValueError(f"{config} does not fit on {a.device}: {error}") from None
        FEWER[chosen] = config._replace(num_stages=config.num_stages - 1)
        return scaled_matmul(a, b, scale_a, scale_b, out_dtype, use_fast_accum=use_fast_accum)
    return c


def by_rows(x: torch.Tensor) -> torch.Tensor:
    """Return ``x`` as a tensor descriptor can describe it, copied only if need be: rows without gaps, at 16 bytes."""
    stride, step = x.stride()
    if step == 1 and x.shape[1] <= stride < 2**40 and (stride | x.data_ptr()) % 16 == 0:  # TMA counts up to 2**40 bytes
        return x
    room = torch.empty((x.shape[0], triton.cdiv(x.shape[1], 16) * 16), dtype=x.dtype, device=x.device)
    return room[:, : x.shape[1]].copy_(x)
# --8<-- [end:host]


FEWER = {}  # by config and device: the same with fewer stages, where a GPU has no room for all


@functools.cache
def multiprocessors(device: torch.device) -> int:
    """Return how many programs to start; in the interpreter a few, so that each takes more than one tile."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 3


def check_config(config: Config, use_fast_accum: bool) -> None:
    """Raise ``ValueError`` for a config of which no right kernel can be made."""
    power = lambda size, low, high: isinstance(size, int) and low <= size <= high and size & (size - 1) == 0
    (m, n, k), longest = config.block, 256 if use_fast_accum else 128
    if not (power(m, 32, 256) and power(n, 16, 256) and power(k, 32, longest)):
        raise ValueError(
            f"block must be powers of two from 32, 16 and 32, to 256, but along K to {longest}, so that without "
            f"use_fast_accum the matrix units add at most 128 products; got {config.block}"
        )
    if min(config.group, config.per_sm, config.num_stages) < 1 or not power(config.num_warps, 1, 32):
        raise ValueError(f"group, per_sm and num_stages must be from 1, num_warps a power of two to 32; got {config}")
    if not power(config.parts, 1, n // 16):
        raise ValueError(f"parts must be a power of two, parts of 16 columns or more; got {config}")


def check_arguments(a, b, scale_a, scale_b, out_dtype) -> None:
    """Raise ``ValueError`` for arguments that :func:`scaled_matmul` would get wrong, or can't serve at all."""
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"a and b must be (M, K) and (K, N); got {tuple(a.shape)} and {tuple(b.shape)}")
    for name, x in (("a", a), ("b", b)):
        if x.dtype not in DTYPES:
            raise ValueError(f"{name} must be of one of {', '.join(map(str, DTYPES))}; got {x.dtype}: see quantize()")
    if out_dtype not in OUT_DTYPES:
        raise ValueError(f"out_dtype must be one of {', '.join(map(str, OUT_DTYPES))}; got {out_dtype}")
    interpreted = not isinstance(scaled_matmul_kernel, triton.JITFunction)
    if a.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"a is on {a.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}")
    if not interpreted and torch.cuda.get_device_capability(a.device) < (8, 9):
        raise ValueError(f"{torch.cuda.get_device_name(a.device)} has no matrix units for float8; Ada or later has")
    if interpreted and out_dtype == torch.bfloat16:
        raise ValueError("Triton's interpreter rounds to bfloat16 wrongly; pass out_dtype=torch.float32 there")
    for name, x, shape in (("scale_a", scale_a, (a.shape[0], 1)), ("scale_b", scale_b, (1, b.shape[1]))):
        if x.dtype != torch.float32 or not (x.numel() == 1 or tuple(x.shape) == shape):
            raise ValueError(f"{name} must be one float32, or {shape} of them; got {tuple(x.shape)} of {x.dtype}")
        if not x.is_contiguous():
            raise ValueError(f"{name} has strides {x.stride()}; pass {name}.contiguous()")
    if len({x.device for x in (a, b, scale_a, scale_b)}) > 1:
        devices = ", ".join(str(x.device) for x in (a, b, scale_a, scale_b))
        raise ValueError(f"a, b, scale_a and scale_b must be on one device; got {devices}")
    if max(*a.shape, *b.shape) > LONGEST:
        raise ValueError(f"dimensions must be at most 2**31 - 2**9; got {tuple(a.shape)} and {tuple(b.shape)}")
    for name, x in (("a", a), ("b", b), ("scale_a", scale_a), ("scale_b", scale_b)):
        if x.layout != torch.strided:
            raise ValueError(f"{name} is {x.layout}; pass {name}.to_dense()")
        if x.is_neg():  # its memory doesn't have the sign applied yet
            raise ValueError(f"{name} is negated lazily; pass {name}.resolve_neg()")
        if x.requires_grad and torch.is_grad_enabled():
            raise ValueError(f"{name} requires a gradient, which this function does not compute; use torch.no_grad()")


def main():
    device = "cuda" if isinstance(scaled_matmul_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    print("## quantize")
    # --8<-- [start:toy]
    x = torch.tensor([[0.1, 0.2, 0.3, 0.4], [10.0, 20.0, 30.0, 40.0]], device=device)
    for name, dim in (("one scale", None), ("a scale for each row", 1)):
        q, scale = quantize(x, dim=dim)
        print(f"{name}: {', '.join(f'{s:.6f}' for s in scale.flatten().tolist())}")
        for row, back in zip(q.float().tolist(), (q.float() * scale).tolist(), strict=True):
            print(f"    {row}  stand for  {[round(number, 4) for number in back]}")
    # --8<-- [end:toy]

    print("## formats")
    for dtype in DTYPES:
        info = torch.finfo(dtype)
        name = str(dtype).removeprefix("torch.")
        print(f"{name}: 1 + {info.eps} follows 1; from {info.smallest_normal:.2g} to {info.max:.0f}")

    print("## exact")
    torch.manual_seed(0)
    M, N, K = 70, 130, 200
    a, b = torch.randint(-4, 5, (M, K)).float(), torch.randint(-4, 5, (K, N)).float()
    one = torch.ones((), device=device)
    qa, qb = (x.to(torch.float8_e4m3fn).to(device) for x in (a, b))
    equal = torch.equal(scaled_matmul(qa, qb, one, one, torch.float32).cpu(), a @ b)
    print(f"whole numbers, {M}×{K} @ {K}×{N}:", "equal to torch" if equal else "NOT equal to torch")

    print("## error")
    relative_error = lambda c, exact: ((c.double() - exact).norm() / exact.norm()).item()
    M, N, K = 64, 64, 1024
    a, b = torch.randn(M, K).to(device), torch.randn(K, N).to(device)
    a[5] *= 10_000  # one row of large numbers
    exact = a.double() @ b.double()
    print(f"{'error against the product of':30}  8-bit numbers  original ones  these, without the large row")
    for dtype in DTYPES:
        for name, dims in (("one scale", (None, None)), ("by rows", (1, 0))):
            (qa, scale_a), (qb, scale_b) = (quantize(x, dtype=dtype, dim=d) for x, d in zip((a, b), dims, strict=True))
            c = scaled_matmul(qa, qb, scale_a, scale_b, torch.float32)
            rounded = (qa.double() * scale_a) @ (qb.double() * scale_b)
            rest = [i for i in range(M) if i != 5]
            errors = relative_error(c, rounded), relative_error(c, exact), relative_error(c[rest], exact[rest])
            label = f"{str(dtype).removeprefix('torch.')}, {name}"
            print(f"{label:30}  {errors[0]:<13.0e}  {errors[1]:<13.3f}  {errors[2]:.3f}")


if __name__ == "__main__":
    main()
