# SPDX-License-Identifier: Apache-2.0
"""Measure a part of the recordings again on this machine's GPU: how far do the course's numbers hold elsewhere?

Each snippet of ``SAMPLE`` runs as ``python -m recorder run`` would run it, and nothing is written. What it measures is
compared with what is recorded of this kind of GPU, median with median: GB/s, TFLOP/s and microseconds that were read
in several rounds, not what is counted or computed from others. They are of operands in rotation from CUDA graphs, or of
single calls after a clean flush, timed by events on the GPU, so the host's processor has little part.

Source: ``recorder/timing.py``, which also judges the sample of the GPU job.

``python measured_again.py`` lists the table. It needs a checkout with its recordings, a GPU of a kind that they know,
and minutes.
"""

import functools
import statistics

import triton

from recorder import recording, runner, timing
from recorder.project import Snippet
from recorder.trace import device_name

SAMPLE = (
    "matmul/naive_measured", "matmul/split_k_measured",
    "gpu/roofline", "gpu/coalescing_measured", "gpu/loads",
    "programs/masks_price",
    "fusion/norms_measured", "fusion/swiglu_measured", "fusion/rope_measured", "fusion/long_softmax_measured",
    "fusion/dropout_measured", "fusion/decoding_measured",
)  # fmt: skip
ALL = "all"


# --8<-- [start:measure]
@functools.cache
def measure(name: str) -> list[timing.Number]:
    """The numbers of a snippet, before and now; of ``ALL``, those of the whole sample."""
    if name == ALL:
        return [number for each in SAMPLE for number in measure(each)]
    snippet, gpu = Snippet(name), device_name()
    return timing.numbers(recording.load(snippet, gpu), runner.record(snippet, gpu))


def summary(numbers: list[timing.Number]) -> dict[str, float]:
    """How many there are, the share within 5 %, the median of now by before, and by what the farthest two differ."""
    return {
        "numbers": len(numbers),
        "close": sum(number.close for number in numbers) / len(numbers),
        "ratio": statistics.median(number.now / number.before for number in numbers),
        "farthest": max(number.apart for number in numbers),
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
