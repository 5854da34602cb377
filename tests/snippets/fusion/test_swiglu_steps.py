# SPDX-License-Identifier: Apache-2.0
"""The steps by hand are those of the kernels; and what the page shows of the activations."""

from pathlib import Path

import pytest
import torch
from guards import environment

from snippets.fusion import swiglu_steps as snippet
from snippets.fusion.swiglu import swiglu
from tests.processes import run_script

SOURCE = Path(snippet.__file__)


def test_by_hand_as_the_kernels(device):
    gate, up = (torch.tensor([value], device=device, dtype=torch.float64) for value in (2.0, 3.0))
    steps = snippet.by_hand(2.0, 3.0)
    inputs = [gate.requires_grad_(), up.requires_grad_()]
    out = swiglu(*inputs)
    found = [out, *torch.autograd.grad(out, inputs)]
    for name, each in zip(("out", "grad_gate", "grad_up"), found, strict=True):
        assert each.item() == pytest.approx(steps[name], rel=1e-9)


def test_prints_what_the_page_shows(device):
    done = run_script(SOURCE, env=environment(device))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "## activations",
        "x:           2.0000   1.0000   0.0000  -1.0000  -2.0000  -3.0000",
        "silu:        1.7616   0.7311   0.0000  -0.2689  -0.2384  -0.1423",
        "gelu:        1.9545   0.8413   0.0000  -0.1587  -0.0455  -0.0040",
        "gelu_tanh:   1.9546   0.8412   0.0000  -0.1588  -0.0454  -0.0036",
        "## by hand",
        "silu, part that passes: 0.8808",
        "silu, out: 5.2848",
        "silu, slope of the part: 0.1050",
        "silu, grad_gate: 3.2724",
        "silu, grad_up: 1.7616",
        "## gradients",
        "silu, gradcheck: True",
        "gelu, gradcheck: True",
        "gelu_tanh, gradcheck: True",
        "64 x 2 x 781, as torch: True",
    ]
