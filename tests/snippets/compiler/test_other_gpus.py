# SPDX-License-Identifier: Apache-2.0
"""It compiles the course's kernels for GPUs that are not there, and says what each has no room for."""

import re
from pathlib import Path
from unittest import mock

import pytest
import triton
from guards import environment

from snippets.compiler import other_gpus as module
from tests.processes import run_code

ROOT = Path(__file__).resolve().parents[3]
COMPILE = """
from snippets.compiler.other_gpus import GPUS, LARGE_TILE, by_pointers, compile_for, launches
add, tile = dict(launches())["vector add"], {**LARGE_TILE, "BLOCK_N": 64, "BLOCK_M": 64}
for name, gpu in GPUS.items():
    print(name, *compile_for(gpu, add)[:3], *compile_for(gpu, by_pointers(tile, 4, 3)), sep="|")
"""
KINDS = list(module.GPUS)


@pytest.fixture(scope="module")
def compiled() -> dict[str, list[str]]:
    """By GPU: registers, spills and shared memory of a vector add, then all that is said of a small matrix product."""
    done = run_code(COMPILE, env=environment("cuda"), cwd=ROOT)
    assert done.returncode == 0, done.stderr
    rows = [line.split("|") for line in done.stdout.splitlines()]
    return {name: rest for name, *rest in rows}


def test_a_vector_add_needs_little_anywhere(compiled):
    assert list(compiled) == KINDS
    for registers, spills, shared, *_ in compiled.values():
        assert 0 < int(registers) < 64 and int(spills) == int(shared) == 0


def test_a_product_is_computed_by_the_matrix_units_of_each_gpu(compiled):
    assert {name: rest[6] for name, rest in compiled.items()} == {
        "H200": "wgmma", "A100": "mma.sync", "RTX 4090": "mma.sync", "T4": "one by one",
        "B200": "tcgen05.mma", "RTX 5090": "mma.sync", "MI300X": "v_mfma", "MI350X": "v_mfma",
    }  # fmt: skip


def test_tiles_wait_in_shared_memory_as_the_gpu_can(compiled):
    tiles = {name: (rest[7], int(rest[8])) for name, rest in compiled.items()}
    assert tiles["H200"] == ("cp.async", 3) and tiles["A100"] == tiles["RTX 4090"] == ("cp.async", 2)
    assert tiles["T4"] == ("registers", 1) and tiles["MI300X"][0] == "registers"
    step = 2 * 64 * 64 * 2  # bytes of a tile of a and one of b
    assert int(compiled["H200"][5]) == 3 * step and int(compiled["A100"][5]) == 2 * step


def test_a_row_says_what_does_not_fit_and_what_is_refused():
    code = module.Code(registers=255, spills=1032, shared=200_000, product="mma.sync", tiles="cp.async", buffers=1)
    gpu, launch = module.GPUS["RTX 4090"], module.by_pointers(module.LARGE_TILE, 8, 3)
    text = module.row("RTX 4090", gpu, code)
    assert re.sub(" +", " ", text) == "RTX 4090 255 1,032 200,000 of 101,376: too much 1 buffer, cp.async mma.sync"
    refusal = triton.CompilationError(None, None, 'ValueError("type fp8e4nv not supported. Others are fp8e5")')
    with mock.patch.object(module, "compile_for", side_effect=refusal):
        made = module.attempt(gpu, launch)
    assert module.row("T4", gpu, made) == "T4        refused: type fp8e4nv not supported"


def test_the_largest_number_of_stages_is_the_last_that_fits():
    def compile_for(gpu, launch):
        return module.Code(1, 0, 49_152 * launch.options["num_stages"], "", "", 0)

    with mock.patch.object(module, "compile_for", compile_for):
        assert module.stages_that_fit(module.GPU(None, 3 * 49_152)) == ([98_304, 147_456, 196_608, 245_760], 3)
