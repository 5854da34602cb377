# SPDX-License-Identifier: Apache-2.0
"""Measure what it costs to bring bytes from one GPU to another: by a copy, by a kernel, through the host.

``copy_`` between two GPUs goes straight from one memory to the other if the machine allows it; torch asks, and opens
the way at the first copy. From then on a kernel on the GPU that sent may also load from the other's memory: to Triton
it is a pointer like any other. Before that, Triton refuses it.

Units: GB/s and microseconds, by the host's clock, from the call until both GPUs are done.
Source: PyTorch's ``torch.cuda.can_device_access_peer``; NVIDIA's documentation of peer access between devices.

Run it with ``python memory_two_gpus.py``; it needs two GPUs.
"""

import functools
import re
import statistics
import subprocess
import time
from collections.abc import Callable

import torch
import triton
import triton.language as tl

from snippets.tools.benchmarking import compare

WAYS = {
    "within": "within one GPU's memory",
    "across": "to the other GPU, copy_",
    "loaded": "loaded by a kernel from the other GPU",
    "host": "to the other GPU through pinned memory",
}
SIZES = [2**k for k in range(12, 29, 4)]
BLOCK = 4096  # bytes that a program copies at a time
PROGRAMS = 132 * 16  # at most, so that each has much to do


# --8<-- [start:kernel]
@triton.jit
def copy_kernel(from_ptr, to_ptr, n, BLOCK: tl.constexpr):
    step = tl.num_programs(axis=0).to(tl.int64) * BLOCK
    for begin in range(tl.program_id(axis=0).to(tl.int64) * BLOCK, n, step):
        offsets = begin + tl.arange(0, BLOCK)
        tl.store(to_ptr + offsets, tl.load(from_ptr + offsets, mask=offsets < n), mask=offsets < n)


def load_from(source: torch.Tensor, target: torch.Tensor) -> None:
    """Copy ``source``, which may lie on another GPU, by a kernel on the GPU of ``target``; both contiguous bytes.

    The kernel does not wait for what the other GPU has still to do: synchronize it before.

    Raises:
        ValueError: They differ in shape, or are not contiguous bytes.
        RuntimeError: The GPU of ``target`` cannot reach the memory of the other.
    """
    if source.shape != target.shape or {source.dtype, target.dtype} != {torch.uint8}:
        raise ValueError(f"both must be bytes of one shape; got {source.dtype} of {tuple(source.shape)} and "
                         f"{target.dtype} of {tuple(target.shape)}")  # fmt: skip
    if not (source.is_contiguous() and target.is_contiguous()):
        raise ValueError("both must be contiguous")
    if source.device != target.device:
        open_way(source.device, target.device)
    programs = min(triton.cdiv(source.numel(), BLOCK), PROGRAMS)
    if programs:
        with torch.cuda.device_of(target):
            copy_kernel[(programs,)](source, target, source.numel(), BLOCK=BLOCK)


@functools.cache
def open_way(source: torch.device, target: torch.device) -> None:
    """Let kernels on ``target`` load from ``source``, or raise ``RuntimeError``."""
    if not torch.cuda.can_device_access_peer(target, source):
        raise RuntimeError(f"{target} cannot reach the memory of {source}; copy_ goes through the host between them")
    # torch lets the GPU that sends reach the one that receives. Here the receiver fetches, so send it the other way.
    torch.zeros(1, device=target).to(source)
# --8<-- [end:kernel]


# --8<-- [start:wall]
def until_both_done(run: Callable[[], object], *, calls: int = 20) -> float:
    """Return a call's milliseconds by the host's clock, until both GPUs are done: the median of ``calls``, at least 1.
    """
    times = []
    for _ in range(calls):
        for gpu in (0, 1):
            torch.cuda.synchronize(gpu)
        begin = time.perf_counter()
        run()
        for gpu in (0, 1):
            torch.cuda.synchronize(gpu)
        times.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times)
# --8<-- [end:wall]


# --8<-- [start:ways]
def ways(size: int) -> dict[str, Callable[[], object]]:
    """Return a function for each of ``WAYS`` that brings ``size`` bytes there."""
    source, near = torch.ones(2, size, dtype=torch.uint8, device="cuda:0")
    far = torch.zeros(size, dtype=torch.uint8, device="cuda:1")
    pinned = torch.ones(size, dtype=torch.uint8).pin_memory()

    def through_host():
        pinned.copy_(source, non_blocking=True)
        torch.cuda.synchronize(0)  # the other GPU does not wait for this one
        far.copy_(pinned, non_blocking=True)

    return {
        "within": lambda: near.copy_(source),
        "across": lambda: far.copy_(source),
        "loaded": lambda: load_from(source, far),
        "host": through_host,
    }
# --8<-- [end:ways]


@functools.cache
def measure(size):
    """Return a ``Timing`` for each of ``WAYS``."""
    timer = functools.partial(until_both_done, calls=20 if size < 2**24 else 5)
    return compare(ways(size), rounds=6, timer=timer)


def report(plot_name, ylabel, lines):
    return triton.testing.Benchmark(
        plot_name=plot_name, x_names=["bytes"], x_vals=SIZES, x_log=True, xlabel="bytes", ylabel=ylabel,
        line_arg="way", line_vals=list(lines), line_names=[WAYS[way] for way in lines], args={},
    )  # fmt: skip


@triton.testing.perf_report(report("rate", "GB/s", WAYS))
def rate(bytes, way):
    """Bytes that arrive per second: median, slowest and fastest of 6 rounds."""
    return measure(bytes)[way].rate(bytes)


@triton.testing.perf_report(report("wait", "µs", WAYS))
def wait(bytes, way):
    """Microseconds from the call until both GPUs are done: median, least and most of 6 rounds."""
    rounds = measure(bytes)[way].rounds
    return tuple(1e3 * ms for ms in (statistics.median(rounds), min(rounds), max(rounds)))


def link(topology: str) -> str:
    """Return how ``nvidia-smi topo -m`` calls the way from one GPU to the other, such as NV18: 18 lines of NVLink.

    >>> link("        GPU0    GPU1    CPU Affinity\\nGPU0     X      NV18    0-31\\nGPU1    NV18     X      0-31")
    'NV18'
    """
    found = re.search(r"^GPU0\s+X\s+(\S+)", topology, re.MULTILINE)
    return found[1] if found else "unknown"


def said_of(source: torch.Tensor, target: torch.Tensor) -> str:
    """Return what becomes of a kernel on the GPU of ``target`` that loads from ``source``, the way open or not."""
    try:
        with torch.cuda.device_of(target):
            copy_kernel[(1,)](source, target, source.numel(), BLOCK=BLOCK)
    except ValueError as error:
        return str(error)
    return "right" if torch.equal(source.cpu(), target.cpu()) else "wrong"


def main():
    if torch.cuda.device_count() < 2:
        raise SystemExit(f"it needs two GPUs, and {torch.cuda.device_count()} can be seen here")
    print("GPU 1 reaches the memory of GPU 0:", "yes" if torch.cuda.can_device_access_peer(1, 0) else "no")
    topology = subprocess.run(["nvidia-smi", "topo", "-m"], capture_output=True, text=True).stdout
    print("the way between them:", link(re.sub(r"\x1b\[\d*m", "", topology)))
    source = torch.ones(1, dtype=torch.uint8, device="cuda:0")
    far = torch.zeros(1, dtype=torch.uint8, device="cuda:1")
    print("a kernel, before any copy:", said_of(source, far))
    open_way(source.device, far.device)
    print("a kernel, after a copy from GPU 1 to GPU 0:", said_of(source, far))
    for size in (1, 10_001):
        data = (torch.arange(size) % 251).to(torch.uint8)
        source, far = data.to("cuda:0"), torch.zeros(size, dtype=torch.uint8, device="cuda:1")
        far.copy_(source)
        print(f"{size} bytes, copy_:", "equal" if torch.equal(far.cpu(), data) else "NOT equal")
        far.zero_()
        load_from(source, far)
        print(f"{size} bytes, loaded by a kernel:", "equal" if torch.equal(far.cpu(), data) else "NOT equal")


if __name__ == "__main__":
    main()
