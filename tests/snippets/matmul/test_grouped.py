# SPDX-License-Identifier: Apache-2.0
"""The order is the one meant, three times over; the product is right; what it reads and what the model says agree."""

import contextlib
from collections import OrderedDict
from unittest import mock

import pytest
import torch
import triton
from guards import Guarded, check_each_once, check_inside, precisions_of_dots, recorded_accesses
from hypothesis import example, given, settings
from hypothesis import strategies as st

from snippets.matmul import grouped as module
from snippets.matmul.grouped import matmul, order, predict, tile_order, tile_reads, touched

SMALL = (2, 8, 4)  # tiles that only the interpreter takes
sides = st.integers(1, 9)


def tile_of(device):
    return SMALL if device == "cpu" else (16, 32, 16)


def served(device):
    return [dtype for dtype in module.DTYPES if device == "cuda" or dtype != torch.bfloat16]


# The order


def counted_order(tiles_m, tiles_n, group):
    """By the definition: the groups from the top; in a group column after column; in a column from the top."""
    tiles = [(m, n) for m in range(tiles_m) for n in range(tiles_n)]
    return sorted(tiles, key=lambda tile: (tile[0] // group, tile[1], tile[0]))


@settings(max_examples=15)
@given(sides, sides, st.sampled_from([1, 2, 3, 4, 8, 16]))
@example(5, 4, 3)
@example(1, 7, 8)
@example(9, 1, 2)
def test_written_out_swizzle2d_and_python_agree(tiles_m, tiles_n, group):
    expected = counted_order(tiles_m, tiles_n, group)
    assert tile_order(tiles_m, tiles_n, group) == expected
    for swizzle2d in (False, True):
        taken = order(tiles_m, tiles_n, group, swizzle2d=swizzle2d)
        assert [taken[tile].item() for tile in expected] == list(range(tiles_m * tiles_n))


def test_order_on_this_device(device):
    for shape in ((5, 4, 3), (9, 9, 3), (7, 3, 4), (3, 5, 8), (6, 6, 1)):
        expected = torch.empty(shape[:2], dtype=torch.int32, device=device)
        for pid, tile in enumerate(tile_order(*shape)):
            expected[tile] = pid
        for swizzle2d in (False, True):
            assert torch.equal(order(*shape, swizzle2d=swizzle2d, device=device), expected)


def test_one_is_row_major_and_all_rows_are_column_major():
    row_major = [(m, n) for m in range(5) for n in range(4)]
    assert tile_order(5, 4, 1) == row_major
    assert tile_order(5, 4, 5) == tile_order(5, 4, 8) == sorted(row_major, key=lambda tile: tile[::-1])


def test_rows_by_the_whole_pid_are_only_another_order():
    """What older kernels compute."""
    taken = {}
    for pid in range(35):
        first, within = pid // 21 * 3, pid % 21
        rows = min(5 - first, 3)
        taken[first + pid % rows, within // rows] = pid
    assert len(taken) == 35 and taken[4, 0] == 21 and taken[3, 0] == 22
    assert [taken[tile] for tile in tile_order(5, 7, 3)[:21]] == list(range(21))


def test_order_is_computed_where_it_is_stored(device):
    with mock.patch.object(torch.cuda, "device_of", wraps=torch.cuda.device_of) as device_of:
        order(2, 2, 1, device=device)
    assert device_of.called, "or Triton launches on the current device, whatever the tensor's"


def test_order_kernel_stores_where_it_should():
    taken = Guarded((5, 4), torch.int32, "cpu", before=16, after=16, fill=0x5A)
    for swizzle2d in (False, True):
        with recorded_accesses() as accesses:
            module.order_kernel[(20,)](taken.tensor, 5, 4, GROUP_M=3, SWIZZLE2D=swizzle2d)
        check_each_once(accesses, "store", taken=taken.tensor)
    taken.check("taken")


# The product


def matrices(M, N, K, dtype, device, seed=0):
    random = torch.Generator().manual_seed(seed)
    whole = lambda *shape: torch.randint(-3, 4, shape, generator=random).to(device, dtype)  # products are exact
    return whole(M, K), whole(K, N)


def exact(a, b):
    return (a.double() @ b.double()).to(a.dtype)


@settings(max_examples=15)
@given(st.integers(0, 11), st.integers(0, 11), st.integers(0, 7), st.sampled_from([1, 2, 3, 8]))
@example(1, 1, 1, 1)
@example(9, 9, 5, 3)
@example(4, 3, 0, 2)
def test_any_shape(M, N, K, group):
    a, b = matrices(M, N, K, torch.float32, "cpu", seed=M + 12 * N)
    result = matmul(a, b, group=group, tile=SMALL)
    assert result.shape == (M, N) and result.is_contiguous() and torch.equal(result, exact(a, b))


@pytest.mark.parametrize("group", [1, 3])
def test_reads_and_writes_nothing_else(group):
    a, b = matrices(5, 9, 3, torch.float32, "cpu")
    zones = {"before": 64, "after": 64, "fill": 0xFF}
    a, b = Guarded.around(a, **zones), Guarded.around(b, **zones)
    c = Guarded((5, 9), torch.float32, "cpu", **zones)
    with recorded_accesses() as accesses:
        module.matmul_kernel[(9,)](
            a.tensor, b.tensor, c.tensor, 5, 9, 3, 3, 1, 9, 1, 9, 1,
            BLOCK_M=2, BLOCK_N=4, BLOCK_K=2, GROUP_M=group,
        )  # fmt: skip
    check_inside(accesses, "load", a=a.tensor, b=b.tensor)
    check_each_once(accesses, "store", c=c.tensor)
    c.check("c")
    assert torch.equal(c.tensor, exact(a.tensor, b.tensor))


def test_columns_past_the_end_are_not_read():
    """Even where they exist: a and b are parts of larger matrices, of which nothing else may be read."""
    whole_a, whole_b = matrices(7, 9, 9, torch.float32, "cpu")
    a, b = whole_a[:5, :3], whole_b[:3, :7]
    with recorded_accesses() as accesses:
        result = matmul(a, b, tile=SMALL)
    check_inside(accesses, "load", a=a, b=b)
    assert torch.equal(result, exact(a, b))


def test_any_strides(device):
    a, b = matrices(34, 40, 36, torch.float32, device)
    expected = exact(a, b)
    every_other = torch.zeros(68, 72, device=device)[::2, ::2].copy_(a)
    options = {"tile": (16, 16, 16), "group": 2}
    assert torch.equal(matmul(a.T.contiguous().T, b.T.contiguous().T, **options), expected)
    assert torch.equal(matmul(every_other, b, **options), expected)
    assert torch.equal(matmul(a[:1].expand(34, 36), b, **options), expected[:1].expand(34, 40))
    assert torch.equal(matmul(a, b[:, :1].expand(36, 40), **options), expected[:, :1].expand(34, 40))


def test_kernel_stores_at_the_strides_of_c():
    a, b = matrices(3, 5, 2, torch.float32, "cpu")
    c = torch.zeros(10, 6)[::2, ::2].T
    arguments = a, b, c, 3, 5, 2, *a.stride(), *b.stride(), *c.stride()
    module.matmul_kernel[(4,)](*arguments, BLOCK_M=2, BLOCK_N=4, BLOCK_K=2, GROUP_M=2)
    assert torch.equal(c, exact(a, b))


def test_dtypes(device):
    for dtype in served(device):
        a, b = matrices(33, 20, 19, dtype, device)
        result = matmul(a, b, tile=(16, 16, 16))
        assert result.dtype == dtype and torch.equal(result, exact(a, b))


def test_error_against_float64(device):
    for dtype, bound in ((torch.float32, 2e-7), (torch.float16, 3e-4), (torch.bfloat16, 3e-3)):
        if dtype in served(device):
            random = torch.Generator().manual_seed(0)
            a, b = (torch.randn(40, 40, generator=random).to(device, dtype) for _ in range(2))
            reference = a.double() @ b.double()
            assert (matmul(a, b, tile=(16, 16, 16)).double() - reference).norm() / reference.norm() < bound


def test_default_tile(device):
    a, b = matrices(70, 66, 20, torch.float32, device)
    assert torch.equal(matmul(a, b), exact(a, b))
    assert torch.equal(matmul(a.half(), b.half()), exact(a.half(), b.half()))


@pytest.mark.parametrize("far", ["stride_am", "stride_ak", "stride_bk", "stride_bn", "stride_cm", "stride_cn"])
def test_offsets_are_computed_in_64_bits(far):
    names = ("stride_am", "stride_ak", "stride_bk", "stride_bn", "stride_cm", "stride_cn")
    strides = [2**29 if name == far else 1 for name in names]  # the last 4 begin at 2**31
    tensors = dict(zip("abc", torch.zeros(3, 1), strict=True))
    with recorded_accesses(first_program=(3, 0, 0), memory=False) as accesses:  # the last of 2 x 2 tiles
        module.matmul_kernel[(1,)](
            *tensors.values(), 8, 8, 8, *strides, BLOCK_M=4, BLOCK_N=4, BLOCK_K=4, GROUP_M=1,
        )  # fmt: skip
    x, op = tensors[far[-2]], "store" if far[-2] == "c" else "load"
    expected = {
        row * strides[names.index(f"stride_{far[-2]}{'k' if far[-2] == 'b' else 'm'}")]
        + column * strides[names.index(f"stride_{far[-2]}{'k' if far[-2] == 'a' else 'n'}")]
        for row in range(0 if far[-2] == "b" else 4, 8)
        for column in range(0 if far[-2] == "a" else 4, 8)
    }
    offsets = {(int(address) - x.data_ptr()) // 4 for kind, at in accesses if kind == op for address in at}
    assert offsets >= expected, "the other matrix is touched, too, close by"


# Refusals


def test_a_step_of_8_is_refused_on_a_gpu():
    """Where Triton says of a ``tl.dot`` that its sides must be 16 or more; the interpreter takes any."""
    assert matmul(torch.ones(2, 3), torch.ones(3, 2), tile=(16, 16, 8)).tolist() == [[3.0] * 2] * 2
    compiled = mock.Mock(spec=triton.JITFunction)
    with mock.patch.object(module, "matmul_kernel", compiled), pytest.raises(ValueError, match="at least 16 on a GPU"):
        module.check_options(8, (16, 16, 8), 8)


def test_takes_what_requires_a_gradient_where_none_is_computed(device):
    with torch.no_grad():
        a = torch.ones(2, 2, device=device, requires_grad=True)
        assert matmul(a, torch.ones(2, 2, device=device)).eq(2).all()


@pytest.mark.parametrize(
    "dtype, tile, sides",
    [
        (torch.float32, None, (64, 64, 16)),
        (torch.float16, None, (128, 128, 64)),
        (torch.float32, (32, 16, 64), (32, 16, 64)),
    ],
)
def test_what_it_launches(dtype, tile, sides):
    """Grid, constants and arguments; and what the dot is told."""
    launched = []

    class Kernel:
        def __getitem__(self, grid):
            return lambda *arguments, **options: (
                launched.append((grid, options)), KERNEL[grid](*arguments, **options)
            )  # fmt: skip

    a, b = matrices(40, 150, 70, dtype, "cpu")
    with mock.patch.object(module, "matmul_kernel", Kernel()), precisions_of_dots() as seen:
        assert torch.equal(matmul(a, b, group=3, tile=tile, num_warps=2, num_stages=1), exact(a, b))
    m, n, k = sides
    blocks = {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": 3, "num_warps": 2, "num_stages": 1}
    assert launched == [((-(-40 // m) * -(-150 // n),), blocks)]
    assert seen == {"IEEE"}


KERNEL = module.matmul_kernel


# The model


def plain_reads(order, tiles_k, resident, cache):
    """The model once more, with a list: the last of it was asked for last."""
    kept, hits, reads = [], 0, 0
    for first in range(0, len(order), resident):
        for k in range(tiles_k):
            for m, n in order[first : first + resident]:
                for tile in (f"A{m},{k}", f"B{k},{n}"):
                    reads += 1
                    if tile in kept:
                        hits += 1
                        kept.remove(tile)
                    kept.append(tile)
                    kept = kept[-cache:]
    return reads, hits


@settings(max_examples=25)
@given(sides, sides, st.integers(1, 5), st.integers(1, 4), st.integers(1, 20), st.integers(1, 60))
def test_the_model(tiles_m, tiles_n, tiles_k, group, resident, cache):
    taken = tile_order(tiles_m, tiles_n, group)
    assert tile_reads(taken, tiles_k, resident=resident, cache=cache) == plain_reads(taken, tiles_k, resident, cache)


def test_known_numbers():
    by_hand = {1: (9 + 81, 810), 3: (27 + 27, 324)}
    for group, (first_nine, whole) in by_hand.items():
        taken = tile_order(9, 9, group)
        seen = tile_reads(taken[:9], 9, resident=9)
        assert seen.reads == 162 and seen.misses == first_nine
        assert tile_reads(taken, 9, resident=9, cache=60).misses == whole
        assert tile_reads(taken, 9, resident=9).misses == 2 * 81


def test_numbers_of_the_page():
    """What its text says of the explorer, and the exercises."""

    def misses(order, tiles_k=9, resident=9, cache=60):
        return tile_reads(order, tiles_k, resident=resident, cache=cache).misses

    at_120 = [misses(tile_order(9, 9, group), cache=120) for group in (1, 3)]
    assert at_120 == [162, 274]
    sixteen = {group: misses(tile_order(9, 9, group), resident=16) for group in range(1, 10)}
    assert min(sixteen, key=sixteen.get) == 5 and (sixteen[5], sixteen[4]) == (437, 461)
    twelve = {group: misses(tile_order(9, 9, group), resident=12) for group in range(1, 10)}
    assert min(twelve, key=twelve.get) == 3
    tall = [misses(tile_order(256, 2, group), tiles_k=4, resident=4, cache=20) for group in (1, 256)]
    assert tall == [1032, 2056]
    three = tile_order(9, 9, 3)
    serpentine = [(m, n if m // 3 % 2 == 0 else 8 - n) for m, n in three]
    assert misses(serpentine) == 270 and misses(three) == 324


def test_a_cache_of_one_tile_answers_nothing_but_a_repetition():
    assert tile_reads([(0, 0), (0, 1)], 3, resident=2, cache=1) == (12, 0)
    assert tile_reads([(0, 0)], 1, resident=1) == (2, 0) and tile_reads([], 1, resident=1) == (0, 0)


@pytest.mark.parametrize("options", [{"resident": 0}, {"resident": 1, "cache": 0}])
def test_the_model_refuses(options):
    with pytest.raises(ValueError, match="at least 1"):
        tile_reads([(0, 0)], 1, **options)
    with pytest.raises(ValueError, match="at least 1"):
        tile_reads([(0, 0)], 0, resident=1)


@pytest.mark.parametrize("tiles, group, side", [((5, 4, 3), 3, 1), ((3, 2, 2), 1, 4)])
def test_the_kernel_reads_what_the_model_says(tiles, group, side):
    programs = touched(tiles, group, side)
    assert [program.c for program in programs] == tile_order(*tiles[:2], group)
    for program in programs:
        m, n = program.c
        assert program.a == [(m, k) for k in range(tiles[2])] and program.b == [(k, n) for k in range(tiles[2])]
    kept, misses = OrderedDict(), 0  # all programs at once, and a cache that is never full
    for k in range(tiles[2]):
        for program in programs:
            for tile in (("a", program.a[k]), ("b", program.b[k])):
                misses += tile not in kept
                kept[tile] = None
    assert tile_reads(tile_order(*tiles[:2], group), tiles[2], resident=99).misses == misses


def test_predict():
    seen = predict(1024, 2, resident=5, cache=40)
    assert seen == tile_reads(tile_order(8, 8, 2), 16, resident=5, cache=40) and seen.reads == 2 * 64 * 16


# The file as a script


# On a GPU only


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", module.DTYPES, ids=str)
@pytest.mark.parametrize("M, N, K", [(1, 1, 1), (129, 257, 65), (5 * 128, 4 * 128, 192), (300, 1000, 77), (64, 0, 8)])
def test_ragged_on_a_gpu(dtype, M, N, K):
    a, b = matrices(M, N, K, dtype, "cuda")
    for group in (1, 3, 8):
        assert torch.equal(matmul(a, b, group=group), exact(a, b))
        assert torch.equal(matmul(a, b, group=group, num_warps=8, num_stages=4), exact(a, b))


@pytest.mark.parametrize("transposed", [False, True])
def test_elements_of_a_tile_too_far_apart_are_refused(transposed):
    memory = torch.empty(2**31 + 5, dtype=torch.float16)  # nothing touches most of it
    far = memory.as_strided((3, 5), (2**30, 1)).copy_(torch.arange(15).view(3, 5))
    near = torch.arange(10).view(5, 2).half()
    a, b = (near.t(), far.t()) if transposed else (far, near)
    name = "b" if transposed else "a"
    with pytest.raises(ValueError, match=rf"{name} has strides .* {2**31 + 4} apart; 2\*\*31 - 1"):
        matmul(a, b, tile=(4, 4, 16))
    expected = a.contiguous().float() @ b.contiguous().float()
    assert torch.equal(matmul(a, b, tile=(2, 2, 16)).float(), expected), "the third row begins at 2**31"


def test_a_tile_of_the_result_too_far_apart_is_refused():
    a, b = torch.ones(1, 1).half().expand(128, 1), torch.ones(1, 1).half().expand(1, 2**24 + 2**18)
    with pytest.raises(ValueError, match="c has strides"):
        matmul(a, b)


@pytest.mark.parametrize("stride, refused", [(2**31 - 1, False), (2**31, True)])
def test_how_far_apart_the_elements_of_a_tile_may_be(stride, refused):
    for shape, strides in (((2, 1), (stride, 2**40)), ((1, 2), (2**40, stride)), ((2, 100), (stride - 15, 1))):
        with pytest.raises(ValueError, match="32 × 16") if refused else contextlib.nullcontext():
            module.check_span("a", shape, strides, (32, 16))


@pytest.mark.gpu
def test_more_than_2_to_the_31_elements():
    M, K = 2**16 + 1, 2**15 + 16
    if torch.cuda.mem_get_info()[0] < 6e9:
        pytest.skip("needs 6 GB of free GPU memory")
    a = torch.ones(M, K, dtype=torch.float16, device="cuda")
    a[-1] = 2
    b = torch.zeros(K, 8, dtype=torch.float16, device="cuda")
    b[-3:] = 1
    result = matmul(a, b)
    assert result[-1].tolist() == [6.0] * 8 and result[-2].tolist() == [3.0] * 8
    assert torch.equal(matmul(b.T, a.T), result.T)


@pytest.mark.gpu
def test_kernel_uses_the_matrix_unit():
    a, b = matrices(256, 256, 256, torch.bfloat16, "cuda")
    c = torch.empty_like(a)
    compiled = module.matmul_kernel[(4,)](
        a, b, c, 256, 256, 256, *a.stride(), *b.stride(), *c.stride(),
        BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, GROUP_M=8, num_warps=8, num_stages=4,
    )  # fmt: skip
    if triton.runtime.driver.active.get_current_target().arch != 90:
        pytest.skip("wgmma is an instruction of compute capability 9.0")
    assert "wgmma.mma_async" in compiled.asm["ptx"] and compiled.n_spills == 0
