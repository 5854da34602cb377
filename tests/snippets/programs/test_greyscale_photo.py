# SPDX-License-Identifier: Apache-2.0
"""The photograph is the public-domain one, the pictures are small, and the tiles are those of the programs."""

import re
from pathlib import Path

import pytest
import torch
from guards import environment, recorded_accesses

from snippets.programs import greyscale_photo as snippet
from snippets.programs.greyscale import by_torch
from tests.processes import run_script

SOURCE = Path(snippet.__file__)


def test_owners(device):
    assert snippet.owners(3, 5, (2, 4), device).tolist() == [[0, 0, 0, 0, 1], [0, 0, 0, 0, 1], [2, 2, 2, 2, 3]]
    for height, width in ((300, 250), (7, 65)):
        y, x = torch.arange(height, device=device)[:, None], torch.arange(width, device=device)
        columns = -(-width // 32)
        assert torch.equal(snippet.owners(height, width, (64, 32), device), (y // 64 * columns + x // 32).int())


def test_owners_stay_inside():
    with recorded_accesses() as accesses:
        owner = snippet.owners(3, 5, (2, 4), "cpu")
    touched = sorted(address for _, found in accesses for address in found.tolist())
    assert touched == [owner.data_ptr() + 4 * i for i in range(15)]


def test_photo_is_a_view_with_gaps(device):
    pytest.importorskip("matplotlib")
    photo = snippet.read_photo(device)
    assert photo.shape == (300, 250, 3) and photo.stride() == (3072, 6, 1) and photo.dtype == torch.uint8
    assert photo.device.type == device


def test_writes_its_pictures(device, tmp_path, monkeypatch, capsys):
    image = pytest.importorskip("matplotlib.image")
    monkeypatch.chdir(tmp_path)
    snippet.main()
    printed = capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gray.jpg", "photo.jpg", "tiles.jpg"]
    assert all(path.stat().st_size < 25_000 for path in tmp_path.iterdir())

    assert "the same gray: True\n" in printed
    rows = [re.findall(r"[\d,]+", line.split(":")[1]) for line in printed.splitlines() if line.startswith("patch")]
    patch = torch.tensor([[[int(n) for n in pixel.split(",")] for pixel in row] for row in rows[:8]])
    assert torch.equal(patch, snippet.read_photo("cpu")[248:256, 176:184].long())
    assert [[int(n) for n in row] for row in rows[8:]] == by_torch(patch, channel_dim=-1).tolist()

    gray = image.imread(tmp_path / "gray.jpg")
    exact = by_torch(snippet.read_photo("cpu"), channel_dim=-1).numpy()
    assert gray.shape[:2] == exact.shape
    error = abs(gray.reshape(300, 250, -1)[:, :, 0].astype(int) - exact).mean()
    assert error < 6, "JPEG loses a little, not more"


def test_says_what_it_needs(tmp_path):
    (tmp_path / "matplotlib.py").write_text("raise ImportError('planted')")
    done = run_script(SOURCE, env=environment("cpu", PYTHONPATH=str(tmp_path)))
    assert done.returncode == 1 and done.stderr.splitlines()[-1].endswith("pip install matplotlib")
