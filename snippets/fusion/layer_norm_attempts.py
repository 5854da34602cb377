# SPDX-License-Identifier: Apache-2.0
"""Layer norm, forward: what was tried to bring it nearer to a copy's speed where the rows are long, short or few.

A plain kernel waits three times in a row: for its row, for a first sum over it, which gives the mean, and
for a second one, which gives the variance. Only then does it ask for weight and bias.

- *weights first* asks for weight and bias before it sums, and has them when it needs them, at the cost of registers.
- *one sum* subtracts the row's first element instead of its mean, and adds up differences and their squares at once:
  mean = first + Σd/n and variance = Σd²/n − (Σd/n)². The closer first is to the mean, the less the subtraction loses.
- more or fewer warps than one for every 512 elements.

Shapes: ``x`` is (rows, columns), contiguous, float32, float16 or bfloat16; weight and bias (columns,), of its dtype.
Computed in float32. Bytes: each element of ``x`` read once, and of the result written once.
Source: the shifted sums are of T. F. Chan, G. H. Golub, R. J. LeVeque, Algorithms for Computing the Sample Variance,
The American Statistician 37 (1983).

``python layer_norm_attempts.py`` shows that all are right, in the interpreter too; the benchmark needs a GPU.
"""

import functools

import torch
import triton
import triton.language as tl

from snippets.fusion.long_softmax_measured import check_alike, measure_copy
from snippets.library.norms import check_arguments, in_units
from snippets.tools.benchmarking import Timing
from snippets.tools.benchmarking_cold import compare_in_rotation

EPS = 1e-6
SHAPES = {"long": (4096, 16384), "usual": (8192, 4096), "short": (16384, 1024), "few": (1000, 3000)}


# --8<-- [start:kernel]
@triton.jit
def add_both(a, b, other_a, other_b):
    return a + other_a, b + other_b


@triton.jit
def attempt_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, columns, EPS: tl.constexpr,
    WEIGHTS_FIRST: tl.constexpr, ONE_SUM: tl.constexpr, BLOCK_SIZE: tl.constexpr, UNIT: tl.constexpr,
):  # fmt: skip
    columns *= UNIT
    row = tl.program_id(axis=0).to(tl.int64)
    column = tl.arange(0, BLOCK_SIZE)
    mask = column < columns
    x_row = x_ptr + row * columns
    x = tl.load(x_row + column, mask=mask, other=0).to(tl.float32)
    if WEIGHTS_FIRST:
        weight = tl.load(weight_ptr + column, mask=mask)
        bias = tl.load(bias_ptr + column, mask=mask)
    if ONE_SUM:
        first = tl.load(x_row).to(tl.float32)
        d = tl.where(mask, x - first, 0)
        total, squares = tl.reduce((d, d * d), 0, add_both)
        mean = total / columns
        variance = tl.maximum(squares / columns - mean * mean, 0)
        centered = d - mean
    else:
        mean = tl.sum(x, axis=0) / columns
        centered = tl.where(mask, x - mean, 0)
        variance = tl.sum(centered * centered, axis=0) / columns
    if not WEIGHTS_FIRST:
        weight = tl.load(weight_ptr + column, mask=mask)
        bias = tl.load(bias_ptr + column, mask=mask)
    out = centered * tl.rsqrt(variance + EPS) * weight.to(tl.float32) + bias.to(tl.float32)
    tl.store(out_ptr + row * columns + column, out, mask=mask)
# --8<-- [end:kernel]


# --8<-- [start:host]
def layer_norm(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, *,
    weights_first: bool = False, one_sum: bool = False, times_warps: float = 1,
) -> torch.Tensor:  # fmt: skip
    """Return layer norm over the last dimension of ``x``, with eps = 1e-6, in one of the ways above.

    ``times_warps``: 0.5, 1 or 2 times a warp for every 512 elements, at least 1 and at most 32.

    Raises:
        ValueError: If an argument is something the kernel can't serve.
    """
    check_arguments(x, None, weight, bias)
    if x.ndim != 2 or not all(each.is_contiguous() for each in (x, weight, bias)) or x.dtype == torch.float64:
        raise ValueError(f"x must be (rows, columns), contiguous, and of at most 32 bits; got {x.dtype}, {x.shape}")
    if times_warps not in (0.5, 1, 2):
        raise ValueError(f"times_warps must be 0.5, 1 or 2; got {times_warps!r}")
    out = torch.empty_like(x)
    if x.numel():
        unit, (columns, _) = in_units(x)
        block = triton.next_power_of_2(x.shape[1])
        warps = min(max(block // 512, 1), 16)
        options = {"BLOCK_SIZE": block, "UNIT": unit, "num_warps": min(max(int(warps * times_warps), 1), 32)}
        with torch.cuda.device_of(x):
            attempt_kernel[(len(x),)](
                x, weight, bias, out, columns, EPS=EPS, WEIGHTS_FIRST=weights_first, ONE_SUM=one_sum, **options
            )
    return out
# --8<-- [end:host]


WAYS = {
    "plain": {}, "weights first": {"weights_first": True}, "one sum": {"one_sum": True},
    "weights first, one sum": {"weights_first": True, "one_sum": True},
}  # fmt: skip
WARPS = {"": 1, ", half the warps": 0.5, ", twice the warps": 2}
TRIED = {
    f"{way}{more}": functools.partial(layer_norm, **options, times_warps=times)
    for way, options in WAYS.items()
    for more, times in WARPS.items()
}
SIDES = TRIED | {"torch": lambda x, weight, bias: torch.nn.functional.layer_norm(x, weight.shape, weight, bias, EPS)}


# --8<-- [start:attempts]
@functools.cache
def measure(shape: str) -> dict[str, Timing]:
    """Return the milliseconds of each way."""
    torch.manual_seed(0)
    rows, columns = SHAPES[shape]
    random = lambda *size: torch.randn(*size, device="cuda", dtype=torch.bfloat16)
    make = lambda: [random(rows, columns), random(columns), random(columns)]
    check_alike(SIDES, make(), "torch")
    return compare_in_rotation(SIDES, make, rounds=3)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="attempts",
        x_names=["way"],
        x_vals=list(SIDES),
        xlabel="way",
        ylabel="share of a copy's speed",
        line_arg="shape",
        line_vals=list(SHAPES),
        line_names=[" × ".join(map(str, shape)) for shape in SHAPES.values()],
        args={},
    )
)
def attempts(way, shape):
    """Layer norm's speed as a share of a copy's of as many bytes, in bfloat16, by medians of 3 rounds."""
    rows, columns = SHAPES[shape]
    return measure_copy(2 * rows * columns * torch.bfloat16.itemsize).median / measure(shape)[way].median
# --8<-- [end:attempts]


def main():
    device = "cuda" if isinstance(attempt_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    torch.manual_seed(0)
    x, weight, bias = (torch.randn(*shape).to(device) for shape in ((5, 300), (300,), (300,)))
    for way, run in TRIED.items():
        error = (run(x, weight, bias) - SIDES["torch"](x, weight, bias)).abs().max().item()
        print(f"{way}: {'as torch' if error < 1e-5 else 'NOT as torch'}")


if __name__ == "__main__":
    main()
