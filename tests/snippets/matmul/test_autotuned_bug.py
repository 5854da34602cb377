# SPDX-License-Identifier: Apache-2.0
"""A kernel that changes what it reads: each try of the tuner adds x again, and what either option does against it."""

import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
import torch
from guards import environment

from snippets.matmul import autotuned_bug as bug

SOURCE = Path(bug.__file__)


def two_calls(kernel, device):
    """The results of two calls with one key, of which the first tunes."""
    x, out = torch.ones(10, device=device), torch.full((10,), 100.0, device=device)
    seen = []
    with mock.patch.dict(kernel.cache, clear=True):
        for _ in range(2):
            bug.add(kernel, x, out)
            seen.append(out.unique().tolist())
    return seen


@pytest.mark.parametrize(
    "care, expected",
    [("no care", [[107], [108]]), ("reset_to_zero", [[1], [2]]), ("restore_value", [[101], [102]])],
)
def test_tuning_runs_the_kernel_again_and_again(device, care, expected):
    """Six tries and the call; and zeros, also for the call that was asked for; and what is right."""
    assert two_calls(bug.KERNELS[care], device) == expected


def test_the_next_call_of_the_same_key_tunes_nothing(device):
    """So a test that runs after another one sees nothing of this bug."""
    kernel, x = bug.KERNELS["no care"], torch.ones(10, device=device)
    with mock.patch.dict(kernel.cache, clear=True):
        bug.add(kernel, x, torch.zeros_like(x))
        out = torch.full((10,), 100.0, device=device)
        bug.add(kernel, x, out)
        assert out.unique().tolist() == [101]


@pytest.mark.gpu
def test_results_on_disk_leave_nothing_to_reset(tmp_path):
    """``reset_to_zero`` belongs to the tries: a process that finds the winner on disk clears nothing."""
    code = """
import torch, triton
from snippets.matmul.autotuned_bug import add, add_bug
configs = [triton.Config({"BLOCK": 4}), triton.Config({"BLOCK": 8})]
kernel = triton.autotune(configs, key=["n"], reset_to_zero=["out_ptr"], cache_results=True)(add_bug)
x, out = torch.ones(10, device="cuda"), torch.full((10,), 100.0, device="cuda")
add(kernel, x, out)
print(out[0].item())
"""
    root = str(SOURCE.parents[2])
    env = environment("cuda", PYTHONPATH=root, TRITON_CACHE_DIR=str(tmp_path))
    found = []
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found.append(float(done.stdout))
    assert found == [1, 101]
