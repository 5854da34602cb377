# SPDX-License-Identifier: Apache-2.0
"""Counters are read in the right units and from the right launches; on a GPU, every config computes the same."""

import contextlib
import shutil
import sys
from pathlib import Path
from unittest import mock

import pytest
import torch
from guards import environment

from snippets.matmul import tuning_attempts
from snippets.matmul.persistent import whole_numbers
from snippets.tools.benchmarking import Timing
from tests.processes import run_code


@pytest.fixture
def ncu(monkeypatch):
    """A made-up ncu: launch i counted 1,000,000 + i of everything."""
    metrics = [metric for metric, _ in tuning_attempts.COUNTED.values()]
    launches = [{"kernel": f"kernel_{i}"} | dict.fromkeys(metrics, 1e6 + i) for i in range(12)]
    asked = mock.Mock(return_value=launches)
    monkeypatch.setattr(tuning_attempts, "counters", asked)
    monkeypatch.setattr(tuning_attempts, "SIZES", (256, 512))
    tuning_attempts.measure_counted.cache_clear()
    yield asked
    tuning_attempts.measure_counted.cache_clear()


def test_counted(ncu):
    units = {"instructions, millions": 1e-6, "MB asked of L2": 32e-6, "MB from memory": 1e-6, "blocks": 1, "µs": 1e-3}
    for what, unit in units.items():
        expected = [unit * (1e6 + i) for i in (7, 6, 8)]  # median, least, most
        assert tuning_attempts.counted.fn(what, "cublas", 512) == pytest.approx(expected, rel=1e-9)
    assert tuning_attempts.counted.fn("blocks", "ours", 256) == (1e6 + 4, 1e6 + 3, 1e6 + 5)
    metrics = [metric for metric, _ in tuning_attempts.COUNTED.values()]
    ncu.assert_called_once_with(metrics, tuning_attempts.__file__, "run", "256", "512", cache="all")


def test_more_launches_than_products(ncu):
    ncu.return_value = ncu.return_value[:2] * 7
    with pytest.raises(RuntimeError, match=r"more than one kernel: .*kernel_0.*kernel_1"):
        tuning_attempts.measure_counted()


def test_prints_the_first_kernel_of_each(ncu, capsys):
    with mock.patch.object(sys, "argv", ["tuning_attempts.py"]):
        tuning_attempts.main()
    found = [line.split(": ") for line in capsys.readouterr().out.splitlines()]
    assert found[1] == ["256 x 256 x 256, ours", "kernel_3"] and found[2] == ["512 x 512 x 512, cublas", "kernel_6"]
    assert len(found) == 4


def test_says_so_without_ncu(monkeypatch):
    monkeypatch.setenv("PATH", "")
    tuning_attempts.measure_counted.cache_clear()
    with mock.patch.object(sys, "argv", ["tuning_attempts.py"]), pytest.raises(SystemExit, match="ncu was not found"):
        tuning_attempts.main()


def test_runs_what_it_is_told(monkeypatch):
    """The first product of each side is outside of the count."""
    ran, watched = [], []

    @contextlib.contextmanager
    def profile():
        before = len(ran)
        yield
        watched.append(ran[before:])

    sides = {name: lambda a, b, name=name: ran.append((name, *a.shape)) for name in ("cublas", "ours")}
    monkeypatch.setattr(tuning_attempts, "SIDES", sides)
    monkeypatch.setattr(tuning_attempts, "random_pair", lambda n: (torch.zeros(n, n), torch.zeros(n, n)))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda.profiler, "profile", profile)
    with mock.patch.object(sys, "argv", ["tuning_attempts.py", "run", "16", "32"]):
        tuning_attempts.main()
    assert watched == [[(name, n, n)] * 3 for n in (16, 32) for name in ("cublas", "ours")] and len(ran) == 16


def test_tried(monkeypatch):
    seen = []

    def rates(sides, make, flops, steady):
        seen.append((flops, any(bool(x.any()) for x in make()), steady))
        return {name: (100.0 + 10 * i, 0.0, 0.0) for i, name in enumerate(sides)}

    monkeypatch.setattr(tuning_attempts, "random_pair", lambda n: (torch.ones(n, n), torch.ones(n, n)))
    monkeypatch.setattr(tuning_attempts, "rates", rates)
    tuning_attempts.measure_tried.cache_clear()
    found = {what: tuning_attempts.tried.fn("as chosen", what, 16) for what in ("rate", "share", "zeros")}
    tuning_attempts.measure_tried.cache_clear()
    sides = len(tuning_attempts.TRIED) + 1
    share = 100 / (100 + 10 * (sides - 1))
    assert found == {"rate": (100.0, 0.0, 0.0), "share": share, "zeros": share}
    assert seen == [(2 * 16**3, True, True), (2 * 16**3, False, True)]


def test_parts(monkeypatch):
    """Rates of the medians; rounds are compared one by one."""
    readings = (2.0, 2.0, 2.0, 2.0), (1.0, 1.5, 2.0, 3.0), (1.0, 1.0, 1.0, 4.0)
    rounds = dict(zip(("as chosen", "stored in 4 parts", "cuBLAS"), readings, strict=True))
    seen = []

    def times(sides, make, **options):
        configs = [side.keywords["config"] for side in list(sides.values())[:-1]]
        seen.append((list(sides), configs, sides["cuBLAS"], options))
        return {name: Timing(rounds[name]) for name in sides}

    monkeypatch.setattr(tuning_attempts, "random_pair", lambda n: (torch.ones(n, n), torch.ones(n, n)))
    monkeypatch.setattr(tuning_attempts, "compare_in_rotation", times)
    tuning_attempts.measure_parts.cache_clear()
    found = {what: [tuning_attempts.parts.fn(name, what, 16) for name in rounds] for what in ("share", "won", "beaten")}
    rate = tuning_attempts.parts.fn("stored in 4 parts", "rate", 16)
    tuning_attempts.measure_parts.cache_clear()
    assert found == {"share": [1 / 2, 1 / 1.75, 1], "won": [0, 2, 3], "beaten": [1, 1, 0]}
    assert rate == pytest.approx([2 * 16**3 / ms * 1e-9 for ms in (1.75, 3.0, 1.0)])
    configs = [tuning_attempts.TRIED["as chosen"], tuning_attempts.TRIED["stored in 4 parts"]]
    assert seen == [(list(rounds), configs, torch.matmul, {"rounds": 20, "steady": True})]
    assert tuning_attempts.parts.benchmarks.x_vals == list(rounds)


def test_every_config_fits_an_h200():
    """Compiled, without a GPU."""
    code = """
import torch
from snippets.matmul import persistent
from snippets.matmul.tuning_attempts import TRIED
from tests.snippets.launches import compiled_for
a = torch.empty(2048, 2048, dtype=torch.bfloat16)
with compiled_for("H200", persistent) as launches:
    for config in TRIED.values():
        persistent.matmul(a, a, config=config)
print(len(launches))
"""
    done = run_code(code, env=environment("cuda", OMP_NUM_THREADS="1"), cwd=Path(__file__).parents[3])
    assert (done.returncode, done.stdout) == (0, f"{len(tuning_attempts.TRIED)}\n"), done.stderr


@pytest.mark.gpu
def test_every_config_is_right():
    a, b = (whole_numbers(*shape, torch.bfloat16, "cuda") for shape in ((512, 320), (320, 768)))
    for name, config in tuning_attempts.TRIED.items():
        assert torch.equal(tuning_attempts.matmul(a, b, config=config), a @ b), name


@pytest.mark.gpu
def test_tries_on_a_gpu():
    with mock.patch.object(tuning_attempts, "TRIED", {"as chosen": tuning_attempts.LARGE}):
        tuning_attempts.measure_tried.cache_clear()
        assert 0 < tuning_attempts.tried.fn("as chosen", "share", 256) < 2
        tuning_attempts.measure_tried.cache_clear()


@pytest.mark.gpu
def test_measures_parts_on_a_gpu():
    found = tuning_attempts.measure_parts(256, rounds=2)
    assert list(found) == tuning_attempts.parts.benchmarks.x_vals
    assert all(len(timing.rounds) == 2 and 0 < timing.median < 1 for timing in found.values())


@pytest.mark.gpu
@pytest.mark.alone
def test_counts_on_a_gpu():
    if not shutil.which("ncu"):
        pytest.skip("ncu is not on the PATH; it comes with the CUDA toolkit")
    with mock.patch.object(tuning_attempts, "SIZES", (2048,)):
        tuning_attempts.measure_counted.cache_clear()
        found = {side: {what: tuning_attempts.counted.fn(what, side, 2048)[0] for what in tuning_attempts.COUNTED}
                 for side in tuning_attempts.SIDES}  # fmt: skip
        tuning_attempts.measure_counted.cache_clear()
    once = 2 * 2048**2 * 2 / 1e6
    for seen in found.values():
        assert once <= seen["MB from memory"] < 1.5 * once < seen["MB asked of L2"] < seen["MB to multiprocessors"]
        assert 0 <= seen["of it by multicast"] <= seen["MB to multiprocessors"]
        assert seen["threads of a block"] in (128, 256, 384, 512) and seen["registers of a thread"] <= 255
        assert 1 < seen["instructions, millions"] < 10 and 10 < seen["µs"] < 60
    assert found["ours"]["threads of a block"] == 256 and found["ours"]["blocks"] == 128
    assert found["ours"]["of it by multicast"] == 0 and found["ours"]["blocks of a cluster"] in (0, 1)
