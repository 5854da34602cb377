# SPDX-License-Identifier: Apache-2.0
"""Scans, top-k and histograms, measured: how near they come to the time of a copy of as many bytes.

- :func:`forward`: GB/s of ours, of torch's and of a copy, and both as shares of the copy
- :func:`both`: the same of forward and backward together
- :func:`counting`: microseconds of a histogram of ``COUNTED`` integers below 256, spread evenly and all the same

The other side: ``torch.cumsum``; for the recurrence, of which torch has none, the doubling of
``snippets/start/recurrence_measured.py`` in eager torch; ``torch.topk``; ``torch.histc``, ``torch.bincount``, and an
atomic add for each element. Scans go along rows, and the last one along time, with its channels side by side.
bfloat16, normally distributed; gates between 0.88 and 1. How it is measured, and what the copy is:
``long_softmax_measured.py``. Histograms are timed as single calls (``benchmarking.py``), for ``bincount`` waits for the
GPU, and no CUDA graph can hold that; so what its host does counts, too.

Before it is timed, ours is compared with torch in float32; of equal numbers, top-k is to take the first.

Bytes: those of kernels that read and write each element once, so of all sides the same: cumsum forward 1 read and 1
written, with the backward 2 and 2; recurrence 2 and 1, 5 and 3; top-k 1 read, and with the backward 1 written. The k
of a row are left out. Units: GB/s of 10**9 bytes.

``torch.compile`` takes no part: our Triton is newer than the one that this torch was made for.

``python scan_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import torch
import triton

from snippets.fusion.histogram import each_forward, histogram
from snippets.fusion.long_softmax_measured import COLUMNS, check_alike, result, with_backward
from snippets.fusion.scan import cumsum, recurrence
from snippets.fusion.topk import topk
from snippets.start.recurrence_measured import recurrence_doubling
from snippets.tools.benchmarking import Timing, compare
from snippets.tools.benchmarking_cold import compare_in_rotation

ROWS = ((8192, 4096), (16384, 1024), (512, 131072), (1000, 3000))
K = 8


# --8<-- [start:kinds]
class Kind(NamedTuple):
    ours: Callable[..., torch.Tensor]
    torch: Callable[..., torch.Tensor]
    exact: Callable[..., torch.Tensor]
    inputs: int
    forward: int  # elements for each of x, read and written
    both: int


def doubling(a, x):
    """Scan by doubling. The last dimension but one is time; of rows, the last is."""
    if a.ndim == 3:
        return recurrence_doubling(a, x)
    return recurrence_doubling(a[..., None], x[..., None])[..., 0]


def ours_of_pairs(a, x):
    return recurrence(a, x, dim=min(1, a.ndim - 1))


KINDS = {
    "cumsum": Kind(
        cumsum,
        lambda x: torch.cumsum(x, dim=-1),
        lambda x: torch.cumsum(x.float(), dim=-1).to(x.dtype),
        inputs=1, forward=2, both=4,
    ),
    "recurrence": Kind(
        ours_of_pairs,
        doubling,
        lambda a, x: doubling(a.float(), x.float()).to(x.dtype),
        inputs=2, forward=3, both=8,
    ),
    "top 8": Kind(
        lambda x: topk(x, K)[0],
        lambda x: torch.topk(x, K).values,
        lambda x: x.sort(dim=-1, descending=True, stable=True).values[..., :K],
        inputs=1, forward=1, both=2,
    ),
}  # fmt: skip
CASES = [
    *(("cumsum", shape) for shape in ROWS),
    *(("recurrence", shape) for shape in (*ROWS, (4, 2048, 4096))),
    *(("top 8", shape) for shape in ((8192, 4096), (512, 131072), (16384, 128))),
]
NAMED = {f"{kind}, {' × '.join(map(str, shape))}": (kind, shape) for kind, shape in CASES}
# --8<-- [end:kinds]


# --8<-- [start:measure]
def operands(kind: str, shape: tuple[int, ...], step: str) -> list[torch.Tensor]:
    """Return what the functions of a kind take; in the second step also a gradient of the result."""
    random = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16)
    given = [random(*shape) for _ in range(KINDS[kind].inputs)]
    if kind == "recurrence":
        given[0] = torch.sigmoid(2 + 2 * torch.sigmoid(given[0]))
    if step == "both":
        given.append(random(*shape[:-1], K) if kind == "top 8" else random(*shape))
    return given


@functools.cache
def measure(kind: str, shape: tuple[int, ...], step: str) -> dict[str, Timing]:
    """Return the milliseconds of each side, forward or both."""
    torch.manual_seed(0)
    sides = KINDS[kind]._asdict()
    sides = {side: sides[side] for side in ("ours", "torch", "exact")}
    if step == "both":
        sides = {side: with_backward(run) for side, run in sides.items()}
    make = functools.partial(operands, kind, shape, step)
    exact = sides.pop("exact")
    check_alike({"ours": sides["ours"], "exact": exact}, make(), "exact")
    torch.cuda.empty_cache()
    return compare_in_rotation(sides, make, rounds=3)


# --8<-- [end:measure]


# --8<-- [start:tables]
def table(case: str, what: str, step: str) -> float | tuple[float, float, float]:
    kind, shape = NAMED[case]
    moved = getattr(KINDS[kind], step) * torch.Size(shape).numel() * torch.bfloat16.itemsize
    return result(measure(kind, shape, step), moved, what)


AXIS = {"x_names": ["case"], "x_vals": list(NAMED), "xlabel": "kind, shape"}


@triton.testing.perf_report(
    triton.testing.Benchmark(plot_name="forward", args={}, **AXIS, **COLUMNS)
)  # fmt: skip
def forward(case, what):
    """GB/s of each: median, slowest and fastest of 3 rounds; and shares of those of a copy."""
    return table(case, what, "forward")


@triton.testing.perf_report(
    triton.testing.Benchmark(plot_name="both", args={}, **AXIS, **COLUMNS)
)  # fmt: skip
def both(case, what):
    """GB/s of each and its gradients together: median, slowest and fastest of 3 rounds; and shares of the copy's."""
    return table(case, what, "both")


# --8<-- [end:tables]


# --8<-- [start:counting]
COUNTED, BINS = 2**26, 256


@functools.cache
def measure_counting(spread: str) -> dict[str, Timing]:
    """Return the milliseconds of counting, in each way, and of a copy that reads and writes as many bytes in all."""
    torch.manual_seed(0)
    x = torch.randint(BINS, (COUNTED,), device="cuda", dtype=torch.int32)
    if spread == "all the same":
        x.fill_(7)
    floats, half = x.float(), x[: COUNTED // 2]
    target = torch.empty_like(half)
    sides = {
        "ours": lambda: histogram(x, BINS),
        "each": lambda: each_forward(x, BINS),
        "histc": lambda: torch.histc(floats, BINS, min=0, max=BINS),
        "bincount": lambda: torch.bincount(x, minlength=BINS),
    }
    wanted = torch.bincount(x, minlength=BINS)
    for name, run in sides.items():
        if name == "histc" and wanted.max() >= 2**24:
            continue  # it counts in float32, which has no odd numbers from there on
        if not torch.equal(run().long(), wanted):
            raise RuntimeError(f"{name} differs from torch.bincount where integers are {spread}")
    return compare(sides | {"copy": lambda: target.copy_(half)}, rounds=3)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="counting",
        x_names=["spread"],
        x_vals=["evenly", "all the same"],
        xlabel="integers",
        ylabel="µs",
        line_arg="what",
        line_vals=["ours", "each", "histc", "bincount", "copy", "share"],
        line_names=[
            "ours", "an atomic add for each", "torch.histc", "torch.bincount", "copy", "ours, share of copy",
        ],
        args={},
    )
)  # fmt: skip
def counting(spread, what):
    """Microseconds of a histogram: median, fastest and slowest of 3 rounds; and our speed as a share of the copy's."""
    found = measure_counting(spread)
    if what == "share":
        return found["copy"].median / found["ours"].median
    return tuple(ms * 1e3 for ms in (found[what].median, min(found[what].rounds), max(found[what].rounds)))


# --8<-- [end:counting]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (forward, both, counting):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
