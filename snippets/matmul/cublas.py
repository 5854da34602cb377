# SPDX-License-Identifier: Apache-2.0
"""Compare every matrix product of this chapter with cuBLAS, by ``torch.matmul``: one timer, all in turns.

- :func:`ladder`: the steps of the chapter at one size
- :func:`square`, :func:`square_fp16`, :func:`square_tf32`: square matrices by size and precision
- :func:`called`: from Python, with the host's time
- :func:`skinny`, :func:`skinny_share`: results with few rows
- :func:`padding`: cuBLAS at an odd size, with its matrices as they are, padded beforehand, or at each call
- :func:`odd`: one odd side at a time
- :func:`shares`: the best of ours as a share of cuBLAS, by precision

All sides get the same random numbers, normally distributed, in the same precision, and are compared with each other
before they are timed. Calls stand one after another in a CUDA graph, on operands in rotation, as the layers of a model
do: the host is left out, and nothing of a call is in L2 when it begins. Sides take turns; large products are each
warmed up by themselves, so that they meet the power limit, which lowers the clock, as they would alone. "persistent"
begins when the product before has ended, as cuBLAS's does; its early launch is a line of its own, "early", and never
"the best of ours".

FLOPs: 2 * M * N * K. Units: TFLOP/s, and shares of cuBLAS's.
Source: ``torch.matmul`` calls cuBLAS.

``python cublas.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools
import statistics
import time
from collections.abc import Callable, Sequence

import torch
import triton

from snippets.matmul import autotuned, grouped, naive, persistent, split_k
from snippets.matmul import matmul as product
from snippets.matmul.persistent_measured import random_pair
from snippets.tools.benchmarking import compare
from snippets.tools.benchmarking_cold import rates

OURS = {
    "naive": "tiles, one program each",
    "grouped": "grouped order",
    "autotuned": "tuned tile, warps, stages",
    "persistent": "TMA, persistent",
    "split_k": "split along K",
    "product": "what an estimate picks of these",
}
EARLY = {"early": "TMA, persistent, begun early"}
LINES = OURS | EARLY
SIZES = [2**k for k in range(9, 15)]
LARGEST_ERROR = {torch.bfloat16: 8e-3, torch.float16: 1e-3, torch.float32: 2e-3}  # between two right results


# --8<-- [start:padded]
def widened(x: torch.Tensor, multiple: int = 8) -> torch.Tensor:
    """Return ``x`` with zeros to the right and below, up to multiples of 8,
    which are 16 bytes for a 16-bit dtype.

    >>> widened(torch.ones(2, 9)).shape
    torch.Size([8, 16])
    """
    rows, columns = (-side % multiple for side in x.shape)
    return torch.nn.functional.pad(x, (0, columns, 0, rows))


def padded(
    a: torch.Tensor,
    b: torch.Tensor,
    wide_a: torch.Tensor,
    wide_b: torch.Tensor,
) -> torch.Tensor:
    """Multiply copies made before, by cuBLAS; cut the result to size."""
    return torch.matmul(wide_a, wide_b)[: a.shape[0], : b.shape[1]]


def padding_each(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the same, but each call makes the copies."""
    return padded(a, b, widened(a), widened(b))


PADDED = {
    "padded": "copies made before",
    "padding": "copies made at each call",
}
# --8<-- [end:padded]


# --8<-- [start:sides]
def operands(M: int, N: int, K: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Return random matrices, row after row; for float32 b is column after column, which TF32's instruction wants."""
    a = torch.randn(M, K, device="cuda", dtype=dtype)
    if dtype == torch.float32:
        return a, torch.randn(N, K, device="cuda", dtype=dtype).T
    return a, torch.randn(K, N, device="cuda", dtype=dtype)


# --8<-- [start:race]
def late(a: torch.Tensor, b: torch.Tensor, **options) -> torch.Tensor:
    """Compute the persistent product, not begun before the one ahead of it has ended."""
    cores = persistent.multiprocessors(a.device)
    config = persistent.configuration(a.shape[0], b.shape[1], a.itemsize, cores, **options)
    return persistent.matmul(a, b, config=config._replace(early=False), **options)


PRODUCTS = {
    "cublas": torch.matmul,
    "naive": naive.matmul,
    "grouped": grouped.matmul,
    "autotuned": autotuned.matmul,
    "persistent": late,
    "split_k": split_k.matmul,
    "product": product.matmul,
    "early": persistent.matmul,
}


def sides_of(given: Sequence[torch.Tensor], names: Sequence[str]) -> dict[str, Callable[..., torch.Tensor]]:
    """Return the functions to compare, after what they need is compiled and tuned and their results on ``given`` agree.

    ``given`` are a and b, and for "padded" the same widened.

    Raises:
        RuntimeError: A result is not the one of cuBLAS.
    """
    a, b = given[:2]
    options = {"input_precision": "tf32"} if a.dtype == torch.float32 else {}
    calls = {"cublas": lambda a, b, *wide: PRODUCTS["cublas"](a, b)}
    for name in names:
        if name == "padded":
            calls[name] = padded
        elif name == "padding":
            calls[name] = lambda a, b, *wide: padding_each(a, b)
        else:
            if name == "autotuned":
                autotuned.prepare(a, b, **options)
            more = {}
            if name == "split_k":  # with counters of its own it needs no kernel to clear them
                more["counters"] = torch.zeros(2**16, dtype=torch.int32, device=a.device)
            run = functools.partial(PRODUCTS[name], **options, **more)
            calls[name] = lambda a, b, *wide, run=run: run(a, b)
    expected = calls["cublas"](*given)
    size = torch.linalg.vector_norm(expected, dtype=torch.float32).item()
    for name, call in calls.items():
        error = torch.linalg.vector_norm(call(*given) - expected, dtype=torch.float32).item() / size
        if not error <= LARGEST_ERROR[a.dtype]:
            raise RuntimeError(f"{name} differs from cuBLAS by {error:.2g} at {tuple(a.shape)} @ {tuple(b.shape)}")
    return calls


@functools.cache
def measure(M, N, K, dtype, names):
    """Return TFLOP/s of each side: median, slowest and fastest round. ``best`` is the quickest of ours, by the median.
    """

    def make():
        a, b = operands(M, N, K, dtype)
        return (a, b, widened(a), widened(b)) if "padded" in names else (a, b)

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")  # TF32, for float32 only
    try:
        found = rates(sides_of(make(), names), make, 2 * M * N * K, rounds=3)
    finally:
        torch.set_float32_matmul_precision(before)
    ours = [found[name] for name in names if name in OURS]
    return found | {"best": max(ours, key=lambda rate: rate[0])}
# --8<-- [end:race]
# --8<-- [end:sides]


def benchmark(plot_name, x_name, x_vals, xlabel, names, **more):
    lines = {"cublas": "cuBLAS"} | {name: LINES[name] for name in names} | {"best": "the best of ours"}
    return triton.testing.Benchmark(
        plot_name=plot_name,
        x_names=[x_name],
        x_vals=x_vals,
        x_log=x_name == "n",
        xlabel=xlabel,
        ylabel="TFLOP/s",
        line_arg="side",
        line_vals=list(lines),
        line_names=list(lines.values()),
        args={"names": tuple(names), **more},
    )


# The ladder


# --8<-- [start:ladder]
@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="ladder",
        x_names=["step"],
        x_vals=[*OURS, "cublas"],
        xlabel="step",
        ylabel="",
        line_arg="what",
        line_vals=["rate", "share"],
        line_names=["TFLOP/s", "share of cuBLAS"],
        args={"n": 8192},
    )
)
def ladder(step, what, n):
    """Each step of the chapter at 8192 x 8192 x 8192, bfloat16."""
    found = measure(n, n, n, torch.bfloat16, tuple(OURS))
    return found[step] if what == "rate" else found[step][0] / found["cublas"][0]
# --8<-- [end:ladder]


# Square


FEWER = ("autotuned", "persistent", "split_k")
SQUARE = (*FEWER, "early")


# --8<-- [start:square]
@triton.testing.perf_report(benchmark("square", "n", SIZES, "n", SQUARE))
def square(n, side, names):
    """n x n x n in bfloat16."""
    return measure(n, n, n, torch.bfloat16, names)[side]


@triton.testing.perf_report(benchmark("square_fp16", "n", SIZES[:-1], "n", FEWER))
def square_fp16(n, side, names):
    """n x n x n in float16."""
    return measure(n, n, n, torch.float16, names)[side]


@triton.testing.perf_report(benchmark("square_tf32", "n", SIZES[:-1], "n", FEWER))
def square_tf32(n, side, names):
    """n x n x n in float32, multiplied in TF32 by both sides; b is column after column."""
    return measure(n, n, n, torch.float32, names)[side]
# --8<-- [end:square]


# --8<-- [start:shares]
@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="shares",
        x_names=["precision"],
        x_vals=["bfloat16", "float16", "tf32"],
        xlabel="precision",
        ylabel="share of cuBLAS",
        line_arg="what",
        line_vals=["least", "mean", "most"],
        line_names=["least", "geometric mean", "most"],
        args={},
    )
)
def shares(precision, what):
    """The best of ours at each square size, as a share of cuBLAS: the least, the geometric mean, the most."""
    mark = {"bfloat16": square, "float16": square_fp16, "tf32": square_tf32}[precision]
    dtype = getattr(torch, precision.replace("tf32", "float32"))
    every = [measure(n, n, n, dtype, mark.benchmarks.args["names"]) for n in mark.benchmarks.x_vals]
    found = [rate["best"][0] / rate["cublas"][0] for rate in every]
    return {"least": min, "mean": statistics.geometric_mean, "most": max}[what](found)
# --8<-- [end:shares]


# From Python


# --8<-- [start:called]
@functools.cache
def measure_calls(n, calls=200):
    """Return the microseconds from call to call in a Python loop: the host's, if it takes longer than the GPU."""

    def timer(run):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(calls):
            run()
        torch.cuda.synchronize()
        return (time.perf_counter() - began) / calls * 1e3

    given = random_pair(n)
    sides = sides_of(given, ("autotuned", "persistent"))
    sides = {name: functools.partial(run, *given) for name, run in sides.items()}
    return {name: timing.median * 1e3 for name, timing in compare(sides, rounds=6, timer=timer).items()}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="called",
        x_names=["n"],
        x_vals=[256, 512, 1024, 2048, 4096],
        xlabel="n",
        ylabel="µs",
        line_arg="side",
        line_vals=["cublas", "autotuned", "persistent"],
        line_names=["cuBLAS", OURS["autotuned"], OURS["persistent"]],
        args={},
    )
)
def called(n, side):
    """n x n x n in bfloat16, called from Python again and again: microseconds from one call to the next."""
    return measure_calls(n)[side]
# --8<-- [end:called]


# Other shapes


# --8<-- [start:skinny]
SKINNY = {f"{rows} × 4096 × 4096": (rows, 4096, 4096) for rows in (1, 16, 64)}
ODD_SIZE = "4097 × 4097 × 4097"  # for ``padding``
SHAPES = SKINNY | {ODD_SIZE: (4097, 4097, 4097)}
MORE = {ODD_SIZE: tuple(PADDED)}  # sides in the same turns


def measure_shape(shape):
    return measure(*SHAPES[shape], torch.bfloat16, FEWER + MORE.get(shape, ()))


@triton.testing.perf_report(benchmark("skinny", "shape", list(SKINNY), "M × N × K", FEWER))
def skinny(shape, side, names):
    """Results with few rows; bfloat16."""
    return measure_shape(shape)[side]


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="skinny_share",
        x_names=["shape"],
        x_vals=list(SKINNY),
        xlabel="M × N × K",
        ylabel="share of cuBLAS",
        line_arg="side",
        line_vals=list(FEWER),
        line_names=[OURS[name] for name in FEWER],
        args={},
    )
)
def skinny_share(shape, side):
    """The same as shares of cuBLAS."""
    found = measure_shape(shape)
    return found[side][0] / found["cublas"][0]
# --8<-- [end:skinny]


# --8<-- [start:padding]
@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="padding",
        x_names=["side"],
        x_vals=["cublas", *PADDED, "persistent"],
        xlabel="side",
        ylabel="",
        line_arg="what",
        line_vals=["rate", "share", "us"],
        line_names=["TFLOP/s", "share of cuBLAS", "µs"],
        args={"shape": ODD_SIZE},
    )
)
def padding(side, what, shape):
    """4097 x 4097 x 4097 in bfloat16: cuBLAS as is, padded before, padded at each call; and ours."""
    found, (M, N, K) = measure_shape(shape), SHAPES[shape]
    if what == "us":
        return 2 * M * N * K / found[side][0] * 1e-6  # FLOPs of 4097, also where 4104 are multiplied
    return found[side] if what == "rate" else found[side][0] / found["cublas"][0]
# --8<-- [end:padding]


# --8<-- [start:odd]
ODD = {  # M, N, K, and whether b lies column after column; as many tiles as 4096 has, which 4097 has not
    "M": (4095, 4096, 4096, False),  # rows of 8,190 bytes in memory has nothing,
    "K": (4096, 4096, 4095, False),  # a,
    "N": (4096, 4095, 4096, False),  # b and the result,
    "N, b by columns": (4096, 4095, 4096, True),  # the result
}


@functools.cache
def measure_odd(M, N, K, by_columns, rounds=2):
    """Return TFLOP/s of both sides; what is to be seen here is large, so two rounds will do."""

    def make():
        a, b = operands(M, N, K, torch.bfloat16)
        return a, b.T.contiguous().T if by_columns else b

    return rates(sides_of(make(), ("persistent",)), make, 2 * M * N * K, rounds=rounds)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="odd",
        x_names=["which"],
        x_vals=list(ODD),
        xlabel="the side that is odd",
        ylabel="TFLOP/s",
        line_arg="side",
        line_vals=["cublas", "persistent"],
        line_names=["cuBLAS", OURS["persistent"]],
        args={},
    )
)
def odd(which, side):
    """4096 x 4096 x 4096 in bfloat16, but for one side, which is 4095."""
    return measure_odd(*ODD[which])[side]
# --8<-- [end:odd]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (ladder, square, square_fp16, square_tf32, shares, called, skinny, skinny_share, padding, odd):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
