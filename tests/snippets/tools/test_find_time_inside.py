# SPDX-License-Identifier: Apache-2.0
"""Times are those of scopes, the middle of all warps; on a GPU the kernels with scopes turn a matrix."""

import pytest
import torch

pytest.importorskip("triton.profiler.language", exc_type=ImportError, reason="this Triton has no Proton")

from snippets.tools import find_time_inside as snippet


def test_times_of_scopes():
    events = [{"name": "load", "dur": each} for each in (9, 1, 2)] + [{"name": "store", "dur": 5}, {"name": "meta"}]
    assert snippet.times(events) == {"load": 2, "store": 5}


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu_it_says_so():
    with pytest.raises(SystemExit, match="no GPU found"):
        snippet.main()


@pytest.mark.gpu
@pytest.mark.parametrize("turn", snippet.TURNS.values(), ids=snippet.TURNS)
@pytest.mark.parametrize("shape", [(1, 1), (100, 70), (64, 128)])
def test_a_matrix_is_turned(turn, shape):
    x = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
    assert torch.equal(turn(x), x.t())
