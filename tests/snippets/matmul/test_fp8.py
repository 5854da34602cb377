# SPDX-License-Identifier: Apache-2.0
"""8-bit products with scales: quantized as promised, exact where the numbers are, by tensor and by rows."""

import contextlib
import re
from pathlib import Path
from unittest import mock

import pytest
import torch
from guards import (
    Guarded,
    as_if_compiled,
    check_each_once,
    check_inside,
    environment,
    handed_out,
    recorded_accesses,
    without_memory,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from snippets.matmul import fp8
from snippets.matmul.fp8 import DTYPES, Config, by_rows, choose_config, quantize, scaled_matmul
from snippets.matmul.precision import relative_error
from tests.processes import run_script

E4M3, E5M2 = DTYPES
TINY = Config((32, 32, 32), 1, 4, 2, 2)  # the shortest step along K that a GPU multiplies, and two halves of 16 rows


@pytest.fixture(autouse=True)
def has_float8(request):
    if request.node.get_closest_marker("gpu") and torch.cuda.get_device_capability() < (8, 9):
        pytest.skip("this GPU has no matrix units for float8")


def whole(shape, seed, device, dtype=E4M3):
    """Small whole numbers, of which products and sums are exact in every dtype."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-4, 5, shape, generator=generator).float().to(dtype).to(device)


def laid_out(tensor, layout):
    """The same values stored by rows, by columns, with gaps, or as a descriptor can take them, and poison around."""
    rows, columns = tensor.shape
    pitch = -(-columns // 16) * 16
    shape = {"rows": (rows, columns), "columns": (columns, rows), "gaps": (2 * rows, 3 * columns), "tma": (rows, pitch)}
    zone = Guarded(shape[layout], tensor.dtype, tensor.device, before=256, after=256, fill=0x7F)  # NaN, of E4M3
    t = zone.tensor
    view = {"rows": t, "columns": t.t(), "gaps": t[::2, ::3], "tma": t[:, :columns]}[layout]
    view.copy_(tensor)
    return zone, view


def scales(shape, device, *, rows):
    """Powers of two, of which the results are exact."""
    count = max(shape)
    values = 2.0 ** (torch.arange(count) % 5 - 2).reshape(shape) if rows else torch.tensor(0.5)
    return values.to(device)


def check_filling(filling, device):
    """What fills rows up to 16 bytes, 77 before: the TMA of a GPU stores lanes there, in the interpreter nothing does.

    The TMA stores 16 bytes at a time, whatever the descriptor's shape says of the last of them. Lanes there are zero,
    for ``b`` is zero beyond its columns.
    """
    assert filling.shape[1] * filling.itemsize < 16
    by_tma = device == "cuda" and torch.cuda.get_device_capability() >= (9, 0)
    assert filling.eq(0 if by_tma else 77).all(), "what fills the rows up"


def check(M, N, K, device, *, layouts=("tma", "tma"), rows=True, config=TINY, dtypes=(E4M3, E4M3), fast=False,
          out_dtype=torch.float32, seed=0):  # fmt: skip
    """Assert that the product is exact, each element of it stored once, and no load or store outside."""
    a, b = whole((M, K), seed, device, dtypes[0]), whole((N, K), seed + 1, device, dtypes[1])
    scale_a, scale_b = (scales(shape, device, rows=rows) for shape in ((M, 1), (1, N)))
    expected = ((a.double() @ b.double().T) * scale_a * scale_b).to(out_dtype)
    (a_zone, a), (b_zone, b) = laid_out(a, layouts[0]), laid_out(b, layouts[1])
    before = a_zone.bytes.clone(), b_zone.bytes.clone()
    pitch = -(-N * out_dtype.itemsize // 16) * 16 // out_dtype.itemsize
    out = Guarded((M, pitch), out_dtype, device, before=64, after=2**11, fill=0x5A)
    out.tensor.fill_(77)
    in_place = layouts == ("tma", "tma")
    empty = handed_out("empty", out.tensor) if in_place else contextlib.nullcontext()
    record = device == "cpu" and in_place
    with recorded_accesses() if record else contextlib.nullcontext() as accesses, empty:
        result = scaled_matmul(a, b.T, scale_a, scale_b, out_dtype, use_fast_accum=fast, config=config)
    assert result.dtype == out_dtype and torch.equal(result, expected)
    assert torch.equal(a_zone.bytes, before[0]) and torch.equal(b_zone.bytes, before[1]), "a and b are only read"
    if in_place:
        out.check("the result")
        check_filling(out.tensor[:, N:], device)
    if record:
        check_inside(accesses, "load", a=a, b=b, scale_a=scale_a, scale_b=scale_b)
        check_each_once(accesses, "store", out=out.tensor[:, :N])


sizes = st.integers(1, 70)
layouts = st.sampled_from(["rows", "columns", "gaps", "tma"])
dtypes = st.sampled_from(DTYPES)


@given(
    M=sizes, N=sizes, K=sizes, layouts=st.tuples(layouts, layouts), dtypes=st.tuples(dtypes, dtypes),
    rows=st.booleans(), fast=st.booleans(), seed=st.integers(0, 99),
)  # fmt: skip
@settings(max_examples=20)
def test_exact_on_whole_numbers(device, M, N, K, layouts, dtypes, rows, fast, seed):
    check(M, N, K, device, layouts=layouts, dtypes=dtypes, rows=rows, fast=fast, seed=seed)


@pytest.mark.parametrize("M, N, K", [(32, 32, 32), (33, 33, 31), (16, 31, 33), (1, 1, 1), (2, 2, 2), (101, 65, 65)])
@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize(
    "config",
    [TINY, Config((64, 16, 32), 1, 4, 2, 3, flatten=False), Config((32, 32, 64), 2, 4, 2, 1, per_sm=2)],
    ids=str,
)
def test_around_the_edges_of_a_tile(device, M, N, K, config, fast):
    check(M, N, K, device, config=config, fast=fast)


@pytest.mark.parametrize("out_dtype", [torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("fast", [False, True])
def test_with_its_own_tiles(device, out_dtype, fast):
    with mock.patch.object(fp8, "multiprocessors", lambda device: 1 if fast else 100):
        check(150, 520, 200, device, config=None, out_dtype=out_dtype, fast=fast)


def test_the_order_of_tiles():
    out = torch.empty(5 * 32, 4 * 32)
    a, b, one = whole((5 * 32, 16), 0, "cpu"), whole((4 * 32, 16), 1, "cpu"), torch.ones(())
    with (
        recorded_accesses() as accesses,
        mock.patch.object(torch, "empty", return_value=out),
        mock.patch.object(fp8, "multiprocessors", lambda device: 1),
    ):
        scaled_matmul(a, b.T, one, one, torch.float32, config=TINY._replace(group=3))
    first = [(at.min() - out.data_ptr()) // 4 for op, at in accesses if op == "store"]
    expected = [(2 * m + half, n) for rows in ((0, 1, 2), (3, 4)) for n in range(4) for m in rows for half in (0, 1)]
    assert [(at // 128 // 16, at % 128 // 32) for at in first] == expected


def test_programs_share_the_tiles():
    for programs in (1, 2, 3, 7, 100):
        with mock.patch.object(fp8, "multiprocessors", lambda device, programs=programs: programs):
            check(70, 70, 40, "cpu")


@pytest.mark.parametrize("stride", [0, 1])
def test_scales_of_the_last_rows(stride):
    a, b = whole((16, 32), 0, "cpu"), whole((32, 32), 1, "cpu")
    out, scale = torch.empty(16, 32), torch.ones(1)
    described = lambda x, block: fp8.TensorDescriptor(x, list(x.shape), [x.stride(0), 1], block)
    with recorded_accesses(first_program=(2**26 - 1, 0, 0), memory=False) as accesses:
        fp8.scaled_matmul_kernel[(1,)](
            described(a, [16, 32]), described(b, [32, 32]), described(out, [16, 32]), scale, scale,
            2**30, 32, 0, stride, 0, FAST=True, FLATTEN=True, PARTS=1, BLOCK_M=16, BLOCK_N=32, BLOCK_K=32, GROUP_M=1,
        )  # fmt: skip
    (_, at_a), (_, at_b), *_ = accesses
    assert (at_a.max() - scale.data_ptr()) // 4 == (2**30 - 1) * stride
    assert at_b.max() == scale.data_ptr()


# Numbers that are not whole


def reference(qa, qb, scale_a, scale_b):
    return (qa.double() * scale_a) @ (qb.double() * scale_b)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dims", [(None, None), (1, 0), (1, None)])
def test_against_the_numbers_as_rounded(device, dtype, dims):
    torch.manual_seed(0)
    a, b = torch.randn(40, 100, device=device), torch.randn(100, 50, device=device)
    (qa, scale_a), (qb, scale_b) = (quantize(x, dtype=dtype, dim=d) for x, d in zip((a, b), dims, strict=True))
    exact = reference(qa, qb, scale_a, scale_b)
    c = scaled_matmul(qa, qb, scale_a, scale_b, torch.float32, config=TINY)
    assert relative_error(c, exact) < (1e-6 if device == "cpu" else 1e-3)
    assert relative_error(c, a.double() @ b.double()) < {E4M3: 0.05, E5M2: 0.1}[dtype]


@pytest.mark.gpu
@pytest.mark.parametrize("dims", [(None, None), (1, 0)])
@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("M, N, K", [(512, 768, 4096), (4096, 4096, 1024)])
def test_as_torch(dims, fast, M, N, K):
    torch.manual_seed(0)
    a, b = torch.randn(M, K, device="cuda"), torch.randn(N, K, device="cuda").T
    (qa, scale_a), (qb, scale_b) = (quantize(x, dim=d) for x, d in zip((a, b), dims, strict=True))
    exact = reference(qa, qb, scale_a, scale_b)
    ours = scaled_matmul(qa, qb, scale_a, scale_b, use_fast_accum=fast)
    torchs = torch._scaled_mm(qa, qb, scale_a, scale_b, out_dtype=torch.bfloat16, use_fast_accum=fast)
    assert relative_error(ours, exact) < 1.5 * relative_error(torchs, exact) + 1e-4
    assert ours.is_contiguous() and ours.dtype == torchs.dtype


@pytest.mark.gpu
def test_fast_sums_are_worse_on_hopper():
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("Hopper's matrix units are meant")
    torch.manual_seed(0)
    (qa, scale_a), (qb, scale_b) = (quantize(torch.rand(256, 2**14, device="cuda")) for _ in range(2))
    exact = reference(qa, qb.T, scale_a, scale_b)
    error = {
        fast: relative_error(scaled_matmul(qa, qb.T, scale_a, scale_b, torch.float32, use_fast_accum=fast), exact)
        for fast in (False, True)
    }
    assert error[True] > 3 * error[False], error


# quantize


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dim, shape", [(None, ()), (1, (20, 1)), (0, (1, 30))])
def test_quantize(device, dtype, dim, shape):
    torch.manual_seed(0)
    x = torch.randn(20, 30, device=device) * 10.0 ** torch.randint(-3, 4, (20, 1), device=device)
    q, scale = quantize(x, dtype=dtype, dim=dim)
    assert q.dtype == dtype and q.shape == x.shape and scale.shape == shape and scale.dtype == torch.float32
    largest = q.float().abs().amax() if dim is None else q.float().abs().amax(dim, keepdim=True)
    assert largest.eq(torch.finfo(dtype).max).all(), "the whole range is used"
    step = (x.abs() * torch.finfo(dtype).eps / 2).maximum(scale * torch.finfo(dtype).smallest_normal / 2)
    assert ((q.float() * scale - x).abs() <= step * 1.001).all(), "each number is the nearest"


@pytest.mark.parametrize("x", [torch.zeros(3, 4), torch.full((2, 2), 1e-45), torch.full((2, 2), 3e38)], ids=str)
def test_quantize_at_the_ends(x):
    for dim in (None, 0, 1):
        q, scale = quantize(x, dim=dim)
        assert q.float().isfinite().all() and scale.gt(0).all()
        assert (q.float() * scale - x).abs().max() <= x.abs().max() / 16 + torch.finfo(torch.float32).tiny


@pytest.mark.parametrize("shape, dim, expected", [((0, 3), None, ()), ((0, 3), 0, (1, 3)), ((2, 0), -1, (2, 1))])
def test_quantize_nothing(shape, dim, expected):
    q, scale = quantize(torch.ones(shape), dim=dim)
    assert q.shape == shape and scale.shape == expected


def test_quantize_keeps_the_layout():
    assert quantize(torch.randn(5, 16).T, dim=0)[0].stride() == (1, 16)


@pytest.mark.parametrize("x, dtype, message", [
    (torch.ones(2, dtype=torch.int32), E4M3, "floats; got torch.int32"), (torch.ones(2), torch.int8, "got torch.int8"),
])  # fmt: skip
def test_quantize_refuses(x, dtype, message):
    with pytest.raises(ValueError, match=message):
        quantize(x, dtype=dtype)


# Edges


@pytest.mark.parametrize("M, N, K", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)])
def test_empty(device, M, N, K):
    one = torch.ones((), device=device)
    a, b = torch.ones(M, K, device=device).to(E4M3), torch.ones(K, N, device=device).to(E4M3)
    out = scaled_matmul(a, b, one, one, torch.float32)
    assert out.shape == (M, N) and not out.any()


def test_what_is_copied(device):
    x = torch.zeros(64, 64, device=device).to(E4M3)
    for served in (x, x[:, :33], x[::2], x[3:, 16:]):
        assert by_rows(served) is served
    for copied in (x.T, x[:, 1:], x[:, ::2], x[:1].expand(64, 64), torch.zeros(5, 7, device=device).to(E4M3)):
        copy = by_rows(copied)
        assert copy.stride(0) % 16 == 0 and copy.stride(1) == 1 and copy.data_ptr() % 16 == 0
        assert copy.dtype == copied.dtype and torch.equal(copy.float(), copied.float())
    far = x.as_strided((1, 64), (2**40, 1))  # farther apart than TMA can count
    assert by_rows(far) is not far and by_rows(x.as_strided((1, 64), (2**40 - 16, 1))).stride(0) == 2**40 - 16


def test_tiles_fit_a_hopper():
    for fast in (False, True):
        for out_dtype in fp8.OUT_DTYPES:
            for M in (64, 4096, 65536):
                config = choose_config(M, 4096, out_dtype, fast, 132)
                m, n, k = config.block
                stored = (m if fast else m // 2) * n * out_dtype.itemsize // config.parts
                used = (m + n) * k * config.num_stages + stored + 2048  # for barriers and the system
                assert used * config.per_sm <= 228 * 1024
                assert k <= 128 or fast, "sums of at most 128"


@pytest.mark.parametrize(
    "M, N, fast, config",
    [
        (4096, 4096, False, ((128, 128, 128), 4, 3, 8, False, 2)),  # two programs share a multiprocessor
        (8192, 16384, True, ((128, 256, 128), 8, 4, 8, True, 1)),  # 4,096 tiles
        (8192 + 1, 16384, True, ((128, 256, 128), 8, 3, 16, True, 1)),  # and a row of them more
        (67 * 128, 256, True, ((128, 256, 128), 8, 4, 8, True, 1)),
        (66 * 128, 256, True, ((128, 128, 128), 8, 5, 8, True, 1)),  # for half of the multiprocessors: smaller ones
        (128, 66 * 256, True, ((128, 128, 128), 8, 5, 8, True, 1)),
    ],
)
def test_which_config(M, N, fast, config):
    chosen = choose_config(M, N, torch.float16, fast, 132)
    assert (chosen.block, chosen.num_warps, chosen.num_stages, *chosen[4:]) == config
    assert chosen.parts == (1 if chosen.block[1] == 128 and fast else 2)
    if chosen.num_stages == 5:  # a result of 32 bits takes the room of one
        assert choose_config(M, N, torch.float32, fast, 132).num_stages == 4


def operands(d):
    return torch.ones(2, 3, device=d).to(E4M3), torch.ones(3, 2, device=d).to(E4M3), *torch.ones(2, device=d)


SPARSE = torch.sparse_coo_tensor([[0], [0]], torch.ones(1).to(E4M3), (2, 3), check_invariants=False)
REFUSED = {
    "no match": (lambda a, b, s, t: (a, a, s, t), ["(K, N)", "(2, 3)"]),
    "a of three axes": (lambda a, b, s, t: (a[..., None], b, s, t), ["(M, K)", "(2, 3, 1)"]),
    "b of three axes": (lambda a, b, s, t: (a, b[..., None], s, t), ["(K, N)", "(3, 2, 1)"]),
    "not fp8": (lambda a, b, s, t: (a, b.float(), s, t), ["b must be", "torch.float32", "quantize"]),
    "out": (lambda a, b, s, t: (a, b, s, t, torch.int32), ["out_dtype", "torch.int32"]),
    "scale shape": (lambda a, b, s, t: (a, b, s.expand(2), t), ["scale_a", "(2, 1)", "(2,)"]),
    "scale of columns": (lambda a, b, s, t: (a, b, s, t.expand(2, 1).contiguous()), ["scale_b", "(1, 2)"]),
    "scale dtype": (lambda a, b, s, t: (a, b, s, t.half()), ["scale_b", "torch.float16"]),
    "scale strides": (lambda a, b, s, t: (a, b, s.expand(2, 1), t), ["scale_a", "contiguous"]),
    "gradient of a scale": (lambda a, b, s, t: (a, b, s.requires_grad_(), t), ["scale_a requires a gradient"]),
    "gradient": (lambda a, b, s, t: (a.requires_grad_(), b, s, t), ["a requires a gradient", "torch.no_grad"]),
    "negated scale": (lambda a, b, s, t: (a, b, s, torch._neg_view(t)), ["scale_b.resolve_neg"]),
    "sparse": (lambda a, b, s, t: (SPARSE.to(a.device), b, s, t), ["a.to_dense()"]),
    "meta": (lambda a, b, s, t: (a.to("meta"), b.to("meta"), s, t), ["a is on meta"]),
    "two devices": (lambda a, b, s, t: (a, b.to("meta"), s, t), ["one device", "meta"]),
    "device of scale_a": (lambda a, b, s, t: (a, b, s.to("meta"), t), ["one device", ", meta, "]),
    "device of scale_b": (lambda a, b, s, t: (a, b, s, t.to("meta")), ["one device", ", meta"]),
    "gradient of b": (lambda a, b, s, t: (a, b.requires_grad_(), s, t), ["b requires a gradient"]),
    "long b": (lambda a, b, s, t: (a[:, :1], b[:1, :1].expand(1, 2**31 - 511), s, t), ["2**31"]),
    "long": (lambda a, b, s, t: (a[:1, :1].expand(2**31 - 511, 1), b[:1], s, t), ["2**31"]),
    "many tiles": (lambda a, b, s, t: (a[:1, :1].expand(2**30, 1), b[:1, :1].expand(1, 2**30), s, t), ["too many"]),
}


@pytest.mark.parametrize("change, fragments", REFUSED.values(), ids=REFUSED)
def test_refuses(device, change, fragments):
    arguments = change(*operands(device))
    if len(arguments) == 4:
        arguments = (*arguments, torch.float32)
    nothing = mock.MagicMock(numel=lambda: 1)  # in place of a result, which may be too large for this machine
    nothing.__getitem__.return_value = nothing
    with mock.patch.object(torch, "empty", return_value=nothing), pytest.raises(ValueError) as error:
        scaled_matmul(*arguments)
    for fragment in fragments:
        assert fragment in str(error.value)


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize(
    "change, fragment",
    [
        ({"per_sm": 0}, "per_sm"),
        ({"per_sm": -1}, "per_sm"),
        ({"group": 0}, "group"),
        ({"num_stages": 0}, "num_stages"),
        ({"num_warps": 3}, "num_warps"),
        ({"num_warps": 0}, "num_warps"),
        ({"num_warps": 64}, "num_warps"),
        ({"parts": 0}, "parts"),
        ({"block": (64, 32, 32), "parts": 4}, "parts of 16 columns"),
        ({"block": (32.0, 32, 32)}, "(32.0, 32, 32)"),
        ({"block": (32, 8, 32)}, "(32, 8, 32)"),
        ({"block": (32, 48, 32)}, "(32, 48, 32)"),
        ({"parts": 3}, "parts"),
        ({"parts": 4}, "parts of 16 columns"),
        ({"block": (32, 32, 16)}, "(32, 32, 16)"),
        ({"block": (16, 32, 32)}, "(16, 32, 32)"),
        ({"block": (48, 32, 32)}, "(48, 32, 32)"),
        ({"block": (32, 32, 512)}, "(32, 32, 512)"),
    ],
)
def test_refuses_a_config(device, change, fragment, fast):
    with pytest.raises(ValueError) as error:
        scaled_matmul(*operands(device), torch.float32, config=TINY._replace(**change), use_fast_accum=fast)
    assert fragment in str(error.value)


def test_exact_sums_are_of_at_most_128_products(device):
    long = TINY._replace(block=(32, 32, 256))
    with pytest.raises(ValueError, match="at most 128 products"):
        scaled_matmul(*operands(device), torch.float32, config=long)
    assert scaled_matmul(*operands(device), torch.float32, config=long, use_fast_accum=True).eq(3).all()


def test_bfloat16_is_refused_in_the_interpreter():
    with pytest.raises(ValueError, match="rounds to bfloat16 wrongly"):
        scaled_matmul(*operands("cpu"))


def test_takes_what_requires_a_gradient_where_none_is_computed(device):
    a, b, scale, other = operands(device)
    with torch.no_grad():
        assert scaled_matmul(a, b, scale.requires_grad_(), other, torch.float32, config=TINY).eq(3).all()


OBLONG = TINY._replace(block=(64, 32, 32))


def test_asks_for_a_config_by_the_result(device):
    a, b, scale, other = operands(device)
    a, b = torch.cat([a, a]), b[:, :1].contiguous()
    with mock.patch.object(fp8, "choose_config", return_value=TINY) as choose:
        scaled_matmul(a, b, scale, other, torch.float16, use_fast_accum=True)
    assert choose.call_args == mock.call(4, 1, torch.float16, True, fp8.multiprocessors(a.device))


def eight_bits(*shape):
    return without_memory(*shape, dtype=E4M3)


def test_serves_what_is_at_the_limits():
    """The longest sides; as many tiles and programs, and as large groups, as are counted in 32 bits."""
    one, longest = torch.ones(()), 2**31 - 2**9
    for M, N, K in ((longest, 1, 1), (1, longest, 1), (1, 1, longest)):
        fp8.check_arguments(eight_bits(M, K), eight_bits(K, N), one, one, torch.float32)
    for M, N, group, programs, served in (
        (2**22, 2**20 - 32, 2**14, 2**16 - 1, True), (2**22, 2**20 - 32, 2**14, 2**16, False),
        (1, 97, 2**29 - 1, 1, True), (1, 97, 2**29, 1, False),
    ):  # fmt: skip
        a, b, nothing = eight_bits(M, 1), eight_bits(1, N), mock.MagicMock(numel=lambda: 1)
        nothing.__getitem__.return_value = nothing
        of_no_memory = {"by_rows": mock.MagicMock(), "TensorDescriptor": mock.Mock()}
        with (
            mock.patch.object(fp8, "multiprocessors", lambda device, programs=programs: programs),
            mock.patch.object(torch, "empty", return_value=nothing),
            mock.patch.multiple(fp8, scaled_matmul_kernel=mock.MagicMock(), **of_no_memory),
            contextlib.nullcontext() if served else pytest.raises(ValueError, match="too many tiles of 64 x 32"),
        ):
            assert scaled_matmul(a, b, one, one, torch.float32, config=OBLONG._replace(group=group)) is nothing
    for tile, parts, warps, fast in (((256, 256, 256), 16, 32, True), ((32, 16, 128), 1, 1, False)):
        fp8.check_config(Config(tile, parts, warps, 1, 1), fast)


# A GPU of less memory, of other kinds


@contextlib.contextmanager
def room_for(stages):
    """A kernel that does nothing on a GPU with room for so many stages; yield what it was asked: stages, arguments."""
    asked = []

    class Kernel:
        def __getitem__(self, grid):
            def launch(*arguments, num_stages, **options):
                asked.append((num_stages, *arguments[3:]))
                if num_stages > stages:
                    raise fp8.triton.OutOfResources(300_000, 232_448, "shared memory")

            return launch

    with mock.patch.multiple(fp8, scaled_matmul_kernel=Kernel(), FEWER={}):
        yield asked


@pytest.mark.parametrize("fast, stages", [(False, 3), (True, 4)])
def test_a_default_that_does_not_fit_takes_a_stage_less(fast, stages):
    a, b, scale_a, scale_b = operands("cpu")
    with room_for(1) as asked:
        for _ in range(2):
            scaled_matmul(a, b, scale_a, scale_b, torch.float32, use_fast_accum=fast)
    assert [number for number, *_ in asked] == [*range(stages, 0, -1), 1], "and it is remembered"
    for _, *scales_, M, N, K, _, _ in asked:
        assert scales_[0] is scale_a and scales_[1] is scale_b and (M, N, K) == (2, 2, 3)
    with room_for(0) as asked, pytest.raises(ValueError, match=r"num_stages=1.* does not fit on cpu: out of resource"):
        scaled_matmul(a, b, scale_a, scale_b, torch.float32, use_fast_accum=fast)
    assert [number for number, *_ in asked] == [*range(stages, 0, -1)]


def test_a_given_config_that_does_not_fit_is_refused():
    with room_for(1) as asked, pytest.raises(ValueError, match=r"num_stages=2.* does not fit on cpu"):
        scaled_matmul(*operands("cpu"), torch.float32, config=TINY)
    assert [number for number, *_ in asked] == [2]


def test_programs_for_each_tile_or_as_many_as_fit():
    a, b, one = torch.zeros(448, 32).to(E4M3), torch.zeros(32, 288).to(E4M3), torch.ones(())
    for count, per_sm, programs in ((100, 1, 7 * 9), (3, 4, 12)):
        with (
            mock.patch.object(fp8, "multiprocessors", lambda device, count=count: count),
            mock.patch.object(fp8, "scaled_matmul_kernel") as kernel,
        ):
            scaled_matmul(a, b, one, one, torch.float32, config=OBLONG._replace(per_sm=per_sm))
        assert kernel.__getitem__.call_args == mock.call((programs,))


def test_multiprocessors_are_those_of_the_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: mock.Mock(multi_processor_count=7))
    fp8.multiprocessors.cache_clear()
    assert fp8.multiprocessors(torch.device("cuda")) == 7 and fp8.multiprocessors(torch.device("cpu")) > 1
    fp8.multiprocessors.cache_clear()


def test_checks_of_what_is_compiled(monkeypatch):
    with as_if_compiled(fp8, "scaled_matmul_kernel") as on_gpu:
        a, b, one = on_gpu(2, 3).to(E4M3), on_gpu(3, 2).to(E4M3), on_gpu(1).float()
        for capability in ((8, 9), (9, 0)):
            monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device, c=capability: c)
            fp8.check_arguments(a, b, one, one, torch.bfloat16)
        with pytest.raises(ValueError, match="a is on cpu; kernels run on a GPU"):
            fp8.check_arguments(*operands("cpu"), torch.bfloat16)


def test_a_gpu_without_float8_is_refused():
    with (
        mock.patch.object(fp8, "scaled_matmul_kernel", mock.Mock(spec=fp8.triton.JITFunction)),
        mock.patch.object(torch.cuda, "get_device_capability", lambda device: (8, 0)),
        mock.patch.object(torch.cuda, "get_device_name", lambda device: "NVIDIA A100"),
        pytest.raises(ValueError, match="NVIDIA A100 has no matrix units for float8"),
    ):
        a = mock.MagicMock(shape=(2, 3), ndim=2, dtype=E4M3, device=mock.Mock(type="cuda"))
        b = mock.MagicMock(shape=(3, 2), ndim=2, dtype=E4M3, device=a.device)
        scaled_matmul(a, b, *torch.ones(2))


def test_as_a_script(device):
    path = Path(fp8.__file__)
    done = run_script(path, env=environment(device, PYTHONPATH=str(path.parents[2])))
    assert done.returncode == 0, done.stderr
    assert "NOT" not in done.stdout and "equal to torch" in done.stdout
    errors = [float(x) for x in re.findall(r"^float8_\w+, .* ([\d.]+)$", done.stdout, re.M)]
    one_scale, by_row, one_scale_e5m2, by_row_e5m2 = errors
    assert by_row < one_scale / 1.2 and abs(by_row_e5m2 - one_scale_e5m2) < 0.005 and by_row < by_row_e5m2
