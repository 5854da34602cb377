# SPDX-License-Identifier: Apache-2.0
"""A launch with less of Python in it: a compiled kernel called again and again, and a CUDA graph with what it freezes.

The kernel is RMS norm of rows, from ``compile.py``. :func:`prepare` compiles it for tensors like those given, once;
what it returns launches without looking anything up. A CUDA graph goes further, since its replay runs no Python at all,
but it repeats exactly what was captured: ``FROZEN`` shows for each kind of argument whether a replay sees a change.

Run it on a GPU with ``python launch_overhead.py``.
Source: Triton's ``JITFunction.warmup``; PyTorch, *CUDA semantics*, on CUDA graphs.
"""

import subprocess
import sys
from collections.abc import Callable

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from snippets.pytorch.compile import check_arguments, in_torch, plain, rms_norm_kernel


# --8<-- [start:prepare]
def prepare(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Callable:
    """Compile the kernel for tensors like these, and return its launch.

    Returns:
        A function of ``x``, ``weight`` and ``out``. They must have the
        shape, dtype and device of those given here, be contiguous, and
        begin at addresses that are multiples of 16. Nothing checks that.
    """
    check_arguments(x, weight)
    rows, columns = x.shape
    block = triton.next_power_of_2(columns)
    compiled = rms_norm_kernel.warmup(
        x, weight, x, columns, eps, BLOCK=block, grid=(1,)
    )
    launch = compiled[(rows, 1, 1)]
    return lambda x, weight, out: launch(
        x, weight, out, columns, eps, block
    )
# --8<-- [end:prepare]


# --8<-- [start:capture]
def capture(
    function: Callable, *inputs: Tensor
) -> tuple[torch.cuda.CUDAGraph, Tensor]:
    """Record a call as a CUDA graph.

    Returns:
        The graph, and the tensor that each replay writes to.
    """
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        function(*inputs)  # compiles and tunes, which a capture can't
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = function(*inputs)
    return graph, out
# --8<-- [end:capture]


# --8<-- [start:kernels]
@triton.jit
def add_number_kernel(x_ptr, out_ptr, number, n, BLOCK: tl.constexpr):
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x + number, mask=i < n)


@triton.jit
def add_loaded_kernel(x_ptr, out_ptr, number_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    number = tl.load(number_ptr)
    tl.store(out_ptr + i, x + number, mask=i < n)


@triton.jit
def noise_kernel(out_ptr, seed, n, BLOCK: tl.constexpr):
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.rand(seed, i), mask=i < n)


@triton.jit
def noise_loaded_kernel(out_ptr, seed_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    seed = tl.load(seed_ptr)
    tl.store(out_ptr + i, tl.rand(seed, i), mask=i < n)


@triton.jit
def add_described_kernel(x, out_ptr, number, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, x.load([0]) + number)


@triton.jit
def add_describing_kernel(x_ptr, out_ptr, number, n, BLOCK: tl.constexpr):
    # The GPU writes the descriptor into memory that Triton asks for.
    x = tl.make_tensor_descriptor(x_ptr, [n], [1], [BLOCK])
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, x.load([0]) + number)
# --8<-- [end:kernels]


def add_number(x: Tensor, number) -> Tensor:
    out = torch.empty_like(x)
    kernel = add_loaded_kernel if isinstance(number, Tensor) else add_number_kernel
    kernel[(1,)](x, out, number, x.numel(), BLOCK=16)
    return out


def add_described(x: TensorDescriptor, number: float) -> Tensor:
    out = torch.empty_like(x.base)
    add_described_kernel[(1,)](x, out, number, BLOCK=16)
    return out


def add_describing(x: Tensor, number: float) -> Tensor:
    out = torch.empty_like(x)
    add_describing_kernel[(1,)](x, out, number, x.numel(), BLOCK=16)
    return out


def noise(x: Tensor, seed) -> Tensor:
    out = torch.empty_like(x)
    kernel = noise_loaded_kernel if isinstance(seed, Tensor) else noise_kernel
    kernel[(1,)](out, seed, x.numel(), BLOCK=16)
    return out


# --8<-- [start:frozen]
def written_in_place() -> bool:
    x = torch.zeros(4, device="cuda")
    graph, out = capture(lambda: add_number(x, 1.0))
    x.fill_(5)
    graph.replay()
    return out[0].item() == 6


def another_tensor() -> bool:
    given = {"x": torch.zeros(4, device="cuda")}
    graph, out = capture(lambda: add_number(given["x"], 1.0))
    given["x"] = torch.full((4,), 5.0, device="cuda")
    graph.replay()
    return out[0].item() == 6


def a_python_number() -> bool:
    x, number = torch.zeros(4, device="cuda"), [1.0]
    graph, out = capture(lambda: add_number(x, number[0]))
    number[0] = 6.0
    graph.replay()
    return out[0].item() == 6


def a_number_in_a_tensor() -> bool:
    x, number = torch.zeros(4, device="cuda"), torch.tensor(1.0, device="cuda")
    graph, out = capture(lambda: add_number(x, number))
    number.fill_(6)
    graph.replay()
    return out[0].item() == 6


def described_and_written_in_place() -> bool:
    x = TensorDescriptor.from_tensor(torch.zeros(16, device="cuda"), [16])
    graph, out = capture(lambda: add_described(x, 1.0))
    x.base.fill_(5)
    graph.replay()
    return out[0].item() == 6


def a_descriptor_of_another_tensor() -> bool:
    zeros = torch.zeros(16, device="cuda")
    x = TensorDescriptor.from_tensor(zeros, [16])
    graph, out = capture(lambda: add_described(x, 1.0))
    x.base = torch.full((16,), 5.0, device="cuda")
    graph.replay()
    return out[0].item() == 6


def a_seed() -> bool:
    x, seed = torch.zeros(4, device="cuda"), [1]
    graph, out = capture(lambda: noise(x, seed[0]))
    graph.replay()
    first, seed[0] = out.clone(), 2
    graph.replay()
    return not torch.equal(first, out)


def a_seed_in_a_tensor() -> bool:
    x, seed = torch.zeros(4, device="cuda"), torch.tensor(1, device="cuda")
    graph, out = capture(lambda: noise(x, seed))
    graph.replay()
    first = out.clone()
    seed.add_(1)
    graph.replay()
    return not torch.equal(first, out)


def torchs_own_random_numbers() -> bool:
    x = torch.zeros(4, device="cuda")
    graph, out = capture(lambda: torch.rand_like(x))
    graph.replay()
    first = out.clone()
    graph.replay()
    return not torch.equal(first, out)
# --8<-- [end:frozen]


FROZEN = {
    "a tensor, written in place": written_in_place,
    "another tensor in its place": another_tensor,
    "a Python number": a_python_number,
    "a number in a tensor": a_number_in_a_tensor,
    "a descriptor's tensor, written in place": described_and_written_in_place,
    "another tensor in a descriptor": a_descriptor_of_another_tensor,
    "a seed, as a Python number": a_seed,
    "a seed in a tensor": a_seed_in_a_tensor,
    "the state of torch.rand": torchs_own_random_numbers,
}


# --8<-- [start:freed]
def after_it_was_freed() -> float:
    """Return what a replay reads where its input was, once that memory is somebody else's."""
    x = torch.zeros(2**22, device="cuda")
    graph, out = capture(lambda x: x + 1, x)
    del x
    other = torch.full((2**22,), 41.0, device="cuda")
    graph.replay()
    assert other[0].item() == 41
    return out[0].item()
# --8<-- [end:freed]


# --8<-- [start:scratch]
def writes_elsewhere(kept: bool) -> bool:
    """Return whether a replay writes into a tensor that it was never given.

    The kernel makes a descriptor, for which Triton asks an allocator for
    memory: a new piece each time, or one that is kept, and then freed.
    """
    torch.cuda.empty_cache()
    pieces = [torch.empty(2**24, dtype=torch.int8, device="cuda")]
    new = lambda size: torch.empty(size, dtype=torch.int8, device="cuda")
    triton.set_allocator(
        lambda size, alignment, stream: pieces[0] if kept else new(size)
    )
    x = torch.zeros(16, device="cuda")
    graph, _ = capture(lambda: add_describing(x, 1.0))
    pieces.clear()
    other = torch.full((2**22,), 41.0, device="cuda")  # gets its memory
    graph.replay()
    return not other.eq(41).all().item()
# --8<-- [end:scratch]


# --8<-- [start:unaligned]
def unaligned() -> None:
    """Launch what was prepared for aligned tensors on one that begins 4 bytes later."""
    x, weight = torch.rand(4, 1024, device="cuda"), torch.rand(1024, device="cuda")
    later = torch.rand(4 * 1024 + 1, device="cuda")[1:].view(4, 1024)
    prepare(x, weight)(later, weight, torch.empty_like(x))
    torch.cuda.synchronize()
# --8<-- [end:unaligned]


def last_line(*arguments: str) -> str:
    """Run this file in a process of its own, as an error of the GPU ends all work of a process."""
    done = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True)
    return next((line for line in done.stderr.splitlines() if "Error:" in line), "no error")


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; launches are prepared and captured on one")
    if sys.argv[1:] == ["unaligned"]:
        return unaligned()
    x, weight = torch.rand(4, 1024, device="cuda"), torch.rand(1024, device="cuda")
    out = torch.empty_like(x)
    prepare(x, weight)(x, weight, out)
    print("prepared, as torch:", torch.allclose(out, in_torch(x, weight), atol=1e-5))
    print("prepared, as the function:", torch.equal(out, plain(x, weight)))
    print("prepared, on a tensor that begins 4 bytes later:", last_line("unaligned"))
    print("## What a replay sees")
    for what, seen in FROZEN.items():
        print(f"{what}:", "sees the change" if seen() else "repeats the old")
    print("a freed input that held 0, plus 1:", after_it_was_freed())
    print("## Scratch memory: a replay writes into another tensor")
    for how, kept in (("new for each launch", False), ("one piece, kept and then freed", True)):
        print(f"{how}:", writes_elsewhere(kept))


if __name__ == "__main__":
    main()
