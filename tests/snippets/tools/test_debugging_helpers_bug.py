# SPDX-License-Identifier: Apache-2.0
"""The helpers that do not help let through, and refuse, what the page says."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from snippets.tools.debugging import matches
from snippets.tools.debugging_helpers_bug import check_ready_bug, main, matches_bug


def test_the_check_cannot_fail():
    for tensor in (torch.ones(2, 3).t(), torch.ones(6)[::2], torch.ones(1).expand(3)):
        assert not tensor.is_contiguous()
        check_ready_bug(tensor)


@pytest.mark.parametrize("conditions", [">=2", "<=2", "!=2", "=0,>=1"])
def test_the_parser_cannot_read_two_characters(conditions):
    with pytest.raises((ValueError, KeyError)):
        matches_bug(conditions, (0, 0, 0))


@given(st.lists(st.sampled_from(["", "=0", "<2", ">1", "=3"]), min_size=1, max_size=3).map(",".join))
def test_of_one_character_it_can(conditions):
    for pid in ((0, 0, 0), (1, 3, 2), (3, 0, 1)):
        assert matches_bug(conditions, pid) == matches(conditions, pid)


def test_what_the_page_shows(capsys):
    main()
    printed = capsys.readouterr().out
    assert "check_ready_bug: accepted" in printed and "check_tensors_gpu_ready: refused: tensor 0" in printed
    assert "copy_kernel(x): [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]" in printed
    assert "matches_bug('>=2', (2, 0, 0)): ValueError" in printed and "matches('>=2', (2, 0, 0)): True" in printed
