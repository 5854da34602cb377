# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's compute-sanitizer finds no access out of bounds, at sizes that no tile divides. (``naive`` has its own.)"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from guards import environment

from snippets.matmul import naive

ROOT = str(Path(naive.__file__).parents[2])
TOOL = ["compute-sanitizer", "--tool", "memcheck", "--report-api-errors", "no", "--error-exitcode", "99"]
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


@pytest.mark.gpu
@pytest.mark.parametrize("name", CALLS)
def test_compute_sanitizer_finds_nothing(name):
    if not shutil.which(TOOL[0]):
        pytest.skip("compute-sanitizer is not on the PATH; it comes with the CUDA toolkit")
    code = CODE.format(name=name, call=CALLS[name], device="cuda")
    env = environment("cuda", PYTORCH_NO_CUDA_MEMORY_CACHING="1", PYTHONPATH=ROOT)
    done = subprocess.run([*TOOL, sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "ERROR SUMMARY: 0 errors" in done.stdout
