# SPDX-License-Identifier: Apache-2.0
"""The scan of one block: as worked out by hand, and nothing else is touched."""

import contextlib

import torch
from guards import Guarded, check_each_once, recorded_accesses

from snippets.fusion import scan_steps as snippet


def test_one_block(device):
    """Of six steps, worked out by hand; nothing else is touched."""
    a = Guarded.around(torch.tensor([3, 0.5, 2, -1, 0.5, 0], device=device), before=64, after=64, fill=0xFF)
    x = Guarded.around(torch.tensor([4, 6, 0, 2, 10, 1.0], device=device), before=64, after=64, fill=0xFF)
    h = Guarded((6,), torch.float32, device, before=64, after=64, fill=0xFF)
    with recorded_accesses() if device == "cpu" else contextlib.nullcontext() as accesses:
        snippet.one_block_kernel[(1,)](a.tensor, x.tensor, h.tensor, 6, BLOCK=8)
    assert h.tensor.tolist() == [4, 8, 16, -14, 3, 1]
    assert a.tensor.tolist() == [3, 0.5, 2, -1, 0.5, 0] and x.tensor.tolist() == [4, 6, 0, 2, 10, 1]
    a.check("a"), x.check("x"), h.check("h")
    if device == "cpu":
        check_each_once(accesses, "load", a=a.tensor, x=x.tensor)
        check_each_once(accesses, "store", h=h.tensor)
