# SPDX-License-Identifier: Apache-2.0
"""Sides get the same rows, packed or padded, and are compared with torch's; the table from made-up times. Without a
GPU: that padding gives the same result, and that torch's function is told of the causal mask in either way."""

import sys
import types
from unittest import mock

import pytest
import torch

from snippets.fusion import attention_variable_measured as measured
from snippets.fusion.attention_variable import attention_variable
from snippets.tools.benchmarking import Timing


def test_main_lists_the_benchmark(capsys):
    measured.main()
    assert capsys.readouterr().out.startswith(f"{measured.packed.benchmarks.plot_name}.run(")


def test_cases():
    assert {name: (len(lengths), sum(lengths), max(lengths)) for name, lengths in measured.CASES.items()} == {
        "mixed": (16, 34816, 4096),
        "one long": (16, 7936, 4096),
        "equal": (16, 32768, 2048),
    }
    assert measured.begins((2, 0, 3), "cpu").tolist() == [0, 2, 2, 5]


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(measured, "HEADS", 2), monkeypatch.setattr(measured, "HEAD_DIM", 16)
    make = torch.randn
    monkeypatch.setattr(measured.torch, "randn", lambda *shape, **_: make(*shape))


def test_padding_gives_the_same(small):
    lengths = (3, 3)
    q, k, v = measured.make(6)
    cu = measured.begins(lengths, "cpu")
    assert torch.allclose(
        measured.padded(lengths)(q, k, v).transpose(1, 2).reshape(6, 2, 16),
        attention_variable(q, k, v, cu, cu, causal=True), atol=1e-5,
    )  # fmt: skip


@pytest.mark.parametrize("windows", [False, True])
def test_torch_is_told_of_the_causal_mask(windows, monkeypatch):
    seen = []

    def with_flag(q, k, v, cu_seq_q, cu_seq_k, max_q, max_k, is_causal=False):
        seen.append((cu_seq_q, cu_seq_k, max_q, max_k, is_causal))

    def with_window(q, k, v, cu_seq_q, cu_seq_k, max_q, max_k, *, window_size=(-1, -1)):
        seen.append((cu_seq_q, cu_seq_k, max_q, max_k, window_size == (-1, 0)))

    module = types.SimpleNamespace(varlen_attn=with_window if windows else with_flag)
    monkeypatch.setitem(sys.modules, "torch.nn.attention.varlen", module)
    measured.in_torch("cu", 7)(1, 2, 3)
    assert seen == [("cu", "cu", 7, 7, True)]


def test_all_are_compared_and_the_table(small, monkeypatch):
    """Ours takes 1 ms, the padded one 2, torch's 3; medians, fastest and slowest."""
    calls = []

    def compared(sides, make, rounds, steady):
        calls.append((list(sides), [len(x) for x in make()], rounds, steady))
        takes = {"ours": (1.0, 0.5, 1.5), "padded": (2.0,) * 3, "torch": (3.0,) * 3}
        return {name: Timing(takes[name]) for name in sides}

    begins = measured.begins
    monkeypatch.setattr(measured, "begins", lambda lengths: begins(lengths, "cpu"))
    monkeypatch.setattr(measured, "in_torch", lambda cu, longest: mock.Mock())
    monkeypatch.setattr(measured, "compare_in_rotation", compared)
    checked = []
    monkeypatch.setattr(
        measured, "check_alike", lambda sides, given, expected: checked.append((list(sides), len(given), expected))
    )
    measured.measure.cache_clear()
    marks = measured.packed.benchmarks
    cells = {case: [measured.packed.fn(case, what) for what in marks.line_vals] for case in marks.x_vals}
    measured.measure.cache_clear()
    assert list(cells) == ["mixed", "one long", "equal"]
    assert list(cells.values()) == [[(1.0, 0.5, 1.5), (2.0,) * 3, (3.0,) * 3, 2.0, 3.0]] * 3
    assert checked == [(["ours", "torch"], 3, "torch")] * 3
    assert calls[::2] == [(["ours", "torch"], [rows] * 3, 3, True) for rows in (34816, 7936, 32768)]
    assert calls[1::2] == [(["padded"], [rows] * 3, 3, True) for rows in (65536, 65536, 32768)]


@pytest.mark.gpu
def test_measures():
    """Results are compared with torch's, so they agree where this passes."""
    found = measured.measure.__wrapped__((64, 300, 1, 700))
    assert set(found) == {"ours", "torch", "padded"} and all(0 < each.median < 10 for each in found.values())
