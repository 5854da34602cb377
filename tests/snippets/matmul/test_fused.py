# SPDX-License-Identifier: Apache-2.0
"""A linear layer in one kernel: as torch computes it, on ragged sizes and any strides, rounded once."""

import contextlib
import math
import re
from pathlib import Path
from unittest import mock

import pytest
import torch
import triton
import triton.language as tl
from guards import (
    Guarded,
    check_each_once,
    check_inside,
    environment,
    nan_as_on_a_gpu,
    precisions_of_dots,
    recorded_accesses,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from triton.tools.tensor_descriptor import TensorDescriptor

from snippets.matmul import fused
from snippets.matmul.fused import ACTIVATIONS, DTYPES, Config, activate, bytes_of, in_torch, linear
from tests.processes import run_script

SMALL = Config(16, 16, 16, num_warps=4, num_stages=2, group_m=2)


@contextlib.contextmanager
def small_tiles(config=SMALL, multiprocessors=3):
    """Small tiles, so that a small layer has many of them, and so few multiprocessors that a program gets several."""
    with (
        mock.patch.object(fused, "choose_config", lambda *size: config),
        mock.patch.object(fused, "multiprocessors", lambda device: multiprocessors),
    ):
        yield


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
    record, empty, made = x.device.type == "cpu", torch.empty, []

    def first_guarded(*args, **kwargs):  # the first tensor that the function asks for is its result, then come copies
        made.append(empty(*args, **kwargs) if made else out.tensor)
        return made[-1]

    with (
        tiles(),
        recorded_accesses() if record else contextlib.nullcontext() as accesses,
        mock.patch.object(torch, "empty", first_guarded),
    ):
        result = linear(*(view for _, view in given), activation=activation)
    assert result is out.tensor and torch.equal(result, expected.to(x.dtype))
    out.check("the result")
    for (zone, _), bytes_before in zip(given, before, strict=True):
        assert torch.equal(zone.bytes, bytes_before), "arguments are only read"
    if record:
        check_each_once(accesses, "store", out=out.tensor)
        if layouts[2] == "rows":  # otherwise a copy of the bias is read, which has no name here
            arguments = {f"argument {i}": view for i, (_, view) in enumerate(given)}
            check_inside(accesses, "load", **arguments, **{f"copy {i}": copy for i, copy in enumerate(made[1:])})


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


@pytest.mark.parametrize("M, N, K", [(16, 16, 16), (17, 36, 31), (17, 37, 31), (1, 1, 1), (80, 48, 33), (47, 80, 16)])
@pytest.mark.parametrize(
    "config",
    [
        SMALL,
        SMALL._replace(block_m=32, per_sm=2),
        SMALL._replace(block_k=32, group_m=1),
        SMALL._replace(block_n=32, parts=2),
        SMALL._replace(block_n=64, parts=4),
    ],
    ids=str,
)
def test_around_the_edges_of_a_tile(device, M, N, K, config):
    tiles = lambda: small_tiles(config)
    check(whole((M, K), 1, device), whole((N, K), 2, device), whole((N,), 3, device), "relu", tiles=tiles)


def stored_tiles(config, multiprocessors):
    """Row and column of each tile, in the order in which they are stored, of 5 x 4 tiles of 16 x 32."""
    out = torch.empty(5 * 16, 4 * 32)
    with (
        recorded_accesses() as accesses,
        small_tiles(config, multiprocessors),
        mock.patch.object(torch, "empty", return_value=out),
    ):
        linear(torch.ones(5 * 16, 4), torch.ones(4 * 32, 4))
    first = [(at.min() - out.data_ptr()) // 4 for op, at in accesses if op == "store"]
    return [(at // 128 // 16, at % 128 // 32) for at in first]


@pytest.mark.parametrize("per_sm, multiprocessors, programs", [(1, 99, 20), (1, 6, 5), (1, 7, 7), (2, 2, 4), (3, 1, 3)])
def test_each_program_takes_every_so_manieth_tile_of_the_order(per_sm, multiprocessors, programs):
    order = [(m, n) for rows in ((0, 1, 2), (3, 4)) for n in range(4) for m in rows]
    # The interpreter runs one program after the other. 20 tiles on 6 take 4 rounds; 5 programs are enough for these.
    expected = [tile for pid in range(programs) for tile in order[pid::programs]]
    assert stored_tiles(SMALL._replace(block_n=32, group_m=3, per_sm=per_sm), multiprocessors) == expected


def test_loads_each_tile_along_k_once():
    x, weight = whole((32, 40), 1, "cpu"), whole((32, 40), 2, "cpu")
    with recorded_accesses() as accesses, small_tiles():
        linear(x, weight)
    assert len([op for op, _ in accesses if op == "load"]) == 2 * 4 * 3  # two tensors, four tiles, steps of 16 along 40
    loaded = check_inside(accesses, "load", x=x, weight=weight)
    assert len(loaded) == 2 * (x.numel() + weight.numel())  # 2 x 2 tiles: each element twice


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
@pytest.mark.parametrize(
    "M, N, K", [(1000, 777, 333), (16, 1024, 512), (65, 64, 1), (3000, 5000, 200), (1024, 768, 512)]
)
def test_compiled_against_float64(dtype, activation, M, N, K):
    x, weight, bias = (torch.randn(shape, device="cuda").to(dtype) for shape in ((M, K), (N, K), (N,)))
    exact = in_torch(activation)(x.double() @ weight.double().T + bias.double())
    error = (linear(x, weight, bias, activation).double() - exact).norm() / exact.norm()
    assert error < max(torch.finfo(dtype).eps / 2, 1e-6)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "config",
    [fused.PAIR, fused.LARGE, fused.SINGLE, *(fused.LOW._replace(block_m=m) for m in (16, 32, 64))],
    ids=str,
)
@pytest.mark.parametrize(
    "M, N, K", [(1000, 1016, 333), (1001, 777, 64), (3000, 4096, 8), (17, 24, 1000), (2048, 2048, 512)]
)
def test_each_config_compiled(config, M, N, K):
    tiles = lambda multiprocessors: lambda: small_tiles(config, multiprocessors)
    x, weight = whole((M, K), 1, "cuda", torch.bfloat16), whole((N, K), 2, "cuda", torch.bfloat16)
    bias = whole((N,), 3, "cuda", torch.bfloat16)
    for multiprocessors, layouts in ((132, ("rows", "rows", "rows")), (3, ("columns", "gaps", "gaps"))):
        check(x, weight, bias, "relu", layouts, tiles(multiprocessors))


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
    with nan_as_on_a_gpu() if device == "cpu" else contextlib.nullcontext():
        activate_kernel[(1,)](x, out, activation, len(VALUES))
    assert out.isnan().nonzero().flatten().tolist() == [3, 9]


def test_gelu_to_a_millionth_of_itself(device):
    """Also where 1 + erf is a difference of two numbers that are nearly the same."""
    x = torch.linspace(-4.5, 10, 2**14, device=device)
    out = torch.empty_like(x)
    activate_kernel[(1,)](x, out, "gelu", len(x))
    exact = x.double() * torch.special.erfc(-x.double() / math.sqrt(2)) / 2
    torch.testing.assert_close(out.double(), exact, rtol=3e-6, atol=0)


@pytest.mark.parametrize("activation", ["gelu_tanh", "silu"])
def test_tanh_and_silu_to_a_millionth_of_themselves(device, activation):
    """Below zero, where they are small, each digit of a constant shows: of 0.044715, the last one by 1e-4."""
    x = torch.linspace(-4.5, 10, 2**14, device=device)
    out = torch.empty_like(x)
    activate_kernel[(1,)](x, out, activation, len(x))
    torch.testing.assert_close(out.double(), in_torch(activation)(x.double()), rtol=5e-6, atol=0)


def test_float32_is_multiplied_as_float32():
    with small_tiles(), precisions_of_dots() as seen:
        linear(torch.ones(16, 32), torch.ones(16, 32))
    assert seen == {"IEEE"}


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


def test_pointers_are_computed_in_64_bits():
    # The last tile of a result of more than 2**31 elements. With K = 0 there is nothing to load; nothing is stored.
    M, N = 2**17, 2**15 + 2
    base = torch.zeros(64)
    x, weight = (TensorDescriptor(base, [rows, 16], [16, 1], [16, 16]) for rows in (M, N))
    last = -(-N // 16) * (M // 16) - 1
    with recorded_accesses(first_program=(last, 0, 0), memory=False) as accesses:
        fused.linear_kernel[(1,)](
            x, weight, None, base, M, N, 0, ACTIVATION=None, DESCRIBED=False,
            BLOCK_M=16, BLOCK_N=16, BLOCK_K=16, PARTS=1, GROUP_M=2,
        )  # fmt: skip
    ((_, stored),) = accesses
    assert (stored.max() - base.data_ptr()) // 4 == M * N - 1


# What a descriptor can describe


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_describes_without_a_copy_what_it_can(dtype):
    step = 16 // dtype.itemsize
    x = torch.zeros(6, 4 * step, dtype=dtype)
    for view in (x, x[1:4, step:], x[::2], x[:, :1]):
        made = fused.described_rows(view, [16, 32])
        assert (made.base.data_ptr(), made.block_shape) == (view.data_ptr(), [16, 32])
        assert (list(made.shape), list(made.strides)) == (list(view.shape), list(view.stride()))


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x[:, 1:],  # starts 2 bytes behind a multiple of 16
        lambda x: x[:, ::2],
        lambda x: x.t(),
        lambda x: x.reshape(-1)[: 9 * 7].view(9, 7),  # rows are 14 bytes apart
        lambda x: x[:1].expand(5, 32),  # rows are 0 bytes apart
        lambda x: x.as_strided((5, 32), (8, 1)),  # rows overlap
        lambda x: x.as_strided((1, 32), (2**36, 1)),  # farther apart than TMA can count
    ],
)
def test_copies_what_a_descriptor_cannot_describe(make):
    view = make(torch.arange(6 * 32, dtype=torch.float16).view(6, 32))
    copy = fused.described_rows(view, [16, 16]).base
    assert torch.equal(copy, view) and copy.untyped_storage().data_ptr() != view.untyped_storage().data_ptr()
    assert copy.stride(1) == 1 and copy.stride(0) % 8 == 0 and copy.stride(0) >= copy.shape[1]


def test_ragged_results_are_stored_through_pointers(device):
    x = whole((16, 16), 1, device, torch.float16)
    for N, described in ((16, True), (15, False), (8, True), (4, False)):
        with mock.patch.object(fused, "TensorDescriptor", wraps=TensorDescriptor) as made:
            check(x, whole((N, 16), 2, device, torch.float16), None, None)
        assert made.call_count == described  # of the result; x and weight are described by from_tensor


def test_the_number_of_multiprocessors(device):
    x = torch.zeros(1, device=device)
    expected = torch.cuda.get_device_properties(0).multi_processor_count if device == "cuda" else 132
    assert fused.multiprocessors(x.device) == expected


# Which config


@pytest.mark.parametrize(
    "M, N, K, config",
    [
        (8192, 8192, 64, fused.PAIR),
        (8192, 8192, 2047, fused.PAIR),
        (8192, 8192, 2048, fused.LARGE),
        (65, 2**15, 64, fused.PAIR),
        (64, 2**15, 4096, fused.LOW),
        (32, 4096, 4096, fused.LOW._replace(block_m=32)),
        (17, 4096, 64, fused.LOW._replace(block_m=32)),
        (1, 4096, 64, fused.LOW._replace(block_m=16)),
        (1408, 1536, 4096, fused.SINGLE),  # 11 x 12 tiles
        (1536, 1536, 4096, fused.LARGE),
        (768, 1408, 64, fused.LOW),  # 6 x 11
        (769, 1408, 64, fused.SINGLE),
    ],
)
def test_which_config(M, N, K, config):
    assert fused.choose_config(M, N, K, 2, 132) == config
    assert fused.choose_config(M, N, K, 4, 132) == fused.FLOAT32


def test_what_it_asks_for():
    x, weight = whole((3, 5), 1, "cpu", torch.float16), whole((7, 5), 2, "cpu", torch.float16)
    with (
        mock.patch.object(fused, "choose_config", wraps=fused.choose_config) as chosen,
        mock.patch.object(torch, "empty", wraps=torch.empty) as empty,
    ):
        linear(x, weight)
    assert chosen.call_args_list == [mock.call(3, 7, 5, 2, fused.multiprocessors(x.device))]
    shapes = [(3, 7), (3, 8), (7, 8)]  # the result, and copies of rows that are padded to 16 bytes
    assert empty.call_args_list == [mock.call(shape, dtype=torch.float16, device=x.device) for shape in shapes]


class Cramped:
    """In place of the kernel: as on a GPU whose shared memory holds so many stages and no more."""

    def __init__(self, room):
        self.room, self.tried = room, []

    def __getitem__(self, grid):
        def launch(*arguments, num_stages, **options):
            self.tried.append(num_stages)
            if num_stages > self.room:
                raise triton.OutOfResources(num_stages, self.room, "shared memory")
            return KERNEL[grid](*arguments, **options)

        return launch


KERNEL = fused.linear_kernel


@pytest.mark.parametrize("room, tried", [(3, [3]), (2, [3, 2]), (1, [3, 2, 1])])
def test_takes_fewer_stages_where_there_is_no_room_for_more(room, tried):
    x, weight, bias = whole((4, 5), 1, "cpu"), whole((3, 5), 2, "cpu"), whole((3,), 3, "cpu")
    with mock.patch.dict(fused.FEWER, clear=True), mock.patch.object(fused, "linear_kernel", Cramped(room)) as cramped:
        for _ in range(2):  # the second time it knows
            assert torch.equal(linear(x, weight, bias, "relu"), torch.relu(x @ weight.T + bias))
        assert cramped.tried == [*tried, tried[-1]]


def test_refuses_what_does_not_fit_in_any_way():
    cramped = Cramped(0)
    with (
        mock.patch.dict(fused.FEWER, clear=True),
        mock.patch.object(fused, "linear_kernel", cramped),
        pytest.raises(ValueError, match=r"num_stages=1.* does not fit on cpu"),
    ):
        linear(torch.ones(2, 2), torch.ones(2, 2))
    assert cramped.tried == [3, 2, 1]


def test_more_rows_than_it_counts_are_refused():
    x = torch.ones(1, 1, 1).expand(2, 2**29 + 1, 1)
    nothing = mock.Mock(numel=lambda: 2**30 + 2)
    with mock.patch.object(torch, "empty", return_value=nothing), pytest.raises(ValueError, match="1073741826 rows"):
        linear(x, torch.ones(1, 1))


def test_takes_what_requires_a_gradient_where_none_is_computed(device):
    with torch.no_grad():
        assert linear(ones(2, 2, device=device, requires_grad=True), ones(2, 2, device=device)).eq(2).all()


ones = torch.ones


def test_refuses_too_many_tiles():
    one, nothing = torch.ones(1, 1), mock.Mock(numel=lambda: 2**60)  # in place of a result larger than this machine
    with mock.patch.object(torch, "empty", return_value=nothing), pytest.raises(ValueError, match="too many tiles"):
        linear(one.expand(2**30, 1), one.expand(2**30, 1))


def test_bytes_by_hand():
    assert bytes_of(8192, 8192, 8192, 2) == {"two kernels": 5 * 2 * 8192**2, "one kernel": 3 * 2 * 8192**2}


def test_as_a_script(device):
    path = Path(fused.__file__)
    done = run_script(path, env=environment(device, PYTHONPATH=str(path.parents[2])))
    assert done.returncode == 0, done.stderr
    errors = dict(re.findall(r"^(\w+, \w+): ([\d.e-]+)$", done.stdout, re.M))
    assert errors["relu, fused"] == errors["relu, unfused"]
    for activation in ("gelu", "gelu_tanh", "silu"):
        assert float(errors[f"{activation}, fused"]) < float(errors[f"{activation}, unfused"])
    assert re.findall(r"saved: ([\d.]+%)", done.stdout) == ["52.2%", "65.8%", "47.1%"]
    gelu = re.findall(r"^gelu\(-5\), ([^:]+): (-[\d.e-]+)$", done.stdout, re.M)
    exact = -5 * math.erfc(5 / math.sqrt(2)) / 2
    assert [way for way, _ in gelu] == ["by the tail", "by 1 + erf", "exact"]
    by_tail, by_erf, _ = (abs(float(result) / exact - 1) for _, result in gelu)
    assert by_tail < 1e-3 < by_erf
