# SPDX-License-Identifier: Apache-2.0
"""Our product for every shape against ``torch.matmul``, on the shapes of models, and where a call's host time goes.

- :func:`shapes`: every shape of ``model_shapes.py`` in bfloat16
- :func:`shares`: these as shares of cuBLAS's speed: the least, the geometric mean, the most, of all and of some
- :func:`fp16`: a dozen of the shapes in float16
- :func:`host`: what a call costs on the host, and which part of it costs what

``b`` is the transpose of a weight, as ``torch.nn.Linear`` has it. Both sides get the same random numbers, normally
distributed, and are compared with each other before they are timed: in turns, on operands in rotation, all calls in
one CUDA graph; large products each at their own clock (``snippets/tools/benchmarking_cold.py``).

FLOPs: 2 * M * N * K. Units: microseconds, and shares of cuBLAS's speed.
Source: ``torch.matmul`` calls cuBLAS.

``python matmul_measured.py`` says how each shape is computed and, on a GPU, which kernels cuBLAS takes for it; and it
lists the benchmarks. Each of them needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools
import statistics
from collections.abc import Callable, Mapping, Sequence
from unittest import mock

import torch
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

from snippets.gpu import launch_cost
from snippets.matmul import autotuned, matmul, persistent
from snippets.matmul.cublas import LARGEST_ERROR
from snippets.matmul.model_shapes import SHAPES
from snippets.tools.benchmarking import Timing, compare
from snippets.tools.benchmarking_cold import compare_in_rotation, empty

NAMED = {f"{m} × {n} × {k}": (m, n, k) for kind in SHAPES.values() for m, n, k, _ in kind}
SIDES = {"ours": matmul.matmul, "cublas": torch.matmul}


# --8<-- [start:sides]
def operands(M: int, N: int, K: int, dtype: torch.dtype = torch.bfloat16) -> tuple[torch.Tensor, torch.Tensor]:
    """Return random matrices, the second as a layer has its weight."""
    a, weight = (torch.randn(rows, K, device="cuda", dtype=dtype) for rows in (M, N))
    return a, weight.t()


def check_alike(sides: Mapping[str, Callable[..., torch.Tensor]], given: Sequence[torch.Tensor]) -> None:
    """Raise ``RuntimeError`` if a result is not the one of cuBLAS."""
    expected = sides["cublas"](*given)
    size = torch.linalg.vector_norm(expected, dtype=torch.float32).item()
    for name, run in sides.items():
        error = torch.linalg.vector_norm(run(*given) - expected, dtype=torch.float32).item() / size
        if not error <= LARGEST_ERROR[expected.dtype]:
            shapes = " @ ".join(str(tuple(x.shape)) for x in given)
            raise RuntimeError(f"{name} differs from cuBLAS by {error:.2g} at {shapes}")
# --8<-- [end:sides]


# --8<-- [start:measure]
@functools.cache
def measure(M: int, N: int, K: int, dtype: torch.dtype) -> dict[str, Timing]:
    """Return the milliseconds of both sides, and of a kernel that does nothing: no reading is shorter."""
    torch.manual_seed(0)
    make = functools.partial(operands, M, N, K, dtype)
    check_alike(SIDES, make())
    return compare_in_rotation(SIDES | {"empty": empty}, make, rounds=3, steady=2 * M * N * K > 1e11)


def microseconds(timing: Timing) -> tuple[float, float, float]:
    """Return the microseconds of the median, fastest and slowest round."""
    return tuple(ms * 1e3 for ms in (timing.median, min(timing.rounds), max(timing.rounds)))


def share(found: Mapping[str, Timing]) -> float:
    """Return our speed as a share of cuBLAS's."""
    return found["cublas"].median / found["ours"].median


def result(found: Mapping[str, Timing], what: str) -> float | tuple[float, float, float]:
    """Return a cell of a table."""
    return share(found) if what == "share" else microseconds(found[what])
# --8<-- [end:measure]


COLUMNS = {
    "x_names": ["shape"],
    "xlabel": "M × N × K",
    "ylabel": "µs",
    "line_arg": "what",
    "line_vals": ["ours", "cublas", "empty", "share"],
    "line_names": ["ours", "cuBLAS", "empty kernel", "share of cuBLAS"],
}


# --8<-- [start:shapes]
@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="shapes", x_vals=list(NAMED), args={"dtype": torch.bfloat16}, **COLUMNS
    )
)  # fmt: skip
def shapes(shape, what, dtype):
    """Microseconds of each shape, bfloat16: median, fastest and slowest of 3 rounds; and cuBLAS's time by ours."""
    return result(measure(*NAMED[shape], dtype), what)
# --8<-- [end:shapes]


# --8<-- [start:shares]
SOME = {
    "all": list(NAMED.values()),
    "M ≤ 64": [shape for shape in NAMED.values() if shape[0] <= 64],
    "M > 64": [shape for shape in NAMED.values() if shape[0] > 64],
    **{kind: [shape[:3] for shape in found] for kind, found in SHAPES.items()},
}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="shares",
        x_names=["of"],
        x_vals=list(SOME),
        xlabel="shapes",
        ylabel="share of cuBLAS",
        line_arg="what",
        line_vals=["least", "mean", "most"],
        line_names=["least", "geometric mean", "most"],
        args={},
    )
)
def shares(of, what):
    """Our speed as a share of cuBLAS's, bfloat16: the least of some shapes, the geometric mean, the most."""
    found = [share(measure(*shape, torch.bfloat16)) for shape in SOME[of]]
    return {"least": min, "mean": statistics.geometric_mean, "most": max}[what](found)
# --8<-- [end:shares]


# --8<-- [start:fp16]
FP16 = [
    "1 × 4096 × 4096", "16 × 4096 × 14336", "64 × 28672 × 4096", "128 × 4096 × 14336",
    "1024 × 4096 × 4096", "8192 × 768 × 3072", "300 × 7168 × 2048", "1500 × 1280 × 5120",
    "512 × 512 × 16384", "1024 × 1024 × 1024", "4096 × 4096 × 4096", "8192 × 8192 × 8192",
]  # fmt: skip


@triton.testing.perf_report(
    triton.testing.Benchmark(plot_name="fp16", x_vals=FP16, args={"dtype": torch.float16}, **COLUMNS)
)
def fp16(shape, what, dtype):
    """The same of a dozen of the shapes in float16."""
    return result(measure(*NAMED[shape], dtype), what)
# --8<-- [end:fp16]


# --8<-- [start:host]
def parts_of(a: torch.Tensor, b: torch.Tensor) -> dict[str, Callable[[], object]]:
    """Return a call of our product, and the parts of its work, each to be called alone.

    The first call is watched: which kernel it launches with which arguments, what it allocates.
    """
    launches, allocations, torch_empty = [], [], torch.empty
    launch = lambda kernel, *given, grid, warmup, **options: launches.append((kernel, grid, given, options))

    def allocate(*shape, **options):
        allocations.append((shape, options))
        return torch_empty(*shape, **options)

    matmul.matmul(a, b)  # keeps counters
    matmul.prepared.cache_clear()
    kind = type(matmul.tile_kernel)  # of the interpreter, or compiled
    with mock.patch.object(kind, "run", launch), mock.patch.object(torch, "empty", allocate):
        matmul.matmul(a, b)
    matmul.prepared.cache_clear()
    [(kernel, grid, given, options)] = launches
    compiled = kernel[grid](*given, **options)
    everything = [*given, *(options[name] for name in kernel.arg_names if name in options)]
    described = [(x.base, x.shape, x.strides, x.block_shape) for x in given if isinstance(x, TensorDescriptor)]
    return {
        "our product": lambda: matmul.matmul(a, b),
        "bare launch": lambda: kernel[grid](*given, **options),
        "compiled launch": lambda: compiled[grid](*everything),
        "torch.empty": lambda: [torch.empty(*shape, **options) for shape, options in allocations],
        "descriptors": lambda: [TensorDescriptor(*x) for x in described],
    }


CALLED = {"few": "1 × 4096 × 4096", "square": "4096 × 4096 × 4096"}
OTHERS = {"torch.matmul": torch.matmul, "autotuned.matmul": autotuned.matmul, "persistent.matmul": persistent.matmul}
PARTS = ["compiled launch", "torch.empty", "descriptors"]


@functools.cache
def measure_host(shape: str, calls: int = 200, rounds: int = 10) -> dict[str, Timing]:
    """Return the milliseconds until a call has returned; all calls fit into the queue, so none waits for the GPU."""
    torch.manual_seed(0)
    given = operands(*NAMED[shape])
    autotuned.prepare(*given)
    sides = parts_of(*given) | {name: functools.partial(run, *given) for name, run in OTHERS.items()}
    for run in sides.values():
        run()  # compiles and tunes
    return compare(sides, rounds=rounds, timer=lambda run: launch_cost.host(run, calls) * 1e3 / calls)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="host",
        x_names=["what"],
        x_vals=["our product", *PARTS, "the rest", "bare launch", *OTHERS],
        xlabel="what is called",
        ylabel="µs",
        line_arg="shape",
        line_vals=list(CALLED),
        line_names=list(CALLED.values()),
        args={},
    )
)
def host(what, shape):
    """Microseconds of the host until a call returns, bfloat16: median, fastest and slowest of 10 rounds of 200 calls.

    Compiled launch: of what Triton has compiled, without asking it which compiled kernel fits. torch.empty: of the
    result, and of sums where programs share a tile. The rest is what our product takes beside its parts: it checks the
    arguments, and looks up what depends on shapes. Bare launch: as Triton's users write it, ``kernel[grid](...)``.
    """
    found = measure_host(CALLED[shape])
    if what == "the rest":
        return 1e3 * (found["our product"].median - sum(found[part].median for part in PARTS))
    return microseconds(found[what])
# --8<-- [end:host]


# --8<-- [start:main]
def picked(M: int, N: int, K: int, device: torch.device) -> str:
    """Return how our product computes a shape, in words."""
    found = matmul.plan(M, N, K, **matmul.limits_of(device))
    tile = f"{found.block_m} x {found.block_n + found.more_n} x {found.block_k}" + " of the transposed" * found.swapped
    warps = f"{found.num_warps} warps, {found.num_stages} stages"
    shared = f"{found.parts} parts"
    if found.kernel == "streamed":
        tiles = -(-M // found.block_m) * -(-N // (found.block_n + found.more_n))
        shared = f"{found.whole} tiles whole, {tiles - found.whole} streamed"
    return f"{found.kernel}, {tile}, {warps}, {shared}, {found.programs} programs"


def kernels_of_cublas(M: int, N: int, K: int) -> list[str]:
    """Return the names of the kernels that ``torch.matmul`` launches, of the operands in bfloat16."""
    a, b = operands(M, N, K)
    torch.matmul(a, b)  # loads the kernel, and may set up memory
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA], acc_events=True) as profile:
        torch.matmul(a, b)
        torch.cuda.synchronize()
    return [event.name for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]


def main():
    """Say what there is to measure, and what is picked: times are different every time."""
    for mark in (shapes, shares, fp16, host):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__.splitlines()[0]}")
    print("## picks")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    for shape in NAMED.values():
        print(f"{' x '.join(map(str, shape))}: {picked(*shape, device)}")
    if device.type == "cuda":
        print("## picks of cuBLAS")
        for shape in NAMED.values():
            print(f"{' x '.join(map(str, shape))}: {', '.join(kernels_of_cublas(*shape))}")
# --8<-- [end:main]


if __name__ == "__main__":
    main()
