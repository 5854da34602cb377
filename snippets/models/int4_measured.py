# SPDX-License-Identifier: Apache-2.0
"""Weights of 4 bits, measured: how much faster than a bfloat16 weight they multiply, and from how many rows on slower.

- :func:`by_rows`: microseconds of ``int4.py`` in 4 and in 8 bits, beside ``torch.matmul`` of the weight in bfloat16 and
  torch's own product of 4 bits, from 1 row to 512
- :func:`ways`: the same of ``int4.py`` alone, with numbers unpacked in pairs and one by one
- :func:`times`: microseconds of more weights, with few rows, and the speed as a share of cuBLAS's
- :func:`bandwidth`: bytes of the packed weight in a second, and as a share of what a copy of it reads and writes
- :func:`errors`: how far the results are from those of float64 of the same packed weight

Groups of 128, ``x`` in bfloat16. All sides run in turns, each on weights of its own in rotation, so that none is in
the cache, all calls in one CUDA graph (``snippets/tools/benchmarking_cold.py``). The weights that are timed are random
bits; before, the results for one real weight were compared with float64. The copy is timed by itself in the same run.

Units: microseconds; GB/s of 10**9 bytes, of a product those of the words and the scales, of a copy twice as many.
Source: ``torch.matmul`` calls cuBLAS; ``torch.ops.aten._weight_int4pack_mm`` is tinygemm's kernel.

``python int4_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools

import torch
import triton

from snippets.models.int4 import Packed, int4_matmul, product, quantize, unpacked
from snippets.tools.benchmarking import Timing, compare
from snippets.tools.benchmarking_cold import Rotation, compare_in_rotation, empty, operands_in_rotation

GROUP = 128
ROWS, FEW = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512), (1, 2, 4, 8, 16)
DOWN, UP = (4096, 14336), (14336, 4096)  # of Llama 8B
OTHERS = ((4096, 4096), (28672, 4096))
SHAPES = [(m, *weight) for weight in (DOWN, UP) for m in FEW] + [(m, *weight) for weight in OTHERS for m in (1, 16)]
NAMED = {f"{m} × {n} × {k}": (m, n, k) for m, n, k in SHAPES}


# --8<-- [start:sides]
def for_torch(weight: Packed) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a weight of 4 bits as torch's product takes it: ``scale * (q - 8) + zero``, with both in bfloat16."""
    scale, zero = (weight.scales & ~0xFF).view(torch.float32), weight.scales & 0xFF
    q = torch.stack([weight.words >> place & 15 for place in (0, 4, 8, 12)], 2)  # (blocks, n, parts, words)
    q = q.flatten(2).transpose(0, 1).flatten(1).to(torch.uint8)
    words = torch.ops.aten._convert_weight_to_int4pack(q[:, ::2] << 4 | q[:, 1::2], 8)
    return words, torch.stack([scale, scale * (8 - zero)], 2).bfloat16()


def torch_int4(x: torch.Tensor, words: torch.Tensor, scales_and_zeros: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten._weight_int4pack_mm(x, words, GROUP, scales_and_zeros)


def random_weight(N: int, K: int, bits: int = 4) -> Packed:
    """Return a packed weight of random bits."""
    words = torch.randint(-(2**15), 2**15, (K // 128, N, 8 * bits), device="cuda", dtype=torch.int16)
    scales = torch.rand(K // GROUP, N, device="cuda").view(torch.int32) & ~0xFF | 2 ** (bits - 1)
    return Packed(words, scales, N, K, bits, GROUP)


def packed_again(words: torch.Tensor, scales: torch.Tensor) -> Packed:
    blocks, n, wide = words.shape
    return Packed(words, scales, n, 128 * blocks, wide // 8, GROUP)


# By side: the tensors of a weight of random numbers, and the product of x and these.
SIDES = {
    "int4": (random_weight, lambda x, *weight: int4_matmul(x, packed_again(*weight))),
    "plain": (random_weight, lambda x, *weight: product(x, packed_again(*weight), pairs=False)),
    "int8": (functools.partial(random_weight, bits=8), lambda x, *weight: int4_matmul(x, packed_again(*weight))),
    "torch": (lambda N, K: for_torch(random_weight(N, K)), torch_int4),
    "cublas": (
        lambda N, K: (torch.randn(N, K, device="cuda", dtype=torch.bfloat16),), lambda x, weight: x @ weight.t(),
    ),
}  # fmt: skip
# --8<-- [end:sides]


# --8<-- [start:measure]
@functools.cache
def sets_of(side: str, N: int, K: int) -> list[tuple[torch.Tensor, ...]]:
    """Return weights, so many that each has left the cache when its turn comes again."""
    torch.manual_seed(0)
    make = lambda: tuple(each for each in SIDES[side][0](N, K) if isinstance(each, torch.Tensor))
    return operands_in_rotation(make)


def sides_of(M: int, N: int, K: int) -> list[str]:
    """Return what is measured: for one weight also 8 bits, and with 1 and 16 rows the plain way."""
    more = ["int8"] * ((N, K) == DOWN) + ["plain"] * ((N, K) == DOWN and M in (1, 16))
    return ["int4", "torch", "cublas", *more]


@functools.cache
def measure(M: int, N: int, K: int) -> dict[str, Timing]:
    """Return the milliseconds of each side, and of a kernel that does nothing: no reading is shorter."""
    x = torch.randn(M, K, device="cuda", dtype=torch.bfloat16)
    ready = {"empty": Rotation(empty, [()] * 8)}
    for side in sides_of(M, N, K):
        ready[side] = Rotation(functools.partial(SIDES[side][1], x), sets_of(side, N, K))
    return compare(ready, rounds=3, timer=lambda rotation: rotation.milliseconds())


@functools.cache
def measure_copy(size: int) -> Timing:
    """Return the milliseconds of copying so many bytes; the target rotates, too, or it would stay in L2."""
    copy = lambda source, target: target.copy_(source)
    make = lambda: torch.randint(2**31, (2, size // 4), device="cuda", dtype=torch.int32).unbind()
    return compare_in_rotation({"copy": copy}, make, rounds=3)["copy"]


@functools.cache
def measure_errors(M: int, N: int, K: int) -> dict[str, float]:
    """Return how far each result is from ``x @ W.T`` in float64, as a share of its norm, for the ``W`` it was given."""
    torch.manual_seed(0)
    x = torch.randn(M, K, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(N, K, device="cuda", dtype=torch.bfloat16)
    packed = {bits: quantize(weight, bits=bits) for bits in (4, 8)}
    given = {"int4": packed[4][:2], "plain": packed[4][:2], "int8": packed[8][:2], "torch": for_torch(packed[4])}
    found = {}
    for side, (_, run) in SIDES.items():
        of = weight if side == "cublas" else unpacked(packed[8 if side == "int8" else 4])
        exact = x.double() @ of.double().t()
        result = run(x, *given.get(side, (weight,)))
        found[side] = ((result - exact).norm() / exact.norm()).item()
    exact = x.double() @ weight.double().t()
    for bits, packing in packed.items():  # what 4 or 8 bits cost, whoever multiplies
        found[f"rounded_{bits}"] = ((x.double() @ unpacked(packing).double().t() - exact).norm() / exact.norm()).item()
    return found


def bytes_of(N: int, K: int, bits: int = 4) -> int:
    """Return the bytes of a packed weight: of its words and of its scales.

    >>> bytes_of(4096, 14336) / 1e6, 2 * 4096 * 14336 / 1e6
    (31.195136, 117.440512)
    """
    return N * K * bits // 8 + 4 * N * (K // GROUP)
# --8<-- [end:measure]


NAMES = {
    "int4": "4 bits",
    "plain": "4 bits, one by one",
    "int8": "8 bits",
    "torch": "torch, 4 bits",
    "cublas": "cuBLAS, bfloat16",
    "empty": "empty kernel",
}


def microseconds(timing: Timing) -> tuple[float, float, float]:
    return tuple(1e3 * ms for ms in (timing.median, min(timing.rounds), max(timing.rounds)))


# --8<-- [start:tables]
@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="by_rows",
        x_names=["rows"],
        x_vals=list(ROWS),
        x_log=True,
        y_log=True,
        xlabel="rows of x",
        ylabel="µs",
        line_arg="what",
        line_vals=["int4", "int8", "torch", "cublas", "empty"],
        line_names=[NAMES[side] for side in ("int4", "int8", "torch", "cublas", "empty")],
        args={},
    )
)
def by_rows(rows, what):
    """Microseconds of products with a weight of 4096 × 14336: median, fastest and slowest of 3 rounds."""
    return microseconds(measure(rows, *DOWN)[what])


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="ways",
        x_names=["rows"],
        x_vals=[1, 16],
        xlabel="rows of x",
        ylabel="µs",
        line_arg="what",
        line_vals=["int4", "plain", "int8"],
        line_names=["4 bits, in pairs", "4 bits, one by one", "8 bits, in pairs"],
        args={},
    )
)
def ways(rows, what):
    """Microseconds with a weight of 4096 × 14336: median, fastest and slowest of 3 rounds."""
    return microseconds(measure(rows, *DOWN)[what])


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="times",
        x_names=["shape"],
        x_vals=list(NAMED),
        xlabel="M × N × K",
        ylabel="µs",
        line_arg="what",
        line_vals=["int4", "torch", "cublas", "share"],
        line_names=["4 bits", "torch, 4 bits", "cuBLAS, bfloat16", "4 bits, speed as a share of cuBLAS"],
        args={},
    )
)
def times(shape, what):
    """Microseconds, median, fastest and slowest of 3 rounds; and cuBLAS's time by that of 4 bits."""
    found = measure(*NAMED[shape])
    return found["cublas"].median / found["int4"].median if what == "share" else microseconds(found[what])


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="bandwidth",
        x_names=["shape"],
        x_vals=list(NAMED),
        xlabel="M × N × K",
        ylabel="GB/s",
        line_arg="what",
        line_vals=["int4", "copy", "share"],
        line_names=["4 bits", "copy", "4 bits, share of copy"],
        args={},
    )
)
def bandwidth(shape, what):
    """Bytes of the packed weight in a second; of a copy of it those read and written; and the first as a share."""
    M, N, K = NAMED[shape]
    size = bytes_of(N, K)
    rates = {"int4": measure(M, N, K)["int4"].rate(size), "copy": measure_copy(size).rate(2 * size)}
    return rates["int4"][0] / rates["copy"][0] if what == "share" else rates[what]


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="errors",
        x_names=["shape"],
        x_vals=["16 × 4096 × 14336"],
        xlabel="M × N × K",
        ylabel="error",
        line_arg="what",
        line_vals=[*SIDES, "rounded_4", "rounded_8"],
        line_names=[*(NAMES[side] for side in SIDES), "rounding to 4 bits", "rounding to 8 bits"],
        args={},
    )
)
def errors(shape, what):
    """Distance from float64 of the same rounded weight, as a share of the result's norm; and what rounding it costs."""
    return measure_errors(*NAMED[shape])[what]
# --8<-- [end:tables]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (by_rows, ways, times, bandwidth, errors):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
