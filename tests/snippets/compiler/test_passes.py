# SPDX-License-Identifier: Apache-2.0
"""The dump is taken apart into passes, and each pass does to the kernel what the lesson says of it."""

import contextlib
import os
import subprocess
from itertools import pairwise

import pytest
import torch
from guards import Guarded, recorded_accesses

from snippets.compiler import passes as module
from snippets.compiler.passes import Pass, changes, dump, loop, passes, short, when_begins

# A stage with two passes, one of which tidies up a function and one of which writes a draft; and the next stage.
DUMP = """warning: of something else
// the stage begins: ttir
// -----// IR Dump Before Inliner (inline) ('builtin.module' operation) //----- //
#loc = loc("/tmp/passes.py":5:0)
module {
    %0 = tt.call @zeros() loc(#loc1)
}

// -----// IR Dump Before Canonicalizer (canonicalize) ('tt.func' operation: @zeros) //----- //
module {
}
// -----// IR Dump Before TritonGPUPipeline (tritongpu-pipeline) ('builtin.module' operation) //----- //
#blocked = #ttg.blocked<{sizePerThread = [4]}>
module {
    %7 = tt.call @zeros() loc("acc"(#loc2))
    %8 = tt.load %7 : tensor<4xf32, #blocked> loc(#loc)
}
// -----// SoftwarePipeliner internal IR Dump After: LowerLoops
module {
}
// the stage begins: ttgir
// -----// IR Dump Before Canonicalizer (canonicalize) ('builtin.module' operation) //----- //
#blocked = #ttg.blocked<{sizePerThread = [8]}>
#blocked1 = #ttg.blocked<{sizePerThread = [4]}>
module {
    %8 = tt.load %7 : tensor<4xf32, #blocked1> loc(#loc)
    %9 = tt.load %8 : tensor<4xf32, #blocked> loc(#loc)
}
"""


def test_a_dump_is_taken_apart():
    inline, pipeline = passes(DUMP)
    assert [(one.name, one.stage) for one in (inline, pipeline)] == [("inline", "ttir"), ("tritongpu-pipeline", "ttir")]
    assert inline.before == ["module {", "%0 = tt.call @zeros()", "}"]
    assert inline.after == pipeline.before, "neither the function by itself nor the draft is a pass"
    four, eight = (f"#blocked{i} = #ttg.blocked<{{sizePerThread = [{n}]}}>" for i, n in (("", 4), ("1", 8)))
    assert changes(inline) == [f"+ {four}", "+ %8 = tt.load %7 : tensor<4xf32, #blocked>"], "not the call: %0 is %7 now"
    assert changes(pipeline) == [
        f"+ {eight}",
        "- %7 = tt.call @zeros()",
        "+ %9 = tt.load %8 : tensor<4xf32, #blocked1>",
    ], "a layout keeps its name"


def test_headers_of_triton_3_9_are_read():
    newer = DUMP.replace("Inliner (inline)", "InlinerPass: inline{max-iterations=4 }").replace(
        "Canonicalizer (canonicalize)", "CanonicalizerPass: canonicalize{top-down=true}"
    )
    assert newer.count("Pass: ") == 3
    assert passes(newer) == passes(DUMP)


@pytest.mark.parametrize("text", ["", "warning\n", "// -----// IR Dump After: LowerLoops\nmodule {\n}\n"])
def test_a_text_without_passes_is_refused(text):
    with pytest.raises(ValueError, match="MLIR_ENABLE_DUMP=1"):
        passes(text)


def test_what_does_not_compile_is_said():
    with pytest.raises(RuntimeError, match="sm_1 does not compile: KeyError: 'sm_1'"):
        dump("sm_1")


def test_each_dump_has_an_empty_cache(monkeypatch, tmp_path):
    """What Triton finds in its cache it does not compile again, and then it dumps nothing."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    (tmp_path / "what was compiled").touch()

    def run(command, env, **how):
        assert env["MLIR_ENABLE_DUMP"] == "1" and env["TRITON_INTERPRET"] == "0"
        assert os.listdir(env["TRITON_CACHE_DIR"]) == []
        assert command[2:] == ["sm_90", "num_stages=1"]
        return subprocess.CompletedProcess(command, 0, stderr="the dump")

    monkeypatch.setattr(subprocess, "run", run)
    assert dump("sm_90", num_stages=1) == "the dump"


def test_a_long_line_loses_types():
    wide = "x" * 200
    line = f"%a = op %b {{n = 1 : i32, eltTypeA = 5 : i32, k = 16 : i32}} : tensor<{wide}> -> tensor<4xf32>"
    assert short(line) == "%a = op %b {n = 1, k = 16} : … -> tensor<4xf32>"
    assert (
        short(f"%a = op %b : !ttg.memdesc<{wide}>") == short(f"%a = op %b : (!ttg<{wide}>) -> <4>") == "%a = op %b : …"
    )
    assert short("%a = op %b : tensor<4xf32>") == "%a = op %b : tensor<4xf32>"
    assert short(f"%a = ttg.convert_layout %b : {wide} -> #mma").split() == [
        "%a",
        "=",
        "ttg.convert_layout",
        "%b",
        ":",
        wide,
        "->",
        "#mma",
    ]
    assert short("+   " + "word " * 20) == "+   " + "word " * 15 + "word\n" + " " * 8 + "word " * 3 + "word"


@pytest.fixture(scope="module")
def made():
    return passes(dump("sm_90"))


def did(made: list[Pass], name: str, which: int = 0) -> str:
    return "\n".join(changes([one for one in made if one.name == name][which]))


def test_stages_follow_each_other(made):
    assert list(dict.fromkeys(one.stage for one in made)) == list(module.STAGES)
    assert all(one.after is following.before for one, following in pairwise(made))
    assert set(module.SHOWN) <= {one.name for one in made}
    assert not any("/passes.py" in line for one in made for line in one.before), "no places in the source"


def test_layouts_come_with_tritongpu_ir(made):
    assert not any("#ttg" in line for line in when_begins(made, "ttgir"))
    assert "#ttg.blocked<{sizePerThread = [1, 1]" in did(made, "convert-triton-to-tritongpu")
    assert "+ #blocked6 = #ttg.blocked<{sizePerThread = [1, 8]" in did(made, "tritongpu-coalesce"), "16 bytes"


def test_the_product_goes_to_the_matrix_units(made):
    lines = did(made, "tritongpu-accelerate-matmul").splitlines()
    assert sum("tt.dot" in line and line[0] == "-" for line in lines) == 1
    assert sum("warp_group_dot" in line and line[0] == "+" for line in lines) == 1
    removed = did(made, "tritongpu-remove-layout-conversions", 1).splitlines()
    assert sum(line.startswith("-   ") and "convert_layout" in line for line in removed) == 2, "in the loop"
    assert not any("convert_layout" in line for line in loop(when_begins(made, "llir")))


def test_copies_run_ahead_in_shared_memory(made):
    lines = did(made, "tritongpu-pipeline").splitlines()
    copies = [line for line in lines if "async_copy_global_to_local" in line]
    assert [line[2] == " " for line in copies] == [False] * 4 + [True] * 2, "two steps before the loop, one in it"
    tile = 64 * 64 * 2
    assert f"allocation.offset = {3 * tile} : i32" in did(made, "allocate-shared-memory-nv")
    assert f"ttg.shared = {6 * tile} : i32" in did(made, "allocate-shared-memory-nv")
    assert did(made, "convert-triton-gpu-to-llvm").count("nvg.wgmma %") == 64 // 16


def test_the_kernel_multiplies(device):
    # float16: the interpreter gets bfloat16 wrong.
    a, b = (torch.randn(shape, device=device, dtype=torch.float16) for shape in ((16, 48), (48, 16)))
    a, b = Guarded.around(a, before=8, after=8, fill=0x7F), Guarded.around(b, before=8, after=8, fill=0x7F)
    c = Guarded((16, 16), torch.float32, device, before=8, after=8, fill=0x5A)
    with recorded_accesses() if device == "cpu" else contextlib.nullcontext([]):
        module.matmul_kernel[(1,)](a.tensor, b.tensor, c.tensor, 48, BLOCK=16)
    torch.testing.assert_close(c.tensor.double(), a.tensor.double() @ b.tensor.double(), rtol=1e-4, atol=1e-4)
    for name, tensor in {"a": a, "b": b, "c": c}.items():
        tensor.check(name)
