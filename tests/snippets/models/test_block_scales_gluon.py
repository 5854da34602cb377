# SPDX-License-Identifier: Apache-2.0
"""The product in Gluon: what is launched and refused, what it compiles to; and on a Hopper GPU, the product."""

from unittest import mock

import pytest
import torch
from stand_ins import Kernel, compile_for_hopper

from snippets.models import block_scales, block_scales_gluon
from snippets.models.block_scales import E4M3
from snippets.models.block_scales_gluon import BUFFERS, GROUP_M, block_scaled_matmul


def up(size):
    return -(-size // 128)


def operands(M, N, K, device="cpu", seed=0):
    """Small whole numbers and powers of two, so that every sum is exact."""
    generator = torch.Generator().manual_seed(seed)
    whole = lambda rows: torch.randint(-3, 4, (rows, K), generator=generator).float().to(E4M3)
    powers = lambda rows: 2.0 ** torch.randint(-1, 2, (rows, up(K)), generator=generator)
    return tuple(each.to(device) for each in (whole(M), whole(N), powers(M).t().contiguous().t(), powers(up(N))))


def expected(x, w, x_scales, w_scales):
    def far(scales, tall, like):
        return scales.double().repeat_interleave(tall, 0).repeat_interleave(128, 1)[: len(like), : like.shape[1]]

    return ((x.double() * far(x_scales, 1, x)) @ (w.double() * far(w_scales, 128, w)).t()).bfloat16()


def program(grid, x, w, y, x_scales, w_scales, M, K, tiles_m, tiles_n, *strides, GROUP, BUFFERS, num_warps):
    for described, block in ((x, [64, 128]), (w, [128, 128]), (y, [64, 128])):
        assert described.block_shape == block and [*described.shape] == [*described.base.shape]
        assert [*described.strides] == [*described.base.stride()]
    assert strides == (*x_scales.stride(), *w_scales.stride()) and x.base.shape == (M, K)
    assert (GROUP, num_warps) == (GROUP_M, 4) and (tiles_m, tiles_n) == (up(M), up(len(w.base)))
    assert grid == (min(tiles_m * tiles_n, 3),), "as many programs as have a tile"
    y.base.copy_(expected(x.base, w.base, x_scales, w_scales))


@pytest.fixture
def launched(monkeypatch):
    kernel = Kernel(program)
    monkeypatch.setattr(block_scales_gluon, "block_scaled_gluon_kernel", kernel)
    monkeypatch.setattr(block_scales_gluon, "check_gpu", lambda device: None)
    monkeypatch.setattr(block_scales_gluon, "multiprocessors", lambda device: 3)
    monkeypatch.setattr(block_scales, "check_arguments", lambda *arguments: None)
    return kernel.launches


@pytest.mark.parametrize("M, N, K", [(1, 1, 1), (130, 257, 384), (300, 140, 200)])
def test_what_it_launches(launched, M, N, K):
    given = operands(M, N, K)
    assert torch.equal(block_scaled_matmul(*given), expected(*given))
    assert launched[0][1]["BUFFERS"] == BUFFERS
    block_scaled_matmul(*given, buffers=2)
    assert launched[1][1]["BUFFERS"] == 2


def test_nothing_to_multiply(launched):
    for M, N, K in ((0, 8, 8), (8, 0, 8), (8, 8, 0)):
        y = block_scaled_matmul(*operands(M, N, K))
        assert y.shape == (M, N) and not y.any()
    assert not launched


@pytest.mark.parametrize("buffers", [1, 7, 2.5])
def test_refuses_buffers(launched, buffers):
    with pytest.raises(ValueError, match=f"buffers must be from 2 to 6; got {buffers}"):
        block_scaled_matmul(*operands(2, 2, 2), buffers=buffers)


def test_refuses_what_the_product_in_triton_refuses():
    x, w, x_scales, w_scales = operands(2, 3, 4)
    with pytest.raises(ValueError, match=r"x must be of torch\.float8_e4m3fn"):
        block_scaled_matmul(x.float(), w, x_scales, w_scales)


def test_refuses_other_gpus():
    with (
        mock.patch.object(torch.cuda, "get_device_capability", return_value=(10, 0)),
        mock.patch.object(torch.cuda, "get_device_name", return_value="NVIDIA B200"),
        pytest.raises(ValueError, match="NVIDIA B200 has no wgmma; a Hopper GPU is needed"),
    ):
        block_scales_gluon.check_gpu(torch.device("cuda"))


CODE = """
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor
from snippets.models.block_scales_gluon import block_scaled_gluon_kernel
described = lambda dtype, block, element: TensorDescriptor.from_tensor(
    torch.empty(1024, 1024, dtype=dtype), block, gl.NVMMASharedLayout.get_default_for(block, element)
)
scales = torch.ones(8, 1024), torch.ones(8, 8)
text = ptx(
    block_scaled_gluon_kernel, described(torch.float8_e4m3fn, [64, 128], gl.float8e4nv),
    described(torch.float8_e4m3fn, [128, 128], gl.float8e4nv), described(torch.bfloat16, [64, 128], gl.bfloat16),
    *scales, 1024, 1024, 8, 8, 1, 1024, 8, 1, GROUP=8, BUFFERS=6, num_warps=4,
)
print(text.count("wgmma.mma_async"), text.count("setmaxnreg.inc") > 0, "e4m3.e4m3" in text)
"""


def test_compiles_for_hopper():
    """Each half multiplies in four instructions of 32 along K, two steps in a round of its loop."""
    assert compile_for_hopper(CODE)[-1] == "16 True True"


@pytest.mark.gpu
@pytest.mark.parametrize("M, N, K", [(1, 8, 16), (130, 260, 384), (100, 1001, 200), (4096, 1024, 2048)])
def test_right_gpu(M, N, K):
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("Hopper's wgmma is meant")
    given = operands(M, N, K, "cuda")
    for buffers in (2, BUFFERS):
        y = block_scaled_matmul(*given, buffers=buffers)
        assert torch.equal(y, expected(*given))
    gaps = [torch.stack([each, each], 1)[:, 0] for each in given[2:]]
    assert torch.equal(block_scaled_matmul(*given[:2], *gaps), expected(*given))
