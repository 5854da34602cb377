# SPDX-License-Identifier: Apache-2.0
"""It compiles without a GPU, and counts what the compiled code says."""

import contextlib
import re

import pytest
import torch
from guards import Guarded, as_if_compiled, check_each_once, environment, recorded_accesses

from recorder.printed import numbers, sections
from snippets.compiler import see_your_own_kernel as module
from tests.processes import run_script

INTERPRETED = "unset TRITON_INTERPRET"


@pytest.fixture(scope="module")
def printed():
    done = run_script(module.__file__, env=environment("cuda"))  # it compiles, and needs no GPU
    assert done.returncode == 0, done.stderr
    return sections(done.stdout)



def test_its_kernel_takes_the_mean_from_each_row_and_touches_nothing_beside(device):
    rows = torch.tensor([[0.0, 1, 2, 3, 4], [10, 20, 30, 40, 50]], device=device)
    x = Guarded.around(rows, before=8, after=8, fill=0x7F)
    out = Guarded((2, 5), torch.float32, device, before=8, after=8, fill=0x5A)
    accesses = recorded_accesses() if device == "cpu" else contextlib.nullcontext([])
    with accesses as seen:
        module.center_kernel[(2,)](x.tensor, out.tensor, 5, BLOCK=8)
    centered = torch.tensor([[-2.0, -1, 0, 1, 2], [-20, -10, 0, 10, 20]], device=device)
    torch.testing.assert_close(out.tensor, centered)  # a GPU divides by 5 with a rounding of its own
    x.check("x")
    out.check("the result")
    if device == "cpu":  # the interpreter lists what is touched
        check_each_once(seen, "load", x=x.tensor)
        check_each_once(seen, "store", out=out.tensor)


def test_wide_loads_need_a_multiple_of_16(printed):
    wide, narrow = printed["4096 columns, num_warps=4"], printed["4095 columns, num_warps=4"]
    for operation in "loads", "stores":  # of 4096 float32, by 128 threads
        assert f"\n{operation}: 8 × 16 bytes\n" in wide and f"\n{operation}: 32 × 4 bytes\n" in narrow
    assert "#blocked = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4]" in wide


def test_a_sum_of_four_warps_goes_through_shared_memory(printed):
    four, one = printed["4096 columns, num_warps=4"], printed["16384 columns, num_warps=1"]
    assert numbers(four)["bytes of shared memory"] > 0 == numbers(one)["bytes of shared memory"]


def test_one_warp_spills_a_long_row(printed):
    few, many = (numbers(printed[name]) for name in ("4096 columns, num_warps=4", "16384 columns, num_warps=1"))
    assert few["threads"] == 128 and 0 < few["registers"] < 255 and few["spills"] == 0
    assert many["threads"] == 32 and many["registers"] == 255 and many["spills"] > 0


def test_every_stage_is_saved(printed):
    assert printed["files"].split() == [f"center_kernel.{s}" for s in ("llir", "ptx", "sass", "ttgir", "ttir")]


@pytest.mark.parametrize(
    "line, sizes",
    {
        "@%p1 ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];": [16],
        "ld.global.L1::evict_first.L2::cache_hint.b32 { %r1 }, [ %rd1 + 0 ], %rd2;": [4],
        "ld.global.nc.v8.b32 { %r1 }, [ %rd1 + 0 ];": [32],
        "ld.volatile.global.b16 { %rs1 }, [ %rd1 + 0 ];": [2],
        "ld.shared.v4.b32 {%r1, %r2, %r3, %r4}, [%r5];": [],
        "st.global.v4.b32 [ %rd5 + 0 ], { %r17, %r18, %r19, %r20 };": [],
    }.items(),
)
def test_width_of_a_load(line, sizes):
    assert module.accesses(line, "ld") == sizes


def test_size_of_a_copy_to_shared_memory():
    line = "cp.async.cg.shared.global [ %r1 + 0 ], [ %rd1 + 0 ], 0x10, %r2;"
    assert module.accesses(f"{line}\n{line.replace('0x10', '0x4')}", "cp.async") == [16, 4]
    assert module.accesses("cp.async.commit_group;", "cp.async") == module.accesses(line, "ld") == []


def test_widest_first():
    assert module.counted([4, 16, 4]) == "1 × 16 bytes + 2 × 4 bytes"
    assert module.counted([]) == "none"


@pytest.mark.parametrize("kernel", [module.center_kernel, print], ids=["interpreted", "no kernel"])
def test_refuses_what_is_not_compiled(kernel):
    with pytest.raises(ValueError, match=INTERPRETED):
        module.compile_for("sm_90", kernel, torch.float32)


@pytest.mark.parametrize("target", ["gfx942", "H100", "sm_90a"])
def test_refuses_a_target(target):
    with as_if_compiled(module, "center_kernel"), pytest.raises(ValueError, match=re.escape(target)):
        module.compile_for(target, module.center_kernel, torch.float32)
