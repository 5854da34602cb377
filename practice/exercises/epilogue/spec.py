# SPDX-License-Identifier: Apache-2.0
"""The checks of the exercise epilogue."""

import torch
from coach.spec import Spec
from torch.nn.functional import gelu

TILE = 8


def sums(x, weight):
    return x.double() @ weight.double().T


def bent(y):
    return gelu(y, approximate="tanh")


def layer(size, rng):
    """Numbers of many bits, and a bias that cancels most of the product in row 0: there, rounding early shows."""
    whole = lambda *shape: torch.randint(-48, 49, shape, generator=rng).half() / 64
    x, weight = whole(size["m"], size["k"]), whole(size["n"], size["k"])
    bias = -sums(x, weight)[0].half() if size["m"] and size["k"] else whole(size["n"])
    return {"x": x, "weight": weight, "bias": bias}


def down(bias, x):
    """Return what ``[:, None]`` makes of a bias: a number for each row of a tile, the same in all columns."""
    rows = torch.arange(x.shape[0])[:, None] % TILE
    columns = torch.arange(len(bias))[None, :] // TILE * TILE
    padded = torch.cat([bias, bias.new_zeros(TILE)])
    return padded[columns + rows]


SPEC = Spec(
    title="Bias and GELU in the epilogue",
    kind="gap",
    lesson="matmul/fused.md",
    goal="The product is done, and its tile is still in registers. Add the bias, apply GELU, and store the tile, "
    "rounding only once.",
    hints=(
        "The bias has one number for each column of the result. Which of them does this program need, and in what "
        "shape?",
        "Bias, curve, store: matmul/fused.md#the-epilogue",
        "acc += tl.load(bias_ptr + columns * stride_b, mask=columns < N)[None, :]",
    ),
    function="linear",
    signature=("x", "weight", "bias"),
    inputs=layer,
    reference=lambda x, weight, bias: bent(sums(x, weight) + bias).half(),
    another=lambda x, weight, bias: {"bias": 64 * bias},
    sizes=({"m": 7, "n": 11, "k": 20}, {"m": 19, "n": 5, "k": 40}),
    awkward=("m", "n", "k"),
    blocks={"m": TILE, "n": TILE, "k": 16},
    layouts=("spread", "transposed", "rows_apart"),
    rtol=6e-4,  # half of the last of float16's 11 bits is 4.9e-4
    atol=1e-6,
    mistaken={
        "That is gelu of the product, without the bias.": lambda x, weight, bias: bent(sums(x, weight)),
        "gelu is missing. Is it called, and what it returns stored?": lambda x, weight, bias: sums(x, weight) + bias,
        "The bias is added after gelu. Which comes first?": lambda x, weight, bias: bent(sums(x, weight)) + bias,
        "The bias is added along the wrong axis. Is there a `[:, None]` where `[None, :]` is right?": (
            lambda x, weight, bias: bent(sums(x, weight) + down(bias, x))
        ),
        "The bias is added to a product that is already rounded. Does anything make the accumulator float16?": (
            lambda x, weight, bias: bent((sums(x, weight).half() + bias).double())
        ),
        "The numbers are rounded before gelu, and once more after. Does anything make the accumulator float16?": (
            lambda x, weight, bias: bent((sums(x, weight) + bias).half().double())
        ),
    },
    most_launches=1,
)
