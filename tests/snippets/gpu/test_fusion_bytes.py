# SPDX-License-Identifier: Apache-2.0
"""relu(x @ w): right on ragged sizes and any strides, NaN kept, nothing touched that is not its own."""

import contextlib
import re
from pathlib import Path
from unittest import mock

import pytest
import torch
import triton
from guards import (
    Guarded,
    check_each_once,
    check_inside,
    handed_out,
    nan_as_on_a_gpu,
    precisions_of_dots,
    recorded_accesses,
)
from hypothesis import given
from hypothesis import strategies as st

from snippets.gpu import fusion_bytes
from snippets.gpu.fusion_bytes import count_elements, matmul, matmul_kernel

SMALL = {"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 16}


def whole(shape, seed, device, dtype=torch.float32):
    """Small whole numbers, of which products and sums are exact in every dtype that is served."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-4, 5, shape, generator=generator).to(dtype).to(device)


def reference(x, w, relu):
    product = x.double() @ w.double()
    return torch.relu(product) if relu else product


def test_the_drawing_of_the_lesson_has_as_many_squares_as_are_counted():
    page = (Path(__file__).parents[3] / "docs/en/notes/fusion-bytes.md").read_text("utf-8")
    drawing = re.search(r'<svg class="chart".*</svg>', page)[0]
    counted = count_elements(4, 6, 2)
    squares = re.findall(r'<rect width="(\d+)" height="(\d+)" fill="url\(#(\w+)\)"', drawing)
    drawn = [(kind, int(width) * int(height) // 11**2) for width, height, kind in squares]
    assert drawn == [
        ("loaded", 8), ("loaded", 12), ("stored", counted["product"][1]),
        ("loaded", counted["relu"][0]), ("stored", counted["relu"][1]),
        ("loaded", 8), ("loaded", 12), ("stored", counted["product with relu"][1]),
    ]  # fmt: skip
    assert counted["product"][0] == counted["product with relu"][0] == 8 + 12
    two, one = sum(counted["product"] + counted["relu"]), sum(counted["product with relu"])
    assert f"Two kernels: {two} elements cross<" in drawing and f"One kernel: {one}<" in drawing
    assert f"That is {two}. One kernel loads 8 and 12 and stores 24. That is {one}." in drawing


def guarded(tensor, layout):
    """The tensor's values in a buffer with guard zones, stored by rows, by columns, or with gaps."""
    rows, columns = tensor.shape
    if layout == "columns":
        zone = Guarded((columns, rows), tensor.dtype, tensor.device, before=64, after=64, fill=0xFF)
        view = zone.tensor.t()
    elif layout == "gaps":
        zone = Guarded((2 * rows, 3 * columns), tensor.dtype, tensor.device, before=64, after=64, fill=0xFF)
        view = zone.tensor[::2, ::3]
    else:
        zone = Guarded((rows, columns), tensor.dtype, tensor.device, before=64, after=64, fill=0xFF)
        view = zone.tensor
    view.copy_(tensor)
    return zone, view


def check(x, w, relu, layouts=("rows", "rows"), block=None, record=True):
    """Assert that the product is exact, each element of it stored once, and no load or store outside."""
    expected = reference(x, w, relu).to(x.dtype)
    (x_zone, x), (w_zone, w) = guarded(x, layouts[0]), guarded(w, layouts[1])
    out = Guarded(expected.shape, x.dtype, x.device, before=64, after=2**11, fill=0x5A)
    (M, K), N = x.shape, w.shape[1]
    before = x_zone.bytes.clone(), w_zone.bytes.clone()
    record = record and x.device.type == "cpu"
    with recorded_accesses() if record else contextlib.nullcontext() as accesses:
        if block is None:
            with handed_out("empty", out.tensor):
                result = matmul(x, w, relu=relu)
            assert result is out.tensor
        else:
            grid = (triton.cdiv(M, block["BLOCK_M"]) * triton.cdiv(N, block["BLOCK_N"]),)
            matmul_kernel[grid](x, w, out.tensor, M, N, K, *x.stride(), *w.stride(), RELU=relu, **block)
    assert torch.equal(out.tensor, expected)
    x_zone.check("x"), w_zone.check("w"), out.check("the result")
    assert torch.equal(x_zone.bytes, before[0]) and torch.equal(w_zone.bytes, before[1]), "x and w are only read"
    if record:
        check_inside(accesses, "load", x=x_zone.tensor, w=w_zone.tensor)
        check_each_once(accesses, "store", out=out.tensor)


sizes = st.integers(1, 40)
layouts = st.sampled_from(["rows", "columns", "gaps"])


@given(M=sizes, N=sizes, K=sizes, relu=st.booleans(), layouts=st.tuples(layouts, layouts), seed=st.integers(0, 99))
def test_exact_on_whole_numbers(device, M, N, K, relu, layouts, seed):
    check(whole((M, K), seed, device), whole((K, N), seed + 1, device), relu, layouts, SMALL)


@pytest.mark.parametrize("M, N, K", [(16, 16, 16), (17, 33, 31), (1, 1, 1), (48, 16, 33), (15, 47, 16)])
@pytest.mark.parametrize("sides", [(16, 16, 16), (32, 16, 16), (16, 32, 32)])
def test_around_the_edges_of_a_tile(device, M, N, K, sides):
    block = dict(zip(SMALL, sides, strict=True))
    check(whole((M, K), 1, device), whole((K, N), 2, device), True, block=block)


@pytest.mark.parametrize("dtype", fusion_bytes.DTYPES, ids=str)
@pytest.mark.parametrize("M, N, K", [(130, 140, 70), (3, 5, 7), (128, 129, 16), (1, 300, 33), (300, 1, 33)])
def test_the_host_function(device, dtype, M, N, K):
    if device == "cpu" and dtype == torch.bfloat16:
        pytest.skip("refused there, see below")
    x, w = whole((M, K), 3, device, dtype), whole((K, N), 4, device, dtype)
    for relu in (False, True):
        check(x, w, relu, record=relu)
    check(x, w, True, ("columns", "gaps"), record=False)


@pytest.mark.parametrize("K, depth", [(1, 16), (16, 16), (17, 32), (32, 32), (33, 64), (4096, 64)])
def test_a_short_sum_takes_a_short_step(K, depth):
    with mock.patch.object(fusion_bytes, "matmul_kernel") as kernel:
        matmul(torch.ones(20, K).half(), torch.ones(K, 30).half())
    assert kernel[(1,)].call_args.kwargs["BLOCK_K"] == depth


@pytest.mark.parametrize("dtype", fusion_bytes.DTYPES, ids=str)
def test_sides_and_warps_are_powers_of_two(dtype):
    block = fusion_bytes.choose_block(64, dtype)
    assert block.pop("num_stages") and all(n.bit_count() == 1 for n in block.values())


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_random_numbers_within_the_bound(device, dtype):
    torch.manual_seed(0)
    x, w = torch.randn(65, 200).to(dtype).to(device), torch.randn(200, 66).to(dtype).to(device)
    out, exact = matmul(x, w).double(), reference(x, w, False)
    sums = (201 * torch.finfo(torch.float32).eps / 2) * (x.double().abs() @ w.double().abs())
    rounding = torch.finfo(dtype).eps / 2 * exact.abs()
    assert ((out - exact).abs() <= sums * 1.01 + rounding * 1.01 + 1e-6).all()


def test_float32_is_multiplied_as_float32():
    with precisions_of_dots() as seen:
        matmul(torch.ones(2, 20), torch.ones(20, 3))
    assert seen == {"IEEE"}


@pytest.mark.filterwarnings("ignore:invalid value encountered in matmul:RuntimeWarning")
def test_nan_and_infinity_stay(device):
    x = torch.tensor([[float("nan"), 1.0], [float("inf"), 1.0], [float("-inf"), 1.0]], device=device)
    w = torch.ones(2, 3, device=device)
    with nan_as_on_a_gpu() if device == "cpu" else contextlib.nullcontext():
        torch.testing.assert_close(matmul(x, w, relu=True), torch.relu(x @ w), equal_nan=True)
    torch.testing.assert_close(matmul(x, w), x @ w, equal_nan=True)


def test_without_relu_negative_numbers_stay(device):
    x, w = torch.tensor([[1.0, -2.0]], device=device), torch.tensor([[3.0, 0.0], [1.0, 1.0]], device=device)
    assert matmul(x, w).tolist() == [[1.0, -2.0]] and matmul(x, w, relu=True).tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize("M, N, K", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)])
def test_empty(device, M, N, K):
    out = matmul(torch.ones(M, K, device=device), torch.ones(K, N, device=device), relu=True)
    assert out.shape == (M, N) and not out.any()


def test_expanded_operands(device):
    x, w = torch.ones(1, 1, device=device).expand(20, 30), torch.full((30, 1), 2.0, device=device).expand(30, 7)
    assert torch.equal(matmul(x, w), torch.full((20, 7), 60.0, device=device))


@pytest.mark.parametrize("strides_w", [(2**28, 1), (1, 2**15)], ids=["by rows", "by columns"])
def test_offsets_past_2_to_the_31(strides_w):
    x, w, out = torch.zeros(3, 1)  # the interpreter can run a late program without touching memory
    M, N = 2**20, 2**17
    last = (M // 16) * (N // 16) - 1
    with recorded_accesses(first_program=(last, 0, 0), memory=False) as accesses:
        matmul_kernel[(1,)](x, w, out, M, N, 16, 2**12, 1, *strides_w, RELU=True, **SMALL)
    (_, at_x), (_, at_w), (_, at_out) = accesses
    assert (at_x.max() - x.data_ptr()) // 4 == (M - 1) * 2**12 + 15
    assert (at_w.max() - w.data_ptr()) // 4 == 15 * strides_w[0] + (N - 1) * strides_w[1]
    assert (at_out.max() - out.data_ptr()) // 4 == (M - 1) * N + N - 1


def test_as_many_programs_as_cuda_has():
    """Tiles of float32 are 64 × 64."""
    x, w = torch.ones(1, 1).expand(2**30, 1), torch.ones(1, 1).expand(1, 2**13)
    with mock.patch.object(fusion_bytes, "matmul_kernel") as kernel, mock.patch.object(torch, "empty"):
        matmul(x, w[:, :-64])
        with pytest.raises(ValueError, match="it would take 2147483648 programs"):
            matmul(x, w)
    assert kernel.__getitem__.call_args_list == [mock.call((2**31 - 2**24,))]


def test_no_gradient_is_promised_under_no_grad(device):
    x = torch.ones(2, 2, device=device, requires_grad=True)
    with torch.no_grad():
        assert not matmul(x, x).requires_grad


def test_counted_by_hand():
    M, N, K = 3, 5, 7
    x, w, out = ({(name, i) for i in range(size)} for name, size in (("x", M * K), ("w", K * N), ("out", M * N)))
    counted = count_elements(M, N, K)
    assert counted["product"] == counted["product with relu"] == (len(x | w), len(out))
    assert counted["relu"] == (len(out), len(out))
