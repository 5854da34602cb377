# SPDX-License-Identifier: Apache-2.0
"""A transformer block, measured: forward and backward in our kernels, in PyTorch's operations, and compiled.

- :func:`times`: milliseconds of a block's forward and backward together
- :func:`memory`: how many bytes more are held at the most while that runs
- :func:`losses`: of a small model, over a thousand steps

The block is that of ``block.py``, its weights and inputs random numbers in bfloat16. *torch* are PyTorch's operations,
called one by one; *compiled* are the same under ``torch.compile``, each of whose attentions is a call of PyTorch's, as
in *torch*. All sides do their products by cuBLAS. They run in turns, on operands in rotation, all calls in one CUDA
graph, each at its own clock (``snippets/tools/benchmarking_cold.py``). Memory is counted by PyTorch, in a run without a
graph; weights, inputs and incoming gradients are there before, and do not count.

The losses begin with the same weights and the same sequences. *other torch* differs from *torch* in the attention
alone, which is told to store its scores: its loss says how far two right computations in bfloat16 come apart.

Units: milliseconds; MB of 10**6 bytes; nats.

``python block_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools
from collections.abc import Callable

import torch
import triton
from torch.nn.attention import SDPBackend, sdpa_kernel

from snippets.fusion.block import OURS, TORCH, Block, Model, Ops, largest_difference, torch_attention, train
from snippets.library.rope import rope_tables
from snippets.tools.benchmarking import Timing
from snippets.tools.benchmarking_cold import compare_in_rotation

NAMED = {  # batch, tokens, dim, heads, kv_heads, hidden
    "1 × 8192 tokens, 4096 wide": (1, 8192, 4096, 32, 8, 14336),
    "4 × 2048 tokens, 4096 wide": (4, 2048, 4096, 32, 8, 14336),
    "4 × 4096 tokens, 2048 wide": (4, 4096, 2048, 16, 16, 5504),
}
SIDES = ("ours", "torch", "compiled")
LARGEST_ERROR = 0.05  # of a gradient, as a share of its largest number; bfloat16 rounds by 0.004 each time
STEPS, BATCH, TOKENS, VOCABULARY, WIDTH = 1000, 64, 256, 64, 256


# --8<-- [start:sides]
@functools.cache
def block_of(shape: str, side: str) -> torch.nn.Module:
    _, _, *sizes = NAMED[shape]
    torch.manual_seed(0)
    block = Block(*sizes, ops=OURS if side == "ours" else TORCH, device="cuda").bfloat16()
    return torch.compile(block, fullgraph=True, dynamic=False) if side == "compiled" else block


def step_of(shape: str, side: str) -> Callable[..., tuple[torch.Tensor, ...]]:
    """Return a function of the operands that gives the gradients of the inputs and of all weights."""
    _, tokens, dim, heads, *_ = NAMED[shape]
    block, tables = block_of(shape, side), rope_tables(tokens, dim // heads, device="cuda")

    def run(x, residual, *grads):
        inputs = [each.detach().requires_grad_() for each in (x, residual)]
        return torch.autograd.grad(block(*inputs, *tables), [*inputs, *block.parameters()], grads)

    return run


def operands(shape: str) -> list[torch.Tensor]:
    batch, tokens, dim, *_ = NAMED[shape]
    return list(torch.randn(4, batch, tokens, dim, device="cuda", dtype=torch.bfloat16))


# --8<-- [end:sides]


# --8<-- [start:measure]
@functools.cache
def measure(shape: str) -> dict[str, Timing]:
    """Return the milliseconds of each side."""
    torch.manual_seed(0)
    given, sides = operands(shape), {side: step_of(shape, side) for side in SIDES}
    wanted = sides["torch"](*given)
    for name, run in sides.items():
        error = largest_difference([each.float() for each in run(*given)], [each.float() for each in wanted])
        if not error <= LARGEST_ERROR:  # nor is NaN
            raise RuntimeError(f"{name} differs from torch by {error:.2g} at {shape}")
    del given, wanted
    return compare_in_rotation(sides, functools.partial(operands, shape), rounds=3, steady=True)


@functools.cache
def held(shape: str, side: str) -> int:
    """Return the most bytes held at once, beyond what was held before."""
    given, run = operands(shape), step_of(shape, side)
    run(*given)  # compiles
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run(*given)
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


# --8<-- [end:measure]


# --8<-- [start:tables]
AXIS = {"x_names": ["shape"], "x_vals": list(NAMED), "xlabel": "block", "line_arg": "what", "args": {}}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="times",
        ylabel="ms",
        line_vals=[*SIDES, "gain"],
        line_names=[*SIDES, "the faster of the two by ours"],
        **AXIS,
    )
)
def times(shape, what):
    """Milliseconds forward and backward: median, fastest and slowest of 3 rounds; and torch's best by ours."""
    found = measure(shape)
    if what == "gain":
        return min(found["torch"].median, found["compiled"].median) / found["ours"].median
    return found[what].median, min(found[what].rounds), max(found[what].rounds)


@triton.testing.perf_report(
    triton.testing.Benchmark(plot_name="memory", ylabel="MB", line_vals=SIDES, line_names=SIDES, **AXIS)
)
def memory(shape, what):
    """MB held at the most, beside weights, inputs and incoming gradients."""
    return held(shape, what) / 1e6


# --8<-- [end:tables]


# --8<-- [start:losses]
def stored_scores(q, k, v):
    with sdpa_kernel(SDPBackend.MATH):
        return torch_attention(q, k, v)


@functools.cache
def history(side: str) -> list[float]:
    ops: Ops = {"ours": OURS, "torch": TORCH, "other": TORCH._replace(attention=stored_scores)}[side]
    torch.manual_seed(0)
    model = Model(TOKENS, VOCABULARY, WIDTH, heads=4, blocks=2, ops=ops, dtype=torch.bfloat16, device="cuda")
    return train(model, STEPS + 1, BATCH, TOKENS, VOCABULARY)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="losses",
        x_names=["step"],
        x_vals=[0, 50, 100, 150, 200, 300, 400, 600, 800, STEPS],
        ylabel="loss",
        line_arg="side",
        line_vals=["ours", "torch", "other"],
        line_names=["ours", "torch", "other torch"],
        args={},
    )
)
def losses(step, side):
    """The loss before a step, mean of it and the nine before."""
    last = history(side)[max(step - 9, 0) : step + 1]
    return sum(last) / len(last)


# --8<-- [end:losses]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (times, memory, losses):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
