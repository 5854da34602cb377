# SPDX-License-Identifier: Apache-2.0
"""However the keys are split, the result is torch's."""

import math

import pytest
import torch

from snippets.fusion import decoding_parts as snippet


@pytest.mark.parametrize("parts", snippet.SPLITS)
def test_parts_together_are_attention(parts, device):
    scores = torch.tensor(snippet.SCORES, dtype=torch.float64)
    values = torch.arange(1.0, len(scores) + 1, dtype=torch.float64)
    stored, (total, accumulator) = snippet.in_parts(*(x.float().to(device) for x in (scores, values)), parts)
    assert math.isclose(accumulator / total, (scores.softmax(0) @ values).item(), rel_tol=1e-5)
    for (maximum, part_sum, part_accumulator), own, value in zip(
        stored, scores.chunk(parts), values.chunk(parts), strict=True
    ):
        weights = (own - own.max()).exp()
        assert maximum == own.max()
        assert math.isclose(part_sum, weights.sum().item(), rel_tol=1e-5)
        assert math.isclose(part_accumulator, (weights @ value).item(), rel_tol=1e-5)


def test_it_says_so(capsys):
    snippet.main()
    printed = capsys.readouterr().out
    results = {line.split(": ")[1] for line in printed.splitlines() if line.startswith(("result", "torch"))}
    assert len(results) == 1 and printed.count("## ") == len(snippet.SPLITS)
