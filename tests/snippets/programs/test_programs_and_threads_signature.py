# SPDX-License-Identifier: Apache-2.0
"""What annotations change, and what becomes of a return: in the interpreter, and for the compiler."""

import pytest
import torch
from guards import environment, recorded_accesses

from snippets.programs import programs_and_threads_signature as signature
from tests.processes import run_script

HALVES = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]
NOTHING = [-1.0] * 6


@pytest.mark.parametrize("kernel, stored", [
    (signature.plain_kernel, HALVES),
    (signature.annotated_kernel, HALVES),
    (signature.typed_kernel, HALVES),
    (signature.early_kernel, [*HALVES[:4], -1.0, -1.0]),
    (signature.returning_block_bug, NOTHING),
    (signature.returning_number_bug, NOTHING),
])  # fmt: skip
def test_interpreted(kernel, stored):
    assert signature.interpret(kernel) == (None, stored)


@pytest.mark.parametrize("n", [1, 4, 6, 10, 12])
@pytest.mark.parametrize("kernel", signature.KERNELS[:4])
def test_touches_its_elements_and_no_others(kernel, n):
    x, out = torch.rand(n), torch.full((n,), -1.0)
    with recorded_accesses() as accesses:
        kernel[(3,)](x, out, n, 2.0, BLOCK_SIZE=4)
    expected = [i for i in range(n) if kernel is not signature.early_kernel or i // 4 != 1]
    for op, tensor in (("load", x), ("store", out)):
        addresses = [int(address) for kind, block in accesses if kind == op for address in block]
        assert [(address - tensor.data_ptr()) // 4 for address in addresses] == expected
    assert torch.equal(out[expected], 2 * x[expected])


def test_says_how_to_run_it():
    done = run_script(signature.__file__, env=environment("cuda"))
    assert done.returncode == 1 and done.stderr.startswith("set TRITON_INTERPRET=1")
