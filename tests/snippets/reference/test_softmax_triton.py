# SPDX-License-Identifier: Apache-2.0
"""The shares of each row are torch's, for rows of any length, within bounds; each element is read and written once."""

import contextlib

import pytest
import torch
from guards import Guarded, check_each_once, recorded_accesses

from snippets.reference import softmax_triton as snippet

INTERPRETED = not torch.cuda.is_available()


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 7), (5, 64), (2, 100)])
def test_shares_are_those_of_torch(device, rows, columns):
    x = Guarded.around(torch.randn(rows, columns, device=device), before=2**12, after=2**12, fill=0xFF)
    out = Guarded((rows, columns), torch.float32, device, before=2**12, after=2**12, fill=0xFF)
    with recorded_accesses() if INTERPRETED else contextlib.nullcontext() as accesses:
        snippet.softmax_kernel[(rows,)](x.tensor, out.tensor, columns, BLOCK=128)
    if accesses:
        check_each_once(accesses, "load", x=x.tensor)
        check_each_once(accesses, "store", out=out.tensor)
    out.check("out")
    wanted = x.tensor.softmax(1)
    torch.testing.assert_close(out.tensor, wanted)
    torch.testing.assert_close(snippet.softmax(x.tensor), wanted)


def test_large_numbers_do_not_overflow(device):
    x = torch.tensor([[1000.0, 1000.0, -1000.0]], device=device)
    assert snippet.softmax(x).tolist() == [[0.5, 0.5, 0.0]]
