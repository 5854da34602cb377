# SPDX-License-Identifier: Apache-2.0
"""The loop of a product on AMD's GPUs, read from the compiler's text, and counted in the machine code."""

from collections import Counter
from pathlib import Path

from guards import environment

from snippets.compiler.amd_loop import instructions, layouts, turn
from tests.processes import run_code

TTGIR = """
#shared = #ttg.swizzled_shared<{vec = 4, perPhase = 1, maxPhase = 16, order = [1, 0]}>
#shared1 = #ttg.padded_shared<[512:+32] {offset = [[0, 1], [0, 2]], block = []}>
#smem = #ttg.shared_memory
  %a_1 = tt.load %before : tensor<128x64x!tt.ptr<f16>>
  %sums_9:4 = scf.for %k = %c0 to %K step %c64 iter_args(%x = %y) -> (tensor<128x128xf32, #mma>)  : i32 {
    %a_62 = ttg.async_wait %a_58, %b_59 {num = 0 : i32}
    %a_71 = tt.load %43, %inside, %cst : tensor<128x64x!tt.ptr<f16>, #blocked1>
    %a_72 = ttg.local_load %sums_55 : !ttg.memdesc<128x64xf16> -> tensor<128x64xf16>
    %b_73 = ttg.async_copy_global_to_local %46, %b_30 mask %m : tensor<64x128x!tt.ptr<f16>> -> <64x128xf16>
    %sums_75 = tt.dot %a_72, %b_74, %x : tensor<128x64xf16> * tensor<64x128xf16> -> tensor<128x128xf32, #mma>
    %b_81 = amdg.in_thread_transpose %b_73 : tensor<64x128xf16> -> tensor<64x128xf16>
    ttg.local_store %a_71, %a_79 : tensor<128x64xf16, #blocked1> -> !ttg.memdesc<128x64xf16>
    scf.yield %sums_75
  }
  %b_99 = tt.load %after : tensor<128x64x!tt.ptr<f16>>
"""


def test_a_turn_has_what_is_in_the_loop_alone():
    assert turn(TTGIR) == [
        "async_wait", "load a", "local_load a", "async_copy_global_to_local b", "dot", "in_thread_transpose b",
        "local_store a",
    ]  # fmt: skip


def test_layouts():
    assert layouts(TTGIR) == [
        "swizzled_shared<{vec = 4, perPhase = 1, maxPhase = 16, order = [1, 0]}>", "padded_shared<[512:+32] {…}>",
    ]  # fmt: skip


def test_instructions_are_counted_by_kind():
    code = "\tv_mfma_f32_32x32x8_f16 a[0:15], v[2:3]\n\ts_waitcnt vmcnt(0)\n\ts_barrier\n\tds_read_b128 v[0:3], v4\n"
    assert instructions(2 * code) == Counter(
        {"v_mfma_f32_32x32x8_f16": 2, "s_barrier": 2, "ds_read_b128": 2},
    )


def test_what_each_gpu_does():
    """By the Triton that is installed: of both, the matrix units multiply, and each by an instruction of its own."""
    code = """
from snippets.compiler.amd_loop import *
for name in ("MI300X", "MI350X"):
    made = compiled(GPUS[name], by_pointers(TILE, num_warps=8, num_stages=2))
    units = [each for each in instructions(made.asm["amdgcn"]) if "mfma" in each]
    print("dot" in turn(made.asm["ttgir"]), *units)
"""
    done = run_code(code, env=environment("cuda"), cwd=Path(__file__).resolve().parents[3])
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["True v_mfma_f32_32x32x8_f16", "True v_mfma_f32_32x32x16_f16"]
