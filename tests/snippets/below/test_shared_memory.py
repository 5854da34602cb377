# SPDX-License-Identifier: Apache-2.0
"""The transpose: what its host function launches, with torch in the kernel's place; and on a GPU, the transpose."""

import pytest
import torch
from stand_ins import Kernel

from snippets.below import shared_memory
from snippets.below.shared_memory import COLUMNS, LAYOUTS, ROWS, TILE, padded, swizzled, transpose


def program(grid, x, out, M, N, stride_m, stride_n, *, TILE, ROWS, COLUMNS, SHARED, num_warps):
    assert num_warps == 4 and ROWS.warps_per_cta == COLUMNS.warps_per_cta[::-1] == [4, 1]
    tiles_n = -(-N // TILE)
    from_, to = x.as_strided((M, N), (stride_m, stride_n)), out.as_strided((M, N), (1, M))
    for pid in range(grid[0]):
        m, n = pid // tiles_n * TILE, pid % tiles_n * TILE
        assert m < M and n < N, "a program without elements"
        to[m : m + TILE, n : n + TILE] = from_[m : m + TILE, n : n + TILE]


@pytest.fixture
def without_gpu(monkeypatch):
    kernel = Kernel(program)
    monkeypatch.setattr(shared_memory, "transpose_kernel", kernel)
    monkeypatch.setattr(shared_memory, "check_on_gpu", lambda **tensors: None)
    return kernel


@pytest.mark.parametrize("M, N", [(1, 1), (TILE, TILE), (TILE + 1, TILE - 1), (10, 200), (100, 65)])
def test_transposes_any_strides(without_gpu, M, N):
    wide = torch.randn(2 * M, 3 * N)
    for x in (wide[:M, :N], torch.randn(N, M).t(), wide[::2, ::3], wide[:1, :N].expand(M, N)):
        out = transpose(x)
        assert torch.equal(out, x.t()) and out.is_contiguous()


def test_the_layout_is_that_which_was_asked_for(without_gpu):
    x = torch.ones(3, 3)
    for layout in (*LAYOUTS.values(), padded(4), swizzled(4, 1, 8)):
        transpose(x, layout)
        assert without_gpu.launches[-1][1]["SHARED"] == layout
    transpose(x)
    assert without_gpu.launches[-1][1]["SHARED"] == LAYOUTS["swizzled"] == swizzled(1, 1, TILE)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0)])
def test_nothing_to_transpose(without_gpu, shape):
    assert transpose(torch.empty(shape)).shape == shape[::-1] and not without_gpu.launches


@pytest.mark.parametrize(
    "shape, dtype", [((3,), "float"), ((2, 2, 2), "float"), ((2, 2), "double"), ((2, 2), "complex32")]
)
def test_refuses_other_matrices(without_gpu, shape, dtype):
    x = torch.ones(shape).to(getattr(torch, dtype))
    with pytest.raises(ValueError, match="x must be a matrix of a dtype of four bytes; got"):
        transpose(x)


def test_refuses_other_layouts(without_gpu):
    for layout in (ROWS, "swizzled", None):
        with pytest.raises(ValueError, match="shared must be one of Gluon's layouts of shared memory; got"):
            transpose(torch.ones(2, 2), layout)


def test_refuses_a_cpu():
    with pytest.raises(ValueError, match="x must be on a GPU, for Gluon has no interpreter; it is on cpu"):
        transpose(torch.ones(4, 4))
    with pytest.raises(SystemExit, match="no GPU found"):
        shared_memory.main()


def test_a_warp_has_a_row_or_a_column():
    assert (ROWS.threads_per_warp, ROWS.order) == ([1, TILE], [1, 0])
    assert (COLUMNS.threads_per_warp, COLUMNS.order) == ([TILE, 1], [0, 1])


@pytest.mark.gpu
@pytest.mark.parametrize("name", LAYOUTS)
def test_transposes_on_a_gpu(name):
    for x in (torch.randn(130, 200, device="cuda"), torch.randn(200, 130, device="cuda").t()):
        assert torch.equal(transpose(x, LAYOUTS[name]), x.t())
    wide = torch.full((400, 400), torch.nan, device="cuda")
    wide[:65, :31] = 1
    assert transpose(wide[:65, :31], LAYOUTS[name]).eq(1).all(), "it reads nothing beyond the edge"
    x = torch.randint(-99, 99, (33, 64), device="cuda", dtype=torch.int32)
    assert torch.equal(transpose(x, LAYOUTS[name]), x.t())


@pytest.mark.gpu
def test_any_swizzle_is_right_on_a_gpu():
    x = torch.randn(100, 100, device="cuda")
    for layout in (swizzled(2, 2, 8), swizzled(8, 4, 32), padded(2), padded(8)):
        assert torch.equal(transpose(x, layout), x.t())


@pytest.mark.gpu
def test_more_than_31_bits_of_elements():
    x = torch.zeros(40_000, 60_000, dtype=torch.int32, device="cuda")
    x[-1, -1] = 7
    out = transpose(x)
    assert out[-1, -1] == 7 and out.count_nonzero() == 1


@pytest.mark.gpu
def test_in_a_graph():
    x = torch.randn(100, 50, device="cuda")
    transpose(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = transpose(x)
    x.fill_(3)
    graph.replay()
    assert torch.equal(out, x.t())
