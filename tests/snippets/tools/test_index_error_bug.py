# SPDX-License-Identifier: Apache-2.0
"""An index that a block does not have is an IndexError in the interpreter; held inside of it, the result is right."""

import pytest
import torch
import triton

from snippets.tools import index_error_bug as bug

pytestmark = pytest.mark.skipif(
    isinstance(bug.differences, triton.JITFunction), reason="compiled code checks no index"
)


@pytest.fixture
def x():
    return torch.tensor([3.0, 5.0, 4.0, 8.0])


@pytest.mark.parametrize(
    ("kernel", "message"),
    [(bug.differences_bug, "index 4 is out of"), (bug.shape_bug, "list index out of")],
)
def test_an_index_that_is_not_there_is_an_error(x, kernel, message):
    with pytest.raises(triton.runtime.errors.InterpreterError, match=rf"IndexError\('{message}"):
        kernel[(1,)](x, torch.zeros(4), BLOCK=4)


def test_held_inside_of_the_block_it_is_right(x):
    out = torch.full((4,), 7.0)
    bug.differences[(1,)](x, out, BLOCK=4)
    assert out.tolist() == [2.0, -1.0, 4.0, 7.0]
