# SPDX-License-Identifier: Apache-2.0
"""A config that hides behind another one, and two threads that tune at once."""

import contextlib
import threading

import pytest

from snippets.matmul import tuner_bug as bug


@pytest.mark.parametrize("others", [[], [bug.RIGHT]])
def test_a_config_that_stores_half_hides_behind_one_that_stores_all(device, others):
    assert bug.ones([*others, bug.WRONG]).isnan().sum() == (0 if others else 4)


def test_two_threads_need_a_lock(device):
    first, second = bug.launch_by_two(contextlib.nullcontext())
    assert "TypeError" in first and second == "second thread: right"
    assert bug.launch_by_two(threading.Lock()) == ["first thread: right", "second thread: right"]
