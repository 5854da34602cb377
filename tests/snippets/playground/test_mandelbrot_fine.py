# SPDX-License-Identifier: Apache-2.0
"""The finer picture counts the steps that Python counts, wherever its corner is."""

import pytest
import torch

from snippets.playground import mandelbrot_fine

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
STEPS = 12


def steps_of(c: complex) -> int:
    z = 0j
    for step in range(STEPS):
        z = z * z + c
        if abs(z) >= 2:
            return step
    return STEPS


@pytest.mark.parametrize("left, top, pitch", [(-2.25, -1.2, 0.19), (-0.8, 0.05, 0.01)])
def test_steps_are_those_of_complex_numbers(left, top, pitch):
    steps = torch.empty(9, 16, dtype=torch.int32, device=DEVICE)
    mandelbrot_fine.mandelbrot_fine_kernel[(9,)](steps, left, top, pitch, STEPS=STEPS, BLOCK=16)
    wanted = [[steps_of(complex(left + x * pitch, top + y * pitch)) for x in range(16)] for y in range(9)]
    assert (steps.cpu() != torch.tensor(wanted)).sum() <= 2  # float32 and float64 may part at the edge


def test_a_point_that_takes_more_steps_is_no_lighter():
    levels = [mandelbrot_fine.SHADES.index(mandelbrot_fine.shade(n)) for n in range(mandelbrot_fine.STEPS + 1)]
    assert levels == sorted(levels) and levels[0] == 0 and levels[-1] == len(mandelbrot_fine.SHADES) - 1
