# SPDX-License-Identifier: Apache-2.0
"""What the toy prints: the tiles that the kernel loads, and weights as torch has them."""

import pytest
import torch
from guards import recorded_accesses

from snippets.models import window_attention as snippet
from snippets.models import window_attention_steps as steps


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [1, 2, 3, 5, 8, 16])
def test_edges_are_where_the_kernel_begins_and_ends(window, causal):
    """The kernel loads two keys of 16 numbers for each tile that lies between."""
    real = torch.eye

    def kept(*shape):
        eyes.append(real(*shape))
        return eyes[-1]

    eyes = []
    steps.torch.eye = kept
    try:
        with recorded_accesses() as seen:
            steps.weights(window, causal, False)
    finally:
        steps.torch.eye = real
    (eye,) = eyes  # the keys are the values, so each tile is loaded twice
    inside = lambda at: (at >= eye.data_ptr()) & (at < eye.data_ptr() + eye.nbytes)
    loads = sum(int(inside(at).sum()) for kind, at in seen if kind == "load")
    visited = sum(-(-(end - start) // 2) for start, _, _, end in steps.edges(16, window, causal))
    assert loads == 2 * visited * 2 * 16


@pytest.mark.parametrize("window, causal, sink", [(16, True, False), (5, True, True), (4, False, True)])
def test_weights(window, causal, sink):
    scores = steps.scores()[None, None]
    eye = torch.eye(16)[None, None]
    sinks = torch.tensor([steps.SINK]) if sink else None
    wanted = snippet.in_torch(scores, eye, eye, window=window, causal=causal, sinks=sinks, scale=1.0)
    assert torch.allclose(steps.weights(window, causal, sink).double(), wanted[0, 0], atol=1e-5)


def test_by_hand(capsys):
    steps.main()
    printed = capsys.readouterr().out
    assert "window of 1024, tiles visited: 2232\nwindow of 1024, with a mask: 496\n" in printed
    assert "queries 6 7 | keys 4 5, masked | keys 6 7, masked\ntiles visited: 7\n" in printed
    assert "queries 6 7 | keys 2 3, masked | keys 4 5, no mask | keys 6 7, masked\n" in printed
    assert "queries 6 7 | start 2, whole 4, whole_end 6, end 8\n" in printed
    assert printed.count("## ") == 10
