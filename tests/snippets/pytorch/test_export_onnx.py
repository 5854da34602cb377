# SPDX-License-Identifier: Apache-2.0
"""Our operator stays in what is exported, is replaced by PyTorch's, and computes the same; pip is called once."""

import re
import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from snippets.pytorch import export_onnx as snippet
from snippets.pytorch.compile import WAYS


@pytest.fixture(scope="module")
def program():
    x = torch.randn(3, snippet.COLUMNS, generator=torch.Generator().manual_seed(1))
    return torch.export.export(snippet.Norm(WAYS["custom_op"]), (x,))


def test_ours_is_replaced_and_nothing_else(program):
    assert snippet.operators(program) == "course.rms_norm_closed.default"
    assert snippet.operators(snippet.replaced(program)) == "aten.rms_norm.default"
    parts = snippet.operators(snippet.replaced(program).run_decompositions()).split(", ")
    assert "aten.rsqrt.default" in parts and all(part.startswith("aten.") for part in parts)


def test_what_replaces_it_computes_the_same(program):
    x = torch.randn(3, snippet.COLUMNS, generator=torch.Generator().manual_seed(2)) * 3
    model = snippet.Norm(WAYS["custom_op"])
    torch.testing.assert_close(snippet.replaced(program).module()(x), model(x))


def test_each_name_is_of_an_operator_that_exists():
    """A model of two layers keeps what is around our operator."""
    model = nn.Sequential(snippet.Norm(WAYS["custom_op"]), nn.ReLU())
    program = torch.export.export(model, (torch.ones(2, snippet.COLUMNS),))
    assert snippet.operators(snippet.replaced(program)) == "aten.rms_norm.default, aten.relu.default"


def test_versions_are_pinned():
    assert all(re.fullmatch(r"[\w-]+==[\d.]+", each) for each in snippet.PACKAGES)


@pytest.mark.parametrize(
    "said, why",
    [
        ("Failed.\n## Exception summary\n\n<class 'X'>: No function.\n\n(See above.)", "No function."),
        ("first\nsecond", "first"),
    ],
)
def test_the_cause_is_found(said, why):
    assert snippet.cause(RuntimeError(said)) == why


@pytest.mark.parametrize("off, verdict", [(0, "right"), (0.01, "WRONG")])
def test_what_another_computes_is_judged(monkeypatch, off, verdict):
    x = torch.randn(2, snippet.COLUMNS)

    class Evaluator:
        def __init__(self, model):
            pass

        def run(self, _, inputs):
            return [(snippet.as_torch(torch.from_numpy(inputs["x"]), snippet.Norm(None).weight) + off).numpy()]

    monkeypatch.setitem(sys.modules, "onnx", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "onnx.reference", SimpleNamespace(ReferenceEvaluator=Evaluator))
    named = lambda **names: SimpleNamespace(**names)
    proto = named(graph=named(input=[named(name="x")]))
    made = named(model_proto=proto, model=named(graph=[named(op_type="A"), named(op_type="B")]))
    assert snippet.judged(made, x) == f"A, B: {verdict}"


def test_packages_are_fetched_once_and_found(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(snippet.subprocess, "run", lambda command, **how: calls.append((command, how)))
    monkeypatch.setattr(sys, "argv", ["export_onnx.py"])
    monkeypatch.setattr(snippet, "FOLDER", tmp_path / "onnx")
    snippet.main()
    (tmp_path / "onnx").mkdir()
    snippet.main()
    (pip, _), (first, how), (second, _) = calls
    assert pip[1:4] == ["-m", "pip", "install"] and pip[-5:] == [*snippet.PACKAGES]
    assert first == second == [sys.executable, snippet.__file__, "export"]
    assert how["env"]["PYTHONPATH"].endswith(str(tmp_path / "onnx"))
