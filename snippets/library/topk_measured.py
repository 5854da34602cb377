# SPDX-License-Identifier: Apache-2.0
"""The top-k to copy, measured beside the lesson's, torch's and a copy.

- :func:`forward`: GB/s of each, and of a copy

Each case is k, the length of a row and a number of rows; bfloat16, normally distributed. The lesson's serves k up to 1,024. ``torch.compile`` is left out: for ``torch.topk`` it
calls the kernel that is measured as torch's. How it is measured: ``fusion/long_softmax_measured.py``.

Before it is timed, ours is compared with a stable sort. Bytes: a top-k has to read ``x`` once, a copy reads and writes
it; the k of a row are left out. Units: GB/s of 10**9 bytes.

``python topk_measured.py`` lists the benchmark. It needs a GPU, and ``.run`` needs pandas and matplotlib.
"""  # noqa: E501 - what is recorded covers this text

import functools

import torch
import triton

from snippets.fusion.topk import topk as taught
from snippets.library.topk import in_torch, topk
from snippets.tools.benchmarking import Timing
from snippets.tools.benchmarking_cold import compare_in_rotation

# --8<-- [start:cases]
CASES = {
    f"{k:,} of {columns:,}, {rows:,} rows": (rows, columns, k)
    for rows, columns, k in (
        (16384, 128, 8),
        (8192, 4096, 8),
        (8192, 4096, 64),
        (512, 131072, 8),
        (512, 131072, 1000),
        (64, 131072, 20000),
    )
}
# --8<-- [end:cases]


# --8<-- [start:measure]
@functools.cache
def measure(case: str) -> dict[str, Timing]:
    """Return the milliseconds of each side."""
    torch.manual_seed(0)
    rows, columns, k = CASES[case]
    make = lambda: [torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16)]
    (x,) = make()
    if not torch.equal(topk(x, k)[1], in_torch(x, k)[1]):
        raise RuntimeError(f"{case}: ours differs from a stable sort")
    sides = {"ours": lambda x: topk(x, k), "torch": lambda x: torch.topk(x, k), "copy": torch.clone}
    if k <= 1024:
        sides["lesson"] = lambda x: taught(x, k)
    return compare_in_rotation(sides, make, rounds=3)
# --8<-- [end:measure]


# --8<-- [start:tables]
@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="forward",
        x_names=["case"],
        x_vals=list(CASES),
        xlabel="k of a row",
        ylabel="GB/s",
        line_arg="side",
        line_vals=["ours", "lesson", "torch", "copy"],
        line_names=["this file", "the lesson's", "torch", "a copy"],
        args={},
    )
)
def forward(case, side):
    """GB/s: median, slowest and fastest of 3 rounds. NaN where a side does not serve the case."""
    if side not in measure(case):
        return float("nan")
    rows, columns, _ = CASES[case]
    return measure(case)[side].rate((2 if side == "copy" else 1) * rows * columns * torch.bfloat16.itemsize)
# --8<-- [end:tables]


def main():
    """Say what there is to measure: what comes out is different every time."""
    print(f"forward.run(print_data=True)  # {forward.fn.__doc__}")


if __name__ == "__main__":
    main()
