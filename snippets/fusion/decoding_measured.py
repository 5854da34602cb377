# SPDX-License-Identifier: Apache-2.0
"""Attention for decoding, measured: how near ``decoding.py`` comes to the time of reading keys and values.

- :func:`times`: microseconds of ours, of ours with keys in pages, of ours unsplit, and of torch
- :func:`bandwidth`: bytes of keys and values in a second, and as shares of those that a copy reads and writes
- :func:`errors`: how far the results are from those of float64

One query a sequence, 8 heads of keys with 4 heads of queries each, head_dim 128, pages of 16 keys in random order.
bfloat16, normally distributed. torch is ``scaled_dot_product_attention`` with ``enable_gqa``, which chooses its kernel
by itself. All sides run in turns on operands in rotation, all calls in one CUDA graph
(``snippets/tools/benchmarking_cold.py``), after their results were compared. The copy, which moves as many bytes, is
timed by itself in the same run.

Units: microseconds; GB/s of 10**9 bytes, of attention those of ``k`` and ``v``, of the copy those read and written.
Reading alone may be faster than a copy, so a share may be above 1. An error is a norm, as a share of the result's.

``python decoding_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools

import torch
import triton

from snippets.fusion.decoding import decode_attention, gathered, in_torch
from snippets.fusion.long_softmax_measured import check_alike, measure_copy
from snippets.tools.benchmarking import Timing
from snippets.tools.benchmarking_cold import compare_in_rotation, empty

KV_HEADS, GROUP, HEAD_DIM, PAGE_SIZE = 8, 4, 128, 16
SHAPES = ((1, 65536), (16, 8192), (1, 8192), (64, 2048))
NAMED = {f"{batch} × {keys}": (batch, keys) for batch, keys in SHAPES}


# --8<-- [start:sides]
def torch_attention(q, k, v, *_):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def in_pages(q, k, v, cache_k, cache_v, page_table):
    return decode_attention(q, cache_k, cache_v, page_table=page_table)


SIDES = {
    "ours": lambda q, k, v, *_: decode_attention(q, k, v),
    "pages": in_pages,
    "unsplit": lambda q, k, v, *_: decode_attention(q, k, v, splits=1),
    "torch": torch_attention,
}


def operands(batch: int, keys: int) -> list[torch.Tensor]:
    """Return q, k and v; the same keys and values in pages, and the page table."""
    random = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16)
    pages = batch * keys // PAGE_SIZE
    page_table = torch.randperm(pages, device="cuda").to(torch.int32).view(batch, -1)
    caches = [random(pages, PAGE_SIZE, KV_HEADS, HEAD_DIM) for _ in range(2)]
    k, v = (gathered(cache, page_table).contiguous() for cache in caches)
    return [random(batch, KV_HEADS * GROUP, 1, HEAD_DIM), k, v, *caches, page_table]
# --8<-- [end:sides]


# --8<-- [start:measure]
@functools.cache
def measure(batch: int, keys: int) -> dict[str, Timing]:
    """Return the milliseconds of each side, and of a kernel that does nothing: no reading is shorter."""
    torch.manual_seed(0)
    make = functools.partial(operands, batch, keys)
    check_alike(SIDES, make(), "torch")
    return compare_in_rotation(SIDES | {"empty": empty}, make, rounds=3)


@functools.cache
def measure_errors(batch: int, keys: int) -> dict[str, float]:
    torch.manual_seed(0)
    given = operands(batch, keys)
    exact = in_torch(*(x.double() for x in given[:3]))
    return {name: ((run(*given) - exact).norm() / exact.norm()).item() for name, run in SIDES.items()}


def bytes_read(batch: int, keys: int) -> int:
    """Return the bytes of keys and values that a call reads.

    >>> bytes_read(1, 65536) / 1e6
    268.435456
    """
    return 2 * batch * KV_HEADS * keys * HEAD_DIM * torch.bfloat16.itemsize
# --8<-- [end:measure]


AXIS = {"x_names": ["shape"], "x_vals": list(NAMED), "xlabel": "sequences × keys", "line_arg": "what", "args": {}}


# --8<-- [start:tables]
@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="times",
        ylabel="µs",
        line_vals=["ours", "pages", "unsplit", "torch", "empty"],
        line_names=["ours", "ours, in pages", "ours, not split", "torch", "empty kernel"],
        **AXIS,
    )
)
def times(shape, what):
    """Microseconds of attention of one query a sequence: median, fastest and slowest of 3 rounds."""
    timing = measure(*NAMED[shape])[what]
    return tuple(1e3 * ms for ms in (timing.median, min(timing.rounds), max(timing.rounds)))


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="bandwidth",
        ylabel="GB/s",
        line_vals=["ours", "pages", "torch", "copy", "share", "pages_share", "torch_share"],
        line_names=[
            "ours", "ours, in pages", "torch", "copy",
            "ours, share of copy", "in pages, share of copy", "torch, share of copy",
        ],
        **AXIS,
    )
)  # fmt: skip
def bandwidth(shape, what):
    """Bytes of keys and values in a second, of a copy those read and written: median, slowest, fastest; and shares."""
    read = bytes_read(*NAMED[shape])
    copy = measure_copy(read)
    if what == "copy":
        return copy.rate(read)
    found = measure(*NAMED[shape])
    shares = {"share": "ours", "pages_share": "pages", "torch_share": "torch"}
    return copy.median / found[shares[what]].median if what in shares else found[what].rate(read)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="errors",
        ylabel="error",
        line_vals=list(SIDES),
        line_names=["ours", "ours, in pages", "ours, not split", "torch"],
        **AXIS,
    )
)
def errors(shape, what):
    """The norm of the difference to the result in float64, as a share of its norm."""
    return measure_errors(*NAMED[shape])[what]
# --8<-- [end:tables]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (times, bandwidth, errors):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
