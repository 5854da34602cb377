# SPDX-License-Identifier: Apache-2.0
"""The bank conflicts of ``shared_memory.py``, counted before anything runs; and the instructions that it compiles to.

- :func:`wavefronts`: counted from where a layout puts each element. A wavefront takes one word from each bank.
- :func:`asked`: what the compiler says, by ``gl.bank_conflicts``, for three kinds of access: a warp stores a row, loads
  a column, or loads 16 bytes of each of 32 rows, which go eight rows at a time.

Units: wavefronts of a warp's access of four bytes for each thread; of 16 bytes, of a quarter of the warp.

Run it with ``python shared_memory_compiled.py``; it needs no GPU.
"""

import ast
import contextlib
import io
import itertools
import os
import re
import subprocess
import sys
from collections import defaultdict

import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from snippets.below.gluon_copy_compiled import compiled
from snippets.below.shared_memory import COLUMNS, LAYOUTS, ROWS, TILE, swizzled, transpose_kernel

BANKS = 32
PIECES = gl.BlockedLayout([1, 4], [32, 1], [1, 4], order=[1, 0])  # 16 bytes of each row
SWIZZLES = [*itertools.product((1, 2, 4, 8), (1, 2, 4, 8), (2, 4, 8, 16, 32))]
ACCESSES = (ROWS, COLUMNS, PIECES)


# --8<-- [start:places]
def places(layout) -> dict[tuple[int, int], int]:
    """Return at which word of shared memory each element of the tile is."""
    if isinstance(layout, gl.PaddedSharedLayout):
        ((every, words),) = layout.interval_padding_pairs
        at = range(TILE * TILE)
        return {divmod(i, TILE): i + i // every * words for i in at}
    view = layout.format_tensor_view([TILE, TILE])  # "(1:0)" is offset 32
    found = re.findall(r"\(\s*(\d+):\s*(\d+)\)", view)
    return {
        divmod(i, TILE): int(row) * TILE + int(column)
        for i, (row, column) in enumerate(found)
    }
# --8<-- [end:places]


# --8<-- [start:wavefronts]
def wavefronts(layout, elements: list[tuple[int, int]]) -> int:
    """Return how many words the busiest bank is asked for."""
    at, asked = places(layout), defaultdict(set)
    for element in elements:
        asked[at[element] % BANKS].add(at[element])
    return max(map(len, asked.values()))
# --8<-- [end:wavefronts]


A_ROW = [(5, column) for column in range(32)]
A_COLUMN = [(row, 5) for row in range(32)]
EIGHT_PIECES = [(row, column) for row in range(8) for column in range(4, 8)]


# --8<-- [start:asked]
@gluon.jit
def conflicts_kernel(
    TILE: gl.constexpr, THREADS: gl.constexpr, SHARED: gl.constexpr
):  # fmt: skip
    tile = gl.allocate_shared_memory(gl.float32, [TILE, TILE], SHARED)
    values = tile.load(THREADS)
    gl.static_print(gl.bank_conflicts(values.type, tile.type))
# --8<-- [end:asked]


@gluon.jit
def linear_kernel(TILE: gl.constexpr, SHARED: gl.constexpr):
    gl.static_print(gl.to_linear_layout(SHARED, [TILE, TILE]))


def printed(kernel, **constants) -> str:
    """Return what a kernel prints while it is compiled."""
    with contextlib.redirect_stdout(io.StringIO()) as said, triton.knobs.compilation.scope():
        triton.knobs.compilation.always_compile = True  # from the cache it would say nothing
        compiled(kernel, {}, **constants)
    return said.getvalue()


def asked(shared, threads) -> int:
    """Return the wavefronts of an access as the compiler counts them: one, and those that conflicts add."""
    said = printed(conflicts_kernel, TILE=TILE, THREADS=threads, SHARED=shared)
    return 1 + int(re.findall(r"\d+", said)[-1])


def linear(shared) -> list[list[int]]:
    """Return, for each bit of an offset, the row and the column that it flips."""
    said = printed(linear_kernel, TILE=TILE, SHARED=shared)
    return ast.literal_eval(re.search(r"offset_bases=(\[\[.+?\]\])", said)[1])


def instructions(layout) -> str:
    """Say how the transpose of float32 stores a tile and loads it, by a thread's instructions."""
    types = {name: "*fp32" if name.endswith("ptr") else "i32" for name in transpose_kernel.arg_names[:5]}
    options = {"stride_n": 1, "TILE": TILE, "ROWS": ROWS, "COLUMNS": COLUMNS, "SHARED": layout}
    code = compiled(transpose_kernel, types, **options)
    ptx = code.asm["ptx"]
    found = re.findall(r"\b(stmatrix|st\.shared|ld\.shared)\b(?:\.\w+)*?(\.x\d|\.v\d)?(?:\.shared)?\.b\d+", ptx)
    counts = {kind: sum(name == kind for name, _ in found) for kind in ("st.shared", "stmatrix", "ld.shared")}
    said = [f"{count} {kind}" for kind, count in counts.items() if count]
    return f"{', '.join(said)}, {ptx.count('bar.sync')} barrier, {code.metadata.shared:,} bytes of shared memory"


def main():
    if os.environ.get("TRITON_INTERPRET") == "1":  # under which nothing compiles: begin again without it
        without = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
        sys.stdout.flush()
        subprocess.run([sys.executable, "-m", "snippets.below.shared_memory_compiled"], env=without, check=True)
        return
    print("## counted from the layout")
    for name, layout in LAYOUTS.items():
        print(f"{name}, to store a row: {wavefronts(layout, A_ROW)}")
        print(f"{name}, to load a column: {wavefronts(layout, A_COLUMN)}")
    print("## what the compiler says")
    for name, layout in LAYOUTS.items():
        if name != "padded":  # of which it cannot say it: shared_memory_bug.py
            print(f"{name}: {asked(layout, ROWS)} to store a row, {asked(layout, COLUMNS)} to load a column")
    print("## instructions of a thread")
    for name, layout in LAYOUTS.items():
        print(f"{name}: {instructions(layout)}")
    print("## bits")
    for name in ("plain", "swizzled"):
        print(f"{name}: {linear(LAYOUTS[name])}")
    print("## swizzles, by the compiler: a row, a column, eight pieces of 16 bytes")
    for parameters in SWIZZLES:
        counts = [asked(swizzled(*parameters), threads) for threads in ACCESSES[: 2 + (parameters[0] >= 4)]]
        print(f"{parameters}: {counts}")


if __name__ == "__main__":
    main()
