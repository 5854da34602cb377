# SPDX-License-Identifier: Apache-2.0
"""A model with its norms replaced computes and learns as before; DDP warns of strides that changed, of no others."""

import re
from pathlib import Path

import pytest
import torch
from guards import environment
from torch import nn

from snippets.pytorch import asked_in_pytorch as snippet
from tests.processes import run_script


def pair():
    torch.manual_seed(0)
    model, other = (nn.Sequential(snippet.Block(), snippet.Block()).to(snippet.DEVICE) for _ in range(2))
    other.load_state_dict(model.state_dict())
    return model, other


def test_a_model_with_the_kernel_computes_and_learns_as_before():
    model, other = pair()
    assert snippet.use_kernel(other) == 4 and snippet.use_kernel(other) == 0, "all of them, once"
    x = torch.randn(3, 5, 64, device=snippet.DEVICE)
    results = []
    for each in (model, other):
        given = x.clone().requires_grad_()
        out = each(given)
        out.square().sum().backward()
        results.append([out, given.grad, *(p.grad for p in each.parameters())])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_what_was_saved_fits_the_changed_model():
    model, other = pair()
    snippet.use_kernel(other)
    other.load_state_dict(model.state_dict())


def test_ddp_warns_of_strides_that_changed_after_it_wrapped():
    """In a process of its own, for torch warns once."""
    done = run_script(Path(snippet.__file__), env=environment("cpu"))
    assert done.returncode == 0, done.stderr
    said = re.findall(r"^(\S.+?): (.+)", done.stdout, re.MULTILINE)
    assert dict(said)["the model's result"] == "as before"
    assert [(name, words.split(".")[0]) for name, words in said[-3:]] == [
        ("a gradient that is turned", "no warning"),
        ("channels_last after DDP", "Grad strides do not match bucket view strides"),
        ("channels_last before DDP", "no warning"),
    ]


def test_what_fails_is_said_in_its_first_words():
    def fails():
        raise ValueError("\nfirst\nsecond")

    assert snippet.outcome(lambda: None) == "works" and snippet.outcome(fails) == "ValueError: first"


@pytest.mark.gpu
def test_on_a_gpu(capsys):
    snippet.main()
    said = capsys.readouterr().out
    assert "asks torch: works" in said and "triton_op, strict=True: works" in said
