# SPDX-License-Identifier: Apache-2.0
"""Each case goes wrong in the way that its page says."""

import pytest
import torch

from snippets.pytorch import compile_bug as snippet


def test_a_mutation_that_is_not_declared_is_lost_once_it_is_traced(device):
    """In eager mode all is well. What is traced to have no effect is left out."""
    x = torch.zeros(10, device=device)
    assert snippet.sum_of_filled(snippet.fill_undeclared)(x).item() == 70
    for fill, total in ((snippet.fill_undeclared, 0), (snippet.fill, 70)):
        torch._dynamo.reset()
        traced = torch.compile(snippet.sum_of_filled(fill), backend="aot_eager", fullgraph=True)
        assert traced(x).item() == total


def test_a_result_that_is_an_input_is_refused(device):
    said = snippet.outcome(lambda: snippet.aliased(torch.zeros(3, device=device)))
    assert said.startswith("RuntimeError: The output of this custom operator (1) must not also be an input")


def test_without_a_fake_nothing_is_traced(device):
    rows, weight = torch.ones(4, 8, device=device), torch.ones(8, device=device)
    torch._dynamo.reset()
    traced = torch.compile(snippet.no_fake, backend="aot_eager", fullgraph=True)
    assert "There was no fake impl registered" in snippet.outcome(lambda: traced(rows, weight))


@pytest.mark.gpu
def test_tuning_within_a_capture_fails_and_before_it_does_not():
    x = torch.zeros(10, device="cuda")
    snippet.tuned(x)
    assert snippet.capture(snippet.tuned, x) == "captured"
    y = torch.zeros(20, device="cuda")
    first, last = snippet.errors(lambda: snippet.capture(snippet.tuned, y))
    assert "operation not permitted when stream is capturing" in first
    assert "operation failed due to a previous error during capture" in last
    snippet.tuned(y)
    assert snippet.capture(snippet.tuned, y) == "captured"  # and PyTorch's random numbers are whole again
    assert torch.rand(3, device="cuda").max() < 1
    torch._dynamo.reset()
    hooked = torch.compile(snippet.hooked, fullgraph=True)
    assert "pre_hook and post_hook are not supported" in snippet.outcome(lambda: hooked(x))


@pytest.mark.gpu
@pytest.mark.parametrize(("function", "first", "then"), [(snippet.cleared, 0, 1), (snippet.restored, 5, 6)])
def test_what_a_tuner_puts_back_is_put_back_in_compiled_code(function, first, then):
    torch._dynamo.reset()
    given = torch.full((10,), float(first), device="cuda")
    assert torch.compile(function, fullgraph=True)(given).tolist() == [then] * 10


def test_the_first_error_of_a_traceback_is_told_beside_the_last():
    def fails():
        try:
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nSearch for it")
        finally:
            raise ValueError("the end of the capture")

    first, last = snippet.errors(fails)
    assert first == "RuntimeError: operation not permitted when stream is capturing"
    assert last == "ValueError: the end of the capture"
    assert snippet.errors(lambda: None) == ("none", "none")
