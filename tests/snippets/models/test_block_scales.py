# SPDX-License-Identifier: Apache-2.0
"""8-bit products with a scale for each block: exact where numbers are whole, and quantized to what is nearest."""

import contextlib
import math
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
import triton.language as tl
from compiled import SHARED, compiled
from guards import Guarded, check_each_once, check_inside, handed_out, recorded_accesses, without_memory
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sanitizer import CLEAN, check_sanitized

from snippets.models import block_scales as module
from snippets.models.block_scales import (
    E4M3,
    Config,
    block_scaled_matmul,
    choose_config,
    dequantize,
    norm_and_quantize,
    product,
    quantize,
    quantize_weight,
    survivors,
)

SOURCE = Path(module.__file__)
SMALL = Config(32, 32, 4, 2)


@pytest.fixture(autouse=True)
def has_float8(request):
    if request.node.get_closest_marker("gpu") and torch.cuda.get_device_capability() < (8, 9):
        pytest.skip("this GPU has no matrix units for float8")


@pytest.fixture(autouse=True)
def casts_as_on_a_gpu():
    """In the interpreter, whose casts to 8 bits round wrongly (reference/interpreter.md): round as torch does."""
    from triton.runtime import interpreter

    def converted(data, given, wanted, rounding):
        if wanted != tl.float8e4nv:
            return convert(data, given, wanted, rounding)
        assert given == tl.float32
        return torch.from_numpy(data.view(np.float32).copy()).to(E4M3).view(torch.uint8).numpy()

    convert = interpreter._convert_float
    with mock.patch.object(interpreter, "_convert_float", converted):
        yield


def up(size, block=128):
    return -(-size // block)


def whole(rows, columns, seed, device):
    """Small whole numbers, of which products and sums are exact."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-3, 4, (rows, columns), generator=generator).float().to(E4M3).to(device)


def powers(rows, columns, seed, device):
    """Powers of two, no two neighbors alike, of which the results are exact."""
    generator = torch.Generator().manual_seed(seed)
    step = torch.randint(1, 3, (rows, columns), generator=generator)
    return 2.0 ** ((step.cumsum(0) + step.cumsum(1)) % 5 - 2).to(device)


def laid_out(tensor, layout):
    """The same values by rows, by columns, with gaps, or as a descriptor can take them, and NaN around."""
    rows, columns = tensor.shape
    pitch = up(columns, 16) * 16
    shape = {"rows": (rows, columns), "columns": (columns, rows), "gaps": (2 * rows, 3 * columns), "tma": (rows, pitch)}
    zone = Guarded(shape[layout], tensor.dtype, tensor.device, before=256, after=256, fill=0x7F)
    t = zone.tensor
    view = {"rows": t, "columns": t.t(), "gaps": t[::2, ::3], "tma": t[:, :columns]}[layout]
    view.copy_(tensor)
    return zone, view


def exact_product(x, w, x_scales, w_scales):
    def far(scales, tall, like):
        return scales.double().repeat_interleave(tall, 0).repeat_interleave(128, 1)[: len(like), : like.shape[1]]

    return (x.double() * far(x_scales, 1, x)) @ (w.double() * far(w_scales, 128, w)).t()


def check(M, N, K, device, *, layouts=("tma", "tma", "columns", "rows"), config=SMALL, out_dtype=torch.float32, seed=0):
    """Assert that the product is exact, each element of it stored once, and no load or store outside."""
    given = (
        whole(M, K, seed, device), whole(N, K, seed + 1, device),
        powers(M, up(K), seed + 2, device), powers(up(N), up(K), seed + 3, device),
    )  # fmt: skip
    expected = exact_product(*given).to(out_dtype)
    zones, views = zip(*(laid_out(each, layout) for each, layout in zip(given, layouts, strict=True)), strict=True)
    before = [zone.bytes.clone() for zone in zones]
    pitch = up(N * out_dtype.itemsize, 16) * 16 // out_dtype.itemsize
    out = Guarded((M, pitch), out_dtype, device, before=64, after=2**11, fill=0x5A)
    out.tensor.fill_(77)
    in_place = layouts[:2] == ("tma", "tma")
    record = device == "cpu" and in_place
    with (
        recorded_accesses() if record else contextlib.nullcontext() as accesses,
        handed_out("empty", out.tensor) if in_place else contextlib.nullcontext(),
    ):
        y = product(*views, out_dtype, config=config)
    assert y.dtype == out_dtype and torch.equal(y, expected)
    assert all(torch.equal(zone.bytes, old) for zone, old in zip(zones, before, strict=True)), "they are only read"
    if in_place:
        out.check("the result")
    if record:
        names = ("x", "w", "x_scales", "w_scales")
        check_inside(accesses, "load", **dict(zip(names, views, strict=True)))
        check_each_once(accesses, "store", out=out.tensor[:, :N])


sizes, layouts = st.integers(1, 70), st.sampled_from(["rows", "columns", "gaps", "tma"])
TILES = st.sampled_from([SMALL, Config(16, 64, 4, 2, 1), Config(64, 16, 4, 2, 3), Config(32, 128, 4, 2)])


@settings(max_examples=25)
@given(sizes, st.integers(1, 300), st.integers(1, 400), st.tuples(layouts, layouts, layouts, layouts), TILES)
@example(33, 129, 257, ("tma", "tma", "columns", "rows"), SMALL)
@example(1, 1, 1, ("tma", "tma", "rows", "rows"), SMALL)
@example(64, 256, 384, ("tma", "tma", "gaps", "columns"), Config(32, 128, 4, 2))
def test_exact_on_whole_numbers(device, M, N, K, laid, config):
    check(M, N, K, device, layouts=laid, config=config)


@pytest.mark.parametrize("M, N, K", [(130, 140, 200), (3, 260, 129)])
@pytest.mark.parametrize("out_dtype", [torch.float16, torch.float32])
def test_with_its_own_tiles(device, M, N, K, out_dtype):
    check(M, N, K, device, config=None, out_dtype=out_dtype)


def test_a_scale_serves_its_block_and_no_other(device):
    """Of all ones, each block's sum is 128 times its scales, which are powers of another digit."""
    x, w = torch.ones(2, 384, device=device).to(E4M3), torch.ones(200, 384, device=device).to(E4M3)
    x_scales = torch.tensor([[1.0, 2.0, 4.0], [0.5, 0.0, 1.0]], device=device)
    w_scales = torch.tensor([[1.0, 16.0, 256.0], [1.0, 1.0, 0.0]], device=device)
    y = product(x, w, x_scales, w_scales, torch.float32, config=SMALL)
    assert (y[:, :128] == 128 * torch.tensor([[1 + 32 + 1024], [0.5 + 256]], device=device)).all()
    assert (y[:, 128:] == 128 * torch.tensor([[3], [0.5]], device=device)).all()


def test_order_of_tiles():
    """Programs go down the rows of a group, then to its next column."""
    out = torch.empty(5 * 32, 4 * 32)
    one = lambda rows: torch.ones(rows, 1)
    with recorded_accesses() as accesses, mock.patch.object(torch, "empty", return_value=out):
        product(whole(160, 16, 0, "cpu"), whole(128, 16, 1, "cpu"), one(160), one(1), torch.float32,
                config=SMALL._replace(group=3))  # fmt: skip
    first = [(at.min() - out.data_ptr()) // 4 for op, at in accesses if op == "store"]
    expected = [(m, n) for rows in ((0, 1, 2), (3, 4)) for n in range(4) for m in rows]
    assert [(at // 128 // 32, at % 128 // 32) for at in first] == expected


def test_far_scales():
    """The way to a row's scales, and to a square's, is computed in 64 bits."""
    from triton.runtime.interpreter import TensorHandle
    from triton.runtime.interpreter import interpreter_builder as builder

    x, w, out, scale = whole(16, 32, 0, "cpu"), whole(32, 32, 1, "cpu"), torch.empty(16, 32), torch.ones(1)
    described = lambda t, block: module.TensorDescriptor(t, list(t.shape), [t.stride(0), 1], block)
    zeros = lambda desc, *_: TensorHandle(np.zeros(desc.block_shape, np.uint8), tl.float8e4nv)
    with (
        mock.patch.object(builder, "create_descriptor_load", zeros),
        recorded_accesses(first_program=(2**21 - 1, 0, 0), memory=False) as accesses,
    ):
        module.block_scaled_kernel[(1,)](
            described(x, [16, 32]), described(w, [32, 32]), described(out, [16, 32]), scale, scale,
            16 * 2**11, 32 * 2**20, 200, 2**28, 2**3, 2**20, 1, BLOCK_M=16, BLOCK_N=32, GROUP_M=1, AHEAD=2,
        )  # fmt: skip
    at = [(each - scale.data_ptr()) // 4 for op, each in accesses if op == "load"]
    for step in range(2):  # of the tile of rows 16 to 31, and of the last columns
        assert at[2 * step].tolist() == [2**28 * (16 + i) + 8 * step for i in range(16)]
        assert at[2 * step + 1].tolist() == [2**20 * (2**18 - 1) + step]


# Quantizing


def nearest(q, scale, exact, *, steps=0.501):
    """Whether each number is within half a step of float8_e4m3fn, and a little for the rounding of float32."""
    wide = lambda s: s.double().repeat_interleave(128, 1)[:, : exact.shape[1]]
    at = exact.double() / wide(scale)
    step = (2.0 ** (at.abs().clamp(min=2.0**-9).log2().floor() - 3)).clamp(min=2.0**-9)
    return ((q.double() - at).abs() <= steps * step).all()


ROWS = {
    "rows": lambda x: x,
    "columns": lambda x: x.t().contiguous().t(),
    "wider": lambda x: torch.full((len(x), x.shape[1] + 3), 99.0).to(x)[:, :-3].copy_(x),
    "every second": lambda x: torch.stack([x, x], 2).flatten(1)[:, ::2].copy_(x),
    "expanded": lambda x: x[:1].expand(len(x), -1),
}


@settings(max_examples=25)
@given(
    st.integers(1, 9), st.integers(1, 700), st.sampled_from(list(ROWS)),
    st.sampled_from([torch.float32, torch.float16]), st.integers(0, 9),
)  # fmt: skip
@example(5, 128, "rows", torch.float32, 0)
@example(4, 129, "columns", torch.float16, 0)
def test_quantizes_to_the_nearest(device, M, K, layout, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    size = 2.0 ** torch.randint(-6, 7, (M, K), generator=generator)
    x = ROWS[layout]((torch.randn(M, K, generator=generator) * size).to(device, dtype))
    check_quantized(x, quantize(x), x)


def check_quantized(x, found, exact, steps=0.501, rtol=0.0):
    (M, K), (q, scale) = x.shape, found
    assert q.dtype == E4M3 and q.shape == x.shape and q.stride(1) == 1 and q.stride(0) % 16 == 0
    assert scale.dtype == torch.float32 and scale.shape == (M, up(K)) and scale.stride(0) == 1
    assert K <= 128 or scale.stride(1) % 4 == 0
    padded = torch.nn.functional.pad(exact.double(), (0, up(K) * 128 - K)).unflatten(1, (-1, 128))
    expected = (padded.abs().amax(2) / 448).clamp(min=1e-30)
    torch.testing.assert_close(scale.double(), expected, rtol=3e-7 + rtol, atol=0)
    assert nearest(q, scale, exact, steps=steps)


@pytest.mark.parametrize("K", [300, 384])
def test_what_it_stores(K):
    """Each number and each scale once, and nothing beyond; reads only x."""
    x = torch.randn(3, K)
    q = Guarded((3, up(K, 16) * 16), E4M3, "cpu", before=64, after=512, fill=0x7F)
    scales = Guarded((3, 4), torch.float32, "cpu", before=64, after=64, fill=0xFF)
    with recorded_accesses() as accesses, handed_out("empty", q.tensor, scales.tensor):
        quantize(x)
    q.check("q"), scales.check("scales")
    check_inside(accesses, "load", x=x)
    check_each_once(accesses, "store", q=q.tensor[:, :K], scales=scales.tensor[:, :3])


@pytest.mark.parametrize("K", [1, 5, 128, 200, 1000])
@pytest.mark.parametrize("eps", [0.0, 1e-6, 0.5])
def test_norm(device, K, eps):
    torch.manual_seed(K)
    x, weight = torch.randn(7, K, device=device) * 30, torch.randn(K, device=device)
    exact = x.double() / (x.double().square().mean(1, keepdim=True) + eps).sqrt() * weight.double()
    check_quantized(x, norm_and_quantize(x, weight, eps), exact, 0.51, rtol=1e-5)
    half = norm_and_quantize(x.half().t().contiguous().t(), torch.stack([weight, weight], 1)[:, 0], eps)
    torch.testing.assert_close(half[1], norm_and_quantize(x, weight, eps)[1], rtol=1e-2, atol=0)


def test_norm_is_of_the_row_and_not_of_its_padding(device):
    q, scale = norm_and_quantize(torch.full((1, 3), 5.0, device=device), torch.ones(3, device=device), 0.0)
    assert torch.allclose(q.float() * scale, torch.ones(1, 3, device=device))


def test_zeros_stay_zeros(device):
    x = torch.zeros(3, 300, device=device)
    x[1, 140] = 7
    q, scale = quantize(x)
    assert (scale > 0).all() and not q.float()[[0, 2]].any() and dequantize(q, scale)[1].nonzero().tolist() == [[140]]
    w, w_scale = quantize_weight(torch.randn(40, 300, device=device))
    y = product(q, w, scale, w_scale, torch.float32, config=SMALL)
    assert not y[[0, 2]].any() and y[1].any()
    assert not norm_and_quantize(x, torch.ones(300, device=device))[0].float()[0].any()


@settings(max_examples=20)
@given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 9))
@example(128, 128, 0)
def test_weights_are_rounded_to_the_nearest(N, K, seed):
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(N, K, generator=generator) * torch.logspace(-3, 3, max(N, 1))[:N, None]
    weight[: N // 3, : K // 3] = 0
    q, scale = quantize_weight(weight)
    assert q.shape == (N, K) and scale.shape == (up(N), up(K)) and scale.is_contiguous() and (scale > 0).all()
    assert N * K == 0 or (q.stride(1) == 1 and (N == 1 or q.stride(0) % 16 == 0 or q.is_contiguous()))
    if N * K:
        assert nearest(q, scale.repeat_interleave(128, 0)[:N], weight)
        for i in range(up(N)):
            for j in range(up(K)):
                square = weight[128 * i : 128 * i + 128, 128 * j : 128 * j + 128]
                assert math.isclose(scale[i, j], max(square.abs().max() / 448, 1e-30), rel_tol=3e-7)
        far = scale.double()[torch.arange(N)[:, None] // 128, torch.arange(K) // 128]
        assert torch.equal(dequantize(q, scale), q.double() * far)


def test_dequantize_tells_rows_from_squares():
    assert dequantize(torch.ones(3, 200).to(E4M3), torch.tensor([[1.0, 2.0]] * 3)).sum() == 3 * (128 + 2 * 72)
    assert dequantize(torch.ones(3, 200).to(E4M3), torch.tensor([[1.0, 2.0]])).sum() == 3 * (128 + 2 * 72)
    assert dequantize(torch.ones(1, 3).to(E4M3), torch.tensor([[2.0]])).tolist() == [[2.0, 2.0, 2.0]]


def test_the_ten_numbers():
    numbers = torch.tensor(module.TEN)
    numbers[module.OUTLIER] = 2.0**17
    together, apart = survivors(numbers, 10), survivors(numbers, 5)
    assert not together[[2, 4, 6, 8, 9]].any() and (apart[:5] / numbers[:5] - 1).abs().max() < 1 / 16
    assert torch.equal(survivors(numbers, 1), numbers)


# Edges


@pytest.mark.parametrize("M, N, K", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)])
def test_empty(device, M, N, K):
    q, scale = quantize(torch.ones(M, K, device=device))
    assert q.shape == (M, K) and scale.shape == (M, up(K))
    assert norm_and_quantize(torch.ones(M, K, device=device), torch.ones(K, device=device))[0].shape == (M, K)
    w, w_scale = quantize_weight(torch.ones(N, K, device=device))
    y = block_scaled_matmul(q, w, scale, w_scale, torch.float32)
    assert y.shape == (M, N) and not y.any()


def test_tiles():
    for M in (1, 16, 17, 64, 65, 128, 129, 4096, 2**20):
        for N in (1, 2048, 7168, 2**17):
            config = choose_config(M, N, 132)
            m, n = config.block_m, config.block_n
            assert m & (m - 1) == n & (n - 1) == 0 and 64 <= m <= 256 and 16 <= n <= 128
            assert config.num_stages * ((m + n) * 128 + 4 * (m + 1)) + 2048 <= SHARED // (3 if n == 128 else 2)
            tiles = up(M, m) * up(N, n)
            assert n == 16 or tiles >= 198, "1.5 for each multiprocessor"
            assert n == 128 or up(M, m) * up(N, 2 * n) < 198, "and no wider tile has as many"


def test_asks_for_a_tile_by_the_result():
    x, w = whole(3, 16, 0, "cpu"), whole(5, 16, 1, "cpu")
    with mock.patch.object(module, "choose_config", return_value=SMALL) as choose:
        block_scaled_matmul(x, w, torch.ones(3, 1), torch.ones(1, 1), torch.float32)
    assert choose.call_args == mock.call(3, 5, module.multiprocessors(x.device))


def eight_bits(*shape):
    return without_memory(*shape, dtype=E4M3)


def test_too_many_tiles():
    long, scales = eight_bits(2**30, 1), without_memory(2**30, 1)
    nothing = mock.MagicMock()
    nothing.__getitem__.return_value = nothing
    refused = pytest.raises(ValueError, match="too many tiles of 32 x 32")
    with mock.patch.object(torch, "empty", return_value=nothing), refused:
        product(long, long, scales, without_memory(2**23, 1), torch.float32, config=SMALL)


def operands():
    return {
        "x": whole(2, 130, 0, "cpu"), "w": whole(3, 130, 1, "cpu"), "x_scales": torch.ones(2, 2),
        "w_scales": torch.ones(1, 2), "out_dtype": torch.float32,
    }  # fmt: skip


REFUSED = [
    ({"x": lambda x: x[0]}, r"\(M, K\) and \(N, K\); got \(130,\)"),
    ({"w": lambda w: w[:, 1:]}, r"got \(2, 130\) and \(3, 129\)"),
    ({"x": lambda x: x.float()}, r"x must be of torch.float8_e4m3fn; got torch.float32: see quantize"),
    ({"w": lambda w: w.float().to(torch.float8_e5m2)}, "w must be of .* got torch.float8_e5m2"),
    ({"x_scales": lambda s: s[:, :1]}, r"x_scales must be \(2, 2\) of torch.float32; got \(2, 1\)"),
    ({"x_scales": lambda s: s.t()[:1]}, r"x_scales must be \(2, 2\)"),
    ({"w_scales": lambda s: s.expand(3, 2)}, r"w_scales must be \(1, 2\) of torch.float32; got \(3, 2\)"),
    ({"w_scales": lambda s: s.half()}, "got .* of torch.float16"),
    ({"w_scales": lambda s: s.to("meta")}, "on one device; got cpu, cpu, cpu, meta"),
    ({"out_dtype": lambda _: torch.int32}, "out_dtype must be one of .* got torch.int32"),
    ({"out_dtype": lambda _: torch.bfloat16}, "interpreter rounds to bfloat16 wrongly"),
    ({"x_scales": lambda s: s.requires_grad_()}, "x_scales requires a gradient"),
    ({"w_scales": lambda s: torch._neg_view(s)}, r"pass w_scales.resolve_neg\(\)"),
    ({"x": lambda x: eight_bits(2**31 - 511, 1), "w": lambda w: w[:, :1],
      "x_scales": lambda s: without_memory(2**31 - 511, 1), "w_scales": lambda s: s[:, :1]}, "at most"),
]  # fmt: skip


@pytest.mark.parametrize("changes, words", REFUSED)
def test_refuses(changes, words):
    given = operands()
    given |= {name: change(given[name]) for name, change in changes.items()}
    with pytest.raises(ValueError, match=words):
        block_scaled_matmul(**given)


@pytest.mark.parametrize(
    "given, words",
    [
        ((torch.ones(3),), r"x must be \(M, K\), with K up to 65536; got \(3,\)"),
        ((without_memory(1, 2**16 + 1),), r"got \(1, 65537\)"),
        ((torch.ones(1, 3).double(),), "x has dtype torch.float64; use one of"),
        ((torch.ones(1, 3).to("meta"),), "x is on meta; kernels run on"),
        ((torch.ones(1, 3, requires_grad=True),), "x requires a gradient"),
        ((torch.ones(1, 3), torch.ones(4)), r"weight must be \(3,\) on cpu, of one of .* got \(4,\)"),
        ((torch.ones(1, 3), torch.ones(3).int()), "got .* of torch.int32"),
        ((torch.ones(1, 3), torch.ones(3, device="meta")), "on meta"),
        ((torch.ones(1, 3), torch.ones(3, requires_grad=True)), "weight requires a gradient"),
        ((torch.ones(1, 3), torch.ones(3), -1.0), "eps is -1.0; it must not be negative"),
        ((torch.ones(1, 3), torch.ones(3), math.nan), "eps is nan"),
    ],
)
def test_refuses_rows(given, words):
    with pytest.raises(ValueError, match=words):
        (quantize if len(given) == 1 else norm_and_quantize)(*given)


@pytest.mark.parametrize("weight", [torch.ones(3), torch.ones(2, 2).int()])
def test_refuses_a_weight(weight):
    with pytest.raises(ValueError, match=r"weight must be floats, \(N, K\)"):
        quantize_weight(weight)


def test_at_the_limits():
    module.check_rows(without_memory(2**31 - 1, 1))
    module.check_rows(without_memory(1, 2**16))
    long = 2**31 - 512
    scales = without_memory(long, 1), without_memory(1, 1)
    module.check_arguments(eight_bits(long, 1), eight_bits(1, 1), *scales, torch.float32)


def test_far_rows():
    """The way to a row, and to a group's scales, is computed in 64 bits."""
    base, row = torch.zeros(4), 2**24
    with recorded_accesses(first_program=(row, 0, 0), memory=False) as seen:
        module.quantize_kernel[(1,)](
            base, base, base.view(torch.uint8).view(E4M3), base, 512, 0.0, 2**10, 2**9, 2**30, NORM=True, GROUPS=4
        )
    at = [(op, int(each.min() - base.data_ptr()), int(each.max() - base.data_ptr())) for op, each in seen]
    begin = row * 2**10 * 4
    assert at[:2] == [("load", begin, begin + 511 * 4), ("load", 0, 511 * 4)]
    assert at[2] == ("store", row * 2**9, row * 2**9 + 511)
    assert at[3] == ("store", 4 * row, 4 * (3 * 2**30 + row))


# Compiled

CODE = """
from snippets.models.block_scales import choose_config
E4M3, float32 = torch.float8_e4m3fn, torch.float32
for M, N, K in ((4096, 7168, 2048), (128, 4096, 14336), (16, 7168, 18432)):
    x, w = torch.empty(M, K, dtype=E4M3), torch.empty(N, K, dtype=E4M3)
    scales = torch.empty(K // 128, M).t(), torch.empty(N // 128, K // 128)
    module.product(x, w, *scales, torch.bfloat16)
module.quantized(torch.empty(64, 7168, dtype=torch.bfloat16), torch.empty(7168, dtype=torch.bfloat16), 1e-6)
"""


def test_compiles_for_an_h200():
    *products, norm = compiled("models/block_scales", CODE)
    for launch in products:
        assert launch.shared <= SHARED and launch.spills == 0
        assert "wgmma.mma_async.sync.aligned" in launch.ptx and "e4m3" in launch.ptx and "UTMALDG" in launch.sass
    assert norm.spills == 0 and norm.widest("LDG") == 128 and "e4m3x2" in norm.ptx


# On a GPU


@pytest.mark.gpu
def test_right_gpu():
    for M, N, K in ((1, 7168, 2048), (16, 4096, 1000), (100, 300, 4096), (4096, 1001, 384), (513, 2048, 7168)):
        for laid in (("tma", "tma", "columns", "rows"), ("gaps", "columns", "rows", "gaps")):
            check(M, N, K, "cuda", layouts=laid, config=None, out_dtype=torch.bfloat16)


@pytest.mark.gpu
@pytest.mark.parametrize("M, N, K", [(64, 512, 4096), (500, 768, 1536)])
def test_as_torch(M, N, K):
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("torch has these scales on Hopper")
    torch.manual_seed(0)
    x, w = torch.randn(M, K, device="cuda"), torch.randn(N, K, device="cuda")
    (q, scale), (qw, w_scale) = quantize(x), quantize_weight(w)
    exact = dequantize(q, scale) @ dequantize(qw, w_scale).t()
    theirs = torch._scaled_mm(q, qw.t(), scale, w_scale.t(), out_dtype=torch.bfloat16)
    error = lambda y: ((y.double() - exact).norm() / exact.norm()).item()
    assert error(block_scaled_matmul(q, qw, scale, w_scale)) < 1.2 * error(theirs) + 1e-4 < 0.01


@pytest.mark.gpu
def test_only_what_meets_a_nan_or_an_infinity_is_lost():
    torch.manual_seed(0)
    x = torch.randn(4, 300, device="cuda")
    x[1, 140], x[2, 7] = math.nan, math.inf
    q, scale = quantize(x)
    assert dequantize(q, scale)[[0, 3]].isfinite().all() and dequantize(q, scale)[1, 140].isnan()
    w, w_scale = quantize_weight(torch.randn(200, 300, device="cuda"))
    y = block_scaled_matmul(q, w, scale, w_scale)
    assert y[[1, 2]].isnan().all() and y[[0, 3]].isfinite().all()


@pytest.mark.gpu
def test_in_a_graph_is_two_kernels():
    torch.manual_seed(0)
    x, weight = torch.randn(100, 1024, device="cuda").bfloat16(), torch.ones(1024, device="cuda")
    w, w_scale = quantize_weight(torch.randn(512, 1024, device="cuda"))
    run = lambda: (lambda q, scale: block_scaled_matmul(q, w, scale, w_scale))(*norm_and_quantize(x, weight))
    expected, graph = run(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = run()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        graph.replay()
        torch.cuda.synchronize()
    names = [event.name for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    assert names == ["quantize_kernel", "block_scaled_kernel"] and torch.equal(y, expected)


@pytest.mark.gpu
def test_more_than_2_31_elements_gpu():
    M, N = 2**17, 2**14 + 128
    x = torch.zeros(M, 128, device="cuda", dtype=torch.bfloat16)
    x[-1] = 1
    q, scale = quantize(x)
    w, w_scale = quantize_weight(torch.ones(N, 128, device="cuda"))
    y = block_scaled_matmul(q, w, scale, w_scale)
    assert y.numel() > 2**31 and y[-1].unique().tolist() == [128.0] and not y[:-1].any()
    del y, q, scale
    x = torch.zeros(2**15 + 1, 2**16, device="cuda", dtype=torch.bfloat16)
    x[-1, -1] = 448
    q, scale = quantize(x)
    assert q[-1, -1].float() == 448 and scale[-1, -1] == 1 and not q[:-1].view(torch.uint8).any()


@pytest.mark.gpu
@pytest.mark.parametrize("tool", CLEAN)
def test_compute_sanitizer_finds_nothing(tool):
    check_sanitized(SOURCE, tool=tool)
