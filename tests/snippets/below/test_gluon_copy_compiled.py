# SPDX-License-Identifier: Apache-2.0
"""What the copies compile to: the width of loads follows the layout, up to 16 bytes; a conversion takes a barrier."""

from collections import Counter
from pathlib import Path

import pytest
from guards import environment

from snippets.below import gluon_copy_compiled
from snippets.below.gluon_copy_compiled import BYTES, accesses, said, width
from tests.processes import run_code

SIZES = {"float32": 4, "bfloat16": 2, "int8": 1}


@pytest.mark.parametrize("kind, expected", [*BYTES.items(), ("v2.b32", 8), ("v4.b32", 16), ("v2.b64", 16)])
def test_width(kind, expected):
    assert width(kind) == expected and list(BYTES.values()) == [1, 2, 4, 8]


def test_accesses_are_counted_by_kind():
    ptx = "@%p1 ld.global.v2.b32 { %r1, %r2 }, [ %rd1 + 0 ];\nst.global.b16 [%rd2], {%rs1};\nld.global.v2.b32 {%r3};"
    assert accesses(ptx, "ld.global") == Counter({8: 2}) and accesses(ptx, "st.global") == Counter({2: 1})
    assert said(Counter({8: 2, 1: 1})) == "2 x 8 bytes, 1 x 1 byte" and said(Counter()) == "none"


def test_what_it_prints():
    """With TRITON_INTERPRET=1, as here, it begins again without it."""
    code = "from snippets.below.gluon_copy_compiled import main\nmain()"
    done = run_code(code, env=environment("cpu"), cwd=Path(gluon_copy_compiled.__file__).parents[2])
    assert done.returncode == 0, done.stderr
    for dtype, size in SIZES.items():
        for each in (1, 2, 4, 8, 16):
            wide = min(16, size * each)
            loads = f"{32 * size // wide} x {wide} byte{'s' * (wide > 1)}"
            assert f"\n{dtype}, {each} for each thread: {loads}\n" in done.stdout
        assert f"\n{dtype}: sizePerThread = [{16 // size}], " in done.stdout
    tiles = done.stdout.split("## tiles\n")[1].splitlines()
    assert len(tiles) == 8
    for line in tiles:
        load, _, store = line.split(", ")[1].split(":")[0].split()
        moved = line.startswith("transposed")
        assert f"loads {'8 x 16' if load == 'rows' else '32 x 4'} bytes" in line
        assert f"stores {'8 x 16' if (store == 'columns') == moved else '32 x 4'} bytes" in line
        assert line.endswith("none, out of it none, barriers 0") == (load == store), "only a conversion takes it"
