# SPDX-License-Identifier: Apache-2.0
"""Each is wrong in the way that the page says, and right where it says so."""

import math

import pytest
import torch

from snippets.fusion import decoding_bug as snippet
from snippets.fusion.decoding import decode_attention
from snippets.fusion.decoding_steps import (
    rows_of_keys,
    toy,
    toy_combine_kernel,
    toy_pages_kernel,
    toy_table,
)


def test_without_the_factor_the_part_with_small_scores_weighs_too_much(device):
    scores, values = toy(device)
    weights = torch.cat([(scores[:4] - 3).exp(), (scores[4:] - 5).exp()])  # each part with its own maximum
    wrong = snippet.combined(snippet.toy_combine_bug, scores, values)
    assert math.isclose(wrong, (weights @ values / weights.sum()).item(), rel_tol=1e-6)
    assert abs(wrong - (scores.softmax(0) @ values).item()) > 1


@pytest.mark.parametrize("kernel", ["toy_combine_bug", "toy_combine_kernel"])
def test_both_are_right_where_maxima_are_equal(device, kernel):
    scores, values = toy(device)
    scores = scores.clamp(max=3)
    expected = (scores.softmax(0) @ values).item()
    assert math.isclose(snippet.combined(getattr(snippet, kernel), scores, values), expected, rel_tol=1e-6)


def test_the_right_kernel_combines_any_maxima(device):
    scores, values = toy(device)
    for shift in range(8):
        case = scores.roll(shift)
        found = snippet.combined(toy_combine_kernel, case, values)
        assert math.isclose(found, (case.softmax(0) @ values).item(), rel_tol=1e-6)


def test_the_wrong_stride_reads_another_row_of_the_table(device):
    table = toy_table(device)
    wrong, right = (
        rows_of_keys(kernel, table, row) for kernel, row in ((snippet.toy_pages_bug, 3), (toy_pages_kernel, 4))
    )
    wide = table.as_strided((2, 3), (3, 1))  # 4 0 2, then 6 1 5: it begins one place early
    rows = lambda pages: (2 * pages.repeat_interleave(2, dim=1) + torch.arange(2, device=device).repeat(3)).tolist()
    assert wide.tolist() == [[4, 0, 2], [6, 1, 5]] and wrong == rows(wide)
    assert right == rows(table) and wrong[0] == right[0]
    copied = table.contiguous()
    assert rows_of_keys(snippet.toy_pages_bug, copied, 3) == right


def test_the_same_mistake_with_the_kernel_of_the_lesson(device):
    """Read by the number of columns, the second sequence gets keys of others; as it stands it gets its own."""
    q, cache = torch.ones(2, 1, 1, 16, device=device), torch.zeros(8, 2, 1, 16, device=device)
    values = torch.arange(8.0, device=device).view(8, 1, 1, 1).expand(8, 2, 1, 16).contiguous()
    table = toy_table(device)
    right = decode_attention(q, cache, values, page_table=table, splits=2)
    wrong = decode_attention(q, cache, values, page_table=table.as_strided((2, 3), (3, 1)), splits=2)
    assert right[:, 0, 0, 0].tolist() == [2, 3] and wrong[:, 0, 0, 0].tolist() == [2, 4]
