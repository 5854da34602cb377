# SPDX-License-Identifier: Apache-2.0
"""What each option of AMD's backend does to the code, as the page says it."""

from pathlib import Path

import pytest
from guards import environment

from tests.processes import run_code

COMPILE = """
from snippets.compiler.amd_options import Made
print({(name, value): Made.by(**{name: value})._asdict() for name, value in %s})
"""
EXPECTED = {
    ("matrix_instr_nonkdim", 16): {"product": "v_mfma_f32_16x16x16_f16"},
    ("matrix_instr_nonkdim", 32): {"product": "v_mfma_f32_32x32x8_f16", "spills": 0},
    ("waves_per_eu", 8): {"waves": 8, "registers": 64},
    ("num_stages", 3): {"shared": 65_536, "threads": 512},
    ("num_warps", 32): {"threads": 2048},
}


@pytest.fixture(scope="module")
def made() -> dict[tuple[str, int], dict]:
    done = run_code(COMPILE % list(EXPECTED), env=environment("cuda"), cwd=Path(__file__).resolve().parents[3])
    assert done.returncode == 0, done.stderr
    return eval(done.stdout)


@pytest.mark.parametrize("option", EXPECTED)
def test_what_an_option_does(made, option):
    expected = EXPECTED[option]
    assert {name: made[option][name] for name in expected} == expected
