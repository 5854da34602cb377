# SPDX-License-Identifier: Apache-2.0
"""The naive product: right on ragged and empty sizes, any strides and dtypes; each load and store where it belongs."""

import ast
import contextlib
import re
from collections import Counter
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
import triton
from guards import (
    Guarded,
    check_each_once,
    check_inside,
    environment,
    precisions_of_dots,
    recorded_accesses,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from sanitizer import check_sanitized

from snippets.matmul import naive
from snippets.matmul.naive import matmul, matmul_kernel, tile_numbers
from snippets.tools.testing import addresses_of
from tests.processes import run_python, run_script

SOURCE = Path(naive.__file__)
ROOT = str(SOURCE.parents[2])
TILES = st.sampled_from([(16, 16, 16), (32, 16, 16), (16, 32, 16), (16, 16, 32), (4, 8, 16)])
LAYOUTS = st.sampled_from(["rows", "columns", "gaps"])
SIZES = st.integers(0, 40)


def served(device):
    return [dtype for dtype in naive.DTYPES if device == "cuda" or dtype != torch.bfloat16]


def whole(shape, seed, device, dtype=torch.float32):
    """Small whole numbers, of which products and sums are exact in every dtype that is served."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-2, 3, shape, generator=generator).to(dtype).to(device)


def guarded(tensor, layout):
    """The values of ``tensor`` among NaNs, stored by rows, by columns, or with gaps."""
    rows, columns = tensor.shape
    shape, view = {
        "rows": ((rows, columns), lambda t: t),
        "columns": ((columns, rows), lambda t: t.t()),
        "gaps": ((2 * rows, 3 * columns), lambda t: t[::2, ::3]),
    }[layout]
    zone = Guarded(shape, tensor.dtype, tensor.device, before=64, after=64, fill=0xFF)
    placed = view(zone.tensor)
    placed.copy_(tensor)
    return zone, placed


def check(a, b, tile=None, layouts=("rows", "rows")):
    """Assert that the product is exact, and, in the interpreter, that each load and store is due, and as often."""
    expected = (a.double() @ b.double()).to(a.dtype)
    (zone_a, a), (zone_b, b) = guarded(a, layouts[0]), guarded(b, layouts[1])
    out = Guarded(expected.shape, a.dtype, a.device, before=64, after=256, fill=0x5A)
    before = zone_a.bytes.clone(), zone_b.bytes.clone()
    with recorded_accesses() if a.device.type == "cpu" else contextlib.nullcontext() as accesses:
        with mock.patch.object(torch, "empty", return_value=out.tensor) as empty:
            result = matmul(a, b, tile=tile)
        assert result is out.tensor
        empty.assert_called_once_with(tuple(expected.shape), dtype=a.dtype, device=a.device)
    assert torch.equal(result, expected)
    zone_a.check("a"), zone_b.check("b"), out.check("c")
    assert torch.equal(zone_a.bytes, before[0]) and torch.equal(zone_b.bytes, before[1]), "a and b are only read"
    if accesses is not None:
        check_each_once(accesses, "store", c=out.tensor)
        block = naive.default_tile(a.dtype, a.shape[1]) if tile is None else tile
        check_loads(accesses, a, b, block)


def check_loads(accesses, a, b, tile):
    """Each element of a is loaded once for every column of tiles, each of b once for every row of tiles."""
    found = Counter(check_inside(accesses, "load", a=a, b=b).tolist())
    rows_of_tiles, columns_of_tiles = triton.cdiv(a.shape[0], tile[0]), triton.cdiv(b.shape[1], tile[1])
    due = Counter(dict.fromkeys(addresses_of(a).tolist(), columns_of_tiles))
    due.update(dict.fromkeys(addresses_of(b).tolist(), rows_of_tiles))
    assert found == +due


@settings(max_examples=25)
@given(
    M=SIZES, N=SIZES, K=SIZES, tile=TILES, layouts=st.tuples(LAYOUTS, LAYOUTS), seed=st.integers(0, 99), data=st.data()
)
def test_exact_on_whole_numbers(device, M, N, K, tile, layouts, seed, data):
    dtype = data.draw(st.sampled_from(served(device)))
    check(whole((M, K), seed, device, dtype), whole((K, N), seed + 1, device, dtype), tile, layouts)


@pytest.mark.parametrize("M, N, K", [(16, 16, 16), (17, 33, 31), (1, 1, 1), (15, 47, 33), (3, 5, 4)])
@pytest.mark.parametrize("tile", [(16, 16, 16), (4, 8, 16)])
def test_around_the_edges_of_a_tile(device, M, N, K, tile):
    check(whole((M, K), 1, device), whole((K, N), 2, device), tile)


@pytest.mark.parametrize("dtype", naive.DTYPES, ids=str)
@pytest.mark.parametrize("M, N, K", [(130, 140, 70), (3, 5, 7), (1, 129, 20)])
def test_the_default_tiles(device, dtype, M, N, K):
    if dtype not in served(device):
        pytest.skip("refused there, see below")
    check(whole((M, K), 3, device, dtype), whole((K, N), 4, device, dtype), layouts=("columns", "rows"))


@pytest.mark.parametrize("K, step", [(0, 16), (16, 16), (17, 32), (32, 32), (33, 64), (4096, 64)])
def test_the_default_step_is_no_longer_than_due(K, step):
    assert naive.default_tile(torch.float16, K) == naive.default_tile(torch.bfloat16, K) == (128, 128, step)
    assert naive.default_tile(torch.float32, K) == (64, 64, 16)


@pytest.mark.parametrize(
    "dtype, tile, sides, warps",
    [
        (torch.float16, None, (128, 128, 32), 8),
        (torch.float32, None, (64, 64, 16), 4),
        (torch.float32, (512, 32, 16), (512, 32, 16), 8),
        (torch.float32, (32, 512, 16), (32, 512, 16), 8),
        (torch.float32, (64, 128, 16), (64, 128, 16), 4),
    ],
)
def test_what_it_launches(dtype, tile, sides, warps):
    a, b = torch.ones(20, 300, dtype=dtype).t(), torch.ones(20, 700, dtype=dtype)[:, ::2]
    with mock.patch.object(naive, "matmul_kernel") as kernel:
        c = matmul(a, b, tile=tile)
    blocks = dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), sides, strict=True))
    assert kernel.__getitem__.call_args_list == [mock.call((-(-300 // sides[0]) * -(-350 // sides[1]),))]
    ((*tensors, M, N, K, am, ak, bk, bn, cm, cn), options), *more = kernel.__getitem__.return_value.call_args_list
    assert all(x is y for x, y in zip(tensors, (a, b, c), strict=True)) and not more
    assert (M, N, K, am, ak, bk, bn, cm, cn) == (300, 350, 20, 1, 300, 700, 2, 350, 1)
    assert options == blocks | {"num_warps": warps, "num_stages": 3}


@pytest.mark.parametrize("M, N, refused", [(42966, 49981, False), (2**16, 2**15, True)])
def test_as_many_programs_as_fit_on_an_axis(M, N, refused):
    """The most that two dimensions can ask for: 2**31 - 2, as 2**31 - 1 is prime."""
    a, b, c = (torch.ones(1, 1).expand(shape) for shape in ((M, 1), (1, N), (M, N)))
    with (
        mock.patch.object(naive, "matmul_kernel") as kernel,
        mock.patch.object(torch, "empty", return_value=c),
        pytest.raises(ValueError, match="2147483648 programs") if refused else contextlib.nullcontext(),
    ):
        matmul(a, b, tile=(1, 1, 16))
    assert kernel.__getitem__.call_args_list == ([] if refused else [mock.call((2**31 - 2,))])


@pytest.mark.parametrize("M, N, K", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)])
def test_empty(device, M, N, K):
    c = matmul(torch.ones(M, K, device=device), torch.ones(K, N, device=device))
    assert c.shape == (M, N) and not c.any()


def test_random_numbers_within_the_bound(device):
    torch.manual_seed(0)
    for dtype in served(device):
        a, b = torch.randn(65, 200).to(dtype).to(device), torch.randn(200, 66).to(dtype).to(device)
        c, exact = matmul(a, b).double(), a.double() @ b.double()
        sums = (201 * torch.finfo(torch.float32).eps / 2) * (a.double().abs() @ b.double().abs())
        rounding = torch.finfo(dtype).eps / 2 * exact.abs()
        assert ((c - exact).abs() <= 1.01 * (sums + rounding) + 1e-6).all()
        assert naive.error(c, a, b) < (1e-6 if dtype == torch.float32 else torch.finfo(dtype).eps)


def test_sums_are_kept_in_float32(device):
    for dtype in served(device):
        ones = torch.ones(2, 4096, dtype=dtype, device=device)  # in float16, 2048 + 1 is 2048
        assert matmul(ones, ones.t(), tile=(16, 16, 128)).unique().tolist() == [4096]


def test_float32_is_not_rounded_to_tf32(device):
    a = torch.full((1, 16), 1 + 2.0**-20, device=device)
    assert matmul(a, torch.eye(16, device=device)[:, :1]).item() == 1 + 2.0**-20


@pytest.mark.filterwarnings("ignore:invalid value encountered in matmul:RuntimeWarning")
def test_nan_and_infinity_stay_in_their_row_and_column(device):
    a, b = torch.ones(20, 20, device=device), torch.ones(20, 20, device=device)
    a[3, 4], b[7, 17] = float("nan"), float("inf")
    torch.testing.assert_close(matmul(a, b, tile=(16, 16, 16)), a @ b, equal_nan=True)


def test_expanded_operands(device):
    a, b = torch.ones(1, 1, device=device).expand(20, 30), torch.full((30, 1), 2.0, device=device).expand(30, 7)
    assert torch.equal(matmul(a, b), torch.full((20, 7), 60.0, device=device))


@pytest.mark.parametrize("by_rows", [True, False], ids=["by rows", "by columns"])
def test_offsets_past_2_to_the_31(by_rows):
    a, b, c = torch.zeros(3, 1)  # the interpreter can run a late program without touching memory
    M, N, K = 2**20, 2**18, 64
    strides = (2**12, 1, 2**26, 1, N, 1) if by_rows else (1, 2**26, 1, 2**14, 1, M)
    block = {"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 16}
    with recorded_accesses(first_program=(M // 16 * (N // 16) - 1, 0, 0), memory=False) as accesses:
        matmul_kernel[(1,)](a, b, c, M, N, K, *strides, **block)
    last = accesses[-3:]  # of the fourth step, and the store
    farthest = [int(at.max() - start.data_ptr()) // 4 for (_, at), start in zip(last, (a, b, c), strict=True)]
    ends = ((M - 1, K - 1), (K - 1, N - 1), (M - 1, N - 1))
    assert farthest == [int(np.dot(end, strides[2 * i : 2 * i + 2])) for i, end in enumerate(ends)]
    assert min(farthest) > 2**31


def far_apart(device="cpu"):
    """Three rows of 5, each 2**30 elements after the one before, of which nothing else is ever touched."""
    memory = torch.empty(2**31 + 5, dtype=torch.float16, device=device)
    return memory.as_strided((3, 5), (2**30, 1)).copy_(torch.arange(15).view(3, 5))


@pytest.mark.parametrize("transposed", [False, True])
def test_elements_of_a_tile_too_far_apart_are_refused(transposed):
    far, near = far_apart(), torch.arange(10).view(5, 2).half()
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
            naive.check_span("a", shape, strides, (32, 16))


def test_offsets_within_a_tile_have_32_bits():
    """Widths of what is added to pointers: only one number in 64 bits for each tile, and never a tile of them."""
    code = (
        "import re\n"
        "from snippets.matmul import grouped, naive\n"
        "from snippets.matmul.fused_compiled import compiled\n"
        "strides = {f'stride_{name}': 'i32' for name in ('am', 'bk', 'cm')}\n"
        "types = dict.fromkeys(('a_ptr', 'b_ptr', 'c_ptr'), '*bf16') | dict.fromkeys('MNK', 'i32') | strides\n"
        "sides = {'BLOCK_M': 128, 'BLOCK_N': 128, 'BLOCK_K': 64}\n"
        "constants = sides | dict.fromkeys(('stride_ak', 'stride_bn', 'stride_cn'), 1)\n"
        "for module, more in ((naive, {}), (grouped, {'GROUP_M': 8})):\n"
        "    made = compiled(module.matmul_kernel, types, constants | more, num_warps=8, num_stages=3)\n"
        "    assert re.search(r'tensor<\\d+x\\d+xi32', made.asm['ttir'])\n"
        "    wide = re.findall(r'.*arith.*tensor<.*xi64>.*', made.asm['ttir'])\n"
        "    assert not [line for line in wide if 'dense' not in line], wide\n"
        "    sizes = set(re.findall(r'cp.async.\\w+.shared.global \\[[^,]*, \\[[^,]*, 0x(\\w+)', made.asm['ptx']))\n"
        "    assert sizes == {'10'}, sizes\n"
    )
    done = run_python("-c", code, env=environment("cuda"))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("tile", [(1, 1, 16), (128, 128, 64), (32, 512, 16), (512, 32, 16), (1, 1, 2**13)], ids=str)
def test_the_smallest_and_largest_tiles(tile):
    assert naive.check_tile(tile) == tile


def test_float32_is_multiplied_as_float32():
    with precisions_of_dots() as seen:
        matmul(torch.ones(2, 20), torch.ones(20, 3))
    assert seen == {"IEEE"}


def test_no_gradient_is_promised_under_no_grad(device):
    a = torch.ones(2, 2, device=device, requires_grad=True)
    with torch.no_grad():
        assert not matmul(a, a).requires_grad


@pytest.mark.parametrize("M, N, BLOCK_M, BLOCK_N", [(7, 10, 4, 4), (1, 1, 2, 4), (9, 5, 2, 8)])
def test_tile_numbers(device, M, N, BLOCK_M, BLOCK_N):
    rows, columns = torch.arange(M)[:, None] // BLOCK_M, torch.arange(N)[None, :] // BLOCK_N
    expected = rows * triton.cdiv(N, BLOCK_N) + columns
    numbers = tile_numbers(M, N, BLOCK_M, BLOCK_N, device)
    assert numbers.dtype == torch.int32 and torch.equal(numbers.cpu().long(), expected)


def test_tile_numbers_writes_nothing_else(device):
    out = Guarded((7, 10), torch.int32, device, before=64, after=64, fill=0x5A)
    with mock.patch.object(torch, "empty", return_value=out.tensor):
        tile_numbers(7, 10, 4, 4, device)
    out.check("the numbers")


def test_each_tile_number_is_stored_once():
    with recorded_accesses() as accesses:
        numbers = tile_numbers(9, 10, 2, 8, "cpu")
    check_each_once(accesses, "store", numbers=numbers)


def test_tile_numbers_are_computed_where_they_are_stored(device):
    with mock.patch.object(torch.cuda, "device_of", wraps=torch.cuda.device_of) as device_of:
        tile_numbers(2, 2, 2, 2, device)
    assert device_of.called, "or Triton launches on the current device, whatever the tensor's"


def test_as_a_script(device):
    done = run_script(SOURCE, env=environment(device, PYTHONPATH=ROOT))
    assert done.returncode == 0, done.stderr
    for line in (
        "    [246, 272, 298, 324, 350]",
        "row 1 of a, column 2 of b: 5·3 + 6·8 + 7·13 + 8·18 = 298",
        "3 3 3 3 4 4 4 4 5 5",
        "k from 0 to 39: c[2, 5] = -31",
        "all of c: equal to torch",
        "4096 ones, added up in float16: 2048",
        "4096 ones, by matmul: 4096",
    ):
        assert line in done.stdout.splitlines()
    assert "130 × 77 @ 77 × 141: equal to torch" in done.stdout
    errors = {name: float(value) for name, value in re.findall(r"^(\w+): (\S+e-\d+)$", done.stdout, re.M)}
    assert list(errors) == [str(dtype).removeprefix("torch.") for dtype in served(device)]
    assert errors["float32"] < 1e-6 and errors["float16"] < 1e-3 and errors.get("bfloat16", 0) < 5e-3


@pytest.mark.gpu
def test_more_than_2_to_the_31_elements():
    if torch.cuda.mem_get_info()[0] < 10e9:
        pytest.skip("needs 10 GB of free GPU memory")
    M, K = 2**17 + 1, 2**14 + 16
    a = torch.zeros(M, K, dtype=torch.float16, device="cuda")
    a[-1, -3:] = 1
    b = torch.ones(K, 3, dtype=torch.float16, device="cuda")
    c = matmul(a, b)
    assert c[-1].tolist() == [3.0] * 3 and not c[:-1].any()
    c = matmul(b.t(), a.t())
    assert c[:, -1].tolist() == [3.0] * 3 and not c[:, :-1].any()


@pytest.mark.gpu
def test_compute_sanitizer_finds_nothing():
    check_sanitized(SOURCE)


def test_a_step_of_8(device):
    """The interpreter computes it. NVIDIA's compiler takes 8 of float32 from Triton 3.8 on, and refuses it before."""
    refuses = device == "cuda" and tuple(map(int, triton.__version__.split(".")[:2])) < (3, 8)
    refusal = "Input shapes should have M >= 1, N >= 1 and K >= 16"
    assert naive.short_step(device) == (refusal if refuses else "computed, right")


def test_a_step_of_8_is_one_program_and_one_step():
    with mock.patch.object(naive, "matmul_kernel") as kernel:
        assert naive.short_step("cpu") == "computed, wrong", "the product of ones is not one"
    kernel.__getitem__.assert_called_once_with((1,))
    (*tensors, M, N, K, am, ak, bk, bn, cm, cn), options = kernel.__getitem__.return_value.call_args
    assert [x.shape for x in tensors] == [(M, K), (K, N), (M, N)] == [(16, 8), (8, 16), (16, 16)]
    assert (am, ak, bk, bn, cm, cn) == (8, 1, 16, 1, 16, 1)
    assert options == {"BLOCK_M": M, "BLOCK_N": N, "BLOCK_K": K}


def test_a_step_of_8_says_the_last_line_of_a_refusal():
    place = ast.Pass(lineno=2, col_offset=4)
    refusal = triton.CompilationError("def kernel():\n    pass", place, "K must be\nK >= 16")
    with mock.patch.object(naive, "matmul_kernel") as kernel:
        kernel.__getitem__.return_value.side_effect = refusal
        assert naive.short_step("cpu") == "K >= 16"
