# SPDX-License-Identifier: Apache-2.0
"""Times of fused layers: what is timed computes the same, and every benchmark runs."""

import contextlib
import shutil
import sys
from unittest import mock

import pytest
import torch

from snippets.matmul import fused_measured as measured
from snippets.matmul.fused import ACTIVATIONS


def test_bytes_are_those_by_hand():
    assert measured.share.fn(64, "bytes", 8192, 8192) == (2 * 64 + 8192) / (2 * 64 + 3 * 8192)


def test_main_lists_every_benchmark(capsys):
    measured.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == ["by_k", "share", "by_shape", "by_activation", "parts", "counted"]


@pytest.fixture
def ncu(monkeypatch):
    """A made-up ncu: launch i counted 1,000,000 + i of everything."""
    metrics = [metric for metric, _ in measured.COUNTED.values()]
    launches = [{"kernel": f"kernel_{i}"} | dict.fromkeys(metrics, 1e6 + i) for i in range(9)]
    asked = mock.Mock(return_value=launches)
    monkeypatch.setattr(measured, "counters", asked)
    measured.measure_counted.cache_clear()
    yield asked
    measured.measure_counted.cache_clear()


def test_counted(ncu):
    units = {"µs": 1e-3, "cycles": 1, "MB from memory": 1e-6, "MB to memory": 1e-6, "MB asked of L2": 32e-6}
    for what, unit in units.items():
        expected = [unit * (1e6 + i) for i in (4, 3, 5)]  # median, least, most
        assert measured.counted.fn(what, "short") == pytest.approx(expected, rel=1e-9)
    assert measured.counted.fn("cycles", "few") == (1e6 + 7, 1e6 + 6, 1e6 + 8)
    assert measured.counted.benchmarks.line_names == list(measured.PARTS)
    metrics = [metric for metric, _ in measured.COUNTED.values()]
    ncu.assert_called_once_with(metrics, measured.__file__, "run", cache="all")


def test_more_launches_than_layers(ncu):
    ncu.return_value = ncu.return_value * 2
    with pytest.raises(RuntimeError, match=r"more than one kernel: .*kernel_0.*kernel_1"):
        measured.measure_counted()


def test_parts_multiply_or_store_as_much():
    layer, short, few = measured.PARTS.values()
    size = lambda M, N, K: (M * N * K, M * N)
    assert size(*few) == (size(*layer)[0], size(*layer)[1] / 16)
    assert size(*short) == (size(*layer)[0] / 4, size(*layer)[1])
    assert measured.fused.choose_config(*layer, 2, 132) == measured.PAIR, "which is what all of them take"


def test_runs_what_ncu_watches(monkeypatch):
    """The first launch of each part is outside of the count; all are by one config."""
    ran, watched = [], []

    @contextlib.contextmanager
    def profile():
        before = len(ran)
        yield
        watched.append(ran[before:])

    def linear(x, weight, bias):
        ran.append((len(x), len(weight), x.shape[1], measured.fused.choose_config()))

    monkeypatch.setattr(measured, "operands", lambda M, N, K: (torch.empty(M, K), torch.empty(N, K), torch.empty(N)))
    monkeypatch.setattr(measured, "linear", linear)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda.profiler, "profile", profile)
    with mock.patch.object(sys, "argv", ["fused_measured.py", "run"]):
        measured.main()
    expected = [(*shape, measured.PAIR) for shape in measured.PARTS.values()]
    assert watched == [[launch] * 3 for launch in expected] and len(ran) == 12


@pytest.mark.gpu
@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
def test_all_sides_compute_the_same(activation):
    torch.manual_seed(0)
    sides, given = measured.sides(activation), measured.operands(512, 768, 256)
    assert ("cublaslt" in sides) == (activation in ("relu", "gelu_tanh"))
    results = [run(*given).float() for run in sides.values()]
    for result in results[1:]:
        torch.testing.assert_close(result, results[0], rtol=0.05, atol=0.05)


def test_large_tiles_are_asked_for():
    config = measured.by_config(lambda: measured.fused.choose_config(8192, 8192, 256, 2, 132), measured.LARGE)
    assert config() == measured.LARGE != measured.fused.choose_config(8192, 8192, 256, 2, 132)


@pytest.mark.gpu
@pytest.mark.parametrize("mark, x", [(measured.by_k, 64), (measured.by_activation, "silu")])
def test_benchmarks_run(mark, x):
    benchmark = mark.benchmarks
    for line in benchmark.line_vals:
        values = mark.fn(**{benchmark.x_names[0]: x, benchmark.line_arg: line}, **benchmark.args)
        assert all(0 < value < 1e3 for value in values)


@pytest.mark.gpu
def test_parts_are_the_layer_of_the_benchmark():
    for shape in measured.PARTS:
        torch.manual_seed(0)
        expected = torch.nn.functional.linear(*measured.operands(*measured.PARTS[shape]))
        torch.manual_seed(0)
        out = measured.layer_alone(*measured.operands(*measured.PARTS[shape]))
        torch.testing.assert_close(out.float(), expected.float(), rtol=0.05, atol=0.05)


@pytest.mark.gpu
@pytest.mark.alone
def test_counters_count():
    if not shutil.which("ncu"):
        pytest.skip("ncu is not on the PATH; it comes with the CUDA toolkit")
    measured.measure_counted.cache_clear()
    for side, (M, N, K) in zip(measured.counted.benchmarks.line_vals, measured.PARTS.values(), strict=True):
        found = {what: measured.counted.fn(what, side)[0] for what in measured.COUNTED}
        assert found["MB from memory"] > 0.9 * (M + N) * K * 2 / 1e6, "x and weight, at least once"
        assert found["MB asked of L2"] > 0.9 * M * N * 2 / 1e6 and found["MB to memory"] >= 0
        assert 0 < found["matrix units busy, % of cycles"] <= 100
        assert 0.5 < found["cycles"] / found["µs"] / 1e3 < 2.5, "GHz"
