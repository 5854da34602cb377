# SPDX-License-Identifier: Apache-2.0
"""Both ways to turn a matrix are right at the edges; a tree of scopes adds up."""

import contextlib

import pytest
import torch
from guards import Guarded, check_each_once, recorded_accesses

pytest.importorskip("triton.profiler.profile", exc_type=ImportError, reason="this Triton has no Proton")

from snippets.tools import find_time as snippet

INTERPRETED = not torch.cuda.is_available()


@pytest.mark.parametrize("name", snippet.TURNS)
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (5, 70), (130, 65)])
def test_a_matrix_is_turned(device, name, rows, columns):
    x = Guarded.around(torch.randn(rows, columns, device=device), before=2**15, after=2**15, fill=0xFF)
    out = Guarded((columns, rows), torch.float32, device, before=2**15, after=2**15, fill=0xFF)
    with recorded_accesses() if INTERPRETED else contextlib.nullcontext() as accesses:
        if name == "by rows":
            snippet.turn_row_kernel[(rows,)](x.tensor, out.tensor, rows, columns, BLOCK=128)
        else:
            grid = (-(-rows // 64), -(-columns // 64))
            snippet.turn_tile_kernel[grid](x.tensor, out.tensor, rows, columns, TILE=64)
    if accesses:
        check_each_once(accesses, "load", x=x.tensor)
        check_each_once(accesses, "store", out=out.tensor)
    out.check("out")
    assert torch.equal(out.tensor, x.tensor.t()) and torch.equal(snippet.TURNS[name](x.tensor), x.tensor.t())


@pytest.mark.skipif(not INTERPRETED, reason="programs are started anywhere only by the interpreter")
def test_offsets_beyond_two_to_the_31():
    x, n = torch.ones(1), 2**17
    for kernel, pids, sizes in (
        (snippet.turn_row_kernel, (n - 1, 0, 0), {"BLOCK": 16}),
        (snippet.turn_tile_kernel, (n // 16 - 1, n // 16 - 1, 0), {"TILE": 16}),
    ):
        with recorded_accesses(first_program=pids, memory=False) as accesses:
            kernel[(1, 1)](x, x, n, n, **sizes)
        offsets = {op: (addresses - x.data_ptr()) // 4 for op, addresses in accesses}
        assert offsets["load"].max() > 2**31 and offsets["load"].min() >= 0
        assert offsets["store"].max() >= 2**17 and offsets["store"].min() >= 0


def test_a_tree_adds_up(capsys):
    leaf = {"frame": {"name": "turn_row_kernel<a, b>"}, "metrics": {"time (ns)": 4e6, "bytes": 8e6}, "children": []}
    snippet.write_tree({"frame": {"name": "ROOT"}, "metrics": {}, "children": [leaf, leaf]})
    assert capsys.readouterr().out.splitlines() == ["ROOT: 0.800 ms", *["    turn_row_kernel: 0.400 ms, 2 GB/s"] * 2]
