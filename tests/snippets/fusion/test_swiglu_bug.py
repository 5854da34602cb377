# SPDX-License-Identifier: Apache-2.0
"""The two wrong kernels are wrong in just the way that the file's docstring says, and in no other."""

from pathlib import Path

import pytest
import torch
from guards import environment

from snippets.fusion import swiglu_bug as bug
from snippets.fusion.swiglu import backward, swiglu
from tests.processes import run_script

SOURCE = Path(bug.__file__)


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_rows_after_the_first_are_read_elsewhere(device, rows):
    x = torch.randn(rows, 12, generator=torch.Generator().manual_seed(0)).to(device)
    found = bug.halves(x)
    apart = x.flatten().unfold(0, 12, 6)[:rows]  # as if rows lay 6 apart
    assert torch.allclose(found, swiglu(apart)) and torch.allclose(found[0], swiglu(x)[0])
    assert rows == 1 or not torch.isclose(found[1:], swiglu(x)[1:]).all(dim=1).any()


def test_the_slope_is_that_of_the_other_gelu(device):
    x = torch.linspace(-6, 6, 1000, device=device, dtype=torch.float64)
    ones = torch.ones_like(x)
    found = bug.gradient(ones, x)
    assert torch.allclose(found, backward(ones, x, ones, "gelu")[0])
    right, _ = backward(ones, x, ones, "gelu_tanh")
    assert 5e-4 < (found - right).abs().max() < 1e-3


def test_prints_what_the_page_shows(device):
    done = run_script(SOURCE, env=environment(device))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:8] == [
        "## stride",
        "swiglu:     row 0:   5.2848   0.0000  -0.7152",
        "swiglu:     row 1:   7.3106  -2.6894  39.2806",
        "stride_bug: row 0:   5.2848   0.0000  -0.7152",
        "stride_bug: row 1:   2.8577  -2.8577  11.4309",
        "## slope",
        "largest difference: 0.00087",
        "allclose, as for float16: True",
    ]
    assert lines[8].startswith("Jacobian mismatch") and "1.0861" in lines[9] and "1.0852" in lines[11]


def test_every_wrong_one_is_tested_here():
    assert {name for name in vars(bug) if name.endswith(("bug", "Bug"))} == {"stride_bug", "slope_bug", "GELUBug"}
