# SPDX-License-Identifier: Apache-2.0
"""Each shape is measured once, after results were compared; bytes are those of the least. Without a GPU: that all sides
agree, that what is wrong is refused, and the tables from made-up times."""

import functools

import pytest
import torch
import triton

from snippets.fusion import cross_entropy_measured as measured
from snippets.fusion import long_softmax_measured
from snippets.tools.benchmarking import Timing

MARKS = [value for value in vars(measured).values() if isinstance(value, triton.testing.Mark)]


def test_main_lists_every_benchmark(capsys):
    measured.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == [mark.benchmarks.plot_name for mark in MARKS] == ["both", "forward", "linear", "memory"]


def test_the_aims_are_among_the_shapes():
    assert (4096, 128256) in measured.SHAPES and (8192, 4096, 128256) in measured.LAYERS


@pytest.fixture
def on_the_cpu(monkeypatch):
    """Operands in float32, for the interpreter refuses bfloat16."""
    randint = torch.randint
    monkeypatch.setattr(measured, "random", torch.randn)
    monkeypatch.setattr(measured.torch, "randint", lambda most, shape, device: randint(most, shape))
    monkeypatch.setattr(long_softmax_measured, "LARGEST_ERROR", 1e-5)


def all_measured():
    return [
        functools.partial(measured.measure.__wrapped__, 7, 60, "forward"),
        functools.partial(measured.measure.__wrapped__, 7, 60, "both"),
        functools.partial(measured.measure_layer.__wrapped__, 7, 5, 60),
    ]


def test_sides_agree(on_the_cpu, monkeypatch):
    timed = []
    compared = lambda sides, make, rounds, steady=False: timed.append((sides, make(), steady))
    monkeypatch.setattr(measured, "compare_in_rotation", compared)
    for measure in all_measured():
        measure()
    assert [(list(sides), [tuple(x.shape) for x in given], steady) for sides, given, steady in timed] == [
        (["ours", "file", "waiting", "torch"], [(7, 60), (7,)], False),
        (["ours", "file", "waiting", "torch"], [(7, 60), (7,)], False),
        (["ours", "torch"], [(7, 5), (60, 5), (7,)], True),
    ]
    assert [len(run(*given)) for sides, given, _ in timed[1:] for run in sides.values()] == [2, 2, 2, 2, 3, 3]


def test_what_is_wrong_is_refused(on_the_cpu, monkeypatch):
    monkeypatch.setattr(measured, "compare_in_rotation", lambda *_, **__: pytest.fail("timed, and wrong"))
    monkeypatch.setitem(measured.SIDES, "waiting", lambda *given: 1.01 * measured.waiting(*given))
    smoothed = functools.partial(measured.file.linear_cross_entropy, label_smoothing=0.01)
    monkeypatch.setitem(measured.LINEAR, "ours", smoothed)
    for measure in all_measured():
        with pytest.raises(RuntimeError, match="differs from torch"):
            measure()


def test_tables(monkeypatch):
    """Ours takes 1 ms, waiting 1.5, torch 2, the copy 1 ns for a byte: median, slowest, fastest round."""
    takes = {"ours": Timing((1, 1.25, 0.5)), "waiting": Timing((1.5,) * 3), "torch": Timing((2, 2, 2))}
    takes["file"] = Timing((1.2,) * 3)
    monkeypatch.setattr(measured, "measure", lambda *case: takes)
    monkeypatch.setattr(measured, "measure_layer", lambda *case: takes)
    monkeypatch.setattr(measured, "measure_copy", lambda moved: Timing((moved * 1e-6,) * 3))
    for mark, elements in ((measured.both, 2), (measured.forward, 1)):
        for shape, (rows, columns) in measured.NAMED.items():
            cells = {line: mark.fn(shape, line) for line in mark.benchmarks.line_vals}
            copy = 2 * elements * rows * columns * 1e-6
            assert cells["ours"] == (1, 0.5, 1.25) and cells["torch"] == (2, 2, 2) and cells["faster"] == 2
            assert cells["copy"] == pytest.approx((copy,) * 3) and cells["share"] == pytest.approx(copy)
            assert cells.get("waiting", (1.5,) * 3) == (1.5,) * 3 and cells["file"] == (1.2,) * 3
    assert list(measured.both.benchmarks.x_vals) == list(measured.NAMED)
    for layer in measured.linear.benchmarks.x_vals:
        cells = [measured.linear.fn(layer, line) for line in measured.linear.benchmarks.line_vals]
        assert cells == [(1, 0.5, 1.25), (2, 2, 2), 2]


def test_the_table_of_memory(monkeypatch, on_the_cpu):
    """Ours needs 1 GB, torch 4; each case is asked for its own operands."""
    asked = []

    def peak(loss, given):
        asked.append((loss, [tuple(x) for x in given]))
        return {measured.torch_linear: 4.0, torch.nn.functional.cross_entropy: 4.0}.get(loss, 1.0)

    monkeypatch.setattr(measured, "peak", peak)
    monkeypatch.setattr(measured, "operands", lambda *shape: [shape])
    monkeypatch.setattr(measured, "layer_operands", lambda *shape: [shape])
    measured.measure_memory.cache_clear()
    for case in measured.memory.benchmarks.x_vals:
        assert [measured.memory.fn(case, line) for line in measured.memory.benchmarks.line_vals] == [1, 4, 0.25]
    measured.measure_memory.cache_clear()
    ours = {measured.linear_cross_entropy, measured.cross_entropy}
    seen = {(loss, shape) for loss, [shape] in asked if loss in ours}
    layers = {(measured.linear_cross_entropy, layer) for layer in (*measured.LAYERS, *measured.TALL_NAMED.values())}
    assert seen == layers | {(measured.cross_entropy, (4096, 128256))}


def test_the_peak_is_of_the_second_run_and_beside_what_was_there(monkeypatch):
    """Allocated: 5 GB of inputs and of what the first run keeps; the second needs 3 more."""
    events = []
    loss = lambda x, target: events.append("run") or (x * target).sum()
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: events.append("before") or 5e9)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: events.append("reset"))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: events.append("most") or 8e9)
    assert measured.peak(loss, (torch.ones(2), torch.ones(2))) == 3
    assert events == ["run", "before", "reset", "run", "most"]


@pytest.mark.gpu
def test_measures():
    for step in ("forward", "both"):
        found = measured.measure.__wrapped__(256, 30000, step)
        assert all(0 < found[name].median < 1 for name in measured.SIDES)
    found = measured.measure_layer.__wrapped__(256, 512, 30000)
    assert all(0 < found[name].median < 10 for name in measured.LINEAR)


@pytest.mark.gpu
def test_peaks():
    torch.manual_seed(0)
    elements = 512 * 30000
    ours = measured.peak(measured.cross_entropy, measured.operands(512, 30000))
    assert 2 * elements <= 1e9 * ours < 2.2 * elements, "the gradient"
    assert measured.peak(measured.SIDES["torch"], measured.operands(512, 30000)) >= 4e-9 * elements
