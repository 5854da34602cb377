# SPDX-License-Identifier: Apache-2.0
"""Compiler stages: how each is tied to its source, and that the code is that of the real launch."""

import json
import re
import subprocess
import sys

import pytest

from recorder import recording
from recorder.project import Snippet
from tests.recorder.conftest import ROOT

pytest.importorskip("triton")
from recorder import stages

FILE = "snippets/programs/it.py"


def tied(stage, text):
    found = stages.tie_to_source(stage, text, FILE)
    return list(zip(found["lines"], found["text"].splitlines(), strict=True))


@pytest.mark.parametrize("stage", ["ttir", "ttgir"])
def test_mlir(stage):
    text = """\
#blocked = #ttg.blocked<{sizePerThread = [1]}>
#loc = loc("/home/someone/snippets/programs/it.py":7:0)
#loc12 = loc("x_ptr"(#loc))
module {
  tt.func public @it(%x_ptr: !tt.ptr<f32> loc("x_ptr"(#loc)), %n: i32 loc("/x/snippets/programs/it.py":7:0)) {
    %pid = tt.get_program_id x : i32 loc(#loc13)
    %0 = arith.constant 1 : i32 loc(#loc1)
    %1 = arith.addi %0, %pid : i32 loc(#loc4)
    tt.return loc(#loc3)
  } loc(#loc)
} loc(#loc)
#loc1 = loc(unknown)
#loc2 = loc("/home/someone/snippets/programs/it.py":9:10)
#loc3 = loc("/home/someone/snippets/programs/it.py":12:4)
#loc4 = loc(callsite(#loc5 at #loc3))
#loc5 = loc("/somewhere/triton/language/standard.py":40:28)
#loc13 = loc("pid"(#loc2))
"""
    assert tied(stage, text) == [
        (0, "#blocked = #ttg.blocked<{sizePerThread = [1]}>"),
        (0, "module {"),
        (0, "  tt.func public @it(%x_ptr: !tt.ptr<f32>, %n: i32) {"),
        (9, "    %pid = tt.get_program_id x : i32"),
        (0, "    %0 = arith.constant 1 : i32"),
        (12, "    %1 = arith.addi %0, %pid : i32"),
        (12, "    tt.return"),
        (7, "  }"),
        (7, "}"),
    ]


def test_llvm():
    text = """\
define void @it(ptr %0) !dbg !4 {
  %1 = load i32, ptr %0, align 4, !dbg !7
  ret void, !dbg !8
}

!llvm.module.flags = !{!0}
!1 = !DIFile(filename: "it.py", directory: "/home/someone")
!4 = distinct !DISubprogram(name: "it", line: 6)
!7 = !DILocation(line: 9, column: 3, scope: !4)
!8 = distinct !DILocation(line: 12, column: 4, scope: !4)
"""
    assert tied("llir", text) == [
        (0, "define void @it(ptr %0) {"),
        (9, "  %1 = load i32, ptr %0, align 4"),
        (12, "  ret void"),
        (0, "}"),
    ]


def test_ptx():
    text = """\
.version 8.7
.visible .entry it(
\t.param .u64 it_param_0
)
{
$L__func_begin0:
\t.loc\t1 6 0
\tld.param.u64 \t%rd1, [it_param_0];
$L__tmp0:
\t.loc\t1 9 10
\t// begin inline asm
\t@%p1 ld.global.b32 { %r1 }, [ %rd1 ];
$L__BB0_1:
\tret;
}
\t.file\t1 "/home/someone/snippets/programs/it.py"
\t.section\t.debug_abbrev
\t{
.b8 1
"""
    assert tied("ptx", text) == [
        (0, ".version 8.7"),
        (0, ".visible .entry it("),
        (0, "    .param .u64 it_param_0"),
        (0, ")"),
        (0, "{"),
        (6, "    ld.param.u64    %rd1, [it_param_0];"),
        (0, "    // begin inline asm"),
        (9, "    @%p1 ld.global.b32 { %r1 }, [ %rd1 ];"),
        (0, "$L__BB0_1:"),
        (9, "    ret;"),
        (0, "}"),
    ]


def test_sass():
    text = """\
\t.headerflags\t@"EF_CUDA_SM90"
.text.it:
\t//## File "/home/someone/snippets/programs/it.py", line 6
        /*0000*/                   LDC R1, c[0x0][0x28] ;
\t//## File "/home/someone/snippets/programs/it.py", line 9
        /*0010*/              @!P0 LDG.E.128 R4, desc[UR4][R2.64] ;
.L_x_0:
        /*0020*/                   BRA `(.L_x_0) ;
\t.section .debug_line
"""
    assert tied("sass", text) == [
        (6, "        /*0000*/                   LDC R1, c[0x0][0x28] ;"),
        (9, "        /*0010*/              @!P0 LDG.E.128 R4, desc[UR4][R2.64] ;"),
        (0, ".L_x_0:"),
        (9, "        /*0020*/                   BRA `(.L_x_0) ;"),
    ]


def test_amd_assembly():
    text = """\
\t.text
it:
.Lfunc_begin0:
\t.file\t1 "/home/someone/snippets/programs" "it.py"
\t.loc\t1 6 0 prologue_end
\ts_load_dwordx2 s[0:1], s[2:3], 0x0
.Ltmp0:
\t.loc\t1 9 10 is_stmt 0
\tglobal_load_dwordx4 v[0:3], v0, s[0:1]
\ts_endpgm
\t.section\t.rodata,"a",@progbits
\t.amdhsa_kernel it
"""
    assert tied("amdgcn", text) == [
        (0, "    .text"),
        (0, "it:"),
        (6, "    s_load_dwordx2 s[0:1], s[2:3], 0x0"),
        (9, "    global_load_dwordx4 v[0:3], v0, s[0:1]"),
        (9, "    s_endpgm"),
    ]


# Compiled, without a GPU

KERNEL = """\
import triton
import triton.language as tl


@triton.jit
def it(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(y_ptr + offsets, x, mask=offsets < n)


@triton.jit
def described(x_desc):
    x_desc.store([0, 0], x_desc.load([8, 0]))


@triton.jit
def center(x_ptr):
    lanes = tl.arange(0, 16384)
    row = tl.load(x_ptr + lanes)
    tl.store(x_ptr + lanes, row - tl.sum(row))  # until the sum is known, all of the row is kept


@triton.jit
def three(x_ptr):
    tl.store(x_ptr + tl.arange(0, 3), 1)
"""
COMPILE = """
import json, sys
from recorder import stages
jobs = json.loads(sys.stdin.read())
print(json.dumps([stages.compile_launch(launch, target) for launch, target in jobs]))
"""


def launch(n=1024, alignment=16, kernel="it"):
    tensor = lambda alignment: {"dtype": "float32", "shape": [n], "strides": [1], "alignment": alignment}
    arguments = {"x_ptr": tensor(alignment)}
    if kernel == "it":
        arguments |= {"y_ptr": tensor(16), "n": n, "BLOCK": 1024}
    return {
        "kernel": kernel, "file": FILE, "grid": [1, 1, 1], "arguments": arguments,
        "constexprs": ["BLOCK"] if kernel == "it" else [], "options": {"num_warps": 4},
    }  # fmt: skip


DESCRIPTOR = {"dtype": "float32", "shape": [32, 4], "strides": [4, 1], "alignment": 16, "block_shape": [8, 4]}
JOBS = {
    "sm_90, described": (launch(kernel="described") | {"arguments": {"x_desc": DESCRIPTOR}}, "sm_90"),
    "sm_90": (launch(), "sm_90"),
    "sm_90, x unaligned": (launch(alignment=4), "sm_90"),
    "sm_90, n odd": (launch(n=1023), "sm_90"),
    "gfx942": (launch(), "gfx942"),
    "gfx942, x unaligned": (launch(alignment=4), "gfx942"),
    "refused": (launch(kernel="three"), "sm_90"),
    "one warp": (launch(kernel="center") | {"options": {"num_warps": 1}}, "sm_90"),
    "eight warps": (launch(kernel="center") | {"options": {"num_warps": 8}}, "sm_90"),
}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """All of them by one process, without TRITON_INTERPRET: importing Triton takes longer than compiling this."""
    from tests.recorder.conftest import Project

    project = Project(tmp_path_factory.mktemp("stages"))
    project.write("mkdocs.yml", "site_name: A toy\n")
    project.write(FILE, KERNEL)
    done = subprocess.run(
        [sys.executable, "-c", COMPILE], cwd=project.root, input=json.dumps(list(JOBS.values())), text=True,
        env=project.environment() | {"TRITON_CACHE_DIR": str(project.root / "cache")}, capture_output=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(zip(JOBS, json.loads(done.stdout), strict=True)), project.root


def code(compiled, name, stage):
    return compiled[0][name]["stages"][stage]


def loads(compiled, name, stage, pattern):
    return re.findall(pattern, code(compiled, name, stage)["text"])


def test_loads_are_as_wide_as_alignment_and_length_allow(compiled):
    ptx = r"ld\.global(\S*)"
    assert loads(compiled, "sm_90", "ptx", ptx) == [".v4.b32"] * 2
    assert loads(compiled, "sm_90, x unaligned", "ptx", ptx) == [".b32"] * 8
    assert loads(compiled, "sm_90, n odd", "ptx", ptx) == [".b32"] * 8
    assert len(loads(compiled, "sm_90", "sass", r"LDG\.E\.128")) == 2
    assert len(loads(compiled, "sm_90, x unaligned", "sass", r"LDG\.E R")) == 8
    amd = r"(?:global|buffer)_load_(dword\w*)"
    assert set(loads(compiled, "gfx942", "amdgcn", amd)) == {"dwordx4"}
    assert set(loads(compiled, "gfx942, x unaligned", "amdgcn", amd)) == {"dword"}


def test_what_does_not_fit_into_registers_is_counted(compiled):
    spills = {name: compiled[0][name]["spills"] for name in ("sm_90", "one warp", "eight warps")}
    assert spills["sm_90"] == spills["eight warps"] == 0 and spills["one warp"] > 512 - 255


def test_a_tensor_descriptor(compiled):
    assert len(loads(compiled, "sm_90, described", "ptx", r"cp\.async\.bulk\.tensor\.2d\.shared")) == 1


def test_every_stage_is_there(compiled):
    assert list(compiled[0]["sm_90"]["stages"]) == ["ttir", "ttgir", "llir", "ptx", "sass"]
    assert list(compiled[0]["gfx942"]["stages"]) == ["ttir", "ttgir", "llir", "amdgcn"]
    for name in ("sm_90", "gfx942"):
        assert compiled[0][name]["registers"] > 0 and compiled[0][name]["num_warps"] == 4


def test_every_stage_is_tied_to_the_lines_of_the_kernel(compiled):
    line = lambda text: KERNEL[: KERNEL.index(text)].count("\n") + 1
    first, last, load = line("@triton.jit\ndef it"), line("    tl.store(y_ptr"), line("    x = tl.load(")
    says = {"ttir": "tt.load", "ttgir": "tt.load|buffer_load", "llir": "ld.global|call.*buffer.load"}
    says |= {"ptx": "ld.global", "sass": "LDG.E", "amdgcn": "buffer_load_dwordx4"}
    for name in ("sm_90", "gfx942"):
        for stage, part in compiled[0][name]["stages"].items():
            assert set(part["lines"]) <= {0, *range(first, last + 1)}, (name, stage)
            pairs = list(zip(part["lines"], part["text"].splitlines(), strict=True))
            assert {number for number, text in pairs if re.search(says[stage], text)} == {load}, (name, stage)


def test_no_text_names_this_machine(compiled):
    everything, root = json.dumps(compiled[0]), str(compiled[1])
    for private in (root, str(ROOT), sys.prefix, "/tmp", "/home", "/root", "site-packages"):
        assert private not in everything, private


def test_what_the_compiler_refuses(compiled):
    refused = compiled[0]["refused"]
    assert list(refused) == ["error"] and "power of 2" in refused["error"]


# A launch is compiled here as the GPU compiled it

ALIKE = stages.specialization


def test_what_triton_specializes_on():
    tensor = {"dtype": "float32", "shape": [4], "strides": [1], "alignment": 16}
    assert ALIKE(tensor) == ALIKE({**tensor, "shape": [9]}) != ALIKE({**tensor, "alignment": 8})
    assert ALIKE({**tensor, "alignment": 4}) == ALIKE({**tensor, "alignment": 8})
    assert ALIKE(tensor) != ALIKE({**tensor, "dtype": "float16"})
    assert ALIKE(DESCRIPTOR) == ALIKE({**DESCRIPTOR, "shape": [9, 4]}) != ALIKE({**DESCRIPTOR, "block_shape": [4, 4]})
    assert ALIKE(16) == ALIKE(32) != ALIKE(17) == ALIKE(18) != ALIKE(1)
    assert ALIKE(2**31) != ALIKE(2**31 - 16) and ALIKE(-(2**31)) == ALIKE(16)
    assert ALIKE(True) is True and ALIKE(0.5) == ALIKE(1.5) != ALIKE(1)


@pytest.mark.parametrize("name", ["programs/vector_add", "programs/vector_add_bug"])
def test_launches_on_the_gpu_are_those_that_were_compiled_without_one(name):
    cpu, h200 = (recording.load(Snippet(name), device) for device in ("cpu", "h200"))
    seen = {"cpu": [], "h200": []}
    for device, kept in (("cpu", cpu), ("h200", h200)):
        for one in kept["launches"]:
            arguments = {
                key: value if key in one["constexprs"] else ALIKE(value) for key, value in one["arguments"].items()
            }
            seen[device].append({"kernel": one["kernel"], "options": one["options"], "arguments": arguments})
    assert seen["cpu"] == seen["h200"] and seen["cpu"]
    for entry in cpu["compiled"]:
        for number in entry["launches"]:
            assert seen["h200"][number]["arguments"] == entry["alike"]["arguments"]
            real, ours = h200["launches"][number], entry["targets"]["sm_90"]
            if "error" not in ours and h200["provenance"]["triton"] == cpu["provenance"]["triton"]:
                assert (real["registers"], real["shared"]) == (ours["registers"], ours["shared"])
