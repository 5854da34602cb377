# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's compute-sanitizer finds no access out of bounds and no race, at sizes that no tile divides.

(``naive``, ``few_rows`` and ``matmul`` have tests of their own, which run their demonstrations.)
"""

import pytest
from sanitizer import CLEAN, check_sanitized

CALLS = {  # what is not one of ours is made below
    "grouped": "grouped.matmul(a, b)",
    "autotuned": "autotuned.matmul(a, b, config=autotuned.candidates(M, N, K)['fit'][0])",
    "persistent": "persistent.matmul(a, b)",
    "fused": "fused.linear(a, b.T, None, 'relu')",
    "precision": "precision.matmul(a.float(), b.float(), input_precision='tf32x3')",
    "fp8": "fp8.scaled_matmul(*sum(zip(fp8.quantize(a), fp8.quantize(b.T.contiguous().T)), ()))",
    "split_k": "split_k.matmul(a, b)",
    "split_k_atomic": "split_k_atomic.matmul(a.float(), b.float(), parts=3)",
}
CODE = """
import torch
from snippets.matmul import {name}
for M, N, K in ((1, 1, 16), (130, 77, 144), (77, 264, 1040)):
    a, b = torch.randn(M, K, device="{device}").half(), torch.randn(K, N, device="{device}").half()
    found, expected = {call}, a.float() @ b.float()
    expected = expected.relu() if "{name}" == "fused" else expected
    assert torch.linalg.vector_norm(found - expected) < 0.1 * torch.linalg.vector_norm(expected) + 1, (M, N, K)
"""


# Each kernel of the product, whatever sizes it is for, by the plans that it is told to follow.
PLANNED = """
import torch
from unittest import mock
from snippets.matmul import matmul as module
for M, N, K in ((130, 80, 144), (77, 264, 1040)):
    tiles = lambda m, n: -(-M // m) * -(-N // n)
    plans = [
        module.Plan("tile", False, 64, 64, 128, 4, 4, 1, tiles(64, 64)),
        module.Plan("tile", False, 64, 64, 128, 4, 4, 3, 3 * tiles(64, 64)),
        module.Plan("described", False, 128, 64, 128, 4, 4, 1, tiles(128, 64)),
        module.Plan("described", False, 128, 64, 128, 4, 4, 2, 2 * tiles(128, 64)),
        module.Plan("streamed", False, 128, 128, 64, 8, 4, 1, 5, 64, 0),
        module.Plan("streamed", False, 128, 128, 64, 8, 6, 1, 3, 0, 1),
        module.Plan("persistent", False, 64, 128, 128, 4, 4, 1, 3),
    ]
    for plan in plans:
        module.prepared.cache_clear()
        a, b = torch.randn(M, K, device="cuda").half(), torch.randn(K, N, device="cuda").half()
        with mock.patch.object(module, "plan", lambda *sizes, **limits: plan):
            found, expected = module.matmul(a, b), a.float() @ b.float()
        assert module.prepared.cache_info().currsize == 1
        assert torch.linalg.vector_norm(found - expected) < 0.1 * torch.linalg.vector_norm(expected), plan
"""


@pytest.mark.gpu
@pytest.mark.parametrize("tool", CLEAN)
@pytest.mark.parametrize("name", CALLS)
def test_compute_sanitizer_finds_nothing(name, tool):
    check_sanitized("-c", CODE.format(name=name, call=CALLS[name], device="cuda"), tool=tool)


@pytest.mark.gpu
@pytest.mark.parametrize("tool", CLEAN)
def test_compute_sanitizer_finds_nothing_in_any_kernel_of_the_product(tool):
    check_sanitized("-c", PLANNED, tool=tool)
