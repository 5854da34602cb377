# SPDX-License-Identifier: Apache-2.0
"""The notebook shows what its text says of it."""

import json
import re

from recorder.project import Lab

LAB = Lab("compiler/labs/poke_inside_jit")


def shown() -> str:
    cells = json.loads(LAB.notebook.read_text("utf-8"))["cells"]
    outputs = [output for cell in cells if cell["cell_type"] == "code" for output in cell["outputs"]]
    return "".join("".join(output["text"]) for output in outputs)


def test_what_the_text_says_of_errors():
    text = shown()
    assert len(re.findall(r"ValueError: Did you forget to add @triton.jit \?", text)) == 2
    assert "RuntimeError: Cannot call @triton.jit'd outside of the scope of a kernel" in text
    assert "AttributeError: 'JITFunction' object has no attribute 'cache'" in text
    assert "program_id axis must be 0, 1, or 2 but got 3" in text


def test_what_the_text_says_of_a_builder_of_its_own():
    text = shown()
    assert "return self.tensor(self.builder.create_get_program_id(axis), tl.int32)" in text
    assert "a correct module: True" in text
    for instruction in ("tt.get_program_id x : i32", "tt.make_range", "arith.muli", "tt.splat", "arith.addi"):
        assert f"= {instruction}" in text
    lanes = re.findall(r"^program (\d): TensorHandle, \[([\d ]+)\]$", text, re.M)
    assert [(int(pid), [int(lane) for lane in held.split()]) for pid, held in lanes] == [
        (pid, [4 * pid + lane for lane in range(4)]) for pid in range(3)
    ]
    assert re.search(r"^CACHE_MODIFIER +NONE CA CG", text, re.M)


def test_what_the_text_says_of_offsets_and_casts():
    text = shown()
    kinds = dict(re.findall(r"^(offsets|pointers|cast) +tensor  dtype (\S+)", text, re.M))
    assert kinds == {"offsets": "int32", "pointers": "pointer<fp32>", "cast": "fp16"}
    assert "'str' object has no attribute 'scalar'" in text.split("to another device")[1]


def test_what_the_text_says_of_the_hints():
    for hint, instruction in (
        ("none", "ld.global.b32"), ("cache_modifier", "ld.global.cg.b32"),
        ("eviction_policy", "ld.global.L1::evict_first"), ("volatile", "ld.volatile.global.b32"),
    ):  # fmt: skip
        assert re.search(rf"^{hint} +{re.escape(instruction)}", shown(), re.M)


def test_what_the_text_says_of_the_cache():
    rows = re.findall(r"^(new|known) +(ld\S+) +(\S.*)$", shown(), re.M)
    said = {title: (state, load) for state, load, title in rows}
    assert said == {
        "the same again": ("known", "ld.global.v4.b32"),
        "other values, n = 2048": ("known", "ld.global.v4.b32"),
        "n = 1000, no multiple of 16": ("new", "ld.global.b32"),
        "n = 1001, nor is this": ("known", "ld.global.b32"),
        "n = 1": ("new", "ld.global.b32"),
        "n = 2**31, too large for 32 bits": ("new", "ld.global.v4.b32"),
        "x starts 4 bytes later": ("new", "ld.global.b32"),
        "float16": ("new", "ld.global.v4.b32"),
        "BLOCK_SIZE = 512": ("new", "ld.global.v4.b32"),
        "num_warps = 8": ("new", "ld.global.v4.b32"),
    }
    new = sum(kind == "new" for kind, _ in said.values())
    before, after = re.findall(r"^in memory: (\d+)  on disk: (\d+)$", shown(), re.M)
    assert before == (str(new + 1),) * 2 and after == ("1", str(new + 1))
    # The solution: n is not specialized on, but 2**31 has another type; no store is wide.
    solution = re.findall(r"entries: (\d+)  (\S+)$", shown(), re.M)
    assert solution == [("1", "st.global.b32")] * 4 + [("2", "st.global.b32")]
