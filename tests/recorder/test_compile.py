# SPDX-License-Identifier: Apache-2.0
"""Tie each compiler stage to its source, and compile the code of the real launch."""

import json
import os
import re
import subprocess
import sys
import time
from importlib.metadata import version

import msgspec
import pytest

from recorder import runner
from recorder.project import COMPILER
from recorder.recording import Compiled
from recorder.source import line_of
from tests.toy import ROOT, Project

pytest.importorskip("triton")
from recorder.compile import digest, in_one_place, specialization, tie_to_source
from tests.limits import HANGS

FILE = "snippets/programs/it.py"
pytestmark = pytest.mark.long  # the first may download a Triton


def tied(stage, text):
    return [(line, text) for text, line in tie_to_source(stage, text, FILE)]


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


def test_inline_assembly_comes_from_one_line():
    """Since Triton 3.9, LLVM counts its second line as the next line of the source."""
    begin, end = "\t// begin inline asm\n", "\n\t// end inline asm\n"
    ptx = f"\t.loc\t1 8 9\n{begin}\t.loc\t1 8 9\n\tmov.u32 %r1, 0x0;\n\t.loc\t1 9 9\n\tld.global;{end}"
    ptx += f"\t.loc\t1 9 5\n{begin}\tst.global;{end}\t.loc\t1 6 1\n\tret;\n"
    lines = dict((text.strip(), line) for line, text in tied("ptx", in_one_place(ptx)))
    assert [lines[text] for text in ("mov.u32 %r1, 0x0;", "ld.global;", "st.global;", "ret;")] == [8, 8, 9, 6]


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
SETTINGS = """\
[it]
stages = [{launch = "it[1]", targets = ["sm_90", "gfx942"], stages = ["ttir", "ptx"]}, {launch = "three[0]"}]
"""
COMPILE = """
import json, sys
from pathlib import Path
from recorder import compile
from recorder.runner import _by_name
jobs, launches = json.loads(sys.stdin.read())
print(json.dumps([compile.compile_launch(launch, target) for launch, target in jobs]))
Path("launches.json").write_text(json.dumps(_by_name(launches)))
compile.main("programs/it", "launches.json", "result.json")
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
LAUNCHES = [launch(), launch(n=2048), launch(kernel="three"), launch(n=1023)]  # the first two share their code


@pytest.fixture(scope="module")
def compiler():
    """Return the folder of the Triton that compiles what pages show; kept in the checkout, to be downloaded once."""
    return runner.fetch_triton(COMPILER, time.monotonic() + HANGS, lambda text: None)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory, compiler):
    """Compile all of them in one process without TRITON_INTERPRET: importing Triton takes longer than compiling."""
    project = Project(tmp_path_factory.mktemp("compile"))
    project.write("mkdocs.yml", "site_name: A toy\n")
    project.snippet("it", KERNEL, SETTINGS)
    environment = project.environment() | {"TRITON_CACHE_DIR": str(project.root / "cache")}
    environment["PYTHONPATH"] = f"{compiler}{os.pathsep}{environment['PYTHONPATH']}"
    done = subprocess.run(
        [sys.executable, "-c", COMPILE], cwd=project.root, input=json.dumps([list(JOBS.values()), LAUNCHES]), text=True,
        env=environment, capture_output=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(zip(JOBS, json.loads(done.stdout.splitlines()[0]), strict=True)), project.root


def texts(compiled, name, stage):
    return "\n".join(text for text, _ in compiled[0][name]["stages"][stage])


def loads(compiled, name, stage, pattern):
    return re.findall(pattern, texts(compiled, name, stage))


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
        for stage, pairs in compiled[0][name]["stages"].items():
            assert {line for _, line in pairs} <= {0, *range(first, last + 1)}, (name, stage)
            assert {line for text, line in pairs if re.search(says[stage], text)} == {load}, (name, stage)


def test_no_text_names_this_machine(compiled):
    everything, root = json.dumps(compiled[0]), str(compiled[1])
    for private in (root, str(ROOT), sys.prefix, "site-packages"):
        assert private not in everything, private


def test_what_the_compiler_refuses(compiled):
    refused = compiled[0]["refused"]
    assert list(refused) == ["error"] and "power of 2" in refused["error"]


# What of it is recorded


@pytest.fixture(scope="module")
def entries(compiled):
    written = json.loads((compiled[1] / "result.json").read_bytes())
    assert written["compiler"] == COMPILER
    return msgspec.convert(written["compiled"], list[Compiled])


def test_launches_that_are_alike_share_their_code(entries):
    assert [(entry.launches, entry.kernel) for entry in entries] == [
        (["it[0]", "it[1]"], "it"),
        (["three[0]"], "three"),
        (["it[2]"], "it"),
    ]
    assert {tuple(entry.targets) for entry in entries} == {("sm_80", "sm_90", "sm_100", "gfx942")}


def test_the_text_is_kept_of_what_is_declared_and_the_digest_of_everything(entries):
    shared, refused, other = entries
    assert {target: list(code.stages) for target, code in shared.targets.items()} == {
        "sm_80": [], "sm_90": ["ttir", "ptx"], "sm_100": [], "gfx942": ["ttir"],
    }  # fmt: skip
    assert all("power of 2" in code.error and not code.digests for code in refused.targets.values())
    assert list(other.targets["sm_90"].digests) == ["ttir", "ttgir", "llir", "ptx", "sass"]
    assert not any(code.stages for code in other.targets.values())
    assert not set(shared.targets["sm_90"].digests.values()) & set(other.targets["sm_90"].digests.values())


def test_lines_that_are_kept_are_tied_to_places_not_to_numbers(entries, project):
    """A comment above a kernel then moves none of them."""
    (place,) = {line.place for line in entries[0].targets["sm_90"].stages["ptx"] if "ld.global" in line.text}
    for text in (KERNEL, "# one\n# two\n" + KERNEL.replace("    x = tl.load", "    # three\n    x = tl.load")):
        it = project.snippet("it", text).path
        assert text.splitlines()[line_of(it, "it", place) - 1].startswith("    x = tl.load(")


def test_numbers_of_registers_in_sass_are_no_difference_but_all_else_is():
    """From the same PTX, ptxas numbers the registers in many ways."""
    sass_digest = lambda text: digest("sass", [(line, 1) for line in text.splitlines()])
    old = sass_digest("/*0010*/ UIADD3 UR30, UP0, UPT, UR12, 0x2, URZ ;\n/*0020*/ @P1 IADD R2, R3, 0x1 ;")
    assert sass_digest("/*0010*/ UIADD3 UR28, UP1, UPT, UR10, 0x2, URZ ;\n/*0020*/ @P0 IADD R4, R255, 0x1 ;") == old
    for other in (
        "/*0010*/ UIADD3 UR30, UP0, UPT, UR12, 0x3, URZ ;\n/*0020*/ @P1 IADD R2, R3, 0x1 ;",
        "/*0010*/ UIADD3 UR30, UP0, UPT, URZ, 0x2, URZ ;\n/*0020*/ @P1 IADD R2, R3, 0x1 ;",
        "/*0010*/ UIADD3 UR30, UP0, UPT, UR12, 0x2, URZ ;\n/*0020*/ @P1 ISUB R2, R3, 0x1 ;",
    ):
        assert sass_digest(other) != old
    assert digest("ptx", [("add %r1", 1)]) != digest("ptx", [("add %r2", 1)])


RUN = """

if __name__ == "__main__":
    import torch
    x = torch.ones(4)
    it[(1,)](x, x, 4, BLOCK=4)
"""


def test_a_recording_is_compiled_by_the_fetched_triton_and_run_by_the_installed_one(compiler, project):
    (project.root / ".cache/triton").mkdir(parents=True)
    (project.root / ".cache/triton" / COMPILER).symlink_to(compiler)
    it = project.snippet("it", KERNEL + RUN, "[it]\ncompiled = true\n")
    new = runner.record(it, "cpu")
    assert (new.provenance.compiler, new.provenance.triton) == (COMPILER, version("triton"))
    assert new.code("it[0]", "sm_90").registers > 0 and not new.code("it[0]", "sm_90").error


# A launch is compiled here as the GPU compiled it

ALIKE = specialization


def test_what_triton_specializes_on():
    tensor = {"dtype": "float32", "shape": [4], "strides": [1], "alignment": 16}
    assert ALIKE(tensor) == ALIKE({**tensor, "shape": [9]}) != ALIKE({**tensor, "alignment": 8})
    assert ALIKE({**tensor, "alignment": 4}) == ALIKE({**tensor, "alignment": 8})
    assert ALIKE(tensor) != ALIKE({**tensor, "dtype": "float16"})
    assert ALIKE(DESCRIPTOR) == ALIKE({**DESCRIPTOR, "shape": [9, 4]}) != ALIKE({**DESCRIPTOR, "block_shape": [4, 4]})
    assert ALIKE(16) == ALIKE(32) != ALIKE(17) == ALIKE(18) != ALIKE(1)
    assert ALIKE(2**31) != ALIKE(2**31 - 16) and ALIKE(-(2**31)) == ALIKE(16)
    assert ALIKE(True) is True and ALIKE(0.5) == ALIKE(1.5) != ALIKE(1)
