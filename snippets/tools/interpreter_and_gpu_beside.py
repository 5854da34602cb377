# SPDX-License-Identifier: Apache-2.0
"""Lanes and programs side by side: races, order, waiting, lanes that are off, and loads out of bounds.

``interpreter_and_gpu.py`` judges and runs them; what is right comes from PyTorch, plain Python or the definition.

Run it with ``python interpreter_and_gpu_beside.py`` on a GPU, or with ``TRITON_INTERPRET=1`` in Triton's interpreter;
there it also compiles every kernel for a GPU of compute capability 9.0.
Source: Triton's language reference, https://triton-lang.org/main/python-api/triton.language.html.
"""

import torch
import triton
import triton.language as tl

from snippets.tools.interpreter_and_gpu import feature, main, numbers


# --8<-- [start:race]
@triton.jit
def race_kernel_bug(counter_ptr):
    tl.store(counter_ptr, tl.load(counter_ptr) + 1)


@feature("beside", "256 programs add 1 to an element, without an atomic")
def race(device):
    counter = torch.zeros(1, dtype=torch.int32, device=device)
    race_kernel_bug[(256,)](counter)
    return counter, [256]
# --8<-- [end:race]


@triton.jit
def last_kernel_bug(out_ptr):
    tl.store(out_ptr, tl.program_id(0))


@feature("beside", "256 programs write their pid to one element")
def last_writer(device):
    out = torch.zeros(1, dtype=torch.int32, device=device)
    last_kernel_bug[(256,)](out)
    return out, None


@triton.jit
def chain_kernel_bug(out_ptr):
    pid = tl.program_id(0)
    tl.store(out_ptr + pid + 1, tl.load(out_ptr + pid) + 1)


@feature("beside", "each program reads what the one before it wrote")
def chain(device):
    out = torch.zeros(257, dtype=torch.int32, device=device)
    chain_kernel_bug[(256,)](out)
    return out, range(257)


@triton.jit
def reverse_kernel_bug(x_ptr, out_ptr, scratch_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(scratch_ptr + i, 2 * tl.load(x_ptr + i))
    tl.store(out_ptr + i, tl.load(scratch_ptr + (N - 1 - i)))


@triton.jit
def reverse_kernel(x_ptr, out_ptr, scratch_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(scratch_ptr + i, 2 * tl.load(x_ptr + i))
    tl.debug_barrier()
    tl.store(out_ptr + i, tl.load(scratch_ptr + (N - 1 - i)))


def reversed_by(kernel, device):
    x, scratch, out = numbers(8192, device), torch.zeros(8192, device=device), torch.zeros(8192, device=device)
    kernel[(1,)](x, out, scratch, 8192, num_warps=16)
    return out, 2 * x.flip(0)


@feature("beside", "a program reads back, in other lanes, what it stored")
def read_back(device):
    return reversed_by(reverse_kernel_bug, device)


@feature("beside", "the same, with a `tl.debug_barrier()` between them")
def read_back_barrier(device):
    return reversed_by(reverse_kernel, device)


@triton.jit
def wait_kernel_bug(flag_ptr, out_ptr, TRIES: tl.constexpr):
    if tl.program_id(0) == 0:
        seen = 0
        tries = 0
        while (seen == 0) & (tries < TRIES):
            seen = tl.atomic_add(flag_ptr, 0)
            tries += 1
        tl.store(out_ptr, seen)
    else:
        tl.atomic_xchg(flag_ptr, 1)


@feature("beside", "program 0 waits for program 1, 1,000 tries")
def wait(device):
    flag, out = torch.zeros(2, dtype=torch.int32, device=device).split(1)
    wait_kernel_bug[(2,)](flag, out, 1000)
    return out, [1]


@triton.jit
def masked_kernel_bug(x_ptr, out_ptr):
    i = tl.arange(0, 4)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < 2))


@feature("beside", "lanes of a load that are off, without `other`")
def masked(device):
    x, out = torch.full((4,), 7.0, device=device), torch.full((4,), -1.0, device=device)
    masked_kernel_bug[(1,)](x, out)
    return out[2:], None


@triton.jit
def stray_kernel_bug(x_ptr, out_ptr, distance):
    tl.store(out_ptr, tl.load(x_ptr + distance))


@feature("beside", "a load one element past the tensor, into its neighbor")
def stray_near(device):
    x, out = torch.full((5,), 7.0, device=device), torch.zeros(1, device=device)
    stray_kernel_bug[(1,)](x[:4], out, 4)
    return out, None


@feature("beside", "a load 2⁴⁰ elements past the tensor")
def stray_far(device):
    x, out = torch.full((4,), 7.0, device=device), torch.zeros(1, device=device)
    stray_kernel_bug[(1,)](x, out, 2**40)
    return out, None


if __name__ == "__main__":
    main(__file__, "beside")
