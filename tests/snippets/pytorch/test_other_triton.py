# SPDX-License-Identifier: Apache-2.0
"""A warning is kept with the error behind it; on a GPU, the compiled function is right beside any Triton."""

import logging

import pytest
import torch

from snippets.pytorch import other_triton as snippet


def test_a_warning_is_kept_with_its_error():
    warned, logger = snippet.Warned(), logging.getLogger("a reader")
    logger.addHandler(warned)
    logger.warning("%s stones", 3)
    try:
        raise IndexError("out of range")
    except IndexError:
        logger.warning("no reading", exc_info=True)
    assert warned.said == ["3 stones", "no reading: out of range"]


def test_what_torch_asks_for(monkeypatch):
    given = ["numpy", "triton==3.6.0; platform_system == 'Linux'"]
    monkeypatch.setattr(snippet, "requires", lambda package: given)
    assert snippet.asked_for() == "triton==3.6.0"
    monkeypatch.setattr(snippet, "requires", lambda package: None)
    assert snippet.asked_for() == "none"


@pytest.mark.gpu
def test_it_is_right():
    x, weight = torch.randn(8, 512, device="cuda"), torch.rand(512, device="cuda")
    for way in snippet.WAYS:
        assert snippet.compiled_by(way, x, weight)["results"] == "right"
