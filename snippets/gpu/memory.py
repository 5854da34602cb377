# SPDX-License-Identifier: Apache-2.0
"""The levels of a GPU's memory, measured: how long one load takes, and how many bytes arrive in a second.

- :func:`cycle`: a tensor in which each line of memory names the next one to visit, in random order, all of them once
- :func:`chase`: walks along it. No load can start before the one ahead of it has answered, so steps cost latency.
- :func:`sums` and :func:`copy`: programs that read, or copy, a part of memory each, again and again: bandwidth

A set of lines that fits into a level, and was walked before, is answered from there; one that is larger is not.
Units: cycles of a multiprocessor's clock, nanoseconds of the GPU's timer, bytes.
Source: telling levels of memory apart in this way is Saavedra and Smith's, 1995; on GPUs, Wong and others', 2010.

Run it on a GPU with ``python memory.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter, which has no clock.
"""

import functools
import os
import statistics

import torch
import triton
import triton.language as tl

from snippets.gpu import memory_host
from snippets.tools.benchmarking import compare, time_runs

LINE = 128  # bytes in a line of the caches
MODIFIERS = "", ".ca", ".cg"


def cycle(lines: int, *, line_bytes: int = LINE, device="cuda", seed: int = 0) -> torch.Tensor:
    """Return indices such that ``i = out[i]``, from 0 on, visits the first element of each line once and comes back.

    Args:
        lines: How many lines of memory to visit, at least 1.
        line_bytes: Bytes in a line, a multiple of 8.

    Returns:
        ``(lines * line_bytes / 8,)`` int64, on ``device``. What lies between the first elements is 0 and never read.

    Raises:
        ValueError: A number is out of range.

    >>> cycle(4, line_bytes=16, device="cpu").tolist()
    [2, 0, 6, 0, 0, 0, 4, 0]
    """
    if lines < 1 or line_bytes < 8 or line_bytes % 8:
        raise ValueError(f"lines must be at least 1, line_bytes a multiple of 8; got {lines} and {line_bytes}")
    # --8<-- [start:cycle]
    gap = line_bytes // 8  # elements from one line to the next
    generator = torch.Generator(device=device).manual_seed(seed)
    order = torch.randperm(lines, device=device, generator=generator) * gap
    out = torch.zeros(lines * gap, dtype=torch.int64, device=device)
    out[order] = order.roll(-1)  # each line names its successor
    # --8<-- [end:cycle]
    return out


# --8<-- [start:walk]
@triton.jit
def walk(next_ptr, i, steps, MODIFIER: tl.constexpr):
    for _ in range(steps):
        i = tl.load(next_ptr + i, cache_modifier=MODIFIER)
    return i


@triton.jit
def chase_kernel(
    next_ptr,
    out_ptr,
    warmup,
    steps,
    MODIFIER: tl.constexpr,
    TIMED: tl.constexpr,
):
    i = walk(next_ptr, tl.full((), 0, tl.int64), warmup, MODIFIER)
    cycles, nanoseconds = clocks(i, TIMED)
    # The shift makes 0 of it. The compiler does not know, so the walk
    # waits.
    i = walk(next_ptr, i + (cycles >> 63), steps, MODIFIER)
    cycles_after, nanoseconds_after = clocks(i, TIMED)
    tl.store(out_ptr, i)
    tl.store(out_ptr + 1, cycles_after - cycles)
    tl.store(out_ptr + 2, nanoseconds_after - nanoseconds)
# --8<-- [end:walk]


# --8<-- [start:clocks]
@triton.jit
def clocks(after, TIMED: tl.constexpr):
    """The clock of this multiprocessor and the GPU's timer in ns, once ``after``, which is not negative, is known."""
    if TIMED:
        cycles, nanoseconds = tl.inline_asm_elementwise(
            # The comparison makes the clock wait for the value. It never traps.
            "{.reg .pred p; setp.lt.s64 p, $2, 0; @p trap; mov.u64 $0, %clock64; mov.u64 $1, %globaltimer;}",
            "=l,=l,l", [after], dtype=(tl.int64, tl.int64), is_pure=False, pack=1,
        )  # fmt: skip
    else:  # the interpreter has no clock
        cycles, nanoseconds = after * 0, after * 0
    return cycles, nanoseconds
# --8<-- [end:clocks]


# --8<-- [start:read]
@triton.jit
def sums_kernel(
    x_ptr,
    out_ptr,
    elements,
    passes,
    MODIFIER: tl.constexpr,
    BLOCK: tl.constexpr,
):
    # Each program has a part of its own.
    part_ptr = x_ptr + tl.program_id(axis=0).to(tl.int64) * elements
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in range(passes):
        for start in range(0, elements, BLOCK):
            total += tl.load(
                part_ptr + start + lanes, cache_modifier=MODIFIER
            )
    tl.store(out_ptr + tl.program_id(axis=0), tl.sum(total))
# --8<-- [end:read]


@triton.jit
def copy_kernel(x_ptr, out_ptr, elements, passes, BLOCK: tl.constexpr):
    first = tl.program_id(axis=0).to(tl.int64) * elements
    lanes = tl.arange(0, BLOCK)
    for _ in range(passes):
        for start in range(0, elements, BLOCK):
            tl.store(out_ptr + first + start + lanes, tl.load(x_ptr + first + start + lanes))


@triton.jit
def add_up_kernel(out_ptr, a, b, steps, TIMED: tl.constexpr):
    """Compute ``x = x · a + b``, 16 · ``steps`` times, each waiting for the one before; nothing leaves the registers.
    """
    cycles, nanoseconds = clocks(tl.full((), 0, tl.int64) + steps, TIMED)
    x = (cycles >> 63).to(tl.float32)
    for _ in range(steps):
        for _ in tl.static_range(16):
            x = x * a + b
    cycles_after, nanoseconds_after = clocks(tl.abs(x).to(tl.int64), TIMED)
    tl.store(out_ptr, x)
    tl.store(out_ptr + 1, cycles_after - cycles)
    tl.store(out_ptr + 2, nanoseconds_after - nanoseconds)


def chase(following: torch.Tensor, steps: int, *, warmup: int = 0, modifier: str = "") -> torch.Tensor:
    """Walk ``i = following[i]`` from ``i = 0`` on: ``warmup`` steps, then ``steps`` steps by the clock.

    Args:
        following: Indices into itself, as from :func:`cycle`: int64, one dimension, contiguous, not empty; on a GPU, or
            in pinned memory of the host, which a GPU can read. In the interpreter: on the CPU.
        steps: At least 1, less than 2**31.
        warmup: At least 0, less than 2**31.
        modifier: ``""`` or ``".ca"``: through all caches; ``".cg"``: past L1.

    Returns:
        int64 ``[where the walk ended, cycles, nanoseconds]`` of all timed steps together, on the GPU. In the
        interpreter the last two are 0. The kernel may still be running when it is returned.

    Raises:
        ValueError: An argument is something that the kernel cannot serve.

    >>> chase(cycle(4, line_bytes=16, device="cpu"), steps=3).tolist()
    [4, 0, 0]
    """
    check_place("following", following, pinned=True)
    if following.dtype != torch.int64 or following.ndim != 1 or not following.is_contiguous() or not len(following):
        raise ValueError(
            "following must be a contiguous tensor of int64 of one dimension, not empty; "
            f"got {following.dtype}, shape {tuple(following.shape)}, strides {following.stride()}"
        )
    if not 1 <= steps < 2**31 or not 0 <= warmup < 2**31:
        raise ValueError(f"steps must be at least 1, warmup at least 0, both less than 2**31; got {steps} and {warmup}")
    check_modifier(modifier)
    on_host = not is_interpreted() and not following.is_cuda
    out = torch.empty(3, dtype=torch.int64, device="cuda" if on_host else following.device)
    options = {"MODIFIER": modifier, "TIMED": not is_interpreted(), "num_warps": 1}
    with torch.cuda.device_of(out):
        chase_kernel[(1,)](following, out, warmup, steps, **options)
    return out


def is_interpreted() -> bool:
    return not isinstance(chase_kernel, triton.JITFunction)


def check_modifier(modifier: str) -> None:
    if modifier not in MODIFIERS:
        raise ValueError(f"modifier must be one of {', '.join(map(repr, MODIFIERS))}; got {modifier!r}")


def check_place(name: str, x: torch.Tensor, *, pinned: bool = False) -> None:
    """Raise ``ValueError`` unless the kernels can read ``x`` where it is."""
    if is_interpreted() and x.device.type != "cpu":
        raise ValueError(f"{name} is on {x.device}; interpreted kernels run on the CPU")
    if not is_interpreted() and not x.is_cuda and not (pinned and x.is_pinned()):
        raise ValueError(f"{name} is on {x.device}; it must be on a GPU{', or pinned' * pinned}")


# --8<-- [start:sums]
BLOCK = 8192  # elements that a program asks for at once: with 1,024 threads, 32 bytes each


def sums(
    x: torch.Tensor, programs: int, *, passes: int = 1, modifier: str = "", block: int = BLOCK
) -> torch.Tensor:
    """Return the sum of each of ``programs`` equal parts of ``x``, times ``passes``: how often each part is read.

    Args:
        x: float32, contiguous, on a GPU, or in the interpreter on the CPU; its size a multiple of ``programs * block``.
        programs: At least 1. One for each multiprocessor lets each have a part of its own in its L1.
        passes: At least 1.
        modifier: As in :func:`chase`.
        block: A power of two, at most 2**16.

    Raises:
        ValueError: An argument is something that the kernel cannot serve.

    >>> sums(torch.arange(8.0), 2, block=4).tolist()
    [6.0, 22.0]
    """
    check_parts(x, programs, passes, block)
    check_modifier(modifier)
    out = torch.empty(programs, device=x.device)
    options = {"MODIFIER": modifier, "BLOCK": block, "num_warps": 32}
    with torch.cuda.device_of(x):
        sums_kernel[(programs,)](x, out, x.numel() // programs, passes, **options)
    return out
# --8<-- [end:sums]


def copy(x: torch.Tensor, programs: int, *, passes: int = 1, block: int = BLOCK) -> torch.Tensor:
    """Return a copy of ``x``, made ``passes`` times over; the arguments are those of :func:`sums`.

    >>> copy(torch.arange(8.0), 2, block=4).tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    """
    check_parts(x, programs, passes, block)
    out = torch.empty_like(x)
    with torch.cuda.device_of(x):
        copy_kernel[(programs,)](x, out, x.numel() // programs, passes, BLOCK=block, num_warps=32)
    return out


def check_parts(x: torch.Tensor, programs: int, passes: int, block: int) -> None:
    """Raise ``ValueError`` for arguments that :func:`sums` and :func:`copy` cannot serve."""
    check_place("x", x)
    if x.dtype != torch.float32 or not x.is_contiguous() or x.requires_grad or x.is_neg():
        raise ValueError(
            f"x must be contiguous float32 without a gradient; got {x.dtype}, strides {x.stride()}, "
            f"requires_grad {x.requires_grad}, negated lazily {x.is_neg()}"
        )
    if not 1 <= block <= 2**16 or block & (block - 1):
        raise ValueError(f"block must be a power of two between 1 and 2**16; got {block}")
    if not 1 <= programs < 2**31 or not 1 <= passes < 2**31:
        raise ValueError(f"programs and passes must be at least 1 and less than 2**31; got {programs} and {passes}")
    if not x.numel() or x.numel() % (programs * block) or x.numel() // programs >= 2**31:
        raise ValueError(
            f"the {x.numel()} elements of x do not fill {programs} parts of blocks of {block}, or a part has 2**31"
        )


# --8<-- [start:latency]
WALKED = 2**20  # lines at most: 128 MiB of them, more than L2 holds


def walk_through(size: int, modifier: str = "", times: int = 3) -> list[tuple[float, float]]:
    """Chase through ``size`` bytes, ``times`` times: return cycles and nanoseconds for a step.

    A set that may fit a cache is walked once beforehand. A larger one is not, and no line of it is met twice.
    """
    line_bytes = max(LINE, size // 2**25)  # of the largest sets, 2**25 lines, spread evenly
    following = cycle(size // line_bytes, line_bytes=line_bytes)
    lines = size // line_bytes
    steps = min(max(lines, 2**15), WALKED)
    warmup = lines if lines <= WALKED else 0
    found = (chase(following, steps, warmup=warmup, modifier=modifier).tolist() for _ in range(times))
    return [(cycles / steps, nanoseconds / steps) for _, cycles, nanoseconds in found]


@functools.lru_cache(maxsize=2)
def measure_latency(size, modifier):
    found = [cycles for cycles, _ in walk_through(size, modifier)]
    return statistics.median(found), min(found), max(found)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="latency",
        x_names=["bytes"],
        x_vals=[2**k for k in range(12, 37)],
        x_log=True,
        xlabel="bytes walked through",
        ylabel="cycles for a step",
        line_arg="path",
        line_vals=["all", "cg"],
        line_names=["through L1", "past L1 (.cg)"],
        args={},
    )
)
def latency(bytes, path):
    """Cycles from one load to the next, each waiting for the last: median, least and most of 3 walks."""
    return measure_latency(bytes, {"all": "", "cg": ".cg"}[path])


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="edge_l1",
        x_names=["KiB"],
        x_vals=[192, 208, 216, 224, 240, 256, 288, 320, 384],
        xlabel="KiB walked through",
        ylabel="cycles for a step",
        line_arg="path",
        line_vals=["all"],
        line_names=["through L1"],
        args={},
    )
)
def edge_l1(KiB, path):
    """The same around the size of L1."""
    return measure_latency(KiB * 2**10, "")


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="edge_l2",
        x_names=["MiB"],
        x_vals=[8, 16, 20, 24, 26, 28, 30, 32, 34, 36, 40, 44, 48, 52, 56, 60, 64, 68, 72, 80, 96],
        xlabel="MiB walked through",
        ylabel="cycles for a step",
        line_arg="path",
        line_vals=["all"],
        line_names=["through L1"],
        args={},
    )
)
def edge_l2(MiB, path):
    """The same around the size of L2, and of half of it."""
    return measure_latency(MiB * 2**20, "")
# --8<-- [end:latency]


# --8<-- [start:bandwidth]
@functools.lru_cache(maxsize=1)
def measure_bandwidth(part):
    """Return GB/s by side, if each multiprocessor has ``part`` bytes of its own: median, slowest and fastest round."""
    programs = torch.cuda.get_device_properties(0).multi_processor_count
    x = torch.rand(programs * part // 4, device="cuda")
    out = torch.empty_like(x)
    passes = max(1, 2**33 // (programs * part))  # about 8 GiB in all, so that starting does not count
    launch = {"num_warps": 32, "BLOCK": BLOCK}
    sides = {
        "read": lambda: sums_kernel[(programs,)](x, out, part // 4, passes, MODIFIER="", **launch),
        "read_cg": lambda: sums_kernel[(programs,)](x, out, part // 4, passes, MODIFIER=".cg", **launch),
        "copy": lambda: copy_kernel[(programs,)](x, out, part // 4, passes, **launch),
    }
    timer = lambda run: statistics.median(time_runs(run, runs=7, warmups=2, flush="none"))
    moved = programs * part * passes
    found = compare(sides, rounds=4, timer=timer)
    return {side: timing.rate(moved * (1 + (side == "copy"))) for side, timing in found.items()}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="bandwidth",
        x_names=["part"],
        x_vals=[2**k for k in range(15, 26)],
        x_log=True,
        xlabel="bytes for each multiprocessor",
        ylabel="GB/s",
        y_log=True,
        line_arg="side",
        line_vals=["read", "read_cg", "copy"],
        line_names=["read", "read, past L1 (.cg)", "copy"],
        args={},
    )
)
def bandwidth(part, side):
    """Bytes per second that arrive, or for a copy that arrive and leave, on all multiprocessors together."""
    return measure_bandwidth(part)[side]
# --8<-- [end:bandwidth]


# --8<-- [start:ladder]
def registers_latency(times: int = 3, steps: int = 4096) -> list[tuple[float, float]]:
    """Return cycles and nanoseconds of a multiply-add that waits for the one before, ``times`` times."""
    out = torch.empty(3, dtype=torch.int64, device="cuda")
    found = []
    for _ in range(times):
        add_up_kernel[(1,)](out, 0.5, 0.25, steps, TIMED=True, num_warps=1)
        _, cycles, nanoseconds = out.tolist()
        found.append((cycles / steps / 16, nanoseconds / steps / 16))
    return found


def host_latency(times: int = 3, steps: int = 2**13) -> list[tuple[float, float]]:
    """Return the same for loads of the GPU from pinned memory of the host: 1 MiB of it, each line once."""
    following = cycle(steps, device="cpu").pin_memory()
    found = (chase(following, steps).tolist() for _ in range(times))
    return [(cycles / steps, nanoseconds / steps) for _, cycles, nanoseconds in found]


@functools.lru_cache(maxsize=1)
def measure_ladder():
    """Return, by level: bytes in reach of a multiprocessor, ns and cycles of a step, GB/s to all (0: not measured)."""
    gpu = torch.cuda.get_device_properties(0)
    host_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    levels = {
        "registers": (4 * gpu.regs_per_multiprocessor, registers_latency(), 0.0),
        # No attribute of the device gives the size of L1; 256 KiB is from NVIDIA's guide for Hopper.
        "L1": (256 * 2**10, walk_through(2**16), measure_bandwidth(2**16)["read"][0]),
        "L2": (gpu.L2_cache_size, walk_through(2**24), measure_bandwidth(2**16)["read_cg"][0]),
        "HBM": (gpu.total_memory, walk_through(2**30), measure_bandwidth(2**25)["read"][0]),
        "host": (host_bytes, host_latency(), memory_host.measure(2**28)["in_pinned"].rate(2**28)[0]),
    }
    found = {}
    for level, (holds, steps, delivers) in levels.items():
        cycles, nanoseconds = zip(*steps, strict=True)
        found[level] = {"holds": holds, "answers": statistics.median(nanoseconds), "delivers": delivers}
        found[level] |= {"cycles": statistics.median(cycles), "least": min(cycles), "most": max(cycles)}
    return found


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="ladder",
        x_names=["level"],
        x_vals=["registers", "L1", "L2", "HBM", "host"],
        xlabel="level",
        ylabel="bytes, ns, GB/s, cycles",
        y_log=True,
        line_arg="what",
        line_vals=["holds", "answers", "delivers", "cycles", "least", "most"],
        line_names=["bytes", "ns for a step", "GB/s", "cycles for a step", "least of 3", "most of 3"],
        args={},
    )
)
def ladder(level, what):
    """What each level holds for one multiprocessor, how long a load takes, and what it delivers to all of them."""
    return measure_ladder()[level][what]
# --8<-- [end:ladder]


# --8<-- [start:main]
def main():
    device = "cpu" if is_interpreted() else "cuda"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    print("## toy")
    following = cycle(8, line_bytes=8, device="cpu", seed=1).to(device)
    print("following =", following.tolist())
    visited = [chase(following, steps)[0].item() for steps in range(1, 9)]
    print("visited:", " → ".join(map(str, [0, *visited])))
    print("## checked")
    lines = 1000
    following = cycle(lines, device="cpu").to(device)
    ends = [chase(following, steps, warmup=warmup)[0].item() for warmup, steps in ((0, lines), (1, lines - 1))]
    print(f"{lines} steps through {lines} lines end at: {ends[0]} and {ends[1]}")
    x = torch.arange(64.0, device=device)
    print("sums of 4 parts:", sums(x, 4, block=16).tolist())
    print("copy:", "equal" if torch.equal(copy(x, 4, block=16), x) else "NOT equal")
# --8<-- [end:main]


if __name__ == "__main__":
    main()
