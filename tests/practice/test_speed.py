# SPDX-License-Identifier: Apache-2.0
"""The last check, with the CPU in a GPU's place and a time of our own. On a GPU: ``test_exercises``, ``-m gpu``."""

import pytest
import torch
from coach import speed
from coach.exercise import exercises, find, load
from coach.finding import Found
from coach.run import Case, make_inputs

SCALE = find("scale", exercises())
FILE = SCALE.folder / "solution.py"


@pytest.fixture
def measured(monkeypatch):
    """Check a function as if on a GPU, where it reaches a share of the copy's speed."""
    monkeypatch.setattr(speed, "to_gpu", lambda inputs: inputs)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)

    def check(function, share=0.9):
        monkeypatch.setattr(speed, "measure", lambda spec, function: share)
        return speed.check(SCALE.spec(), function, str(FILE))

    return check


@pytest.fixture(scope="module")
def scale():
    return load(FILE, "solution").scale


def test_fast_enough(measured, scale):
    assert measured(scale) == "On this GPU it runs at 90% of the speed of a copy of as many bytes."


def test_too_slow(measured, scale):
    with pytest.raises(Found, match="runs at 20% of the speed of a copy of as many bytes; it should be 85%"):
        measured(scale, share=0.2)


def test_wrong_on_a_gpu_only(measured, scale):
    with pytest.raises(Found, match=r"On the GPU, element \[0\] is"):
        measured(lambda x, a: scale(x, a) + 1)


def test_raises_on_a_gpu_only(measured, scale):
    with pytest.raises(Found, match="On the GPU your code raised ValueError: x has the stride"):
        measured(lambda x, a: scale(x.new_zeros(9)[::2], a))


def test_the_strides_go_to_the_gpu(monkeypatch):
    empty = torch.empty_strided
    monkeypatch.setattr(torch, "empty_strided", lambda *args, device, **more: empty(*args, **more))
    given = make_inputs(SCALE.spec(), Case({"n": 5}, "spread"))
    moved = speed.to_gpu(given)
    assert (moved["x"].stride(), moved["a"]) == ((2,), 2.5)
    assert torch.equal(moved["x"], given["x"])
