# SPDX-License-Identifier: Apache-2.0
"""The product is right; its outline says what is in the compiler's text, and each wait is tied to what it waits for."""

from pathlib import Path

import pytest
import torch
from guards import environment
from triton.tools.tensor_descriptor import TensorDescriptor

from snippets.below import blackwell
from snippets.below.blackwell import CASES, TILE, WIDE, instructions, launch, matmul_kernel, meanings, outline
from tests.processes import run_code

PIPELINED = """
module attributes {"ttg.num-warps" = 4 : i32} {
  tt.func public @matmul_kernel(%a: !tt.tensordesc<128x64xbf16> loc("a"(#loc)), %K: i32) attributes {noinline = false} {
    %sums = ttng.tmem_alloc : () -> !ttg.memdesc<128x128xf32, #tmem, #ttng.tensor_memory, mutable> loc(#loc9)
    %done = ttg.local_alloc : () -> !ttg.memdesc<2x1xi64, #shared1, #smem, mutable> loc(#loc9)
    %done_0 = ttg.memdesc_index %done[%c0_i32] : !ttg.memdesc<2x1xi64> -> !ttg.memdesc<1xi64> loc(#loc9)
    %tiles = ttg.local_alloc : () -> !ttg.memdesc<3x128x64xbf16, #shared, #smem, mutable> loc(#loc9)
    %full = ttg.local_alloc : () -> !ttg.memdesc<3x1xi64, #shared1, #smem, mutable> loc(#loc9)
    %full_1 = ttg.memdesc_index %full[%c0_i32] : !ttg.memdesc<3x1xi64> -> !ttg.memdesc<1xi64> loc(#loc9)
    ttng.barrier_expect %full_1, 32768, %true : !ttg.memdesc<1xi64, #shared1, #smem, mutable> loc(#loc9)
    %19:2 = scf.for %k = %c0 to %K step %c64 iter_args(%bar = %done_0, %phase = %c0_i32) -> (!ttg.memdesc<1xi64>, i32) {
      ttng.wait_barrier %full_1, %phase, %true : !ttg.memdesc<1xi64, #shared1, #smem, mutable> loc(#loc9)
      ttng.tc_gen5_mma %x, %y, %sums, %true, %true, %done_0[%true] {is_async} : !ttg.memdesc<128x64xbf16> loc(#loc9)
      ttng.wait_barrier %bar, %phase deps %x, %y : !ttg.memdesc<1xi64, #shared1, #smem, mutable> loc(#loc9)
      ttng.async_tma_copy_global_to_local %a[%1, %k] %t, %full_1, %true : !tt.tensordesc<128x64xbf16> loc(#loc9)
      scf.yield %done_0, %phase : !ttg.memdesc<1xi64>, i32 loc(#loc)
    } loc(#loc)
    ttng.wait_barrier %19#0, %19#1 : !ttg.memdesc<1xi64, #shared1, #smem, mutable> loc(#loc9)
    %v = ttng.tmem_load %sums : !ttg.memdesc<128x128xf32> -> tensor<128x128xf32, #linear> loc(#loc9)
    tt.return loc(#loc)
  } loc(#loc)
} loc(#loc)
"""

SPECIALIZED = """
module {
  tt.func public @matmul_kernel() {
    %done = ttg.local_alloc : () -> !ttg.memdesc<1x1xi64, #shared1, #smem, mutable>
    %free = ttg.local_alloc : () -> !ttg.memdesc<3x1xi64, #shared1, #smem, mutable>
    %full = ttg.local_alloc : () -> !ttg.memdesc<3x1xi64, #shared1, #smem, mutable>
    %15 = ttg.warp_specialize(%full, %free, %done) attributes {requestedRegisters = array<i32: 24, 24>}
    default {
      ttg.warp_yield
    }
    partition0(%x: !ttg.memdesc<3x1xi64> loc("s"(#loc5)), %y: !ttg.memdesc<3x1xi64>, %z: !bar) num_warps(1) {
      %7 = ttg.memdesc_index %x[%i] : !ttg.memdesc<3x1xi64> -> !ttg.memdesc<1xi64>
      %8 = ttg.memdesc_index %y[%i] : !ttg.memdesc<3x1xi64> -> !ttg.memdesc<1xi64>
      ttng.wait_barrier %7, %p : !ttg.memdesc<1xi64>
      ttng.tc_gen5_mma %l, %r, %sums, %f, %true_3, %8[%true_3] {is_async} : !ttg.memdesc<128x64xbf16>
      ttng.tc_gen5_commit %z : !ttg.memdesc<1x1xi64>
      ttg.warp_return
    }
    partition1(%x: !ttg.memdesc<3x1xi64>, %y: !ttg.memdesc<3x1xi64>, %z: !ttg.memdesc<1x1xi64>) num_warps(2) {
      %7 = ttg.memdesc_index %y[%i] : !ttg.memdesc<3x1xi64> -> !ttg.memdesc<1xi64>
      %8 = ttg.memdesc_index %x[%i] : !ttg.memdesc<3x1xi64> -> !ttg.memdesc<1xi64>
      ttng.wait_barrier %7, %p : !ttg.memdesc<1xi64>
      ttng.barrier_expect %8, 32768, %true : !ttg.memdesc<1xi64>
      ttg.warp_return
    } : (!ttg.memdesc<3x1xi64>, !ttg.memdesc<3x1xi64>, !ttg.memdesc<1x1xi64>) -> ()
    scf.if %any {
      ttng.wait_barrier %done, %c0 : !ttg.memdesc<1x1xi64>
    }
    tt.return
  }
}
"""


M_TILE, N_TILE, K_TILE = 32, 64, 16


@pytest.mark.parametrize("M, N, K", [(32, 64, 16), (64, 128, 80), (40, 72, 48)])
@pytest.mark.parametrize("specialize, touch", [(False, False), (True, False), (False, True)])
def test_the_product_is_right(M, N, K, specialize, touch):
    a, b = (torch.randint(-99, 100, shape).to(torch.float16) for shape in ((M, K), (K, N)))
    c = torch.zeros(M, N)
    blocks = ((a, [M_TILE, K_TILE]), (b, [K_TILE, N_TILE]), (c, [M_TILE, N_TILE]))
    matmul_kernel[(-(-M // M_TILE), -(-N // N_TILE))](
        *(TensorDescriptor.from_tensor(x, block) for x, block in blocks), K,
        BLOCK_M=M_TILE, BLOCK_N=N_TILE, BLOCK_K=K_TILE, SPECIALIZE=specialize, TOUCH=touch,
    )  # fmt: skip
    expected = torch.zeros(M, N, dtype=torch.float64)
    for k in range(0, K, K_TILE):
        expected += a.double()[:, k : k + K_TILE] @ b.double()[k : k + K_TILE]
        expected = expected.clamp(min=0) if touch else expected
    assert torch.equal(c.double(), expected)


def test_an_outline_says_what_a_wait_waits_for():
    assert outline(PIPELINED) == [
        "tmem_alloc 128x128xf32", "local_alloc 2x1xi64 multiplied", "local_alloc 3x128x64xbf16",
        "local_alloc 3x1xi64 loaded", "barrier_expect 32768 loaded",
        "for", "  wait_barrier loaded", "  tc_gen5_mma multiplied", "  wait_barrier multiplied",
        "  async_tma_copy_global_to_local a loaded",
        "wait_barrier multiplied", "tmem_load 128x128xf32, #linear",
    ]  # fmt: skip


def test_names_in_a_partition_are_its_own():
    assert meanings(SPECIALIZED) == {"%done": "finished", "%free": "multiplied", "%full": "loaded"}
    assert outline(SPECIALIZED)[3:] == [
        "default",
        "partition0, 1 warp", "  wait_barrier loaded", "  tc_gen5_mma multiplied", "  tc_gen5_commit finished",
        "partition1, 2 warps", "  wait_barrier multiplied", "  barrier_expect 32768 loaded",
        "if", "  wait_barrier finished",
    ]  # fmt: skip


def test_instructions_leave_out_where_they_come_from():
    ptx = "\t.loc 1 2 3\n\tmov.b32 \t%r1, 4;\n$L__BB0_1:\n\t@%p1 bra \t$L__BB0_1;\n\t// begin inline asm\n\tret;\n"
    assert instructions(ptx) == ["mov.b32 \t%r1, 4;", "@%p1 bra \t$L__BB0_1;", "ret;"]


def test_launches_are_as_they_are_called():
    for name, (gpu, each) in CASES.items():
        assert name.startswith(gpu) and each.constants["SPECIALIZE"] == name.endswith("warp_specialize")
    assert launch(False, WIDE).types["b"] == "tensordesc<bf16[64, 256]>" and TILE["BLOCK_N"] == 128


def test_it_compiles_for_both():
    """By the Triton that is installed: what an H200 does in registers, a B200 does in Tensor Memory."""
    code = """
from snippets.below.blackwell import *
for name in ("H200", "B200"):
    made = compiled(GPUS[name], launch(False))
    print(facts(made)["columns of Tensor Memory"], facts(made)["threads that issue a product"])
    print([line.split()[0].strip() for line in outline(made.asm["ttgir"]) if "dot" in line or "mma" in line])
"""
    compiles = {key: value for key, value in environment("cpu").items() if key != "TRITON_INTERPRET"}
    done = run_code(code, env=compiles, cwd=Path(blackwell.__file__).parents[2])
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[::2] == ["0 128", "128 1"]
    hopper, other = done.stdout.splitlines()[1::2]
    assert "'warp_group_dot'" in hopper and set(eval(other)) == {"tc_gen5_mma"}
