# SPDX-License-Identifier: Apache-2.0
"""The three kernels copy the same rows, and nothing beside them; the code of a new process is Python that runs."""

import ast

import pytest
import torch
from guards import Guarded

from snippets.pytorch import compile_once_measured as measured


@pytest.mark.parametrize("columns", [8, 1032])
@pytest.mark.parametrize("kernel", measured.KERNELS.values(), ids=list(measured.KERNELS))
def test_rows_are_copied(device, kernel, columns):
    x = torch.randn(7, columns, device=device).half()
    out = Guarded(x.shape, x.dtype, x.device, before=4096, after=4096, fill=0xFF)
    measured.copy_rows(kernel, x, out.tensor)
    assert torch.equal(x, out.tensor)
    out.check("out")


@pytest.mark.parametrize("name", measured.CALLS.values())
def test_a_new_process_calls_what_there_is(name):
    ast.parse(measured.CHILD.format(name=name))
    assert callable(getattr(measured, name))
