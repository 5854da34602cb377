# SPDX-License-Identifier: Apache-2.0
"""Neighboring channels are copied 16 bytes at a time; a plane for each channel makes that one number at a time."""

import re
from pathlib import Path

from guards import environment

from snippets.models import conv2d_compiled
from tests.processes import run_script


def test_what_the_compiler_makes_of_each():
    done = run_script(Path(conv2d_compiled.__file__), env=environment("cuda"))
    assert done.returncode == 0, done.stderr
    rows = dict(re.findall(r"^(\w+ +\w+?\d+) +(\d.*)$", done.stdout, re.MULTILINE))
    rows = {tuple(name.split()): value for name, value in rows.items()}
    assert len(rows) == 6
    for dtype in ("float16", "bfloat16"):
        assert re.search(r"\bwgmma +16 bytes$", rows["channels_last", dtype])
        assert re.search(r"\bwgmma +2 bytes, by registers$", rows["contiguous", dtype])
    for layout, width in (("channels_last", 16), ("contiguous", 4)):
        assert re.search(rf"\bone by one +{width} bytes$", rows[layout, "float32"])
    spills = dict(re.findall(r"^(\w+, \w+), spills: (\d+)$", done.stdout, re.MULTILINE))
    # The tiles are chosen for channels_last. With a plane for each channel, the many addresses don't fit.
    assert {spills[f"channels_last, {dtype}"] for dtype in ("float16", "bfloat16", "float32")} == {"0"}


def test_widths_are_read_in_both_ways_of_writing_them():
    ptx = (
        "cp.async.cg.shared.global [ %r1 + 0 ], [ %rd2 + 0 ], 0x10, %r3;\n"
        "cp.async.ca.shared.global [ %r1 + 0 ], [ %rd2 + 0 ], 4, %r3;\n"
        "@%p1 ld.global.v2.b32 { %r1, %r2 }, [ %rd1 + 0 ];\n"
    )
    assert conv2d_compiled.copies(ptx) == "16 bytes and 4 bytes and 8 bytes, by registers"
