# SPDX-License-Identifier: Apache-2.0
"""Vector add, wrong on purpose in three ways. Do not copy these kernels.

- ``add_kernel_no_mask_bug`` has no mask: its last program reads and writes past the end of the tensors.
- ``add_kernel_three_bug`` is asked for a block of three, which is no power of two: it does not compile.
- ``add_kernel_offset_bug`` multiplies pid by ``n`` instead of the block size: most elements are never written.

Each works on 10 elements that lie in buffers of 12, so that the damage is seen and stays inside them.
Run it on a GPU with ``python vector_add_bug.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import torch
import triton
import triton.language as tl


# --8<-- [start:no_mask]
@triton.jit
def add_kernel_no_mask_bug(x_ptr, y_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + offsets)
    y = tl.load(y_ptr + offsets)
    tl.store(out_ptr + offsets, x + y)
# --8<-- [end:no_mask]


# --8<-- [start:three]
@triton.jit
def add_kernel_three_bug(x_ptr, y_ptr, out_ptr, n):
    offsets = tl.program_id(axis=0) * 3 + tl.arange(0, 3)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)
# --8<-- [end:three]


# --8<-- [start:offset]
@triton.jit
def add_kernel_offset_bug(x_ptr, y_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * n + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)
# --8<-- [end:offset]


# --8<-- [start:buffers]
def buffers(device):
    """Return buffers of 12 float32 for x, y and the result; the last two elements of each belong to somebody else."""
    x = torch.arange(12, dtype=torch.float32, device=device)
    y = 100 * x
    out = torch.full_like(x, -1)  # -1 stands for: nobody wrote here
    x[10:], y[10:] = 7000, 700
    return x, y, out
# --8<-- [end:buffers]


def innermost(error: BaseException) -> BaseException:
    """Return the error that the others were raised from: the compiler and the interpreter wrap it differently."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def main():
    device = "cuda" if isinstance(add_kernel_no_mask_bug, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    n, block = 10, 4
    grid = (triton.cdiv(n, block),)

    x, y, out = buffers(device)
    add_kernel_no_mask_bug[grid](x[:n], y[:n], out[:n], n, BLOCK_SIZE=block)
    print("no mask")
    print("  results:", out[:n].tolist())
    print("  past them, -1 before:", out[n:].tolist())

    x, y, out = buffers(device)
    print("a block of three")
    try:
        add_kernel_three_bug[(triton.cdiv(n, 3),)](x[:n], y[:n], out[:n], n)
    except Exception as error:
        cause = innermost(error)
        print(f"  {type(cause).__name__}: {cause}")

    x, y, out = buffers(device)
    add_kernel_offset_bug[grid](x[:n], y[:n], out[:n], n, BLOCK_SIZE=block)
    print("pid times n")
    print("  results:", out[:n].tolist())
    print("  elements never written:", int((out[:n] == -1).sum()))


if __name__ == "__main__":
    main()
