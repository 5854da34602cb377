# SPDX-License-Identifier: Apache-2.0
"""The longest loop is found; in pairs, nothing of it converts numbers one by one."""

import re
from pathlib import Path

import pytest
from guards import environment

from snippets.models import int4_compiled
from tests.processes import run_script

LINE = "        /*{:04x}*/    {} ;"


def test_counts():
    done = run_script(Path(int4_compiled.__file__), env=environment("cpu"))
    assert done.returncode == 0, done.stderr
    number = lambda name: float(re.search(rf"^{name}: ([\d.]+)$", done.stdout, re.MULTILINE)[1])
    assert number("conversions, one by one") >= 1 > 0.1 > number("conversions, in pairs")
    assert 1 < number("instructions, in pairs") < number("instructions, one by one") / 2
    assert 1 < number("instructions, 8 bits in pairs") < 4


def test_only_the_longest_loop():
    code = ["I2F R1, R2", "IADD3 R1, R2, R3", "@P0 BRA `(.L_x_1)", "MOV R1, R2", "@!P0 BRA `(.L_x_0)", "BRA `(.L_x_2)"]
    lines = [LINE.format(16 * i, each) for i, each in enumerate(code)]
    sass = "\n".join([".L_x_0:", lines[0], ".L_x_1:", *lines[1:], ".L_x_2:", LINE.format(0, "EXIT")])
    assert int4_compiled.longest_loop(sass) == ["I2F", "IADD3", "BRA", "MOV", "BRA"]


def test_compiling_refuses_the_interpreter():
    with pytest.raises(ValueError, match="TRITON_INTERPRET=1 is set"):
        int4_compiled.compiled(8, 4, True)
