# SPDX-License-Identifier: Apache-2.0
"""Each way to say the precision compiles for each GPU, by matrix units from an A100 on unless they are forbidden."""

from pathlib import Path

from guards import environment

from snippets.matmul import precision_older_gpus
from tests.processes import run_script


def test_table():
    done = run_script(Path(precision_older_gpus.__file__), env=environment("gpu"))
    assert done.returncode == 0, done.stderr
    rows = {line[:24].strip(): line[24:].split() for line in done.stdout.splitlines()[1:]}
    assert list(rows) == list(precision_older_gpus.WAYS)
    for way, cells in rows.items():
        forbidden = "False" in way or "ieee" in way
        assert cells[1::2] == ["fma", "fma", *(["fma"] * 2 if forbidden else ["mma"] * 2)], way
        assert all(int(count) > 0 for count in cells[::2])
