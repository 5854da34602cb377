# SPDX-License-Identifier: Apache-2.0
"""The kernels are right in the interpreter; what moves numbers between lanes is counted, and found for each GPU."""

import re
from pathlib import Path

import pytest
import torch
from guards import Guarded, check_each_once, check_inside, environment, recorded_accesses

from snippets.compiler import amd_scans as snippet
from tests.processes import run_script


def by_hand(operation, x):
    if operation == "tl.reduce":
        return x[x.abs().argmax()][None]
    if operation == "tl.associative_scan":
        states = [x[0]]
        for number in x[1:]:
            states.append(states[-1] * number + number)
        return torch.stack(states)
    of_torch = {
        "tl.sum": x.sum()[None], "tl.argmax": x.argmax()[None], "tl.cumsum": x.cumsum(0), "tl.sort": x.sort().values,
    }  # fmt: skip
    return of_torch[operation]


@pytest.mark.parametrize("operation", snippet.OPERATIONS)
def test_each_operation_is_what_it_is_called(operation):
    x = torch.tensor([1.0, -2.0, 0.5, -1.0, 2.5, 0.25, -8.0, 1.5])
    wanted = by_hand(operation, x)
    out = Guarded(wanted.shape, torch.float32, x.device, before=64, after=64, fill=0x5A)
    with recorded_accesses() as accesses:
        snippet.block_kernel[(1,)](x, out.tensor, WHAT=operation, BLOCK=8)
    assert torch.equal(out.tensor, wanted.float())
    check_each_once(accesses, "store", out=out.tensor)
    check_inside(accesses, "load", x=x)
    out.check("out")


def test_instructions_are_counted_by_kind():
    amd = "\tv_mov_b32_dpp v1, v2 quad_perm:[1,0,3,2]\n\tv_permlane32_swap_b32_e32 v1, v2\n\tds_read2_b32 v[0:1], v2\n"
    assert snippet.moves(amd) == dict.fromkeys(snippet.WAYS, 0) | {"DPP": 1, "permlane": 1, "shared": 1}
    ptx = "\t@%p1 st.shared.b32 [ %r1 + 0 ], %r2;\n\tbar.sync \t0;\n\tshfl.sync.up.b32 \t%r1, %r2, 1, 0, -1;\n"
    assert snippet.moves(ptx) == dict.fromkeys(snippet.WAYS, 0) | {"shfl": 1, "shared": 1, "barriers": 1}


def test_what_each_gpu_does():
    """By the Triton that is installed: in a warp, sums go by DPP on AMD and scans by ds_bpermute; by shuffles on both.
    """
    done = run_script(Path(snippet.__file__), env=environment("cuda"))
    assert done.returncode == 0, done.stderr
    said = {name: int(value) for name, value in re.findall(r"^(\w+, tl.+): (\d+)$", done.stdout, re.MULTILINE)}
    for operation in snippet.OPERATIONS:
        for gpu in ("MI300X", "MI350X", "H200"):
            assert said[f"{gpu}, {operation}, barriers"] > 0 and said[f"{gpu}, {operation}, bytes"] > 0
        assert said[f"H200, {operation}, shfl"] > 0
        assert said[f"MI300X, {operation}, permlane"] == 0
    for gpu in ("MI300X", "MI350X"):
        assert said[f"{gpu}, tl.sum, DPP"] > 0 == said[f"{gpu}, tl.sum, ds_bpermute"]
        assert said[f"{gpu}, tl.cumsum, ds_bpermute"] > 0 == said[f"{gpu}, tl.cumsum, DPP"]
