# SPDX-License-Identifier: Apache-2.0
"""Measure a part of the recordings again on this machine's GPU: how far do the course's numbers hold elsewhere?

``python -m recorder measure`` runs each snippet of ``SAMPLE`` and writes nothing. What it measures is
compared with what is recorded of this kind of GPU, median with median: GB/s, TFLOP/s and microseconds that were read
in several rounds, not what is counted or computed from others. They are of operands in rotation from CUDA graphs, or of
single calls after a clean flush, timed by events on the GPU, so the host's processor has little part.

``python measured_again.py`` lists the table. It needs a checkout with its recordings, a GPU of a kind that they know,
and minutes.
"""

import functools
import statistics
import subprocess
import sys

import triton

SAMPLE = (
    "matmul/naive_measured", "matmul/split_k_measured",
    "gpu/roofline", "gpu/coalescing_measured", "gpu/loads",
    "programs/masks_price",
    "fusion/norms_measured", "fusion/swiglu_measured", "fusion/rope_measured", "fusion/long_softmax_measured",
    "fusion/dropout_measured", "fusion/decoding_measured",
)  # fmt: skip
ALL = "all"
CLOSE = 0.05  # of what was recorded


# --8<-- [start:measure]
@functools.cache
def measure(name: str) -> list[tuple[float, float]]:
    """Return each number of a snippet as recorded and as it is now; for ``ALL``, those of the whole sample."""
    if name == ALL:
        return [pair for each in SAMPLE for pair in measure(each)]
    done = subprocess.run([sys.executable, "-m", "recorder", "measure", name], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{name} was not measured: {done.stderr.strip()}")
    lines = (line.split("\t") for line in done.stdout.splitlines())
    return [(float(before), float(now)) for before, now, _ in lines]


def summary(pairs: list[tuple[float, float]]) -> dict[str, float]:
    """Return how many there are, the share within 5 %, the median of now / before, and the farthest two's ratio."""
    return {
        "numbers": len(pairs),
        "close": sum(abs(now - before) <= CLOSE * before for before, now in pairs) / len(pairs),
        "ratio": statistics.median(now / before for before, now in pairs),
        "farthest": max(max(pair) / min(pair) for pair in pairs),
    }
# --8<-- [end:measure]


# --8<-- [start:again]
@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="again",
        x_names=["snippet"],
        x_vals=[*SAMPLE, ALL],
        xlabel="snippet",
        ylabel="",
        line_arg="what",
        line_vals=["numbers", "close", "ratio", "farthest"],
        line_names=["numbers", "share within 5 %", "now by before, median", "farthest, times apart"],
        args={},
    )
)
def again(snippet, what):
    """What was measured before, and again: how many numbers, and how near they are."""
    return summary(measure(snippet))[what]
# --8<-- [end:again]


def main():
    print(f"again.run(print_data=True)  # {again.fn.__doc__}")


if __name__ == "__main__":
    main()
