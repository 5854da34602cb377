# SPDX-License-Identifier: Apache-2.0
"""Numbers: wrap-around, rounding, NaN, casts, products and sums, a feature a kernel.

``interpreter_and_gpu.py`` judges and runs them; what is right comes from PyTorch, plain Python or the definition.

Run it with ``python interpreter_and_gpu_numbers.py`` on a GPU, or with ``TRITON_INTERPRET=1`` in Triton's interpreter;
there it also compiles every kernel for a GPU of compute capability 9.0.
Source: Triton's language reference, https://triton-lang.org/main/python-api/triton.language.html.
"""

import math

import torch
import triton
import triton.language as tl

from snippets.tools.interpreter_and_gpu import feature, larger, main


# --8<-- [start:binary]
@triton.jit
def binary_kernel(a_ptr, b_ptr, out_ptr, OP: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(a_ptr + i), tl.load(b_ptr + i)
    if OP == "+":
        out = a + b
    elif OP == "*":
        out = a * b
    elif OP == "/":
        out = a / b
    elif OP == "//":
        out = a // b
    elif OP == "%":
        out = a % b
    elif OP == ">>":
        out = a >> b
    elif OP == "max":
        out = tl.maximum(a, b)
    elif OP == "max, NaN wins":
        out = tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
    elif OP == "where":
        out = larger(a, b)
    elif OP == "div_rn":
        out = tl.div_rn(a, b)
    else:
        out = a * a - b
    tl.store(out_ptr + i, out)
# --8<-- [end:binary]


def binary(name, title, a, b, op, expected, out=None, dtype=torch.float32, tolerance=0.0):
    def run(device):
        a_, b_ = (torch.as_tensor(x).to(dtype).to(device) for x in (a, b))
        result = torch.zeros(len(a_), dtype=out or dtype, device=device)
        binary_kernel[(1,)](a_, b_, result, op, len(a_))
        return result, expected(a_.cpu(), b_.cpu()) if callable(expected) else expected, tolerance

    run.__name__ = name
    feature("numbers", title)(run)


nan, inf = math.nan, math.inf
pairs = [1, nan, 2, nan, 5, 4, 7, 8], [nan, 1, 3, nan, 8, 4, 6, 5]


def exact(a, b):
    """Sums as bfloat16 must be: exact, then rounded once."""
    return (a.double() + b.double()).to(a.dtype)


def draw(n, seed=0):
    return torch.rand(n, generator=torch.Generator().manual_seed(seed)) + 0.5


@triton.jit
def scale_kernel(x_ptr, out_ptr):
    i = tl.arange(0, 4)
    tl.store(out_ptr + i, 0.5 * tl.load(x_ptr + i))


@feature("numbers", "uint8 block × Python float")
def uint8_times_float(device):
    x = torch.tensor([3, 1, 200, 255], dtype=torch.uint8, device=device)
    out = torch.zeros(4, device=device)
    scale_kernel[(1,)](x, out)
    return out, [1.5, 0.5, 100, 127.5]


binary("uint8_sum", "uint8 + uint8 wraps", [200, 1, 255, 7], [100, 2, 1, 8], "+", [44, 3, 0, 15], dtype=torch.uint8)
binary(
    "int32_sum", "int32 + int32 wraps", [2**31 - 1, -(2**31)], [1, -1], "+",
    [-(2**31), 2**31 - 1], dtype=torch.int32,
)  # fmt: skip
binary(
    "int32_product", "int32 × int32 into int64 wraps", [2**16, 3], [2**16, 5], "*",
    [0, 15], out=torch.int64, dtype=torch.int32,
)  # fmt: skip
binary(
    "int_division", "`//` of negative integers, toward zero as in C", [-7, 7, -7, 7], [2, -2, -2, 2], "//",
    [-3, -3, 3, 3], dtype=torch.int32,
)  # fmt: skip
binary(
    "int_remainder", "`%` of negative integers, sign as in C", [-7, 7, -7, 7], [2, -2, -2, 2], "%",
    [-1, 1, -1, 1], dtype=torch.int32,
)  # fmt: skip
binary("shift", "`>>` of negative integers keeps the sign", [-8, 8], [1, 1], ">>", [-4, 4], dtype=torch.int32)
binary("bf16_sum", "bfloat16 + bfloat16", draw(16), draw(16, 1), "+", exact, dtype=torch.bfloat16)
binary("fp16_sum", "float16 + float16", draw(16), draw(16, 1), "+", exact, dtype=torch.float16)
binary(
    "division", "float32 `/`, last bit", draw(256), draw(256, 1), "/",
    lambda a, b: a / b,
)  # fmt: skip
binary("div_rn", "`tl.div_rn`, last bit", draw(256), draw(256, 1), "div_rn", lambda a, b: a / b)
binary(
    "fused", "`a * a - b` rounded twice (not fused)", [1 + 2**-12] * 2, [1 + 2**-11] * 2, "a * a - b",
    [0, 0],
)  # fmt: skip
binary("max_nan", "`tl.maximum` with a NaN: the number", *pairs, "max", [1, 1, 3, nan, 8, 4, 7, 8])
binary(
    "max_nan_all", "`tl.maximum(…, propagate_nan=ALL)`", *pairs, "max, NaN wins", [nan, nan, 3, nan, 8, 4, 7, 8],
)  # fmt: skip
binary(
    "where_nan", "`tl.where(a > b, a, b)` with a NaN: b", *pairs, "where", [nan, 1, 3, nan, 8, 4, 7, 8],
)  # fmt: skip


# --8<-- [start:cast]
@triton.jit
def cast_kernel(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.load(x_ptr + i))  # which casts to the type that it stores
# --8<-- [end:cast]


def cast(name, title, x, source, target, expected):
    def run(device):
        x_ = torch.as_tensor(x, dtype=torch.float64 if source.is_floating_point else torch.int64).to(source).to(device)
        out = torch.zeros(len(x_), dtype=target, device=device)
        cast_kernel[(1,)](x_, out, len(x_))
        return out, expected

    run.__name__ = name
    feature("numbers", title)(run)


E4M3, E5M2, BF16, FP16, FP32 = torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16, torch.float16, torch.float32
cast("to_int", "float32 → int32, toward zero", [2.7, -2.7, 0.5, -0.5], FP32, torch.int32, [2, -2, 0, 0])
cast("to_int_large", "float32 → int32, out of range", [1e10, -1e10], FP32, torch.int32, None)
cast("to_int_nan", "float32 → int32, NaN", [nan, nan], FP32, torch.int32, None)
cast("to_uint8_negative", "float32 → uint8, negative", [-1.5, -3.0], FP32, torch.uint8, None)
cast("to_uint8_large", "float32 → uint8, above 255", [300.0, 1000.0], FP32, torch.uint8, None)
cast("to_bf16_large", "float32 → bfloat16, the largest", [3.4e38], FP32, BF16, [inf])
cast("to_int8", "int32 → int8 wraps", [300, -129], torch.int32, torch.int8, [44, 127])
cast("int_to_float", "int32 → float32, to nearest even", [2**24 + 1, 2**24 + 3], torch.int32, FP32, [2**24, 2**24 + 4])
# Halfway between two neighbors, twice, and just beside that.
cast(
    "to_bf16", "float32 → bfloat16, to nearest even", [1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, -1 - 2**-8],
    FP32, BF16, [1, 1 + 2**-6, 1 + 2**-7, -1],
)  # fmt: skip
cast(
    "to_fp16", "float32 → float16, to nearest even", [1 + 2**-11, 1 + 3 * 2**-11, 1 + 2**-11 + 2**-20, 1e5],
    FP32, FP16, [1, 1 + 2**-9, 1 + 2**-10, inf],
)  # fmt: skip
cast(
    "to_e4m3", "float32 → float8e4nv, to nearest even", [1 + 2**-4, 1 + 3 * 2**-4, 1 + 2**-4 + 2**-20, -440],
    FP32, E4M3, [1, 1.25, 1.125, -448],
)  # fmt: skip
cast("to_e4m3_large", "float32 → float8e4nv, above 448", [500, 1e5], FP32, E4M3, None)
cast(
    "to_e5m2", "float32 → float8e5, to nearest even", [1 + 2**-3, 1 + 3 * 2**-3, 1 + 2**-3 + 2**-20, -3],
    FP32, E5M2, [1, 1.5, 1.25, -3],
)  # fmt: skip
cast("from_e4m3", "float8e4nv → float32", [0.5, -1.125, 448, 2**-9], E4M3, FP32, [0.5, -1.125, 448, 2**-9])
cast("from_e5m2", "float8e5 → float32", [0.5, -1.25, 57344, 2**-16], E5M2, FP32, [0.5, -1.25, 57344, 2**-16])


@triton.jit
def dot_kernel(a_ptr, b_ptr, out_ptr, PRECISION: tl.constexpr, K: tl.constexpr):
    i, k = tl.arange(0, 16), tl.arange(0, K)
    a = tl.load(a_ptr + i[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * 16 + i[None, :])
    out = tl.dot(a, b, input_precision=PRECISION)
    tl.store(out_ptr + i[:, None] * 16 + i[None, :], out)


def dot(name, title, dtype, precision=None, tolerance=1e-6):
    def run(device):
        integer = not dtype.is_floating_point
        generator = torch.Generator().manual_seed(0)
        a, b = (
            torch.randint(-100, 100, shape, generator=generator).to(dtype) if integer
            else (torch.rand(shape, generator=generator) + 0.5).to(dtype)
            for shape in ((16, 32), (32, 16))
        )  # fmt: skip
        out = torch.zeros(16, 16, dtype=torch.int32 if integer else torch.float32, device=device)
        dot_kernel[(1,)](a.to(device), b.to(device), out, precision, 32)
        return out, a.double() @ b.double(), tolerance

    run.__name__ = f"dot_{name}"
    feature("numbers", title)(run)


dot("ieee", "`tl.dot`, float32, `ieee`", torch.float32, "ieee")
dot("tf32", "`tl.dot`, float32, `tf32`, within 1e-6", torch.float32, "tf32")
dot("fp16", "`tl.dot`, float16", torch.float16)
dot("bf16", "`tl.dot`, bfloat16", torch.bfloat16)
dot("e4m3", "`tl.dot`, float8e4nv", E4M3)
dot("e5m2", "`tl.dot`, float8e5", E5M2)
dot("int8", "`tl.dot`, int8", torch.int8, tolerance=0.0)


@triton.jit
def sum_kernel(x_ptr, out_ptr, N: tl.constexpr, DTYPE: tl.constexpr):
    tl.store(out_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, N)), axis=0, dtype=DTYPE))


def summed(name, title, x, dtype, expected, tolerance=0.0, adds_in=None):
    def run(device):
        x_ = torch.as_tensor(x).to(dtype).to(device)
        out = torch.zeros(1, dtype=FP32, device=device)
        sum_kernel[(1,)](x_, out, len(x_), adds_in)
        return out, expected if expected is not None else x_.double().sum(), tolerance

    run.__name__ = name
    feature("numbers", title)(run)


summed("sum_fp16", "`tl.sum` of 4,096 float16, within 0.1 %", 0.1 * draw(4096), FP16, None, 1e-3)
uniform = torch.rand(1024, generator=torch.Generator().manual_seed(0)).to(BF16)  # between 0 and 1
rounded_once = uniform.double().sum().to(BF16)
summed("sum_bf16", "`tl.sum` of 1,024 bfloat16: rounded once", uniform, BF16, rounded_once)
summed("sum_bf16_fp32", "`tl.sum(x, dtype=tl.float32)` of the same, within 1e-6", uniform, BF16, None, 1e-6, tl.float32)
summed("sum_fp32", "`tl.sum` of 4,096 float32, within 1e-6", draw(4096), FP32, None, 1e-6)
summed("sum_int8", "`tl.sum` of int8 in 32 bits", [100] * 64, torch.int8, [6400])


@triton.jit
def extreme_kernel(x_ptr, out_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(out_ptr, tl.max(x, axis=0))
    tl.store(out_ptr + 1, tl.min(x, axis=0))


@feature("numbers", "`tl.max` and `tl.min` of a block with a NaN: the numbers'")
def extreme_nan(device):
    x, out = torch.tensor([1, nan, 3, 2], device=device), torch.zeros(2, device=device)
    extreme_kernel[(1,)](x, out, 4)
    return out, [3, 1]


@triton.jit
def math_kernel(x_ptr, out_ptr, FUNCTION: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    if FUNCTION == "exp":
        out = tl.exp(x)
    elif FUNCTION == "log":
        out = tl.log(x)
    elif FUNCTION == "sin":
        out = tl.sin(x)
    elif FUNCTION == "sqrt":
        out = tl.sqrt(x)
    else:
        out = tl.sqrt_rn(x)
    tl.store(out_ptr + i, out)


def function(name, title, low, high, tolerance):
    def run(device):
        x = torch.linspace(low, high, 1024, dtype=FP32, device=device)
        out = torch.zeros(1024, device=device)
        math_kernel[(1,)](x, out, name, 1024)
        right = getattr(torch, name.removesuffix("_rn"))(x.double())
        return out, right if tolerance else right.float(), tolerance

    run.__name__ = f"math_{name}"
    feature("numbers", title)(run)


function("exp", "`tl.exp` of −10 … 10, within 1e-6", -10, 10, 1e-6)
function("log", "`tl.log` of 2 … 100, within 1e-6", 2, 100, 1e-6)
function("sin", "`tl.sin` of 0.1 … 3, within 1e-6", 0.1, 3, 1e-6)
function("sqrt", "`tl.sqrt`, last bit", 0.1, 100, 0.0)
function("sqrt_rn", "`tl.sqrt_rn`, last bit", 0.1, 100, 0.0)


if __name__ == "__main__":
    main(__file__, "numbers")
