# SPDX-License-Identifier: Apache-2.0
"""The PTX of a vector add, read back into CUDA: by guess, eight neighbors for each thread; and as the compiler has it.

Both kernels add a block of 1,024 elements by 128 threads, which are four warps. Both are right. They differ in which
thread takes which elements, and so in how many sectors of 32 bytes a warp's loads of 16 bytes touch.

Shapes: one-dimensional, float32. Source: notes on Triton that read a kernel's PTX back so.

Run it with ``python ptx_read_back.py``. It needs Numba, which writes the CUDA and simulates its threads, and no GPU.
"""

import os

import numpy as np

from snippets.gpu.coalescing import sectors

BLOCK, THREADS = 1024, 128
WIDE = 4  # float32 in 16 bytes, the widest load


# --8<-- [start:by_guess]
def by_guess(x, y, out, owner):
    begin = cuda.blockIdx.x * 1024 + cuda.threadIdx.x * 8
    for k in range(8):
        i = begin + k
        if i < out.size:
            out[i] = x[i] + y[i]
            owner[i] = cuda.threadIdx.x
# --8<-- [end:by_guess]


# --8<-- [start:as_compiled]
def as_compiled(x, y, out, owner):
    begin = cuda.blockIdx.x * 1024 + cuda.threadIdx.x * 4
    for load in range(2):
        for k in range(4):
            i = begin + 512 * load + k
            if i < out.size:
                out[i] = x[i] + y[i]
                owner[i] = cuda.threadIdx.x
# --8<-- [end:as_compiled]


def simulate(function, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ``x + y`` as the threads of a simulated GPU stored it, and for each element the number of its thread."""
    global cuda  # where the simulator looks for it
    os.environ.setdefault("NUMBA_ENABLE_CUDASIM", "1")  # read when Numba is first imported
    from numba import cuda

    n = len(x)
    out, owner = np.full(n, np.nan, np.float32), np.full(n, -1)
    cuda.jit(function)[-(-n // BLOCK), THREADS](x, y, out, owner)
    return out, owner


# --8<-- [start:loads]
def of_thread(owner: np.ndarray, thread: int) -> list[int]:
    """Return the elements of a thread of the first block."""
    return np.flatnonzero(owner[:BLOCK] == thread).tolist()


def touched(owner: np.ndarray) -> list[int]:
    """Return, for each load of 16 bytes by the first warp, how many sectors its 32 threads touch together."""
    elements = [of_thread(owner, thread) for thread in range(32)]
    loads = range(0, len(elements[0]), WIDE)
    return [sectors([i for mine in elements for i in mine[at : at + WIDE]], itemsize=4) for at in loads]
# --8<-- [end:loads]


def main():
    x = np.arange(1000, dtype=np.float32)
    y = np.full_like(x, 0.5)
    for function in by_guess, as_compiled:
        name = function.__name__.replace("_", " ")
        out, owner = simulate(function, x, y)
        print(f"{name}, wrong sums: {int((out != x + y).sum())}")
        print(f"{name}, elements of thread 1:", *of_thread(owner, 1))
        counts = touched(owner)
        print(f"{name}, sectors of each load:", *counts)
        print(f"{name}, sectors: {sum(counts)}")


if __name__ == "__main__":
    main()
