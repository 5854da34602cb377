# SPDX-License-Identifier: Apache-2.0
"""Element by element is right for any strides; what is counted is turned into bytes, and times into shares."""

import shutil
from unittest import mock

import pytest
import torch
from guards import Guarded

from snippets.matmul import untiled_measured as snippet
from snippets.tools.benchmarking import Timing


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 64, 5), (5, 65, 2), (2, 200, 3), (2, 0, 3), (0, 5, 3), (4, 7, 0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_element_by_element(device, shape, dtype):
    M, K, N = shape
    a, b = torch.randint(-4, 5, (K, M)).to(device, dtype), torch.randint(-4, 5, (K, 2 * N)).to(device, dtype)
    a, b = (Guarded.around(x, before=256, after=512, fill=0xFF).tensor for x in (a, b))  # NaN, where no load belongs
    a, b = a.T, b[:, ::2]
    made = Guarded.around(torch.zeros(M, N, dtype=dtype, device=device), before=64, after=64, fill=0xFF)
    with mock.patch.object(torch, "empty", return_value=made.tensor):
        c = snippet.product(a, b)
    assert torch.equal(c, (a.double() @ b.double()).to(dtype))
    made.check("the result")


def test_matrices_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="a must be"):
        snippet.product(torch.zeros(2, 3), torch.zeros(2, 3))
    with pytest.raises(ValueError, match="too large: offsets here have 32 bits"):
        snippet.product(torch.zeros(1).expand(2**16, 1), torch.zeros(1).expand(1, 2**15))
    far = torch.empty_strided((2, 1), (2**31 - snippet.STEP, 1), device="meta")
    with mock.patch.object(snippet, "check_arguments"), pytest.raises(ValueError, match="too large"):
        snippet.product(far, torch.zeros(1, 1))


def test_the_table(monkeypatch):
    launches = [
        {snippet.METRICS["arrived"]: 100.0 * i, snippet.METRICS["memory"]: 1e9 * i} for i in range(len(snippet.sides()))
    ]
    times = {str(side): Timing((2.0, 4.0, 3.0)) for side in snippet.sides()} | {"0": Timing((1.0, 1.0, 3.0))}
    monkeypatch.setattr(snippet, "timings", lambda: times)
    snippet.counted.cache_clear()
    with mock.patch.object(snippet, "counters", return_value=launches) as asked:
        of_32 = {what: snippet.tiles.fn(32, what) for what in ("loads", "arrived", "memory", "ms", "share")}
    snippet.counted.cache_clear()
    assert of_32["loads"] == 4 * 2048**3 / 32 / 1e9  # two numbers of two bytes for each multiplication
    assert of_32["arrived"] == 200 * 32 / 1e9 and of_32["memory"] == 2
    assert of_32["ms"] == (3, 2, 4) and of_32["share"] == (50, 25, 100)
    assert asked.call_args.args[1:] == (snippet.__file__, "run") and asked.call_args.kwargs == {"cache": "all"}


@pytest.mark.gpu
@pytest.mark.alone
def test_larger_tiles_ask_for_less():
    if not shutil.which("ncu"):
        pytest.skip("ncu is not on the PATH; it comes with the CUDA toolkit")
    arrived = [snippet.counted()[side]["arrived"] for side in (1, *snippet.TILES)]
    assert arrived == sorted(arrived, reverse=True) and arrived[0] > 20 * arrived[-1]
