# SPDX-License-Identifier: Apache-2.0
"""The compiler copies four neighbors at once for each thread."""

from pathlib import Path

from guards import environment

from snippets.start import recurrence_compiled
from tests.processes import run_script


def test_four_neighbors_at_once():
    done = run_script(Path(recurrence_compiled.__file__), env=environment("gpu"))
    assert done.returncode == 0, done.stderr
    assert "copies to shared memory, 16 bytes:" in done.stdout and "stores, 16 bytes:" in done.stdout
