# SPDX-License-Identifier: Apache-2.0
"""FlexAttention beside ours, measured: the kernels, and what comes before they run.

- :func:`forward`: milliseconds by window: the library's file, FlexAttention
- :func:`both`: the same of forward and backward together
- :func:`options`: milliseconds of the forward with a window of 4,096 and a softcap, or ALiBi
- :func:`blocks`: what a block mask costs: milliseconds to make it, and megabytes while it is made
- :func:`first`: seconds of first calls: of all, with another window, with the backward, with other lengths

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
from snippets.models.window_attention_measured import cell
from snippets.tools.benchmarking import Timing, compare
from snippets.tools.benchmarking_cold import Rotation, operands_in_rotation

DEVICE, DTYPE = "cuda", torch.bfloat16
TOKENS, HEADS, KV_HEADS, HEAD_DIM = 16384, 32, 8, 128
WINDOWS = [128, 1024, 4096, 16384]
SOFTCAP, OPTIONS_WINDOW = 50.0, 4096
SHORTER = 4  # times: a fourth of the usual time before a reading


# --8<-- [start:sides]
@functools.cache
def compiled():
    return torch.compile(flex_attention)


def mask_of(window, tokens: int):
    return create_block_mask(window_mod(window), None, None, tokens, tokens, device=DEVICE)


def flexed(window, score_mod=None, tokens: int | None = None):
    """Return FlexAttention, compiled at its first call, for a window: a number, or a tensor that holds it."""
    mask = mask_of(window, tokens or TOKENS)
    return functools.partial(compiled(), score_mod=score_mod, block_mask=mask, enable_gqa=True)


def copied(window: int, **options):
    return functools.partial(attention, window=(window - 1, 0), **options)


def sides_of(window: int, step: str) -> dict:
    """Return the functions of q, k and v that take part."""
    sides = {"library": copied(window), "flex": flexed(torch.tensor(window, device=DEVICE))}
    return {name: with_backward(run) for name, run in sides.items()} if step == "both" else sides


def option_sides(option: str) -> dict:
    """Return the functions that take part in a row of :func:`options`."""
    window = torch.tensor(OPTIONS_WINDOW, device=DEVICE)
    if option == "softcap":
        return {
            "library": copied(OPTIONS_WINDOW, softcap=SOFTCAP),
            "flex": flexed(window, softcap_mod(SOFTCAP)),
        }
    slopes = 2.0 ** -torch.arange(1, HEADS + 1, device=DEVICE).mul(8 / HEADS)
    return {
        "library": copied(OPTIONS_WINDOW, alibi_slopes=slopes),
        "flex": flexed(window, alibi_mod(slopes)),
    }
# --8<-- [end:sides]


# --8<-- [start:first]
CALLS = {  # by name: the window and the tokens; what is not here is asked for before all else is timed
    "another length": (1024, 8192),
    "a third length": (1024, 12288),
}


def seconds(make, given) -> float:
    """Return the seconds that it takes to make a function, with its block mask, and to call it."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    make()(*given)
    torch.cuda.synchronize()
    return time.perf_counter() - begin


@functools.cache
def first_calls() -> dict[str, dict[str, float]]:
    """Return the seconds of each side's first calls, by name and side. What they compile is timed later."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp()
    os.environ["TORCHINDUCTOR_VEC_ISA_OK"] = "0"  # else it compiles seven programs, to see what the processor can do
    mask_of(1024, 1024)  # what torch loads at the first mask of all is not counted
    windows = {window: torch.tensor(window, device=DEVICE) for window in (512, 1024)}
    given = sets_of("forward")[0]
    took = {
        "first call": {
            "library": seconds(lambda: copied(1024), given),
            "flex": seconds(lambda: flexed(windows[1024]), given),
        },
        "another window": {
            "library": seconds(lambda: copied(512), given),
            "flex": seconds(lambda: flexed(windows[512]), given),
        },
        "a window that is a number": {"flex": seconds(lambda: flexed(512), given)},
    }
    given = sets_of("both")[0]
    took["with the backward"] = {
        "library": seconds(lambda: with_backward(copied(1024)), given),
        "flex": seconds(lambda: with_backward(flexed(windows[1024])), given),
    }
    return took


@functools.cache
def later_calls(name: str) -> dict[str, float]:
    """Return the seconds of each side's call with another length."""
    window, tokens = CALLS[name]
    given, window_tensor = operands("forward", tokens), torch.tensor(window, device=DEVICE)
    return {
        "library": seconds(lambda: copied(window), given),
        "flex": seconds(lambda: flexed(window_tensor, tokens=tokens), given),
    }
# --8<-- [end:first]


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
    first_calls()
    sides = option_sides(case) if step == "options" else sides_of(case, step)
    sets = sets_of("both" if step == "both" else "forward")
    check_alike(sides, sets[0], "library")
    rotations = {name: Rotation(run, sets, steady=True) for name, run in sides.items()}
    for rotation in rotations.values():
        rotation.before = math.ceil(rotation.before / SHORTER)
    return compare(rotations, rounds=3, timer=lambda rotation: rotation.milliseconds())
# --8<-- [end:measure]


# --8<-- [start:tables]
SIDES = {"library": "to copy", "flex": "FlexAttention"}


def table(name: str, x: str, cases: list, unit: str = "ms") -> triton.testing.Benchmark:
    return triton.testing.Benchmark(
        plot_name=name, x_names=[x], x_vals=cases, xlabel=x, ylabel=unit, args={},
        line_arg="side", line_vals=list(SIDES), line_names=list(SIDES.values()),
    )  # fmt: skip


@triton.testing.perf_report(table("forward", "window", WINDOWS))
def forward(window, side):
    """Milliseconds of the forward: median, fastest and slowest of 3 rounds."""
    return cell(measure(window, "forward"), side)


@triton.testing.perf_report(table("both", "window", WINDOWS[1:]))
def both(window, side):
    """Milliseconds of forward and backward: median, fastest and slowest of 3 rounds."""
    return cell(measure(window, "both"), side)


@triton.testing.perf_report(table("options", "option", ["softcap", "ALiBi"]))
def options(option, side):
    """Milliseconds of the forward with a window of 4,096 and an option: median, fastest and slowest of 3 rounds."""
    return cell(measure(option, "options"), side)


FIRST = ["first call", "another window", "a window that is a number", "with the backward", *CALLS]


@triton.testing.perf_report(table("first", "call", FIRST, "s"))
def first(call, side):
    """Seconds of first calls with empty caches, each with its block mask; one reading. NaN where it is not asked."""
    took = later_calls(call) if call in CALLS else first_calls()[call]
    return took.get(side, float("nan"))
# --8<-- [end:tables]


# --8<-- [start:blocks]
@functools.cache
def measure_blocks() -> dict[str, float]:
    """Return what making a block mask for a window of 1,024 takes, at another time than the first."""
    mask_of(1024, TOKENS)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    took = min(seconds(lambda: lambda: mask_of(1024, TOKENS), ()) for _ in range(10))
    return {"ms": took * 1e3, "MB": (torch.cuda.max_memory_allocated() - before) / 1e6}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="blocks", x_names=["tokens"], x_vals=[TOKENS], xlabel="tokens", ylabel="", args={},
        line_arg="what", line_vals=["ms", "MB"], line_names=["ms", "MB while it is made"],
    )
)  # fmt: skip
def blocks(tokens, what):
    """Milliseconds to make a block mask of 16,384 tokens for a window of 1,024, the fastest of ten; and megabytes."""
    return measure_blocks()[what]
# --8<-- [end:blocks]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (forward, both, options, first, blocks):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
