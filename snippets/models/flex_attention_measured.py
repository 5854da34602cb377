# SPDX-License-Identifier: Apache-2.0
"""FlexAttention beside ours, measured: the kernels, and what comes before they run.

- :func:`first`: seconds of a first call, by FlexAttention: fresh, with another length, with the backward
- :func:`blocks`: what a block mask costs: milliseconds to make it, and megabytes while it is made
- :func:`forward`: milliseconds by window: the lesson's kernel, the library's, FlexAttention
- :func:`both`: the same of forward and backward together, which the lesson's kernel does not have
- :func:`options`: milliseconds of the forward with a window of 4,096 and a softcap, or ALiBi

One sequence of 16,384 tokens, 32 heads that share 8 heads of keys and values, head_dim 128, causal, bfloat16, normally
distributed. All results are compared before they are timed, as in ``window_attention_measured.py``. ``flex_attention``
is compiled by ``torch.compile`` with its defaults, in a process with empty caches. For the timed kernels the window is
a tensor that the mask reads: so all windows run the same code.

Units: seconds, milliseconds, megabytes of 10**6 bytes.
Source: PyTorch, ``torch.nn.attention.flex_attention``.

``python flex_attention_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools
import math
import os
import tempfile
import time

import torch
import triton
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from snippets.fusion.long_softmax_measured import check_alike, with_backward
from snippets.library.attention import attention
from snippets.models.flex_attention import alibi_mod, softcap_mod, window_mod
from snippets.models.window_attention import window_attention
from snippets.models.window_attention_measured import cell
from snippets.tools.benchmarking import Timing, compare
from snippets.tools.benchmarking_cold import Rotation, operands_in_rotation

DEVICE, DTYPE = "cuda", torch.bfloat16
TOKENS, HEADS, KV_HEADS, HEAD_DIM = 16384, 32, 8, 128
WINDOWS = [128, 1024, 4096, 16384]
SOFTCAP, OPTIONS_WINDOW = 50.0, 4096
SHORTER = 4  # times: a fourth of the usual time before a reading


# --8<-- [start:sides]
def mask_of(window, tokens: int):
    return create_block_mask(window_mod(window), None, None, tokens, tokens, device=DEVICE)


def flexed(window: int, score_mod=None):
    """Return ``flex_attention``, compiled; the window is a tensor, so that another one compiles nothing."""
    mask = mask_of(torch.tensor(window, device=DEVICE), TOKENS)
    compiled = torch.compile(flex_attention, dynamic=False)
    return functools.partial(compiled, score_mod=score_mod, block_mask=mask, enable_gqa=True)


def near(window: int) -> dict:
    return {"window": (window - 1, 0)}


def sides_of(window: int, step: str) -> dict:
    """Return the functions of q, k and v that take part."""
    sides = {"library": functools.partial(attention, **near(window)), "flex": flexed(window)}
    if step == "both":
        return {name: with_backward(run) for name, run in sides.items()}
    return sides | {"ours": functools.partial(window_attention, window=window)}


def option_sides(option: str) -> dict:
    """Return the functions that take part in a row of :func:`options`."""
    if option == "softcap":
        ours, mod = {"softcap": SOFTCAP}, softcap_mod(SOFTCAP)
    else:
        slopes = 2.0 ** -torch.arange(1, HEADS + 1, device=DEVICE).mul(8 / HEADS)
        ours, mod = {"alibi_slopes": slopes}, alibi_mod(slopes)
    return {
        "library": functools.partial(attention, **near(OPTIONS_WINDOW), **ours),
        "flex": flexed(OPTIONS_WINDOW, mod),
    }
# --8<-- [end:sides]


# --8<-- [start:measure]
def operands(step: str, tokens: int | None = None) -> list[torch.Tensor]:
    """Return q, k, v, and for both directions the gradient of the result."""
    heads = [HEADS, KV_HEADS, KV_HEADS, HEADS][: 4 if step == "both" else 3]
    return [torch.randn(1, each, tokens or TOKENS, HEAD_DIM, device=DEVICE, dtype=DTYPE) for each in heads]


@functools.cache
def sets_of(step: str) -> list:
    torch.manual_seed(0)
    return operands_in_rotation(lambda: operands(step))


@functools.cache
def measure(case, step: str) -> dict[str, Timing]:
    """Return the milliseconds of each side of a window or an option, after their results were compared."""
    sides = option_sides(case) if step == "options" else sides_of(case, step)
    sets = sets_of("both" if step == "both" else "forward")
    check_alike(sides, sets[0], "library")
    rotations = {name: Rotation(run, sets, steady=True) for name, run in sides.items()}
    for rotation in rotations.values():
        rotation.before = math.ceil(rotation.before / SHORTER)
    return compare(rotations, rounds=3, timer=lambda rotation: rotation.milliseconds())
# --8<-- [end:measure]


# --8<-- [start:first]
CALLS = {
    "first call": (16384, "forward"),
    "the same again": (16384, "forward"),
    "another length": (8192, "forward"),
    "a third length": (12288, "forward"),
    "with the backward": (16384, "both"),
}


@functools.cache
def measure_first() -> dict[str, float]:
    """Return the seconds of each call, one after another, with its block mask; Inductor's cache is empty."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp()
    os.environ["TORCHINDUCTOR_VEC_ISA_OK"] = "0"  # else it compiles seven programs, to see what the processor can do
    compiled = torch.compile(flex_attention)
    took = {}
    mask_of(1024, 1024)  # what torch loads at its first call of anything is not counted
    for name, (tokens, step) in CALLS.items():
        given = operands(step, tokens)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        run = functools.partial(compiled, block_mask=mask_of(1024, tokens), enable_gqa=True)
        (with_backward(run) if step == "both" else run)(*given)
        torch.cuda.synchronize()
        took[name] = time.perf_counter() - begin
    return took


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="first", x_names=["call"], x_vals=list(CALLS), xlabel="call", ylabel="s", args={},
        line_arg="side", line_vals=["flex"], line_names=["FlexAttention"],
    )
)  # fmt: skip
def first(call, side):
    """Seconds of one call after another in a fresh process with empty caches, each with its block mask; one reading."""
    return measure_first()[call]
# --8<-- [end:first]


# --8<-- [start:blocks]
@functools.cache
def measure_blocks() -> dict[str, float]:
    """Return what making a block mask for a window of 1,024 takes, at another time than the first."""
    mask_of(1024, TOKENS)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    begin = time.perf_counter()
    for _ in range(10):
        mask_of(1024, TOKENS)
    torch.cuda.synchronize()
    took = (time.perf_counter() - begin) / 10
    return {"ms": took * 1e3, "MB": (torch.cuda.max_memory_allocated() - before) / 1e6}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="blocks", x_names=["tokens"], x_vals=[TOKENS], xlabel="tokens", ylabel="", args={},
        line_arg="what", line_vals=["ms", "MB"], line_names=["ms", "MB while it is made"],
    )
)  # fmt: skip
def blocks(tokens, what):
    """Milliseconds to make a block mask for 16,384 tokens and a window of 1,024, on the host's clock; and megabytes."""
    return measure_blocks()[what]
# --8<-- [end:blocks]


# --8<-- [start:tables]
SIDES = {"ours": "the lesson's", "library": "to copy", "flex": "FlexAttention"}


def table(name: str, sides: list[str], x: str, cases: list) -> triton.testing.Benchmark:
    return triton.testing.Benchmark(
        plot_name=name, x_names=[x], x_vals=cases, xlabel=x, ylabel="ms", args={},
        line_arg="side", line_vals=sides, line_names=[SIDES[side] for side in sides],
    )  # fmt: skip


@triton.testing.perf_report(table("forward", ["ours", "library", "flex"], "window", WINDOWS))
def forward(window, side):
    """Milliseconds of the forward: median, fastest and slowest of 3 rounds."""
    return cell(measure(window, "forward"), side)


@triton.testing.perf_report(table("both", ["library", "flex"], "window", WINDOWS[1:]))
def both(window, side):
    """Milliseconds of forward and backward: median, fastest and slowest of 3 rounds."""
    return cell(measure(window, "both"), side)


@triton.testing.perf_report(table("options", ["library", "flex"], "option", ["softcap", "ALiBi"]))
def options(option, side):
    """Milliseconds of the forward with a window of 4,096 and an option: median, fastest and slowest of 3 rounds."""
    return cell(measure(option, "options"), side)
# --8<-- [end:tables]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (first, blocks, forward, both, options):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
