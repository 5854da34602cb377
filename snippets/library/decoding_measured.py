# SPDX-License-Identifier: Apache-2.0
"""Attention for inference to copy, measured beside torch and a copy, in the shapes of models.

- :func:`times`: microseconds of ours and of torch, and of a copy that moves as many bytes as the cache has
- :func:`shares`: the bytes of the cache that ours reads in a second, as a share of what a copy moves in a second

bfloat16, normally distributed; q has one query of each sequence where nothing else is said. Pages have 16 keys and lie
in random order, those of MLA 64. torch is ``scaled_dot_product_attention`` with ``enable_gqa``, which chooses its
kernel by itself; for four queries with ``causal_lower_right`` as their mask. For MLA, it is two products with a softmax
between them, which is as few operations as torch has for one head of keys. NaN where torch was not timed: pages, a
cache in fp8, sinks, windows.
How it is measured: ``fusion/decoding_measured.py``. The results are compared with torch's in float32 before.

Bytes: keys and values are read once; with a window, those inside of it; values inside of their keys not again. A share
may be above 1, for reading alone may be faster than a copy, and a cache of less than 50 MB stays in L2.
Units: microseconds; GB/s of 10**9 bytes.

``python decoding_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import torch
import triton
from torch.nn.attention.bias import causal_lower_right

from snippets.fusion.long_softmax_measured import measure_copy
from snippets.library.decoding import decode_attention, in_torch
from snippets.tools.benchmarking import Timing
from snippets.tools.benchmarking_cold import compare_in_rotation


# --8<-- [start:cases]
class Case(NamedTuple):
    """Hold a shape, what else is asked for, and how torch computes it."""

    batch: int
    keys: int
    heads: int
    kv_heads: int
    head_dim: int
    queries: int = 1
    latent: int = 0  # how many columns of the keys are the values
    page_size: int = 0
    cached: torch.dtype = torch.bfloat16
    options: tuple = ()
    torch: Callable | None = None


def by_torch(q, k, v, **_):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def by_torch_causal(q, k, v, **_):
    mask = causal_lower_right(q.shape[2], k.shape[2])  # a tensor of booleans would take torch to a slower kernel
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)


def by_products(q, k, v, **_):
    scores = q[:, :, 0] @ k[:, 0].mT * q.shape[3] ** -0.5
    return (scores.softmax(-1) @ v[:, 0])[:, :, None]


CASES = {
    "one long sequence": Case(1, 65536, 32, 8, 128, torch=by_torch),
    "16 sequences": Case(16, 8192, 32, 8, 128, torch=by_torch),
    "in pages": Case(16, 8192, 32, 8, 128, page_size=16),
    "cache in fp8": Case(16, 8192, 32, 8, 128, cached=torch.float8_e4m3fn),
    "4 queries each": Case(16, 8192, 32, 8, 128, queries=4, options=(("causal", True),), torch=by_torch_causal),
    "heads of 256": Case(8, 8192, 16, 8, 256, torch=by_torch),
    "sinks, heads of 64": Case(16, 8192, 64, 8, 64, options=(("sinks", True),)),
    "window of 4,096": Case(16, 65536, 32, 8, 128, options=(("window", (4095, 0)),)),
    "MLA, 16 heads": Case(64, 4096, 16, 1, 576, latent=512, torch=by_products),
    "MLA, 128 heads": Case(64, 4096, 128, 1, 576, latent=512, torch=by_products),
    "MLA, 128 heads in pages": Case(64, 4096, 128, 1, 576, latent=512, page_size=64),
    "512 queries in pages": Case(4, 8192, 32, 8, 128, queries=512, page_size=16, options=(("causal", True),)),
}


def operands(case: Case) -> list[torch.Tensor]:
    """Return q, k and v, and what else of a page table and sinks the case has."""
    random = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16)
    shape = case.batch, case.kv_heads, case.keys, case.head_dim
    if case.page_size:
        pages = case.batch * case.keys // case.page_size
        shape = pages, case.page_size, case.kv_heads, case.head_dim
        table = torch.randperm(pages, device="cuda").to(torch.int32).view(case.batch, -1)
    k = random(*shape).to(case.cached)
    v = k[..., : case.latent] if case.latent else random(*shape).to(case.cached)
    others = [table] if case.page_size else [random(case.heads)] if "sinks" in dict(case.options) else []
    return [random(case.batch, case.heads, case.queries, case.head_dim), k, v, *others]


def options_of(case: Case, others: list[torch.Tensor]) -> dict:
    """Return the options of a call, with the tensors that :func:`operands` has made for them."""
    names = ["page_table"] if case.page_size else ["sinks"] if "sinks" in dict(case.options) else []
    return dict(case.options) | dict(zip(names, others, strict=True))
# --8<-- [end:cases]


# --8<-- [start:measure]
@functools.cache
def measure(name: str) -> dict[str, Timing]:
    """Return the milliseconds of each side."""
    torch.manual_seed(0)
    case = CASES[name]
    run = lambda q, k, v, *others: decode_attention(q, k, v, **options_of(case, others))
    check(name)
    sides = {"ours": run}
    if case.torch is not None:
        sides["torch"] = lambda q, k, v, *_: case.torch(q, k, v)
    return compare_in_rotation(sides, lambda: operands(case), rounds=3)


def check(name: str) -> None:
    """Raise RuntimeError if ours is not what torch computes in float32, of the first sequence."""
    case = CASES[name]
    q, k, v, *others = operands(case)
    options = options_of(case, others)
    q, (k, v) = q[:1], (k, v) if case.page_size else (k[:1], v[:1])
    if case.page_size:
        options["page_table"] = options["page_table"][:1]
    found = decode_attention(q, k, v, **options)
    if case.page_size:  # of all pages only those of this sequence
        pages = options["page_table"][0].long()
        k, v, options["page_table"] = k[pages], v[pages], torch.arange(len(pages), device=q.device)[None]
    exact, _ = in_torch(q.float(), k.float(), v.float(), **options)
    error = ((found - exact).norm() / exact.norm()).item()
    if not error < 0.01:
        raise RuntimeError(f"{name}: ours is off by {error:.3f} of the result")


def bytes_read(name: str) -> int:
    """Return the bytes of keys and values that a call has to read.

    >>> bytes_read("one long sequence") / 1e6, bytes_read("MLA, 16 heads") / 1e6
    (268.435456, 301.989888)
    """
    case = CASES[name]
    left = dict(case.options).get("window", (case.keys, 0))[0]
    columns = case.head_dim if case.latent else 2 * case.head_dim
    return case.batch * case.kv_heads * min(case.keys, left + 1) * columns * case.cached.itemsize
# --8<-- [end:measure]


AXIS = {"x_names": ["case"], "x_vals": list(CASES), "xlabel": "case", "line_arg": "what", "args": {}}


# --8<-- [start:tables]
@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="times", ylabel="µs", line_vals=["ours", "torch"], line_names=["this file", "torch"], **AXIS
    )
)
def times(case, what):
    """Microseconds: median, fastest and slowest of 3 rounds. NaN where torch was not timed."""
    timing = measure(case).get(what)
    if timing is None:
        return float("nan")
    return tuple(1e3 * ms for ms in (timing.median, min(timing.rounds), max(timing.rounds)))


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="shares",
        ylabel="share",
        line_vals=["of_copy", "of_torch"],
        line_names=["bytes a second, of a copy's", "speed, of torch's"],
        **AXIS,
    )
)
def shares(case, what):
    """The rate at which the cache is read, as a share of a copy's; and how many times as fast as torch."""
    timings = measure(case)
    if what == "of_torch":
        return timings["torch"].median / timings["ours"].median if "torch" in timings else float("nan")
    return measure_copy(bytes_read(case)).median / timings["ours"].median
# --8<-- [end:tables]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (times, shares):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
