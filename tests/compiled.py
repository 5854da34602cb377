# SPDX-License-Identifier: Apache-2.0
"""Doctests and the Python fences of pages on a GPU, under ``-m gpu``: what a reader who has one makes of them.

They are written for a CPU, and say how they go on a GPU: ``device="cuda"``, for all tensors. What is then printed of a
tensor names its device. What needs the interpreter stays out, and so do random numbers, which a GPU draws otherwise.
"""

import contextlib
import re
from dataclasses import replace
from unittest import mock

DEVICE = "cuda"
NOT_THERE = re.compile(r"\binterpreter\b|TRITON_INTERPRET|recorded_accesses|\bGenerator\(|\bcycle\(")


def code(item) -> str | None:
    """What a doctest or a fence runs; None for other tests."""
    if type(item).__name__ == "DoctestItem":
        return "".join(example.source for example in item.dtest.examples)
    return item.test_definition.source if type(item).__name__ == "MarkdownInlinePythonItem" else None


def runs_compiled(item) -> bool:
    text = code(item)
    wrong_on_purpose = type(item).__name__ == "DoctestItem" and re.search(r"_bug\b", item.name)
    return text is not None and not NOT_THERE.search(text) and not wrong_on_purpose


@contextlib.contextmanager
def on_a_gpu(item):
    """Run a doctest or a fence with all its tensors on the GPU."""
    import torch

    with contextlib.ExitStack() as changes:
        changes.enter_context(torch.device(DEVICE))
        if type(item).__name__ == "DoctestItem":
            for example in item.dtest.examples:
                changes.enter_context(mock.patch.object(example, "source", _moved(example.source)))
            changes.enter_context(mock.patch.object(item.runner, "_checker", _AnyDevice(item.runner._checker)))
        else:
            definition = replace(item.test_definition, source=_moved(item.test_definition.source))
            changes.enter_context(mock.patch.object(item, "test_definition", definition))
        yield


def _moved(text: str) -> str:
    return text.replace('"cpu"', f'"{DEVICE}"')


class _AnyDevice:
    """Checks the output of a doctest, whatever the device of its tensors."""

    def __init__(self, checker):
        self.checker = checker

    def check_output(self, want, got, flags):
        return self.checker.check_output(want, re.sub(r", device='cuda:\d+'", "", got), flags)

    def output_difference(self, *arguments):
        return self.checker.output_difference(*arguments)
