# SPDX-License-Identifier: Apache-2.0
"""Mixture of experts, measured: one grouped product against its peers, however the tokens choose.

- :func:`rates`: TFLOP/s of the product with the experts' first weight, by ours and by its peers
- :func:`skews`: microseconds of the same, by how unevenly tokens choose
- :func:`few`: microseconds of the same for 16 tokens, where reading the weights is all
- :func:`gradients`: TFLOP/s of the backward's two products
- :func:`steps`: microseconds of the other steps of a layer, by ours and by torch

The shapes are two models' with 8 and 128 experts; see ``MODELS``. How tokens choose: a token's logits are random, and
less by ``skew * log(rank)`` for an expert's rank, so that the first expert is chosen most and the others by Zipf's law.

*ours* gets the tokens, and each program gathers its rows itself; *sorted* is ours, given rows that are sorted by expert
already. So are the rows of the peers: ``torch._grouped_mm``, which takes the offsets on the GPU; a loop of
``torch.mm``, which needs the counts on the host, and gets them for nothing here; and *dense*, one ``torch.mm`` of as
many rows with a single expert's weight. What sorting costs is among the steps, as *copy*.

All sides run in turns on operands in rotation, all calls in one CUDA graph (``snippets/tools/benchmarking_cold.py``),
large ones each at their own clock, after their results were compared. bfloat16, normally distributed.

FLOPs: 2 * tokens * top_k * hidden * inner. Units: TFLOP/s of 10**12 FLOPs a second, and microseconds.
Source: the shapes are those of Mixtral 8x7B and of Qwen3-30B-A3B, by their published configurations.

``python experts_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools
import itertools
from collections.abc import Callable
from typing import NamedTuple

import torch
import triton

from snippets.models import experts
from snippets.tools.benchmarking import Timing
from snippets.tools.benchmarking_cold import compare_in_rotation


# --8<-- [start:models]
class Model(NamedTuple):
    experts: int
    top_k: int
    hidden: int
    inner: int


MODELS = {"2 of 8": Model(8, 2, 4096, 14336), "8 of 128": Model(128, 8, 2048, 768)}


class Case(NamedTuple):
    tokens: int
    of: Model
    skew: float = 0

    @property
    def flops(self) -> int:
        return 2 * self.tokens * self.of.top_k * self.of.hidden * self.of.inner


CASES = {
    f"{tokens} tokens, {model}, skew {skew:g}": Case(tokens, MODELS[model], skew)
    for tokens, model, skew in (
        (16384, "2 of 8", 0), (16384, "2 of 8", 1), (4096, "2 of 8", 0),
        (16384, "8 of 128", 0), (16384, "8 of 128", 0.5), (16384, "8 of 128", 1), (16384, "8 of 128", 1.5),
        (4096, "8 of 128", 0),
    )
}  # fmt: skip
LARGE = {f"16384 tokens, {model}": Case(16384, of) for model, of in MODELS.items()}
FEW = {f"16 tokens, {model}": Case(16, of) for model, of in MODELS.items()}
# --8<-- [end:models]


# --8<-- [start:operands]
def logits_of(case: Case) -> torch.Tensor:
    """Return logits by which the expert of rank r is chosen about r ** -skew times as often as the first."""
    random = torch.Generator().manual_seed(0)
    noise = torch.rand(case.tokens, case.of.experts, generator=random).clamp(min=1e-9)
    rank = torch.arange(1, case.of.experts + 1)[torch.randperm(case.of.experts, generator=random)]
    return (-torch.log(-torch.log(noise)) - case.skew * torch.log(rank)).cuda()


def operands(case: Case, routing: experts.Routing) -> list[torch.Tensor]:
    """Return tokens, the experts' weights, and the sorted rows."""
    x = torch.randn(case.tokens, case.of.hidden, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(case.of.experts, case.of.hidden, case.of.inner, device="cuda", dtype=torch.bfloat16)
    return [x, w, copied(x, routing)]


def copied(x: torch.Tensor, routing: experts.Routing) -> torch.Tensor:
    """Return the tokens' rows, sorted by expert."""
    return x[routing.pairs // routing.experts.shape[1]]
# --8<-- [end:operands]


# --8<-- [start:sides]
def by_expert(routing: experts.Routing) -> Callable[..., torch.Tensor]:
    """Return the loop: a product for each expert that has rows. It knows how many before it is timed."""
    bounds = routing.offsets.tolist()

    def loop(_, w, rows):
        out = torch.empty(len(rows), w.shape[2], dtype=rows.dtype, device=rows.device)
        for expert, (begin, end) in enumerate(itertools.pairwise(bounds)):
            if begin < end:
                torch.mm(rows[begin:end], w[expert], out=out[begin:end])
        return out

    return loop


def sides_of(routing: experts.Routing) -> dict[str, Callable[..., torch.Tensor]]:
    """Return what multiplies, by name: functions of tokens, weights and sorted rows."""
    return {
        "ours": lambda x, w, _: experts.grouped_matmul(x, w, routing, gather=True),
        "sorted": lambda _, w, rows: experts.grouped_matmul(rows, w, routing),
        "grouped_mm": lambda _, w, rows: torch._grouped_mm(rows, w, offs=routing.offsets[1:]),
        "loop": by_expert(routing),
        "dense": lambda _, w, rows: torch.mm(rows, w[0]),
    }


def check_alike(sides: dict[str, Callable[..., torch.Tensor]], given: list[torch.Tensor]) -> None:
    """Raise ``RuntimeError`` if a result is not the first one's; *dense* multiplies by another weight."""
    expected, *_ = (run(*given).float() for run in sides.values())
    for name in sides.keys() - {"dense"}:
        error = ((sides[name](*given).float() - expected).norm() / expected.norm()).item()
        if not error < 0.005:
            raise RuntimeError(f"{name} differs by {error:.2g}")


@functools.cache
def measure(case: Case) -> dict[str, Timing]:
    """Return the milliseconds of each side."""
    torch.manual_seed(0)
    routing = experts.route(logits_of(case), case.of.top_k)
    sides, make = sides_of(routing), functools.partial(operands, case, routing)
    check_alike(sides, make())
    return compare_in_rotation(sides, make, rounds=2, steady=case.flops > 1e11)
# --8<-- [end:sides]


# --8<-- [start:rates]
@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="rates",
        x_names=["case"],
        x_vals=list(CASES),
        xlabel="tokens, experts and skew",
        ylabel="TFLOP/s",
        line_arg="what",
        line_vals=["ours", "sorted", "grouped_mm", "loop", "dense", "busiest"],
        line_names=["ours", "ours, sorted", "torch._grouped_mm", "loop of torch.mm", "dense", "rows of the busiest"],
        args={},
    )
)
def rates(case, what):
    """TFLOP/s, median, slowest and fastest of 2 rounds; and how many rows the busiest expert has."""
    if what == "busiest":
        return experts.route(logits_of(CASES[case]), CASES[case].of.top_k).offsets.diff().max().item()
    return measure(CASES[case])[what].rate(CASES[case].flops, 1e12)
# --8<-- [end:rates]


# --8<-- [start:skews]
SKEWS = {case.skew: case for case in CASES.values() if case.tokens == 16384 and case.of == MODELS["8 of 128"]}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="skews",
        x_names=["skew"],
        x_vals=list(SKEWS),
        xlabel="skew",
        ylabel="µs",
        line_arg="what",
        line_vals=["ours", "sorted", "grouped_mm", "loop", "dense"],
        line_names=["ours", "ours, sorted", "torch._grouped_mm", "loop of torch.mm", "dense"],
        args={},
    )
)
def skews(skew, what):
    """Microseconds of 16384 tokens, 8 of 128, by how unevenly they choose: median, fastest, slowest of 2 rounds."""
    return microseconds(measure(SKEWS[skew])[what])
# --8<-- [end:skews]


# --8<-- [start:few]
@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="few",
        x_names=["case"],
        x_vals=list(FEW),
        xlabel="tokens and experts",
        ylabel="µs",
        line_arg="what",
        line_vals=["ours", "grouped_mm", "loop", "bandwidth"],
        line_names=["ours", "torch._grouped_mm", "loop of torch.mm", "GB/s of ours"],
        args={},
    )
)
def few(case, what):
    """Microseconds of 16 tokens; and bytes a second of the weights of those experts that are chosen, by our time."""
    found, of = measure(FEW[case]), FEW[case].of
    if what == "bandwidth":
        chosen = logits_of(FEW[case]).topk(of.top_k).indices.unique().numel()
        return found["ours"].rate(chosen * of.hidden * of.inner * torch.bfloat16.itemsize)
    return microseconds(found[what])


def microseconds(timing: Timing) -> tuple[float, float, float]:
    """Return the microseconds of the median, fastest and slowest round."""
    return tuple(ms * 1e3 for ms in (timing.median, min(timing.rounds), max(timing.rounds)))
# --8<-- [end:few]


# --8<-- [start:gradients]
@functools.cache
def measure_gradients(case: Case) -> dict[str, Timing]:
    """Return the milliseconds of the backward's products: the gradients of the sorted rows, and of the weights."""
    torch.manual_seed(0)
    routing = experts.route(logits_of(case), case.of.top_k)
    offs = routing.offsets[1:]

    def make():
        x, w, rows = operands(case, routing)
        return x, w, rows, torch.randn(len(rows), case.of.inner, device="cuda", dtype=torch.bfloat16)

    of_rows = {
        "rows": lambda x, w, rows, grad: experts.grouped_matmul(grad, w.mT, routing),
        "rows, grouped_mm": lambda x, w, rows, grad: torch._grouped_mm(grad, w.mT, offs=offs),
    }
    of_weights = {
        "weights": lambda x, w, rows, grad: experts.weight_gradient(x, grad, routing, gather=True),
        "weights, grouped_mm": lambda x, w, rows, grad: torch._grouped_mm(rows.t(), grad, offs=offs),
    }
    for sides in (of_rows, of_weights):
        check_alike(sides, make())
    return compare_in_rotation(of_rows | of_weights, make, rounds=2, steady=True)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="gradients",
        x_names=["case"],
        x_vals=list(LARGE),
        xlabel="tokens and experts",
        ylabel="TFLOP/s",
        line_arg="what",
        line_vals=["rows", "rows, grouped_mm", "weights", "weights, grouped_mm"],
        line_names=["rows", "rows, torch._grouped_mm", "weights", "weights, torch._grouped_mm"],
        args={},
    )
)
def gradients(case, what):
    """TFLOP/s of the backward: ours gathers the tokens for the weights' gradient, and the peer gets sorted rows."""
    return measure_gradients(LARGE[case])[what].rate(LARGE[case].flops, 1e12)
# --8<-- [end:gradients]


# --8<-- [start:steps]
@functools.cache
def measure_steps(case: Case) -> dict[str, Timing]:
    """Return the milliseconds of the steps around the products."""
    torch.manual_seed(0)
    logits, top_k = logits_of(case), case.of.top_k
    routing = experts.route(logits, top_k)
    at, weights = routing.rows.long(), routing.weights.to(torch.bfloat16).view(-1, top_k, 1)

    def by_torch(x, y):
        top = logits.topk(top_k, dim=1)
        chosen = top.indices.flatten()
        counts = torch.zeros(case.of.experts, dtype=torch.int64, device="cuda").scatter_add_(
            0, chosen, torch.ones_like(chosen)
        )
        return torch.softmax(top.values, 1), chosen.sort(stable=True).indices, counts.cumsum(0)

    sides = {
        "route": lambda x, y: experts.route(logits, top_k),
        "route, torch": by_torch,
        "copy": lambda x, y: copied(x, routing),
        "combine": lambda x, y: experts.combine(y, routing),
        "combine, torch": lambda x, y: (y[at].view(-1, top_k, y.shape[1]) * weights).sum(1),
    }
    hidden, rows = case.of.hidden, case.tokens * top_k
    make = lambda: [torch.randn(n, hidden, device="cuda", dtype=torch.bfloat16) for n in (case.tokens, rows)]
    return compare_in_rotation(sides, make, rounds=2)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="steps",
        x_names=["case"],
        x_vals=[*LARGE, *FEW],
        xlabel="tokens and experts",
        ylabel="µs",
        line_arg="what",
        line_vals=["route", "route, torch", "copy", "combine", "combine, torch"],
        line_names=["route", "route, torch", "copy", "combine", "combine, torch"],
        args={},
    )
)
def steps(case, what):
    """Microseconds: choose experts and place rows; copy the tokens into sorted rows; add up each token's results."""
    return microseconds(measure_steps((LARGE | FEW)[case])[what])
# --8<-- [end:steps]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (rates, skews, few, gradients, steps):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
