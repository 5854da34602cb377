# SPDX-License-Identifier: Apache-2.0
"""Each loss to copy in each case: all sides agree, and a cell of a table is what was timed."""

import math

import pytest
import torch

from snippets.library import cross_entropy_measured as measured
from snippets.tools.benchmarking import Timing


def test_main_names_the_benchmarks(capsys):
    measured.main()
    found = [line.partition(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert found == ["losses", "linear", "memory", "logarithms", "host"]


def in_ligers_stead(name):
    """Return a function that takes what Liger's does, and gives torch's result."""

    def alone(logits, target, lse_square_scale=0.0, **options):
        return measured.in_torch(logits, target, z_loss=lse_square_scale, **options)[0]

    def layer(hidden, weight, target, bias=None, accum_dtype=None, **options):
        return alone(torch.nn.functional.linear(hidden, weight, bias), target, **options)

    return layer if "linear" in name else alone


@pytest.fixture
def small(monkeypatch):
    """Operands of 12 a side in float32, which the interpreter serves, and each side run once instead of timed."""
    randn, randint = torch.randn, torch.randint
    clip = lambda shape: [min(each, 12) for each in shape]
    monkeypatch.setattr(measured, "random", lambda *shape: randn(clip(shape)))
    monkeypatch.setattr(measured.torch, "randint", lambda high, size, **_: randint(min(high, 12), clip(size)))
    monkeypatch.setattr(measured.torch, "compile", lambda function, **_: function)
    monkeypatch.setattr(measured, "liger", in_ligers_stead)
    monkeypatch.setattr(measured, "under_autocast", lambda side: side)

    def run_once(calls, make=None, rounds=3, timer=None):
        for call in calls.values():
            call(*(make() if make else []))
        return {name: Timing([float(number)]) for number, name in enumerate(calls, start=1)}

    monkeypatch.setattr(measured, "compare", run_once)
    monkeypatch.setattr(measured, "compare_in_rotation", run_once)
    measured.measure.cache_clear()
    yield
    measured.measure.cache_clear()


@pytest.mark.parametrize("case", measured.CASES)
def test_the_sides_agree(small, case):
    assert measured.measure(case)["ours"].median == 1.0


def test_a_cell_is_what_was_timed_and_a_side_that_does_not_serve_a_case_has_none(small):
    assert measured.losses.fn("4096 × 50257", "torch") == (2.0, 2.0, 2.0)
    assert math.isnan(measured.losses.fn("4096 × 128256, with options", "lesson"))
    assert math.isnan(measured.linear.fn("8192 × 4096 × 128256, autocast", "Liger"))
    assert measured.logarithms.fn("2048 × 128256", "ours") == (1.0, 1.0, 1.0)
    assert measured.linear.fn("8192 × 4096 × 128256, with options", "Liger") == (3.0, 3.0, 3.0)


def test_the_hosts_time(small, monkeypatch):
    monkeypatch.setattr(measured.torch.cuda, "synchronize", lambda: None)
    measured.measure_host.cache_clear()
    assert measured.host.fn("cross_entropy", "lesson") == (3.0, 3.0, 3.0)
    measured.measure_host.cache_clear()
    ran, clock = [], iter([1.0, 1.5])
    monkeypatch.setattr(measured.time, "perf_counter", lambda: next(clock))
    assert measured.microseconds_of_host(lambda: ran.append(1), calls=50) == 1e4 and len(ran) == 60


def test_memory(small, monkeypatch):
    monkeypatch.setattr(measured, "peak", lambda side, given: float(len(given)))
    measured.measure_memory.cache_clear()
    assert measured.memory.fn("8192 × 4096 × 128256, autocast", "ours") == 4.0
    measured.measure_memory.cache_clear()


def test_a_wrong_side_is_refused(small, monkeypatch):
    case = "4096 × 50257"
    right = measured.CASES[case]
    wrong = lambda: right.sides() | {"ours": lambda logits, target: 1.1 * right.sides()["ours"](logits, target)}
    monkeypatch.setitem(measured.CASES, case, right._replace(sides=wrong))
    with pytest.raises(RuntimeError, match="ours differs from torch"):
        measured.measure(case)
