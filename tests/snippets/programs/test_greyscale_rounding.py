# SPDX-License-Identifier: Apache-2.0
"""Every color: the integer kernel is exact, and the others are wrong where the page says."""

import contextlib

import numpy as np
import pytest
import torch
from guards import Guarded, check_each_once, check_same_bits, recorded_accesses

from recorder import recording
from recorder.project import find
from snippets.programs import greyscale_rounding as snippet
from snippets.programs.greyscale import by_torch


@pytest.mark.parametrize("shape", [(3, 1, 1), (3, 128, 128), (3, 100, 331), (3, 3, 10923)])
def test_float32_is_right_but_for_a_half(device, shape):
    torch.manual_seed(0)
    picture = Guarded.around(
        torch.randint(0, 256, shape, dtype=torch.uint8, device=device), before=64, after=20_000, fill=0xFF
    )
    out = Guarded(shape[1:], torch.uint8, device, before=64, after=20_000, fill=0x5A)
    n = out.tensor.numel()
    with recorded_accesses() if device == "cpu" else contextlib.nullcontext() as accesses:
        snippet.float_kernel[(-(-n // 16384),)](picture.tensor, out.tensor, n, BLOCK_SIZE=16384, num_warps=8)
    out.check("the result")
    if accesses:
        check_each_once(accesses, "load", picture=picture.tensor)
        check_each_once(accesses, "store", out=out.tensor)
    check_same_bits(snippet.greyscale_float(picture.tensor), out.tensor)
    red, green, blue = picture.tensor.int()
    half = (299 * red + 587 * green + 114 * blue) % 1000 == 500
    exact = by_torch(picture.tensor)
    check_same_bits(torch.where(half, exact, out.tensor), exact)
    assert ((exact - out.tensor) <= half).all(), "one too small, and only where the exact sum ends in a half"


def test_prints_the_counts(device, capsys):
    """On a CPU, 16 million colors take long: there, what `make replay` runs again and compares is read."""
    if device == "cpu":
        output = recording.load(find("programs/greyscale_rounding"), "cpu").output
    else:
        snippet.main()
        output = capsys.readouterr().out
    said = dict(line.rsplit(": ", 1) for line in output.splitlines())
    assert said["colors"] == "16,777,216"
    assert said["wrong by one, our kernel, in integers"] == "0"
    assert said["wrong by one, Pillow's weights, in 1/65536"] == "9,040"
    assert said["wrong by one, torchvision's weights, cut off"] == "8,610,151"
    assert 0 < int(said["wrong by one, the same in float32"]) < 1000


def test_pillows_weights_are_those():
    image = pytest.importorskip("PIL.Image")
    values = np.arange(0, 256, 5, dtype=np.uint8)
    colors = np.stack(np.meshgrid(values, values, values, indexing="ij"), -1).reshape(len(values), -1, 3)
    red, green, blue = np.moveaxis(colors.astype(np.int64), -1, 0)
    expected = (19595 * red + 38470 * green + 7471 * blue + 2**15) >> 16
    assert np.array_equal(np.asarray(image.fromarray(colors).convert("L")), expected)
