# SPDX-License-Identifier: Apache-2.0
"""A product in a hurry: each case compiles as it is meant; on a Hopper GPU, the right one is right."""

import re
import subprocess

import pytest
import torch
from stand_ins import Kernel, compile_for_hopper

from snippets.below import wgmma_bug
from snippets.below.wgmma_bug import CASES, K, M, N, consan, count


def program(grid, a, b, c, depth, *, BUFFERS, AHEAD, LAST, num_warps):
    assert grid == (1,) and num_warps == 8 and depth == a.shape[1]
    c.base[:] = (a.base.float() @ b.base.float()).bfloat16()
    if LAST:
        c.base[0] = -1


@pytest.fixture
def without_gpu(monkeypatch):
    kernel = Kernel(program)
    monkeypatch.setattr(wgmma_bug, "hasty_kernel", kernel)
    monkeypatch.setattr(wgmma_bug, "LAUNCHES", 2)

    def aligned(depth):
        room = torch.ones(2, max(M, N) * depth, dtype=torch.float64).bfloat16()
        return room[0, : M * depth].view(M, depth), room[1, : depth * N].view(depth, N)

    monkeypatch.setattr(wgmma_bug, "whole_numbers", aligned)
    return kernel


def test_counts(without_gpu):
    assert count("as it should be") == "2 of 2 launches right, up to 0% of a result wrong"
    assert count("reads the sums too early") == "0 of 2 launches right, up to 1% of a result wrong"
    options = [options for _, options in without_gpu.launches[::2]]
    assert [(each["AHEAD"], each["LAST"], each["BUFFERS"]) for each in options] == [(2, 0, 3), (2, 1, 3)]


def test_what_consan_says(monkeypatch):
    errors = "/x/wgmma.py:7: unknown: block: [0], thread: [0] Assertion `Buffer in use` failed.\nmore"
    asked = []
    monkeypatch.setattr(subprocess, "run", lambda command, env, **_: asked.append((command, env)) or results.pop())
    done = lambda out, err: subprocess.CompletedProcess([], 0, out, err)
    results = [done("", "first\nlast"), done("nothing to report", ""), done("", errors)]
    assert consan("one") == "Buffer in use (wgmma.py, line 7)"
    assert (consan("two"), consan("three")) == ("nothing to report", "last")
    assert asked[0][0][-1] == "one" and asked[0][1]["TRITON_INSTRUMENTATION_MODE"] == "consan"


def test_says_that_it_needs_a_gpu():
    with pytest.raises(SystemExit, match="no GPU found"):
        wgmma_bug.main()


def test_cases_differ_in_what_they_wait_for():
    code = """
from triton.experimental.gluon import language as gl
from snippets.below.wgmma_bug import BUFFERS, CASES, TensorDescriptor, hasty_kernel
x = torch.empty(1024, 1024, dtype=torch.bfloat16)
described = [TensorDescriptor.from_tensor(x, shape, gl.NVMMASharedLayout.get_default_for(shape, gl.bfloat16))
             for shape in ([128, 64], [64, 256], [128, 64])]
for case in CASES.values():
    options = {"BUFFERS": BUFFERS, "AHEAD": BUFFERS - 1, "LAST": 0} | case
    print(ptx(hasty_kernel, *described, 1024, num_warps=8, **options), "\\n====")
"""
    texts = "\n".join(compile_for_hopper(code)).split("====")
    found = []
    for text in texts[: len(CASES)]:
        waits = sorted(re.findall(r"wgmma\.wait_group\.sync\.aligned\s+(\d)", text))
        found.append((waits, len(re.findall(r"expect_tx", text))))
    assert found == [(["0", "1"], 3), (["0", "1"], 4), (["1", "1"], 3)], "one load more before the loop"


@pytest.mark.gpu
def test_on_a_gpu():
    if torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("wgmma is Hopper's")
    a, b = wgmma_bug.whole_numbers(K)
    for _ in range(10):
        assert torch.equal(wgmma_bug.product("as it should be", a, b), (a.float() @ b.float()).bfloat16())
