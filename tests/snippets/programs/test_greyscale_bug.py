# SPDX-License-Identifier: Apache-2.0
"""Each wrong kernel is wrong in just the way that the file's docstring says."""

import contextlib

import numpy as np
import pytest
import torch
from guards import recorded_accesses

from snippets.programs import greyscale_bug as bug
from snippets.programs.greyscale import by_torch


def noise(*shape, device):
    torch.manual_seed(0)
    return torch.randint(0, 256, shape, dtype=torch.uint8, device=device)


def launch(kernel, picture, block=(2, 4)):
    return bug.launch(kernel, picture, torch.zeros(picture.shape[1:], dtype=torch.uint8, device=picture.device), block)


def test_the_sum_of_three_bytes_wraps_around(device):
    picture = noise(3, 13, 21, device=device)
    total = picture.int().sum(0)
    expected = total % 256 // 3
    assert torch.equal(launch(bug.average_bytes_bug, picture).int(), expected)
    assert (expected != total // 3).float().mean() > 0.5 and expected.max() <= 85
    dark = picture // 4  # sums of at most 189 fit, so a dark picture does not show it
    assert torch.equal(launch(bug.average_bytes_bug, dark).int(), dark.int().sum(0) // 3)


def test_a_weight_that_is_no_byte_does_not_compile(device):
    picture = noise(3, 1, 1, device=device)
    with pytest.raises(Exception) as error:
        bug.weights_bytes_bug[(1,)](picture, picture, 3, BLOCK_SIZE=4)
    assert bug.reason(error.value) == "Scalar 299 is out of range for type uint8"


def test_swapped_strides_transpose(device):
    square = noise(3, 9, 9, device=device)
    gray = launch(bug.swapped_axes_bug, square)
    assert torch.equal(gray, by_torch(square).T) and not torch.equal(gray, by_torch(square))
    same = square + square.transpose(1, 2)  # symmetric, so it does not show
    assert torch.equal(launch(bug.swapped_axes_bug, same), by_torch(same))


def test_one_mask_is_right_and_writes_twice_and_past_the_end(device):
    picture, gray = bug.buffers(device)
    toy = picture[:90].view(3, 5, 6)
    assert picture.unique().numel() == picture.numel() and gray.tolist() == [255] * 32
    with recorded_accesses() if device == "cpu" else contextlib.nullcontext([]) as accesses:
        bug.launch(bug.one_mask_bug, toy, gray[:30].view(5, 6), (2, 4))
    assert torch.equal(gray[:30].view(5, 6), by_torch(toy))  # which is why it survives its first test
    behind = by_torch(torch.stack([picture[i : i + 2] for i in (30, 60, 90)])[:, None])[0]
    assert gray[30:].tolist() == behind.tolist() != [255, 255]
    if device == "cpu":
        stored = np.concatenate([found for op, found in accesses if op == "store"]) - gray.data_ptr()
        times = np.bincount(stored, minlength=32)
        assert len(times) == 32, "the damage stays inside the buffer"
        assert [i for i in range(32) if times[i] == 2] == [6, 7, 12, 13, 18, 19, 24, 25]
        assert times.max() == 2 and times.min() == 1


def test_prints_the_damage(device, tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    bug.main()
    assert capsys.readouterr().out.splitlines() == [
        "a mask along y only",
        "  the picture is right: True",
        "  past it, 255 before: [109, 111]",
        "three bytes added in a byte",
        "  gray of white: 84",
        "  largest gray of the photo: 85",
        "a byte times 299",
        "  refused: Scalar 299 is out of range for type uint8",
        "x with the stride of y",
        "  pixels that are right by chance: 1175 of 75000",
        "  it is the transpose, as far as that goes: True",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["axes.jpg", "bytes.jpg"]
    assert all(path.stat().st_size < 25_000 for path in tmp_path.iterdir())


def test_every_wrong_kernel_is_named_so():
    kernels = [value.fn for value in vars(bug).values() if hasattr(value, "fn")]
    ours = [kernel.__name__ for kernel in kernels if kernel.__module__ == bug.__name__]
    assert len(ours) == 4 and all(name.endswith("_bug") for name in ours)
