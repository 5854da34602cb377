# SPDX-License-Identifier: Apache-2.0
"""Two streams that do not wait read what is not there yet; those that wait are right."""

import contextlib

import pytest
import torch
from guards import Guarded, check_each_once, recorded_accesses

from snippets.pytorch import streams_bug as bug


@pytest.mark.gpu
@pytest.mark.parametrize(
    "case, wrong, right",
    [(bug.an_input, 1, 42), (bug.a_result, -1, 1), (bug.memory, 42, 1), (bug.a_timer, 0, 41)],
)
def test_who_waits_is_right(case, wrong, right):
    x, out, _ = bug.tensors()
    bug.add_one(x, out)
    bug.least_kernel[(1,)](x.int(), out.int())
    assert (case(False), case(True)) == (wrong, right)


@pytest.mark.parametrize("n", [1, 1024, 1030])
def test_one_is_added_to_each_element(device, n):
    x = Guarded.around(torch.randn(n, device=device), before=64, after=64, fill=0xFF)
    out = Guarded((n,), torch.float32, device, before=64, after=64, fill=0xFF)
    with recorded_accesses() if device == "cpu" else contextlib.nullcontext() as accesses:
        bug.add_one(x.tensor, out.tensor)
    if accesses:
        check_each_once(accesses, "load", x=x.tensor)
        check_each_once(accesses, "store", out=out.tensor)
    out.check("out")
    assert torch.equal(out.tensor, x.tensor + 1)


@pytest.mark.parametrize("read, least", [(3, 3), (9, 5)])
def test_the_least_is_kept(device, read, least):
    kept = torch.tensor([5], dtype=torch.int32, device=device)
    bug.least_kernel[(1,)](torch.full_like(kept, read), kept)
    assert kept.item() == least
