# SPDX-License-Identifier: Apache-2.0
"""Drawing tokens, measured: one kernel beside PyTorch's operations, and beside a copy of the logits.

- :func:`times`: microseconds of each, by the number of rows and what is cut off

Logits of 128,256 tokens, as of Llama 3, bfloat16, normally distributed with a standard deviation of 3. PyTorch's side is
what libraries do: ``torch.topk`` for top-k, a sort and a running sum for top-p, and then the largest of the
probabilities divided by exponential random numbers, which is the race, too. Before it is timed, each token that ours
draws is looked up among those that PyTorch keeps.

``python sampling_measured.py`` lists the benchmark. It needs a GPU, and ``.run`` needs pandas and matplotlib.
"""  # noqa: E501 - what is recorded covers this text

import functools

import torch
import triton

from snippets.models.sampling import sample
from snippets.tools.benchmarking import Timing
from snippets.tools.benchmarking_cold import compare_in_rotation

# --8<-- [start:cases]
COLUMNS = 128_256
SETTINGS = {
    "all tokens": (0, 1.0),
    "top-k 50": (50, 1.0),
    "top-p 0.9": (0, 0.9),
    "top-k 50, top-p 0.9": (50, 0.9),
}
CASES = {f"{rows} × {name}": (rows, *of) for rows in (1, 16, 128) for name, of in SETTINGS.items()}
# --8<-- [end:cases]


# --8<-- [start:torch]
def cut(logits, top_k: int, top_p: float):
    """Return float32 logits, -inf for those that are not drawn."""
    logits = logits.float()
    if top_k:
        least = logits.topk(top_k).values[:, -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
    if top_p < 1:
        ascending, index = logits.sort(dim=-1)
        below = ascending.softmax(-1).cumsum(-1)
        out = below <= 1 - top_p
        out[:, -1] = False
        out = torch.zeros_like(out).scatter_(1, index, out)
        logits = logits.masked_fill(out, -torch.inf)
    return logits


def in_torch(logits, top_k: int, top_p: float):
    chances = cut(logits, top_k, top_p).softmax(-1)
    waits = torch.empty_like(chances).exponential_()
    return (chances / waits).argmax(-1)
# --8<-- [end:torch]


# --8<-- [start:measure]
@functools.cache
def measure(case: str) -> dict[str, Timing]:
    """Return the milliseconds of each side."""
    torch.manual_seed(0)
    rows, top_k, top_p = CASES[case]
    make = lambda: [3 * torch.randn(rows, COLUMNS, device="cuda", dtype=torch.bfloat16)]
    seeds = torch.arange(rows, device="cuda")
    ours = lambda logits: sample(logits, seeds, top_k=top_k, top_p=top_p)
    (logits,) = make()
    kept = cut(logits, top_k, top_p).gather(1, ours(logits)[:, None])
    # Sums are rounded, so the last token that top-p keeps may be another one.
    if (kept == -torch.inf).float().mean() > 0.02:
        raise RuntimeError(f"{case}: ours draws tokens that PyTorch leaves out")
    sides = {"ours": ours, "torch": lambda logits: in_torch(logits, top_k, top_p), "copy": torch.clone}
    return compare_in_rotation(sides, make, rounds=3)
# --8<-- [end:measure]


# --8<-- [start:tables]
@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="times",
        x_names=["case"],
        x_vals=list(CASES),
        xlabel="rows × what is drawn from",
        ylabel="µs",
        line_arg="side",
        line_vals=["ours", "torch", "copy"],
        line_names=["one kernel", "PyTorch’s operations", "a copy of the logits"],
        args={},
    )
)
def times(case, side):
    """Microseconds: median, fastest and slowest of 3 rounds."""
    timing = measure(case)[side]
    return tuple(1e3 * each for each in (timing.median, min(timing.rounds), max(timing.rounds)))
# --8<-- [end:tables]


def main():
    """Say what there is to measure: what comes out is different every time."""
    print(f"times.run(print_data=True)  # {times.fn.__doc__}")


if __name__ == "__main__":
    main()
