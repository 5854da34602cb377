# SPDX-License-Identifier: Apache-2.0
"""What the compiler takes and refuses of ``tl.dot``, in a process that compiles; and how it is asked."""

import re
from pathlib import Path
from unittest import mock

import pytest
import triton
from guards import environment

from snippets.matmul import smallest_dot
from snippets.matmul.smallest_dot import DTYPES, GPUS, STEPS, least_on_matrix_units, least_step
from tests.processes import run_script

VERSION = tuple(map(int, triton.__version__.split(".")[:2]))
BITS = {"float64": 64, "float32": 32, "float16": 16, "bfloat16": 16, "float8": 8, "int8": 8}
# From 3.8 on 4 of float64 and 8 of float32, as the instructions of the matrix units have it.
NVIDIA = {64: 4, 32: 8, 16: 16, 8: 32} if VERSION >= (3, 8) else {64: 16, 32: 16, 16: 16, 8: 32}


def test_table():
    done = run_script(Path(smallest_dot.__file__), env=environment("gpu"))
    assert done.returncode == 0, done.stderr
    _, least, refused, numbers = re.split(r"^## .+\n", done.stdout, flags=re.MULTILINE)
    heads, *rows = (line.split() for line in least.splitlines())
    assert heads == list(GPUS) and [row[0] for row in rows] == list(DTYPES)
    for dtype, *cells in rows:
        assert [int(cell) for cell in cells] == [NVIDIA[BITS[dtype]]] * 3 + [1], dtype
    for line in refused.splitlines():
        dtype, said = line.split(maxsplit=1)
        assert said == f"Input shapes should have M >= 1, N >= 1 and K >= {NVIDIA[BITS[dtype]]}"
    assert "least K, H200, float16: 16\n" in numbers and "least K, MI300X, int8: 1\n" in numbers
    assert numbers.endswith("matrix units from K, MI300X, float16: 8\n")


def refuses_below(least):
    def compile_one(dtype, sides, target):
        assert sides[:2] == (1, 1)
        if sides[2] < least:
            raise triton.CompilationError(None, None, f"a listing\nK >= {least}, not {sides[2]}")
        return "one by one"

    return mock.patch.object(smallest_dot, "product", compile_one)


@pytest.mark.parametrize("least, said", [(1, ""), (8, "K >= 8, not 4"), (STEPS[-1], f"K >= 64, not {STEPS[-2]}")])
def test_the_least_step_and_what_was_said_to_half_of_it(least, said):
    with refuses_below(least):
        assert least_step("float16", GPUS["H200"]) == (least, said)


def test_says_that_nothing_compiles():
    with refuses_below(128), pytest.raises(ValueError, match=r"no K up to 64 .* for int8; .* K >= 128, not 64"):
        least_step("int8", GPUS["H200"])


def test_matrix_units_are_not_taken_for_one_by_one():
    asked = []
    answers = lambda dtype, sides, target: asked.append(sides) or ("v_mfma" if sides[2] >= 4 else "one by one")
    with mock.patch.object(smallest_dot, "product", answers):
        assert least_on_matrix_units("float16", GPUS["MI300X"]) == 4
    assert asked == [(32, 32, 1), (32, 32, 2), (32, 32, 4)]
