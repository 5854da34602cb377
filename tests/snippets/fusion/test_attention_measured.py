# SPDX-License-Identifier: Apache-2.0
"""Every case that the lesson tells of, FLOPs as they are counted. Without a GPU: that a side calls the backend that it
is named after, that all are compared with cuDNN's and timed alike, and the tables from made-up times."""

import itertools

import pytest
import torch
import triton
from torch.nn.attention import SDPBackend

from snippets.fusion import attention_measured as measured
from snippets.fusion import long_softmax_measured
from snippets.fusion.attention_backward import attention
from snippets.tools.benchmarking import Timing

MARKS = [value for value in vars(measured).values() if isinstance(value, triton.testing.Mark)]


def test_main_lists_every_benchmark(capsys):
    measured.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == [mark.benchmarks.plot_name for mark in MARKS] == ["ladder", "forward", "both"]


def test_every_case():
    expected = set(itertools.product((2048, 8192, 16384), (64, 128), (False, True)))
    assert set(measured.NAMED.values()) == expected and len(measured.NAMED) == len(expected)
    assert measured.NAMED["8192 × 128, causal"] == (8192, 128, True)
    for mark in (measured.forward, measured.both):
        assert mark.benchmarks.x_vals == list(measured.NAMED)
    assert measured.LADDER == {"8192 × 64": (8192, 64, False), "8192 × 128": (8192, 128, False)}
    assert measured.ladder.benchmarks.x_vals == list(measured.LADDER)


def test_flops():
    """As counted from what the products of the formula multiply, one by one."""
    queries, head_dim, heads = 3, 64, 64
    product = 2 * queries * queries * head_dim * heads
    assert measured.flops(queries, head_dim, False, "forward") == 2 * product
    assert measured.flops(queries, head_dim, False, "ladder") == 2 * product
    assert measured.flops(queries, head_dim, False, "both") == (2 + 5) * product
    assert measured.flops(queries, head_dim, True, "both") == (2 + 5) * product / 2


@pytest.mark.parametrize("name, backend", [("cudnn", "CUDNN_ATTENTION"), ("flash", "FLASH_ATTENTION")])
def test_a_side_calls_its_backend(name, backend, monkeypatch):
    """Where a backend does not serve, as here on the CPU, torch must refuse, not take another."""
    chosen = []

    def called(q, k, v, is_causal):
        chosen.append((torch._C._get_cudnn_sdp_enabled(), torch._C._get_flash_sdp_enabled(), is_causal))
        chosen.append((torch._C._get_mem_efficient_sdp_enabled(), torch._C._get_math_sdp_enabled()))
        return q

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", called)
    assert measured.BACKENDS[name] == getattr(SDPBackend, backend)
    measured.sides_of(True, "forward")[name](*[torch.ones(1, 1, 2, 16)] * 3)
    assert chosen == [(name == "cudnn", name == "flash", True), (False, False)]


@pytest.mark.parametrize("step, causal", [*itertools.product(["forward", "both"], [False, True]), ("ladder", False)])
def test_all_are_compared_and_timed_alike(step, causal, monkeypatch):
    """In the interpreter, in float32, against torch's product of matrices in place of cuDNN's and FA2's."""
    monkeypatch.setattr(measured, "BACKENDS", dict.fromkeys(measured.BACKENDS, SDPBackend.MATH))
    monkeypatch.setattr(measured, "BATCH", 1), monkeypatch.setattr(measured, "HEADS", 2)
    monkeypatch.setattr(long_softmax_measured, "LARGEST_ERROR", 1e-5)
    make = torch.randn
    monkeypatch.setattr(measured.torch, "randn", lambda shape, **options: make(shape))
    monkeypatch.setattr(measured, "operands_in_rotation", lambda make: [make(), make()])
    made = []

    class Rotation:
        def __init__(self, run, sets, steady):
            self.before, self.run = 10, run
            made.append((self, len(sets), steady))

        def __call__(self): ...

        def milliseconds(self):
            return float(self.before)

    monkeypatch.setattr(measured, "Rotation", Rotation)
    sides = ["naive", "pointers", "descriptors"] if step == "ladder" else ["ours"]
    sides += ["cudnn", "flash"]
    found = measured.measure.__wrapped__(20, 16, causal, step)
    assert list(found) == sides and [each[1:] for each in made] == [(2, True)] * len(sides)
    assert set(found.values()) == {Timing((4.0,) * 3)}, "a third of the time before a reading, rounded up"
    monkeypatch.setattr(measured, "attention", lambda q, k, v, causal: attention(q, k, 1.1 * v))
    monkeypatch.setattr(measured, "naive", lambda q, k, v: q)
    with pytest.raises(RuntimeError, match=f"{sides[0]} differs from cudnn"):
        measured.measure.__wrapped__(20, 16, causal, step)


def test_tables(monkeypatch):
    """Ours takes 10 ms, cuDNN 8, FlashAttention-2 16: median, slowest, fastest round."""
    takes = {"ours": Timing((10, 12.5, 5)), "cudnn": Timing((8, 8, 8)), "flash": Timing((16, 16, 16))}
    asked = []
    monkeypatch.setattr(measured, "measure", lambda *case: asked.append(case) or takes)
    for mark in (measured.forward, measured.both):
        for case, (queries, head_dim, causal) in measured.NAMED.items():
            cells = {line: mark.fn(case, line) for line in mark.benchmarks.line_vals}
            step = mark.benchmarks.plot_name
            tera = measured.flops(queries, head_dim, causal, step) / 1e12
            assert cells["ours"] == pytest.approx((tera / 0.01, tera / 0.0125, tera / 0.005))
            assert cells["cudnn"][0] == pytest.approx(tera / 0.008)
            assert cells["flash"][0] == pytest.approx(tera / 0.016)
            assert (cells["of_cudnn"], cells["of_flash"]) == (0.8, 1.6)
            assert asked[-1] == (queries, head_dim, causal, step)
    takes |= {"naive": Timing((100, 100, 100)), "pointers": Timing((20, 25, 10)), "descriptors": Timing((10, 10, 10))}
    tera = 4 * 64 * 8192**2 * 128 / 1e12
    cells = {line: measured.ladder.fn("8192 × 128", line) for line in measured.ladder.benchmarks.line_vals}
    assert {line: cell[0] for line, cell in cells.items()} == pytest.approx(
        {
            "naive": tera / 0.1,
            "pointers": tera / 0.02,
            "descriptors": tera / 0.01,
            "flash": tera / 0.016,
            "cudnn": tera / 0.008,
        }
    )
    assert asked[-1] == (8192, 128, False, "ladder")


def test_the_steps_of_the_ladder_are_what_they_are_called(monkeypatch):
    asked = []
    monkeypatch.setattr(measured.snippet, "forward", lambda *_, described: asked.append(described) or (0, 0))
    sides = measured.sides_of(False, "ladder")
    for name, described in (("pointers", False), ("descriptors", True)):
        sides[name](*[torch.ones(1, 1, 2, 64)] * 3)
        assert asked[-1] is described


@pytest.mark.gpu
@pytest.mark.parametrize("step", ["ladder", "forward", "both"])
def test_measures(step):
    found = measured.measure.__wrapped__(512, 64, step != "ladder", step)
    assert list(found)[-2:] == ["cudnn", "flash"] and all(0 < timing.median < 1 for timing in found.values())
