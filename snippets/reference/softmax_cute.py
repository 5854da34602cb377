# SPDX-License-Identifier: Apache-2.0
"""The softmax of rows in CuTe DSL: each thread's part of a row, and two reductions across the threads, by hand.

Shapes: ``x`` and the result are ``(rows, columns)``, bfloat16, contiguous; ``columns`` a multiple of 8 * THREADS.
Needs ``pip install nvidia-cutlass-dsl``, and a GPU to run. Source: NVIDIA, *CuTe DSL*.
"""

import operator

import cutlass
import cutlass.cute as cute
from cutlass import Float32

THREADS = 256
WARPS = THREADS // 32


# --8<-- [start:kernel]
@cute.jit
def across_threads(value, combine: cutlass.Constexpr, shared):
    value = cute.arch.warp_reduction(value, combine)
    thread, _, _ = cute.arch.thread_idx()
    if thread % 32 == 0:
        shared[thread // 32] = value
    cute.arch.barrier()
    value = shared[thread % WARPS]
    cute.arch.barrier()
    return cute.arch.warp_reduction(value, combine, threads_in_group=WARPS)


@cute.kernel
def softmax_kernel(x: cute.Tensor, out: cute.Tensor, part: cute.Layout):
    thread, _, _ = cute.arch.thread_idx()
    row, _, _ = cute.arch.block_idx()
    shared = cutlass.memory.SmemAllocator().allocate_tensor(
        Float32, cute.make_layout(WARPS)
    )
    source = cute.composition(x[row, None], part)[thread, None]
    target = cute.composition(out[row, None], part)[thread, None]
    held = cute.make_rmem_tensor_like(source)
    cute.autovec_copy(source, held)
    value = held.load().to(Float32)
    largest = value.reduce(cute.ReductionOp.MAX, -Float32.inf, 0)
    largest = across_threads(largest, cute.arch.fmax, shared)
    numerator = cute.math.exp(value - largest)
    total = numerator.reduce(cute.ReductionOp.ADD, Float32(0.0), 0)
    total = across_threads(total, operator.add, shared)
    held.store((numerator / total).to(out.element_type))
    cute.autovec_copy(held, target)


@cute.jit
def softmax(x: cute.Tensor, out: cute.Tensor):
    rows, columns = x.shape
    pieces = columns // (8 * THREADS)
    part = cute.make_layout(
        (THREADS, (8, pieces)), stride=(8, (1, 8 * THREADS))
    )
    softmax_kernel(x, out, part).launch(
        grid=[rows, 1, 1], block=[THREADS, 1, 1]
    )
# --8<-- [end:kernel]
