# SPDX-License-Identifier: Apache-2.0
"""The simplest maximum of each row is right where every number is negative, and reads nothing beyond its rows."""

from pathlib import Path

import pytest
import torch
import triton
from guards import Guarded, load_file, mutate

from snippets.programs import masks_first

SOURCE = Path(masks_first.__file__)


def check(module, rows, columns, device):
    values = -1 - torch.rand(rows, columns, generator=torch.Generator().manual_seed(columns), dtype=torch.float32)
    x = Guarded.around(values.to(device), before=64, after=64, fill=0)  # zeros, which would win
    out = Guarded((rows,), torch.float32, x.tensor.device, before=64, after=64, fill=0xFF)
    module.row_max_kernel[(rows,)](x.tensor, out.tensor, columns, BLOCK=triton.next_power_of_2(columns))
    x.check("x"), out.check("out")
    assert torch.equal(out.tensor, x.tensor.amax(dim=1))


@pytest.mark.parametrize("columns", [1, 4, 5, 8, 100])
def test_finds_the_largest_of_negative_numbers(device, columns):
    check(masks_first, 3, columns, device)


@pytest.mark.parametrize(
    "old, new",
    [
        ('other=-float("inf")', "other=0.0"),
        ("column < columns", "column <= columns"),
        ("row * columns", "row * BLOCK"),
        ("tl.max(x", "tl.sum(x"),
    ],
)
def test_a_fault_is_found(old, new, tmp_path, device):
    broken = load_file(mutate(SOURCE, tmp_path / "broken.py", old, new))
    with pytest.raises(AssertionError):
        check(broken, 3, 5, device)


def test_prints_the_maxima(capsys):
    masks_first.main()
    assert capsys.readouterr().out == "[-1.0, -10.0]\n"
