# SPDX-License-Identifier: Apache-2.0
"""The scans to copy, measured beside the lesson's and torch's, eager and compiled.

- :func:`both`: GB/s of forward and backward together; of the product, forward alone

bfloat16, normally distributed; factors between 0.88 and 1, for the product between 0.5 and 1.5. Along rows, and the
second of each along time, with channels side by side. torch has no recurrence: for it stands the doubling of
``snippets/start/recurrence_measured.py``, in eager torch; and its cumulative maximum finds the places, too.
``torch.compile`` takes part where torch has the scan itself and nothing more. How it is measured:
``fusion/long_softmax_measured.py``.

Before it is timed, ours is compared with the lesson's, or where it has none with torch's in float32.

Bytes, the same for all sides: those of kernels that read and write each element once, forward and backward together:
4 elements for each of ``x`` for a sum, 6 for a maximum, 8 for a recurrence; 2 for a product, whose backward in torch
looks whether a number is 0 and waits for the answer, so no CUDA graph can hold it. Units: GB/s of 10**9 bytes.

``python scan_measured.py`` lists the benchmark. It needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools

import torch
import triton

from snippets.fusion import scan as lesson
from snippets.fusion.long_softmax_measured import check_alike, with_backward
from snippets.fusion.scan_measured import doubling
from snippets.library.scan import cummax, cumprod, cumsum, recurrence
from snippets.tools.benchmarking import Timing
from snippets.tools.benchmarking_cold import compare_in_rotation


def along(function):
    """Return the function along the last dimension of a table, or along time of ``(batch, time, channels)``."""
    return lambda *given: function(*given, dim=1)


# --8<-- [start:kinds]
# ours, the lesson's, torch's; inputs; elements for each of x, read and written
KINDS = {
    "recurrence": (along(recurrence), along(lesson.recurrence), doubling, 2, 8),
    "cumsum": (along(cumsum), along(lesson.cumsum), along(torch.cumsum), 1, 4),
    "cumprod": (along(cumprod), None, along(torch.cumprod), 1, 2),
    "cummax": (along(cummax), None, lambda x: torch.cummax(x, 1).values, 1, 6),
}
SHAPES = {"8192 × 4096": (8192, 4096), "4 × 2048 × 4096": (4, 2048, 4096)}
CASES = {f"{kind}, {shape}": (*KINDS[kind], size) for kind in KINDS for shape, size in SHAPES.items()}
# --8<-- [end:kinds]


# --8<-- [start:measure]
@functools.cache
def measure(case: str) -> dict[str, Timing]:
    """Return the milliseconds of each side, forward and backward."""
    torch.manual_seed(0)
    ours, taught, peer, tensors, _, size = CASES[case]
    random = lambda: torch.randn(*size, device="cuda", dtype=torch.bfloat16)

    def make():
        given = [random() for _ in range(tensors + 1)]  # the last is a gradient
        if tensors == 2:
            given[0] = torch.sigmoid(2 + 2 * torch.sigmoid(given[0]))
        elif "prod" in case:
            given[0] = 0.5 + torch.sigmoid(given[0])
        return given

    sides = {"ours": ours, "torch": peer}
    if "cumsum" in case or "cumprod" in case:
        sides["compiled"] = torch.compile(peer, dynamic=False)
    if taught:
        sides["lesson"] = taught
    exact = taught or (lambda x: peer(x.float()).to(x.dtype))
    check_alike({"ours": ours, "exact": exact}, make()[:-1], "exact")
    if "cumprod" in case:
        return compare_in_rotation(sides, lambda: make()[:1], rounds=3)
    return compare_in_rotation({name: with_backward(run) for name, run in sides.items()}, make, rounds=3)
# --8<-- [end:measure]


# --8<-- [start:tables]
@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="both",
        x_names=["case"],
        x_vals=list(CASES),
        xlabel="scan, shape",
        ylabel="GB/s",
        line_arg="side",
        line_vals=["ours", "lesson", "torch", "compiled"],
        line_names=["this file", "the lesson's", "torch", "torch.compile"],
        args={},
    )
)
def both(case, side):
    """GB/s: median, slowest and fastest of 3 rounds. NaN where a side has no such scan."""
    *_, moved, size = CASES[case]
    if side not in measure(case):
        return float("nan")
    return measure(case)[side].rate(moved * torch.Size(size).numel() * torch.bfloat16.itemsize)
# --8<-- [end:tables]


def main():
    """Say what there is to measure: what comes out is different every time."""
    print(f"both.run(print_data=True)  # {both.fn.__doc__}")


if __name__ == "__main__":
    main()
