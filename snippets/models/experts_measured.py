# SPDX-License-Identifier: Apache-2.0
"""Mixture of experts, measured: one grouped product against its peers, however the tokens choose.

- :func:`rates`: TFLOP/s of the product with the experts' first weight, by ours and by its peers
- :func:`schedules`: ours with a program for each tile that there could be, and with programs that take many tiles
- :func:`few`: microseconds of the same for 16 tokens, where reading the weights is all
- :func:`parts`: microseconds of the other steps of a layer, and of the same by torch
- :func:`gradients`: TFLOP/s of the backward's two products

The shapes are two models' with 8 and 128 experts; see ``MODELS``. How tokens choose: a token's logits are random, and
less by ``skew * log(rank)`` for an expert's rank, so that the first expert is chosen most and the others by Zipf's law.

Peers: ``torch._grouped_mm``, which takes sorted rows and their offsets on the GPU; a loop of ``torch.mm``, which needs
the counts on the host, and gets them for nothing here; and *dense*, one ``torch.mm`` of as many rows with a single
expert's weight, of as many FLOPs. All get sorted rows. Ours gets the tokens, and gathers their rows itself.

All sides run in turns on operands in rotation, all calls in one CUDA graph (``snippets/tools/benchmarking_cold.py``),
after their results were compared. bfloat16, normally distributed.

FLOPs: 2 * tokens * top_k * hidden * inner. Units: TFLOP/s, and microseconds.
Source: the shapes are those of Mixtral 8x7B and of Qwen3-30B-A3B, by their published configurations.

``python experts_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools
import itertools
from typing import NamedTuple

import torch
import triton

from snippets.models import experts
from snippets.tools.benchmarking import Timing
from snippets.tools.benchmarking_cold import compare_in_rotation, empty


# --8<-- [start:models]
class Model(NamedTuple):
    experts: int
    top_k: int
    hidden: int
    inner: int


MODELS = {"2 of 8": Model(8, 2, 4096, 14336), "8 of 128": Model(128, 8, 2048, 768)}


class Case(NamedTuple):
    tokens: int
    model: str
    skew: float

    @property
    def flops(self) -> int:
        of = MODELS[self.model]
        return 2 * self.tokens * of.top_k * of.hidden * of.inner


CASES = {
    f"{tokens} tokens, {model}, skew {skew:g}": Case(tokens, model, skew)
    for tokens, model, skew in (
        (16384, "2 of 8", 0), (16384, "2 of 8", 1), (4096, "2 of 8", 0),
        (16384, "8 of 128", 0), (16384, "8 of 128", 0.5), (16384, "8 of 128", 1), (16384, "8 of 128", 1.5),
        (4096, "8 of 128", 0), (4096, "8 of 128", 1),
    )
}  # fmt: skip
FEW = {f"16 tokens, {model}": Case(16, model, 0) for model in MODELS}
# --8<-- [end:models]


# --8<-- [start:operands]
def logits(case: Case) -> torch.Tensor:
    """Return logits by which the expert of rank r is chosen about r ** -skew times as often as the first."""
    random = torch.Generator().manual_seed(0)
    of = MODELS[case.model]
    noise = torch.rand(case.tokens, of.experts, generator=random).clamp(min=1e-9)
    rank = torch.arange(1, of.experts + 1)[torch.randperm(of.experts, generator=random)]
    return (-torch.log(-torch.log(noise)) - case.skew * torch.log(rank)).cuda()


def operands(case: Case, routing: experts.Routing) -> list[torch.Tensor]:
    """Return tokens, the experts' weights, and the sorted rows."""
    of = MODELS[case.model]
    x = torch.randn(case.tokens, of.hidden, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(of.experts, of.hidden, of.inner, device="cuda", dtype=torch.bfloat16)
    return [x, w, x[routing.pairs // of.top_k]]


# --8<-- [end:operands]


# --8<-- [start:sides]
def sides_of(routing: experts.Routing) -> dict:
    """Return what multiplies, by name: functions of tokens, weights and sorted rows."""
    bounds = routing.offsets.tolist()

    def loop(x, w, rows):
        out = torch.empty(len(rows), w.shape[2], dtype=x.dtype, device=x.device)
        for expert, (begin, end) in enumerate(itertools.pairwise(bounds)):
            if begin < end:
                torch.mm(rows[begin:end], w[expert], out=out[begin:end])
        return out

    return {
        "ours": lambda x, w, rows: experts.grouped_matmul(x, w, routing, gather=True),
        "grouped_mm": lambda x, w, rows: torch._grouped_mm(rows, w, offs=routing.offsets[1:]),
        "loop": loop,
        "dense": lambda x, w, rows: torch.mm(rows, w[0]),
    }


def check_alike(sides: dict, given: list[torch.Tensor]) -> None:
    """Raise ``RuntimeError`` if a result is not the loop's."""
    expected = sides["loop"](*given).float()
    for name in sides.keys() - {"dense", "empty"}:
        error = ((sides[name](*given).float() - expected).norm() / expected.norm()).item()
        if not error < 0.005:
            raise RuntimeError(f"{name} differs from the loop by {error:.2g}")


@functools.cache
def measure(case: Case) -> dict[str, Timing]:
    """Return the milliseconds of each side."""
    torch.manual_seed(0)
    routing = experts.route(logits(case), MODELS[case.model].top_k)
    sides = sides_of(routing)
    make = functools.partial(operands, case, routing)
    check_alike(sides, make())
    return compare_in_rotation(sides | {"empty": empty}, make, rounds=2, steady=case.flops > 1e11)


# --8<-- [end:sides]


SIDES, NAMES = ["ours", "grouped_mm", "loop", "dense"], ["ours", "torch._grouped_mm", "loop of torch.mm", "dense"]


# --8<-- [start:rates]
@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="rates",
        x_names=["case"],
        x_vals=list(CASES),
        xlabel="tokens, experts and skew",
        ylabel="TFLOP/s",
        line_arg="what",
        line_vals=[*SIDES, "share", "share_of_grouped_mm"],
        line_names=[*NAMES, "share of dense", "share of torch._grouped_mm"],
        args={},
    )
)
def rates(case, what):
    """TFLOP/s, median, slowest and fastest of 2 rounds; ours as a share of dense's, and of torch._grouped_mm's."""
    found = measure(CASES[case])
    if what.startswith("share"):
        return found["dense" if what == "share" else "grouped_mm"].median / found["ours"].median
    return found[what].rate(CASES[case].flops, 1e12)


# --8<-- [end:rates]


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
        line_names=["ours", "torch._grouped_mm", "loop of torch.mm", "TB/s of ours"],
        args={},
    )
)
def few(case, what):
    """Microseconds of 16 tokens; and bytes of the weights of those experts that are chosen, by our time."""
    found, of = measure(FEW[case]), MODELS[FEW[case].model]
    if what == "bandwidth":
        chosen = logits(FEW[case]).topk(of.top_k).indices.unique().numel()
        return chosen * of.hidden * of.inner * 2 / found["ours"].median / 1e9
    return tuple(ms * 1e3 for ms in (found[what].median, min(found[what].rounds), max(found[what].rounds)))


# --8<-- [end:few]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (rates, few):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
