# SPDX-License-Identifier: Apache-2.0
"""The three kernels copy the same rows, and nothing beside them; the code of a new process is Python that runs."""

import ast
import contextlib

import pytest
import torch
from guards import Guarded, check_each_once, recorded_accesses

from snippets.pytorch import compile_once_measured as measured


@pytest.mark.parametrize("columns", [8, 1032])
@pytest.mark.parametrize("kernel", measured.KERNELS.values(), ids=list(measured.KERNELS))
def test_rows_are_copied(device, kernel, columns):
    x = Guarded.around(torch.randn(7, columns, device=device).half(), before=4096, after=4096, fill=0xFF)
    out = Guarded(x.shape, torch.float16, device, before=4096, after=4096, fill=0xFF)
    with contextlib.nullcontext() if torch.cuda.is_available() else recorded_accesses() as accesses:
        measured.copy_rows(kernel, x.tensor, out.tensor)
    if accesses:
        check_each_once(accesses, "load", x=x.tensor)
        check_each_once(accesses, "store", out=out.tensor)
    assert torch.equal(x.tensor, out.tensor)
    out.check("out")


@pytest.mark.skipif(torch.cuda.is_available(), reason="programs are started anywhere only by the interpreter")
@pytest.mark.parametrize("kernel", measured.KERNELS.values(), ids=list(measured.KERNELS))
def test_a_row_beyond_two_to_the_31(kernel):
    row, columns, x = 2**28, 16, torch.ones(1, 16)
    unit = 8 if kernel is measured.copy_rows_of_eights_kernel else 1
    with recorded_accesses(first_program=(row, 0, 0), memory=False) as accesses:
        kernel[(1,)](x, x, columns // unit, columns // unit, BLOCK=16)
    assert all(addresses.min() == x.data_ptr() + 4 * row * columns for _, addresses in accesses)


@pytest.mark.parametrize("name", measured.CALLS.values())
def test_a_new_process_calls_what_there_is(name):
    ast.parse(measured.CHILD.format(name=name))
    assert callable(getattr(measured, name))
