# SPDX-License-Identifier: Apache-2.0
"""Fill in the gaps. Measure how many bytes per microsecond a kernel moves, on data that is not in the cache.

A toy stands in for the GPU, so that everybody reads the same times. gpu.now() returns the time in microseconds. A
launch returns before its kernel has finished, and gpu.wait() waits until every kernel has. As on a real GPU, the first
launch compiles, operands that were used a moment ago are still in the cache, and now and then something else runs in
between. If a call moves 160 bytes and a typical reading is 40 µs, the kernel moves 4 bytes per microsecond.
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
    """Return the bytes per microsecond, over the rows of x: eight sets of operands or more, contiguous float32."""
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
