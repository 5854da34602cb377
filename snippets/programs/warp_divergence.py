# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: SIM108  an if and else is what is shown
"""Warp divergence, measured: what a branch costs that threads of one warp, or lanes of one program, decide differently.

Each number goes through a loop of equal steps, of which there are two kinds::

    branch 0:  value = 0.5  * value + 1   which ends at 2
    branch 1:  value = 0.25 * value + 3   which ends at 4

Of both, eight steps are written out in a turn of the loop. Left to itself, the compiler wrote out four in one branch of
an ``if``, and none in the other, and so the other took more than twice as long.

The results tell who took which branch. ``DECIDERS`` are who chooses: nobody (all take branch 0), each warp or
program, each thread or lane, or one in 32 of those against the rest.

In CUDA C++ the branch is an ``if``. A Triton program can only branch as a whole, so ``if`` is what it has for itself,
and for its lanes ``tl.where``, which takes one of two results, after both were computed.

Shapes: one-dimensional, float32, contiguous. Traffic: one element read and one written for each of the result.
Source: the CUDA C++ Programming Guide, on how a multiprocessor executes warps; CuPy compiles and launches the CUDA C++.

Needs a GPU, and CuPy 14 beside torch and Triton. Run it with ``python warp_divergence.py``.
"""

import functools

import torch
import triton
import triton.language as tl

from snippets.tools.benchmarking_cold import compare_in_rotation

DECIDERS = {"all": "nobody", "group": "the warp or program", "each": "the thread or lane", "one": "one of 32"}
THREADS = 128  # of a thread block, four warps; also the block of a program, so that a thread has one element in both
STEPS = 1024
AT_ONCE = 8  # steps in a turn of a loop

# --8<-- [start:source]
CUDA_SOURCE = r"""
// --8<-- [start:cuda]
extern "C" __global__ void branches(
    const float* x, float* out, long long n, int steps, int decider)
{
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int warp = threadIdx.x / 32;
    bool second = decider == 1 ? warp % 2
                : decider == 2 ? threadIdx.x % 2
                : decider == 3 ? threadIdx.x % 32 == 31
                               : false;
    float value = x[i];
    if (second)
        for (int step = 0; step < steps; step += 8)
#pragma unroll
            for (int k = 0; k < 8; ++k) value = 0.25f * value + 3;
    else
        for (int step = 0; step < steps; step += 8)
#pragma unroll
            for (int k = 0; k < 8; ++k) value = 0.5f * value + 1;
    out[i] = value;
}
// --8<-- [end:cuda]
"""
# --8<-- [end:source]


# --8<-- [start:triton]
@triton.jit
def repeated(value, factor, addend, steps):
    for _ in range(0, steps, 8):
        for _ in tl.static_range(8):
            value = factor * value + addend
    return value


@triton.jit
def by_program_kernel(x_ptr, out_ptr, n, steps, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    value = tl.load(x_ptr + offsets, mask=mask)
    if pid % 2 == 1:
        value = repeated(value, 0.25, 3.0, steps)
    else:
        value = repeated(value, 0.5, 1.0, steps)
    tl.store(out_ptr + offsets, value, mask=mask)


@triton.jit
def by_lane_kernel(
    x_ptr, out_ptr, n, steps, EVERY: tl.constexpr, BLOCK_SIZE: tl.constexpr
):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    value = tl.load(x_ptr + offsets, mask=mask)
    first = repeated(value, 0.5, 1.0, steps)
    second = repeated(value, 0.25, 3.0, steps)
    value = tl.where(offsets % EVERY == EVERY - 1, second, first)
    tl.store(out_ptr + offsets, value, mask=mask)
# --8<-- [end:triton]


@triton.jit
def one_branch_kernel(x_ptr, out_ptr, n, steps, BLOCK_SIZE: tl.constexpr):
    """Take branch 0 for all, to compare with."""
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    value = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, repeated(value, 0.5, 1.0, steps), mask=mask)


@functools.cache
def cuda_kernel():
    """Return the kernel of ``CUDA_SOURCE``; CuPy compiles it at its first launch."""
    import cupy

    return cupy.RawKernel(CUDA_SOURCE, "branches")


# --8<-- [start:host]
def in_cuda(x: torch.Tensor, decider: str, steps: int = STEPS) -> torch.Tensor:
    """Return ``x`` after ``steps`` steps of the branch that each element's decider chose, computed in CUDA C++."""
    check(x, decider, steps)
    if x.device.type != "cuda":
        raise ValueError(f"x is on {x.device}; move it to a GPU, as in x.cuda()")
    out = torch.empty_like(x)
    if x.numel():
        import cupy

        blocks = triton.cdiv(x.numel(), THREADS)
        stream = torch.cuda.current_stream(x.device)
        with cupy.cuda.Device(x.device.index), cupy.cuda.Stream.from_external(stream):
            who = cupy.int32([*DECIDERS].index(decider))
            arguments = (x.data_ptr(), out.data_ptr(), x.numel(), cupy.int32(steps), who)
            cuda_kernel()((blocks,), (THREADS,), arguments)
    return out


def in_triton(x: torch.Tensor, decider: str, steps: int = STEPS) -> torch.Tensor:
    """Compute the same in Triton, where a program decides in place of a warp, and a lane in place of a thread."""
    check(x, decider, steps)
    out = torch.empty_like(x)
    if x.numel():
        grid = (triton.cdiv(x.numel(), THREADS),)
        with torch.cuda.device_of(x):
            if decider == "all":
                one_branch_kernel[grid](x, out, x.numel(), steps, BLOCK_SIZE=THREADS)
            elif decider == "group":
                by_program_kernel[grid](x, out, x.numel(), steps, BLOCK_SIZE=THREADS)
            else:
                every = 2 if decider == "each" else 32
                by_lane_kernel[grid](x, out, x.numel(), steps, EVERY=every, BLOCK_SIZE=THREADS)
    return out
# --8<-- [end:host]


def check(x: torch.Tensor, decider: str, steps: int) -> None:
    """Raise ``ValueError`` for arguments that the kernels would get wrong, or can't serve at all."""
    if decider not in DECIDERS:
        raise ValueError(f"decider must be one of {', '.join(map(repr, DECIDERS))}; got {decider!r}")
    if x.dtype != torch.float32 or x.dim() != 1 or not x.is_contiguous() or x.is_neg():
        raise ValueError(f"x must be one-dimensional, float32 and contiguous; got {x.dtype}, strides {x.stride()}")
    if x.requires_grad and torch.is_grad_enabled():
        raise ValueError("x requires a gradient, which these kernels do not compute; use torch.no_grad()")
    if x.numel() > 2**31 - THREADS:  # offsets have 32 bits in Triton's kernels
        raise ValueError(f"x has {x.numel()} elements; it takes at most {2**31 - THREADS}")
    if not isinstance(steps, int) or not 0 <= steps <= 2**31 - AT_ONCE or steps % AT_ONCE:
        raise ValueError(f"steps must be a multiple of {AT_ONCE}, from 0; got {steps!r}")


SIDES = {"cuda": in_cuda, "triton": in_triton}
ELEMENTS = 2**24


# --8<-- [start:time]
@functools.cache
def measure():
    """Return a ``Timing`` for each side and decider; all take turns, on operands in rotation."""
    sides = {
        (side, decider): functools.partial(run, decider=decider) for side, run in SIDES.items() for decider in DECIDERS
    }
    return compare_in_rotation(sides, lambda: [torch.rand(ELEMENTS, device="cuda")], rounds=6)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="time",
        x_names=["decides"],
        x_vals=list(DECIDERS.values()),
        xlabel="who decides",
        ylabel="ms",
        line_arg="side",
        line_vals=list(SIDES),
        line_names=["CUDA C++", "Triton"],
        args={},
    )
)
def time(decides, side):
    """Milliseconds of 1,024 steps for 2²⁴ elements: median, fastest and slowest round."""
    timing = measure()[side, next(name for name, text in DECIDERS.items() if text == decides)]
    return timing.median, min(timing.rounds), max(timing.rounds)
# --8<-- [end:time]


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; CUDA C++ and these times need one")
    shown = (0, 1, 2, 30, 31, 32, 33, 63, 128, 129, 159, 160)  # of two blocks, of four warps each
    out = {}
    print(f"{'element':<20}", *(f"{i:>4}" for i in shown))
    for (side, run), language in zip(SIDES.items(), ("CUDA", "Triton"), strict=True):
        for decider, names in DECIDERS.items():
            out = run(torch.rand(256, device="cuda"), decider)
            name = names.split(" or ")[0 if side == "cuda" else -1].removeprefix("the ")
            print(f"{f'{language}, {name}':<20}", *(f"{out[i].item():>4g}" for i in shown))



if __name__ == "__main__":
    main()
