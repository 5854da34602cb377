# SPDX-License-Identifier: Apache-2.0
"""Time functions on operands that are not in the cache, without leaving the cache full of work for the reading.

Between two calls of one layer a model reads all its other layers, so a layer finds nothing of its own in the L2 cache.
Two ways to time it like that:

- ``compare_in_rotation``, for most uses: many sets of operands, several times what L2 holds, one call on each, all
  calls in one CUDA graph. When a set's turn comes again, it has long left the cache. Nothing stands between two
  calls, so no launch from Python is in the reading either.
- ``milliseconds_of_one_call``, where one call must stand alone: before each, memory larger than L2 is written over
  *and then read over*. Writing alone, as ``do_bench`` does it, leaves L2 full of modified lines; they have to go to
  memory first, while the call that is timed waits.

No reading is shorter than a kernel that does nothing: ``empty`` is one, to be timed as another side.

Units: milliseconds.
Source: CUDA graphs, https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs.

Run it with ``python benchmarking_cold.py``: what it prints needs no GPU, for it counts sets.
"""

import math
import os
import statistics
from collections.abc import Callable, Mapping, Sequence

import torch
import triton

from snippets.tools.benchmarking import Timing, compare

TIMES_L2 = 4  # what the sets hold together, in sizes of L2: after so much else, nothing of a set is left in it
MOST_SETS = 4096  # calls in one graph; sets so small that it would take more stay in L2, and are refused
READING = 20.0  # milliseconds: long against the half microsecond that an event's time is good for


# --8<-- [start:sets]
def sets_needed(bytes_of_a_set: int, l2_bytes: int) -> int:
    """How many sets of operands, so that each has left L2 when its turn comes again.

    Args:
        bytes_of_a_set: What one call reads.
        l2_bytes: What the cache holds: ``torch.cuda.get_device_properties(0).L2_cache_size``.

    Raises:
        ValueError: It would take more than ``MOST_SETS``.

    >>> sets_needed(2**25, l2_bytes=60 * 2**20)  # a weight of 4096 x 4096 in 16 bits, and the L2 of an H200
    9
    """
    sets = 1 + math.ceil(TIMES_L2 * l2_bytes / bytes_of_a_set)  # one is in use
    if sets > MOST_SETS:
        raise ValueError(
            f"operands of {bytes_of_a_set:,} bytes are too small to push each other out of {l2_bytes:,} bytes of L2: "
            f"it takes {sets:,} sets, and a graph gets {MOST_SETS:,}; time single calls by milliseconds_of_one_call"
        )
    return sets
# --8<-- [end:sets]


def operands_in_rotation(make: Callable[[], Sequence[torch.Tensor]]) -> list[Sequence[torch.Tensor]]:
    """Call ``make`` as often as it takes; it returns new operands, on the GPU, each time. Raises ``ValueError``."""
    check_gpu()
    first = make()
    size = sum(each.untyped_storage().nbytes() for each in first)
    l2_bytes = torch.cuda.get_device_properties(first[0].device).L2_cache_size
    return [first, *(make() for _ in range(sets_needed(size, l2_bytes) - 1))]


# --8<-- [start:rotation]
class Rotation:
    """One call of ``run`` on each set of operands, recorded in a CUDA graph; calling it runs them all."""

    def __init__(self, run: Callable[..., object], sets: Sequence[Sequence[torch.Tensor]]):
        for _ in range(3):
            run(*sets[0])  # compiles and tunes, which a graph cannot record
        torch.cuda.synchronize()
        self.calls, self.graph = len(sets), torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for operands in sets:
                run(*operands)
        self.replays = max(1, round(READING / self.milliseconds(replays=3) / self.calls))

    def __call__(self) -> None:
        self.graph.replay()

    def milliseconds(self, replays: int | None = None) -> float:
        """Milliseconds of one call, on average over some replays of the graph."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        replays = replays or self.replays
        self()  # so that the first that counts also follows another
        begin.record()
        for _ in range(replays):
            self()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / replays / self.calls


def compare_in_rotation(
    sides: Mapping[str, Callable[..., object]], make: Callable[[], Sequence[torch.Tensor]], *, rounds: int = 10
) -> dict[str, Timing]:
    """Time functions of some operands in turns, all on the same sets of operands in rotation.

    Args:
        sides: Functions by name. Each takes what ``make`` returns, and does the same work. ``empty`` may be one.
        make: Returns new operands: tensors on the GPU, with random data.
        rounds: How many readings of each side, each of about ``READING`` milliseconds.

    Returns:
        A :class:`Timing` for each side: milliseconds of a call.

    Raises:
        ValueError: There is no GPU, the operands are too small to be cold, or ``compare`` refuses the sides.
    """
    sets = operands_in_rotation(make)
    recorded = {name: Rotation(run, sets) for name, run in sides.items()}
    return compare(recorded, rounds=rounds, timer=lambda rotation: rotation.milliseconds())
# --8<-- [end:rotation]


# --8<-- [start:single]
def milliseconds_of_one_call(run: Callable[[], object], *, calls: int = 100) -> float:
    """The median of single calls, each with an L2 cache that holds nothing of theirs and nothing left to be written.

    A timer for ``compare``. Raises ``ValueError`` without a GPU.
    """
    check_gpu()
    size = 8 * torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    written, read = (torch.empty(size, dtype=torch.uint8, device="cuda") for _ in range(2))
    read.zero_()
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(calls)]
    for _ in range(10):
        run()
    for begin, end in events:
        written.zero_()  # pushes out what the last call left
        read.view(torch.int64).amax()  # pushes out the zeros, which go to memory now and not during the call
        begin.record()
        run()
        end.record()
    torch.cuda.synchronize()
    return statistics.median(begin.elapsed_time(end) for begin, end in events)
# --8<-- [end:single]


# --8<-- [start:empty]
@triton.jit
def empty_kernel():
    pass


def empty(*operands: torch.Tensor) -> None:
    """Launch one program that does nothing: the least that any reading can be."""
    empty_kernel[(1,)]()
# --8<-- [end:empty]


def check_gpu() -> None:
    """Raise ``ValueError`` where a time would say nothing about a GPU."""
    if os.environ.get("TRITON_INTERPRET") == "1":
        raise ValueError("TRITON_INTERPRET=1 is set: these would be times of the interpreter; unset it")
    if not torch.cuda.is_available():
        raise ValueError("no GPU found, and these functions time one")


# --8<-- [start:main]
def main():
    l2_bytes = 60 * 2**20  # of an H200
    for side in (512, 1024, 2048, 4096, 8192):
        size = 2 * side * side * 2  # two square matrices in 16 bits
        print(f"{side} x {side}, two of {size // 2 / 2**20:g} MiB: {sets_needed(size, l2_bytes)} sets")
    try:
        sets_needed(2 * 64 * 64 * 2, l2_bytes)
    except ValueError as error:
        print(error)
# --8<-- [end:main]


if __name__ == "__main__":
    main()
