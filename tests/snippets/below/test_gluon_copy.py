# SPDX-License-Identifier: Apache-2.0
"""The copy by layout: what its host functions launch, with torch in the kernels' place; and on a GPU, the copy."""

import itertools
import math

import pytest
import torch
from guards import check_each_once, recorded_accesses
from stand_ins import Kernel

from snippets.below import gluon_copy
from snippets.below.gluon_copy import BLOCK, LAYOUTS, TILE, copy, copy_in_triton, copy_tiles, row


def copy_program(grid, x, out, n, *, BLOCK, LAYOUT, num_warps):
    assert LAYOUT.warps_per_cta == [num_warps] and LAYOUT.threads_per_warp == [32]
    for pid in range(grid[0]):
        part = slice(pid * BLOCK, min(n, (pid + 1) * BLOCK))
        assert part.start < n, "a program without elements"
        out.view(-1)[part] = x.view(-1)[part]


def tiles_program(grid, x, out, M, N, x_m, x_n, out_m, out_n, *, TILE, LOAD, STORE, num_warps):
    assert num_warps == 4 and {*LOAD.warps_per_cta} == {*STORE.warps_per_cta} == {1, 4}
    tiles_n = -(-N // TILE)
    from_, to = x.as_strided((M, N), (x_m, x_n)), out.as_strided((M, N), (out_m, out_n))
    for pid in range(grid[0]):
        m, n = pid // tiles_n * TILE, pid % tiles_n * TILE
        assert m < M and n < N, "a program without elements"
        to[m : m + TILE, n : n + TILE] = from_[m : m + TILE, n : n + TILE]


@pytest.fixture
def without_gpu(monkeypatch):
    kernels = Kernel(copy_program), Kernel(tiles_program)
    monkeypatch.setattr(gluon_copy, "copy_in_gluon", kernels[0])
    monkeypatch.setattr(gluon_copy, "tiles_kernel", kernels[1])
    monkeypatch.setattr(gluon_copy, "check_on_gpu", lambda **tensors: None)
    return kernels


@pytest.mark.parametrize("shape", [(1,), (BLOCK - 1,), (BLOCK,), (BLOCK + 1,), (3, 5000), (2, 3, 4)])
@pytest.mark.parametrize("per_thread, num_warps", [(1, 4), (4, 4), (32, 4), (8, 16), (16, 1)])
def test_copies(without_gpu, shape, per_thread, num_warps):
    x = torch.randn(shape)
    out = copy(x, per_thread=per_thread, num_warps=num_warps)
    assert torch.equal(out, x) and out.data_ptr() != x.data_ptr()
    ((_, options),) = without_gpu[0].launches
    assert options["LAYOUT"].size_per_thread == [per_thread] and options["BLOCK"] == BLOCK


@pytest.mark.parametrize("n", [1, 31, 32, 33, 100])
def test_the_copy_in_triton(n):
    x, out = torch.randn(n), torch.zeros(n)
    with recorded_accesses() as accesses:
        copy_in_triton[(-(-n // 32),)](x, out, n, BLOCK=32)
    assert torch.equal(out, x)
    check_each_once(accesses, "load", x=x)
    check_each_once(accesses, "store", out=out)


def test_the_copy_in_triton_beyond_31_bits():
    x, out = torch.zeros(1), torch.zeros(1)
    with recorded_accesses(first_program=(2**26, 0, 0), memory=False) as accesses:
        copy_in_triton[(1,)](x, out, 2**31 + 3, BLOCK=32)
    assert {op: ((at - t.data_ptr()) // 4).tolist() for (op, at), t in zip(accesses, (x, out), strict=True)} == {
        op: [2**31, 2**31 + 1, 2**31 + 2] for op in ("load", "store")
    }


@pytest.mark.parametrize("shape", [(0,), (3, 0)])
def test_nothing_to_copy(without_gpu, shape):
    assert copy(torch.empty(shape)).shape == shape and not without_gpu[0].launches
    copy_tiles(torch.empty(0, 5), torch.empty(0, 5)), copy_tiles(torch.empty(5, 0), torch.empty(5, 0))
    assert not without_gpu[1].launches


@pytest.mark.parametrize("load, store", [*itertools.product(LAYOUTS, LAYOUTS)])
@pytest.mark.parametrize("M, N", [(1, 1), (TILE, TILE), (TILE + 1, TILE - 1), (10, 200), (200, 130)])
def test_copies_tiles_of_any_strides(without_gpu, M, N, load, store):
    wide = torch.randn(2 * M, 3 * N)
    for x in (wide[:M, :N], torch.randn(N, M).t(), wide[::2, ::3], wide[:1, :N].expand(M, N)):
        out = torch.zeros(N, M).t()
        copy_tiles(x, out, load=load, store=store)
        assert torch.equal(out, x)
    (*_, (_, options)) = without_gpu[1].launches
    assert (options["LOAD"], options["STORE"]) == (LAYOUTS[load], LAYOUTS[store])


@pytest.mark.parametrize(
    "options, fragment",
    [
        ({"per_thread": 3}, "power of two up to 32, for 4 warps; got 3"),
        ({"per_thread": 0}, "power of two"),
        ({"num_warps": 3}, "num_warps must be a power of two up to 16; got 3"),
        ({"num_warps": 32, "per_thread": 1}, "num_warps must be a power of two up to 16; got 32"),
        ({"per_thread": 64}, "power of two up to 32"),
        ({"per_thread": 16, "num_warps": 16}, "power of two up to 8, for 16 warps"),
    ],
)
def test_refuses_layouts(without_gpu, options, fragment):
    with pytest.raises(ValueError, match=fragment):
        copy(torch.ones(10), **options)


def test_refuses_tensors(without_gpu):
    with pytest.raises(ValueError, match="must be contiguous, or use copy_tiles; got strides"):
        copy(torch.ones(4, 4).t())
    a = torch.ones(4, 4)
    for x, out in ((a, a[:3]), (a, a.double()), (a[0], a[0]), (a, a.to("meta"))):
        with pytest.raises(ValueError, match="out must be a matrix like x"):
            copy_tiles(x, out)
    for name in ("load", "store"):
        with pytest.raises(ValueError, match=rf"{name} must be one of \['rows', 'columns'\]; got 'diagonal'"):
            copy_tiles(a, a, **{name: "diagonal"})


def test_refuses_a_cpu():
    for call in (lambda: copy(torch.ones(4)), lambda: copy_tiles(torch.ones(4, 4), torch.ones(4, 4))):
        with pytest.raises(ValueError, match="x must be on a GPU, for Gluon has no interpreter; it is on cpu"):
            call()
    with pytest.raises(SystemExit, match="no GPU found"):
        gluon_copy.main()


def test_layouts():
    assert [LAYOUTS[name].order for name in LAYOUTS] == [[1, 0], [0, 1]]
    for layout in LAYOUTS.values():
        assert math.prod(layout.threads_per_warp) == 32 and math.prod(layout.size_per_thread) == 4
        along, across = layout.order
        assert layout.size_per_thread[along] == 4, "neighbors in memory"
        assert layout.threads_per_warp[along] * 4 == TILE and layout.warps_per_cta[across] == 4
    assert row(8, 2).warps_per_cta == [2] and row(1).order == [0]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.float64])
@pytest.mark.parametrize("per_thread", [1, 2, 4, 8, 32])
def test_copies_on_a_gpu(dtype, per_thread):
    for n in (1, 100, BLOCK, 3 * BLOCK + 5):
        x = torch.randint(-99, 99, (n + 8,), device="cuda").to(dtype)
        for part in (x[:n], x[1 : n + 1]):  # the second is aligned to one element only
            assert torch.equal(copy(part, per_thread=per_thread), part)


@pytest.mark.gpu
@pytest.mark.parametrize("load, store", [*itertools.product(LAYOUTS, LAYOUTS)])
def test_copies_tiles_on_a_gpu(load, store):
    around = torch.full((400, 400), torch.nan, device="cuda")
    for x in (torch.randn(130, 200, device="cuda"), torch.randn(200, 130, device="cuda").t()):
        for out in (around[10:140, 20:220], around[10:210, 20:150].t()):
            around.fill_(torch.nan)
            copy_tiles(x, out, load=load, store=store)
            assert torch.equal(out, x) and around.isnan().sum() == around.numel() - x.numel()


@pytest.mark.gpu
def test_more_than_31_bits_of_elements():
    x = torch.ones(2**31 + 5, dtype=torch.int8, device="cuda")
    x[-1] = 7
    assert torch.equal(copy(x, per_thread=16), x)
    del x
    x = torch.zeros(40_000, 60_000, dtype=torch.int8, device="cuda")
    x[-1, -1] = 7
    out = torch.empty_like(x)
    copy_tiles(x, out)
    assert torch.equal(out, x)


@pytest.mark.gpu
def test_in_a_graph():
    x = torch.randn(5000, device="cuda")
    copy(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = copy(x)
    x.fill_(3)
    graph.replay()
    assert torch.equal(out, x)
