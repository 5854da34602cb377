# SPDX-License-Identifier: Apache-2.0
"""Each wrong product is wrong in just the way that its docstring says, and is caught as the page says."""

import contextlib
import math
import re
import shutil
from pathlib import Path

import pytest
import torch
from guards import environment, recorded_accesses

from snippets.matmul import naive_bug as bug
from snippets.matmul.naive import matmul
from tests.processes import run_script

SOURCE = Path(bug.__file__)
ROOT = str(SOURCE.parents[2])
RIGHT = [[110.0, 120.0, 130.0, 140.0, 150.0], [246.0, 272.0, 298.0, 324.0, 350.0], [382.0, 424.0, 466.0, 508.0, 550.0]]
nan = math.nan
OUTSIDE_A = "AssertionError: 12 loads outside of a: one at element 12 of a, which has 12"
OUTSIDE_B = "AssertionError: 60 loads outside of b: one at element 20 of b, which has 20"
CAUGHT = {
    "no mask": [OUTSIDE_A, OUTSIDE_B],
    "wrapped": ["nothing is loaded outside of a", "nothing is loaded outside of b"],
    "half a mask": ["nothing is loaded outside of a", OUTSIDE_B],
}

pytestmark = pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered in matmul:RuntimeWarning")


def touched(kernel, a, b):
    """Run a kernel; return its result and, in the interpreter, the elements that it loaded of a and of b."""
    with recorded_accesses() if a.device.type == "cpu" else contextlib.nullcontext([]) as accesses:
        c = bug.run(kernel, a, b)
    loads = [at for op, at in accesses if op == "load"]
    return c, [((at - t.data_ptr()) // 4).reshape(16, -1).tolist() for at, t in zip(loads, (a, b), strict=False)]


@pytest.mark.parametrize("behind", [(0.0, 0.0), (7.0, 0.0), (-1e30, 0.0)])
def test_without_a_mask_right_where_zeros_lie_behind_b(device, behind):
    c, loads = touched(bug.no_k_mask_bug, *bug.operands(device, *behind))
    assert c.tolist() == RIGHT
    if loads:
        assert loads[0] == [list(range(4 * (m % 3), 4 * (m % 3) + 16)) for m in range(16)]  # rows wrap, columns do not
        assert loads[1] == [[5 * k + n % 5 for n in range(16)] for k in range(16)]


@pytest.mark.parametrize("behind", [(0.0, 7.0), (7.0, 7.0), (nan, 0.0), (0.0, nan), (math.inf, 0.0)])
def test_without_a_mask_wrong_otherwise(device, behind):
    a, b = bug.operands(device, *behind)
    c = bug.run(bug.no_k_mask_bug, a, b)
    rows = torch.stack([a.as_strided((16,), (1,), 4 * m) for m in range(3)]).cpu()
    assert torch.allclose(c.cpu(), rows @ b.as_strided((16, 5), (5, 1)).cpu(), equal_nan=True)
    assert not torch.equal(c.cpu(), torch.tensor(RIGHT))


def test_without_a_mask_right_where_k_fills_its_steps(device):
    a, b = torch.randint(-4, 5, (5, 32)).float().to(device), torch.randint(-4, 5, (32, 19)).float().to(device)
    assert torch.equal(bug.run(bug.no_k_mask_bug, a, b), a @ b)  # which is how it survives tests on round sizes
    assert torch.equal(bug.run(bug.wrapped_k_bug, a, b), a @ b)


def test_with_its_masks_nothing_behind_matters(device):
    assert matmul(*bug.operands(device, nan, nan), tile=(16, 16, 16)).tolist() == RIGHT


def test_wrapped_along_k_adds_each_product_four_times(device):
    c, loads = touched(bug.wrapped_k_bug, *bug.operands(device, nan, nan))
    assert torch.equal(c, 4 * torch.tensor(RIGHT, device=device))
    if loads:
        assert {i for row in loads[0] for i in row} == set(range(12))
        assert {i for row in loads[1] for i in row} == set(range(20))


def test_half_a_mask_is_right_until_a_nan_lies_behind_b(device):
    for behind_b in (0.0, 7.0, -1e30):
        assert bug.run(bug.half_k_mask_bug, *bug.operands(device, nan, behind_b)).tolist() == RIGHT
    for behind_b in (nan, math.inf):
        assert bug.run(bug.half_k_mask_bug, *bug.operands(device, nan, behind_b)).isnan().all()


@pytest.mark.parametrize("name", CAUGHT)
def test_the_list_of_accesses_catches_two_of_three(capsys, name):
    bug.on_the_cpu(name)
    assert capsys.readouterr().out.splitlines() == CAUGHT[name]


def test_prints_what_the_page_shows(device):
    if device == "cuda" and not shutil.which("compute-sanitizer"):
        pytest.skip("compute-sanitizer is not on the PATH; it comes with the CUDA toolkit")
    done = run_script(SOURCE, env=environment(device, PYTHONPATH=ROOT))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:15] == [
        "## values",
        "   0    0 | 110 120 130 140 150  right",
        "   7    0 | 110 120 130 140 150  right",
        "   0    7 | 586 596 606 616 626  WRONG",
        " nan    0 | nan nan nan nan nan  WRONG",
        "## masked",
        " nan  nan | 110 120 130 140 150  right",
        "## wrapped",
        "440 480 520 560 600  WRONG",
        "## half a mask",
        "   0 | 110 120 130 140 150  right",
        "   7 | 110 120 130 140 150  right",
        " nan | nan nan nan nan nan  WRONG",
        "## caught: no mask",
        lines[14],
    ]
    if device == "cpu":
        assert lines[14:] == [
            *CAUGHT["no mask"],
            "## caught: wrapped",
            *CAUGHT["wrapped"],
            "## caught: half a mask",
            *CAUGHT["half a mask"],
        ]
    else:  # compute-sanitizer, which catches the same two
        caught = dict(re.findall(r"^## caught: (.*)\n((?:(?!## ).*\n?)*)", done.stdout, re.M))
        assert caught["wrapped"].strip() == "ERROR SUMMARY: 0 errors"
        for name in ("no mask", "half a mask"):
            assert caught[name].startswith("Invalid __global__ read of size")
            assert f"at {bug.BUGS[name].fn.__name__}" in caught[name]


def test_every_wrong_kernel_is_tested_here():
    kernels = {value for name, value in vars(bug).items() if hasattr(value, "fn") and name.endswith("_bug")}
    assert kernels == set(bug.BUGS.values())
