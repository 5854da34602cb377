# SPDX-License-Identifier: Apache-2.0
"""Both ways to turn a matrix are right at the edges; a tree of scopes adds up."""

import pytest
import torch
from guards import Guarded

pytest.importorskip("triton.profiler.profile", exc_type=ImportError, reason="this Triton has no Proton")

from snippets.tools import find_time as snippet


@pytest.mark.parametrize("name", snippet.TURNS)
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (5, 70), (130, 65)])
def test_a_matrix_is_turned(device, name, rows, columns):
    x = Guarded.around(torch.randn(rows, columns, device=device), before=4096, after=4096, fill=0xFF)
    assert torch.equal(snippet.TURNS[name](x.tensor), x.tensor.t())
    x.check("x")


def test_a_tree_adds_up(capsys):
    leaf = {"frame": {"name": "turn_row_kernel<a, b>"}, "metrics": {"time (ns)": 4e6, "bytes": 8e6}, "children": []}
    snippet.write_tree({"frame": {"name": "ROOT"}, "metrics": {}, "children": [leaf, leaf]})
    assert capsys.readouterr().out.splitlines() == ["ROOT: 0.800 ms", *["    turn_row_kernel: 0.400 ms, 2 GB/s"] * 2]
