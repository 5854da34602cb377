# SPDX-License-Identifier: Apache-2.0
"""One of the programs is last; in the interpreter, the one with the highest number."""

import pytest
import torch

from snippets.playground import who_is_last

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize("programs", [1, 4])
def test_one_of_them_is_last(programs):
    out = torch.full((1,), -1, dtype=torch.int32, device=DEVICE)
    who_is_last.store_pid_kernel[(programs,)](out)
    assert out.item() in range(programs) if DEVICE == "cuda" else out.item() == programs - 1
