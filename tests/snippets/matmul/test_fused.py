# SPDX-License-Identifier: Apache-2.0
"""A linear layer in one kernel: as torch computes it, on ragged sizes and any strides, rounded once."""

import contextlib
import math
import re
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
import torch
import triton
import triton.language as tl
from guards import Guarded, check_each_once, check_inside, environment, recorded_accesses
from hypothesis import given, settings
from hypothesis import strategies as st

from snippets.matmul import fused
from snippets.matmul.fused import ACTIVATIONS, DTYPES, activate, bytes_of, in_torch, linear, linear_kernel

SMALL = {"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 16, "GROUP_M": 2, "num_warps": 4, "num_stages": 2}


def small_tiles(**sides):
    return mock.patch.object(fused, "choose_block", lambda M, dtype: SMALL | sides)


def whole(shape, seed, device, dtype=torch.float32):
    """Small whole numbers, of which products and sums are exact in every dtype that is served."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-4, 5, shape, generator=generator).to(dtype).to(device)


def guarded(tensor, layout):
    """The tensor's values in a buffer with guard zones, stored by rows, by columns, or with gaps."""
    zones = {"before": 64, "after": 64, "fill": 0xFF}
    rows, columns = tensor.shape if tensor.ndim == 2 else (1, *tensor.shape)
    shape = {"rows": (rows, columns), "columns": (columns, rows), "gaps": (2 * rows, 3 * columns)}[layout]
    zone = Guarded(shape, tensor.dtype, tensor.device, **zones)
    view = {"rows": zone.tensor, "columns": zone.tensor.t(), "gaps": zone.tensor[::2, ::3]}[layout]
    view.copy_(tensor)
    return zone, view if tensor.ndim == 2 else view[0]


def check(x, weight, bias, activation, layouts=("rows",) * 3, tiles=small_tiles):
    """Assert that the result is exact, each element of it stored once, and no load or store outside."""
    expected = in_torch(activation)(torch.nn.functional.linear(x.double(), weight.double())
                                    + (0 if bias is None else bias.double()))  # fmt: skip
    given = [guarded(t, layout) for t, layout in zip((x, weight, bias), layouts, strict=True) if t is not None]
    before = [zone.bytes.clone() for zone, _ in given]
    out = Guarded(expected.shape, x.dtype, x.device, before=64, after=2**11, fill=0x5A)
    record = x.device.type == "cpu"
    with (
        tiles(),
        recorded_accesses() if record else contextlib.nullcontext() as accesses,
        mock.patch.object(torch, "empty", return_value=out.tensor),
    ):
        result = linear(*(view for _, view in given), activation=activation)
    assert result is out.tensor and torch.equal(result, expected.to(x.dtype))
    out.check("the result")
    for (zone, _), bytes_before in zip(given, before, strict=True):
        assert torch.equal(zone.bytes, bytes_before), "arguments are only read"
    if record:
        check_inside(accesses, "load", **{f"argument {i}": view for i, (_, view) in enumerate(given)})
        check_each_once(accesses, "store", out=out.tensor)


sizes = st.integers(1, 40)
layouts = st.sampled_from(["rows", "columns", "gaps"])


@given(
    M=sizes, N=sizes, K=sizes, relu=st.booleans(), bias=st.booleans(),
    layouts=st.tuples(layouts, layouts, st.sampled_from(["rows", "gaps"])), seed=st.integers(0, 99),
)  # fmt: skip
@settings(max_examples=25)
def test_exact_on_whole_numbers(device, M, N, K, relu, bias, layouts, seed):
    x, weight = whole((M, K), seed, device), whole((N, K), seed + 1, device)
    bias = whole((N,), seed + 2, device) if bias else None
    check(x, weight, bias, "relu" if relu else None, layouts)


@pytest.mark.parametrize("M, N, K", [(16, 16, 16), (17, 33, 31), (1, 1, 1), (80, 48, 33), (47, 80, 16)])
@pytest.mark.parametrize("sides", [(16, 16, 16), (32, 16, 16), (16, 32, 16), (16, 16, 32)])
def test_around_the_edges_of_a_tile(device, M, N, K, sides):
    tiles = lambda: small_tiles(**dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), sides, strict=True)))
    check(whole((M, K), 1, device), whole((N, K), 2, device), whole((N,), 3, device), "relu", tiles=tiles)


def test_the_order_of_tiles():
    out = torch.empty(5 * 16, 4 * 32)
    with (
        recorded_accesses() as accesses,
        small_tiles(BLOCK_N=32, GROUP_M=3),
        mock.patch.object(torch, "empty", return_value=out),
    ):
        linear(torch.ones(5 * 16, 1), torch.ones(4 * 32, 1))
    first = [(at.min() - out.data_ptr()) // 4 for op, at in accesses if op == "store"]
    expected = [(m, n) for rows in ((0, 1, 2), (3, 4)) for n in range(4) for m in rows]
    assert [(at // 128 // 16, at % 128 // 32) for at in first] == expected


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("M, N, K", [(130, 300, 70), (3, 5, 7)])
def test_with_its_own_tiles(device, dtype, M, N, K):
    if device == "cpu" and dtype == torch.bfloat16:
        pytest.skip("refused there, see below")
    check(whole((M, K), 3, device, dtype), whole((N, K), 4, device, dtype), whole((N,), 5, device, dtype), None,
          tiles=contextlib.nullcontext)  # fmt: skip


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("M, N, K", [(1000, 777, 333), (16, 1024, 512), (65, 64, 1)])
def test_compiled_against_float64(dtype, activation, M, N, K):
    x, weight, bias = (torch.randn(shape, device="cuda").to(dtype) for shape in ((M, K), (N, K), (N,)))
    exact = in_torch(activation)(x.double() @ weight.double().T + bias.double())
    error = (linear(x, weight, bias, activation).double() - exact).norm() / exact.norm()
    assert error < max(torch.finfo(dtype).eps / 2, 1e-6)


# Each activation


@triton.jit
def activate_kernel(x_ptr, out_ptr, ACTIVATION: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, activate(tl.load(x_ptr + i), ACTIVATION))


VALUES = [-1e30, -300.0, -20.0, -5.0, -1.5, -0.5, -1e-3, 0.0, 1e-3, 0.5, 1.5, 3.0, 5.0, 20.0, 300.0, math.inf]


@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_as_in_torch(device, activation):
    x = torch.tensor(VALUES, device=device)
    out = torch.empty_like(x)
    activate_kernel[(1,)](x, out, activation, len(VALUES))
    torch.testing.assert_close(out.double(), in_torch(activation)(x.double()), rtol=3e-6, atol=2e-6)
    x[3], x[9] = math.nan, math.nan
    activate_kernel[(1,)](x, out, activation, len(VALUES))
    assert out.isnan().nonzero().flatten().tolist() == [3, 9]


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
def test_the_bias_comes_before_the_activation(device, activation):
    x, weight, bias = (torch.randn(s, device=device, dtype=torch.float64) for s in ((20, 18), (21, 18), (21,)))
    expected = in_torch(activation)(torch.nn.functional.linear(x, weight, bias))
    with small_tiles():
        out = linear(x.float(), weight.float(), bias.float(), activation)
    torch.testing.assert_close(out.double(), expected, rtol=1e-4, atol=1e-5)


def test_rounded_once(device):
    # 1 + 2**-11 + 2**-20 in float32; rounded to float16 it is 1 + 2**-10. A bias of -1 added to the rounded product
    # would leave 2**-10.
    x = torch.tensor([[1.0, 2**-11, 2**-10]], device=device).half()
    weight = torch.tensor([[1.0, 1.0, 2**-10]], device=device).half()
    assert linear(x, weight, -torch.ones(1, device=device).half()).item() == 2**-11 + 2**-20


def test_leading_dimensions(device):
    weight = whole((3, 4), 1, device)
    for x in (whole((4,), 2, device), whole((2, 5, 4), 3, device), whole((5, 2, 4), 4, device).transpose(0, 1)):
        out = linear(x, weight)
        assert torch.equal(out, torch.nn.functional.linear(x, weight)) and out.is_contiguous()


@pytest.mark.parametrize("shape, N", [((0, 4), 3), ((3, 4), 0), ((2, 0, 4), 3)])
def test_empty(device, shape, N):
    assert linear(torch.ones(shape, device=device), torch.ones(N, 4, device=device)).shape == (*shape[:-1], N)


def test_sums_of_nothing_leave_the_bias(device):
    out = linear(torch.ones(2, 0, device=device), torch.ones(3, 0, device=device), whole((3,), 1, device), "relu")
    assert torch.equal(out, whole((3,), 1, device).relu().expand(2, 3))


@pytest.mark.parametrize("strides_w", [(2**15, 1), (1, 2**28)], ids=["by rows", "by columns"])
def test_offsets_past_2_to_the_31(strides_w):
    x, w, out = torch.zeros(3, 1)  # the interpreter can run a late program without touching memory
    M, N = 2**20, 2**17
    last = (M // 16) * (N // 16) - 1
    block = {key: value for key, value in SMALL.items() if key.startswith("BLOCK")}
    with recorded_accesses(first_program=(last, 0, 0), memory=False) as accesses:
        linear_kernel[(1,)](
            x, w, w, out, M, N, 16, 2**12, 1, *strides_w, 2**15,
            HAS_BIAS=True, ACTIVATION=None, GROUP_M=2, **block,
        )  # fmt: skip
    (_, at_x), (_, at_w), (_, at_bias), (_, at_out) = accesses
    assert (at_x.max() - x.data_ptr()) // 4 == (M - 1) * 2**12 + 15
    assert (at_w.max() - w.data_ptr()) // 4 == (N - 1) * strides_w[0] + 15 * strides_w[1]
    assert (at_bias.max() - w.data_ptr()) // 4 == (N - 1) * 2**15
    assert (at_out.max() - out.data_ptr()) // 4 == (M - 1) * N + N - 1


ones = torch.ones
REFUSED = {
    "no match": (lambda d: (ones(2, 3, device=d), ones(3, 2, device=d)), ["(N, K)", "(3, 2)"]),
    "a number": (lambda d: (ones((), device=d), ones(3, 2, device=d)), ["(..., K)", "()"]),
    "bias": (lambda d: (ones(2, 3, device=d), ones(4, 3, device=d), ones(3, device=d)), ["bias", "(4,)", "(3,)"]),
    "activation": (lambda d: (ones(2, 3, device=d),) * 2 + (None, "selu"), ["'selu'", "gelu_tanh"]),
    "float64": (lambda d: (ones(2, 2, device=d).double(),) * 2, ["torch.float64", "use one of"]),
    "two dtypes": (lambda d: (ones(2, 2, device=d), ones(2, 2, device=d).half()), ["weight torch.float16", "alike"]),
    "bias of another": (
        lambda d: (ones(2, 2, device=d), ones(2, 2, device=d), ones(2, device=d).half()), ["bias torch.float16"],
    ),
    "meta": (lambda d: (ones(2, 2, device="meta"),) * 2, ["x is on meta"]),
    "long": (lambda d: (ones(1, 1, device=d).expand(2**30 + 1, 1), ones(1, 1, device=d)), ["2**30"]),
    "many tiles": (
        lambda d: (ones(1, 1, device=d).expand(2**30, 1), ones(1, 1, device=d).expand(2**30, 1)), ["too many tiles"],
    ),
    "negated": (lambda d: (torch._neg_view(ones(2, 2, device=d)), ones(2, 2, device=d)), ["x.resolve_neg"]),
    "gradient": (lambda d: (ones(2, 2, device=d), ones(2, 2, device=d, requires_grad=True)), ["weight requires"]),
}  # fmt: skip


@pytest.mark.parametrize("arguments, fragments", REFUSED.values(), ids=REFUSED)
def test_refuses(device, arguments, fragments):
    arguments = arguments(device)
    nothing = mock.Mock(numel=lambda: 2**60)  # in place of a result, which may be too large for this machine
    nothing.numel = lambda: 2**60 if arguments[0].ndim and arguments[0].shape[0] == 2**30 else 1
    with mock.patch.object(torch, "empty", return_value=nothing), pytest.raises(ValueError) as error:
        linear(*arguments)
    for fragment in fragments:
        assert fragment in str(error.value)


def test_bfloat16_is_refused_in_the_interpreter():
    with pytest.raises(ValueError, match="interpreter computes bfloat16 wrongly"):
        linear(*(torch.ones(2, 2, dtype=torch.bfloat16),) * 2)


def test_bytes_by_hand():
    assert bytes_of(8192, 8192, 8192, 2) == {"two kernels": 5 * 2 * 8192**2, "one kernel": 3 * 2 * 8192**2}


def test_as_a_script(device):
    done = subprocess.run(
        [sys.executable, fused.__file__], capture_output=True, text=True,
        env=environment(device, PYTHONPATH=str(Path(fused.__file__).parents[2])),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    errors = dict(re.findall(r"^(\w+, \w+): ([\d.e-]+)$", done.stdout, re.M))
    assert errors["relu, fused"] == errors["relu, unfused"]
    for activation in ("gelu", "gelu_tanh", "silu"):
        assert float(errors[f"{activation}, fused"]) < float(errors[f"{activation}, unfused"])
    assert re.findall(r"saved: ([\d.]+%)", done.stdout) == ["52.2%", "65.8%", "47.1%"]
