# SPDX-License-Identifier: Apache-2.0
"""Look inside a kernel with Proton: how long the warps of a program load, and how long they store.

Scopes in the kernel become reads of the GPU's clock, as long as Proton's backend ``instrumentation`` runs; otherwise
nothing is left of them. The kernels are those of ``find_time.py``, which turn a matrix by rows and by tiles.

Shapes: ``x`` ``(rows, columns)``, bfloat16; the result is ``x.T``. Units: microseconds, and shares of a program's time.
Run it on an NVIDIA GPU with ``python find_time_inside.py``.
Source: Triton, *Proton*, on instrumentation.
"""

import json
import statistics
import tempfile
from collections import defaultdict
from pathlib import Path

import torch
import triton
import triton.language as tl
import triton.profiler as proton
import triton.profiler.language as pl
from torch import Tensor

from snippets.tools import find_time


# --8<-- [start:kernel]
@triton.jit
def turn_row_kernel(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    pl.enter_scope("program")
    row = tl.program_id(axis=0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    mask = column < columns
    pl.enter_scope("load")
    x = tl.load(x_ptr + row * columns + column, mask=mask)
    pl.exit_scope("load")
    pl.enter_scope("store")
    tl.store(out_ptr + column.to(tl.int64) * rows + row, x, mask=mask)
    pl.exit_scope("store")
    pl.exit_scope("program")
# --8<-- [end:kernel]


@triton.jit
def turn_tile_kernel(x_ptr, out_ptr, rows, columns, TILE: tl.constexpr):
    pl.enter_scope("program")
    row = tl.program_id(axis=0).to(tl.int64) * TILE + tl.arange(0, TILE)
    column = tl.program_id(axis=1).to(tl.int64) * TILE + tl.arange(0, TILE)
    mask = (row < rows)[:, None] & (column < columns)
    pl.enter_scope("load")
    x = tl.load(x_ptr + row[:, None] * columns + column, mask=mask)
    pl.exit_scope("load")
    pl.enter_scope("store")
    turned = out_ptr + column[:, None] * rows + row
    tl.store(turned, x.trans(1, 0), mask=mask.trans(1, 0))
    pl.exit_scope("store")
    pl.exit_scope("program")


def turn_by_rows(x: Tensor) -> Tensor:
    rows, columns = x.shape
    out = x.new_empty(columns, rows)
    turn_row_kernel[(rows,)](x, out, rows, columns, BLOCK=triton.next_power_of_2(columns))
    return out


def turn_by_tiles(x: Tensor) -> Tensor:
    rows, columns = x.shape
    out = x.new_empty(columns, rows)
    turn_tile_kernel[(triton.cdiv(rows, 64), triton.cdiv(columns, 64))](x, out, rows, columns, TILE=64)
    return out


TURNS = {"by rows": turn_by_rows, "by tiles": turn_by_tiles}


# --8<-- [start:inside]
def inside(run, folder: str) -> list[dict]:
    """Return a call's events: one for each scope and warp."""
    path = Path(folder) / "turn"
    pl.enable_semantic("triton")
    proton.start(str(path), data="trace", backend="instrumentation")
    run()
    torch.cuda.synchronize()
    proton.finalize()
    trace = json.loads(path.with_suffix(".chrome_trace").read_text())
    return trace["traceEvents"]
# --8<-- [end:inside]


def times(events: list[dict]) -> dict[str, float]:
    """Return the median time of each scope, over all warps of all programs.

    >>> times([{"name": "load", "dur": 1}, {"name": "load", "dur": 3}, {"name": "load", "dur": 2}, {"name": "mark"}])
    {'load': 2}
    """
    found = defaultdict(list)
    for event in events:
        if "dur" in event:
            found[event["name"]].append(event["dur"])
    return {name: statistics.median(each) for name, each in found.items()}


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; Proton watches one")
    x = find_time.inputs()[0]
    for name, turn in TURNS.items():
        with tempfile.TemporaryDirectory() as folder:
            events = inside(lambda turn=turn: turn(x), folder)
        found = times(events)
        print(f"{name}, warps watched: {sum(event['name'] == 'program' for event in events if 'dur' in event):,}")
        print(f"{name}, a program, microseconds: {found['program']:.1f}")
        for scope in ("load", "store"):
            print(f"{name}, share of the {scope}: {found[scope] / found['program']:.2f}")
        assert torch.equal(turn(x), x.t()), name


if __name__ == "__main__":
    main()
