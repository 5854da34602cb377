# SPDX-License-Identifier: Apache-2.0
"""What the table says of a function is what happened to it; every file to copy is in it."""

from pathlib import Path

import pytest
import torch

from recorder.project import ROOT
from snippets.pytorch import every_kernel as snippet


def broken(subject):
    raise ValueError("\n  x   must be\nmore")


def test_a_verdict_is_what_was_raised():
    subject = snippet.Subject(torch.relu, lambda: (torch.ones(3),))
    torch_synchronize, torch.cuda.synchronize = torch.cuda.synchronize, lambda: None
    try:
        assert snippet.verdict(broken, subject) == "ValueError: x must be"
    finally:
        torch.cuda.synchronize = torch_synchronize
    assert [snippet.verdict(lambda _, found=found: found, subject) for found in (True, False, None)] == [
        "works", "wrong", "-",
    ]  # fmt: skip


def test_no_wrong_result_passes_for_a_right_one():
    x = torch.ones(2)
    assert snippet.alike(x, x) and not snippet.alike(x, 2 * x) and not snippet.alike((x, x), (x, x + 1))
    half = torch.tensor([0.0, 2.0] * 50)
    assert snippet.alike(half, half.flip(0), random=True) and not snippet.alike(half, half + 1, random=True)


def test_every_file_to_copy_is_in_the_table():
    stems = {path.stem for path in Path(ROOT / "snippets/library").glob("*.py")}
    files = {stem for stem in stems if "measured" not in stem and not stem.startswith("peers_")}
    shown = {
        getattr(subject.function, "func", subject.function).__module__.rpartition(".")[2]
        for subject in snippet.TO_COPY.values()
    }
    assert files - {"__init__"} - shown <= {"topk"}  # which stands in a lambda


@pytest.mark.gpu
@pytest.mark.parametrize("way", snippet.WAYS)
def test_a_kernel_to_copy_works_in_each_way(way):
    assert snippet.WAYS[way](snippet.TO_COPY["cumsum"])
