# SPDX-License-Identifier: Apache-2.0
"""Multiply 8-bit floats that have a scale for each block, as DeepSeek-V3 does: ``y = x @ w.T``.

One scale for a whole tensor must fit its largest number, and may leave too few bits for the small ones. So each 128
neighbors in a row of ``x`` get a scale, and each square of 128 × 128 numbers of ``w``:

- :func:`quantize`: rows as 8-bit numbers and their scales
- :func:`norm_and_quantize`: the same of a row's RMS norm, which is then never stored
- :func:`quantize_weight`: squares of a weight, once, when it is loaded
- :func:`block_scaled_matmul`: the product

Along K a scale holds for 128 numbers. So the matrix units add up 128 products, and that sum is multiplied by both
scales and added in float32.

Shapes: ``x`` is (M, K), ``w`` (N, K), ``y`` (M, N); the scales of ``x`` are (M, K / 128), those of ``w`` (N / 128,
K / 128), rounded up. FLOPs: 2 * M * N * K. Bytes: M * K + N * K read, M * N of the result's dtype written.

Source: DeepSeek-V3's technical report, 2024, section 3.3. A scale here is what to multiply by, as there and in torch.

Run it on a GPU with ``python block_scales.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import functools
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from snippets.matmul.fp8 import by_rows, position

BLOCK = 128  # numbers along K that share a scale
LARGEST = 448.0  # of float8_e4m3fn
E4M3 = torch.float8_e4m3fn
IN_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
OUT_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
LONGEST_ROW = 2**16  # that one program quantizes
LONGEST = 2**31 - 2**9  # of a dimension: a tile that begins inside must end below 2**31


# --8<-- [start:quantize]
@triton.jit(do_not_specialize=["eps"])
def quantize_kernel(
    x_ptr, weight_ptr, q_ptr, scales_ptr, K, eps, stride_x, stride_q, stride_scales,
    NORM: tl.constexpr, GROUPS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(axis=0).to(tl.int64)
    k = tl.arange(0, GROUPS * 128)
    x = tl.load(x_ptr + row * stride_x + k, mask=k < K, other=0)
    x = x.to(tl.float32)
    if NORM:
        x *= tl.rsqrt(tl.sum(x * x) / K + eps)
        x *= tl.load(weight_ptr + k, mask=k < K, other=0).to(tl.float32)
    # --8<-- [start:groups]
    x = tl.reshape(x, (GROUPS, 128))
    largest = tl.max(tl.abs(x), axis=1)
    # Never 0, because x is divided by it.
    scale = tl.maximum(largest / 448, 1e-30)
    q = tl.reshape(x / scale[:, None], (GROUPS * 128,))
    # --8<-- [end:groups]
    q = q.to(q_ptr.dtype.element_ty)
    tl.store(q_ptr + row * stride_q + k, q, mask=k < K)
    group = tl.arange(0, GROUPS)
    scales_ptrs = scales_ptr + group.to(tl.int64) * stride_scales + row
    tl.store(scales_ptrs, scale, mask=group * 128 < K)
# --8<-- [end:quantize]


# --8<-- [start:kernel]
@triton.jit
def block_scaled_kernel(
    x, w, y, x_scales_ptr, w_scales_ptr, M, N, K,
    stride_xm, stride_xk, stride_wn, stride_wk,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr,
    AHEAD: tl.constexpr,
):  # fmt: skip
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    pid_m, pid_n = position(tl.program_id(axis=0), tiles_m, tiles_n, GROUP_M)
    m, n = pid_m * BLOCK_M, pid_n * BLOCK_N
    # --8<-- [start:loop]
    rows = m + tl.arange(0, BLOCK_M)
    x_scales_ptrs = x_scales_ptr + rows.to(tl.int64) * stride_xm
    # All columns of this tile are in one square.
    w_scale_ptr = w_scales_ptr + (n // 128).to(tl.int64) * stride_wn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    # AHEAD: so many steps ahead, scales are loaded, too.
    for k in tl.range(0, K, 128, num_stages=AHEAD):
        x_scale = tl.load(x_scales_ptrs, mask=rows < M)
        w_scale = tl.load(w_scale_ptr)
        part = tl.dot(x.load([m, k]), w.load([n, k]).T)
        acc += part * (x_scale * w_scale)[:, None]
        x_scales_ptrs += stride_xk
        w_scale_ptr += stride_wk
    y.store([m, n], acc.to(y.dtype))
    # --8<-- [end:loop]
# --8<-- [end:kernel]


# --8<-- [start:config]
class Config(NamedTuple):
    """A tile of the result, and how it is computed."""

    block_m: int
    block_n: int  # 128 at most: one square of the weight
    num_warps: int
    num_stages: int
    group: int = 8
    ahead: bool = True  # whether scales are loaded stages ahead, as tiles are


# Columns of a tile, and stages: the widest leaves room for three programs on
# a multiprocessor of an H200, the others for two.
TILES = {128: 3, 64: 6, 32: 8, 16: 9}


def choose_config(M: int, N: int, multiprocessors: int) -> Config:
    """Return the widest tile of which there are 1.5 for each multiprocessor, or the narrowest."""
    enough = lambda n: 2 * triton.cdiv(M, 64) * triton.cdiv(N, n) >= 3 * multiprocessors
    columns = next((n for n in TILES if enough(n)), min(TILES))
    return Config(64, columns, 4, TILES[columns])
# --8<-- [end:config]


# --8<-- [start:host]
def quantize(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return each row as 8-bit numbers, and a scale for each 128 of them: ``q.float() * scale`` is about ``x``.

    Args:
        x: ``(M, K)``, bfloat16, float16 or float32, up to 65,536 columns, on a GPU, or in the interpreter on the CPU.
            Rows may have any stride; columns that aren't neighbors are copied first.

    Returns:
        ``q``, ``(M, K)`` of float8_e4m3fn, and float32 scales, ``(M, K / 128)`` rounded up. The scales of one group are
        neighbors in memory, as :func:`block_scaled_matmul` and cuBLAS read them. Where a group has an infinity, what
        it stands for is NaN.

    Raises:
        ValueError: If ``x`` is something else.

    >>> q, scale = quantize(torch.tensor([[1.0, -3.5, 0.0]]))
    >>> q.float().tolist(), scale.tolist()
    ([[128.0, -448.0, 0.0]], [[0.0078125]])
    """
    check_rows(x)
    return quantized(x, None, 0.0)


def norm_and_quantize(
    x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return ``x / sqrt(mean(x²) + eps) * weight``, row by row, in 8 bits and scales, as :func:`quantize` does.

    Args:
        x: ``(M, K)``, as for :func:`quantize`.
        weight: ``(K,)``, of one of the same dtypes.
        eps: Not negative.

    Raises:
        ValueError: If an argument is something else.

    >>> q, scale = norm_and_quantize(torch.tensor([[3.0, -3.0]]), torch.tensor([2.0, 1.0]), eps=0.0)
    >>> (q.float() * scale).tolist()
    [[2.0, -1.0]]
    """
    check_rows(x)
    check_norm(x, weight, eps)
    return quantized(x, weight.contiguous(), float(eps))


def quantized(
    x: torch.Tensor, weight: torch.Tensor | None, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Launch the kernel for arguments that have been checked."""
    M, K = x.shape
    groups = triton.cdiv(K, BLOCK)
    # A descriptor wants rows that begin at 16 bytes, cuBLAS 4 scales.
    pitch, room = triton.cdiv(K, 16) * 16, triton.cdiv(M, 4) * 4
    q = torch.empty(M, pitch, dtype=E4M3, device=x.device)[:, :K]
    scales = torch.empty(
        groups, room, dtype=torch.float32, device=x.device
    )[:, :M].t()  # fmt: skip
    if M * K == 0:
        return q, scales
    if x.stride(1) != 1:
        x = x.contiguous()
    wide = triton.next_power_of_2(groups)
    with torch.cuda.device_of(x):
        quantize_kernel[(M,)](
            x, weight, q, scales, K, eps,
            x.stride(0), q.stride(0), scales.stride(1),
            NORM=weight is not None, GROUPS=wide,
            num_warps=min(max(wide // 8, 1), 16),
        )  # fmt: skip
    return q, scales


def quantize_weight(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a weight as 8-bit numbers, and a scale for each square of 128 × 128.

    It runs once, when a model is loaded, and so it is written in torch.

    Args:
        weight: ``(N, K)``, floating point.

    Returns:
        ``(N, K)`` of float8_e4m3fn, and float32 scales, ``(N / 128, K / 128)``, both rounded up.

    >>> q, scale = quantize_weight(torch.tensor([[1.0, -3.5], [0.0, 7.0]]))
    >>> q.float().tolist(), scale.tolist()
    ([[64.0, -224.0], [0.0, 448.0]], [[0.015625]])
    """
    if weight.ndim != 2 or not weight.is_floating_point():
        raise ValueError(
            f"weight must be floats, (N, K); got {tuple(weight.shape)} of {weight.dtype}"
        )  # fmt: skip
    (N, K), up = weight.shape, lambda size: -(-size // BLOCK)
    x = torch.nn.functional.pad(
        weight.float(), (0, up(K) * BLOCK - K, 0, up(N) * BLOCK - N)
    )  # fmt: skip
    x = x.view(up(N), BLOCK, up(K), BLOCK)
    largest = x.abs().amax((1, 3)) if x.numel() else x.new_zeros(up(N), up(K))
    scales = (largest / LARGEST).clamp(min=1e-30)
    q = (x / scales[:, None, :, None]).to(E4M3).view(up(N) * BLOCK, up(K) * BLOCK)
    q = q[:N, :K]
    return (q if q.is_contiguous() else by_rows(q)), scales


def dequantize(q: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Return in float64 what numbers and scales stand for, of rows or of a weight."""
    tall = 1 if len(scales) == len(q) and len(q) != -(-len(q) // BLOCK) else BLOCK
    far = scales.double().repeat_interleave(tall, 0).repeat_interleave(BLOCK, 1)
    return q.double() * far[: q.shape[0], : q.shape[1]]


@torch.compiler.disable  # torch.compile calls it as it is
def block_scaled_matmul(
    x: torch.Tensor,
    w: torch.Tensor,
    x_scales: torch.Tensor,
    w_scales: torch.Tensor,
    out_dtype: torch.dtype = torch.bfloat16,
) -> torch.Tensor:
    """Return ``x @ w.T`` of 8-bit numbers with scales, with sums in float32 and rounded once.

    Args:
        x, w: ``(M, K)`` and ``(N, K)`` of float8_e4m3fn, on a GPU with matrix units for 8 bits, or in the interpreter
            on the CPU. Any strides; copied first, unless rows are without gaps and begin at multiples of 16 bytes.
        x_scales, w_scales: float32, ``(M, K / 128)`` and ``(N / 128, K / 128)``, rounded up, with any strides, as
            :func:`quantize` and :func:`quantize_weight` return them.
        out_dtype: bfloat16 (not in the interpreter), float16 or float32.

    Returns:
        ``(M, N)``. Its rows begin at multiples of 16 bytes, so it is contiguous only where that is no gap, and what
        lies in a gap belongs to nobody. K = 0 gives zeros. The kernel may still be running.

    Raises:
        ValueError: If an argument is something the kernel can't serve.

    >>> x, w = torch.tensor([[1.0, 2.0]]).to(E4M3), torch.tensor([[3.0, 4.0]]).to(E4M3)
    >>> block_scaled_matmul(x, w, torch.tensor([[0.5]]), torch.tensor([[10.0]]), torch.float32)
    tensor([[55.]])
    """
    check_arguments(x, w, x_scales, w_scales, out_dtype)
    return product(x, w, x_scales, w_scales, out_dtype)


def product(x, w, x_scales, w_scales, out_dtype, *, config: Config | None = None) -> torch.Tensor:
    """Do as :func:`block_scaled_matmul`; ``config`` chooses how."""
    (M, K), N = x.shape, len(w)
    size = out_dtype.itemsize
    # The TMA wants rows that begin at multiples of 16 bytes.
    pitch = triton.cdiv(N * size, 16) * 16 // size
    y = torch.empty(M, pitch, dtype=out_dtype, device=x.device)[:, :N]
    if M * N * K == 0:
        return y.zero_()
    config = config or choose_config(M, N, multiprocessors(x.device))
    m, n = config.block_m, config.block_n
    tiles = triton.cdiv(M, m) * triton.cdiv(N, n)
    if max(tiles, config.group * triton.cdiv(N, n)) >= 2**31:  # both are counted in 32 bits
        raise ValueError(f"a result of {M} x {N} takes too many tiles of {m} x {n}; split it")
    described = lambda t, block: TensorDescriptor(
        t, list(t.shape), [t.stride(0), 1], block
    )  # fmt: skip
    with torch.cuda.device_of(x):
        block_scaled_kernel[(tiles,)](
            described(by_rows(x), [m, BLOCK]),
            described(by_rows(w), [n, BLOCK]),
            described(y, [m, n]),
            x_scales, w_scales, M, N, K,
            *x_scales.stride(), *w_scales.stride(),
            BLOCK_M=m, BLOCK_N=n, GROUP_M=config.group, AHEAD=config.num_stages if config.ahead else None,
            num_warps=config.num_warps, num_stages=config.num_stages,
        )  # fmt: skip
    return y
# --8<-- [end:host]


@functools.cache
def multiprocessors(device: torch.device) -> int:
    """Return the GPU's number of them; in the interpreter, that of an H200."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 132


def check_tensor(name: str, x: torch.Tensor) -> None:
    """Raise ``ValueError`` for a tensor whose memory the kernel must not read as it is."""
    if x.layout != torch.strided:
        raise ValueError(f"{name} is {x.layout}; pass {name}.to_dense()")
    if x.is_neg():  # its memory doesn't have the sign applied yet
        raise ValueError(f"{name} is negated lazily; pass {name}.resolve_neg()")
    if x.requires_grad and torch.is_grad_enabled():
        raise ValueError(f"{name} requires a gradient, which isn't computed here; use torch.no_grad()")


def check_device(name: str, x: torch.Tensor) -> None:
    """Raise ``ValueError`` if no kernel can run where ``x`` is."""
    interpreted = not isinstance(block_scaled_kernel, triton.JITFunction)
    if x.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        where = "the CPU, interpreted" if interpreted else "a GPU"
        raise ValueError(f"{name} is on {x.device}; kernels run on {where}")
    if not interpreted and torch.cuda.get_device_capability(x.device) < (8, 9):
        raise ValueError(f"{torch.cuda.get_device_name(x.device)} has no matrix units for float8; Ada or later has")


def check_rows(x: torch.Tensor) -> None:
    """Raise ``ValueError`` for rows that :func:`quantize` can't serve."""
    if x.ndim != 2 or x.shape[1] > LONGEST_ROW or len(x) >= 2**31:
        raise ValueError(f"x must be (M, K), with K up to {LONGEST_ROW}; got {tuple(x.shape)}")
    if x.dtype not in IN_DTYPES:
        raise ValueError(f"x has dtype {x.dtype}; use one of {', '.join(map(str, IN_DTYPES))}")
    check_tensor("x", x)
    check_device("x", x)


def check_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> None:
    """Raise ``ValueError`` for what can't be the weight and eps of a norm of ``x``."""
    if weight.shape != (x.shape[1],) or weight.dtype not in IN_DTYPES or weight.device != x.device:
        raise ValueError(
            f"weight must be ({x.shape[1]},) on {x.device}, of one of {', '.join(map(str, IN_DTYPES))}; "
            f"got {tuple(weight.shape)} of {weight.dtype} on {weight.device}"
        )
    check_tensor("weight", weight)
    if not eps >= 0:
        raise ValueError(f"eps is {eps!r}; it must not be negative")


def check_arguments(x, w, x_scales, w_scales, out_dtype) -> None:
    """Raise ``ValueError`` for arguments that the product would get wrong, or can't serve at all."""
    if x.ndim != 2 or w.ndim != 2 or x.shape[1] != w.shape[1]:
        raise ValueError(f"x and w must be (M, K) and (N, K); got {tuple(x.shape)} and {tuple(w.shape)}")
    for name, t in (("x", x), ("w", w)):
        if t.dtype != E4M3:
            raise ValueError(f"{name} must be of {E4M3}; got {t.dtype}: see quantize() and quantize_weight()")
    groups = -(-x.shape[1] // BLOCK)
    shapes = {"x_scales": (len(x), groups), "w_scales": (-(-len(w) // BLOCK), groups)}
    for (name, shape), t in zip(shapes.items(), (x_scales, w_scales), strict=True):
        if t.dtype != torch.float32 or tuple(t.shape) != shape:
            raise ValueError(f"{name} must be {shape} of torch.float32; got {tuple(t.shape)} of {t.dtype}")
    if len({t.device for t in (x, w, x_scales, w_scales)}) > 1:
        devices = ", ".join(str(t.device) for t in (x, w, x_scales, w_scales))
        raise ValueError(f"x, w, x_scales and w_scales must be on one device; got {devices}")
    if out_dtype not in OUT_DTYPES:
        raise ValueError(f"out_dtype must be one of {', '.join(map(str, OUT_DTYPES))}; got {out_dtype}")
    check_device("x", x)
    if x.device.type == "cpu" and out_dtype == torch.bfloat16:
        raise ValueError("Triton's interpreter rounds to bfloat16 wrongly; pass out_dtype=torch.float32 there")
    if max(*x.shape, *w.shape) > LONGEST:
        raise ValueError(f"dimensions must be at most 2**31 - 2**9; got {tuple(x.shape)} and {tuple(w.shape)}")
    for name, t in (("x", x), ("w", w), ("x_scales", x_scales), ("w_scales", w_scales)):
        check_tensor(name, t)


# --8<-- [start:toy]
def survivors(numbers: torch.Tensor, size: int) -> torch.Tensor:
    """Return numbers as they come back from 8 bits, with a scale for each ``size`` neighbors.

    >>> survivors(torch.tensor([1.0, 0.3, 100_000.0, 0.3]), 2).tolist()
    [1.0, 0.2857142984867096, 100000.0, 0.4359653890132904]
    """
    groups = numbers.unflatten(0, (-1, size))
    scale = groups.abs().amax(1, keepdim=True) / LARGEST
    return ((groups / scale).to(E4M3).float() * scale).flatten()
# --8<-- [end:toy]


SHARED_BY = {  # rows of x, rows of w, and numbers along K that share a scale; None for all of them
    "tensor": (None, None, None),
    "row": (1, 1, None),
    "block": (1, 128, 128),
    "group": (1, 1, 32),
}
TEN = (0.9, -0.35, 0.06, 0.5, 0.012, 0.7, 0.02, 1.0, -0.25, 0.004)
OUTLIER = 7  # which of them grows


def main():
    device = "cuda" if isinstance(block_scaled_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    print("## Ten numbers")
    numbers = torch.tensor(TEN)
    show = lambda row: " ".join(f"{x + 0:.3g}" for x in row.tolist())
    for power in (0, 10, 17):
        numbers[OUTLIER] = 2.0**power
        print(f"2**{power:<2}        {show(numbers)}")
        for name, size in (("one scale", 10), ("two scales", 5)):
            print(f"  {name:10} {show(survivors(numbers, size))}")
    print("## How many scales")
    (M, N, K), up = (4096, 2048, 7168), lambda size, each: -(-size // each)
    print(f"x: {M} x {K}, w: {N} x {K}")
    for name, (x_tall, w_tall, wide) in SHARED_BY.items():
        shapes = [(up(rows, tall or rows), up(K, wide or K)) for rows, tall in ((M, x_tall), (N, w_tall))]
        print(f"{name}:", ", ".join(f"{tall} x {wide}" for tall, wide in shapes))
    print("## Right")
    torch.manual_seed(0)
    M, N, K = 70, 200, 300
    whole = lambda rows: torch.randint(-4, 5, (rows, K)).float().to(E4M3).to(device)
    powers = lambda *shape: 2.0 ** torch.randint(-2, 3, shape).to(device)
    x, w, x_scales, w_scales = whole(M), whole(N), powers(M, 3), powers(2, 3)
    exact = dequantize(x, x_scales) @ dequantize(w, w_scales).t()
    equal = torch.equal(block_scaled_matmul(x, w, x_scales, w_scales, torch.float32).double(), exact)
    print(f"whole numbers, {M} x {K} by {N} x {K}:", "equal to float64" if equal else "NOT equal to float64")
    q, scales = norm_and_quantize(torch.zeros(2, K, device=device), torch.ones(K, device=device))
    y = block_scaled_matmul(q, w, scales, w_scales, torch.float32)
    print("rows of zeros:", "stay zeros" if not y.any() else "do NOT stay zeros")


if __name__ == "__main__":
    main()
