# SPDX-License-Identifier: Apache-2.0
"""The wrong measurement walks the same small part each time; on a GPU it reports a latency that is far too short."""

from unittest import mock

import pytest
import torch

from snippets.gpu import memory_bug


def test_walks_the_same_little_part_each_time():
    with (
        mock.patch.object(memory_bug, "cycle", lambda lines: lines),
        mock.patch.object(memory_bug, "chase", return_value=torch.tensor([0, 300 * memory_bug.STEPS, 0])) as chase,
    ):
        assert memory_bug.walk_a_little_bug(2**30) == 300
    assert chase.call_args_list == [mock.call(2**30 // memory_bug.LINE, memory_bug.STEPS)] * 5
    assert memory_bug.STEPS * memory_bug.LINE == 8 * 2**20, "much less than an L2 cache"


@pytest.mark.gpu
@pytest.mark.alone
def test_reports_too_little():
    assert memory_bug.owned.fn(2**28, "little") < 0.7 * memory_bug.owned.fn(2**28, "much")


@pytest.mark.gpu
def test_prints_what_the_page_shows(capsys):
    memory_bug.main()
    assert capsys.readouterr().out.splitlines() == ["MiB owned: 1024", "MiB walked: 8"]
