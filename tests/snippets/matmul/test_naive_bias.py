# SPDX-License-Identifier: Apache-2.0
"""The product with a bias for each column and each row: right on ragged sizes and strides, and inside its tensors."""

import contextlib

import torch
from covering import covering
from guards import Guarded, check_inside, precisions_of_dots, recorded_accesses

from snippets.matmul import naive_bias
from snippets.matmul.naive_bias import bias_kernel


def guarded(values):
    zone = Guarded(values.shape, values.dtype, values.device, before=64, after=256, fill=0xFF)
    zone.tensor.copy_(values)
    return zone


@covering(
    tile=[(4, 4, 16), (4, 8, 16), (8, 4, 32)],
    transposed=["", "a", "b", "c"],
    size=[(7, 10, 40), (4, 4, 16), (1, 9, 17), (5, 1, 3), (9, 6, 0)],
)
def test_is_equal_to_torch(device, size, transposed, tile):
    M, N, K = size
    generator = torch.Generator().manual_seed(0)
    shapes = {"a": (M, K), "b": (K, N), "column_bias": (N,), "row_bias": (M,)}
    values = {
        name: torch.randint(-3, 4, shape, generator=generator).float().to(device) for name, shape in shapes.items()
    }
    values["c"] = torch.full((M, N), torch.nan, device=device)
    zones = {name: guarded(x.t().contiguous() if name == transposed else x) for name, x in values.items()}
    tensors = (zone.tensor.t() if name == transposed else zone.tensor for name, zone in zones.items())
    a, b, column_bias, row_bias, c = tensors
    sides = dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), tile, strict=True))
    grid = (-(-M // tile[0]) * -(-N // tile[1]),)
    with recorded_accesses() if device == "cpu" else contextlib.nullcontext() as accesses:
        strides = *a.stride(), *b.stride(), *c.stride()
        bias_kernel[grid](a, b, column_bias, row_bias, c, M, N, K, *strides, **sides)
    expected = values["a"] @ values["b"] + values["column_bias"] + values["row_bias"][:, None]
    assert torch.equal(c, expected)
    for name, zone in zones.items():
        zone.check(name)
    if accesses is not None:
        check_inside(accesses, "load", a=a, b=b, column_bias=column_bias, row_bias=row_bias)
        check_inside(accesses, "store", c=c)


def test_prints_that_it_is_right(device, capsys):
    naive_bias.main()
    assert capsys.readouterr().out == "a @ b + column_bias + row_bias[:, None]: equal to torch\n"


def test_float32_is_multiplied_as_float32():
    with precisions_of_dots() as seen:
        naive_bias.main()
    assert seen == {"IEEE"}
