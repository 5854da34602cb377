# SPDX-License-Identifier: Apache-2.0
"""Matrix products, linear layers and top-k: the cases of other libraries.

Each function compares what is to copy with torch. Each grid lists what a peer's tests have, by the names of the
function's parameters. ``library/peers_run.py`` says what is counted.
"""

import functools

import torch

from snippets.library import matmul as products
from snippets.library import topk
from snippets.library.peers_compared import BF16, F16, F32, FP8, agrees, device, numbers
from snippets.library.peers_run import FLOATS, HALF, ON, grid, report


def product(rows, inner, columns, dtype, b_dtype=None, a_transposed=False, b_transposed=False, out_transposed=None,
            alpha=1.0, beta=0.0, c=False, number=None, out_dtype=None, gradient=False):  # fmt: skip
    """Compare a product, with operands and result along rows or along columns, perhaps added to something."""
    scale = (inner or 1) ** -0.25
    make = lambda m, n, swapped, dtype: numbers(*(n, m) if swapped else (m, n), dtype=dtype, scale=scale)
    flip = lambda x, swapped: x.mT if swapped else x
    a, b = make(rows, inner, a_transposed, dtype), make(inner, columns, b_transposed, b_dtype or dtype)
    tensors = [flip(a, a_transposed), flip(b, b_transposed)] + ([numbers(rows, columns, dtype=dtype)] if c else [])
    out = None if out_transposed is None else flip(make(rows, columns, out_transposed, dtype), out_transposed)
    wrap = torch.tensor if number == "tensor" else lambda x, **_: x
    more = {"out": out, "out_dtype": out_dtype}
    more |= {"alpha": wrap(alpha, device=device()), "beta": wrap(beta, device=device())} if c else {}
    ours = lambda a, b, *c: products.matmul(a, b, **more, **({"c": c[0]} if c else {}))
    exact = lambda a, b, c=None: alpha * (a @ b) + (0 if c is None else beta * c)
    return agrees(ours, exact, *tensors, gradient=gradient)


def layer(rows, inner, columns, dtype, bias_dtype=None, activation=None, gated=False, strided=False, gradient=True):
    """Compare a linear layer with bias, activation and gate."""
    tensors = [numbers(rows * (1 + strided), inner, dtype=dtype)[:: 1 + strided]]
    tensors += [numbers(columns * (1 + gated), inner, dtype=dtype, scale=(inner or 1) ** -0.5)]
    tensors += [numbers(columns * (1 + gated), dtype=bias_dtype)] if bias_dtype else []
    sides = (functools.partial(f, activation=activation, gated=gated) for f in (products.linear, products.in_torch))
    return agrees(*sides, *tensors, gradient=gradient)


def best(rows, columns, best, dtype, softmax=False):
    """Compare the largest of a row, their places, and their softmax."""
    ours, exact = (functools.partial(each, k=best, softmax=softmax) for each in (topk.topk, topk.in_torch))
    return agrees(ours, exact, numbers(rows, columns, dtype=dtype))


PEERS = {}

# QuACK, tests: https://github.com/Dao-AILab/quack/tree/c8ec3170057987da0ec99883736f381ea1937cf3
PEERS["QuACK", "top-k"] = best, [
    grid({"rows": [1, 37, 199], "columns best": [(64, 16), (128, 32), (256, 16), (512, 32), (1024, 32), (4096, 32),
          (4096, 64), (4096, 128)], "dtype": FLOATS, "softmax": ON}),
    grid({"rows": [0]}, columns=1024, best=32, dtype=BF16),
]  # fmt: skip
SHAPES = {"inner": [736, 1024], "columns": [1504, 2048]}
MAJOR = {"a_transposed": ON, "b_transposed": ON, "out_transposed": [0, 1]}
EMPTY = {"rows inner columns": [(0, 256, 256), (256, 0, 256), (256, 256, 0)]}
PEERS["QuACK", "matmul"] = product, [
    grid(SHAPES | MAJOR, rows=960, dtype=BF16),
    grid(SHAPES | MAJOR | {"bias_dtype": [None, F32, BF16], "concat": ["a", "b", "out"]}, rows=960, dtype=BF16),
    grid({"rows": [480, 960], "inner": [256, 768], "columns": [512, 1024], "alpha": [0.5, 1.0, 2.0],
          "beta": [0.0, 0.5, 1.0, 1.5], "number": [None, "tensor"], "concat": [None, "out"]}, dtype=BF16, c=True),
    grid(SHAPES | {"rows": [960, 1920], "out_transposed": [None, 0], "concat": [None, "out"]}, dtype=BF16, c=True,
         beta=1.0),
    grid({"rows": [480, 960], "inner": [256, 768], "columns": [512, 1024], "dtype": HALF}, stochastic_rounding=True),
    grid(SHAPES | {"rows": [960, 1920], "c": ON, "scale_dtype": [None, BF16, F32]}, dtype=BF16, rms_of_rows=True),
    grid(EMPTY | {"c": ON}, dtype=BF16),
]  # fmt: skip
GATES = ["silu", "gelu", "relu", "sigmoid", "swiglu of gpt-oss"]
FEATURES = {"inner": [736, 4096], "columns": [1504, 2048]}
PEERS["QuACK", "linear layers"] = layer, [
    grid(FEATURES | {"bias_dtype": [None, F32], "activation": [None, "relu", "relu2", "gelu_tanh", "tanh"]}, rows=960,
         strided=True, dtype=BF16),
    grid(FEATURES | {"bias_dtype": [None, F32, BF16], "activation": GATES, "interleaved": ON}, rows=960, strided=True,
         dtype=BF16, gated=True),
    grid({"activation gated interleaved": [("gelu_tanh", 0, None), ("relu", 0, None), ("silu", 1, True),
          ("relu", 1, True), ("gelu", 1, True), ("silu", 1, None), ("relu", 1, None)]}, rows=512, inner=512,
         columns=512, dtype=BF16),
    grid(EMPTY | {"activation gated interleaved": [(None, 0, None), ("relu", 0, None), ("silu", 1, True)]},
         dtype=BF16),
]  # fmt: skip

# FlashAttention, tests: https://github.com/Dao-AILab/flash-attention/tree/0251105a2fb19d2957484b7f023cd8c115286ced
PEERS["FlashAttention", "linear layers"] = layer, [
    grid({"inner": [1024, 4096], "columns": [1024, 4096], "dtype bias_dtype": [(F16, F16), (BF16, BF16), (F16, None),
          (BF16, None)], "activation": [None, "gelu_tanh", "relu"]}, rows=4096),
]  # fmt: skip

# triton-lang/kernels, test: https://github.com/triton-lang/kernels/tree/eeeebdd8be7d13629de22d600621e6234057eed3
TILED = [(16, 16, 16), (32, 16, 16), (16, 16, 32), (16, 32, 16), (32, 32, 32), (128, 32, 256), (107, 83, 233),
         (256, 160, 384), (256, 160, 512), (64, 32, 128)]  # fmt: skip
ORDERS = {"a_transposed": ON, "b_transposed": ON}
PEERS["triton-lang/kernels", "matmul"] = product, [
    grid({"rows inner columns": TILED, "dtype": FLOATS} | ORDERS),
    grid({"rows inner columns": [(32, 32, 32), (128, 32, 256), (64, 32, 128)], "dtype b_dtype": [(FP8, FP8), (FP8, F16),
          (F16, FP8), (F16, F32), (F32, F16), (BF16, F32), (F32, BF16)]} | ORDERS),
    grid({"rows inner columns": [(32, 32, 32), (128, 32, 256)], "sum_dtype": [None, F16],
          "out_dtype": [None, F16, F32]}, dtype=F16),
]  # fmt: skip


def main():
    report(PEERS)


if __name__ == "__main__":
    main()
