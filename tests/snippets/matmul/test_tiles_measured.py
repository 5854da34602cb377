# SPDX-License-Identifier: Apache-2.0
"""Plans of tiles in two pieces cover the result, fill shared memory and no more, and compute the product."""

import pytest
import torch
import triton

from snippets.matmul import matmul, tiles_measured
from snippets.matmul.plans_measured import by
from snippets.matmul.tiles_measured import SHAPES, TILES, plan_of
from snippets.tools.benchmarking import Timing


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("M, N", [(4096, 576), (65, 289), (2048, 7168)])
def test_plans(tile, M, N):
    plan = plan_of(M, N, tile)
    width = plan.block_n + plan.more_n
    assert tile.startswith(f"{plan.block_m} × ({plan.block_n} + {plan.more_n}), {plan.num_warps} warps")
    assert (plan.whole - -(-M // plan.block_m) * -(-N // width)) == 0
    rounds = -(-plan.whole // 132)
    assert -(-plan.whole // plan.programs) == rounds and plan.programs <= 132
    stage = 2 * (plan.block_m + width) * plan.block_k
    assert stage * plan.num_stages <= 232_448 - 1024 < stage * (plan.num_stages + 1)


@pytest.mark.parametrize("tile", list(TILES)[::2])
def test_it_multiplies(tile):
    if isinstance(matmul.streamed_kernel, triton.JITFunction):
        pytest.skip("a kernel that is compiled needs a GPU")
    random = torch.Generator().manual_seed(0)
    a, weight = (torch.randint(-2, 3, shape, generator=random).half() for shape in ((100, 72), (600, 72)))
    assert torch.equal(by(plan_of(100, 600, tile))(a, weight.t()), a @ weight.t())


def test_table(monkeypatch):
    times = {"cublas": 6, "picked": 8} | dict(zip(TILES, (7, 5, 9, 10), strict=True))
    found = {name: Timing((float(ms),)) for name, ms in times.items()}
    monkeypatch.setattr(tiles_measured, "measure", lambda shape: found)
    row = {what: tiles_measured.pieces.fn(SHAPES[0], what) for what in tiles_measured.pieces.benchmarks.line_vals}
    assert row["share"] == 6 / 5 and row["picked_share"] == 6 / 8 and row["picked"] == (8000, 8000, 8000)


def test_main_counts_the_tiles(capsys):
    tiles_measured.main()
    assert "4096 × 576 × 7168: 128 of 64 × (256 + 32) for 128 programs" in capsys.readouterr().out


@pytest.mark.gpu
@pytest.mark.parametrize("shape", SHAPES[:3])
def test_every_tile_multiplies(shape):
    M, N, K = tiles_measured.NAMED[shape]
    sides = {tile: by(plan_of(M, N, tile)) for tile in TILES}
    tiles_measured.check_alike({"cublas": torch.matmul} | sides, tiles_measured.operands(M, N, K))
