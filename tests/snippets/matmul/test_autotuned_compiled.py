# SPDX-License-Identifier: Apache-2.0
"""What the compiler makes of a config: shared memory as the pruning reckons it, loads ahead, spills, matrix units."""

import json
from pathlib import Path

import pytest
from guards import environment

from snippets.matmul import autotuned_compiled
from snippets.matmul.autotuned import config
from tests.processes import run_code

ROOT = Path(autotuned_compiled.__file__).parents[2]
PROBE = """
import json
from snippets.matmul.autotuned import config, shared_bytes
from snippets.matmul.autotuned_compiled import compile_for
for (*tile, warps, stages) in json.loads({tried!r}):
    code = compile_for(config(*tile, warps=warps, stages=stages))
    print(json.dumps([*code, shared_bytes(2, *tile, stages)]))
"""


def compiled(*tried):
    """Registers, spilled values, bytes of shared memory, ``cp.async``, ``wgmma``, and bytes as reckoned, by config."""
    code = PROBE.format(tried=json.dumps(tried))
    done = run_code(code, env=environment("cuda", PYTHONPATH=str(ROOT)), cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_each_stage_takes_shared_memory_and_copies_ahead():
    one, two, three = compiled(*[(128, 256, 64, 8, stages) for stages in (1, 2, 3)])
    assert (one[3], two[3], three[3] - two[3]) == (0, 24, 12)  # in each of 256 threads, 16 bytes each
    assert three[2] - two[2] == 256 * 12 * 16 == (128 + 256) * 64 * 2
    assert [shared for _, _, shared, *_ in (two, three)] == [reckoned for *_, reckoned in (two, three)]


def test_warps_share_registers_and_the_matrix_units():
    four, eight, large, two = compiled(
        (64, 64, 64, 4, 3), (128, 256, 64, 8, 2), (128, 256, 64, 4, 2), (64, 64, 64, 2, 3)
    )
    assert four[1] == eight[1] == 0 and large[1] > 0, "256 sums in each thread spill"
    assert [wgmma for *_, wgmma, _ in (four, eight, large, two)] == [4, 4, 8, 0], "two warps cannot give it"
    assert four[2] == four[5] and two[2] == four[2] * 2 // 3, "nor need they a stage to read from"


def test_refuses_the_interpreter():
    with pytest.raises(ValueError, match="TRITON_INTERPRET=1 is set"):
        autotuned_compiled.compile_for(config(16, 32, 16, warps=4, stages=2))
