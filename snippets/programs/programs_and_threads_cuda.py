# SPDX-License-Identifier: Apache-2.0
"""The vector add of the lesson *Vector add* once more, written for threads: in CUDA C++ and in Numba CUDA.

In both a kernel handles one element, a thread executes it, and ``blockIdx.x * blockDim.x + threadIdx.x`` is the index.
``add_wide`` handles four elements a thread, as Triton's compiler does by itself. The last kernel is Triton's again:
it asks the hardware which thread handles which element.

Shapes: one-dimensional, float32, contiguous. Traffic: two elements read and one written for each of the result.
Source: the CUDA C++ Programming Guide's vector add; CuPy compiles and launches it.

Needs CuPy 14 and Numba (``numba-cuda``) beside torch and Triton.
Run it on a GPU with ``python programs_and_threads_cuda.py``. Without one, under ``TRITON_INTERPRET=1``, only Numba's
kernel runs, in Numba's simulator.
"""

import functools
import os
import statistics
import time

import torch
import triton
import triton.language as tl

from snippets.programs.vector_add import add

# --8<-- [start:source]
CUDA_SOURCE = r"""
// --8<-- [start:cuda]
extern "C" __global__ void add(
    const float* x, const float* y, float* out, long long n)
{
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = x[i] + y[i];
}
// --8<-- [end:cuda]

// --8<-- [start:wide]
extern "C" __global__ void add_wide(
    const float* x, const float* y, float* out, long long n)
{
    long long i = 4 * ((long long)blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 3 < n) {
        float4 a = *(const float4*)(x + i);
        float4 b = *(const float4*)(y + i);
        *(float4*)(out + i) =
            make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
    } else
        for (; i < n; ++i)
            out[i] = x[i] + y[i];
}
// --8<-- [end:wide]
"""
# --8<-- [end:source]


@functools.cache
def cuda_kernel(name: str):
    """Return a kernel of ``CUDA_SOURCE``; CuPy compiles it at its first launch."""
    import cupy

    return cupy.RawKernel(CUDA_SOURCE, name)


# --8<-- [start:host]
def add_cuda(x: torch.Tensor, y: torch.Tensor, *, threads: int = 256, wide: bool = False) -> torch.Tensor:
    """Return ``x + y``, computed on a GPU by the CUDA C++ kernel ``add``, or ``add_wide``.

    ``threads`` is the number of threads in a thread block. Raises ``ValueError`` for what the kernel cannot serve;
    ``wide`` also takes ``x`` and ``y`` that begin at a multiple of 16 bytes, and nothing else.
    """
    check_arguments(x, y, threads)
    if x.device.type != "cuda":
        raise ValueError(f"x is on {x.device}; move it to a GPU, as in x.cuda()")
    if wide and (x.data_ptr() % 16 or y.data_ptr() % 16):
        raise ValueError("x or y does not begin at a multiple of 16 bytes; use wide=False")
    out = torch.empty_like(x)
    n = out.numel()
    if n:
        import cupy

        blocks = triton.cdiv(n, 4 * threads if wide else threads)
        stream = torch.cuda.current_stream(x.device)
        with cupy.cuda.Device(x.device.index), cupy.cuda.Stream.from_external(stream):
            kernel = cuda_kernel("add_wide" if wide else "add")
            kernel((blocks,), (threads,), (x.data_ptr(), y.data_ptr(), out.data_ptr(), n))
    return out
# --8<-- [end:host]


@functools.cache
def numba_kernel():
    """Return Numba's kernel. Without a GPU, Numba simulates one; that is decided when Numba is first imported."""
    import numpy

    global cuda  # where the simulator looks for it
    if not torch.cuda.is_available():
        os.environ.setdefault("NUMBA_ENABLE_CUDASIM", "1")
    elif not hasattr(numpy, "row_stack"):  # dropped by NumPy 2.5; numba-cuda 0.30 still asks for it
        numpy.row_stack = numpy.vstack
    # --8<-- [start:numba]
    from numba import cuda

    @cuda.jit
    def add_kernel(x, y, out):
        # cuda.grid(1) is short for this.
        i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
        if i < out.size:
            out[i] = x[i] + y[i]
    # --8<-- [end:numba]

    return add_kernel


def add_numba(x: torch.Tensor, y: torch.Tensor, *, threads: int = 256) -> torch.Tensor:
    """Return ``x + y``, computed by Numba: on a GPU, or simulated, for tensors on the CPU, slowly.

    ``threads`` is the number of threads in a thread block. Raises ``ValueError`` for what the kernel cannot serve.
    """
    check_arguments(x, y, threads)
    out = torch.empty_like(x)
    n = out.numel()
    if n == 0:
        return out
    kernel, blocks = numba_kernel(), triton.cdiv(n, threads)
    from numba import config

    if bool(config.ENABLE_CUDASIM) != (x.device.type == "cpu"):
        where = "the CPU, with NUMBA_ENABLE_CUDASIM=1" if config.ENABLE_CUDASIM else "a GPU"
        raise ValueError(f"x is on {x.device}; Numba runs on {where}")
    if config.ENABLE_CUDASIM:
        kernel[blocks, threads](x.detach().numpy(), y.detach().numpy(), out.numpy())
    else:
        with torch.cuda.device_of(x):
            stream = cuda.external_stream(torch.cuda.current_stream().cuda_stream)
            kernel[blocks, threads, stream](*map(cuda.as_cuda_array, (x.detach(), y.detach(), out)))
    return out


def check_arguments(x: torch.Tensor, y: torch.Tensor, threads: int) -> None:
    """Raise ``ValueError`` for arguments that neither kernel takes."""
    if y.shape != x.shape or y.dtype != x.dtype or y.device != x.device:
        raise ValueError(
            "x and y must have the same shape, dtype and device; got "
            f"{tuple(x.shape)} {x.dtype} on {x.device} and {tuple(y.shape)} {y.dtype} on {y.device}"
        )
    if x.device.type not in ("cuda", "cpu"):
        raise ValueError(f"x is on {x.device}; move it to a GPU, as in x.cuda()")
    if x.dtype != torch.float32 or x.dim() != 1:
        raise ValueError(f"x must be one-dimensional, of float32; got {x.dim()} dimensions of {x.dtype}")
    for name, tensor in (("x", x), ("y", y)):
        if not tensor.is_contiguous():
            raise ValueError(f"{name} has strides {tensor.stride()}; pass {name}.contiguous(), which copies it")
        if tensor.is_neg():
            raise ValueError(f"{name} is negated lazily; pass {name}.resolve_neg()")
        if tensor.requires_grad and torch.is_grad_enabled():
            raise ValueError(f"{name} requires a gradient, which this function does not compute; use torch.no_grad()")
    if not isinstance(threads, int) or not 1 <= threads <= 1024:
        raise ValueError(f"threads must be between 1 and 1024; got {threads}")
    if x.numel() > threads * (2**31 - 1):
        raise ValueError(f"{x.numel()} elements are too many for {threads} threads a block; use more")


# --8<-- [start:owners]
@triton.jit
def owners_kernel(x_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    # $1, the element, is unused: it asks the thread that holds it.
    thread = tl.inline_asm_elementwise(
        "mov.u32 $0, %tid.x;", "=r,r", [x],
        dtype=tl.int32, is_pure=False, pack=1,
    )
    tl.store(out_ptr + offsets, thread, mask=offsets < n)
# --8<-- [end:owners]


def owners(n: int, *, block_size: int, num_warps: int) -> torch.Tensor:
    """Return, for each of ``n`` elements, the ``threadIdx.x`` of the thread that stored it. NVIDIA GPUs only."""
    if n > 2**31 - block_size:  # offsets have 32 bits here
        raise ValueError(f"n must be at most {2**31 - block_size} for block_size {block_size}; got {n}")
    x = torch.zeros(n, dtype=torch.int32, device="cuda")
    out = torch.empty_like(x)
    if n:
        grid = (triton.cdiv(n, block_size),)
        owners_kernel[grid](x, out, n, BLOCK_SIZE=block_size, num_warps=num_warps)
    return out


SIDES = {
    "cuda": lambda x, y: add_cuda(x, y),
    "wide": lambda x, y: add_cuda(x, y, wide=True),
    "numba": lambda x, y: add_numba(x, y),
    "triton": lambda x, y: add(x, y),
}
NAMES = ["CUDA C++", "CUDA C++, 4 a thread", "Numba CUDA", "Triton"]


# --8<-- [start:bandwidth]
@functools.lru_cache(maxsize=1)
def measure(n, rounds=6):
    """Return a ``Timing`` of each side. The sides take turns, on the same data.

    Each side is a CUDA graph of one call. A launch by Numba takes Python longer than a flush can hide.
    """
    from snippets.tools.benchmarking import compare  # here, so that the rest of this file can be copied alone

    x, y = torch.rand(n, device="cuda"), torch.rand(n, device="cuda")
    graphs = {side: torch.cuda.CUDAGraph() for side in SIDES}
    for side, run in SIDES.items():
        run(x, y)  # compiled
        with torch.cuda.graph(graphs[side]):
            run(x, y)
    return compare({side: graph.replay for side, graph in graphs.items()}, rounds=rounds)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="bandwidth",
        x_names=["n"],
        x_vals=[2**k for k in range(12, 29, 2)],
        x_log=True,
        xlabel="elements (float32)",
        ylabel="GB/s",
        line_arg="side",
        line_vals=list(SIDES),
        line_names=NAMES,
        args={},
    )
)
def bandwidth(n, side):
    """Bytes moved per second, in GB/s: median, slowest and fastest round. L2 is cold and clean before each run."""
    return measure(n)[side].rate(3 * n * 4)  # two float32 loads and one store for each element
# --8<-- [end:bandwidth]


# --8<-- [start:call_time]
@functools.lru_cache(maxsize=1)
def measure_calls(n, calls=300, rounds=7):
    """Return microseconds from one call to the next by side, one for each round, when calls follow each other."""
    x, y = torch.rand(n, device="cuda"), torch.rand(n, device="cuda")
    times = {side: [] for side in SIDES}
    for counted in (False, *[True] * rounds):  # the first round warms up
        for side, run in SIDES.items():
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(calls):
                run(x, y)
            torch.cuda.synchronize()
            if counted:
                times[side].append((time.perf_counter() - begin) * 1e6 / calls)
    return times


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="call_time",
        x_names=["n"],
        x_vals=[2**10, 2**24],
        x_log=True,
        y_log=True,
        xlabel="elements (float32)",
        ylabel="µs",
        line_arg="side",
        line_vals=list(SIDES),
        line_names=NAMES,
        args={},
    )
)
def call_time(n, side):
    """Microseconds from one call to the next, Python's work included: median, fastest and slowest round."""
    times = measure_calls(n)[side]
    return statistics.median(times), min(times), max(times)
# --8<-- [end:call_time]


# --8<-- [start:main]
def main():
    gpu = torch.cuda.is_available()
    if not gpu and isinstance(owners_kernel, triton.JITFunction):
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run Numba's simulator, on the CPU")
    device = "cuda" if gpu else "cpu"

    print("## Ten elements, four threads a block")
    x = torch.arange(10, dtype=torch.float32, device=device)
    if gpu:
        print("CUDA C++:", add_cuda(x, 100 * x, threads=4).tolist())
    print("Numba:   ", add_numba(x, 100 * x, threads=4).tolist())
    if not gpu:
        return
    print("Triton:  ", add(x, 100 * x, block_size=4).tolist())

    print("## A million elements and one")
    torch.manual_seed(0)
    x, y = torch.rand(2, 2**20 + 1).to(device)
    y = y.clone()  # begins at a multiple of 16 bytes, like x
    for name, run in zip(NAMES, SIDES.values(), strict=True):
        print(f"sums unlike those of torch, {name}: {int((run(x, y) != torch.add(x, y)).sum())}")

    print("## Which thread stored which element")
    for block_size, num_warps in ((1024, 1), (1024, 4), (1024, 8), (64, 4)):
        threads = owners(block_size, block_size=block_size, num_warps=num_warps)
        label = f"block {block_size}, num_warps {num_warps}"
        print(f"{label}, elements 0 to 9:", *threads[:10].tolist())
        print(f"{label}, threads that stored: {threads.unique().numel()}")
        held = (threads == 1).nonzero().flatten().tolist()
        print(f"{label}, elements of thread 1:", *held[:12], "and so on" if len(held) > 12 else "")
# --8<-- [end:main]


if __name__ == "__main__":
    main()
