# SPDX-License-Identifier: Apache-2.0
"""Where what is read again comes from, by the GPU's hardware counters: a blur, and a causal convolution.

``python convolution_counted.py`` runs itself under NVIDIA's ``ncu``, with caches emptied before each kernel. Of each
kernel are counted the bytes that its loads ask the L1 caches for, those that the L1 caches ask L2 for, and those that
come from memory. The unit is the operand itself: 1 means each of its bytes once.

Units: multiples of the operand's bytes; sectors are of 32 bytes.
Source: NVIDIA's documentation of Nsight Compute, on the metrics of ``l1tex``, ``lts`` and ``dram``.
"""

import functools
import sys

import torch
import triton

from snippets.gpu.counters import counters
from snippets.models.convolution import causal_conv1d
from snippets.models.stencil import blur

PIXELS = 8192
BATCH, CHANNELS, STEPS, TAPS = 4, 4096, 4096, 4
TILES = {"1 × 256": (1, 256), "4 × 64": (4, 64), "32 × 32": (32, 32)}
LINES = {"asked": "asked for by the loads", "l2": "L1 asks L2 for", "memory": "from memory"}
METRICS = {
    "asked": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l2": "lts__t_sectors_srcunit_tex_op_read.sum",
    "memory": "dram__bytes_read.sum",
}
BYTES = {"asked": 32, "l2": 32, "memory": 1}  # of what is counted
KERNELS = [f"blur, {tile}" for tile in TILES] + ["causal, tokens", "causal, time"]


def run_all():
    """Run what ``ncu`` watches: each kernel once."""
    picture = torch.rand(PIXELS, PIXELS, device="cuda")
    cases = [functools.partial(blur, picture, rows=rows, columns=columns) for rows, columns in TILES.values()]
    normal = lambda *shape: torch.randn(shape, device="cuda", dtype=torch.bfloat16)
    weight, bias = normal(CHANNELS, TAPS), normal(CHANNELS)
    for x in (normal(BATCH, STEPS, CHANNELS).mT, normal(BATCH, CHANNELS, STEPS)):
        cases.append(functools.partial(causal_conv1d, x, weight, bias, silu=True))
    for case in cases:
        case()  # compiles
        torch.cuda.synchronize()
        with torch.cuda.profiler.profile():
            case()
            torch.cuda.synchronize()


@functools.lru_cache(maxsize=1)
def measure() -> dict[str, dict[str, float]]:
    """Return what was counted, by kernel."""
    launches = counters(list(METRICS.values()), __file__, "run", cache="all")
    found = {}
    for name, launch in zip(KERNELS, launches, strict=True):
        operand = PIXELS**2 * 4 if name.startswith("blur") else BATCH * CHANNELS * STEPS * 2
        found[name] = {what: launch[metric] * BYTES[what] / operand for what, metric in METRICS.items()}
    return found


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="read",
        x_names=["kernel"],
        x_vals=KERNELS,
        xlabel="kernel",
        ylabel="times the operand",
        line_arg="what",
        line_vals=list(LINES),
        line_names=list(LINES.values()),
        args={},
    )
)
def read(kernel, what):
    """How often each byte of the operand was asked for, by the loads, by L1, and of memory."""
    return measure()[kernel][what]


def main():
    if sys.argv[1:] == ["run"]:
        run_all()
    else:
        print(f"read.run(print_data=True)  # {read.fn.__doc__}")


if __name__ == "__main__":
    main()
