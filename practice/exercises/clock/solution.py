# SPDX-License-Identifier: Apache-2.0
"""Fill the gaps. Measure how many bytes a microsecond a kernel moves, on data that is not in the cache.

A toy stands in for the GPU, so that everybody reads the same times. gpu.now() is the time in microseconds. A launch
returns before its kernel has ended; gpu.wait() waits until all have. As on a GPU, the first launch compiles, operands
that were used lately are in the cache, and now and then something else runs in between.
If a call moves 160 bytes, and its typical reading is 40 µs, it moves 4 bytes a microsecond.
"""

import statistics

import torch
import triton
import triton.language as tl


@triton.jit
def double_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, 2 * x, mask=mask)


def double(x: torch.Tensor, out: torch.Tensor, gpu):
    """Launch the kernel on one set of operands: a vector, and one for the result."""
    double_kernel[(triton.cdiv(x.numel(), 16),)](x, out, x.numel(), BLOCK=16)
    gpu.launched(x)  # so that the toy's clock knows of it


def bandwidth(x: torch.Tensor, gpu) -> torch.Tensor:
    """Return the bytes a microsecond, for the rows of x: at least eight sets of operands, float32, contiguous."""
    if not x.is_contiguous():
        raise ValueError(f"x has the strides {x.stride()}; it takes a contiguous matrix")
    out, sets = torch.empty_like(x), x.shape[0]
    readings = []  # microseconds, one for each set
    # gap 1: take the readings, of double(x[i], out[i], gpu)
    double(x[0], out[0], gpu)  # compiles
    for i in range(sets):
        gpu.wait()
        begin = gpu.now()
        double(x[i], out[i], gpu)
        gpu.wait()
        readings.append(gpu.now() - begin)
    # end of gap 1
    # gap 2: the typical reading, and the bytes that a call moves
    microseconds = statistics.median(readings)
    moved = 2 * x.shape[1] * x.itemsize
    # end of gap 2
    return torch.tensor([moved / microseconds], dtype=torch.float64)
