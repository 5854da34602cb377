# SPDX-License-Identifier: Apache-2.0
"""The schedule of a launch: which multiprocessor ran which program, from when to when, written down by the programs.

A program asks the hardware twice, by a line of PTX in the kernel: ``%smid`` is the number of the multiprocessor that it
runs on, ``%globaltimer`` a clock in nanoseconds that all of them share. In between, it keeps busy for as long as it is
told. Copy ``time_now`` and ``multiprocessor`` into a kernel of your own to record its schedule.

Shapes: one number for each program, int64. Units: nanoseconds in the kernels, microseconds in a ``Schedule``.
Source: the special registers in NVIDIA's PTX ISA.

Run it on an NVIDIA GPU with ``python schedule.py``. Triton's interpreter knows no PTX.
"""

import functools
import itertools
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import torch
import triton
import triton.language as tl


# --8<-- [start:ask]
@triton.jit
def time_now():
    return tl.inline_asm_elementwise(
        "mov.u64 $0, %globaltimer;", "=l", [],
        dtype=tl.int64, is_pure=False, pack=1,
    )


@triton.jit
def multiprocessor():
    return tl.inline_asm_elementwise(
        "mov.u32 $0, %smid;", "=r", [],
        dtype=tl.int32, is_pure=False, pack=1,
    )
# --8<-- [end:ask]


# --8<-- [start:kernel]
@triton.jit
def busy_kernel(
    sm_ptr, begin_ptr, end_ptr, nanoseconds_ptr, x_ptr, sums_ptr,
    HELD: tl.constexpr,
):
    pid = tl.program_id(axis=0)
    begin = time_now()
    x = tl.load(x_ptr + tl.arange(0, HELD))
    until = begin + tl.load(nanoseconds_ptr + pid)
    now = begin
    # x is needed below, so its registers stay in use.
    while now < until:
        now = time_now()
    tl.store(sums_ptr + pid, tl.sum(x))
    tl.debug_barrier()  # the end is when the last thread gets here
    tl.store(sm_ptr + pid, multiprocessor())
    tl.store(begin_ptr + pid, begin)
    tl.store(end_ptr + pid, time_now())
# --8<-- [end:kernel]


@triton.jit
def ticks_kernel(times_ptr, n):
    for i in range(n):
        tl.store(times_ptr + i, time_now())


# --8<-- [start:schedule]
class Schedule(NamedTuple):
    """The place and time of each program, by pid: its multiprocessor, and microseconds since the first one began."""

    sm: tuple[int, ...]
    begin: tuple[float, ...]
    end: tuple[float, ...]

    @classmethod
    def of(cls, sm: torch.Tensor, begin: torch.Tensor, end: torch.Tensor) -> "Schedule":
        """Read what a kernel stored, which waits for it: numbers of multiprocessors, and nanoseconds.

        >>> Schedule.of(torch.tensor([0, 1]), torch.tensor([5000, 5500]), torch.tensor([7000, 7500]))
        Schedule(sm=(0, 1), begin=(0.0, 0.5), end=(2.0, 2.5))
        """
        first = int(begin.min()) if begin.numel() else 0
        microseconds = lambda times: tuple((time - first) / 1000 for time in times.tolist())
        return cls(tuple(sm.tolist()), microseconds(begin), microseconds(end))

    @property
    def span(self) -> float:
        """Microseconds from the first beginning to the last end."""
        return max(self.end, default=0.0)

    @property
    def most_at_once(self) -> int:
        """The greatest number of programs that one multiprocessor ran at the same time.

        A program that begins when another ends does not overlap it.

        >>> Schedule(sm=(0, 0, 0, 1), begin=(0, 1, 2, 0), end=(2, 3, 4, 4)).most_at_once
        2
        """
        changes = [(end, -1, sm) for sm, end in zip(self.sm, self.end, strict=True)]
        changes += [(begin, 1, sm) for sm, begin in zip(self.sm, self.begin, strict=True)]
        running, most = Counter(), 0
        for _, change, sm in sorted(changes):  # at the same time, ends come first
            running[sm] += change
            most = max(most, running[sm])
        return most

    @property
    def overtakers(self) -> int:
        """The number of programs that began before a program with a smaller pid did.

        >>> Schedule(sm=(0, 1, 2), begin=(0, 2, 1), end=(3, 3, 3)).overtakers
        1
        """
        latest = itertools.accumulate(self.begin, max)
        return sum(begin < before for begin, before in zip(self.begin[1:], latest, strict=False))
# --8<-- [end:schedule]


# --8<-- [start:record]
def keep_busy(
    microseconds: Iterable[float], *, held: int = 1024, num_warps: int = 4
) -> tuple[Schedule, "triton.compiler.CompiledKernel"]:
    """Run a program for each of ``microseconds``, busy for as long, and return their schedule and the compiled kernel.

    ``held`` is how many float32 a program keeps in its registers meanwhile, a power of two up to ``2**16``;
    ``num_warps`` is a power of two, at most 32. Waits for the GPU. Raises ``ValueError`` for anything else.
    """
    check_gpu()
    nanoseconds = torch.tensor([round(1000 * time) for time in microseconds], dtype=torch.int64)
    if nanoseconds.numel() == 0 or nanoseconds.min() < 0 or nanoseconds.max() > 10**9:
        raise ValueError("microseconds must be one number or more, each between 0 and a million")
    for name, value, most in (("held", held, 2**16), ("num_warps", num_warps, 32)):
        if not isinstance(value, int) or not 1 <= value <= most or value & (value - 1):
            raise ValueError(f"{name} must be a power of two, at most {most}; got {value}")
    nanoseconds = nanoseconds.cuda()
    sm, begin, end = torch.empty(3, nanoseconds.numel(), dtype=torch.int64, device="cuda")
    x, sums = torch.rand(held, device="cuda"), torch.empty(nanoseconds.numel(), device="cuda")
    for times in (torch.zeros_like(nanoseconds), nanoseconds):  # the first launch loads the code onto the GPU
        compiled = busy_kernel[nanoseconds.shape](sm, begin, end, times, x, sums, HELD=held, num_warps=num_warps)
    return Schedule.of(sm, begin, end), compiled
# --8<-- [end:record]


def tick(readings: int = 4096) -> int:
    """Return the least nanoseconds that ``%globaltimer`` moves on by, when one program reads it again and again."""
    check_gpu()
    times = torch.empty(readings, dtype=torch.int64, device="cuda")
    ticks_kernel[(1,)](times, readings, num_warps=1)
    return int(times.unique().diff().min())


def check_gpu() -> None:
    """Raise ``ValueError`` where there is no NVIDIA GPU to run PTX."""
    if not isinstance(busy_kernel, triton.JITFunction):
        raise ValueError("Triton's interpreter knows no PTX: unset TRITON_INTERPRET, and run this on an NVIDIA GPU")
    if not torch.cuda.is_available() or torch.version.hip:
        raise ValueError("no NVIDIA GPU found; the kernels ask for %smid and %globaltimer, which are PTX")


# --8<-- [start:cases]
ONE = {"held": 2**15, "num_warps": 32}  # 1,024 threads that hold 32 numbers each: a multiprocessor has room for one
TWO = {"held": 2**10, "num_warps": 32}  # hardly any registers: room for two

CASES = {  # by name: for so many multiprocessors, the microseconds of each program; and what a program takes
    "few": (lambda sms: [100] * (sms // 2), ONE),
    "one_wave": (lambda sms: [100] * sms, ONE),
    "wave_and_a_bit": (lambda sms: [100] * (sms + sms // 8), ONE),
    "uneven": (lambda sms: [20 + 180 * i / (2 * sms) for i in range(2 * sms)], ONE),
    "longest_first": (lambda sms: [200 - 180 * i / (2 * sms) for i in range(2 * sms)], ONE),
    "two_per_sm": (lambda sms: [100] * (2 * sms + sms // 8), TWO),
}
# --8<-- [end:cases]


@functools.cache
def recorded(case: str) -> Schedule:
    """Return the schedule of a case, from one launch."""
    times, options = CASES[case]
    return keep_busy(times(count_multiprocessors()), **options)[0]


def count_multiprocessors() -> int:
    check_gpu()
    return torch.cuda.get_device_properties(0).multi_processor_count


class Pids:
    """The pids of a case. How many there are depends on the GPU, which is asked only when somebody counts."""

    def __init__(self, case: str):
        self.case = case

    def __iter__(self):
        return iter(range(len(recorded(self.case).sm)))


# --8<-- [start:benchmark]
@triton.testing.perf_report([
    triton.testing.Benchmark(
        plot_name=f"schedule_{case}",
        x_names=["program"],
        x_vals=Pids(case),
        xlabel="program",
        ylabel="µs",
        line_arg="what",
        line_vals=["sm", "begin", "end"],
        line_names=["multiprocessor", "began", "ended"],
        args={"case": case},
    )
    for case in CASES
])  # fmt: skip
def schedules(program, what, case):
    """The multiprocessor that ran a program, and the microseconds from the first beginning to its beginning and end."""
    return getattr(recorded(case), what)[program]
# --8<-- [end:benchmark]


# --8<-- [start:main]
def main():
    try:
        check_gpu()
    except ValueError as error:
        raise SystemExit(error) from error
    print(f"%globaltimer moves on by: {tick()} ns")
    for case in CASES:
        schedule = recorded(case)
        print(f"{case}, programs: {len(schedule.sm)}")
        print(f"{case}, multiprocessors that ran any: {len(set(schedule.sm))}")
        print(f"{case}, most at once on one: {schedule.most_at_once}")
        print(f"{case}, from the first beginning to the last end: {schedule.span:.1f} µs")
        print(f"{case}, programs that began before one with a smaller pid: {schedule.overtakers}")
# --8<-- [end:main]


if __name__ == "__main__":
    main()
