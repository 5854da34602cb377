# SPDX-License-Identifier: Apache-2.0
"""Each kernel of the chapter beside torch's, the compiled one and Liger's, bytes of the least. Without a GPU: that all
sides agree, where functions with Liger's parameters stand in for Liger's and the compiled side is not compiled; that
what is wrong is refused; and the tables from made-up times."""

import sys

import pytest
import torch
import triton
from torch.nn import functional

from snippets.fusion import cross_entropy_measured, long_softmax_measured
from snippets.fusion import peers_measured as measured
from snippets.tools.benchmarking import Timing

MARKS = [value for value in vars(measured).values() if isinstance(value, triton.testing.Mark)]
SMALL = {"RoPE": (2, 5, 3, 1, 8), measured.LINEAR: (7, 5, 60)}
LOSSES = ["cross-entropy", measured.LINEAR]
names = pytest.mark.parametrize("name", measured.KERNELS)


def steps(name: str) -> tuple[str, ...]:
    return ("both",) if name in LOSSES else ("forward", "both")


def test_main_lists_every_benchmark(capsys):
    measured.main()
    listed = [line.split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == [mark.benchmarks.plot_name for mark in MARKS] == ["forward", "both", "losses"]


def test_every_kernel_at_its_shapes():
    rows = ["8192 × 4096", "4096 × 16384", "1000 × 3000"]
    layers = [f"{name}, {each}" for name in ("softmax", "RMS norm", "layer norm", "SwiGLU") for each in rows]
    losses = [f"cross-entropy, {each}" for each in ("4096 × 128256", "4096 × 50257")]
    assert [mark.benchmarks.x_vals for mark in MARKS] == [
        [*layers, "RoPE, 2 × 4096 × 24 × 8 × 128"],
        [*layers, "RoPE, 2 × 4096 × 24 × 8 × 128"],
        [*losses, f"{measured.LINEAR}, 8192 × 4096 × 128256"],
    ]


def test_without_liger_the_error_says_how_to_get_it(monkeypatch):
    for module in ("liger_kernel", "liger_kernel.transformers.functional"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ModuleNotFoundError, match=r"there is no liger_kernel.*: pip install liger-kernel==\d"):
        measured.liger("liger_softmax")


def rope_of_liger(q, k, cos, sin, position_ids=None, unsqueeze_dim=1, rotary_dim=None):
    """Heads before tokens, tables (tokens, head_dim)."""
    assert q.shape[2] == k.shape[2] == len(cos) and cos.shape[1] == q.shape[3]
    return measured.as_transformers(q, k, cos, sin, measured.rotate_half)


STAND_INS = {
    "liger_softmax": lambda x: x.softmax(-1),
    "liger_rms_norm": lambda X, W, eps, offset=0.0, casting_mode="llama", in_place=True: functional.rms_norm(
        X, W.shape, W + offset, eps
    ),
    "liger_layer_norm": lambda X, W, B, eps: functional.layer_norm(X, W.shape, W, B, eps),
    "liger_swiglu": lambda a, b: functional.silu(a) * b,
    "liger_rope": rope_of_liger,
}


@pytest.fixture
def on_the_cpu(monkeypatch):
    """Operands in float32, for the interpreter refuses bfloat16; RoPE's tables are numbers that bfloat16 has."""
    randint, tables = torch.randint, measured.rope_tables
    coarse = lambda tokens, dim, device: [each.bfloat16().float() for each in tables(tokens, dim)]
    for module in (measured, cross_entropy_measured):
        monkeypatch.setattr(module, "random", torch.randn)
    monkeypatch.setattr(torch, "randint", lambda most, shape, device: randint(most, shape))
    monkeypatch.setattr(torch, "compile", lambda function, dynamic: function)
    monkeypatch.setattr(measured, "rope_tables", coarse)
    monkeypatch.setattr(measured, "liger", STAND_INS.__getitem__)
    monkeypatch.setattr(long_softmax_measured, "LARGEST_ERROR", 1e-5)


@pytest.fixture
def timed(on_the_cpu, monkeypatch):
    """What would be timed: sides, operands, and whether each runs by itself before it is read."""
    found = []
    compared = lambda sides, make, rounds, steady: found.append((sides, make(), steady))
    monkeypatch.setattr(measured, "compare_in_rotation", compared)
    return found


@names
def test_sides_agree(name, timed):
    shape = SMALL.get(name, (5, 60))
    for step in steps(name):
        measured.measure.__wrapped__(name, shape, step)
    with_liger = [] if name in LOSSES else ["liger"]
    inputs = {"softmax": 1, "layer norm": 3, measured.LINEAR: 3}.get(name, 2)
    incoming = {"RoPE": 2}.get(name, 0 if name in LOSSES else 1)
    for step, (sides, given, steady) in zip(steps(name), timed, strict=True):
        assert list(sides) == ["ours", "torch", *with_liger, "compiled"] and steady == (name == measured.LINEAR)
        assert len(given) == inputs + (incoming if step == "both" else 0)
        results = {side: run(*(x.clone() for x in given)) for side, run in sides.items()}
        if step == "both":  # a gradient for each input but the target, whose place the loss has
            assert {len(each) for each in results.values()} == {inputs}


@names
def test_what_is_wrong_is_refused(name, on_the_cpu, monkeypatch):
    monkeypatch.setattr(measured, "compare_in_rotation", lambda *_, **__: pytest.fail("timed, and wrong"))
    kernel = measured.KERNELS[name]
    scaled = lambda found: tuple(1.01 * x for x in found) if isinstance(found, tuple) else 1.01 * found
    for side in ("ours",) if name in LOSSES else ("ours", "liger"):

        def spoiled(shape, side=side):
            sides = kernel.sides(shape)
            right = sides[side]
            return sides | {side: lambda *given: scaled(right(*given))}

        monkeypatch.setitem(measured.KERNELS, name, kernel._replace(sides=spoiled))
        for step in steps(name):
            with pytest.raises(RuntimeError, match=f"{side} differs from torch"):
                measured.measure.__wrapped__(name, SMALL.get(name, (5, 60)), step)


def test_a_side_may_write_over_its_operands(timed, monkeypatch):
    """As Liger's do: the others are compared all the same, on operands of their own."""
    softmax_over = lambda x: x.copy_(x.softmax(-1))
    monkeypatch.setattr(measured, "liger", {"liger_softmax": softmax_over}.__getitem__)
    measured.measure.__wrapped__("softmax", (5, 60), "forward")
    assert timed[0][0]["liger"] is softmax_over


def test_moved():
    """2 bytes for each element that is read or written; RoPE turns 3 + 1 heads of 8 for each of 2 × 5 tokens."""
    moved = {
        name: [kernel.moved(SMALL.get(name, (5, 60)), step) for step in ("forward", "both")]
        for name, kernel in measured.KERNELS.items()
        if name not in LOSSES
    }
    matrix, heads = 2 * 5 * 60, 2 * (2 * 5) * (3 + 1) * 8
    assert moved.pop("SwiGLU") == [3 * matrix, (3 + 5) * matrix]
    assert moved.pop("RoPE") == [2 * heads, (2 + 2) * heads]
    assert list(moved) == ["softmax", "RMS norm", "layer norm"]
    assert all(each == [2 * matrix, (2 + 3) * matrix] for each in moved.values()), "a gradient, a row, its gradient"


def test_tables(monkeypatch):
    """Ours takes 2 ms, torch 4, Liger 3, compiled 1.5, the copy 1 ns a byte: median, fastest, slowest round."""
    takes = {"ours": Timing((2, 2.5, 1)), "torch": Timing((4,) * 3), "liger": Timing((3,) * 3)}
    takes["compiled"] = Timing((1.5,) * 3)
    asked = []
    monkeypatch.setattr(measured, "measure", lambda *case: asked.append(case) or takes)
    monkeypatch.setattr(measured, "measure_copy", lambda moved: Timing((moved * 1e-6,) * 3))
    for mark in MARKS:
        step = mark.benchmarks.plot_name.replace("losses", "both")
        for case in mark.benchmarks.x_vals:
            name, shape = measured.NAMED[case]
            cells = {line: mark.fn(case, line) for line in mark.benchmarks.line_vals}
            assert asked[-1] == (name, shape, step)
            assert (cells["ours"], cells["torch"], cells["compiled"]) == ((2, 1, 2.5), (4, 4, 4), (1.5, 1.5, 1.5))
            assert cells["gain"] == 0.75, "beside the fastest other"
            if mark is not measured.losses:
                copy = measured.KERNELS[name].moved(shape, step) * 1e-6
                assert cells["liger"] == (3, 3, 3)
                assert cells["copy"] == (copy,) * 3 and cells["share"] == copy / 2


@pytest.mark.gpu
@names
def test_measures(name):
    pytest.importorskip("liger_kernel")
    shape = {"RoPE": (2, 128, 24, 8, 128), measured.LINEAR: (256, 512, 3000)}.get(name, (256, 3000))
    found = measured.measure.__wrapped__(name, shape, "both")
    assert len(found) == (3 if name in LOSSES else 4) and all(0 < each.median < 10 for each in found.values())
