# SPDX-License-Identifier: Apache-2.0
"""Each function of the table takes what the table gives it, and every kernel of models to copy is in it."""

import pytest
import torch

from recorder.project import ROOT
from snippets.pytorch import every_model_kernel as snippet


@pytest.mark.parametrize("name", snippet.SUBJECTS)
def test_a_function_takes_its_inputs(device, name, monkeypatch):
    if device == "cpu":
        for make in (torch.randn, torch.randint):
            here = lambda *given, make=make, **options: make(*given, **options | {"device": "cpu"})
            monkeypatch.setattr(torch, make.__name__, here)
    subject = snippet.SUBJECTS[name]
    given = subject.inputs()
    found = subject.function(*given)
    assert all(each.float().isfinite().all() for each in (found if isinstance(found, tuple) else (found,)))
    assert subject.wanted <= len(given)


def test_every_lesson_of_models_is_in_the_table():
    shown = (ROOT / "docs/en/reference/snippets.md").read_text("utf-8")
    made = {line.removeprefix("of: models/") for line in shown.splitlines() if line.startswith("of: models/")}
    used = {name for name in vars(snippet) if hasattr(vars(snippet)[name], "__file__")}
    assert made - used == {"sampling"}  # which torch's own Triton can't compile


@pytest.mark.gpu
@pytest.mark.parametrize("way", snippet.WAYS)
def test_a_convolution_works_in_each_way_that_the_table_says(way):
    assert snippet.verdict(snippet.WAYS[way], snippet.SUBJECTS["causal_conv1d"]) != "wrong"


def test_a_line_says_what_happened(monkeypatch):
    raises = lambda subject, fullgraph=True: 1 / 0 if fullgraph else subject.wanted == 0
    monkeypatch.setattr(snippet, "WAYS", {"compile": raises, "graph": lambda _: True, "grad": lambda _: None})
    monkeypatch.setattr(snippet, "compiled", raises)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(snippet, "SUBJECTS", {"a": snippet.Subject(None, None), "b": snippet.Subject(None, None, 1)})
    text, said = snippet.line("a")
    assert text == "a  breaks  works  -" and said == ["a, compile: ZeroDivisionError: division by zero"]
    text, said = snippet.line("b")
    assert text == "b  refused  works  -" and said[1] == "b, compile without fullgraph: wrong"
