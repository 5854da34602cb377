# SPDX-License-Identifier: Apache-2.0
"""The copies of ``gluon_copy.py``, measured: what a layout does to the bytes that they move in a second.

- :func:`width`: 256 MiB in a row, by the elements that a thread holds side by side
- :func:`tiles`: a matrix of 8192 x 8192 in tiles, into one whose rows lie one after another, or whose columns do; by
  the layouts in which tiles are loaded and stored

All sides run in turns, on operands in rotation, all calls in one CUDA graph (``snippets/tools/benchmarking_cold.py``).
Each call allocates its result.

Units: GB/s of 10**9 bytes, read and written.

``python gluon_copy_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools

import torch
import triton

from snippets.below.gluon_copy import LAYOUTS, copy, copy_tiles
from snippets.tools.benchmarking_cold import rates

BYTES, SIDE = 2**28, 8192
DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32, "int8": torch.int8}
WIDTHS = (1, 2, 4, 8, 16)
WAYS = {f"{load} to {store}": (load, store) for load in LAYOUTS for store in LAYOUTS}


def numbers(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    """Random bytes, of any dtype: a copy doesn't ask what they say."""
    *rest, last = shape
    return torch.randint(-128, 128, (*rest, last * dtype.itemsize), dtype=torch.int8, device="cuda").view(dtype)


# --8<-- [start:width]
@functools.cache
def measure_width(dtype: str) -> dict:
    """Return the rates of copies by the elements of a thread, and that of torch's ``clone``."""
    torch.manual_seed(0)
    make = lambda: (numbers(BYTES // DTYPES[dtype].itemsize, dtype=DTYPES[dtype]),)
    sides = {each: functools.partial(copy, per_thread=each) for each in WIDTHS} | {"torch": torch.clone}
    return rates(sides, make, 2 * BYTES, unit=1e9, steady=False)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="width", x_names=["per_thread"], x_vals=list(WIDTHS), x_log=True,
        xlabel="neighbors for each thread", ylabel="GB/s", line_arg="dtype",
        line_vals=list(DTYPES), line_names=list(DTYPES), args={},
    )
)  # fmt: skip
def width(per_thread, dtype):
    """Bytes in a second of a copy of 256 MiB, by the elements that a thread holds side by side."""
    return measure_width(dtype)[per_thread]


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="clone", x_names=["dtype"], x_vals=list(DTYPES), xlabel="dtype", ylabel="GB/s",
        line_arg="side", line_vals=["torch"], line_names=["torch.clone"], args={},
    )
)  # fmt: skip
def clone(dtype, side):
    """Bytes in a second of torch's own copy, in the same run."""
    return measure_width(dtype)[side]
# --8<-- [end:width]


# --8<-- [start:tiles]
def copied(x: torch.Tensor, *, load: str, store: str, transposed: bool) -> torch.Tensor:
    out = torch.empty_like(x)
    copy_tiles(x, out.t() if transposed else out, load=load, store=store)
    return out


@functools.cache
def measure_tiles(transposed: bool) -> dict:
    torch.manual_seed(0)
    make = lambda: (numbers(SIDE, SIDE, dtype=torch.float32),)
    sides = {
        way: functools.partial(copied, load=load, store=store, transposed=transposed)
        for way, (load, store) in WAYS.items()
    }
    sides["torch"] = (lambda x: x.t().contiguous()) if transposed else torch.clone
    return rates(sides, make, 2 * SIDE**2 * 4, unit=1e9, steady=False)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="tiles", x_names=["layouts"], x_vals=[*WAYS, "torch"], xlabel="loaded to stored", ylabel="GB/s",
        line_arg="into", line_vals=["rows", "columns"], line_names=["into rows", "into columns"], args={},
    )
)  # fmt: skip
def tiles(layouts, into):
    """Bytes in a second of copies of a matrix of float32: as it is, or transposed in memory."""
    return measure_tiles(into == "columns")[layouts]
# --8<-- [end:tiles]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (width, clone, tiles):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
