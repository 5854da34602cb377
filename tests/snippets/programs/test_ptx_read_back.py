# SPDX-License-Identifier: Apache-2.0
"""Both ways add right at any size; one is the layout of the compiler, the other is not."""

import re

import numpy as np
import pytest

from recorder import recording
from recorder.printed import numbers
from recorder.project import find
from snippets.programs import ptx_read_back as snippet

WAYS = [snippet.by_guess, snippet.as_compiled]


@pytest.mark.parametrize("function", WAYS)
@pytest.mark.parametrize("n", [1, 513, 1024, 1030])
def test_adds_every_element_once(function, n):
    x, y = np.arange(n, dtype=np.float32), np.full(n, 0.25, dtype=np.float32)
    out, owner = snippet.simulate(function, x, y)
    assert (out == x + y).all() and (owner >= 0).all() and (owner < snippet.THREADS).all()


def test_one_is_the_compilers_layout():
    """``sizePerThread = [4]``, 32 threads, 4 warps: what Triton says of the same block."""
    made = recording.load(find("programs/programs_and_threads"), "cpu")
    text = str(made)
    assert re.search(r"sizePerThread = \[4\], threadsPerWarp = \[32\], warpsPerCTA = \[4\]", text)
    x = np.zeros(1024, dtype=np.float32)
    owners = {function: snippet.simulate(function, x, x)[1] for function in WAYS}
    layout = np.arange(1024) // 4 % (32 * 4)
    assert (owners[snippet.as_compiled] == layout).all() and (owners[snippet.by_guess] != layout).any()


def test_sectors_by_hand():
    """A thread's 16 bytes are half a sector: side by side 32 threads fill 16, each in its own 32."""
    x = np.zeros(1024, dtype=np.float32)
    owners = [snippet.simulate(function, x, x)[1] for function in WAYS]
    assert [snippet.touched(owner) for owner in owners] == [[32, 32], [16, 16]]


def test_prints_what_the_page_shows(capsys):
    snippet.main()
    printed = capsys.readouterr().out
    assert numbers(printed)["by guess, sectors"] == 64 and numbers(printed)["as compiled, sectors"] == 32
    assert "as compiled, elements of thread 1: 4 5 6 7 516 517 518 519\n" in printed


def difference(x, y, out, owner):
    out[0] = x[0] - y[0]


def test_what_no_thread_stores_is_marked():
    x, y = np.array([3, 4, 5], dtype=np.float32), np.array([1, 1, 1], dtype=np.float32)
    out, owner = snippet.simulate(difference, x, y)
    assert out[0] == 2 and np.isnan(out[1:]).all() and (owner == -1).all()
