# SPDX-License-Identifier: Apache-2.0
"""All sides get weights of their own, and multiply the same numbers; bytes are those of the packed weight."""

import pytest
import torch
import triton

from snippets.models import int4_measured as module
from snippets.models.int4 import quantize, unpacked
from snippets.tools.benchmarking import Timing

MARKS = [value for value in vars(module).values() if isinstance(value, triton.testing.Mark)]


def test_main_lists_every_benchmark(capsys):
    module.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert sorted(listed) == sorted(mark.benchmarks.plot_name for mark in MARKS)


def test_tables(monkeypatch):
    """Median, slowest, fastest round; each shape is measured once."""
    seen, takes = [], {"int4": (1, 1.25, 0.5), "cublas": (3, 3, 3), "copy": (4, 4, 4)}
    timing = lambda side: Timing(takes.get(side, (2, 2, 2)))
    monkeypatch.setattr(module, "measure", lambda *shape: seen.append(shape) or {s: timing(s) for s in module.NAMES})
    monkeypatch.setattr(module, "measure_copy", lambda size: timing("copy"))
    assert module.times.fn("1 × 4096 × 14336", "int4") == pytest.approx((1000, 500, 1250))
    assert module.times.fn("1 × 4096 × 14336", "share") == 3
    assert module.by_rows.fn(16, "cublas") == (3000, 3000, 3000)
    assert seen == [(1, 4096, 14336)] * 2 + [(16, 4096, 14336)]
    size = 4096 * 14336 / 2 + 4096 * 112 * 4
    assert module.bytes_of(4096, 14336) == size
    assert module.bandwidth.fn("1 × 4096 × 14336", "int4")[0] == pytest.approx(size / 1e6)
    assert module.bandwidth.fn("1 × 4096 × 14336", "share") == pytest.approx(2)


def test_a_packed_weight_comes_back_from_its_tensors():
    weight = quantize(torch.randn(3, 256), bits=8)
    assert torch.equal(unpacked(module.packed_again(*weight[:2])), unpacked(weight))
    assert module.packed_again(*weight[:2])[2:] == weight[2:]


def test_each_side_has_weights_of_its_own(monkeypatch):
    """Those of one shape, always the same random numbers; and of what makes them the tensors alone."""
    monkeypatch.setattr(module, "operands_in_rotation", lambda make: [make(), make()])
    made = []

    def make(N, K):
        made.append((N, K))
        return torch.rand(2), torch.rand(3), N, "more"

    monkeypatch.setitem(module.SIDES, "int4", (make, None))
    torch.manual_seed(5)
    first, second = module.sets_of.__wrapped__("int4", 7, 9)
    assert made == [(7, 9)] * 2 and [len(x) for x in first] == [len(x) for x in second] == [2, 3]
    torch.manual_seed(0)
    assert torch.equal(first[0], torch.rand(2)) and not torch.equal(first[0], second[0])


def test_what_is_measured():
    assert module.sides_of(1, *module.DOWN) == ["int4", "torch", "cublas", "int8", "plain"]
    assert module.sides_of(2, *module.DOWN) == ["int4", "torch", "cublas", "int8"]
    assert module.sides_of(16, *module.UP) == ["int4", "torch", "cublas"]


@pytest.mark.gpu
def test_measures():
    found = module.measure(2, 1024, 2048)
    assert set(found) == {"int4", "torch", "cublas", "empty"}
    assert 0 < found["empty"].median < min(found[side].median for side in ("int4", "torch", "cublas"))
    assert 0 < module.measure_copy(2**20).median < 1


@pytest.mark.gpu
def test_all_sides_are_right():
    found = module.measure_errors(16, 1024, 2048)
    assert max(found[side] for side in module.SIDES) < 0.005
    assert 0.05 < found["rounded_4"] < 0.2 and 0.003 < found["rounded_8"] < 0.02
