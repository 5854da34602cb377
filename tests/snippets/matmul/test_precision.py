# SPDX-License-Identifier: Apache-2.0
"""Precisions of a product: right on ragged sizes and any strides in each; what each is off, where it really differs."""

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
    environment,
    precisions_of_dots,
    recorded_accesses,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from snippets.matmul import precision
from snippets.matmul.precision import (
    PRECISIONS,
    SETTINGS,
    SMALL,
    by_parts,
    cut_to_tf32,
    matmul,
    matmul_kernel,
    relative_error,
    round_to_tf32,
    setting_kernel,
)  # fmt: skip
from tests.processes import run_script

TINY = {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 16, "GROUP_M": 2, "num_warps": 4, "num_stages": 2}


def whole(shape, seed, device, dtype=torch.float32):
    """Small whole numbers, of which products and sums are exact in every dtype, and exact in TF32."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-4, 5, shape, generator=generator).to(dtype).to(device)


def guarded(tensor, layout):
    """The tensor's values in a buffer with guard zones, stored by rows, by columns, or with gaps."""
    rows, columns = tensor.shape
    shape = {"rows": (rows, columns), "columns": (columns, rows), "gaps": (2 * rows, 3 * columns)}[layout]
    zone = Guarded(shape, tensor.dtype, tensor.device, before=64, after=64, fill=0xFF)
    view = {"rows": zone.tensor, "columns": zone.tensor.t(), "gaps": zone.tensor[::2, ::3]}[layout]
    view.copy_(tensor)
    return zone, view


def check(a, b, layouts=("rows", "rows"), block=TINY, **options):
    """Assert that the product is exact, each element of it stored once, and no load or store outside."""
    expected = (a.double() @ b.double()).to(options.get("out_dtype") or a.dtype)
    (a_zone, a), (b_zone, b) = guarded(a, layouts[0]), guarded(b, layouts[1])
    before = a_zone.bytes.clone(), b_zone.bytes.clone()
    out = Guarded(expected.shape, expected.dtype, a.device, before=64, after=2**11, fill=0x5A)
    record = a.device.type == "cpu"
    with (
        recorded_accesses() if record else contextlib.nullcontext() as accesses,
        mock.patch.object(torch, "empty", return_value=out.tensor) as empty,
    ):
        assert torch.equal(matmul(a, b, block=block, **options), expected)
    assert empty.call_args_list == [mock.call(tuple(expected.shape), dtype=expected.dtype, device=a.device)]
    out.check("the result")
    assert torch.equal(a_zone.bytes, before[0]) and torch.equal(b_zone.bytes, before[1]), "a and b are only read"
    if record:
        check_inside(accesses, "load", a=a, b=b)
        check_each_once(accesses, "store", out=out.tensor)


sizes = st.integers(1, 40)
layouts = st.sampled_from(["rows", "columns", "gaps"])


@given(
    M=sizes, N=sizes, K=sizes, how=st.sampled_from(PRECISIONS), layouts=st.tuples(layouts, layouts),
    seed=st.integers(0, 99),
)  # fmt: skip
@settings(max_examples=25)
def test_exact_on_whole_numbers(device, M, N, K, how, layouts, seed):
    check(whole((M, K), seed, device), whole((K, N), seed + 1, device), layouts, input_precision=how)


@pytest.mark.parametrize("M, N, K", [(16, 16, 16), (17, 33, 31), (1, 1, 1), (80, 65, 33)])
@pytest.mark.parametrize("sides", [(16, 16, 16), (32, 16, 16), (16, 32, 16), (16, 16, 32)])
def test_around_the_edges_of_a_tile(device, M, N, K, sides):
    block = TINY | dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), sides, strict=True))
    check(whole((M, K), 1, device), whole((K, N), 2, device), block=block)


def test_the_order_of_tiles():
    out = torch.empty(5 * 16, 4 * 32)
    with recorded_accesses() as accesses, mock.patch.object(torch, "empty", return_value=out):
        matmul(torch.ones(5 * 16, 1), torch.ones(1, 4 * 32), block=TINY | {"GROUP_M": 3})
    first = [(at.min() - out.data_ptr()) // 4 for op, at in accesses if op == "store"]
    expected = [(m, n) for rows in ((0, 1, 2), (3, 4)) for n in range(4) for m in rows]
    assert [(at // 128 // 16, at % 128 // 32) for at in first] == expected


@pytest.mark.parametrize("how", PRECISIONS)
def test_with_its_own_tiles(device, how):
    check(whole((130, 70), 3, device), whole((70, 300), 4, device), block=None, input_precision=how)


@pytest.mark.parametrize("sums", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("out_dtype", [None, torch.float32], ids=str)
def test_float16(device, sums, out_dtype):
    a, b = whole((40, 33), 5, device, torch.float16), whole((33, 50), 6, device, torch.float16)
    for block in (TINY, None):
        check(a, b, block=block, sums=sums, out_dtype=out_dtype)


def test_sums_in_float16_lose_what_float32_keeps(device):
    a, b = torch.ones(16, 256, device=device).half(), torch.ones(256, 16, device=device).half()
    a[:, 0] = 2048  # from there on float16 holds even numbers only, and the sum is odd
    assert matmul(a, b, out_dtype=torch.float32, block=TINY).eq(2048 + 255).all()
    assert matmul(a, b, sums=torch.float16, out_dtype=torch.float32, block=TINY).ne(2048 + 255).all()


@pytest.mark.parametrize("given, meant", [({}, "TF32"), *(({"input_precision": p}, p.upper()) for p in PRECISIONS)])
def test_the_precision_reaches_the_product(given, meant):
    with precisions_of_dots() as seen:
        matmul(torch.ones(16, 32), torch.ones(32, 16), block=TINY, **given)
    assert {name.upper() for name in seen} == {meant}


class Cramped:
    """In place of the kernel: as on a GPU whose shared memory holds so many stages and no more."""

    def __init__(self, room):
        self.room, self.tried = room, []

    def __getitem__(self, grid):
        def launch(*arguments, num_stages, **options):
            self.tried.append(num_stages)
            if num_stages > self.room:
                raise triton.OutOfResources(num_stages, self.room, "shared memory")
            return matmul_kernel[grid](*arguments, **options)

        return launch


def test_takes_fewer_stages_where_there_is_no_room_for_more():
    a, b = whole((5, 7), 1, "cpu", torch.float16), whole((7, 3), 2, "cpu", torch.float16)
    options = {"input_precision": "ieee", "sums": torch.float16, "out_dtype": torch.float32}
    for room, tried in ((3, [3]), (2, [3, 2]), (1, [3, 2, 1])):
        with (
            mock.patch.dict(precision.FEWER, clear=True),
            mock.patch.object(precision, "matmul_kernel", Cramped(room)) as cramped,
        ):
            for _ in range(2):  # the second time it knows
                with mock.patch.object(precision, "check_arguments") as checked:
                    assert torch.equal(matmul(a, b, **options), a.float() @ b.float())
                assert checked.call_args == mock.call(a, b, *options.values())
            assert cramped.tried == [*tried, tried[-1]]
            with pytest.raises(ValueError, match="does not fit on cpu"):
                matmul(a, b, block=TINY | {"num_stages": 4})
            assert cramped.tried[len(tried) + 1 :] == [4]


def test_refuses_what_does_not_fit_in_any_way():
    cramped = Cramped(0)
    with (
        mock.patch.dict(precision.FEWER, clear=True),
        mock.patch.object(precision, "matmul_kernel", cramped),
        pytest.raises(ValueError, match=r"'num_stages': 1.* does not fit on cpu"),
    ):
        matmul(torch.ones(2, 2), torch.ones(2, 2))
    assert cramped.tried == [3, 2, 1]


def test_tf32x3_is_refused_on_amd():
    with mock.patch.object(torch.version, "hip", "6.0"):
        with pytest.raises(ValueError, match="no tf32x3"):
            matmul(torch.ones(2, 2), torch.ones(2, 2), input_precision="tf32x3", block=TINY)
        assert matmul(torch.ones(2, 2), torch.ones(2, 2), input_precision="ieee", block=TINY).eq(2).all()


@pytest.mark.parametrize("option, low, high", [
    ("BLOCK_M", 16, 256), ("BLOCK_N", 16, 256), ("BLOCK_K", 16, 256), ("num_warps", 1, 32),
    ("GROUP_M", 1, None), ("num_stages", 1, None),
])  # fmt: skip
def test_the_ends_of_a_block(option, low, high):
    for size in filter(None, (low, high)):
        precision.check_block(TINY | {option: size})
    for size in filter(None, (low // 2 or -1, 2 * (high or 0))):
        with pytest.raises(ValueError, match=option):
            precision.check_block(TINY | {option: size})
    precision.check_block({name: size for name, size in TINY.items() if not name.startswith("num_")})


def test_takes_what_requires_a_gradient_where_none_is_computed(device):
    with torch.no_grad():
        assert matmul(torch.ones(2, 2, device=device, requires_grad=True), torch.ones(2, 2, device=device)).eq(2).all()


@pytest.mark.gpu
def test_errors_in_their_order():
    torch.manual_seed(0)
    a, b = torch.randn(512, 1024, device="cuda"), torch.randn(512, 1024, device="cuda").T
    exact = a.double() @ b.double()
    error = {how: relative_error(matmul(a, b, input_precision=how), exact) for how in PRECISIONS}
    assert error["ieee"] < 1e-6 and error["tf32x3"] < 5e-6 and 1e-4 < error["tf32"] < 2e-3, error
    paper = relative_error(cut_to_tf32(a).double() @ cut_to_tf32(b).double(), exact)
    assert 0.8 < error["tf32"] / paper < 1.25, "Hopper cuts, as cut_to_tf32 does"


@pytest.mark.gpu
@pytest.mark.parametrize("out_dtype", [None, torch.float32], ids=str)
def test_bfloat16(out_dtype):
    check(whole((140, 70), 5, "cuda", torch.bfloat16), whole((70, 150), 6, "cuda", torch.bfloat16), out_dtype=out_dtype)


# On paper


@given(x=st.floats(width=32, allow_nan=False, allow_infinity=False, allow_subnormal=False))
def test_cut(x):
    cut = cut_to_tf32(torch.tensor([x])).item()
    assert abs(cut) <= abs(x) and abs(x - cut) <= abs(x) * 2**-10
    assert cut_to_tf32(torch.tensor([cut])).item() == cut


@given(x=st.floats(width=32, min_value=-(2.0**126), max_value=2.0**126, allow_subnormal=False))
def test_round(x):
    rounded = round_to_tf32(torch.tensor([x]))
    assert abs(rounded.item() - x) <= abs(x) * 2**-11 and torch.equal(cut_to_tf32(rounded), rounded)


def bits(*values):
    return torch.tensor(values, dtype=torch.int64).to(torch.int32)


def test_what_is_not_finite_stays():
    special = bits(0x7FFFFFFF, 0x7F800001, 0x7FC00000, 0x7F800000, -0x800000, -1).view(torch.float32)
    for function in (cut_to_tf32, round_to_tf32):
        assert torch.equal(function(special).view(torch.int32), special.view(torch.int32))
    largest = bits(0x7F7FFFFF).view(torch.float32)
    assert cut_to_tf32(largest).isfinite() and round_to_tf32(largest) == torch.inf  # it is nearer than what is below


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int32], ids=str)
def test_only_float32_is_cut(dtype):
    for function in (cut_to_tf32, round_to_tf32):
        with pytest.raises(ValueError, match=f"x must be float32; got {dtype}"):
            function(torch.ones(2, dtype=dtype))


def test_parts_are_far_better_than_one():
    torch.manual_seed(0)
    a, b = torch.randn(32, 100), torch.randn(100, 32)
    exact = a.double() @ b.double()
    one = relative_error(cut_to_tf32(a).double() @ cut_to_tf32(b).double(), exact)
    assert relative_error(by_parts(a, b), exact) < one / 2000
    without_small_b = a.double() @ round_to_tf32(b).double()  # A·B + a·B: what the page says of leaving A·b out
    assert 1.5e-4 < relative_error(without_small_b, exact) < 2.5e-4


def test_cutting_shrinks_and_rounding_does_not():
    torch.manual_seed(0)
    a, b = torch.randn(200, 300), torch.randn(300, 200)
    exact = a.double() @ b.double()
    for to_tf32, least, most in ((cut_to_tf32, 5e-4, 1e-3), (round_to_tf32, -1e-5, 1e-5)):
        product = to_tf32(a).double() @ to_tf32(b).double()
        shrunk = 1 - (product * exact).sum() / exact.square().sum()
        assert least < shrunk < most


# The settings, old and new


@pytest.mark.parametrize("setting, meant", list(zip(SETTINGS, ("TF32", "TF32", "IEEE", "IEEE"), strict=True)))
def test_what_each_setting_means(setting, meant):
    from triton.runtime.interpreter import interpreter_builder as builder

    a, c = whole((64, 16), 1, "cpu"), torch.empty(64, 16)
    with mock.patch.object(builder, "create_dot", side_effect=builder.create_dot) as dot:
        setting_kernel[(1,)](a, a, c, SETTING=setting)
    (call,) = dot.call_args_list
    assert call.args[3].name == meant


@pytest.mark.parametrize("setting", SETTINGS)
def test_each_setting_multiplies(device, setting):
    a, b, c = whole((64, 16), 1, device), whole((16, 16), 2, device), torch.empty(64, 16, device=device)
    setting_kernel[(1,)](a, b, c, SETTING=setting)
    assert torch.equal(c, a @ b.T)


@pytest.mark.gpu
def test_old_settings_are_new_ones_by_another_name():
    torch.manual_seed(0)
    a, b = torch.randn(64, 16, device="cuda"), torch.randn(16, 16, device="cuda")
    results = {}
    for setting in SETTINGS:
        results[setting] = torch.empty(64, 16, device="cuda")
        setting_kernel[(1,)](a, b, results[setting], SETTING=setting)
    assert torch.equal(results["nothing"], results["allow_tf32=True"])
    assert torch.equal(results["allow_tf32=False"], results['input_precision="ieee"'])
    assert not torch.equal(results["nothing"], results["allow_tf32=False"])


# Edges


@pytest.mark.parametrize("M, N, K", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)])
def test_empty(device, M, N, K):
    out = matmul(torch.ones(M, K, device=device), torch.ones(K, N, device=device), block=TINY)
    assert out.shape == (M, N) and not out.any()


@pytest.mark.parametrize("strides_b", [(2**28, 1), (1, 2**15)], ids=["by rows", "by columns"])
def test_offsets_past_2_to_the_31(strides_b):
    a, b, out = torch.zeros(3, 1)  # the interpreter can run a late program without touching memory
    M, N = 2**20, 2**17
    last = (M // 16) * (N // 16) - 1
    block = {"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 16, "GROUP_M": 2}
    with recorded_accesses(first_program=(last, 0, 0), memory=False) as accesses:
        matmul_kernel[(1,)](
            a, b, out, M, N, 16, 2**12, 1, *strides_b, INPUT_PRECISION="ieee", SUMS=precision.tl.float32, **block
        )
    (_, at_a), (_, at_b), (_, at_out) = accesses
    assert (at_a.max() - a.data_ptr()) // 4 == (M - 1) * 2**12 + 15
    assert (at_b.max() - b.data_ptr()) // 4 == 15 * strides_b[0] + (N - 1) * strides_b[1]
    assert (at_out.max() - out.data_ptr()) // 4 == (M - 1) * N + N - 1


ones = torch.ones
REFUSED = {
    "many tiles": (
        lambda d: (ones(1, 1, device=d).expand(2**30, 1), ones(1, 1, device=d).expand(1, 2**30)), {}, ["too many"],
    ),
    "negative group": (lambda d: (ones(2, 2, device=d),) * 2, {"block": TINY | {"GROUP_M": -8}}, ["GROUP_M", "-8"]),
    "large group": (lambda d: (ones(64, 64, device=d),) * 2, {"block": TINY | {"GROUP_M": 2**30}}, ["too many"]),
    "no group": (lambda d: (ones(2, 2, device=d),) * 2, {"block": {k: 16 for k in list(TINY)[:3]}}, ["GROUP_M"]),
    "no sides": (lambda d: (ones(2, 2, device=d),) * 2, {"block": {"GROUP_M": 8}}, ["BLOCK_M", "'GROUP_M': 8"]),
    "step of 8": (lambda d: (ones(2, 2, device=d),) * 2, {"block": TINY | {"BLOCK_K": 8}}, ["from 16 to 256"]),
    "3 warps": (lambda d: (ones(2, 2, device=d),) * 2, {"block": TINY | {"num_warps": 3}}, ["num_warps"]),
}  # fmt: skip


@pytest.mark.parametrize("arguments, options, fragments", REFUSED.values(), ids=REFUSED)
def test_refuses(device, arguments, options, fragments):
    arguments = arguments(device)
    nothing = mock.Mock(numel=lambda: 1)  # in place of a result, which may be too large for this machine
    with mock.patch.object(torch, "empty", return_value=nothing), pytest.raises(ValueError) as error:
        matmul(*arguments, **options)
    for fragment in fragments:
        assert fragment in str(error.value)


def test_as_a_script(device):
    path = Path(precision.__file__)
    done = run_script(path, env=environment(device, PYTHONPATH=str(path.parents[2])))
    assert done.returncode == 0, done.stderr
    found = {name: float(value) for name, value in re.findall(r"^(.+): ([\d.e-]+)$", done.stdout, re.M)}
    assert found["three products of parts"] < found["inputs cut to TF32"] / 1000
    scaled = min(error for name, error in found.items() if name.startswith("the same, times 1.0007"))
    assert found["inputs rounded to TF32"] <= scaled < found["inputs cut to TF32"] / 2
    assert (found["tf32"] == found["ieee"]) == (device == "cpu") and found["ieee"] < 1e-6
    assert SMALL["BLOCK_K"] == 16 and len(re.findall("allow_tf32", done.stdout)) == 2
