# SPDX-License-Identifier: Apache-2.0
"""What is said of torchvision's function is counted over all colors; where it is missing, the error says so. A function
of the same formula stands in for it where it is not installed."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from guards import environment

from recorder.printed import numbers
from snippets.programs import greyscale_torchvision as snippet
from tests.processes import run_script


def stand_in(picture):
    red, green, blue = picture.unbind(-3)
    return (0.2989 * red + 0.587 * green + 0.114 * blue).to(picture.dtype).unsqueeze(-3)


@pytest.fixture
def colors(monkeypatch):
    """Fewer colors, 4096 of them, black and white among them."""
    few = torch.tensor([0, 1, 2, 17, 34, 51, 85, 100, 101, 127, 128, 170, 200, 253, 254, 255], dtype=torch.uint8)
    picture = torch.stack(torch.meshgrid(few, few, few, indexing="ij")).view(3, 64, 64)
    monkeypatch.setattr(snippet, "all_colors", lambda device: picture.to(device))
    return picture


MODULES = {"first": "torchvision.transforms.functional", "second": "torchvision.transforms.v2.functional"}


def use(monkeypatch, **functions):
    for name in ("torchvision", "torchvision.transforms", "torchvision.transforms.v2"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(__path__=[]))
    for which, name in MODULES.items():
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(rgb_to_grayscale=functions[which]))


def test_counts_what_is_unlike_ours(device, colors, monkeypatch, capsys):
    brighter = lambda picture: snippet.greyscale(picture).int().add(1).clamp_max(255).byte()[None]
    use(monkeypatch, first=stand_in, second=brighter)
    snippet.compared(device)
    said = numbers(capsys.readouterr().out)
    exact = (299 * colors[0].long() + 587 * colors[1].long() + 114 * colors[2].long() + 500) // 1000
    assert said["colors"] == 4096
    assert said["torchvision, unlike ours"] == int((stand_in(colors.to(device))[0].cpu() != exact).sum()) > 1000
    assert said["torchvision, darkest against ours"] == -1 and said["torchvision, brightest against ours"] == 0
    assert said["torchvision, v2, unlike ours"] == int((exact < 255).sum()) < 4096
    assert said["torchvision, v2, darkest against ours"] == 0 and said["torchvision, v2, brightest against ours"] == 1
    assert (said["white, ours"], said["white, torchvision"], said["white, torchvision, v2"]) == (255, 254, 255)


def test_all_colors_are_there_once(device):
    red, green, blue = snippet.all_colors(device).view(3, -1).long()
    assert torch.equal(red * 65536 + green * 256 + blue, torch.arange(2**24, device=device))


@pytest.mark.parametrize("which", MODULES)
def test_without_torchvision_the_error_says_how_to_get_it(monkeypatch, which):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    for name in MODULES.values():
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"there is no torchvision.*: pip install torchvision"):
        snippet.theirs(which)


def test_copy_is_of_half_the_bytes():
    picture = torch.arange(3 * 6 * 4, dtype=torch.uint8).view(3, 6, 4)
    assert torch.equal(snippet.copy(picture), torch.arange(48, dtype=torch.uint8))


def test_says_that_it_needs_a_gpu():
    if torch.cuda.is_available():
        pytest.skip("this machine has one")
    done = run_script(Path(snippet.__file__), env=environment("cpu"))
    assert done.returncode and "no GPU found" in done.stderr


@pytest.mark.gpu
def test_prints_and_measures(capsys, monkeypatch):
    pytest.importorskip("torchvision")
    snippet.main()
    said = numbers(capsys.readouterr().out)
    assert said["colors"] == 2**24 and said["white, torchvision"] == 254
    median, slowest, fastest = snippet.sizes.fn("8191 × 8191", "second")
    assert 0 < slowest <= median <= fastest < snippet.sizes.fn("8191 × 8191", "ours")[0]
