# SPDX-License-Identifier: Apache-2.0
"""Time functions on operands that are not in the cache, one call after another, as a model calls its layers.

Between two calls of one layer a model reads all its other layers, so a layer finds nothing of its own in the L2 cache.
Here functions get many sets of operands, several times what L2 holds, and run once on each, all calls in one CUDA
graph. When a set's turn comes again, it has long left the cache. No flush stands between two calls, so nothing of one
is in the reading, and neither is a launch from Python.

- ``compare_in_rotation``: milliseconds of each side, all on the same sets, in turns
- ``rates``: the same as TFLOP/s or GB/s
- ``empty``: a kernel that does nothing, to be timed as another side. No reading is shorter.

Outputs are allocated while the graph is recorded. As in a model, one call may write where another has written.
Where one call must stand alone, ``milliseconds`` of ``benchmarking.py`` times it.

Units: milliseconds.
Source: CUDA graphs, https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs.

Run it with ``python benchmarking_cold.py``: what it prints needs no GPU, for it counts sets.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import torch
import triton

from snippets.tools.benchmarking import Timing, check_gpu, compare

TIMES_L2 = 4  # what the sets hold together, in sizes of L2: after so much else, nothing of a set is left in it
MOST_SETS = 4096  # sets so small that it would take more stay in L2, and are refused
LEAST = 1.0  # milliseconds of a graph: two microseconds pass between two of them
READING = 20.0  # milliseconds: long against the half microsecond that an event's time is good for
STEADY = 250.0  # milliseconds in which the GPU's clock follows the power that a large product draws


# --8<-- [start:sets]
def sets_needed(bytes_of_a_set: int, l2_bytes: int) -> int:
    """Return how many sets of operands make each leave L2 before its turn comes again.

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
            f"it takes {sets:,} sets, and a graph gets {MOST_SETS:,}; time single calls by benchmarking.milliseconds"
        )
    return sets
# --8<-- [end:sets]


def operands_in_rotation(make: Callable[[], Sequence[torch.Tensor]]) -> list[Sequence[torch.Tensor]]:
    """Call ``make`` as often as it takes; it returns new operands, on the GPU, each time. Raises ``ValueError``."""
    check_gpu()
    first = make()
    stores = {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in first}
    l2_bytes = torch.cuda.get_device_properties(first[0].device).L2_cache_size
    return [first, *(make() for _ in range(sets_needed(sum(stores.values()), l2_bytes) - 1))]


# --8<-- [start:rotation]
class Rotation:
    """One call of ``run`` on each set of operands, again and again in a CUDA graph; calling it runs the graph.

    The sets must outlive it, for a graph knows only their addresses.

    ``steady``: before each reading it runs by itself for ``STEADY`` milliseconds. Large products meet the GPU's limit
    of power, which lowers the clock, and the next side in turn would begin at the clock of the one before.
    """

    def __init__(self, run: Callable[..., object], sets: Sequence[Sequence[torch.Tensor]], *, steady: bool = False):
        for _ in range(3):
            run(*sets[0])  # compiles and tunes, which a graph cannot record
        torch.cuda.synchronize()
        self.before, self.replays = 1, 3
        self.record(run, sets)
        if (lasts := self.lasts()) < LEAST:
            self.record(run, [*sets] * math.ceil(LEAST / lasts))
            lasts = self.lasts()
        self.before = math.ceil(STEADY / lasts) if steady else 1  # at least one, so that all that count follow another
        self.replays = max(1, round(READING / lasts))

    def record(self, run: Callable[..., object], sets: Sequence[Sequence[torch.Tensor]]) -> None:
        self.calls, self.graph = len(sets), torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for operands in sets:
                run(*operands)

    def __call__(self) -> None:
        self.graph.replay()

    def lasts(self) -> float:
        """Return the milliseconds of the graph, on average over some replays."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for _ in range(self.before):
            self()
        begin.record()
        for _ in range(self.replays):
            self()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / self.replays

    def milliseconds(self) -> float:
        """Return the milliseconds of one call."""
        return self.lasts() / self.calls


def compare_in_rotation(
    sides: Mapping[str, Callable[..., object]],
    make: Callable[[], Sequence[torch.Tensor]],
    *,
    rounds: int = 10,
    steady: bool = False,
) -> dict[str, Timing]:
    """Time functions of some operands in turns, all on the same sets of operands in rotation.

    Args:
        sides: Functions by name. Each takes what ``make`` returns, and does the same work. ``empty`` may be one.
        make: Returns new operands: tensors on the GPU, with random data. If a side reads only some of them, they should
            be half of the bytes at least; else it is not cold.
        rounds: How many readings of each side, each of about ``READING`` milliseconds.
        steady: Whether each side runs by itself before it is read, as large products should; see ``Rotation``.

    Returns:
        A :class:`Timing` for each side: milliseconds of a call.

    Raises:
        ValueError: There is no GPU, the operands are too small to be cold, or ``compare`` refuses the sides.
    """
    sets = operands_in_rotation(make)
    recorded = {name: Rotation(run, sets, steady=steady) for name, run in sides.items()}
    return compare(recorded, rounds=rounds, timer=lambda rotation: rotation.milliseconds())
# --8<-- [end:rotation]


# --8<-- [start:rates]
def rates(
    sides: Mapping[str, Callable[..., object]],
    make: Callable[[], Sequence[torch.Tensor]],
    flops: int,
    *,
    rounds: int = 4,
    steady: bool | None = None,
    unit: float = 1e12,
) -> dict[str, tuple[float, float, float]]:
    """Compare as ``compare_in_rotation``; return TFLOP/s of each side: median, slowest and fastest round.

    ``flops`` is what a call computes, or, with ``unit=1e9`` for GB/s, how many bytes it moves. Without ``steady``,
    calls of more than 10**11 FLOPs are read steady: by them the clock falls.
    """
    steady = flops > 1e11 if steady is None else steady
    found = compare_in_rotation(sides, make, rounds=rounds, steady=steady)
    return {name: timing.rate(flops, unit) for name, timing in found.items()}
# --8<-- [end:rates]


# --8<-- [start:empty]
@triton.jit
def empty_kernel():
    pass


def empty(*operands: torch.Tensor) -> None:
    """Launch one program that does nothing: the least that any reading can be."""
    empty_kernel[(1,)]()
# --8<-- [end:empty]


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
