# SPDX-License-Identifier: Apache-2.0
"""Attention over packed sequences, measured: beside padding them to one length, and beside torch's own function.

- :func:`packed`: milliseconds of each side, in the forward; and by how many times of ours

16 sequences of 16 heads of 128, as many keys as queries, causal, bfloat16, normally distributed; their lengths are

- *mixed*: 256, 512, 768 … 4,096
- *one long*: fifteen of 256, and one of 4,096
- *equal*: 2,048 each, where padding costs nothing

Sides: *ours* is ``attention_variable.py``; *padded* is ``attention.py``, with each sequence as long as the longest, and
without the time that it takes to pad; *torch* is ``torch.nn.attention.varlen.varlen_attn``. Results are compared with
torch's before they are timed: in turns, on operands in rotation, all calls in one CUDA graph. Each side runs by itself
before it is read, for the GPU's clock follows the power that is drawn (``snippets/tools/benchmarking_cold.py``).

Units: milliseconds.

``python attention_variable_measured.py`` lists the benchmark. It needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools
import inspect

import torch
import triton

from snippets.fusion.attention import attention
from snippets.fusion.attention_variable import attention_variable
from snippets.fusion.long_softmax_measured import check_alike
from snippets.tools.benchmarking import Timing
from snippets.tools.benchmarking_cold import compare_in_rotation

HEADS, HEAD_DIM = 16, 128
CASES = {
    "mixed": tuple(range(256, 4097, 256)),
    "one long": (256,) * 15 + (4096,),
    "equal": (2048,) * 16,
}


# --8<-- [start:sides]
def begins(lengths: tuple[int, ...], device: str = "cuda") -> torch.Tensor:
    return torch.tensor([0, *lengths], device=device).cumsum(0).int()


def in_torch(cu: torch.Tensor, longest: int):
    """Call torch's function. How it takes a causal mask has changed between its versions."""
    from torch.nn.attention.varlen import varlen_attn

    windows = "window_size" in inspect.signature(varlen_attn).parameters
    causal = {"window_size": (-1, 0)} if windows else {"is_causal": True}
    return lambda q, k, v: varlen_attn(q, k, v, cu, cu, longest, longest, **causal)


def padded(lengths: tuple[int, ...]):
    """Return a function for operands that have as many rows for each sequence as for the longest."""

    def run(q, k, v):
        return attention(*(by_heads(x, lengths) for x in (q, k, v)), causal=True)

    return run


def by_heads(x: torch.Tensor, lengths: tuple[int, ...]) -> torch.Tensor:
    return x.view(len(lengths), max(lengths), HEADS, HEAD_DIM).transpose(1, 2)


def make(rows: int) -> list[torch.Tensor]:
    return [torch.randn(rows, HEADS, HEAD_DIM, device="cuda", dtype=torch.bfloat16) for _ in range(3)]


# --8<-- [end:sides]


# --8<-- [start:measure]
@functools.cache
def measure(lengths: tuple[int, ...]) -> dict[str, Timing]:
    """Return the milliseconds of each side."""
    torch.manual_seed(0)
    cu = begins(lengths)
    sides = {
        "ours": lambda q, k, v: attention_variable(q, k, v, cu, cu, causal=True),
        "torch": in_torch(cu, max(lengths)),
    }
    check_alike(sides, make(sum(lengths)), "torch")
    found = compare_in_rotation(sides, functools.partial(make, sum(lengths)), rounds=3, steady=True)
    of_padded, rows = {"padded": padded(lengths)}, len(lengths) * max(lengths)
    return found | compare_in_rotation(of_padded, functools.partial(make, rows), rounds=3, steady=True)


# --8<-- [end:measure]


# --8<-- [start:tables]
@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="packed",
        x_names=["case"],
        x_vals=list(CASES),
        ylabel="ms",
        line_arg="what",
        line_vals=["ours", "padded", "torch", "by_padding", "by_torch"],
        line_names=["ours", "padded", "torch", "padded / ours", "torch / ours"],
        args={},
    )
)
def packed(case, what):
    """Milliseconds: median, fastest and slowest of 3 rounds; and how many times as long as ours the others take."""
    found = measure(CASES[case])
    if what.startswith("by_"):
        return found["padded" if what == "by_padding" else "torch"].median / found["ours"].median
    timing = found[what]
    return timing.median, min(timing.rounds), max(timing.rounds)


# --8<-- [end:tables]


def main():
    """Say what there is to measure: what comes out is different every time."""
    print(f"{packed.benchmarks.plot_name}.run(print_data=True)  # {packed.fn.__doc__}")


if __name__ == "__main__":
    main()
