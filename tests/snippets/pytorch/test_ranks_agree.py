# SPDX-License-Identifier: Apache-2.0
"""Two ranks hold the same bits if they launch the same config, or have reduced over the ranks, and otherwise not."""

from pathlib import Path

from guards import environment

from snippets.pytorch import ranks_agree as snippet
from tests.processes import run_python


def test_ranks_agree_by_one_config_or_by_a_reduction():
    done = run_python(Path(snippet.__file__), env=environment("cpu"))
    assert done.stdout.splitlines() == [
        "each its own config, the same bits: False",
        "the config of rank 0, the same bits: True",
        "each its own config, then all_reduce, the same bits: True",
    ]
