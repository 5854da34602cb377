# SPDX-License-Identifier: Apache-2.0
"""Weights of 4 bits, measured: how much faster than a bfloat16 weight they multiply, and from how many rows on slower.

- :func:`times`: microseconds of ``int4.py``, with numbers unpacked in pairs and one by one, in 4 and in 8 bits, beside
  ``torch.matmul`` of the weight in bfloat16 and torch's own product of 4 bits
- :func:`by_rows`: the same of one weight, for a chart over the rows
- :func:`bandwidth`: bytes of the packed weight in a second, and as a share of what a copy of it reads and writes
- :func:`errors`: how far the results are from those of float64 of the same packed weight

Groups of 128, ``x`` in bfloat16. All sides run in turns, each on weights of its own in rotation, so that none is in
the cache, all calls in one CUDA graph (``snippets/tools/benchmarking_cold.py``). The weights that are timed are random
bits; before, the results for one real weight were compared with float64. The copy is timed by itself in the same run.

Units: microseconds; GB/s of 10**9 bytes, of a product those of the words and the scales, of a copy twice as many.
Source: ``torch.matmul`` calls cuBLAS; ``torch.ops.aten._weight_int4pack_mm`` is tinygemm's kernel.

``python int4_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools
import math
from collections.abc import Callable

import torch
import triton

from snippets.models.int4 import Packed, int4_matmul, product, quantize, unpacked
from snippets.tools.benchmarking import Timing, compare
from snippets.tools.benchmarking_cold import Rotation, compare_in_rotation, empty, operands_in_rotation

GROUP = 128
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
DOWN, UP = (4096, 14336), (14336, 4096)  # Llama 8B
OTHERS = ((4096, 4096), (6144, 4096), (28672, 4096), (8192, 28672))
SHAPES = [(m, *weight) for weight in (DOWN, UP) for m in ROWS] + [(m, *weight) for weight in OTHERS for m in (1, 16)]
NAMED = {f"{m} × {n} × {k}": (m, n, k) for m, n, k in SHAPES}
FEW = [name for name, (m, *_) in NAMED.items() if m <= 16]


# --8<-- [start:sides]
def torch_int4(x: torch.Tensor, words: torch.Tensor, scales_and_zeros: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten._weight_int4pack_mm(x, words, GROUP, scales_and_zeros)


def for_torch(weight: Packed) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a weight as torch's product takes it: ``scale * (q - 8) + zero``, with both in bfloat16."""
    scale, zero = (weight.scales & ~0xFF).view(torch.float32), weight.scales & 0xFF
    q = torch.stack([weight.words.int() >> place & 15 for place in (0, 4, 8, 12)], 2)
    q = q.flatten(2).transpose(0, 1).flatten(1)
    words = torch.ops.aten._convert_weight_to_int4pack((q[:, ::2] << 4 | q[:, 1::2]).to(torch.uint8), 8)
    return words, torch.stack([scale, scale * (8 - zero)], 2).bfloat16()


def random_weight(N: int, K: int, bits: int) -> Packed:
    """Return a packed weight of random bits."""
    words = torch.randint(-(2**15), 2**15, (K // 128, N, 8 * bits), device="cuda", dtype=torch.int16)
    scales = torch.rand(K // GROUP, N, device="cuda").view(torch.int32) & ~0xFF | 2 ** (bits - 1)
    return Packed(words, scales, N, K, bits, GROUP)


SIDES = {
    "int4": lambda x, weight: int4_matmul(x, weight),
    "plain": lambda x, weight: product(x, weight, pairs=False),
    "int8": lambda x, weight: int4_matmul(x, weight),
    "torch": lambda x, weight: torch_int4(x, *weight),
    "cublas": lambda x, weight: torch.matmul(x, weight.t()),
}
WEIGHTS = {
    "int4": lambda N, K: random_weight(N, K, 4),
    "plain": lambda N, K: random_weight(N, K, 4),
    "int8": lambda N, K: random_weight(N, K, 8),
    "torch": lambda N, K: for_torch(random_weight(N, K, 4)),
    "cublas": lambda N, K: torch.randn(N, K, device="cuda", dtype=torch.bfloat16),
}
# --8<-- [end:sides]


# --8<-- [start:measure]
@functools.cache
def sets_of(side: str, N: int, K: int) -> list:
    """Return weights of one side, as many as it takes for each to have left the cache when its turn comes again."""
    make = lambda: (WEIGHTS[side](N, K),)
    flat = lambda weight: [each for each in weight if isinstance(each, torch.Tensor)] if isinstance(weight, tuple) else [weight]
    kept = []

    def tensors():
        kept.append(make())
        return flat(*kept[-1])

    operands_in_rotation(tensors)
    return kept
# --8<-- [end:measure]
