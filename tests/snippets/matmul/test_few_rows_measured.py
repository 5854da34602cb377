# SPDX-License-Identifier: Apache-2.0
"""Every weight that the models multiply by few rows is measured; bytes are those of the weight, twice for a copy."""

import pytest
import torch
import triton

from snippets.matmul import few_rows_measured
from snippets.matmul.few_rows import MOST_ROWS
from snippets.matmul.model_shapes import SHAPES
from snippets.tools.benchmarking import Timing

MARKS = [value for value in vars(few_rows_measured).values() if isinstance(value, triton.testing.Mark)]


def test_main_lists_every_benchmark(capsys):
    few_rows_measured.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert sorted(listed) == sorted(mark.benchmarks.plot_name for mark in MARKS)


def test_every_weight_by_every_number_of_rows():
    weights = {(shape.n, shape.k) for shape in SHAPES["decode"]}
    expected = {(rows, *weight) for rows in (1, 2, 4, 8, 16) for weight in weights}
    assert set(few_rows_measured.NAMED.values()) == expected and len(few_rows_measured.NAMED) == len(expected)
    assert max(few_rows_measured.ROWS) <= MOST_ROWS
    for mark in MARKS:
        assert mark.benchmarks.x_vals == [f"{m} × {n} × {k}" for m, n, k in few_rows_measured.NAMED.values()]


@pytest.fixture
def made_up(monkeypatch):
    """Our product takes 1 ms, cuBLAS's 2, a kernel that does nothing 0.1, a copy 4: median, slowest, fastest round."""
    seen = []
    takes = {"ours": (1, 1.25, 0.5), "cublas": (2, 2, 2), "empty": (0.1, 0.1, 0.1), "copy": (4, 4, 4)}

    def compared(sides, make, rounds):
        seen.append((list(sides), make, rounds))
        return {name: Timing(takes[name]) for name in sides}

    monkeypatch.setattr(few_rows_measured, "operands", lambda M, N, K: (M, N, K))
    monkeypatch.setattr(few_rows_measured, "check_alike", lambda sides, given: None)
    monkeypatch.setattr(few_rows_measured, "compare_in_rotation", compared)
    few_rows_measured.measure.cache_clear(), few_rows_measured.measure_copy.cache_clear()
    yield seen
    few_rows_measured.measure.cache_clear(), few_rows_measured.measure_copy.cache_clear()


def test_tables(made_up):
    found = {
        mark.benchmarks.plot_name: {
            shape: {line: mark.fn(shape, line) for line in mark.benchmarks.line_vals}
            for shape in mark.benchmarks.x_vals
        }
        for mark in MARKS
    }
    for shape, (_, N, K) in few_rows_measured.NAMED.items():
        times, rates, weight = found["times"][shape], found["bandwidth"][shape], 2e-6 * N * K  # MB, or GB/s at 1 ms
        assert times["ours"] == pytest.approx((1000, 500, 1250)) and times["share"] == 2
        assert times["cublas"] == (2000, 2000, 2000) and times["empty"] == pytest.approx((100, 100, 100))
        assert rates["ours"] == pytest.approx((weight, weight / 1.25, weight / 0.5))
        assert rates["cublas"][0] == pytest.approx(weight / 2) and rates["copy"][0] == pytest.approx(2 * weight / 4)
        assert (rates["share"], rates["cublas_share"]) == pytest.approx((2, 1))
    products = [made() for sides, made, rounds in made_up if sides == ["ours", "cublas", "empty"] and rounds == 3]
    assert products == list(few_rows_measured.NAMED.values()), "each is measured once"
    assert len([sides for sides, *_ in made_up if sides == ["copy"]]) == len(few_rows_measured.WEIGHTS)


@pytest.mark.gpu
def test_measures():
    found = few_rows_measured.measure(2, 1024, 2048)
    assert set(found) == {"ours", "cublas", "empty"}
    assert 0 < found["empty"].median < min(found["ours"].median, found["cublas"].median) < 1
    assert 0 < few_rows_measured.measure_copy(1024, 2048).median < 1


@pytest.mark.gpu
def test_a_copy_is_a_copy(monkeypatch):
    def compared(sides, make, rounds):
        source, target = make()
        sides["copy"](source, target)
        assert torch.equal(source, target) and source.dtype == torch.bfloat16 and source.shape == (256, 128)
        assert source.data_ptr() != target.data_ptr()
        return {"copy": None}

    monkeypatch.setattr(few_rows_measured, "compare_in_rotation", compared)
    few_rows_measured.measure_copy.__wrapped__(256, 128)
