# SPDX-License-Identifier: Apache-2.0
"""The two kernels of ``ptx_read_back.py`` on a GPU, timed: eight neighbors for each thread, and as the compiler has it.

They are in CUDA C++ here, each in two versions. *Wide* loads and stores four elements, 16 bytes, at once, as Triton's
compiler does. *Narrow* takes one element at a time. All four differ in nothing but which elements a thread takes, and
how many at once; Triton's own kernel stands beside them.

Shapes: one-dimensional, float32, contiguous. Traffic: two elements read and one written for each of the result.
Source: notes on Triton that read a kernel's PTX back so; CuPy compiles and launches the CUDA C++.

Needs a GPU, and CuPy 14 beside torch and Triton. Run it with ``python ptx_read_back_measured.py``.
"""

import functools

import torch
import triton

from snippets.programs.ptx_read_back import BLOCK, THREADS
from snippets.programs.vector_add import add
from snippets.tools.benchmarking_cold import rates

# --8<-- [start:source]
CUDA_SOURCE = r"""
__device__ void add_groups(const float* x, const float* y, float* out,
    long long i, long long j, long long n)
{   // four neighbors from i on, and four from j on
    if (WIDE && j + 3 < n) {
        float4 a = *(const float4*)(x + i), b = *(const float4*)(y + i);
        float4 c = *(const float4*)(x + j), d = *(const float4*)(y + j);
        *(float4*)(out + i) =
            make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
        *(float4*)(out + j) =
            make_float4(c.x + d.x, c.y + d.y, c.z + d.z, c.w + d.w);
    } else
        for (int k = 0; k < 4; ++k) {
            if (i + k < n) out[i + k] = x[i + k] + y[i + k];
            if (j + k < n) out[j + k] = x[j + k] + y[j + k];
        }
}

// --8<-- [start:kernels]
extern "C" __global__ void by_guess(
    const float* x, const float* y, float* out, long long n)
{
    long long i = 1024LL * blockIdx.x + 8 * threadIdx.x;
    add_groups(x, y, out, i, i + 4, n);
}

extern "C" __global__ void as_compiled(
    const float* x, const float* y, float* out, long long n)
{
    long long i = 1024LL * blockIdx.x + 4 * threadIdx.x;
    add_groups(x, y, out, i, i + 512, n);
}
// --8<-- [end:kernels]
"""
# --8<-- [end:source]


@functools.cache
def cuda_kernel(name: str, wide: bool):
    """Return a kernel of ``CUDA_SOURCE``; CuPy compiles it at its first launch."""
    import cupy

    return cupy.RawKernel(CUDA_SOURCE, name, options=(f"-DWIDE={int(wide)}",))


# --8<-- [start:host]
def add_cuda(x: torch.Tensor, y: torch.Tensor, *, name: str, wide: bool) -> torch.Tensor:
    """Return ``x + y`` by one of the kernels, ``by_guess`` or ``as_compiled``. Raises ``ValueError`` for the rest."""
    check_arguments(x, y, name, wide)
    out = torch.empty_like(x)
    if x.numel():
        import cupy

        stream = torch.cuda.current_stream(x.device)
        with cupy.cuda.Device(x.device.index), cupy.cuda.Stream.from_external(stream):
            arguments = (x.data_ptr(), y.data_ptr(), out.data_ptr(), x.numel())
            cuda_kernel(name, wide)((triton.cdiv(x.numel(), BLOCK),), (THREADS,), arguments)
    return out
# --8<-- [end:host]


def check_arguments(x: torch.Tensor, y: torch.Tensor, name: str, wide: bool) -> None:
    """Raise ``ValueError`` for arguments that the kernels would get wrong, or can't serve at all."""
    if name not in ("by_guess", "as_compiled"):
        raise ValueError(f"name must be 'by_guess' or 'as_compiled'; got {name!r}")
    if y.shape != x.shape or y.device != x.device:
        raise ValueError(
            "x and y must have the same shape and device; got "
            f"{tuple(x.shape)} on {x.device} and {tuple(y.shape)} on {y.device}"
        )
    for each, tensor in (("x", x), ("y", y)):
        if tensor.dtype != torch.float32 or tensor.dim() != 1 or not tensor.is_contiguous() or tensor.is_neg():
            raise ValueError(
                f"{each} must be one-dimensional, float32 and contiguous; got {tensor.dtype}, "
                f"{tensor.dim()} dimensions, strides {tensor.stride()}"
            )
        if tensor.requires_grad and torch.is_grad_enabled():
            raise ValueError(f"{each} requires a gradient, which these kernels do not compute; use torch.no_grad()")
        if wide and tensor.data_ptr() % 16:
            raise ValueError(f"{each} does not begin at a multiple of 16 bytes; use wide=False")
    if x.device.type != "cuda":
        raise ValueError(f"x is on {x.device}; move it to a GPU, as in x.cuda()")
    if x.numel() > BLOCK * (2**31 - 1):
        raise ValueError(f"x has {x.numel()} elements; it takes at most {BLOCK * (2**31 - 1)}")


SIDES = {
    "guess": functools.partial(add_cuda, name="by_guess", wide=True),
    "compiled": functools.partial(add_cuda, name="as_compiled", wide=True),
    "guess_narrow": functools.partial(add_cuda, name="by_guess", wide=False),
    "compiled_narrow": functools.partial(add_cuda, name="as_compiled", wide=False),
    "triton": add,
}
NAMES = ["by guess, wide", "as compiled, wide", "by guess, narrow", "as compiled, narrow", "Triton"]


# --8<-- [start:bandwidth]
@functools.cache
def measure(n):
    """Return GB/s by side: median, slowest and fastest round. The sides take turns, on operands in rotation."""
    return rates(SIDES, lambda: torch.rand(2, n, device="cuda").unbind(), 3 * n * 4, rounds=6, steady=False, unit=1e9)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="bandwidth",
        x_names=["n"],
        x_vals=[2**24, 2**26, 2**28],
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
    """Bytes moved per second, two elements read and one written for each of the result."""
    return measure(n)[side]
# --8<-- [end:bandwidth]


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; ptx_read_back.py simulates one")
    torch.manual_seed(0)
    x, y = torch.rand(2, 2**20 + 4).to("cuda")
    for n in (2**20, 1001):
        for name, run in zip(NAMES, SIDES.values(), strict=True):
            print(f"wrong sums of {n:,}, {name}: {int((run(x[:n], y[:n]) != x[:n] + y[:n]).sum())}")


if __name__ == "__main__":
    main()
