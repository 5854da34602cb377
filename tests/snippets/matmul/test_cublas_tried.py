# SPDX-License-Identifier: Apache-2.0
"""Counters are read in the right units and from the right launches; on a GPU, every config computes the same."""

import contextlib
import shutil
import sys
from unittest import mock

import pytest
import torch

from snippets.matmul import cublas_tried
from snippets.matmul.persistent import whole_numbers


@pytest.fixture
def ncu(monkeypatch):
    """A made-up ncu: launch i counted 1,000,000 + i of everything."""
    metrics = [metric for metric, _ in cublas_tried.COUNTED.values()]
    launches = [{"kernel": f"kernel_{i}"} | dict.fromkeys(metrics, 1e6 + i) for i in range(12)]
    asked = mock.Mock(return_value=launches)
    monkeypatch.setattr(cublas_tried, "counters", asked)
    monkeypatch.setattr(cublas_tried, "SIZES", (256, 512))
    cublas_tried.measure_counted.cache_clear()
    yield asked
    cublas_tried.measure_counted.cache_clear()


def test_counted(ncu):
    units = {"instructions, millions": 1e-6, "MB asked of L2": 32e-6, "MB from memory": 1e-6, "blocks": 1, "µs": 1e-3}
    for what, unit in units.items():
        expected = [unit * (1e6 + i) for i in (7, 6, 8)]  # median, least, most
        assert cublas_tried.counted.fn(what, "cublas", 512) == pytest.approx(expected, rel=1e-9)
    assert cublas_tried.counted.fn("blocks", "ours", 256) == (1e6 + 4, 1e6 + 3, 1e6 + 5)
    metrics = [metric for metric, _ in cublas_tried.COUNTED.values()]
    ncu.assert_called_once_with(metrics, cublas_tried.__file__, "run", "256", "512", cache="all")


def test_more_launches_than_products(ncu):
    ncu.return_value = ncu.return_value[:2] * 7
    with pytest.raises(RuntimeError, match=r"more than one kernel: .*kernel_0.*kernel_1"):
        cublas_tried.measure_counted()


def test_prints_the_first_kernel_of_each(ncu, capsys):
    with mock.patch.object(sys, "argv", ["cublas_tried.py"]):
        cublas_tried.main()
    found = [line.split(": ") for line in capsys.readouterr().out.splitlines()]
    assert found[1] == ["256 x 256 x 256, ours", "kernel_3"] and found[2] == ["512 x 512 x 512, cublas", "kernel_6"]
    assert len(found) == 4


def test_says_so_without_ncu(monkeypatch):
    monkeypatch.setenv("PATH", "")
    cublas_tried.measure_counted.cache_clear()
    with mock.patch.object(sys, "argv", ["cublas_tried.py"]), pytest.raises(SystemExit, match="ncu was not found"):
        cublas_tried.main()


def test_runs_what_it_is_told(monkeypatch):
    """The first product of each side is outside of the count."""
    ran, watched = [], []

    @contextlib.contextmanager
    def profile():
        before = len(ran)
        yield
        watched.append(ran[before:])

    sides = {name: lambda a, b, name=name: ran.append((name, *a.shape)) for name in ("cublas", "ours")}
    monkeypatch.setattr(cublas_tried, "SIDES", sides)
    monkeypatch.setattr(cublas_tried, "random_pair", lambda n: (torch.zeros(n, n), torch.zeros(n, n)))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda.profiler, "profile", profile)
    with mock.patch.object(sys, "argv", ["cublas_tried.py", "run", "16", "32"]):
        cublas_tried.main()
    assert watched == [[(name, n, n)] * 3 for n in (16, 32) for name in ("cublas", "ours")] and len(ran) == 16


def test_tried(monkeypatch):
    seen = []

    def rates_in_a_row(sides, flops):
        seen.append((flops, [bool(side.args[0].any() or side.args[1].any()) for side in sides.values()]))
        return {name: (100.0 + 10 * i, 0.0, 0.0) for i, name in enumerate(sides)}

    monkeypatch.setattr(cublas_tried, "random_pair", lambda n: (torch.ones(n, n), torch.ones(n, n)))
    monkeypatch.setattr(cublas_tried, "rates_in_a_row", rates_in_a_row)
    cublas_tried.measure_tried.cache_clear()
    found = {what: cublas_tried.tried.fn("as chosen", what, 16) for what in ("rate", "share", "zeros")}
    cublas_tried.measure_tried.cache_clear()
    sides = len(cublas_tried.TRIED) + 1
    share = 100 / (100 + 10 * (sides - 1))
    assert found == {"rate": (100.0, 0.0, 0.0), "share": share, "zeros": share}
    assert seen == [(2 * 16**3, [True] * sides), (2 * 16**3, [False] * sides)]


@pytest.mark.gpu
def test_every_config_is_right():
    a, b = (whole_numbers(*shape, torch.bfloat16, "cuda") for shape in ((512, 320), (320, 768)))
    for name, config in cublas_tried.TRIED.items():
        assert torch.equal(cublas_tried.matmul(a, b, config=config), a @ b), name


@pytest.mark.gpu
def test_tries_on_a_gpu():
    with mock.patch.object(cublas_tried, "TRIED", {"as chosen": cublas_tried.LARGE}):
        cublas_tried.measure_tried.cache_clear()
        assert 0 < cublas_tried.tried.fn("as chosen", "share", 256) < 2
        cublas_tried.measure_tried.cache_clear()


@pytest.mark.gpu
def test_counts_on_a_gpu():
    if not shutil.which("ncu"):
        pytest.skip("ncu is not on the PATH; it comes with the CUDA toolkit")
    with mock.patch.object(cublas_tried, "SIZES", (2048,)):
        cublas_tried.measure_counted.cache_clear()
        found = {side: {what: cublas_tried.counted.fn(what, side, 2048)[0] for what in cublas_tried.COUNTED}
                 for side in cublas_tried.SIDES}  # fmt: skip
        cublas_tried.measure_counted.cache_clear()
    once = 2 * 2048**2 * 2 / 1e6
    for seen in found.values():
        assert once <= seen["MB from memory"] < 1.5 * once < seen["MB asked of L2"] < seen["MB to multiprocessors"]
        assert 0 <= seen["of it by multicast"] <= seen["MB to multiprocessors"]
        assert seen["threads of a block"] in (128, 256, 384, 512) and seen["registers of a thread"] <= 255
        assert 1 < seen["instructions, millions"] < 10 and 10 < seen["µs"] < 60
    assert found["ours"]["threads of a block"] == 256 and found["ours"]["blocks"] == 128
    assert found["ours"]["of it by multicast"] == 0 and found["ours"]["blocks of a cluster"] in (0, 1)
