# SPDX-License-Identifier: Apache-2.0
"""Numbers of 8 and 4 bits come back as the nearest that their format has, and products of them are right on a GPU."""


from pathlib import Path

import pytest
import torch
from compiled import SHARED, compiled
from guards import Guarded
from hypothesis import given, settings
from hypothesis import strategies as st

from snippets.models import scaled_dot as module
from snippets.models.scaled_dot import E4M3, GROUP, LARGEST, dequantize, numbers_of, quantize, scaled_matmul

SOURCE = Path(module.__file__)
FORMATS = st.sampled_from(list(GROUP))


def levels(format):
    """All numbers that a format has, without a scale."""
    if format == "mxfp8":
        every = torch.arange(256).to(torch.uint8).view(E4M3).double()
        return every[every.isfinite()].unique()
    return torch.tensor([sign * each for sign in (-1, 1) for each in module.FOUR_BITS], dtype=torch.float64).unique()


@settings(max_examples=30)
@given(st.integers(1, 6), st.integers(1, 4), FORMATS, st.integers(0, 9))
def test_each_number_is_the_nearest(rows, groups, format, seed):
    generator = torch.Generator().manual_seed(seed)
    size = 2.0 ** torch.randint(-8, 9, (rows, groups * 32), generator=generator)
    x = torch.randn(rows, groups * 32, generator=generator) * size
    scaled = quantize(x, format)
    scale = scaled.scales.double() if format == "nvfp4" else torch.exp2(scaled.scales.double() - 127)
    scale = (scale * scaled.whole.double()).repeat_interleave(GROUP[format], 1)
    at = (x.double() / scale.clamp(min=1e-38)).clamp(-LARGEST[format], LARGEST[format])
    closest = (at[:, :, None] - levels(format)).abs().amin(2)
    off = (numbers_of(scaled) - at).abs()
    assert (off <= closest * (1 + 1e-5) + 1e-5).logical_or(scale == 0).all()
    assert torch.equal(dequantize(scaled), numbers_of(scaled) * scale)


@settings(max_examples=20)
@given(st.integers(1, 4), FORMATS, st.integers(-90, 100))
def test_scales_fit_the_largest_number(rows, format, power):
    x = torch.full((rows, 64), 0.0)
    x[:, 5], x[:, 40] = 2.0**power, -(2.0 ** (power - 3))
    scaled = quantize(x, format)
    torch.testing.assert_close(dequantize(scaled), x.double(), rtol=1e-6 if format == "nvfp4" else 0, atol=0)
    assert scaled.scales.shape == (rows, 64 // GROUP[format])
    if format != "nvfp4":
        assert (scaled.scales[:, 0].int() == power + 127 - module.EXPONENT[format]).all()


@pytest.mark.parametrize("format", GROUP)
def test_zeros_and_nothing(format):
    assert not dequantize(quantize(torch.zeros(3, 64), format)).any()
    for rows, columns in ((0, 64), (3, 0), (0, 0)):
        assert dequantize(quantize(torch.zeros(rows, columns), format)).shape == (rows, columns)


def test_the_first_of_two_is_in_the_low_bits():
    scaled = quantize(torch.tensor([[6.0, -0.5] + [0.0] * 30]), "mxfp4")
    assert scaled.numbers[0, :2].tolist() == [7 | 9 << 4, 0] and scaled.scales.tolist() == [[127]]


def test_halfway_goes_to_the_even_code():
    x = torch.tensor([[0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, -5.0]])
    packed = module.to_four_bits(x)
    code = torch.stack([packed & 15, packed >> 4], 2).flatten().tolist()
    assert code == [0, 2, 2, 4, 4, 6, 6, 14]


@pytest.mark.parametrize(
    "x, format, words",
    [
        (torch.ones(2, 32), "mxfp6", "format is 'mxfp6'; use one of mxfp8, mxfp4, nvfp4"),
        (torch.ones(2, 48), "mxfp8", r"\(rows, a multiple of 32\); got \(2, 48\)"),
        (torch.ones(2, 24), "nvfp4", r"a multiple of 16\); got \(2, 24\)"),
        (torch.ones(32), "mxfp4", r"got \(32,\)"),
        (torch.ones(2, 32).int(), "mxfp4", "of torch.int32"),
    ],
)
def test_refuses_to_quantize(x, format, words):
    with pytest.raises(ValueError, match=words):
        quantize(x, format)


def made(rows, columns=64, format="mxfp8"):
    return quantize(torch.ones(rows, columns), format)


REFUSED = [
    ({"x": torch.ones(2, 64)}, "x must be what quantize returns; got Tensor"),
    ({"w": made(3)._replace(format="fp8")}, "format is 'fp8'"),
    ({"x": made(2)._replace(numbers=torch.ones(2, 64))}, r"x.numbers must be \(2, 64\) of torch.float8_e4m3fn"),
    ({"x": made(2)._replace(scales=made(2).scales[:, :1])}, r"x.scales must be \(2, 2\) .* got \(2, 1\)"),
    ({"w": made(3)._replace(scales=torch.ones(3, 2))}, "w.scales .* of torch.uint8 .* of torch.float32"),
    ({"w": made(3)._replace(whole=torch.ones(1))}, r"w.whole must be \(\) of torch.float32"),
    ({"x": made(2)._replace(whole=torch.ones((), device="meta"))}, "x.whole .* on meta"),
    ({"x": made(2)._replace(numbers=made(64, 64).numbers.t()[:2])}, r"x.numbers has strides .*; pass"),
    ({"x": made(2, format="mxfp4")}, r"one format and length along K; got mxfp4, \(2, 32\) and mxfp8, \(3, 64\)"),
    ({"x": made(2, 96)}, r"got mxfp8, \(2, 96\)"),
    ({"out_dtype": torch.int8}, "out_dtype must be one of .* got torch.int8"),
    ({}, "x is on cpu; scaled_matmul runs on a GPU, not in the interpreter"),
]  # fmt: skip


@pytest.mark.parametrize("changes, words", REFUSED)
def test_refuses(changes, words):
    with pytest.raises(ValueError, match=words):
        scaled_matmul(**({"x": made(2), "w": made(3), "out_dtype": torch.float32} | changes))


CODE = """
for format, group in (("mxfp8", 32), ("mxfp4", 32)):  # Triton 3.7 can't compile the third for Hopper
    columns = 4096 if format == "mxfp8" else 2048
    numbers = torch.empty(256, columns, dtype=torch.float8_e4m3fn if format == "mxfp8" else torch.uint8)
    scales = torch.empty(256, 4096 // group, dtype=torch.uint8)
    one = module.Scaled(numbers, scales, torch.ones(()), format)
    module.product(one, one, torch.bfloat16)
"""


def test_compiles_where_it_is_emulated():
    for launch in compiled("models/scaled_dot", CODE):
        assert launch.shared <= SHARED and "wgmma.mma_async" in launch.ptx and "bf16.bf16" in launch.ptx


def whole(rows, columns, seed, format, device):
    """A matrix whose products and sums are exact: small whole numbers, and powers of two for scales."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.tensor([0.0, 1.0, -1.0, 2.0, 3.0, -4.0])[torch.randint(6, (rows, columns), generator=generator)]
    scale = 2.0 ** torch.randint(-2, 3, (rows, columns // 32), generator=generator)
    scaled = quantize((x * scale.repeat_interleave(32, 1)).to(device), format)
    return scaled if format != "nvfp4" else scaled._replace(whole=torch.ones((), device=device) / 2)


@pytest.mark.gpu
@pytest.mark.parametrize("format", GROUP)
def test_right_gpu(format, monkeypatch):
    for M, N, K in ((1, 1, 32), (3, 200, 96), (130, 129, 640), (257, 300, 4096)):
        x, w = whole(M, K, 0, format, "cuda"), whole(N, K, 1, format, "cuda")
        exact = dequantize(x) @ dequantize(w).t()
        out = Guarded((M, N), torch.float32, "cuda", before=64, after=2**14, fill=0xFF)
        empty = torch.empty
        monkeypatch.setattr(torch, "empty", lambda *shape, out=out, **options: out.tensor)
        y = scaled_matmul(x, w, torch.float32)
        monkeypatch.setattr(torch, "empty", empty)
        out.check("y")
        assert (y.double() - exact).norm() <= 1e-6 * exact.norm()
    assert not scaled_matmul(x._replace(numbers=x.numbers[:, :0], scales=x.scales[:, :0]),
                             w._replace(numbers=w.numbers[:, :0], scales=w.scales[:, :0])).any()  # fmt: skip


@pytest.mark.gpu
@pytest.mark.parametrize("format", GROUP)
def test_far_rows_gpu(format):
    """The rows of a view that lie far apart: more than 2**31 bytes from the first to the last."""
    wide = 2**31 // 64 + 64
    room = torch.zeros(66, wide, dtype=torch.uint8, device="cuda")
    x = whole(66, 64, 0, format, "cuda")
    apart = room[:, : x.numbers.shape[1]].copy_(x.numbers.view(torch.uint8)).view(x.numbers.dtype)
    assert torch.equal(scaled_matmul(x._replace(numbers=apart), x), scaled_matmul(x, x))


