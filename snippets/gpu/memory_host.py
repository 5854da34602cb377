# SPDX-License-Identifier: Apache-2.0
"""What it costs to bring data from the host to the GPU and back, from ordinary memory and from pinned memory.

The host's operating system may move or swap out ordinary memory, called pageable. The GPU cannot fetch from there by
itself; the driver copies the data, piece by piece, through memory that is pinned: kept where it is.

Units: microseconds and GB/s, by the host's clock, from the call of ``copy_`` until the data is there.
Source: NVIDIA's CUDA C++ Best Practices Guide, on pinned memory; torch's ``Tensor.pin_memory``.

Run it with ``python memory_host.py``; it needs a GPU.
"""

import functools
import statistics
import time
from collections.abc import Callable

import torch
import triton

from snippets.tools.benchmarking import compare

DIRECTIONS = {
    "in_pageable": "to the GPU, pageable",
    "in_pinned": "to the GPU, pinned",
    "out_pageable": "from the GPU, pageable",
    "out_pinned": "from the GPU, pinned",
}


# --8<-- [start:wall]
def until_done(run: Callable[[], object], *, calls: int = 20) -> float:
    """Return the milliseconds of a call by the host's clock, with waiting
    until the GPU is done: median of ``calls``.

    Raises:
        ValueError: ``calls`` is less than 1.
    """
    if calls < 1:
        raise ValueError(f"calls must be at least 1; got {calls}")
    times = []
    for _ in range(calls):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times)
# --8<-- [end:wall]


# --8<-- [start:copies]
def copies(size: int) -> dict[str, Callable[[], torch.Tensor]]:
    """Return functions that copy ``size`` bytes, by ``DIRECTIONS``."""
    on_gpu = torch.zeros(size, dtype=torch.uint8, device="cuda")
    # written, so that every page of it exists.
    pageable = torch.ones(size, dtype=torch.uint8)
    pinned = torch.ones(size, dtype=torch.uint8).pin_memory()
    return {
        "in_pageable": lambda: on_gpu.copy_(pageable),
        "in_pinned": lambda: on_gpu.copy_(pinned, non_blocking=True),
        "out_pageable": lambda: pageable.copy_(on_gpu),
        "out_pinned": lambda: pinned.copy_(on_gpu, non_blocking=True),
    }
# --8<-- [end:copies]


@functools.lru_cache(maxsize=16)
def measure(size, rounds=4):
    """Return a ``Timing`` for each of ``DIRECTIONS``."""
    timer = functools.partial(until_done, calls=20 if size < 2**24 else 5)
    return compare(copies(size), rounds=rounds, timer=timer)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="host",
        x_names=["bytes"],
        x_vals=[2**k for k in range(12, 29, 2)],
        x_log=True,
        xlabel="bytes in a copy",
        ylabel="GB/s",
        line_arg="direction",
        line_vals=list(DIRECTIONS),
        line_names=list(DIRECTIONS.values()),
        args={},
    )
)
def host(bytes, direction):
    """Bytes copied per second: median, slowest and fastest of 4 rounds."""
    return measure(bytes)[direction].rate(bytes)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="small",
        x_names=["bytes"],
        x_vals=[4, 2**12, 2**16, 2**20],
        xlabel="bytes in a copy",
        ylabel="µs",
        line_arg="direction",
        line_vals=list(DIRECTIONS),
        line_names=list(DIRECTIONS.values()),
        args={},
    )
)
def small(bytes, direction):
    """Microseconds of one copy: median, least and most of 4 rounds."""
    timing = measure(bytes)[direction]
    return tuple(ms * 1e3 for ms in (timing.median, min(timing.rounds), max(timing.rounds)))


# --8<-- [start:pinning]
@functools.lru_cache(maxsize=4)
def measure_pinning(size):
    """Return the milliseconds of pinning ``size`` bytes of a tensor the first time, and again; and of a pageable copy.
    """
    ordinary, on_gpu = torch.ones(size, dtype=torch.uint8), torch.empty(size, dtype=torch.uint8, device="cuda")
    pin = lambda: ordinary.pin_memory()
    found = {"first": until_done(pin, calls=1)}
    found["again"] = until_done(pin)  # torch has kept the pinned memory of the first
    return found | {"copy": until_done(lambda: on_gpu.copy_(ordinary), calls=5)}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="pinning",
        x_names=["bytes"],
        x_vals=[2**20 + 2**18, 2**24 + 2**22, 2**28 + 2**26],  # sizes that nothing else has pinned yet
        xlabel="bytes",
        ylabel="ms",
        line_arg="what",
        line_vals=["first", "again", "copy"],
        line_names=["pin_memory, first time", "pin_memory, again", "a pageable copy to the GPU"],
        args={},
    )
)
def pinning(bytes, what):
    """Milliseconds, by the host's clock; the first time is one reading."""
    return measure_pinning(bytes)[what]
# --8<-- [end:pinning]


# --8<-- [start:early]
def read_early_bug(size):
    """Copy ones into pinned zeros; return the last, at once and later."""
    on_gpu = torch.ones(size, dtype=torch.uint8, device="cuda")
    pinned = torch.zeros(size, dtype=torch.uint8).pin_memory()
    pinned.copy_(on_gpu, non_blocking=True)
    at_once = pinned[-1].item()
    torch.cuda.synchronize()
    return at_once, pinned[-1].item()
# --8<-- [end:early]


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found: there is nothing to copy to and from")
    size = 10_001
    expected = torch.arange(size, dtype=torch.uint8) % 251
    pinned = expected.pin_memory()
    print("pageable, there and back:", "equal" if torch.equal(expected.cuda().cpu(), expected) else "NOT equal")
    back = torch.empty_like(expected).pin_memory()
    back.copy_(pinned.to("cuda", non_blocking=True), non_blocking=True)
    torch.cuda.synchronize()  # a copy into pinned memory returns before it is done
    print("pinned, there and back:", "equal" if torch.equal(back, expected) else "NOT equal")
    at_once, later = read_early_bug(2**28)
    print("read at once:", at_once)
    print("read after waiting:", later)


if __name__ == "__main__":
    main()
