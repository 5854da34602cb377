# SPDX-License-Identifier: Apache-2.0
"""All sides give the same results, a copy moves as many bytes as a forward, and units are what a table says."""

import pytest
import torch
import triton

from snippets.models import state_measured as module
from snippets.models.state import in_torch
from snippets.tools.benchmarking import Timing

MARKS = [value for value in vars(module).values() if isinstance(value, triton.testing.Mark)]


def test_main_lists_every_benchmark(capsys):
    module.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines() if "run(" in line]
    assert sorted(listed) == sorted(mark.benchmarks.plot_name for mark in MARKS)


def test_torch_in_chunks_is_right():
    random = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 2, 192, 8, generator=random, dtype=torch.float64) for _ in range(3))
    log_decay = torch.nn.functional.logsigmoid(torch.randn(1, 2, 192, generator=random, dtype=torch.float64))
    assert torch.allclose(module.in_chunks(q, k, v, log_decay), in_torch(q, k, v, log_decay)[0], atol=1e-8)


@pytest.fixture
def small(monkeypatch):
    """Small tensors in float32, which the interpreter serves, and each side run once instead of timed."""
    for name in ("randn", "zeros", "full"):
        make = getattr(torch, name)
        monkeypatch.setattr(
            module.torch, name,
            lambda *shape, make=make, device=None, dtype=None, **rest: make(*shape, **rest) if dtype != torch.int32
            else make(*shape, dtype=dtype),
        )  # fmt: skip
    monkeypatch.setattr(module, "HEADS", 2)
    monkeypatch.setattr(module, "KV_HEADS", 1)
    monkeypatch.setattr(module, "TEXTS", 2)
    monkeypatch.setattr(module, "WIDTH", 16)
    monkeypatch.setattr(module, "SHAPES", {"small": (1, 2, 64, 16, 16)})
    seen = {}

    def run_once(sides, make, rounds):
        for name, side in sides.items():
            seen[name] = side(*make())
        return {name: Timing((1.0, 3.0, 2.0)) for name in sides}

    monkeypatch.setattr(module, "compare_in_rotation", run_once)
    caches = module.measure_lengths, module.measure_shapes, module.measure_decoding
    for each in caches:
        each.cache_clear()
    yield seen
    for each in caches:
        each.cache_clear()


def test_tables(small):
    assert module.lengths.fn(128, "torch") == (2.0, 1.0, 3.0)
    assert set(small) == set(module.SIDES) == set(module.lengths.benchmarks.line_vals)
    assert module.shapes.fn("small", "both") == (2000.0, 1000.0, 3000.0)
    assert module.decoding.fn(64, "cache") == (2000.0, 1000.0, 3000.0)
    assert small["cache"].shape == small["state"][0].shape


def test_a_copy_moves_the_bytes_of_a_forward(small):
    given = module.operands(1, 2, 64, 16, 8)
    q, k, v, log_decay, _ = given
    moved = sum(x.numel() * x.element_size() for x in (q, k, v, v, log_decay))
    assert 2 * module.copied(*given)().nbytes == moved


def test_a_wrong_side_is_refused(small, monkeypatch):
    monkeypatch.setattr(module, "step_by_step", lambda q, k, v, *_, **__: (v + 1, None))
    with pytest.raises(RuntimeError, match="stepwise differs by"):
        module.measure_lengths(128)
