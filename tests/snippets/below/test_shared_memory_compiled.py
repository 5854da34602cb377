# SPDX-License-Identifier: Apache-2.0
"""Bank conflicts before anything runs: counted from a layout, they are those that the compiler counts."""

import ast
from pathlib import Path

import pytest
from guards import environment

from recorder import recording
from recorder.project import find
from snippets.below import shared_memory_compiled
from snippets.below.shared_memory import LAYOUTS, TILE, padded, swizzled
from snippets.below.shared_memory_compiled import (
    A_COLUMN,
    A_ROW,
    BANKS,
    EIGHT_PIECES,
    SWIZZLES,
    gl,
    places,
    wavefronts,
)
from tests.processes import run_code


@pytest.mark.parametrize("layout", [*LAYOUTS.values(), padded(4), swizzled(4, 2, 8)])
def test_every_element_has_a_place_of_its_own(layout):
    at = places(layout)
    assert sorted(at) == [(m, n) for m in range(TILE) for n in range(TILE)] and len(set(at.values())) == TILE * TILE


def test_places_by_hand():
    assert places(LAYOUTS["plain"])[3, 5] == 3 * 32 + 5
    assert places(LAYOUTS["padded"])[3, 5] == 3 * 33 + 5
    assert places(LAYOUTS["swizzled"])[3, 5] == 3 * 32 + (5 ^ 3)
    assert places(swizzled(4, 2, 8))[3, 5] == 3 * 32 + (((5 // 4) ^ 1) * 4 + 5 % 4)


def test_a_word_that_several_ask_for_is_sent_once():
    assert wavefronts(LAYOUTS["plain"], [(0, 3)] * 32) == 1
    assert wavefronts(LAYOUTS["plain"], [(0, 3), (1, 3), (1, 3)]) == 2


def test_the_swizzle_of_tma_is_one_of_the_others():
    assert gl.NVMMASharedLayout(128, 32, rank=2) == LAYOUTS["NVMMA"]
    assert places(LAYOUTS["NVMMA"]) == places(swizzled(4, 1, 8))


def test_counted_as_the_compiler_does():
    output = recording.load(find("below/shared_memory_compiled"), "cpu").output
    lines = output.split("## swizzles")[1].splitlines()[1:]
    found = dict(map(ast.literal_eval, line.split(": ")) for line in lines if line)
    assert [*found] == SWIZZLES and BANKS == 32
    for parameters, counts in found.items():
        layout = swizzled(*parameters)
        accesses = [A_ROW, A_COLUMN, EIGHT_PIECES][: len(counts)]
        assert [wavefronts(layout, each) for each in accesses] == counts, parameters
    said = output.split("## what the compiler says\n")[1].splitlines()
    for name in ("plain", "swizzled", "NVMMA"):
        row, column = wavefronts(LAYOUTS[name], A_ROW), wavefronts(LAYOUTS[name], A_COLUMN)
        assert f"{name}: {row} to store a row, {column} to load a column" in said


def test_what_the_compiler_says():
    """A few, by the Triton that is installed."""
    code = """
from snippets.below.shared_memory_compiled import *
print(asked(swizzled(1, 1, 8), COLUMNS), asked(swizzled(1, 1, 8), ROWS), asked(swizzled(4, 1, 4), PIECES))
print(instructions(LAYOUTS["swizzled"]))
print(linear(LAYOUTS["swizzled"]))
"""
    compiles = {key: value for key, value in environment("cpu").items() if key != "TRITON_INTERPRET"}
    done = run_code(code, env=compiles, cwd=Path(shared_memory_compiled.__file__).parents[2])
    assert done.returncode == 0, done.stderr
    counts, code, bits = done.stdout.splitlines()
    assert counts == "4 1 2" and code == "8 st.shared, 8 ld.shared, 1 barrier, 4,096 bytes of shared memory"
    at = places(LAYOUTS["swizzled"])
    assert [at[m, n] for m, n in ast.literal_eval(bits)] == [2**bit for bit in range(10)]
