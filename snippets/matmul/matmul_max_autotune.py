# SPDX-License-Identifier: Apache-2.0
"""Our product for every shape against one that ``torch.compile`` tunes: ``mode="max-autotune"``, shape by shape.

The compiler times products of cuBLAS and Triton kernels of its own, and takes the fastest. ``main()`` prints which:
names that begin with ``extern_kernels`` are a library's, ``triton_tem`` is a product in Triton, ``triton_red`` a sum.

The mode is timed without CUDA graphs of its own, ``max-autotune-no-cudagraphs``, for all sides are called in one of
ours: in turns, on operands in rotation (``snippets/tools/benchmarking_cold.py``), as in ``matmul_measured.py``.

Run it with the Triton that torch came with: the compiler writes for that one. With another it may fail, or leave
Triton out and take cuBLAS, and then it is no opponent. All sides but cuBLAS are compiled by this Triton.

FLOPs: 2 * M * N * K. Units: microseconds, and shares of speed.
Source: ``torch.compile``, https://docs.pytorch.org/docs/stable/generated/torch.compile.html; ``torch.matmul`` calls
cuBLAS.

Run it on a GPU with ``python matmul_max_autotune.py``. It takes minutes, most of them to compile.
"""

import functools
import re
from unittest import mock

import torch
import triton

from snippets.matmul.matmul_measured import NAMED, SIDES, check_alike, microseconds, operands
from snippets.tools.benchmarking import Timing
from snippets.tools.benchmarking_cold import compare_in_rotation

# --8<-- [start:compiled]
TUNED = [  # as many as torch.compile compiles of one function; then it raises, for a whole graph was asked for
    "1 × 4096 × 4096", "16 × 4096 × 14336", "128 × 4096 × 14336", "1024 × 4096 × 4096",
    "1500 × 1280 × 5120", "512 × 512 × 16384", "1024 × 1024 × 1024", "4096 × 4096 × 4096",
]  # fmt: skip


@torch.compile(dynamic=False, fullgraph=True, mode="max-autotune-no-cudagraphs")
def tuned(a, b):
    return torch.matmul(a, b)


@functools.cache
def kernels(shape: str) -> list[str]:
    """Compile and tune for a shape; return the names of what was taken."""
    from torch._inductor.graph import GraphLowering

    torch.manual_seed(0)
    given, codes = operands(*NAMED[shape]), []
    with mock.patch.object(GraphLowering, "save_output_code", codes.append):
        check_alike(SIDES | {"tuned": tuned}, given)
    return called_in("\n".join(codes))


def called_in(code: str) -> list[str]:
    """Return the kernels in what the compiler wrote.

    >>> called_in("extern_kernels.mm(a, b, out=c)\\ntriton_red_fused_mm_0 = async_compile.triton('...')")
    ['extern_kernels.mm', 'triton_red_fused_mm_0']
    """
    return sorted(set(re.findall(r"extern_kernels\.\w+(?=\()|^triton_\w+(?= = )", code, re.M)))
# --8<-- [end:compiled]


# --8<-- [start:tuned]
@functools.cache
def measure(shape: str) -> dict[str, Timing]:
    """Return the milliseconds of each side."""
    kernels(shape)  # compiled now, outside of the graph
    torch.manual_seed(0)
    M, N, K = NAMED[shape]
    make = functools.partial(operands, M, N, K)
    return compare_in_rotation(SIDES | {"tuned": tuned}, make, rounds=4, steady=2 * M * N * K > 1e11)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="max_autotune",
        x_names=["shape"],
        x_vals=TUNED,
        xlabel="M × N × K",
        ylabel="µs",
        line_arg="what",
        line_vals=["ours", "cublas", "tuned", "share"],
        line_names=["ours", "cuBLAS", "max-autotune", "ours, share of max-autotune"],
        args={},
    )
)
def max_autotune(shape, what):
    """Microseconds in bfloat16, median, fastest and slowest of 4 rounds; and max-autotune's time by ours."""
    found = measure(shape)
    return found["tuned"].median / found["ours"].median if what == "share" else microseconds(found[what])
# --8<-- [end:tuned]


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; torch.compile tunes products for a GPU only")
    print("## taken")
    for shape in TUNED:
        print(f"{shape}: {', '.join(kernels(shape))}")


if __name__ == "__main__":
    main()
