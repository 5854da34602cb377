# SPDX-License-Identifier: Apache-2.0
"""Multiply numbers of 8 or 4 bits with a scale for each 32 or 16 of them: MXFP8, MXFP4 and NVFP4, by ``tl.dot_scaled``.

=======  =====================  ==========================  ===================================
format   numbers                scale                       numbers that share one, along K
=======  =====================  ==========================  ===================================
mxfp8    float8_e4m3fn          a power of two, 8 bits      32
mxfp4    4 bits, two in a byte  a power of two, 8 bits      32
nvfp4    4 bits, two in a byte  float8_e4m3fn               16, and one float32 for the tensor
=======  =====================  ==========================  ===================================

A number of 4 bits is 0, 0.5, 1, 1.5, 2, 3, 4 or 6, or the negative. A power of two is stored as the exponent of a
float32 is: byte e stands for 2**(e - 127), and 255 for NaN.

- :func:`quantize`: a matrix in one of these formats
- :func:`dequantize`: what it stands for
- :func:`scaled_matmul`: ``x @ w.T``

Blackwell's matrix units multiply by the scales themselves. For an older GPU the compiler turns numbers and scales
into bfloat16, and multiplies these.

Shapes: ``x`` is (M, K), ``w`` (N, K), ``y`` (M, N). FLOPs: 2 * M * N * K.
Source: the OCP's Microscaling Formats (MX) specification, 2023; NVIDIA's cuBLAS documentation for NVFP4.

``python scaled_dot.py`` shows the formats, which needs no GPU. The product needs one: Triton's interpreter knows
``tl.dot_scaled`` from 3.9 on.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl

E4M3 = torch.float8_e4m3fn
FOUR_BITS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # and bit 3 is the sign
GROUP = {"mxfp8": 32, "mxfp4": 32, "nvfp4": 16}
LARGEST = {"mxfp8": 448.0, "mxfp4": 6.0, "nvfp4": 6.0}
EXPONENT = {"mxfp8": 8, "mxfp4": 2}  # of the largest number
OUT_DTYPES = (torch.bfloat16, torch.float16, torch.float32)


class Scaled(NamedTuple):
    """A matrix of ``rows`` × ``columns``, quantized.

    Attributes:
        numbers: ``(rows, columns)`` of float8_e4m3fn, or ``(rows, columns / 2)`` of uint8: the first of two numbers
            in the low bits.
        scales: ``(rows, columns / 32)`` of uint8, or ``(rows, columns / 16)`` of float8_e4m3fn.
        whole: One float32 that multiplies all; 1 but for nvfp4.
        format: "mxfp8", "mxfp4" or "nvfp4".
    """

    numbers: torch.Tensor
    scales: torch.Tensor
    whole: torch.Tensor
    format: str


# --8<-- [start:quantize]
def quantize(x: torch.Tensor, format: str) -> Scaled:
    """Return a matrix in a format, each number rounded to the nearest.

    Args:
        x: ``(rows, columns)``, floating point and finite; columns a multiple
            of 32, or of 16 for nvfp4.
        format: "mxfp8", "mxfp4" or "nvfp4".
    """
    check_format(format)
    group = GROUP[format]
    if x.ndim != 2 or x.shape[1] % group or not x.is_floating_point():
        raise ValueError(
            f"x must be floats, (rows, a multiple of {group}); "
            f"got {tuple(x.shape)} of {x.dtype}"
        )
    x = x.float().unflatten(1, (-1, group))
    largest = x.abs().amax(2)
    whole = torch.ones((), device=x.device)
    if format == "nvfp4":
        # So that the largest scale is 448.
        if x.numel():
            whole = (largest.amax() / 6 / 448).clamp(min=1e-30)
        scales = (largest / 6 / whole).clamp(max=448).to(E4M3)
        scale = scales.float() * whole
    else:
        power = largest.clamp(min=2.0**-100).log2().floor()
        power = power - EXPONENT[format]
        scales = (power + 127).to(torch.uint8)
        scale = power.exp2()
    x = x / scale.clamp(min=1e-38)[:, :, None]
    x = x.clamp(-LARGEST[format], LARGEST[format]).flatten(1)
    numbers = x.to(E4M3) if format == "mxfp8" else to_four_bits(x)
    return Scaled(numbers, scales, whole, format)
# --8<-- [end:quantize]


def to_four_bits(x: torch.Tensor) -> torch.Tensor:
    """Return numbers up to 6 as bytes of two, each rounded to the nearest, or from halfway to the even code."""
    middle = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0], device=x.device)
    size = x.abs()
    up, down = torch.bucketize(size, middle, right=True), torch.bucketize(size, middle)
    code = torch.where(up % 2 == 0, up, down)  # they differ in the middle alone
    code = (code | torch.signbit(x).int() << 3).to(torch.uint8)
    return code[:, ::2] | code[:, 1::2] << 4


def numbers_of(x: Scaled) -> torch.Tensor:
    """Return the numbers without their scales, in float64."""
    if x.format == "mxfp8":
        return x.numbers.double()
    code = torch.stack([x.numbers & 15, x.numbers >> 4], 2).flatten(1).long()
    table = torch.tensor(FOUR_BITS + tuple(-each for each in FOUR_BITS), dtype=torch.float64)
    return table.to(code.device)[code]


def dequantize(x: Scaled) -> torch.Tensor:
    """Return what the numbers stand for, in float64."""
    scale = x.scales.double()
    if x.format != "nvfp4":
        scale = torch.exp2(scale - 127)
    return numbers_of(x) * scale.repeat_interleave(GROUP[x.format], 1) * x.whole.double()


# --8<-- [start:kernel]
@triton.jit
def scaled_dot_kernel(
    x_ptr, w_ptr, y_ptr, x_scales_ptr, w_scales_ptr, whole_x_ptr, whole_w_ptr,
    M, N, K, stride_x, stride_w, stride_y, stride_x_scales, stride_w_scales,
    FORMAT: tl.constexpr, PACKED: tl.constexpr, GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(axis=1) * BLOCK_N + tl.arange(0, BLOCK_N)
    is_row, is_column = m < M, n < N
    m, n = m.to(tl.int64)[:, None], n.to(tl.int64)[:, None]
    k = tl.arange(0, BLOCK_K // PACKED)[None, :]
    group = tl.arange(0, BLOCK_K // GROUP)[None, :]
    x_ptrs, w_ptrs = x_ptr + m * stride_x + k, w_ptr + n * stride_w + k
    x_scales_ptrs = x_scales_ptr + m * stride_x_scales + group
    w_scales_ptrs = w_scales_ptr + n * stride_w_scales + group
    # --8<-- [start:loop]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        inside = k < (K - start) // PACKED
        is_group = group < (K - start) // GROUP
        x = tl.load(x_ptrs, mask=is_row[:, None] & inside, other=0.0)
        w = tl.load(w_ptrs, mask=is_column[:, None] & inside, other=0.0)
        x_scale = tl.load(
            x_scales_ptrs, mask=is_row[:, None] & is_group, other=0.0
        )
        w_scale = tl.load(
            w_scales_ptrs, mask=is_column[:, None] & is_group, other=0.0
        )
        # Both scales have K along their rows, as the numbers in memory do.
        acc = tl.dot_scaled(
            x, x_scale, FORMAT, w.T, w_scale, FORMAT, acc
        )
        x_ptrs += BLOCK_K // PACKED
        w_ptrs += BLOCK_K // PACKED
        x_scales_ptrs += BLOCK_K // GROUP
        w_scales_ptrs += BLOCK_K // GROUP
    # --8<-- [end:loop]
    acc *= tl.load(whole_x_ptr) * tl.load(whole_w_ptr)
    y_ptrs = y_ptr + m * stride_y + n.reshape(1, BLOCK_N)
    mask = is_row[:, None] & is_column[None, :]
    tl.store(y_ptrs, acc.to(y_ptr.dtype.element_ty), mask=mask)
# --8<-- [end:kernel]


# --8<-- [start:host]
@torch.compiler.disable  # torch.compile calls it as it is
def scaled_matmul(
    x: Scaled, w: Scaled, out_dtype: torch.dtype = torch.bfloat16
) -> torch.Tensor:  # fmt: skip
    """Return ``x @ w.T`` of two quantized matrices, with sums in float32.

    Args:
        x, w: ``(M, K)`` and ``(N, K)``, of one format, as :func:`quantize` returns them, on a GPU.
        out_dtype: bfloat16, float16 or float32.

    Raises:
        ValueError: If they don't fit together, or aren't where the kernel can run.
    """
    check_arguments(x, w, out_dtype)
    return product(x, w, out_dtype)


def product(x: Scaled, w: Scaled, out_dtype, *, block=(128, 256, 64), num_warps=8, num_stages=3) -> torch.Tensor:
    """Do as :func:`scaled_matmul`; the other arguments choose how."""
    M, N = len(x.numbers), len(w.numbers)
    packed, group = 1 if x.format == "mxfp8" else 2, GROUP[x.format]
    K = x.numbers.shape[1] * packed
    y = torch.empty(M, N, dtype=out_dtype, device=x.numbers.device)
    if M * N * K == 0:
        return y.zero_()
    block_m, block_n, block_k = block
    with torch.cuda.device_of(y):
        scaled_dot_kernel[(triton.cdiv(M, block_m), triton.cdiv(N, block_n))](
            x.numbers, w.numbers, y, x.scales, w.scales, x.whole, w.whole, M, N, K,
            x.numbers.stride(0), w.numbers.stride(0), y.stride(0), x.scales.stride(0), w.scales.stride(0),
            FORMAT="e4m3" if packed == 1 else "e2m1", PACKED=packed, GROUP=group,
            BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, num_warps=num_warps, num_stages=num_stages,
        )  # fmt: skip
    return y
# --8<-- [end:host]


def check_format(format: str) -> None:
    """Raise ``ValueError`` unless this is the name of a format."""
    if format not in GROUP:
        raise ValueError(f"format is {format!r}; use one of {', '.join(GROUP)}")


def check_scaled(name: str, x: Scaled) -> None:
    """Raise ``ValueError`` unless the parts of a matrix fit together, and the kernel can read them."""
    if not isinstance(x, Scaled):
        raise ValueError(f"{name} must be what quantize returns; got {type(x).__name__}")
    check_format(x.format)
    rows, wide = x.numbers.shape if x.numbers.ndim == 2 else (0, 0)
    columns = wide if x.format == "mxfp8" else 2 * wide
    scale = E4M3 if x.format == "nvfp4" else torch.uint8
    parts = {
        "numbers": (x.numbers, E4M3 if x.format == "mxfp8" else torch.uint8, (rows, wide)),
        "scales": (x.scales, scale, (rows, columns // GROUP[x.format])),
        "whole": (x.whole, torch.float32, ()),
    }
    for part, (tensor, dtype, shape) in parts.items():
        if tensor.dtype != dtype or tensor.shape != shape or tensor.device != x.numbers.device:
            raise ValueError(
                f"{name}.{part} must be {shape} of {dtype} on {x.numbers.device}, as quantize returns it; "
                f"got {tuple(tensor.shape)} of {tensor.dtype} on {tensor.device}"
            )
        if tensor.ndim == 2 and tensor.stride(1) != 1 and tensor.shape[1] > 1:
            raise ValueError(f"{name}.{part} has strides {tensor.stride()}; pass {name}.{part}.contiguous()")


def check_arguments(x: Scaled, w: Scaled, out_dtype: torch.dtype) -> None:
    """Raise ``ValueError`` for what :func:`scaled_matmul` can't multiply."""
    check_scaled("x", x)
    check_scaled("w", w)
    if x.format != w.format or x.numbers.shape[1] != w.numbers.shape[1]:
        raise ValueError(
            f"x and w must be of one format and length along K; got {x.format}, {tuple(x.numbers.shape)} and "
            f"{w.format}, {tuple(w.numbers.shape)}"
        )
    if out_dtype not in OUT_DTYPES:
        raise ValueError(f"out_dtype must be one of {', '.join(map(str, OUT_DTYPES))}; got {out_dtype}")
    if x.numbers.device != w.numbers.device:
        raise ValueError(f"x and w must be on one device; got {x.numbers.device} and {w.numbers.device}")
    interpreted = not isinstance(scaled_dot_kernel, triton.JITFunction)
    if x.numbers.device.type != "cuda" or interpreted:
        raise ValueError(f"x is on {x.numbers.device}; scaled_matmul runs on a GPU, not in the interpreter")


# --8<-- [start:toy]
def main():
    torch.manual_seed(0)
    x = torch.tensor([[0.9, -0.35, 0.06, 0.5] * 8])
    show = lambda row: " ".join(f"{each:g}" for each in row[0, :4].tolist())
    print("## Four numbers of a group of 32")
    print(f"{'x':9} {show(x)}")
    for format in GROUP:
        scaled = quantize(x, format)
        scale = (dequantize(scaled)[0, 0] / numbers_of(scaled)[0, 0]).item()
        print(f"{format:9} {show(numbers_of(scaled))}, times {scale:.6g}: {show(dequantize(scaled))}")
    print("## What the formats lose")
    x = torch.randn(64, 4096)
    for format in GROUP:
        back = dequantize(quantize(x, format))
        bits = {"mxfp8": 8 + 8 / 32, "mxfp4": 4 + 8 / 32, "nvfp4": 4 + 8 / 16}[format]
        print(f"{format}: {bits:.2f} bits a number, {((back - x).norm() / x.norm()).item():.1%} off")
# --8<-- [end:toy]


if __name__ == "__main__":
    main()
