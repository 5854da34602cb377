# SPDX-License-Identifier: Apache-2.0
"""Assertions of the lab fail if a kernel is not right or wrong as the text says."""

import runpy

import pytest

from recorder.project import Lab

LAB = Lab("programs/labs/copy_a_bug_hunt")


SHIFTED = "offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)"
FAULTS = {
    "the first suspect, mended": ("    offsets = tl.arange(", "    offsets = tl.program_id(0) * 4 + tl.arange("),
    "the second suspect, mended": ("mask = lanes < n", "mask = offsets < n"),
    "the second suspect without any mask": ("mask = lanes < n", "mask = lanes < 0"),
    "the right kernel with the first bug": (SHIFTED, "offsets = tl.arange(0, BLOCK_SIZE)"),
    "the right kernel with the second bug": (
        f"{SHIFTED}\n    mask = offsets <",
        f"{SHIFTED}\n    mask = 0 * offsets <",
    ),
    "the third suspect, fixed": ("offsets = pid + tl.arange", "offsets = pid * BLOCK_SIZE + tl.arange"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_assertions_see_a_kernel_that_is_not_as_the_text_says(fault, tmp_path):
    text = LAB.path.read_text("utf-8")
    old, new = FAULTS[fault]
    assert old in text
    changed = tmp_path / "lab.py"
    changed.write_text(text.replace(old, new), "utf-8")
    with pytest.raises(AssertionError):
        runpy.run_path(str(changed))
