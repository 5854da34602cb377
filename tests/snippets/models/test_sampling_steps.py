# SPDX-License-Identifier: Apache-2.0
"""Guesses in Python end where a sort does, and where the kernel's search does; bits compare as the floats do."""

import itertools

import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st

from snippets.models import sampling_steps as snippet
from snippets.models.sampling import threshold
from snippets.models.sampling_steps import guesses


@triton.jit
def threshold_kernel(order_ptr, out_ptr, wanted, low, high, BLOCK: tl.constexpr):
    order = tl.load(order_ptr + tl.arange(0, BLOCK))
    tl.store(out_ptr, threshold(order, tl.full((BLOCK,), 1, tl.int32), wanted, low, high))


@settings(max_examples=30)
@given(st.lists(st.integers(-50, 50), min_size=8, max_size=8), st.integers(1, 8))
def test_top_k_is_what_a_sort_finds(order, k):
    found, threshold = guesses(order, [1] * 8, k)
    assert threshold == sorted(order)[-k]
    assert len(found) <= (max(order) - min(order)).bit_length()
    for guess, following in itertools.pairwise(found):
        assert (following.low, following.high) in ((guess.middle, guess.high), (guess.low, guess.middle - 1))
    out = torch.empty(1, dtype=torch.int32)
    threshold_kernel[(1,)](torch.tensor(order, dtype=torch.int32), out, k, min(order), max(order), BLOCK=8)
    assert out.item() == threshold


@settings(max_examples=30)
@given(st.lists(st.integers(-9, 9), min_size=5, max_size=5, unique=True), st.floats(0.01, 0.95))
def test_top_p_is_what_a_sort_finds(order, p):
    chances = torch.tensor(order, dtype=torch.float64).softmax(0).tolist()
    order, chances = zip(*sorted(zip(order, chances, strict=True), reverse=True), strict=True)
    last = next(i for i, total in enumerate(itertools.accumulate(chances)) if total >= p)
    assert guesses(order, chances, p)[1] == order[last]


def test_prints(capsys):
    snippet.main()
    printed = capsys.readouterr().out
    assert "1 to 4: guess 3 keeps 2, so below 3\n1 to 2: guess 2 keeps 3, so 2 or more\nthreshold: 2" in printed
    assert printed.count("threshold: 2, a logit of 1.0") == 2, "of top-k and of top-p"
    integers = [int(line.rsplit(" ", 1)[1]) for line in printed.splitlines() if "order" in line]
    assert integers == [16320, 16384, -16384, -16320]
