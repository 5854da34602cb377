# SPDX-License-Identifier: Apache-2.0
"""Time functions against each other: in turns, by one timer, each reading a median, every reading kept.

``compare`` is what to copy. Its timer, ``milliseconds``, times single calls, each with an L2 cache that is cold and
clean: nothing of the call's is in it, and nothing that has yet to be written to memory. ``do_bench`` cares for the
first only. ``time_runs`` is ``do_bench`` in a dozen lines, with its cares, warming up and emptying the L2 cache, as
switches, so that one can see what each is good for. For many calls in a row, as a model makes them, see
``benchmarking_cold.py``.

Units: milliseconds, as ``do_bench`` returns them; ``Timing.rate`` makes GB/s or TFLOP/s of them.
Source: ``do_bench`` in ``triton/testing.py``.

Run it with ``python benchmarking.py``: what it prints needs no GPU, for it reads made-up clocks.
"""

import inspect
import itertools
import math
import os
import statistics
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
import triton


# --8<-- [start:timing]
class Timing(NamedTuple):
    """Milliseconds of one side, one reading for each round.

    >>> Timing((2.0, 4.0, 3.0)).median
    3.0
    """

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    @property
    def spread(self) -> float:
        """How far the slowest round lies above the fastest, as a share of the median."""
        return (max(self.rounds) - min(self.rounds)) / self.median

    def rate(self, amount: float, unit: float = 1e9) -> tuple[float, float, float]:
        """``amount`` bytes or operations a call, as so many ``unit`` a second: of the median, slowest, fastest round.

        In this order ``perf_report`` draws a line with a band.

        >>> Timing((2.0, 4.0, 3.0)).rate(12_000_000)  # 12 MB in 3 ms are 4 GB/s
        (4.0, 3.0, 6.0)
        """
        return tuple(amount / (ms * 1e-3) / unit for ms in (self.median, max(self.rounds), min(self.rounds)))
# --8<-- [end:timing]


# --8<-- [start:single]
def milliseconds(run: Callable[[], object]) -> float:
    """Time one call on the GPU: the median of about 50 ms of calls, each with the L2 cache cold and clean before it.

    Raises:
        ValueError: There is no GPU, or kernels run in Triton's interpreter: its times say nothing about a GPU.
    """
    check_gpu()
    once = statistics.mean(time_runs(run, runs=3, warmups=1))
    warmups, runs = (round(budget / once) for budget in (10, 40))  # milliseconds of each
    return statistics.median(time_runs(run, runs=min(max(runs, 3), 200), warmups=min(max(warmups, 1), 50)))


def check_gpu() -> None:
    """Raise ``ValueError`` where a time would say nothing about a GPU."""
    if os.environ.get("TRITON_INTERPRET") == "1":
        raise ValueError("TRITON_INTERPRET=1 is set: these would be times of the interpreter; unset it")
    if not torch.cuda.is_available():
        raise ValueError("no GPU found, and this times one; on made-up clocks, pass another timer")
# --8<-- [end:single]


# --8<-- [start:compare]
def compare(
    sides: Mapping[str, Callable[[], object]],
    *,
    rounds: int = 10,
    timer: Callable[[Callable[[], object]], float] = milliseconds,
) -> dict[str, Timing]:
    """Time several functions in turns, all by the same timer.

    A GPU's speed drifts while you measure. So each round times every side once, and every other round goes
    backwards: what drifts evenly then hits all sides alike.

    Args:
        sides: Functions to call without arguments, by name. They should do the same work on the same data.
        rounds: How many readings to take of each side. An even number cancels drift best.
        timer: Takes a side and returns milliseconds, such as ``triton.testing.do_bench_cudagraph``.

    Returns:
        A :class:`Timing` for each side, in the order of ``sides``.

    Raises:
        ValueError: ``sides`` are not named functions, ``rounds`` is not positive, a reading is no positive number.

    >>> compare({"old": lambda: 3, "new": lambda: 2}, rounds=2, timer=lambda run: run())
    {'old': Timing(rounds=(3.0, 3.0)), 'new': Timing(rounds=(2.0, 2.0))}
    """
    if not isinstance(sides, Mapping) or not sides:
        raise ValueError(f'sides must be functions by name, as in {{"mine": lambda: add(x, y)}}; got {sides!r}')
    for name, run in sides.items():
        if not callable(run):
            raise ValueError(f"{name!r} must be a function; got {run!r}: put `lambda:` before the call")
    if not isinstance(rounds, int) or rounds < 1:
        raise ValueError(f"rounds must be a whole number from 1; got {rounds!r}")
    # --8<-- [start:turns]
    readings = {name: [] for name in sides}
    for number in range(rounds):
        for name in list(sides) if number % 2 == 0 else reversed(list(sides)):
            reading = float(timer(sides[name]))
            if not (math.isfinite(reading) and reading > 0):
                raise ValueError(f"the timer must return milliseconds, more than none; for {name!r} it was {reading}")
            readings[name].append(reading)
    return {name: Timing(tuple(found)) for name, found in readings.items()}
    # --8<-- [end:turns]
# --8<-- [end:compare]


# --8<-- [start:anatomy]
FLUSHES = ("clean", "zeros", "none")


def time_runs(run: Callable[[], object], *, runs: int = 100, warmups: int = 10, flush: str = "clean") -> list[float]:
    """Return the milliseconds of each of ``runs`` calls on the GPU: what ``do_bench`` does, but counted in calls.

    Args:
        run: What to time.
        runs: How many calls are timed.
        warmups: How many calls come before.
        flush: What happens to the L2 cache before each call that is timed. ``"zeros"`` writes over it, as ``do_bench``
            does, and leaves it full of lines that memory has not got yet: the call waits while they are written.
            ``"clean"`` writes, then reads over it. ``"none"`` leaves what the call before has left.

    Raises:
        ValueError: ``runs`` or ``warmups`` is too small, or there is no such flush.
    """
    if runs < 1 or warmups < 0:
        raise ValueError(f"runs must be at least 1 and warmups at least 0; got {runs} and {warmups}")
    if flush not in FLUSHES:
        raise ValueError(f"flush must be one of {', '.join(map(repr, FLUSHES))}; got {flush!r}")
    # --8<-- [start:core]
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(runs)]
    written, read = torch.zeros(2, 64 * 2**20, device="cuda")  # 256 MiB each, several times what L2 holds
    for _ in range(warmups):
        run()
    for begin, end in events:
        if flush in ("zeros", "clean"):
            written.zero_()  # pushes out what the last call left
        if flush == "clean":
            read.sum()  # pushes out the zeros, which go to memory now and not during the call
        begin.record()
        run()
        end.record()
    torch.cuda.synchronize()  # everything up to here was only queued
    return [begin.elapsed_time(end) for begin, end in events]
    # --8<-- [end:core]
# --8<-- [end:anatomy]


# --8<-- [start:main]
def drifting_clock(run):
    """Time sides that return their time, as on a machine that gets 1 % slower from reading to reading."""
    return run() * (1 + 0.01 * next(drifting_clock.reading))


def main():
    options = inspect.signature(triton.testing.do_bench).parameters
    print("do_bench, milliseconds of warming up:", options["warmup"].default)
    print("do_bench, milliseconds of repeating:", options["rep"].default)
    print("do_bench returns the", options["return_mode"].default)

    readings = [5.0, 5.1, 4.9, 5.0, 9.8, 5.1, 5.0, 5.2, 4.9]  # something else ran during the fifth
    print("nine readings:", *readings)
    print("mean:", round(statistics.mean(readings), 2))
    print("median:", statistics.median(readings))
    low, high = torch.tensor(readings).quantile(torch.tensor([0.2, 0.8])).tolist()
    print(f"quantiles 0.2 and 0.8: {low:.2f} {high:.2f}")

    # Two names for one function, on a machine that drifts.
    same = lambda: 1.0
    drifting_clock.reading = itertools.count()
    first, second = (compare({name: same}, timer=drifting_clock)[name] for name in ("first", "second"))
    print(f"one after the other, second / first: {second.median / first.median:.3f}")
    drifting_clock.reading = itertools.count()
    turns = compare({"first": same, "second": same}, timer=drifting_clock)
    print(f"in turns, second / first: {turns['second'].median / turns['first'].median:.3f}")
# --8<-- [end:main]


if __name__ == "__main__":
    main()
