# SPDX-License-Identifier: Apache-2.0
"""The benchmark compares equals: same numbers, same precision, and results that agree."""

import inspect
from unittest import mock

import pytest
import torch
import triton

from snippets.matmul import cublas

MARKS = [name for name, value in vars(cublas).items() if isinstance(value, triton.testing.Mark)]


def test_main_lists_every_benchmark(capsys):
    cublas.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert sorted(listed) == sorted(MARKS)


def test_every_product_is_there_and_takes_what_it_is_given():
    assert list(cublas.PRODUCTS) == ["cublas", *cublas.LINES]
    for name in cublas.LINES:
        parameters = inspect.signature(cublas.PRODUCTS[name]).parameters
        assert list(parameters)[:2] == ["a", "b"]
        if name in cublas.SQUARE and name != "persistent":  # which hands on what it is given
            assert "input_precision" in parameters
    assert "counters" in inspect.signature(cublas.split_k.matmul).parameters


@pytest.mark.parametrize("side, options", [(256, {}), (8192, {}), (256, {"input_precision": "tf32"})])
def test_ours_begins_late_where_it_is_compared(monkeypatch, side, options):
    """As it would by itself, but for the early launch, which cuBLAS has not."""
    a, given = torch.empty(side, side, device="meta", dtype=torch.float32 if options else torch.bfloat16), {}
    monkeypatch.setattr(cublas.persistent, "matmul", lambda a, b, **options: given.update(options))
    cublas.late(a, a, **options)
    expected = cublas.persistent.configuration(side, side, a.itemsize, 132, **options)
    assert given == {"config": expected._replace(early=False)} | options


def test_a_wrong_side_is_refused(monkeypatch):
    given = torch.ones(8, 8, dtype=torch.float16), torch.ones(8, 8, dtype=torch.float16)
    for name in ("naive", "grouped"):
        monkeypatch.setitem(cublas.PRODUCTS, name, torch.matmul)
    assert list(cublas.sides_of(given, ("naive", "grouped"))) == ["cublas", "naive", "grouped"]
    monkeypatch.setitem(cublas.PRODUCTS, "naive", lambda a, b: 1.01 * (a @ b))
    with pytest.raises(RuntimeError, match=r"naive differs from cuBLAS by 0.0098 at \(8, 8\)"):
        cublas.sides_of(given, ("naive",))
    monkeypatch.setitem(cublas.PRODUCTS, "naive", lambda a, b: (a @ b) * float("nan"))
    with pytest.raises(RuntimeError, match="naive differs"):
        cublas.sides_of(given, ("naive",))


def test_a_wrong_side_of_large_numbers_is_refused(monkeypatch):
    """Their norm, 3.7 million, and that of the error are more than float16 holds."""
    a = torch.full((64, 64), 30, dtype=torch.float16)
    monkeypatch.setitem(cublas.PRODUCTS, "naive", lambda a, b: 1.1 * (a @ b))
    with pytest.raises(RuntimeError, match=r"naive differs from cuBLAS by 0.1 at"):
        cublas.sides_of((a, a), ("naive",))


@pytest.mark.parametrize("dtype, options", [(torch.float16, {}), (torch.float32, {"input_precision": "tf32"})])
def test_what_a_side_needs_is_there_before_it_is_timed(monkeypatch, dtype, options):
    a, b, got = torch.ones(8, 16, dtype=dtype), torch.ones(16, 8, dtype=dtype), {}
    for name in ("autotuned", "split_k"):
        run = lambda a, b, name=name, **options: got.setdefault(name, []).append(options) or a @ b
        monkeypatch.setitem(cublas.PRODUCTS, name, run)
    with mock.patch.object(cublas.autotuned, "prepare") as prepared:
        calls = cublas.sides_of((a, b), ("autotuned", "split_k"))
    first, second = prepared.call_args.args
    assert first is a and second is b and prepared.call_args.kwargs == options
    calls["split_k"](a, b)
    (before, again), (autotuned,) = got["split_k"], got["autotuned"]
    assert before["counters"] is again["counters"] and autotuned == options
    counters = again.pop("counters")
    assert counters.dtype == torch.int32 and not counters.any() and again == options


def whole(rows, columns, device="cpu"):
    random = torch.Generator().manual_seed(rows)
    return torch.randint(-2, 3, (rows, columns), generator=random).to(device, torch.float16)


def test_padded_sides_are_right_and_aligned(monkeypatch):
    """Both multiply matrices whose rows begin at multiples of 16 bytes: copied beforehand, or at each call."""
    a, b = whole(9, 13), whole(13, 17)
    given = a, b, cublas.widened(a), cublas.widened(b)
    expected, torch_matmul, torch_pad, seen, copies = a @ b, torch.matmul, torch.nn.functional.pad, [], []
    monkeypatch.setitem(cublas.PRODUCTS, "cublas", torch_matmul)
    monkeypatch.setattr(torch, "matmul", lambda a, b: seen.append((*a.shape, *b.shape)) or torch_matmul(a, b))
    monkeypatch.setattr(torch.nn.functional, "pad", lambda *given: copies.append(given) or torch_pad(*given))
    calls = cublas.sides_of(given, tuple(cublas.PADDED))
    assert list(calls) == ["cublas", "padded", "padding"]
    for name, made in (("padded", 0), ("padding", 2)):
        seen.clear(), copies.clear()
        assert torch.equal(calls[name](*given), expected)
        assert seen == [(16, 16, 16, 24)] and len(copies) == made
    wrong = mock.patch.object(cublas, "padded", lambda a, b, *wide: a @ b * 1.1)
    with wrong, pytest.raises(RuntimeError, match="padded differs"):
        cublas.sides_of(given, ("padded",))


def test_an_aligned_matrix_is_not_widened():
    assert cublas.widened(torch.ones(8, 16)).shape == (8, 16)
    assert cublas.widened(torch.ones(1, 1)).tolist() == [[1.0, *[0.0] * 7], *[[0.0] * 8] * 7]


def test_padding(monkeypatch):
    """The best is one of ours, however fast padding makes cuBLAS."""
    names = "cublas", "autotuned", "persistent", "split_k", "padded", "padding"
    made = dict(zip(names, (200.0, 300.0, 500.0, 100.0, 600.0, 550.0), strict=True))
    seen = []

    def rates(sides, make, flops, rounds):
        seen.append((*sides, flops, len(make())))
        return {name: (made[name], made[name] - 1, made[name] + 1) for name in sides}

    monkeypatch.setattr(cublas, "operands", lambda *_: torch.ones(2, 9, 9))
    monkeypatch.setattr(cublas, "sides_of", lambda given, names: ["cublas", *names])
    monkeypatch.setattr(cublas, "rates", rates)
    cublas.measure.cache_clear()
    options = cublas.padding.benchmarks.args
    found = {name: cublas.padding.fn(name, "rate", **options) for name in cublas.padding.benchmarks.x_vals}
    assert found == {name: (made[name], made[name] - 1, made[name] + 1) for name in found}
    assert cublas.padding.fn("padded", "share", **options) == 3
    assert cublas.padding.fn("padded", "us", **options) == pytest.approx(2 * 4097**3 / 600e12 * 1e6)
    assert cublas.measure_shape(cublas.ODD_SIZE)["best"][0] == 500
    assert seen == [(*made, 2 * 4097**3, 4)], "measured once for all, on matrices and their copies"
    few = "16 × 4096 × 4096"
    assert "padded" not in cublas.measure_shape(few) and seen[1][-2:] == (2 * 16 * 4096**2, 2)
    assert cublas.skinny.fn(few, "best", cublas.skinny.benchmarks.args["names"])[0] == 500
    assert cublas.skinny_share.fn(few, "persistent") == 2.5
    cublas.measure.cache_clear()


def test_odd(monkeypatch):
    seen = []

    def rates(sides, make, flops, rounds):
        a, b = make()
        seen.append((*a.shape, *b.shape, a.stride(), b.stride(), flops))
        return {name: (1.0 + i, 0.0, 0.0) for i, name in enumerate(sides)}

    ones = lambda M, N, K, dtype: (torch.ones(M, K, dtype=dtype), torch.ones(K, N, dtype=dtype))
    monkeypatch.setattr(cublas, "operands", ones)
    monkeypatch.setattr(cublas, "rates", rates)
    monkeypatch.setattr(cublas, "ODD", {"N": (8, 9, 16, False), "columns": (8, 9, 16, True)})
    monkeypatch.setitem(cublas.PRODUCTS, "persistent", torch.matmul)
    cublas.measure_odd.cache_clear()
    assert [cublas.odd.fn("N", side) for side in ("cublas", "persistent")] == [(1.0, 0.0, 0.0), (2.0, 0.0, 0.0)]
    cublas.odd.fn("columns", "cublas")
    cublas.measure_odd.cache_clear()
    flops = 2 * 8 * 9 * 16
    assert seen == [(8, 16, 16, 9, (16, 1), strides, flops) for strides in ((9, 1), (1, 16))]


def test_one_odd_side_changes_no_number_of_tiles():
    for *sides, _ in cublas.ODD.values():
        assert sorted(sides) == [4095, 4096, 4096]
        config = cublas.persistent.configuration(sides[0], sides[1], 2, 132)
        assert cublas.persistent.tiles_of(sides[0], sides[1], config) == 512


def test_shares():
    made = {512: 1.1, 1024: 0.9}

    def measure(n, m, k, dtype, names):
        return {"best": (made[n], 0, 0), "cublas": (1.0, 0, 0)}

    two_sizes = mock.patch.object(cublas.square.benchmarks, "x_vals", [512, 1024])
    with mock.patch.object(cublas, "measure", measure), two_sizes:
        found = [cublas.shares.fn("bfloat16", what) for what in ("least", "mean", "most")]
    assert found == pytest.approx([0.9, (1.1 * 0.9) ** 0.5, 1.1])


@pytest.mark.gpu
def test_measures():
    rates = cublas.measure(256, 256, 512, torch.bfloat16, tuple(cublas.LINES))
    assert set(rates) == {"cublas", *cublas.LINES, "best"}
    assert all(0 < low <= median <= high < 2000 for median, low, high in rates.values())
    assert rates["best"][0] == max(rates[name][0] for name in cublas.OURS)
    assert set(cublas.measure(256, 256, 512, torch.float32, cublas.FEWER)) == {"cublas", *cublas.FEWER, "best"}


@pytest.mark.gpu
def test_measures_odd_sizes():
    names = (*cublas.FEWER, *cublas.PADDED)
    rates = cublas.measure(257, 257, 257, torch.bfloat16, names)
    assert set(rates) == {"cublas", *names, "best"}
    assert rates["best"] in [rates[name] for name in cublas.FEWER]
    for M, N, K, by_columns in cublas.ODD.values():
        found = cublas.measure_odd(M // 8, N // 8, K // 8, by_columns)
        assert set(found) == {"cublas", "persistent"}
        assert all(0 < low <= median <= high < 2000 for median, low, high in found.values())


@pytest.mark.gpu
def test_measures_calls_from_python():
    found = cublas.measure_calls(256, calls=20)
    assert set(found) == {"cublas", "autotuned", "persistent"}
    assert all(1 < microseconds < 5000 for microseconds in found.values())
