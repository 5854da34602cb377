# SPDX-License-Identifier: Apache-2.0
"""Windows, measured: tiles that are skipped beside tiles that are only masked, and what sinks and a softcap cost.

- :func:`forward`: milliseconds by window: ours; with the mask alone, every tile visited; and, where the window is the
  whole sequence, cuDNN and FlashAttention-2, as torch calls them
- :func:`options`: milliseconds of ours with a window of 4,096, plain, with sinks, and with a softcap

One sequence of 16,384 tokens, 32 heads that share 8 heads of keys and values, head_dim 128, causal, bfloat16, normally
distributed. All results are compared before they are timed: in turns, on operands in rotation, all calls in one CUDA
graph (``snippets/tools/benchmarking_cold.py``), each side by itself for a while before each reading. FlexAttention is
in ``flex_attention_measured.py``.

Units: milliseconds.
Source: the shape is that of Llama 3 8B's layers; windows are those of GPT-OSS (128), Gemma 3 (1,024) and Mistral 7B
(4,096).

``python window_attention_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and
matplotlib.
"""

import functools
import math

import torch
import triton
import triton.language as tl
from torch.nn.attention import SDPBackend, sdpa_kernel

from snippets.fusion.attention import load_rows, store_rows
from snippets.fusion.long_softmax_measured import check_alike
from snippets.models import window_attention as snippet
from snippets.models.window_attention import COUNTS, attend, window_attention
from snippets.tools.benchmarking import Timing, compare
from snippets.tools.benchmarking_cold import Rotation, operands_in_rotation

DEVICE, DTYPE = "cuda", torch.bfloat16
TOKENS, HEADS, KV_HEADS, HEAD_DIM = 16384, 32, 8, 128
WINDOWS = [128, 1024, 4096, 16384]
BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
SOFTCAP, OPTIONS_WINDOW = 50.0, 4096
SHORTER = 4  # times: a fourth of the usual time before a reading


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
def in_torch(backend: SDPBackend):
    def run(q, k, v):
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    return run


def sides_of(window: int) -> dict:
    """Return the functions of q, k and v that take part."""
    sides = {
        "ours": functools.partial(window_attention, window=window),
        "masked": functools.partial(masked_alone, window=window),
    }
    if window >= TOKENS:
        sides |= {name: in_torch(backend) for name, backend in BACKENDS.items()}
    return sides


def option_sides() -> dict:
    """Return ours, plain and with each option."""
    ours = functools.partial(window_attention, window=OPTIONS_WINDOW)
    sinks = torch.randn(HEADS, device=DEVICE)
    return {
        "none": ours,
        "sinks": functools.partial(ours, sinks=sinks),
        "softcap": functools.partial(ours, softcap=SOFTCAP),
    }
# --8<-- [end:sides]


# --8<-- [start:measure]
def operands() -> list[torch.Tensor]:
    """Return q, k and v."""
    return [torch.randn(1, h, TOKENS, HEAD_DIM, device=DEVICE, dtype=DTYPE) for h in (HEADS, KV_HEADS, KV_HEADS)]


@functools.cache
def sets() -> list:
    torch.manual_seed(0)
    return operands_in_rotation(operands)


def timed(sides: dict) -> dict[str, Timing]:
    """Return the milliseconds of each side."""
    rotations = {name: Rotation(run, sets(), steady=True) for name, run in sides.items()}
    for rotation in rotations.values():
        rotation.before = math.ceil(rotation.before / SHORTER)
    return compare(rotations, rounds=3, timer=lambda rotation: rotation.milliseconds())


@functools.cache
def measure(window: int) -> dict[str, Timing]:
    """Return the milliseconds of each side of a window, after their results were compared with ours."""
    sides = sides_of(window)
    check_alike(sides, sets()[0], "ours")
    return timed(sides)


@functools.cache
def measure_options() -> dict[str, Timing]:
    return timed(option_sides())
# --8<-- [end:measure]


# --8<-- [start:tables]
def cell(found: dict[str, Timing], side: str) -> float | tuple[float, float, float]:
    if side not in found:
        return float("nan")
    return found[side].median, min(found[side].rounds), max(found[side].rounds)


SIDES = {"ours": "tiles skipped", "masked": "the mask alone", "cudnn": "cuDNN", "flash": "FlashAttention-2"}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="forward", x_names=["window"], x_vals=WINDOWS, xlabel="window", ylabel="ms", args={},
        line_arg="side", line_vals=list(SIDES), line_names=list(SIDES.values()),
    )
)  # fmt: skip
def forward(window, side):
    """Milliseconds of the forward: median, fastest and slowest of 3 rounds. NaN where a side has no window."""
    return cell(measure(window), side)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="options", x_names=["option"], x_vals=["none", "sinks", "softcap"], xlabel="option", ylabel="ms",
        line_arg="side", line_vals=["ours"], line_names=["ours"], args={},
    )
)  # fmt: skip
def options(option, side):
    """Milliseconds of the forward with a window of 4,096 and an option: median, fastest and slowest of 3 rounds."""
    return cell(measure_options(), option)
# --8<-- [end:tables]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (forward, options):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__}")


if __name__ == "__main__":
    main()
