# SPDX-License-Identifier: Apache-2.0
"""Two streams of one GPU that do not wait for each other, and what a kernel then reads. Do not copy from here.

A launch goes to PyTorch's current stream. What is on one stream runs in order; between two there is no order, unless
one waits for the other. In each case a long pause stands for work that is not done yet.

Shapes: ``x`` and the result (n,), float32.
Source: PyTorch, *CUDA semantics*; the question, https://github.com/triton-lang/triton/pull/10312.

Run it on a GPU with ``python streams_bug.py``: the interpreter has no streams.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.testing import do_bench_cudagraph

N = 2**20
PAUSE = 50_000_000  # cycles of the GPU's clock, some 25 milliseconds


# --8<-- [start:kernel]
@triton.jit
def add_one_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x + 1, mask=i < n)


def add_one(x: Tensor, out: Tensor) -> None:
    n = x.numel()
    add_one_kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
# --8<-- [end:kernel]


def tensors() -> tuple[Tensor, Tensor, torch.cuda.Stream]:
    """Return zeros, a tensor for a result that holds -1, and another stream; nothing is left to do."""
    x = torch.zeros(N, device="cuda")
    out = torch.full_like(x, -1)
    other = torch.cuda.Stream()
    torch.cuda.synchronize()
    return x, out, other


# --8<-- [start:input]
def an_input(wait: bool) -> float:
    """Fill x with 41 on this stream, and add 1 on another."""
    x, out, other = tensors()
    torch.cuda._sleep(PAUSE)
    x.fill_(41)
    if wait:
        other.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(other):
        add_one(x, out)
    torch.cuda.synchronize()
    return out[0].item()
# --8<-- [end:input]


# --8<-- [start:result]
def a_result(wait: bool) -> float:
    """Add 1 on another stream, and read the result on this one."""
    x, out, other = tensors()
    with torch.cuda.stream(other):
        torch.cuda._sleep(PAUSE)
        add_one(x, out)
    if wait:
        torch.cuda.current_stream().wait_stream(other)
    return out[0].item()
# --8<-- [end:result]


# --8<-- [start:memory]
def memory(record: bool) -> float:
    """Let go of x while another stream has still to read it."""
    x, out, other = tensors()
    with torch.cuda.stream(other):
        torch.cuda._sleep(PAUSE)
        add_one(x, out)
    if record:
        x.record_stream(other)
    del x
    torch.full((N,), 41.0, device="cuda")
    torch.cuda.synchronize()
    return out[0].item()
# --8<-- [end:memory]


# --8<-- [start:timer]
@triton.jit
def least_kernel(x_ptr, least_ptr):
    tl.atomic_min(least_ptr, tl.load(x_ptr))


def a_timer(wait: bool) -> int:
    """Fill x with 41, time a kernel, and return the least it has read."""
    x = torch.zeros(1, dtype=torch.int32, device="cuda")
    least = torch.full_like(x, 99)
    torch.cuda.synchronize()
    torch.cuda._sleep(PAUSE)
    x.fill_(41)
    if wait:
        torch.cuda.synchronize()
    do_bench_cudagraph(lambda: least_kernel[(1,)](x, least), rep=5)
    return least.item()
# --8<-- [end:timer]


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; streams are a GPU's")
    x, out, _ = tensors()
    add_one(x, out)  # compiled and loaded before, which would make all streams wait
    least_kernel[(1,)](x.int(), out.int())
    for name, case in {"an input": an_input, "a result": a_result, "memory": memory, "a timer": a_timer}.items():
        cure = "record_stream" if case is memory else "wait_stream" if case is not a_timer else "synchronize"
        print(f"{name}, nobody waits: {case(False):g}")
        print(f"{name}, with {cure}: {case(True):g}")


if __name__ == "__main__":
    main()
