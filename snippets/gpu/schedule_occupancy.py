# SPDX-License-Identifier: Apache-2.0
"""Count how many programs of a kernel a multiprocessor holds at once, after predicting it from the compiled kernel.

``programs_at_once`` is what to take along; ``copy`` shows what more programs are good for. A program takes warps,
registers and shared memory for as long as it runs; the scarcest of them, or the number of places for programs, decides.
Registers come in portions of 256 to a warp, from the quarter of the multiprocessor that runs the warp; shared memory in
portions of 128 bytes, and some of it is reserved.

Units: registers a thread; bytes of shared memory a program; programs a multiprocessor.
Source: the occupancy calculation in NVIDIA's CUDA C++ Best Practices Guide and in ``cuda_occupancy.h`` of its toolkit.

Run it on an NVIDIA GPU with ``python schedule_occupancy.py``.
"""

import ctypes
import functools
from typing import NamedTuple

import torch
import triton
import triton.language as tl

from snippets.gpu.hierarchy import figures
from snippets.gpu.schedule import Schedule, check_gpu, count_multiprocessors, keep_busy, multiprocessor, time_now
from snippets.tools.benchmarking import compare


# --8<-- [start:predict]
class Room(NamedTuple):
    """The room on a multiprocessor, by default of an H100 or H200."""

    warps: int = 64
    programs: int = 32
    registers: int = 65536
    shared: int = 233472  # bytes
    # Bytes that each program costs on top of its own.
    reserved: int = 1024

    @classmethod
    def of_gpu(cls) -> "Room":
        """Return the room on a multiprocessor of the first GPU here."""
        found = figures()
        threads = found["threads on a multiprocessor, at most"]
        reserved = found[
            "bytes of shared memory reserved for each thread block"
        ]
        return cls(
            warps=threads // found["threads in a warp"],
            programs=found["thread blocks on a multiprocessor, at most"],
            registers=found["registers on a multiprocessor"],
            shared=found["bytes of shared memory on a multiprocessor"],
            reserved=reserved,
        )


H200 = Room()


def programs_by_limit(
    *, num_warps: int, registers: int, shared: int, room: Room = H200
) -> dict[str, int]:
    """Return for how many programs each resource suffices. The smallest
    decides.

    ``num_warps``: of a program; ``registers``: of a thread; ``shared``:
        bytes of
    a program. For NVIDIA GPUs since Ampere. Raises ``ValueError`` for what
    cannot be.

    >>> programs_by_limit(num_warps=4, registers=78, shared=16)
    {'programs': 32, 'warps': 16, 'registers': 6, 'shared': 202}
    """
    if not 1 <= num_warps <= 32 or not 1 <= registers <= 255 or shared < 0:
        raise ValueError(
            "a program has 1 to 32 warps, a thread 1 to 255 registers, and "
            f"shared is at least 0; got {num_warps}, {registers} and {shared}"
        )
    for_a_warp = triton.cdiv(32 * registers, 256) * 256
    in_a_quarter = room.registers // 4 // for_a_warp  # warps
    for_a_program = triton.cdiv(shared + room.reserved, 128) * 128
    return {
        "programs": room.programs,
        "warps": room.warps // num_warps,
        "registers": 4 * in_a_quarter // num_warps,
        "shared": room.shared // for_a_program,
    }


def limits_of(compiled, room: Room | None = None) -> dict[str, int]:
    """Return the same for what a launch returned, on this GPU."""
    return programs_by_limit(
        num_warps=compiled.metadata.num_warps,
        registers=compiled.n_regs,
        shared=compiled.metadata.shared,
        room=room or Room.of_gpu(),
    )


def programs_at_once(compiled, room: Room | None = None) -> int:
    """Return how many programs of a kernel a multiprocessor holds."""
    return min(limits_of(compiled, room).values())
# --8<-- [end:predict]


# --8<-- [start:driver]
def programs_at_once_by_driver(compiled: "triton.compiler.CompiledKernel") -> int:
    """Return what CUDA's driver says: ``cuOccupancyMaxActiveBlocksPerMultiprocessor``."""
    check_gpu()
    found = ctypes.c_int()
    error = ctypes.CDLL("libcuda.so.1").cuOccupancyMaxActiveBlocksPerMultiprocessor(
        ctypes.byref(found),
        ctypes.c_void_p(compiled.function),
        32 * compiled.metadata.num_warps,
        ctypes.c_size_t(compiled.metadata.shared),
    )
    if error:
        raise ValueError(f"the driver does not tell: CUresult {error}")
    return found.value
# --8<-- [end:driver]


# --8<-- [start:tiles]
@triton.jit
def tiles_kernel(sm_ptr, begin_ptr, end_ptr, nanoseconds, a_ptr, b_ptr, sums_ptr, k, TILE: tl.constexpr):
    pid = tl.program_id(axis=0)
    begin = time_now()
    lanes = tl.arange(0, TILE)
    product = tl.zeros((TILE, TILE), tl.float32)
    for start in range(0, k, TILE):
        a = tl.load(a_ptr + lanes[:, None] * k + start + lanes[None, :])
        b = tl.load(b_ptr + (start + lanes)[:, None] * TILE + lanes[None, :])
        product = tl.dot(a, b, product)
    now = time_now()
    while now < begin + nanoseconds:
        now = time_now()
    tl.store(sums_ptr + pid, tl.sum(product))
    tl.debug_barrier()
    tl.store(sm_ptr + pid, multiprocessor())
    tl.store(begin_ptr + pid, begin)
    tl.store(end_ptr + pid, time_now())
# --8<-- [end:tiles]


def multiply_tiles(
    programs: int, microseconds: float, *, num_stages: int, tile: int = 64, k: int = 512
) -> tuple[Schedule, "triton.compiler.CompiledKernel", torch.Tensor]:
    """Let each program multiply the same two float16 matrices, ``(tile, k)`` and ``(k, tile)``, and wait for the rest.

    ``num_stages`` is how many tiles of each the compiler keeps on their way in shared memory. Returns the schedule, the
    compiled kernel and how far the sums of the products are from torch's, as a share. Waits for the GPU.
    """
    check_gpu()
    if programs < 1 or not 0 <= microseconds <= 10**6 or tile not in (16, 32, 64, 128) or k < tile or k % tile:
        raise ValueError(
            "programs must be 1 or more, microseconds at most a million, tile a power of two from 16 to 128, and k a "
            f"multiple of it; got {programs}, {microseconds}, {tile} and {k}"
        )
    sm, begin, end = torch.empty(3, programs, dtype=torch.int64, device="cuda")
    a, b = torch.rand(tile, k, device="cuda").half(), torch.rand(k, tile, device="cuda").half()
    sums = torch.empty(programs, device="cuda")
    for nanoseconds in (0, round(1000 * microseconds)):  # the first launch loads the code onto the GPU
        compiled = tiles_kernel[(programs,)](
            sm, begin, end, nanoseconds, a, b, sums, k, TILE=tile, num_warps=4, num_stages=num_stages
        )
    right = (a.double() @ b.double()).sum()
    return Schedule.of(sm, begin, end), compiled, (sums.double() / right - 1).abs().max()


# --8<-- [start:kernels]
def busy(programs, **options):
    return keep_busy([200] * programs, **options)


def tiles(programs, **options):
    return multiply_tiles(programs, 200, **options)[:2]


KERNELS = {  # what runs, by a name that says what a program takes
    "1 warp": (busy, {"held": 32, "num_warps": 1}),
    "4 warps": (busy, {"held": 128, "num_warps": 4}),
    "16 warps": (busy, {"held": 512, "num_warps": 16}),
    "4 warps, 32 held": (busy, {"held": 128 * 32, "num_warps": 4}),
    "4 warps, 64 held": (busy, {"held": 128 * 64, "num_warps": 4}),
    "4 warps, 128 held": (busy, {"held": 128 * 128, "num_warps": 4}),
    "32 warps, 32 held": (busy, {"held": 1024 * 32, "num_warps": 32}),
    "tiles, 2 stages": (tiles, {"num_stages": 2}),
    "tiles, 3 stages": (tiles, {"num_stages": 3}),
    "tiles, 5 stages": (tiles, {"num_stages": 5}),
}
# --8<-- [end:kernels]


# --8<-- [start:measure]
@functools.cache
def measure(kernel: str) -> dict[str, int]:
    run, options = KERNELS[kernel]
    _, compiled = run(1, **options)
    predicted = programs_at_once(compiled)
    schedule, _ = run(3 * predicted * count_multiprocessors(), **options)  # three waves, if the prediction holds
    return {
        "registers": compiled.n_regs,
        "shared_memory": compiled.metadata.shared,
        **{f"by_{limit}": programs for limit, programs in limits_of(compiled).items()},
        "predicted": predicted,
        "driver": programs_at_once_by_driver(compiled),
        "seen": schedule.most_at_once,
    }


def benchmark(name: str, ylabel: str, lines: dict[str, str]) -> triton.testing.Benchmark:
    return triton.testing.Benchmark(
        plot_name=name,
        x_names=["kernel"],
        x_vals=list(KERNELS),
        xlabel="kernel",
        ylabel=ylabel,
        line_arg="what",
        line_vals=list(lines),
        line_names=list(lines.values()),
        args={},
    )


USED = {"registers": "registers of a thread", "shared_memory": "bytes of shared memory"}
PROGRAMS = {
    "by_programs": "places",
    "by_warps": "warps",
    "by_registers": "registers",
    "by_shared": "shared memory",
    "seen": "seen",
}
TOLD = {"predicted": "predicted", "driver": "told by the driver"}


@triton.testing.perf_report([
    benchmark("takes", "used", USED),
    benchmark("occupancy", "programs", PROGRAMS),
    benchmark("told", "programs", TOLD),
])  # fmt: skip
def occupancy(kernel, what):
    """What a kernel uses; for how many programs each resource has room, how many the driver tells and are seen."""
    return measure(kernel)[what]
# --8<-- [end:measure]


# --8<-- [start:copy]
@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    first = tl.program_id(axis=0).to(tl.int64) * BLOCK_SIZE
    step = tl.num_programs(axis=0).to(tl.int64) * BLOCK_SIZE
    # Even a few programs copy everything.
    for start in range(first, n, step):
        offsets = start + tl.arange(0, BLOCK_SIZE).to(tl.int64)
        x = tl.load(x_ptr + offsets, mask=offsets < n)
        tl.store(out_ptr + offsets, x, mask=offsets < n)
# --8<-- [end:copy]


def copy(x: torch.Tensor, out: torch.Tensor, *, programs: int, block_size: int = 1024) -> torch.Tensor:
    """Copy ``x`` to ``out`` by ``programs`` programs of four warps, ``block_size`` elements at a time; return ``out``.

    Both are contiguous, of one shape, dtype and device. Raises ``ValueError`` for anything else.

    >>> copy(torch.arange(5.0), torch.zeros(5), programs=1, block_size=2)
    tensor([0., 1., 2., 3., 4.])
    """
    if (x.shape, x.dtype, x.device) != (out.shape, out.dtype, out.device):
        raise ValueError("x and out must have the same shape, dtype and device")
    if not x.is_contiguous() or not out.is_contiguous() or x.is_neg() or out.is_neg():
        raise ValueError("x and out must be contiguous, and not negated lazily")
    if x.device.type != ("cuda" if isinstance(copy_kernel, triton.JITFunction) else "cpu"):
        raise ValueError(f"x is on {x.device}; move it to a GPU, or set TRITON_INTERPRET=1 for the CPU")
    if (x.requires_grad or out.requires_grad) and torch.is_grad_enabled():
        raise ValueError("a gradient is required, which this function does not compute; use torch.no_grad()")
    if not 1 <= programs < 2**31 or not 1 <= block_size <= 2**16 or block_size & (block_size - 1):
        raise ValueError(f"programs must be 1 or more, block_size a power of two; got {programs} and {block_size}")
    with torch.cuda.device_of(x):
        copy_kernel[(programs,)](x, out, x.numel(), BLOCK_SIZE=block_size, num_warps=4)
    return out


# --8<-- [start:filled]
BLOCKS = {f"block_{block}": block for block in (512, 2048, 8192)}


@functools.cache
def measure_filled(n: int, each: int) -> dict[str, tuple[float, float, float]]:
    """Return GB/s by side, for ``each`` programs a multiprocessor: median, slowest and fastest round."""
    x = torch.rand(n, device="cuda")
    out = torch.empty_like(x)
    sides = {
        name: lambda block=block: copy(x, out, programs=each * count_multiprocessors(), block_size=block)
        for name, block in BLOCKS.items()
    }
    timings = compare({**sides, "torch": lambda: out.copy_(x)}, rounds=4)
    return {side: timing.rate(2 * 4 * n, 1e9) for side, timing in timings.items()}  # each is read and written once


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="filled",
        x_names=["each"],
        x_vals=[1, 2, 4, 6, 8, 12, 16],
        xlabel="programs of 4 warps on each multiprocessor",
        ylabel="GB/s",
        line_arg="side",
        line_vals=[*BLOCKS, "torch"],
        line_names=[*(f"blocks of {block}" for block in BLOCKS.values()), "torch's copy"],
        args={"n": 2**28},
    )
)
def filled(each, side, n):
    """Bytes that a copy of float32 moves per second, by how many programs there are; L2 is cold and clean."""
    return measure_filled(n, each)[side]
# --8<-- [end:filled]


# --8<-- [start:main]
def main():
    try:
        check_gpu()
    except ValueError as error:
        raise SystemExit(error) from error
    print("one multiprocessor:", Room.of_gpu())
    for kernel in KERNELS:
        print(f"{kernel}:", ", ".join(f"{what} {value}" for what, value in measure(kernel).items()))
    x = torch.rand(10**6, device="cuda")
    for name, block_size in BLOCKS.items():
        compiled = copy_kernel[(1,)](x, torch.empty_like(x), 10**6, BLOCK_SIZE=block_size, num_warps=4)
        print(f"copy, {name}, registers: {compiled.n_regs}")
        print(f"copy, {name}, programs at once: {programs_at_once(compiled)}")
# --8<-- [end:main]


if __name__ == "__main__":
    main()
