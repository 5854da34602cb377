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


def test_every_snippet_is_there_and_takes_what_it_is_given():
    for name in cublas.OURS:
        parameters = inspect.signature(cublas.SNIPPETS[name].matmul).parameters
        assert list(parameters)[:2] == ["a", "b"]
        if name in cublas.FEWER:
            assert "input_precision" in parameters
    assert "counters" in inspect.signature(cublas.split_k.matmul).parameters


def test_a_wrong_side_is_refused():
    a, b = torch.ones(8, 8, dtype=torch.float16), torch.ones(8, 8, dtype=torch.float16)
    made = mock.Mock(matmul=torch.matmul)
    with mock.patch.dict(cublas.SNIPPETS, naive=made, grouped=made):
        assert list(cublas.sides_of(a, b, ("naive", "grouped"))) == ["cublas", "naive", "grouped"]
        made.matmul = lambda a, b: 1.01 * (a @ b)
        with pytest.raises(RuntimeError, match=r"naive differs from cuBLAS by 0.0098 at \(8, 8\)"):
            cublas.sides_of(a, b, ("naive",))
        made.matmul = lambda a, b: (a @ b) * float("nan")
        with pytest.raises(RuntimeError, match="naive differs"):
            cublas.sides_of(a, b, ("naive",))


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
    rates = cublas.measure(256, 256, 512, torch.bfloat16, tuple(cublas.OURS))
    assert set(rates) == {"cublas", *cublas.OURS, "best"}
    assert all(0 < low <= median <= high < 2000 for median, low, high in rates.values())
    assert rates["best"][0] == max(rates[name][0] for name in cublas.OURS)
    assert set(cublas.measure(256, 256, 512, torch.float32, cublas.FEWER)) == {"cublas", *cublas.FEWER, "best"}


@pytest.mark.gpu
def test_measures_calls_from_python():
    found = cublas.measure_calls(256, calls=20)
    assert set(found) == {"cublas", "autotuned", "persistent"}
    assert all(1 < microseconds < 5000 for microseconds in found.values())
