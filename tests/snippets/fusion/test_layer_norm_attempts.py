# SPDX-License-Identifier: Apache-2.0
"""Every way to compute layer norm gives torch's result, loads and stores each element once, *one sum* a row's first
twice, and refuses what it must."""

import contextlib
from unittest import mock

import numpy as np
import pytest
import torch
from guards import Guarded, check_each_once, check_inside, recorded_accesses

from snippets.fusion import layer_norm_attempts as attempts
from snippets.tools.benchmarking import Timing
from snippets.tools.testing import addresses_of

ways = pytest.mark.parametrize("way", attempts.TRIED)


@ways
@pytest.mark.parametrize("rows, columns", [(3, 1), (2, 100), (3, 128), (1, 1000)])
def test_as_torch(device, way, rows, columns):
    random = torch.Generator().manual_seed(rows * columns)
    made = (torch.randn(*size, generator=random).to(device) for size in ((rows, columns), (columns,), (columns,)))
    given = [Guarded.around(x, before=64, after=2048, fill=0x7F) for x in made]
    x, weight, bias = (each.tensor for each in given)
    x += 3
    out = Guarded((rows, columns), torch.float32, x.device, before=64, after=2048, fill=0x5A)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "empty_like", lambda like: out.tensor)
        with recorded_accesses() if device == "cpu" else contextlib.nullcontext() as accesses:
            assert attempts.TRIED[way](x, weight, bias) is out.tensor
    for name, each in zip(("x", "weight", "bias", "out"), (*given, out), strict=True):
        each.check(name)
    if accesses is not None:
        check_each_once(accesses, "store", out=out.tensor)
        loaded = check_inside(accesses, "load", x=x, weight=weight, bias=bias)
        of_x = [addresses_of(x), addresses_of(x[:, 0])] if "one sum" in way else [addresses_of(x)]
        assert np.array_equal(np.sort(loaded[np.isin(loaded, of_x[0])]), np.sort(np.concatenate(of_x)))
    expected = torch.nn.functional.layer_norm(
        x.double(), (columns,), weight.double(), bias.double(), attempts.EPS
    ).float()
    torch.testing.assert_close(out.tensor, expected, rtol=1e-5, atol=2e-5 if columns > 1 else 1e-2)


@ways
def test_a_row_of_one_number_is_the_bias(device, way):
    """Its variance is 0; rounding must not make it negative."""
    x = torch.full((2, 24), 1 / 3, device=device)
    out = attempts.TRIED[way](x, torch.ones(24, device=device), torch.full((24,), 5.0, device=device))
    torch.testing.assert_close(out, torch.full_like(x, 5.0), atol=1e-3, rtol=0)


@ways
def test_rows_far_from_zero_and_from_each_other(device, way):
    """The variance of 2, 4, 5, 6, 8 is 4, wherever they lie; a difference from another row's first loses it.

    A GPU multiplies the sum by 1/5, rounded, so the mean of numbers near 2**20 is off by some 2**-6 there.
    """
    x = torch.tensor([[2.0, 4.0, 5.0, 6.0, 8.0]], device=device) + torch.tensor([[0.0], [2.0**20]], device=device)
    out = attempts.TRIED[way](x, torch.ones(5, device=device), torch.zeros(5, device=device))
    expected = torch.tensor([[-1.5, -0.5, 0.0, 0.5, 1.5]], device=device)
    torch.testing.assert_close(out[:1], expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(out[1:], expected, atol=1e-5 if device == "cpu" or "one sum" in way else 0.02, rtol=0)


@ways
def test_float16_is_computed_in_float32(device, way):
    """The sum of a row is beyond what float16 can hold."""
    random = torch.Generator().manual_seed(0)
    x, weight, bias = (torch.randn(*size, generator=random) for size in ((2, 300), (300,), (300,)))
    given = [each.half().to(device) for each in (400 + x, weight, bias)]
    out = attempts.TRIED[way](*given)
    expected = attempts.SIDES["torch"](*(each.double() for each in given))
    torch.testing.assert_close(out, expected.half(), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("one_sum", [False, True])
def test_offsets_are_computed_in_64_bits(first, one_sum):
    """Tensors are told of more elements than there are."""
    x, weight, bias, out = (torch.zeros(1) for _ in range(4))
    row, columns = 2**20 + 1, 2**11
    with recorded_accesses(first_program=(row, 0, 0), memory=False) as seen:
        attempts.attempt_kernel[(1,)](
            x, weight, bias, out, columns, EPS=1.0, WEIGHTS_FIRST=first, ONE_SUM=one_sum, BLOCK_SIZE=8, UNIT=1
        )
    for op, tensor in (("load", x), ("store", out)):
        assert tensor.data_ptr() + 4 * row * columns in [int(found[0]) for kind, found in seen if kind == op]


def test_each_way_is_launched_as_it_says():
    seen = {}
    with mock.patch.object(attempts, "attempt_kernel") as kernel:
        for way, run in attempts.TRIED.items():
            run(torch.ones(2, 4096), torch.ones(4096), torch.ones(4096))
            options = kernel.__getitem__.return_value.call_args.kwargs
            seen[way] = options["WEIGHTS_FIRST"], options["ONE_SUM"], options["num_warps"]
    assert seen["plain"] == (False, False, 8) and len(set(seen.values())) == len(seen) == 12
    assert seen["weights first, one sum, half the warps"] == (True, True, 4)
    assert seen["one sum, twice the warps"] == (False, True, 16)


@pytest.mark.parametrize(
    "x, options, message",
    [
        (torch.ones(2, 3, 8), {}, r"x must be \(rows, columns\)"),
        (torch.ones(2, 16)[:, ::2], {}, "contiguous"),
        (torch.ones(2, 8).double(), {}, "at most 32 bits; got torch.float64"),
        (torch.ones(2, 8), {"times_warps": 3}, "times_warps must be 0.5, 1 or 2; got 3"),
    ],
)
def test_refuses(x, options, message):
    with pytest.raises(ValueError, match=message):
        attempts.layer_norm(x, torch.ones(8, dtype=x.dtype), torch.ones(8, dtype=x.dtype), **options)


def test_nothing_for_no_rows():
    assert attempts.layer_norm(torch.ones(0, 8), torch.ones(8), torch.ones(8)).shape == (0, 8)


def test_the_table_is_a_share_of_the_copy():
    """A copy of 0.5 ms and a way of 1 ms: half its speed."""
    with (
        mock.patch.object(attempts, "measure", return_value={"torch": Timing((1.0, 1.0, 1.0))}),
        mock.patch.object(attempts, "measure_copy", return_value=Timing((0.5, 0.5, 0.5))) as copy,
    ):
        assert attempts.attempts.fn("torch", "few") == 0.5
    copy.assert_called_once_with(2 * 1000 * 3000 * 2)


def test_prints_that_all_are_right(device, capsys):
    attempts.main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 12 and all(line.endswith(": as torch") for line in lines)


@pytest.mark.gpu
def test_measures_on_a_gpu(monkeypatch):
    monkeypatch.setitem(attempts.SHAPES, "few", (64, 3000))
    attempts.measure.cache_clear()
    assert all(0 < attempts.attempts.fn(way, "few") < 3 for way in attempts.SIDES)
    attempts.measure.cache_clear()
