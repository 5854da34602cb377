# SPDX-License-Identifier: Apache-2.0
"""The copy by TMA: what is launched, what is refused, what it compiles to; and on a Hopper GPU, the copy."""

import re
from unittest import mock

import pytest
import torch
from stand_ins import Kernel, compile_for_hopper

from snippets.below import tma
from snippets.below.tma import MOST, copy, pipelined_copy

SMS = 5


def move(x, out, row, column):
    assert row < x.shape[0] and column < x.shape[1], "a tile without elements"
    rows, columns = x.block_shape
    part = slice(row, row + rows), slice(column, column + columns)
    out.base[part] = x.base[part]


def check_described(x, out):
    for each in (x, out):
        assert [*each.shape] == [*each.base.shape] and [*each.strides] == [*each.base.stride()]
        assert each.layout.element_bitwidth == 8 * each.base.element_size()
    assert x.block_shape == out.block_shape and x.layout == out.layout


def copy_program(grid, x, out, *, num_warps):
    check_described(x, out)
    for i in range(grid[0]):
        for j in range(grid[1]):
            move(x, out, i * x.block_shape[0], j * x.block_shape[1])


def pipelined_program(grid, x, out, tiles, tiles_n, *, BUFFERS, STORING, num_warps):
    check_described(x, out)
    assert num_warps == 1 and 0 <= STORING < BUFFERS
    assert tiles == tiles_n * -(-x.shape[0] // x.block_shape[0]), "tiles that don't exist"
    for pid in range(grid[0]):
        assert pid < tiles, "a program without a tile"
        for tile in range(pid, tiles, grid[0]):
            move(x, out, tile // tiles_n * x.block_shape[0], tile % tiles_n * x.block_shape[1])


@pytest.fixture
def without_gpu(monkeypatch):
    kernels = Kernel(copy_program), Kernel(pipelined_program)
    monkeypatch.setattr(tma, "copy_kernel", kernels[0])
    monkeypatch.setattr(tma, "pipelined_kernel", kernels[1])
    monkeypatch.setattr(tma, "check_gpu", lambda device: None)
    monkeypatch.setattr(tma, "multiprocessors", lambda device: SMS)
    return kernels


def aligned(rows, columns, dtype=torch.float32):
    """A matrix whose data begins at a multiple of 16 bytes, as all of torch's do on a GPU."""
    room = torch.zeros(rows * columns + 16, dtype=dtype)
    skip = next(i for i in range(16) if (room.data_ptr() + i * room.element_size()) % 16 == 0)
    x = room[skip : skip + rows * columns].view(rows, columns)
    return x.copy_(torch.randint(-99, 99, (rows, columns)))


@pytest.mark.parametrize("rows, columns", [(1, 4), (32, 64), (33, 68), (100, 200), (300, 16)])
@pytest.mark.parametrize("tile", [(32, 64), (8, 4), (128, 16)])
def test_copies(without_gpu, rows, columns, tile):
    for dtype in (torch.float32, torch.bfloat16):
        x = aligned(rows, 2 * columns, dtype)
        for out in (copy(x, tile=(8, 16)), pipelined_copy(x, tile=(8, 16))):
            assert torch.equal(out, x) and out.dtype == dtype
    x = aligned(rows, columns)
    assert torch.equal(copy(x, tile=tile), x)
    for options in ({}, {"buffers": 1}, {"buffers": 2, "per_sm": 3}, {"buffers": 6, "storing": 3}):
        out = pipelined_copy(x, tile=tile, **options)
        assert torch.equal(out, x) and out.data_ptr() != x.data_ptr()


def test_programs_and_buffers(without_gpu):
    x = aligned(320, 64)  # ten tiles
    launches = without_gpu[1].launches
    for per_sm, programs in ((1, SMS), (2, 10), (3, 10)):
        pipelined_copy(x, per_sm=per_sm)
        assert launches[-1][0] == (programs,)
    for buffers, storing in ((1, 0), (2, 0), (3, 1), (4, 1), (8, 1)):
        pipelined_copy(x, buffers=buffers)
        assert (launches[-1][1]["BUFFERS"], launches[-1][1]["STORING"]) == (buffers, storing)
    pipelined_copy(x, buffers=4, storing=3)
    assert launches[-1][1]["STORING"] == 3


@pytest.mark.parametrize("shape", [(0, 8), (8, 0)])
def test_nothing_to_copy(without_gpu, shape):
    for made in (copy(torch.empty(shape)), pipelined_copy(torch.empty(shape))):
        assert made.shape == shape
    assert not without_gpu[0].launches and not without_gpu[1].launches


def test_wide_rows(without_gpu):
    x = aligned(8, 128)[:, :100]
    assert torch.equal(copy(x), x) and copy(x).is_contiguous()
    with pytest.raises(ValueError, match="too many columns for a tile of"):
        copy(torch.empty(1, 65_535 * 4 + 4), tile=(8, 4))
    assert copy(torch.empty(1, 65_535 * 4), tile=(8, 4)) is not None


x = aligned(32, 64)


@pytest.mark.parametrize(
    "call, fragment",
    [
        (lambda: copy(x[0]), "must be a matrix"),
        (lambda: copy(x.double()), "must be a matrix of one of"),
        (lambda: copy(x.t()), r"multiple of 16 bytes; got strides \(1, 64\) of torch.float32"),
        (lambda: copy(x[:, 1:]), "pad its rows"),
        (lambda: copy(x[:, :62].contiguous()), r"strides \(62, 1\)"),
        (lambda: copy(x[:1].expand(4, 64)), r"strides \(0, 1\)"),
        (lambda: copy(x[:, ::2]), r"strides \(64, 2\)"),
        (lambda: copy(x, tile=(32, 48)), "two powers of two up to 256"),
        (lambda: copy(x, tile=(512, 64)), "two powers of two up to 256"),
        (lambda: copy(x, tile=(0, 64)), "two powers of two"),
        (lambda: copy(x, tile=(32, 2)), "its rows of 16 bytes at least"),
        (lambda: copy(x, tile=(32, 64, 2)), "two powers of two"),
        (lambda: copy(x, tile=(256, 256)), f"fit into {MOST:,} bytes"),
        (lambda: pipelined_copy(x, buffers=0), "must be one at least"),
        (lambda: pipelined_copy(x, buffers=26), f"fit into {MOST:,} bytes"),
        (lambda: pipelined_copy(x, buffers=2, storing=2), "from 0 to 1, less than buffers; got 2"),
        (lambda: pipelined_copy(x, storing=-1), "from 0 to 3"),
        (lambda: pipelined_copy(x, per_sm=0), "per_sm must be 1 at least"),
    ],
)
def test_refuses(without_gpu, call, fragment):
    with pytest.raises(ValueError, match=fragment):
        call()


def test_buffers_up_to_the_limit(without_gpu):
    assert torch.equal(pipelined_copy(x, buffers=25), x), "25 of 8 KiB are 200 KiB"


def test_refuses_a_cpu_and_older_gpus():
    for call in (copy, pipelined_copy):
        with pytest.raises(ValueError, match="on a Hopper GPU or newer, for Gluon has no interpreter; it is on cpu"):
            call(x)
    with pytest.raises(SystemExit, match="no GPU found"):
        tma.main()
    gpu = torch.device("cuda", 0)
    found = dict(get_device_name=lambda device: "A100", get_device_capability=lambda device: (8, 0))
    with (
        mock.patch.multiple(torch.cuda, **found),
        pytest.raises(ValueError, match="TMA came with Hopper; A100 has none"),
    ):
        tma.check_gpu(gpu)
    for capability in ((9, 0), (10, 0)):
        with mock.patch.object(torch.cuda, "get_device_capability", lambda device, found=capability: found):
            tma.check_gpu(gpu)


def test_what_it_compiles_to():
    """An mbarrier for each buffer; and of stores, as many may be on their way as was said."""
    code = """
from snippets.below.tma import copy_kernel, descriptors, pipelined_kernel
x = torch.empty(1024, 1024)
described = descriptors(x, x, tile=(32, 64))
print(ptx(copy_kernel, *described, num_warps=1))
print("==")
print(ptx(pipelined_kernel, *described, 512, 16, BUFFERS=4, STORING=1, num_warps=1))
"""
    one, pipelined = "\n".join(compile_for_hopper(code)).split("==")
    for text, barriers, loads in ((one, 1, 1), (pipelined, 4, 4)):
        assert text.count("mbarrier.init") == barriers and text.count("mbarrier.try_wait.parity") == 1
        assert re.findall(r"expect_tx\S* _, \[\S+\], (\d+);", text) == ["8192"] * loads, "of a tile, 32 · 64 · 4"
        assert text.count("fence.proxy.async") == 1
    assert re.findall(r"wait_group\.read\s+(\d+)", one) == ["0"]
    assert re.findall(r"wait_group\.read\s+(\d+)", pipelined) == ["1", "0"]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
@pytest.mark.parametrize("rows, columns", [(1, 16), (64, 64), (1000, 784), (3, 4096)])
def test_copies_on_a_gpu(dtype, rows, columns):
    if torch.cuda.get_device_capability()[0] < 9:
        pytest.skip("TMA came with Hopper")
    x = torch.randint(-99, 99, (rows, columns), device="cuda").to(dtype)
    assert torch.equal(copy(x), x)
    for buffers, storing in ((1, 0), (2, 0), (2, 1), (4, 1), (8, 4)):
        for per_sm in (1, 2):
            assert torch.equal(pipelined_copy(x, buffers=buffers, storing=storing, per_sm=per_sm), x)


@pytest.mark.gpu
def test_in_a_graph():
    x = torch.randn(500, 512, device="cuda")
    copy(x), pipelined_copy(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = copy(x), pipelined_copy(x)
    x.fill_(3)
    graph.replay()
    assert torch.equal(out[0], x) and torch.equal(out[1], x)
