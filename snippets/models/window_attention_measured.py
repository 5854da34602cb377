# SPDX-License-Identifier: Apache-2.0
"""Windows, softcap, sinks and ALiBi, measured: ours beside FlexAttention, and what each costs before it runs.

- :func:`forward`: milliseconds by window: ours; with the mask alone, every tile visited; the library's; FlexAttention
- :func:`both`: the same of forward and backward together, which the lesson's kernel does not have
- :func:`options`: milliseconds of the forward, with softcap, sinks and ALiBi
- :func:`blocks`: what a block mask costs: milliseconds to make it, and megabytes while it is made
- :func:`first`: seconds of the first call, in a process of its own with empty caches, then with something changed

One sequence of 16,384 tokens, 32 heads that share 8 heads of keys and values, head_dim 128, causal, bfloat16, normally
distributed. A window of 16,384 is the whole sequence: there cuDNN and FlashAttention-2 take part, as torch calls them.
All results are compared with ours before they are timed: in turns, on operands in rotation, all calls in one CUDA graph
(``snippets/tools/benchmarking_cold.py``), each side by itself for a while before each reading.

FLOPs, where a rate is asked for: 4 * head_dim for each query and key that it sees. Units: milliseconds; seconds.
Source: the shape is that of Llama 3 8B's layers; windows are those of GPT-OSS (128), Gemma 3 (512 or 1,024) and
Mistral 7B (4,096).

``python window_attention_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and
matplotlib.
"""

import functools
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import triton
import triton.language as tl
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from snippets.fusion.attention import load_rows, store_rows
from snippets.fusion.long_softmax_measured import check_alike, with_backward
from snippets.library.attention import attention
from snippets.models import window_attention as snippet
from snippets.models.flex_attention import alibi_mod, softcap_mod, window_mod, with_sinks
from snippets.models.window_attention import COUNTS, attend, window_attention
from snippets.tools.benchmarking import Timing, compare
from snippets.tools.benchmarking_cold import Rotation, operands_in_rotation

DEVICE, DTYPE = "cuda", torch.bfloat16
TOKENS, HEADS, KV_HEADS, HEAD_DIM = 16384, 32, 8, 128
WINDOWS = [128, 512, 1024, 4096, 16384]
BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
SOFTCAP, OPTIONS_WINDOW = 50.0, 4096
SHORTER = 3  # times: a third of the usual time before a reading


# --8<-- [start:masked]
@triton.jit(do_not_specialize=COUNTS)
def masked_kernel(
    q_source, k_source, v_source, out_ptr, sinks_ptr, q_strides, k_strides, v_strides, out_strides,
    heads, group, queries, keys, left, right,
    SCALE: tl.constexpr, SOFTCAP: tl.constexpr, DESCRIBED: tl.constexpr, HEAD_DIM: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Compute the same, but visit every tile of keys up to the diagonal, and hide by the mask what is out of reach."""
    tiles = tl.cdiv(queries, BLOCK_Q)
    tile = tiles - 1 - tl.program_id(axis=0) % tiles
    pair = tl.program_id(axis=0) // tiles
    first, batch, head = tile * BLOCK_Q, pair // heads, pair % heads
    q = load_rows(q_source, q_strides, batch, head, first, queries, BLOCK_Q, HEAD_DIM, DESCRIBED)
    maximum = tl.full((BLOCK_Q,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_Q,), tl.float32)
    accumulator = tl.zeros((BLOCK_Q, HEAD_DIM), tl.float32)
    end = tl.minimum(first + BLOCK_Q + (keys - queries), keys)
    total, accumulator = attend(
        maximum, total, accumulator, q, (0, end, end, end), k_source, v_source, k_strides, v_strides, batch,
        head // group, first, queries, keys, left, right, SCALE, SOFTCAP, DESCRIBED, HEAD_DIM, BLOCK_Q, BLOCK_K,
    )  # fmt: skip
    out = accumulator / total[:, None]
    store_rows(out_ptr, out_strides, batch, head, first, queries, out, BLOCK_Q, HEAD_DIM)


def masked_alone(q, k, v, window):
    out = torch.empty_like(q)
    snippet.launch(masked_kernel, q, k, v, out, None, window - 1, 0, q.shape[-1] ** -0.5, None)
    return out
# --8<-- [end:masked]


# --8<-- [start:sides]
def block_mask(window: int):
    return create_block_mask(window_mod(window), None, None, TOKENS, TOKENS, device=DEVICE, _compile=True)


def flexed(window: int, score_mod=None):
    """Return ``flex_attention``, compiled for a window."""
    options = {"block_mask": block_mask(window), "score_mod": score_mod, "enable_gqa": True}
    return torch.compile(functools.partial(flex_attention, **options), dynamic=False)


def in_torch(backend: SDPBackend):
    def run(q, k, v):
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    return run


def sides_of(window: int, step: str) -> dict:
    """Return the functions of q, k and v that take part, *library* first."""
    sides = {"library": functools.partial(attention, window=(window - 1, 0)), "flex": flexed(window)}
    if window >= TOKENS:
        sides |= {name: in_torch(backend) for name, backend in BACKENDS.items()}
    if step == "both":
        return {name: with_backward(run) for name, run in sides.items()}
    ours = functools.partial(window_attention, window=window)
    return sides | {"ours": ours, "masked": functools.partial(masked_alone, window=window)}


def option_sides(option: str) -> dict:
    """Return the functions that take part in a row of :func:`options`."""
    window, near = OPTIONS_WINDOW, (OPTIONS_WINDOW - 1, 0)
    if option == "none":
        return {name: run for name, run in sides_of(window, "forward").items() if name != "masked"}
    if option == "softcap":
        return {
            "library": functools.partial(attention, window=near, softcap=SOFTCAP),
            "flex": flexed(window, softcap_mod(SOFTCAP)),
            "ours": functools.partial(window_attention, window=window, softcap=SOFTCAP),
        }
    if option == "ALiBi":
        slopes = 2.0 ** -torch.arange(1, HEADS + 1, device=DEVICE).mul(8 / HEADS)
        return {
            "library": functools.partial(attention, window=near, alibi_slopes=slopes),
            "flex": flexed(window, alibi_mod(slopes)),
        }
    sinks = torch.randn(HEADS, device=DEVICE)
    mask = block_mask(window)
    by_flex = lambda q, k, v: with_sinks(flex_attention, q, k, v, sinks, block_mask=mask, enable_gqa=True)
    return {
        "library": functools.partial(attention, window=near, sinks=sinks),
        "flex": torch.compile(by_flex, dynamic=False),
        "ours": functools.partial(window_attention, window=window, sinks=sinks),
    }
# --8<-- [end:sides]


# --8<-- [start:measure]
def operands(step: str) -> list[torch.Tensor]:
    """Return q, k, v, and for both directions the gradient of the result."""
    heads = [HEADS, KV_HEADS, KV_HEADS, HEADS][: 4 if step == "both" else 3]
    return [torch.randn(1, each, TOKENS, HEAD_DIM, device=DEVICE, dtype=DTYPE) for each in heads]


@functools.cache
def sets_of(step: str) -> list:
    torch.manual_seed(0)
    return operands_in_rotation(lambda: operands(step))


def timed(sides: dict, step: str) -> dict[str, Timing]:
    """Return the milliseconds of each side, after their results were compared with the library's."""
    sets = sets_of(step)
    check_alike(sides, sets[0], "library")
    rotations = {name: Rotation(run, sets, steady=True) for name, run in sides.items()}
    for rotation in rotations.values():
        rotation.before = math.ceil(rotation.before / SHORTER)
    return compare(rotations, rounds=3, timer=lambda rotation: rotation.milliseconds())


@functools.cache
def measure(case, step: str) -> dict[str, Timing]:
    """Return the milliseconds of each side: of a window, or with ``options`` of an option."""
    torch._dynamo.reset()
    return timed(option_sides(case) if step == "options" else sides_of(case, step), step)
# --8<-- [end:measure]


# --8<-- [start:tables]
def cell(case, side: str, step: str) -> float | tuple[float, float, float]:
    found = measure(case, step)
    if side not in found:
        return float("nan")
    timing = found[side]
    return timing.median, min(timing.rounds), max(timing.rounds)


def columns(name: str, sides: dict[str, str], x: str = "window", cases: list = WINDOWS) -> triton.testing.Benchmark:
    return triton.testing.Benchmark(
        plot_name=name, x_names=[x], x_vals=cases, xlabel=x, ylabel="ms", args={},
        line_arg="side", line_vals=list(sides), line_names=list(sides.values()),
    )  # fmt: skip


PEERS = {"flex": "FlexAttention", "cudnn": "cuDNN", "flash": "FlashAttention-2"}
OURS = {"ours": "ours", "masked": "the mask alone", "library": "to copy"}


@triton.testing.perf_report(columns("forward", OURS | PEERS))
def forward(window, side):
    """Milliseconds of the forward: median, fastest and slowest of 3 rounds. NaN where a side has no such."""
    return cell(window, side, "forward")


@triton.testing.perf_report(columns("both", {"library": "to copy"} | PEERS))
def both(window, side):
    """Milliseconds of forward and backward: median, fastest and slowest of 3 rounds. NaN where a side has no such."""
    return cell(window, side, "both")


OPTIONS = ["none", "softcap", "sinks", "ALiBi"]


@triton.testing.perf_report(
    columns("options", {"ours": "ours", "library": "to copy", "flex": "FlexAttention"}, "option", OPTIONS)
)
def options(option, side):
    """Milliseconds of the forward with a window of 4,096 and an option: median, fastest and slowest of 3 rounds."""
    return cell(option, side, "options")
# --8<-- [end:tables]


# --8<-- [start:blocks]
@functools.cache
def measure_blocks(compiled: bool) -> dict[str, float]:
    """Return what making a block mask for a window of 1,024 takes, when all that it needs is compiled."""
    make = lambda: create_block_mask(
        window_mod(1024), None, None, TOKENS, TOKENS, device=DEVICE, _compile=compiled
    )  # fmt: skip
    for _ in range(2):
        make()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    begin = time.perf_counter()
    for _ in range(10):
        make()
    torch.cuda.synchronize()
    took = (time.perf_counter() - begin) / 10
    return {"ms": took * 1e3, "MB": (torch.cuda.max_memory_allocated() - before) / 1e6}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="blocks", x_names=["how"], x_vals=["eager", "compiled"], xlabel="create_block_mask", ylabel="",
        line_arg="what", line_vals=["ms", "MB"], line_names=["ms", "MB while it is made"], args={},
    )
)  # fmt: skip
def blocks(how, what):
    """Milliseconds to make a block mask for 16,384 tokens and a window of 1,024, on the host's clock; and megabytes."""
    return measure_blocks(how == "compiled")[what]
# --8<-- [end:blocks]


# --8<-- [start:first]
STEPS = {
    "first call": (16384, 1024, False),
    "again": (16384, 1024, False),
    "with the backward": (16384, 1024, True),
    "another window": (16384, 512, False),
    "a third window": (16384, 256, False),
    "another length": (8192, 256, False),
    "a third length": (12288, 256, False),
    "a fourth length": (10240, 256, False),
}


def in_a_fresh_process(side: str) -> None:
    """Print the seconds of each of ``STEPS``, one after another, as JSON: the call, and its block mask."""
    compiled = torch.compile(flex_attention)

    def by_flex(q, k, v, window):
        mask = create_block_mask(window_mod(window), None, None, q.shape[2], q.shape[2], device=DEVICE)
        return compiled(q, k, v, block_mask=mask, enable_gqa=True)

    run = by_flex if side == "flex" else lambda q, k, v, window: attention(q, k, v, window=(window - 1, 0))
    heads = HEADS, KV_HEADS, KV_HEADS
    took = {}
    torch.zeros(1, device=DEVICE).sum().item()  # CUDA begins
    for name, (tokens, window, backward) in STEPS.items():
        options = {"device": DEVICE, "dtype": DTYPE, "requires_grad": backward}
        q, k, v = (torch.randn(1, each, tokens, HEAD_DIM, **options) for each in heads)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        out = run(q, k, v, window)
        if backward:
            out.sum().backward()
        torch.cuda.synchronize()
        took[name] = time.perf_counter() - begin
    print(json.dumps(took))


@functools.cache
def measure_first(side: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as empty:
        caches = {"TRITON_CACHE_DIR": f"{empty}/triton", "TORCHINDUCTOR_CACHE_DIR": f"{empty}/inductor"}
        found = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])  # the same Triton, too
        done = subprocess.run(
            [sys.executable, __file__, side], env=os.environ | caches | {"PYTHONPATH": found}, stdout=subprocess.PIPE,
            text=True, check=True,
        )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="first", x_names=["call"], x_vals=list(STEPS), xlabel="call", ylabel="s", args={},
        line_arg="side", line_vals=["library", "flex"], line_names=["to copy", "FlexAttention"],
    )
)  # fmt: skip
def first(call, side):
    """Seconds of one call after another in a fresh process with empty caches, each with its block mask; one reading."""
    return measure_first(side)[call]
# --8<-- [end:first]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (forward, both, options, blocks, first):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        in_a_fresh_process(sys.argv[1])
    else:
        main()
