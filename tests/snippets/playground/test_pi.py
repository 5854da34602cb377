# SPDX-License-Identifier: Apache-2.0
"""Points are counted inside the quarter circle, and each program throws its own."""

import math

import pytest
import torch

from snippets.playground import pi

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize("seed", [0, 2026])
def test_a_quarter_circle_holds_about_pi_quarters_of_the_points(seed):
    hits = torch.empty(32, dtype=torch.int32, device=DEVICE)
    pi.count_kernel[(32,)](hits, seed, BLOCK=256)
    shares = hits.double() / 256
    assert abs(4 * shares.mean().item() - math.pi) < 0.1 and shares.unique().numel() > 8
