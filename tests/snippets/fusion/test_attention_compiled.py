# SPDX-License-Identifier: Apache-2.0
"""The main loop that is found holds as many matmuls and exponentials as the tile says; other loops are left out."""

import re
from pathlib import Path

import pytest
from guards import environment

from snippets.fusion import attention_compiled
from tests.processes import run_script

LINE = "        /*{:04x}*/    {} ;"


def test_counts_of_the_tile():
    """128 queries by 64 keys in 4 warps: 2 x head_dim / 16 and 2 x 64 / 16 matmuls of 64 rows; 64 weights a thread."""
    done = run_script(Path(attention_compiled.__file__), env=environment("gpu"))
    assert done.returncode == 0, done.stderr
    number = lambda name: int(re.search(rf"^{name}: (\d+)$", done.stdout, re.MULTILINE)[1])
    for head_dim in (64, 128):
        assert number(f"matmuls in a step, {head_dim}") == 2 * head_dim // 16 + 2 * 64 // 16
        assert 64 <= number(f"exponentials in a step, {head_dim}") <= 72
        assert number(f"waits in a step, {head_dim}") >= 1
    assert number("registers, 64") <= 168 < number("registers by descriptors without a limit, 64")


def test_only_the_first_loop_that_multiplies():
    code = ["MUFU.EX2 R1, R2", "HGMMA.64x64x16.F32.BF16 R24, gdesc[UR8], !UPT", "IADD3 R1, R2, R3"]
    code += ["@P0 WARPGROUP.DEPBAR.LE gsb0, 0x1", "@!P0 BRA `(.L_x_1)", "HGMMA.64x8x16.F32.BF16 R1", "BRA `(.L_x_2)"]
    lines = [LINE.format(16 * i, each) for i, each in enumerate(code)]
    sass = "\n".join([".L_x_0:", LINE.format(0, "BRA `(.L_x_0)"), ".L_x_2:", lines[0], ".L_x_1:", *lines[1:]])
    assert attention_compiled.main_loop(sass) == ["HGMMA.64x64x16.F32.BF16", "WARPGROUP.DEPBAR.LE gsb0, 0x1"]
    with pytest.raises(ValueError, match="no loop"):
        attention_compiled.main_loop("\n".join(lines))


def test_compiling_refuses_the_interpreter():
    with pytest.raises(ValueError, match="TRITON_INTERPRET=1 is set"):
        attention_compiled.compiled(64)
