# SPDX-License-Identifier: Apache-2.0
"""Each planted fault is found by the checks that the page's table says, and by no other."""

import functools
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from guards import environment

from snippets.tools import testing
from snippets.tools import testing_bug as bug

ROOT = Path(__file__).resolve().parents[3]

FOUND_BY = {
    "sound": set(),
    "adds, not multiplies": {"round", "ragged", "poison"},
    "skips the last block": {"ragged", "poison", "accesses", "far"},
    "stores without a mask": {"guards", "accesses", "far"},
    "adds to what was there": {"poison", "accesses", "far"},
    "loads without a mask": {"accesses", "far"},
    "counts in 32 bits": {"far"},
}

# Several tests ask for the same, and a sum of two million numbers takes the interpreter seconds.
caught_by, verdicts = functools.cache(testing.caught_by), functools.cache(testing.verdicts)


@pytest.mark.parametrize("label", bug.KERNELS)
def test_who_finds_what(device, label):
    found = caught_by(bug.KERNELS[label], device)
    missing = {name for name, result in found.items() if result is None}
    assert missing == (set() if device == "cpu" else {"accesses", "far"})
    assert {name for name, result in found.items() if result} == FOUND_BY[label] - missing


def test_each_check_finds_what_none_before_it_did():
    seen = set()
    for check in testing.CHECKS:
        new = {label for label, checks in FOUND_BY.items() if check in checks} - seen
        assert len(new) == 1
        seen |= new
    assert len(seen) == len(bug.KERNELS) - 1, "all but the sound one"


@pytest.mark.parametrize("label, kernel, kind, n", bug.SUMS, ids=[case[0] for case in bug.SUMS])
def test_what_accepts_which_sum(device, label, kernel, kind, n):
    accepted = verdicts(kernel, kind, n, device)
    lost, long = kernel is bug.sum_lost_bug, n > 2**20
    assert accepted == {
        "assert_close": kind != "canceling" and (not lost or long),
        "sum_tolerance": not lost or long,
        "whole numbers": not lost,
    }


def test_prints_both_tables(device, capsys, monkeypatch):
    monkeypatch.setattr(testing, "caught_by", caught_by)
    monkeypatch.setattr(testing, "verdicts", verdicts)
    bug.main()
    said = capsys.readouterr().out
    rows = {line[:24].rstrip(): line[24:].split() for line in said.splitlines() if line[24:]}
    columns = 6 if device == "cpu" else 4
    assert rows["sound"] == ["-"] * columns
    assert rows["loads without a mask"] == ["-"] * 4 + ["CAUGHT"] * (columns - 4)
    assert rows["loses 1 of 2,097,153"] == ["accepts", "accepts", "REJECTS"]
    counts = dict(re.findall(r"^caught by (\w+): (\d)$", said, re.M))
    assert counts["round"] == "1" and counts["poison"] == "3" and counts["far"] == ("5" if device == "cpu" else "0")
    assert max(map(len, said.splitlines())) <= 78, "wider than the page"


def test_every_wrong_kernel_is_named_so():
    kernels = {name for name, value in vars(bug).items() if hasattr(value, "fn") and value.fn.__name__ == name}
    used = {kernel.fn.__name__ for kernel in bug.KERNELS.values()} | {case[1].fn.__name__ for case in bug.SUMS}
    assert {name for name in kernels if name.endswith("_bug")} == kernels == used - {"scale_kernel", "sum_kernel"}


# On a GPU, compute-sanitizer takes the place of the list of accesses. Five elements, and memory that belongs to nobody
# behind them, because torch does not cut them from a larger piece.
LAUNCH = """
import sys, torch
from snippets.tools import testing, testing_bug
kernel = {"sound": testing.scale_kernel, "load": testing_bug.scale_load_bug, "store": testing_bug.scale_store_bug}
x, out = torch.ones(5, device="cuda"), torch.empty(5, device="cuda")
kernel[sys.argv[1]][(1,)](x, out, 3.0, 5, BLOCK=1024)
assert out.tolist() == [3.0] * 5
"""


@pytest.mark.gpu
@pytest.mark.long
@pytest.mark.parametrize("kernel, reported", [("sound", None), ("load", "Invalid __global__ read"), ("store", "write")])
def test_the_sanitizer_sees_it_on_a_gpu(kernel, reported):
    tool = shutil.which("compute-sanitizer")
    if not tool:
        pytest.skip("compute-sanitizer is not on the PATH; it comes with the CUDA toolkit")
    command = [tool, "--report-api-errors", "no", "--error-exitcode", "99", sys.executable, "-c", LAUNCH, kernel]
    env = environment("cuda", PYTORCH_NO_CUDA_MEMORY_CACHING="1")
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    if reported:
        assert done.returncode != 0 and reported in done.stdout, done.stdout + done.stderr
    else:
        assert done.returncode == 0, done.stdout + done.stderr
