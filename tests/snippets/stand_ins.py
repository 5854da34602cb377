# SPDX-License-Identifier: Apache-2.0
"""What stands in for Gluon where there is no GPU: kernels as torch computes them, and Triton's compiler."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from recorder import runner
from recorder.project import COMPILER
from tests.limits import HANGS

ROOT = Path(__file__).parents[2]


class Kernel:
    """A kernel whose program ``pid`` is a function of Python; it notes its launches."""

    def __init__(self, program: Callable[..., None]):
        self.program, self.launches = program, []

    def __getitem__(self, grid: tuple[int, ...]):
        def launch(*arguments, **options):
            self.launches.append((grid, options))
            assert all(side > 0 for side in grid), f"a grid of {grid} is refused by CUDA"
            self.program(grid, *arguments, **options)

        return launch


def compile_for_hopper(code: str) -> list[str]:
    """Run code under the Triton that the course compiles with; ``ptx(kernel, *arguments, **options)`` is at hand."""
    folder = runner.fetch_triton(COMPILER, time.monotonic() + HANGS, lambda text: None)
    begin = """
import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from recorder.compile import CompileOnly
driver.set_active(CompileOnly(GPUTarget("cuda", 90, 32)))
def ptx(kernel, *arguments, **options):
    made = kernel.warmup(*arguments, grid=(1,), **options)
    assert made.metadata.shared <= 232_448, "so much shared memory no program may take"
    return made.asm["ptx"]
"""
    clean = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    paths = {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "TRITON_DEFAULT_FP_FUSION": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-c", begin + code]
    done = subprocess.run(command, env=clean | paths, cwd=ROOT, capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
