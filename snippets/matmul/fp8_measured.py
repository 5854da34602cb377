# SPDX-License-Identifier: Apache-2.0
"""8-bit products against ``torch._scaled_mm``, measured, with fast sums and without, by tensor and by rows.

- ``tensorwise``, ``rowwise``: TFLOP/s by size; like is compared with like: both sides add up fast, or both do not
- ``ways``: what sums in float32 (its lines call them exact) cost: two tiles, each with these and with fast sums
- ``option``: what ``tl.dot(..., max_num_imprecise_acc=128)`` costs, which leaves to the compiler what we write out
- ``sums``: what each of the four, and that option, is off by when sums are long and of one sign
- ``signs``: the same with numbers of both signs

Random numbers, quantized to float8_e4m3fn before the clock runs; the result is bfloat16. TFLOP/s count 2 * n**3, on
operands in rotation. For ``sums`` the numbers lie between 0 and 1, so that sums grow,
for ``signs`` they are normal, so that most of a sum cancels. There is one scale each, and the result is float32; errors
are against the product in float64 of the 8-bit numbers, so that what is left is how they are added up.

Source of the option: its pull request, https://github.com/triton-lang/triton/pull/2300; it is for 8 bits on Hopper.

``python fp8_measured.py`` says what there is to measure; measuring needs a GPU with matrix units for 8 bits.
"""

import functools

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from snippets.matmul.fp8 import Config, multiprocessors, position, quantize, scale_and_store, scaled_matmul
from snippets.matmul.precision import relative_error
from snippets.tools.benchmarking_cold import rates

SIZES = [1024, 2048, 4096, 8192, 16384]


# --8<-- [start:speed]
def products(out_dtype):
    """Return ``{side: function of operands}``: torch and ours, each with sums in float32 and with fast sums."""
    in_torch = functools.partial(torch._scaled_mm, out_dtype=out_dtype)
    ours = functools.partial(scaled_matmul, out_dtype=out_dtype)
    return {
        "torch": functools.partial(in_torch, use_fast_accum=False),
        "ours": ours,
        "torch_fast": functools.partial(in_torch, use_fast_accum=True),
        "ours_fast": functools.partial(ours, use_fast_accum=True),
    }


def operands(n, by_rows=False):
    """Return ``a``, ``b`` and their scales: one each, or one for each row of a and each column of b."""
    a, scale_a = quantize(torch.randn(n, n, device="cuda"), dim=1 if by_rows else None)
    b, scale_b = quantize(torch.randn(n, n, device="cuda").T, dim=0 if by_rows else None)
    return a, b, scale_a, scale_b


@functools.lru_cache(maxsize=1)
def measure_speed(n, by_rows):
    return rates(products(torch.bfloat16), lambda: operands(n, by_rows), 2 * n**3)


SIDES = {
    "torch": "torch._scaled_mm",
    "ours": "scaled_matmul",
    "torch_fast": "torch._scaled_mm, fast sums",
    "ours_fast": "scaled_matmul, fast sums",
}


def benchmark(name, sizes):
    return triton.testing.Benchmark(
        plot_name=name,
        x_names=["n"],
        x_vals=sizes,
        x_log=True,
        xlabel="M = N = K",
        ylabel="TFLOP/s",
        line_arg="side",
        line_vals=list(SIDES),
        line_names=list(SIDES.values()),
        args={},
    )


@triton.testing.perf_report(benchmark("tensorwise", SIZES))
def tensorwise(n, side):
    """TFLOP/s with one scale for a and one for b: median, slowest and fastest of 4 rounds in turns."""
    return measure_speed(n, False)[side]


@triton.testing.perf_report(benchmark("rowwise", SIZES[2:]))
def rowwise(n, side):
    """TFLOP/s with a scale for each row of a and each column of b: median, slowest and fastest of 4 rounds."""
    return measure_speed(n, True)[side]
# --8<-- [end:speed]


# --8<-- [start:ways]
WAYS = {  # config, and whether sums are fast
    "wide_fast": (Config((128, 256, 128), 2, 8, 4), True),
    "small_fast": (Config((128, 128, 128), 2, 4, 3, flatten=False, per_sm=2), True),
    "small": (Config((128, 128, 128), 2, 4, 3, flatten=False, per_sm=2), False),
    "wide": (Config((256, 128, 128), 2, 8, 4), False),
}


@functools.lru_cache(maxsize=1)
def measure_ways(n):
    run = lambda config, fast: functools.partial(scaled_matmul, use_fast_accum=fast, config=config)
    return rates({way: run(*how) for way, how in WAYS.items()}, lambda: operands(n), 2 * n**3)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="ways",
        x_names=["n"],
        x_vals=SIZES[2:],
        x_log=True,
        xlabel="M = N = K",
        ylabel="TFLOP/s",
        line_arg="way",
        line_vals=list(WAYS),
        line_names=[
            "fast sums, 128 × 256, a program per multiprocessor",
            "fast sums, 128 × 128, two",
            "exact sums, 128 × 128, two",
            "exact sums, 256 × 128, one",
        ],
        args={},
    )
)
def ways(n, way):
    """TFLOP/s by tile and by sums: median, slowest and fastest of 4 rounds in turns."""
    return measure_ways(n)[way]
# --8<-- [end:ways]


# --8<-- [start:option]
@triton.jit
def option_kernel(
    a_desc, b_desc, c_desc, scale_a_ptr, scale_b_ptr, M, N, K, FLATTEN: tl.constexpr, PARTS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), flatten=FLATTEN):
        pid_m, pid_n = position(tile, tiles_m, tiles_n, GROUP_M)
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in range(0, K, BLOCK_K):
            a = a_desc.load([pid_m * BLOCK_M, k])
            b = b_desc.load([pid_n * BLOCK_N, k])
            acc = tl.dot(a, b.T, acc, max_num_imprecise_acc=128)  # at most BLOCK_K
        scale_and_store(
            acc, pid_m * BLOCK_M, pid_n * BLOCK_N, c_desc, scale_a_ptr, scale_b_ptr, M, N, 0, 0,
            BLOCK_M, BLOCK_N, PARTS,
        )  # fmt: skip


def with_option(a, b, scale_a, scale_b, out_dtype, config):
    """Compute as ``scaled_matmul``, with one scale each, and only rows of ``a`` and columns of ``b`` without gaps."""
    (M, K), N, (block_m, block_n, block_k) = a.shape, b.shape[1], config.block
    c = torch.empty(M, N, dtype=out_dtype, device=a.device)
    described = TensorDescriptor.from_tensor
    tiles = triton.cdiv(M, block_m) * triton.cdiv(N, block_n)
    option_kernel[(min(tiles, multiprocessors(a.device) * config.per_sm),)](
        described(a, [block_m, block_k]),
        described(b.T, [block_n, block_k]),
        described(c, [block_m, block_n // config.parts]),
        scale_a, scale_b, M, N, K, FLATTEN=config.flatten, PARTS=config.parts,
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUP_M=config.group,
        num_warps=config.num_warps, num_stages=config.num_stages,
    )  # fmt: skip
    return c


OPTION = {  # that of ours, and one of more warps, whose threads need half as many registers
    "option": Config((128, 128, 128), 2, 4, 3, flatten=False, per_sm=2),
    "option_8": Config((128, 128, 128), 2, 8, 4),
}


@functools.lru_cache(maxsize=1)
def measure_option(n):
    sides = {side: run for side, run in products(torch.bfloat16).items() if side in ("torch", "ours")}
    sides |= {
        side: functools.partial(with_option, out_dtype=torch.bfloat16, config=config)
        for side, config in OPTION.items()
    }
    return rates(sides, lambda: operands(n), 2 * n**3)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="option",
        x_names=["n"],
        x_vals=SIZES[2:4],
        x_log=True,
        xlabel="M = N = K",
        ylabel="TFLOP/s",
        line_arg="side",
        line_vals=["torch", "ours", *OPTION],
        line_names=[
            "torch._scaled_mm",
            "scaled_matmul",
            "max_num_imprecise_acc=128, the tile of scaled_matmul",
            "max_num_imprecise_acc=128, 8 warps",
        ],
        args={},
    )
)
def option(n, side):
    """TFLOP/s with sums in float32, one scale each: median, slowest and fastest of 4 rounds in turns."""
    return measure_option(n)[side]
# --8<-- [end:option]


# --8<-- [start:sums]
@functools.lru_cache(maxsize=1)
def measure_sums(K, M, N, both_signs):
    torch.manual_seed(K)
    numbers = torch.randn if both_signs else torch.rand
    a, scale_a = quantize(numbers(M, K, device="cuda"))
    b, scale_b = quantize(numbers(N, K, device="cuda").T)
    exact = (a.double() * scale_a) @ (b.double() * scale_b)
    found = products(torch.float32)
    config = OPTION["option"]._replace(parts=4)  # float32 takes more room
    found["option"] = functools.partial(with_option, out_dtype=torch.float32, config=config)
    return {side: relative_error(product(a, b, scale_a, scale_b), exact) for side, product in found.items()}


def errors(name):
    return triton.testing.Benchmark(
        plot_name=name,
        x_names=["K"],
        x_vals=[2**k for k in range(7, 18, 2)],
        x_log=True,
        y_log=True,
        xlabel="K",
        ylabel="error",
        line_arg="side",
        line_vals=["torch", "ours", "option", "torch_fast", "ours_fast"],
        line_names=[
            "torch._scaled_mm",
            "scaled_matmul",
            "max_num_imprecise_acc=128",
            "torch._scaled_mm, fast sums",
            "scaled_matmul, fast sums",
        ],
        args={"M": 256, "N": 256},
    )


@triton.testing.perf_report(errors("sums"))
def sums(K, side, M, N):
    """Relative error of sums of positive numbers, against the product in float64 of the 8-bit numbers."""
    return measure_sums(K, M, N, False)[side]


@triton.testing.perf_report(errors("signs"))
def signs(K, side, M, N):
    """Relative error of sums of numbers of both signs, against the product in float64 of the 8-bit numbers."""
    return measure_sums(K, M, N, True)[side]
# --8<-- [end:sums]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (tensorwise, rowwise, ways, option, sums, signs):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
