# SPDX-License-Identifier: Apache-2.0
"""8-bit products with a scale for each block, measured: how fast, how exact, and what quantizing costs.

- :func:`times`: microseconds of ``block_scales.py``, beside cuBLAS with the same scales, with one for each tensor, and
  in bfloat16; and the speed as a share of cuBLAS's with one scale
- :func:`few`: the same of ``block_scales_few_rows.py``, with 4 to 64 rows
- :func:`promoting`: how far sums of positive numbers are off if they leave the matrix units after 128, 256, 512 or
  1,024 products, or never; :func:`promoting_signs`: of numbers of both signs
- :func:`padded`: how far ``torch._scaled_mm`` is off where K / 128 is no multiple of 4
- :func:`formats`: how far a product is off by one scale, by scales for rows, blocks, and groups, where one column
  of ``x`` is larger than the rest
- :func:`norms`: microseconds of an RMS norm whose result is quantized, in one kernel and in several
- :func:`emulated`: TFLOP/s of ``scaled_dot.py`` on this GPU

What is compared in time runs in turns, on operands in rotation, so that none is in the cache, all calls in one CUDA
graph (``snippets/tools/benchmarking_cold.py``). Weights and activations are quantized before the clock runs, but in
``norms``. Both sides of ``promoting`` multiply the same 8-bit numbers; the error is that of adding alone.

Units: microseconds; TFLOP/s of 2 * M * N * K; GB/s of 10**9 bytes; errors are ‖y − exact‖ / ‖exact‖ in float64.
Source: ``torch._scaled_mm`` calls cuBLAS; its scales for blocks are for Hopper.

``python block_scales_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from snippets.library.norms import rms_norm
from snippets.matmul import fp8
from snippets.matmul.precision import relative_error
from snippets.models import block_scales, block_scales_few_rows, block_scales_gluon, scaled_dot
from snippets.models.block_scales import E4M3, block_scaled_matmul, dequantize, norm_and_quantize, quantize_weight
from snippets.tools.benchmarking import Timing
from snippets.tools.benchmarking_cold import compare_in_rotation, rates

ROWS, WEIGHTS = (16, 128, 4096), ((7168, 2048), (4096, 14336), (7168, 18432))
shapes = lambda rows: {f"{m} × {n} × {k}": (m, n, k) for m in rows for n, k in WEIGHTS}
SHAPES, FEW = shapes(ROWS), shapes((4, 16, 64))


# --8<-- [start:sides]
def operands(M: int, N: int, K: int) -> tuple[torch.Tensor, ...]:
    """Return x and w in 8 bits, their scales as cuBLAS reads them, one scale, and both in bfloat16."""
    x, w = (torch.randn(rows, K, device="cuda", dtype=torch.bfloat16) for rows in (M, N))
    return *block_scales.quantize(x), *quantize_weight(w), torch.ones((), device="cuda"), x, w


def late(q, scales, w, w_scales) -> torch.Tensor:
    """Return the product by the kernel whose scales are loaded in the step that needs them."""
    config = block_scales.choose_config(len(q), len(w), block_scales.multiprocessors(q.device))
    return block_scales.product(q, w, scales, w_scales, torch.bfloat16, config=config._replace(ahead=False))


# By side: the product of what ``operands`` returns.
SIDES = {
    "ours": lambda q, s, w, ws, *_: block_scaled_matmul(q, w, s, ws),
    "late": lambda q, s, w, ws, *_: late(q, s, w, ws),
    "gluon": lambda q, s, w, ws, *_: block_scales_gluon.block_scaled_matmul(q, w, s, ws),
    "torch": lambda q, s, w, ws, *_: torch._scaled_mm(q, w.t(), s, ws.t(), out_dtype=torch.bfloat16),
    "one": lambda q, s, w, ws, one, *_: torch._scaled_mm(q, w.t(), one, one, out_dtype=torch.bfloat16),
    "one_fast": lambda q, s, w, ws, one, *_: torch._scaled_mm(
        q, w.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=True
    ),
    "bfloat16": lambda q, s, w, ws, one, x, weight: x @ weight.t(),
}
FEW_SIDES = {
    "split": lambda q, s, w, ws, *_: block_scales_few_rows.block_scaled_few_rows(q, w, s, ws),
    **{side: SIDES[side] for side in ("ours", "torch", "one", "bfloat16")},
}
NAMES = {
    "split": "blocks, Triton, split along K",
    "ours": "blocks, Triton",
    "late": "blocks, Triton, scales loaded late",
    "gluon": "blocks, Gluon",
    "torch": "blocks, cuBLAS",
    "one": "one scale, cuBLAS",
    "one_fast": "one scale, fast sums, cuBLAS",
    "bfloat16": "bfloat16, cuBLAS",
}
# --8<-- [end:sides]


@functools.cache
def measure(M: int, N: int, K: int) -> dict[str, Timing]:
    """Return the milliseconds of each side."""
    torch.manual_seed(0)
    make = functools.partial(operands, M, N, K)
    return compare_in_rotation(SIDES, make, rounds=3, steady=2 * M * N * K > 1e11)


@functools.cache
def measure_few(M: int, N: int, K: int) -> dict[str, Timing]:
    """Return the milliseconds of each side, with few rows."""
    torch.manual_seed(0)
    return compare_in_rotation(FEW_SIDES, functools.partial(operands, M, N, K), rounds=3)


# --8<-- [start:promoting]
@triton.jit
def promoting_kernel(x, w, y, K, every, BLOCK: tl.constexpr):
    m, n = tl.program_id(axis=0) * BLOCK, tl.program_id(axis=1) * BLOCK
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k in range(0, K, every):
        # The matrix units add to part; it leaves them, and acc gets it.
        part = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
        for more in range(0, every, 128):
            a, b = x.load([m, k + more]), w.load([n, k + more])
            part = tl.dot(a, b.T, part)
        acc += part
    y.store([m, n], acc)
# --8<-- [end:promoting]


def promoted(x: torch.Tensor, w: torch.Tensor, every: int) -> torch.Tensor:
    """Return ``x @ w.T`` of 8-bit numbers in float32, whose sums leave the matrix units after so many products."""
    y = torch.empty(len(x), len(w), device=x.device)
    described = lambda t, block: TensorDescriptor(t, list(t.shape), list(t.stride()), block)
    promoting_kernel[(len(x) // 64, len(w) // 64)](
        described(x, [64, 128]), described(w, [64, 128]), described(y, [64, 64]), x.shape[1], every,
        BLOCK=64, num_warps=4,
    )  # fmt: skip
    return y


EVERY = (128, 256, 512, 1024)


@functools.cache
def measure_promoting(K: int, signs: bool) -> dict[str, float]:
    torch.manual_seed(0)
    make = torch.randn if signs else torch.rand
    x, w = (make(256, K, device="cuda").to(E4M3) for _ in range(2))
    exact = x.double() @ w.double().t()
    found = {str(every): relative_error(promoted(x, w, every), exact) for every in EVERY}
    return found | {"never": relative_error(promoted(x, w, K), exact)}


@functools.cache
def measure_padded(K: int) -> dict[str, float]:
    """Return how far products with scales for blocks are off what the same numbers and scales stand for."""
    torch.manual_seed(0)
    given = operands(256, 768, K)
    exact = dequantize(*given[:2]) @ dequantize(*given[2:4]).t()
    return {side: relative_error(SIDES[side](*given), exact) for side in ("ours", "torch")}


# --8<-- [start:formats]
@functools.cache
def measure_formats(times: int) -> dict[str, float]:
    """Return how far products are off that of the numbers before they were rounded, by what shares a scale.

    One column of x is so many times as large as the others, and meets weights of zero: what counts is the others.
    """
    torch.manual_seed(0)
    x, w = torch.randn(256, 4096, device="cuda"), torch.randn(512, 4096, device="cuda")
    x[:, 1000] *= times
    w[:, 1000] = 0
    exact = x.double() @ w.double().t()
    found = {}
    for name, (of_x, of_w) in {"tensor": (None, None), "row": (1, 0)}.items():
        (a, scale_a), (b, scale_b) = fp8.quantize(x, dim=of_x), fp8.quantize(w.t(), dim=of_w)
        found[name] = relative_error(fp8.scaled_matmul(a, b, scale_a, scale_b, torch.float32), exact)
    (a, scale_a), (b, scale_b) = block_scales.quantize(x), quantize_weight(w)
    found["block"] = relative_error(block_scaled_matmul(a, b, scale_a, scale_b, torch.float32), exact)
    for name in scaled_dot.GROUP:
        a, b = scaled_dot.quantize(x, name), scaled_dot.quantize(w, name)
        found[name] = relative_error(scaled_dot.scaled_matmul(a, b, torch.float32), exact)
    return found
# --8<-- [end:formats]


# --8<-- [start:norms]
def in_torch(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return an RMS norm, quantized in groups of 128, as torch's operators make it."""
    y = torch.nn.functional.rms_norm(x, x.shape[1:], weight, 1e-6).float().unflatten(1, (-1, 128))
    scale = (y.abs().amax(2) / 448).clamp(min=1e-30)
    return (y / scale[:, :, None]).to(E4M3).flatten(1), scale


WIDTHS = {f"{m} × {k}": (m, k) for m, k in ((16, 7168), (4096, 7168))}


@functools.cache
def measure_norms(M: int, K: int) -> dict[str, Timing]:
    make = lambda: (
        torch.randn(M, K, device="cuda", dtype=torch.bfloat16), torch.randn(K, device="cuda", dtype=torch.bfloat16)
    )  # fmt: skip
    compiled = torch.compile(in_torch, dynamic=False)
    sides = {
        "fused": norm_and_quantize,
        "two": lambda x, weight: block_scales.quantize(rms_norm(x, weight, 1e-6)),
        "compiled": compiled,
        "torch": in_torch,
        "copy": lambda x, weight: x.clone(),
    }
    return compare_in_rotation(sides, make, rounds=3)
# --8<-- [end:norms]


@functools.cache
def measure_emulated(n: int) -> dict[str, tuple[float, float, float]]:
    """Return TFLOP/s with scales for groups, which this GPU may have to emulate, and with those for blocks."""
    torch.manual_seed(0)
    found = {}
    for name in scaled_dot.GROUP:
        make = lambda name=name: [
            part for _ in range(2) for part in scaled_dot.quantize(torch.randn(n, n, device="cuda"), name)[:3]
        ]
        of = lambda *parts, name=name: scaled_dot.scaled_matmul(
            scaled_dot.Scaled(*parts[:3], name), scaled_dot.Scaled(*parts[3:], name)
        )
        found |= rates({name: of}, make, 2 * n**3, rounds=3)
    few = {side: SIDES[side] for side in ("ours", "bfloat16")}
    return found | rates(few, lambda: operands(n, n, n), 2 * n**3, rounds=3)


def microseconds(timing: Timing) -> tuple[float, float, float]:
    return tuple(1e3 * ms for ms in (timing.median, min(timing.rounds), max(timing.rounds)))


# --8<-- [start:tables]
def benchmark(name, of, values, xlabel, ylabel, lines):
    return triton.testing.Benchmark(
        plot_name=name,
        x_names=[of],
        x_vals=list(values),
        xlabel=xlabel,
        ylabel=ylabel,
        line_arg="what",
        line_vals=list(lines),
        line_names=list(lines.values()),
        args={},
    )


@triton.testing.perf_report(
    benchmark("times", "shape", SHAPES, "M × N × K", "µs", {side: NAMES[side] for side in SIDES} | {
        "share": "Triton, speed as a share of one scale", "gluon_share": "Gluon, as a share of one scale",
    })
)
def times(shape, what):
    """Microseconds, median, fastest and slowest of 3 rounds; and the time with one scale by that of ours."""
    found = measure(*SHAPES[shape])
    shares = {"share": "ours", "gluon_share": "gluon"}
    return found["one"].median / found[shares[what]].median if what in shares else microseconds(found[what])


@triton.testing.perf_report(
    benchmark("few", "shape", FEW, "M × N × K", "µs", {side: NAMES[side] for side in FEW_SIDES} | {
        "share": "split, speed as a share of one scale", "bandwidth": "split, GB/s of the weight’s bytes",
    })
)
def few(shape, what):
    """The same with few rows, whose product is split along K."""
    (_, N, K), found = FEW[shape], measure_few(*FEW[shape])
    if what == "bandwidth":
        return N * K / found["split"].median / 1e6
    return found["one"].median / found["split"].median if what == "share" else microseconds(found[what])


OFTEN = {"128": "every 128", "256": "every 256", "512": "every 512", "1024": "every 1,024", "never": "never"}
LENGTHS = (1024, 2048, 4096, 8192, 16384)


@triton.testing.perf_report(benchmark("promoting", "K", LENGTHS, "K", "error", OFTEN))
def promoting(K, what):
    """How far sums of positive numbers are off, by how often they leave the matrix units."""
    return measure_promoting(K, False)[what]


@triton.testing.perf_report(benchmark("promoting_signs", "K", LENGTHS, "K", "error", OFTEN))
def promoting_signs(K, what):
    """The same of numbers of both signs."""
    return measure_promoting(K, True)[what]


@triton.testing.perf_report(
    benchmark("padded", "K", (1024, 1152), "K", "error", {side: NAMES[side] for side in ("ours", "torch")})
)
def padded(K, what):
    """How far products are off what the numbers and scales stand for; K / 128 is 8, and 9."""
    return measure_padded(K)[what]


SHARED = {
    "tensor": "a scale for a tensor",
    "row": "for a row",
    "block": "for a block",
    "mxfp8": "MXFP8",
    "mxfp4": "MXFP4",
    "nvfp4": "NVFP4",
}


@triton.testing.perf_report(
    benchmark("formats", "times", (1, 1_000, 100_000), "times as large", "error", SHARED)
)
def formats(times, what):
    """How far a product is off that of the numbers before rounding, by how much larger one column of 4,096 is."""
    return measure_formats(times)[what]


@triton.testing.perf_report(
    benchmark("norms", "shape", WIDTHS, "M × K", "µs", {
        "fused": "one kernel", "two": "two kernels", "compiled": "torch.compile", "torch": "torch",
        "copy": "copy of x", "share": "one kernel, GB/s as a share of a copy’s",
    })
)  # fmt: skip
def norms(shape, what):
    """Microseconds; and the bytes that one kernel reads and writes in a second, as a share of those of a copy."""
    found = measure_norms(*WIDTHS[shape])
    if what != "share":
        return microseconds(found[what])
    return (3 + 4 / 128) / 4 * found["copy"].median / found["fused"].median


@triton.testing.perf_report(
    benchmark("emulated", "n", (4096,), "M = N = K", "TFLOP/s", {
        "mxfp8": "MXFP8", "mxfp4": "MXFP4", "nvfp4": "NVFP4", "ours": "blocks, Triton", "bfloat16": "bfloat16, cuBLAS",
    })
)  # fmt: skip
def emulated(n, what):
    """TFLOP/s: median, slowest and fastest of 3 rounds."""
    return measure_emulated(n)[what]
# --8<-- [end:tables]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (times, few, promoting, promoting_signs, padded, formats, norms, emulated):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
