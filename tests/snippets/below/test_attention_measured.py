# SPDX-License-Identifier: Apache-2.0
"""Every way is measured at every shape, beside cuDNN and plain Triton."""

import pytest
import torch

from snippets.below import attention_measured as measured
from snippets.tools.benchmarking import Timing


def test_main_lists_the_benchmarks(capsys):
    measured.main()
    lines = capsys.readouterr().out.splitlines()
    names = [line.split(".run(")[0] for line in lines]
    assert names == ["ladder_128", "ladder_64", "shares_128", "shares_64", "landed"]


def test_sides(monkeypatch):
    called = []
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", lambda q, k, v, is_causal: is_causal)
    monkeypatch.setattr(measured, "attention", lambda *_, causal, way: called.append((causal, way)))
    monkeypatch.setattr(measured, "landing", lambda *_: called.append((False, "landing")))
    monkeypatch.setattr(measured.library, "attention", lambda *_, causal: called.append((causal, "triton")))
    for length, D, causal in measured.NAMED.values():
        sides = measured.sides_of(length, D, causal)
        assert sides["cudnn"](1, 2, 3) is causal
        called.clear()
        for name, run in sides.items():
            if name != "cudnn":
                run(1, 2, 3)
                assert called.pop() == (causal, name)
        more = {"landing"} if length == 8192 and not causal else set()
        assert set(measured.columns("ladder", D, "TFLOP/s")["line_vals"]) | more == set(sides)


@pytest.fixture
def made_up(monkeypatch):
    def measure(length, D, causal):
        assert length in measured.LENGTHS and (D, causal) in measured.KINDS
        names = [*measured.NAMES, "landing"]
        return {name: Timing((length * D / 1e3 * (1 + i),)) for i, name in enumerate(names)}

    monkeypatch.setattr(measured, "measure", measure)


def test_tables(made_up):
    assert len(measured.NAMED) == 12
    for case, (length, D, causal) in measured.NAMED.items():
        assert case.startswith(f"{length} × {D}") and case.endswith("causal") == causal
        rate = 4 * 64 * length**2 * D / (2 if causal else 1) / (length * D / 1e3) / 1e9
        assert measured.ladder.fn(case, "waiting")[0] == pytest.approx(rate)
        assert measured.shares.fn(case, "flying") == pytest.approx(len(measured.NAMES) / 2)
    waiting, landing = (measured.landed.fn(64, way)[0] for way in ("waiting", "landing"))
    assert waiting / landing == pytest.approx(1 + len(measured.NAMES))
