# SPDX-License-Identifier: Apache-2.0
"""Dropout, measured: how near the kernels of ``dropout.py`` come to the time of a copy, and what is kept.

- :func:`forward`: GB/s of ours, of torch's and of a copy, and both as shares of the copy; with a sum, too
- :func:`both`: the same of forward and backward together
- :func:`steps`: dropout forward, step by step: a run of Philox for one element, for four, for eight, and with drawing a
  seed
- :func:`kept`: bytes that autograd keeps for the backward

bfloat16, p = 0.1. Ours draws a seed in each call, by a kernel of torch's; that is in its time, save where a side says
that the seed is given. Torch's is ``torch.nn.functional.dropout``, and then ``+ residual``. How it is measured, and
what the copy is: ``long_softmax_measured.py``. Masks are random, so sides are compared by what they make of ones: 0 or
``1 / (1 - p)``, and the gradient the same.

Bytes: those of kernels that read and write each element once and store no mask, so of all sides the same; forward 1
read and 1 written, with the backward 2 and 2; with the sum forward 2 and 1, with the backward 3 and 2. Torch's moves
more: its mask of a byte for each element, and with the sum a tensor between two kernels. Units: GB/s of 10**9 bytes.

``torch.compile`` takes no part: our Triton is newer than the one that this torch was made for.

``python dropout_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools
from collections.abc import Callable, Mapping

import torch
import triton
import triton.language as tl

from snippets.fusion.dropout import BLOCK_SIZE, add_dropout, dropout, scale_of, warps_of
from snippets.fusion.dropout_plain import plain_dropout
from snippets.fusion.long_softmax_measured import COLUMNS, measure_copy, result, with_backward
from snippets.tools.benchmarking import Timing
from snippets.tools.benchmarking_cold import compare_in_rotation

P = 0.1
SHAPES = ((8192, 4096), (4096, 16384), (16384, 1024), (1000, 3000))


# --8<-- [start:sides]
def torch_dropout(x):
    return torch.nn.functional.dropout(x, P)


def torch_add_dropout(x, residual):
    return torch.nn.functional.dropout(x, P) + residual


SIDES = {
    "dropout": {"ours": functools.partial(dropout, p=P), "torch": torch_dropout},
    "dropout + residual": {"ours": functools.partial(add_dropout, p=P), "torch": torch_add_dropout},
}
INPUTS = {"dropout": 1, "dropout + residual": 2}
# elements for each of x, read and written
MOVED = {"dropout": {"forward": 2, "both": 4}, "dropout + residual": {"forward": 3, "both": 5}}
NAMED = {f"{name}, {rows} × {columns}": (name, rows, columns) for name in SIDES for rows, columns in SHAPES}
# --8<-- [end:sides]


# --8<-- [start:check]
def check_dropout(sides: Mapping[str, Callable[..., torch.Tensor]], inputs: int, device: str) -> None:
    """Raise ``RuntimeError`` if a side makes of ones, and of residuals of 0, something else than dropout does."""
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    ones = torch.ones(1000, 1000, device=device, dtype=dtype)
    given = [ones.clone().requires_grad_(), *[torch.zeros_like(ones).requires_grad_() for _ in range(inputs - 1)]]
    for name, run in sides.items():
        out = run(*given)
        kept, scale = (out != 0).double().mean().item(), out.max().item()
        by_chance = 5 * (P * (1 - P) / ones.numel()) ** 0.5
        if not (abs(kept - (1 - P)) < by_chance and abs(scale - 1 / (1 - P)) < 0.01):
            raise RuntimeError(f"{name} keeps {kept:.3f} of the elements and multiplies by {scale:.3f}")
        if not ((out == 0) | (out == scale)).all():
            raise RuntimeError(f"{name} makes more than two numbers of ones")
        if out.requires_grad:
            grads = torch.autograd.grad(out, given, ones)
            if not all(map(torch.equal, grads, [out, ones])):  # of x, and of a residual if there is one
                raise RuntimeError(f"{name} has a gradient of another mask")
# --8<-- [end:check]


# --8<-- [start:four]
@triton.jit
def four_kernel(x_ptr, out_ptr, seed_ptr, n, p, scale, BLOCK_SIZE: tl.constexpr):
    """The first kernel with all four numbers of Philox, and 32 bits an element."""
    start = tl.program_id(axis=0).to(tl.int64) * BLOCK_SIZE
    quarter = start // 4 + tl.arange(0, BLOCK_SIZE // 4)
    a, b, c, d = tl.rand4x(tl.load(seed_ptr), quarter)
    u = tl.interleave(tl.interleave(a, c), tl.interleave(b, d))
    offsets = start + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, tl.where(u >= p, x * scale, 0), mask=mask)
# --8<-- [end:four]


def four_numbers(x: torch.Tensor, p: float, seed: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    four_kernel[(triton.cdiv(x.numel(), BLOCK_SIZE),)](
        x, out, seed, x.numel(), p, scale_of(p), BLOCK_SIZE=BLOCK_SIZE, num_warps=warps_of(BLOCK_SIZE)
    )
    return out


# --8<-- [start:measure]
def operands(tensors: int, rows: int, columns: int) -> list[torch.Tensor]:
    return [torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16) for _ in range(tensors)]


@functools.cache
def measure(name: str, rows: int, columns: int, step: str) -> dict[str, Timing]:
    """Return the milliseconds of each side, forward or both."""
    torch.manual_seed(0)
    sides, tensors = SIDES[name], INPUTS[name]
    check_dropout(sides, tensors, "cuda")
    if step == "both":
        sides, tensors = {side: with_backward(run) for side, run in sides.items()}, tensors + 1
    return compare_in_rotation(sides, functools.partial(operands, tensors, rows, columns), rounds=3)


@functools.cache
def measure_steps(rows: int, columns: int) -> dict[str, Timing]:
    """Return the milliseconds of dropout forward by each step."""
    torch.manual_seed(0)
    seed = torch.zeros((), device="cuda", dtype=torch.int64)
    sides = {
        "one": lambda x: plain_dropout(x, P, seed),
        "four": lambda x: four_numbers(x, P, seed),
        "eight": lambda x: dropout(x, P, seed=seed),
        "drawn": lambda x: dropout(x, P),
        "torch": torch_dropout,
    }
    with torch.no_grad():
        check_dropout(sides, 1, "cuda")
        return compare_in_rotation(sides, functools.partial(operands, 1, rows, columns), rounds=3)
# --8<-- [end:measure]


# --8<-- [start:kept]
def bytes_kept(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> int:
    """Return the bytes of the tensors that autograd keeps until the backward, each counted once."""
    saved = {}
    note = lambda t: saved.update({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes()}) or t
    with torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
        function(*[x.detach().requires_grad_() for x in inputs])
    return sum(saved.values())


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="kept",
        x_names=["name"],
        x_vals=list(SIDES),
        xlabel="operation",
        ylabel="bytes",
        line_arg="side",
        line_vals=["ours", "torch"],
        line_names=["ours", "torch"],
        args={"rows": 8192, "columns": 4096},
    )
)
def kept(name, side, rows, columns):
    """Bytes that autograd keeps for the backward of 8192 × 4096 elements."""
    return bytes_kept(SIDES[name][side], *operands(INPUTS[name], rows, columns))
# --8<-- [end:kept]


# --8<-- [start:tables]
def table(case: str, what: str, step: str) -> float | tuple[float, float, float]:
    name, rows, columns = NAMED[case]
    moved = MOVED[name][step] * rows * columns * torch.bfloat16.itemsize
    return result(measure(name, rows, columns, step), moved, what)


AXIS = {"x_names": ["case"], "x_vals": list(NAMED), "xlabel": "operation, rows × columns"}


@triton.testing.perf_report(
    triton.testing.Benchmark(plot_name="forward", args={}, **AXIS, **COLUMNS)
)  # fmt: skip
def forward(case, what):
    """GB/s of dropout: median, slowest and fastest of 3 rounds; and shares of those of a copy."""
    return table(case, what, "forward")


@triton.testing.perf_report(
    triton.testing.Benchmark(plot_name="both", args={}, **AXIS, **COLUMNS)
)  # fmt: skip
def both(case, what):
    """GB/s of dropout and its gradient together: median, slowest and fastest of 3 rounds; and shares of the copy's."""
    return table(case, what, "both")


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="steps",
        x_names=["shape"],
        x_vals=[f"{rows} × {columns}" for rows, columns in SHAPES],
        xlabel="rows × columns",
        ylabel="share of copy",
        line_arg="step",
        line_vals=["one", "four", "eight", "drawn", "torch"],
        line_names=["one element a run of Philox", "four", "eight", "eight, and a seed drawn", "torch"],
        args={},
    )
)
def steps(shape, step):
    """Dropout forward, as a share of the speed of a copy of as many bytes."""
    rows, columns = SHAPES[[f"{m} × {n}" for m, n in SHAPES].index(shape)]
    moved = MOVED["dropout"]["forward"] * rows * columns * torch.bfloat16.itemsize
    return measure_copy(moved).median / measure_steps(rows, columns)[step].median
# --8<-- [end:tables]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (forward, both, steps, kept):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
