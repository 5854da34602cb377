# SPDX-License-Identifier: Apache-2.0
"""The products by wgmma: what is launched, what is refused, what they compile to; and on a Hopper GPU, the product."""

import functools
import re
from unittest import mock

import pytest
import torch
from stand_ins import Kernel, compile_for_hopper

from snippets.below import wgmma
from snippets.below.wgmma import GROUP_M, QUARTERS, WAYS, matmul

SMS = 3


def check_described(a, b, c, ctas=1):
    rows, depth = a.block_shape
    assert b.block_shape[0] == depth and c.block_shape == [rows, b.block_shape[1] // QUARTERS]
    dealt = [each.layout.cga_layout for each in (a, b, c)]
    assert dealt == ([[[1, 0]], [[0, 0]], [[1, 0]]] if ctas == 2 else [[]] * 3), "rows are dealt out, b is for both"
    for each in (a, b, c):
        assert [*each.shape] == [*each.base.shape] and [*each.strides] == [*each.base.stride()]


def tile_of(a, b, c, i, j, K, groups=1):
    assert K == a.shape[1] == b.shape[0]
    rows, columns = groups * a.block_shape[0], b.block_shape[1]
    m, n = slice(i * rows, (i + 1) * rows), slice(j * columns, (j + 1) * columns)
    assert m.start < a.shape[0] and n.start < b.shape[1], "a tile without elements"
    c.base[m, n] = (a.base[m, :K].float() @ b.base[:K, n].float()).to(c.base.dtype)


def waiting_program(grid, a, b, c, K, *, num_warps):
    check_described(a, b, c)
    for i in range(grid[0]):
        for j in range(grid[1]):
            tile_of(a, b, c, i, j, K)


def tiles_program(grid, a, b, c, tiles_m, tiles_n, K, *, GROUP, BUFFERS, num_warps, num_ctas=1, groups=1):
    check_described(a, b, c, num_ctas)
    assert GROUP_M // num_ctas == GROUP
    for pid in range(grid[0]):
        assert pid < tiles_m * tiles_n, "a program without a tile"
        for tile in range(pid, tiles_m * tiles_n, grid[0]):
            tile_of(a, b, c, *divmod(tile, tiles_n), K, groups)


@pytest.fixture
def without_gpu(monkeypatch):
    programs = {
        "waiting": waiting_program, "pipelined": tiles_program, "persistent": tiles_program,
        "specialized": functools.partial(tiles_program, groups=2),
    }  # fmt: skip
    kernels = {way: Kernel(program) for way, program in programs.items()}
    for way, kernel in kernels.items():
        monkeypatch.setattr(wgmma, f"{way}_kernel", kernel)
    kernels["clustered"] = kernels["specialized"]
    monkeypatch.setattr(wgmma, "check_gpu", lambda device: None)
    monkeypatch.setattr(wgmma, "multiprocessors", lambda device: SMS)
    return kernels


def numbers(rows, columns, dtype=torch.bfloat16, device="cpu"):
    """Whole numbers, so that every product is exact; on the CPU at a multiple of 16 bytes."""
    random = torch.Generator().manual_seed(rows)
    values = torch.randint(-2, 3, (rows, columns), generator=random).to(device, dtype)
    room = torch.zeros(values.numel() + 8, dtype=dtype, device=device)
    skip = next(i for i in range(8) if (room.data_ptr() + 2 * i) % 16 == 0)
    return room[skip : skip + values.numel()].view(rows, columns).copy_(values)


def expected(a, b):
    return (a.double() @ b.double()).to(a.dtype)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("M, K, N", [(1, 8, 8), (128, 64, 256), (130, 72, 264), (300, 16, 1000)])
def test_multiplies(without_gpu, way, M, K, N):
    for dtype in (torch.bfloat16, torch.float16):
        a, b = numbers(M, K, dtype), numbers(K, N, dtype)
        assert torch.equal(matmul(a, b, way=way), expected(a, b))
    used = without_gpu[way]
    assert {options["num_warps"] for _, options in used.launches} == {4 if used is without_gpu["specialized"] else 8}
    assert {options.get("num_ctas", 1) for _, options in used.launches} == {2 if way == "clustered" else 1}
    assert not any(kernel.launches for kernel in without_gpu.values() if kernel is not used)


def test_programs_and_options(without_gpu):
    a, b = numbers(256, 8), numbers(8, 1024)  # 2 x 4 tiles
    grids = {way: (matmul(a, b, way=way, buffers=3), without_gpu[way].launches[-1])[1] for way in WAYS}
    assert {way: grid for way, (grid, _) in grids.items()} == {
        "waiting": (2, 4), "pipelined": (8,), "persistent": (SMS,), "specialized": (SMS,), "clustered": (SMS // 2,)
    }  # fmt: skip
    assert all(options["BUFFERS"] == 3 for way, (_, options) in grids.items() if way != "waiting")
    matmul(a, b, way="persistent", block=(64, 128, 32), num_warps=4)
    ((_, options),) = without_gpu["persistent"].launches[1:]
    assert options["num_warps"] == 4 and options["BUFFERS"] == 4
    launches = without_gpu["specialized"].launches
    for way in ("specialized", "clustered"):
        matmul(numbers(8, 8), numbers(8, 8), way=way, buffers=2)
        assert launches[-1][0] == (1,), "not more programs than tiles"
    for M, N in ((256, 256), (128, 512)):
        matmul(numbers(M, 8), numbers(8, N), way="specialized")
        assert launches[-1][0] == (2,)


def test_nothing_to_multiply(without_gpu):
    for M, K, N in ((0, 8, 8), (8, 8, 0), (8, 0, 8)):
        out = matmul(torch.empty(M, K).bfloat16(), torch.empty(K, N).bfloat16())
        assert out.shape == (M, N) and not out.any() and out.dtype == torch.bfloat16
    assert not any(kernel.launches for kernel in without_gpu.values())


a, b = numbers(16, 16), numbers(16, 24)


@pytest.mark.parametrize(
    "call, fragment",
    [
        (lambda: matmul(a, a[:8]), r"\(M, K\) and \(K, N\); got \(16, 16\) and \(8, 16\)"),
        (lambda: matmul(a[0], b), r"\(M, K\) and \(K, N\)"),
        (lambda: matmul(a, b[0]), r"\(M, K\) and \(K, N\)"),
        (lambda: matmul(a, b.half()), "must be alike"),
        (lambda: matmul(a.float(), b.float()), "of 16 bits"),
        (lambda: matmul(a, b.to("meta")), "must be alike"),
        (lambda: matmul(a.t(), b), "each row of a"),
        (lambda: matmul(a[:, 1:9], b[:8]), "each row of a"),
        (lambda: matmul(numbers(4, 12), numbers(12, 8)), r"each row of a .* strides \(12, 1\)"),
        (lambda: matmul(a[:1].expand(4, 16), b), "each row of a"),
        (lambda: matmul(a, b[:, ::2]), "each row of b"),
        (lambda: matmul(a, numbers(16, 32)[:, :12]), "multiple of 8 columns, for the result is stored by TMA; got 12"),
        (lambda: matmul(a, b, way="fast"), "way must be one of"),
        (lambda: matmul(a, b, buffers=1), "buffers must be 2 at least; got 1"),
        (lambda: matmul(a, b, block=(128, 128)), "three powers of two"),
        (lambda: matmul(a, b, block=(32, 128, 64), num_warps=4), "64 x 64 and 16 deep at least"),
        (lambda: matmul(a, b, block=(128, 32, 64)), "64 x 64 and 16 deep at least"),
        (lambda: matmul(a, b, block=(128, 128, 8)), "64 x 64 and 16 deep at least"),
        (lambda: matmul(a, b, block=(192, 128, 64)), "three powers of two"),
        (lambda: matmul(a, b, block=(128, 512, 64)), "256 columns at most"),
        (lambda: matmul(a, b, block=(64, 128, 64)), "4, or 8 for 128 rows or more; got 8 for 64 rows"),
        (lambda: matmul(a, b, num_warps=4), "'clustered' has two groups of four warps, so num_warps must be 8; got 4"),
        (lambda: matmul(a, b, way="specialized", num_warps=4), "'specialized' has two groups"),
        (lambda: matmul(a, b, num_warps=2), "num_warps must be 4"),
    ],
)
def test_refuses(without_gpu, call, fragment):
    with pytest.raises(ValueError, match=fragment):
        call()


def test_refuses_a_cpu_and_other_gpus():
    with pytest.raises(ValueError, match="a must be on a Hopper GPU, for Gluon has no interpreter; it is on cpu"):
        matmul(a, b)
    with pytest.raises(SystemExit, match="no GPU found"):
        wgmma.main()
    for capability in ((8, 0), (9, 0), (10, 0)):
        found = dict(get_device_name=lambda device: "B200", get_device_capability=lambda device, c=capability: c)
        with mock.patch.multiple(torch.cuda, **found):
            if capability[0] == 9:
                wgmma.check_gpu(torch.device("cuda", 0))
                continue
            with pytest.raises(ValueError, match="wgmma is Hopper's; B200 has another instruction"):
                wgmma.check_gpu(torch.device("cuda", 0))


def test_what_they_compile_to():
    """Products in flight, buffers, and shared memory that an H200 has."""
    code = """
from triton.experimental.gluon import language as gl
from snippets.below import wgmma
x = torch.empty(1024, 1024, dtype=torch.bfloat16)
def described(rows, dealt, both):
    shapes = [rows, 64], [64, 256], [rows, 64]
    default = gl.NVMMASharedLayout.get_default_for
    layouts = [default(shape, gl.bfloat16, cga_layout=of) for shape, of in zip(shapes, (dealt, both, dealt))]
    return [wgmma.TensorDescriptor.from_tensor(x, *each) for each in zip(shapes, layouts)]
print(ptx(wgmma.waiting_kernel, *described(128, None, None), 1024, num_warps=8))
rest = dict(GROUP=8, BUFFERS=4)
for kernel in (wgmma.pipelined_kernel, wgmma.persistent_kernel):
    print("====")
    print(ptx(kernel, *described(128, None, None), 64, 64, 1024, **rest, num_warps=8))
for given, ctas in (((64, None, None), 1), ((128, [[1, 0]], [[0, 0]]), 2)):
    print("====")
    print(ptx(wgmma.specialized_kernel, *described(*given), 64, 64, 1024, **rest, num_warps=4, num_ctas=ctas))
"""
    texts = dict(zip(WAYS, "\n".join(compile_for_hopper(code)).split("===="), strict=True))
    for way, text in texts.items():
        groups = 2 if way in ("specialized", "clustered") else 1
        products = re.findall(r"wgmma\.mma_async\.sync\.aligned\.m64n256k16", text)
        assert len(products) == 4 * groups, "64 deep, 16 at a time"
        waits = re.findall(r"wgmma\.wait_group\.sync\.aligned\s+(\d)", text)
        assert sorted(waits) == sorted(groups * (["0"] if way == "waiting" else ["0", "1"]))
        assert text.count("mbarrier.init") == {"waiting": 1, "specialized": 12, "clustered": 12}.get(way, 4)
        assert ("setmaxnreg" in text) == (groups == 2)
        assert set(re.findall(r"expect_tx\S* _, \[\S+\], (\d+);", text)) == {str(2 * 64 * (128 + 256))}
        # A tile of b comes in four pieces of 128 bytes a row.
        assert text.count("multicast::cluster") == (4 if way == "clustered" else 0), "tiles of b are loaded for both"


@pytest.mark.gpu
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("M, K, N", [(64, 8, 8), (1000, 520, 776), (2048, 1024, 512), (4096, 64, 4096)])
def test_multiplies_on_a_gpu(way, M, K, N):
    if torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("wgmma is Hopper's")
    for buffers in (2, 4):
        a, b = numbers(M, K, device="cuda"), numbers(K, N, device="cuda")
        assert torch.equal(matmul(a, b, way=way, buffers=buffers), expected(a, b))


@pytest.mark.gpu
def test_in_a_graph():
    a, b = numbers(512, 512, device="cuda"), numbers(512, 512, device="cuda")
    matmul(a, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = matmul(a, b)
    a.fill_(1)
    graph.replay()
    assert torch.equal(out, expected(a, b))
