# SPDX-License-Identifier: Apache-2.0
"""Every variable of a vector add's indexing, as a run had it: of each CUDA thread, and of each Triton program.

Six elements, four to a thread block or program: eight threads, two programs. In CUDA each variable is one number, in
Triton each but the pid is a block. Numba writes the CUDA kernel and simulates its threads; the values are those that
the kernels stored.

Shapes: ``x`` is one-dimensional. Source: the CUDA C++ Programming Guide's vector add.

Run it with ``TRITON_INTERPRET=1 python programs_and_threads_variables.py``. It needs Numba, and no GPU.
"""

import os

import torch
import triton
import triton.language as tl

OFF = -1  # what is left where nothing was stored; no element holds it


# --8<-- [start:cuda]
def cuda_variables(x: torch.Tensor, threads: int) -> list[tuple]:
    """Return block, thread, index, guard and value of each thread; the value is ``OFF`` if the guard is false."""
    global cuda  # where the simulator looks for it
    os.environ.setdefault("NUMBA_ENABLE_CUDASIM", "1")  # read when Numba is first imported
    from numba import cuda

    @cuda.jit
    def kernel(x, found, values):
        i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
        guard = i < x.size
        found[i, 0] = cuda.blockIdx.x
        found[i, 1] = cuda.threadIdx.x
        found[i, 2] = i
        found[i, 3] = guard
        if guard:
            values[i] = x[i]

    blocks = triton.cdiv(x.numel(), threads)
    found = torch.full((blocks * threads, 4), OFF)
    values = torch.full((blocks * threads,), OFF, dtype=x.dtype)
    kernel[blocks, threads](x.numpy(), found.numpy(), values.numpy())
    return [(*row[:3], bool(row[3]), value) for row, value in zip(found.tolist(), values.tolist(), strict=True)]
# --8<-- [end:cuda]


# --8<-- [start:triton]
@triton.jit
def variables_kernel(x_ptr, pids_ptr, found_ptr, values_ptr, n, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(pids_ptr + pid, pid)
    tl.store(found_ptr + 2 * offsets, offsets)
    tl.store(found_ptr + 2 * offsets + 1, mask)
    tl.store(values_ptr + offsets, x, mask=mask)


def triton_variables(x: torch.Tensor, block_size: int) -> list[tuple]:
    """Return pid, offsets, mask and values of each program; a value is ``OFF`` where the mask is false."""
    programs = triton.cdiv(x.numel(), block_size)
    pids = torch.full((programs,), OFF, dtype=torch.int32)
    found = torch.full((programs, block_size, 2), OFF, dtype=torch.int32)
    values = torch.full((programs, block_size), OFF, dtype=x.dtype)
    variables_kernel[(programs,)](x, pids, found, values, x.numel(), BLOCK_SIZE=block_size)
    return [
        (pid, offsets.tolist(), mask.bool().tolist(), held)
        for pid, (offsets, mask), held in zip(
            pids.tolist(), found.permute(0, 2, 1), values.tolist(), strict=True
        )
    ]  # fmt: skip
# --8<-- [end:triton]


def shown(value) -> str:
    """Return numbers as text, with ``·`` for what was never stored."""
    return "·" if value == OFF else str(value)


def main():
    if isinstance(variables_kernel, triton.JITFunction):
        raise SystemExit("set TRITON_INTERPRET=1: this runs in Triton's interpreter and in Numba's simulator")
    x = torch.tensor([10, 11, 12, 13, 14, 15])
    print("## eight threads")
    print("blockIdx.x  threadIdx.x  i  i < n  x[i]")
    for block, thread, i, guard, value in cuda_variables(x, threads=4):
        print(f"{block:10}  {thread:11}  {i}  {guard!s:5}  {shown(value):>4}")
    print("## two programs")
    for pid, offsets, mask, values in triton_variables(x, block_size=4):
        print(f"pid {pid}")
        for name, block in (("offsets", offsets), ("mask", mask), ("x", values)):
            print(f"  {name:7}", *(f"{shown(value):>5}" for value in block))


if __name__ == "__main__":
    main()
