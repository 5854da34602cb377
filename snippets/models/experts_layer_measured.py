# SPDX-License-Identifier: Apache-2.0
"""A whole layer of experts, measured: ours, and the same written with PyTorch's own operators.

- :func:`forward`: microseconds of a layer, from logits and tokens to the result
- :func:`training`: milliseconds of the same and its backward, with all four gradients

The models and how tokens choose are those of ``experts_measured.py``, evenly. :func:`by_torch` is what one writes
with ``torch._grouped_mm``: it sorts the pairs, copies the tokens into sorted rows, and gathers. It isn't compiled, so
each operator is a launch or more. All launches of both are in one CUDA graph, on operands in rotation, so neither waits
for Python. Results and gradients were compared first. bfloat16, normally distributed; logits in float32.

Units: microseconds and milliseconds.
Source: the shapes are those of Mixtral 8x7B and of Qwen3-30B-A3B, by their published configurations.

``python experts_layer_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools

import torch
import triton

from snippets.models import experts
from snippets.models.experts_measured import MODELS, Case, logits_of, microseconds
from snippets.tools.benchmarking import Timing
from snippets.tools.benchmarking_cold import compare_in_rotation

CASES = {f"{tokens} tokens, {model}": Case(tokens, of) for model, of in MODELS.items() for tokens in (16384, 4096, 16)}
TRAINED = {name: case for name, case in CASES.items() if case.tokens > 16}


# --8<-- [start:torch]
def by_torch(x, logits, w_in, w_out, top_k):
    top = logits.topk(top_k, dim=1)
    weights = torch.softmax(top.values, dim=1).to(x.dtype)
    chosen = top.indices.flatten()
    pairs = chosen.sort(stable=True).indices  # of each row
    rows = torch.empty_like(pairs)
    rows[pairs] = torch.arange(len(pairs), device=x.device)
    counts = torch.zeros(len(w_in), dtype=torch.int32, device=x.device)
    counts.scatter_add_(0, chosen, torch.ones_like(chosen, dtype=torch.int32))
    offs = counts.cumsum(0, dtype=torch.int32)
    hidden = torch._grouped_mm(x[pairs // top_k], w_in, offs=offs)
    gate, up = hidden.chunk(2, dim=1)
    y = torch._grouped_mm(
        torch.nn.functional.silu(gate) * up, w_out, offs=offs
    )
    y = y[rows].view(len(x), top_k, -1)
    return (y * weights[:, :, None]).sum(1)
# --8<-- [end:torch]


# --8<-- [start:measure]
SIDES = {"ours": experts.experts, "torch": by_torch}


def operands(case: Case, logits: torch.Tensor) -> list[torch.Tensor]:
    """Return tokens, logits and weights, scaled so that all results have about the size of the tokens."""
    of, new = case.of, functools.partial(torch.randn, device="cuda", dtype=torch.bfloat16)
    w_in = new(of.experts, of.hidden, 2 * of.inner) * of.hidden**-0.5
    return [new(case.tokens, of.hidden), logits, w_in, new(of.experts, of.inner, of.hidden) * of.inner**-0.5]


def trained(layer, top_k: int, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the result and the gradients of its sum, weighted by the tokens."""
    leaves = [x.detach().requires_grad_() for x in given]
    out = layer(*leaves, top_k)
    return out.detach(), *torch.autograd.grad(out, leaves, given[0])


def check_alike(case: Case, given: list[torch.Tensor]) -> None:
    """Raise ``RuntimeError`` if results or gradients of the two differ."""
    ours, theirs = (trained(layer, case.of.top_k, *given) for layer in SIDES.values())
    for name, a, b in zip(("out", "x", "logits", "w_in", "w_out"), ours, theirs, strict=True):
        error = ((a - b).norm(dtype=torch.float32) / b.norm(dtype=torch.float32)).item()
        if not error < 0.05:
            raise RuntimeError(f"{name} of {case} differs by {error:.2g}")


@functools.cache
def measure(case: Case, backward: bool) -> dict[str, Timing]:
    """Return the milliseconds of both sides."""
    torch.manual_seed(0)
    make = functools.partial(operands, case, logits_of(case))
    check_alike(case, make())
    top_k = case.of.top_k
    if backward:
        sides = {name: functools.partial(trained, layer, top_k) for name, layer in SIDES.items()}
    else:
        sides = {name: lambda *given, layer=layer: layer(*given, top_k) for name, layer in SIDES.items()}
    return compare_in_rotation(sides, make, rounds=2, steady=case.tokens > 16)
# --8<-- [end:measure]


LINES = {"line_arg": "what", "line_vals": ["ours", "torch"], "line_names": ["ours", "PyTorch's operators"]}


# --8<-- [start:forward]
@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="forward",
        x_names=["case"],
        x_vals=list(CASES),
        xlabel="tokens and experts",
        ylabel="µs",
        args={},
        **LINES,
    )
)
def forward(case, what):
    """Microseconds of a layer: median, fastest and slowest of 2 rounds."""
    return microseconds(measure(CASES[case], backward=False)[what])
# --8<-- [end:forward]


# --8<-- [start:training]
@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="training",
        x_names=["case"],
        x_vals=list(TRAINED),
        xlabel="tokens and experts",
        ylabel="ms",
        args={},
        **LINES,
    )
)
def training(case, what):
    """Milliseconds of a layer and its backward: median, fastest and slowest of 2 rounds."""
    timing = measure(TRAINED[case], backward=True)[what]
    return timing.median, min(timing.rounds), max(timing.rounds)
# --8<-- [end:training]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (forward, training):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
