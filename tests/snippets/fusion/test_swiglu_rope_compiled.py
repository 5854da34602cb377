# SPDX-License-Identifier: Apache-2.0
"""What torch.compile is asked to write computes what our kernels do; what it wrote is counted rightly."""

from pathlib import Path

import pytest
import torch
from guards import environment

from recorder.printed import numbers, sections
from snippets.fusion import rope, swiglu
from snippets.fusion import swiglu_rope_compiled as snippet
from tests.processes import run_script

SOURCE = Path(snippet.__file__)
ROOT = SOURCE.parents[2]


@pytest.fixture(scope="module")
def printed():
    # One thread: a pool of processes would import torch once more in each, for three kernels.
    env = environment("cuda", PYTHONPATH=str(ROOT), TORCHINDUCTOR_COMPILE_THREADS="1")
    done = run_script(SOURCE, env=env)
    assert done.returncode == 0, done.stderr
    return sections(done.stdout)


def test_modules_compute_what_our_kernels_do(device):
    x = torch.randn(3, 8, generator=torch.Generator().manual_seed(0)).to(device)
    assert torch.allclose(snippet.SwiGLU()(x), swiglu.swiglu(x))
    q, k = x[:, None].repeat(1, 2, 1), x[:, None]
    cos, sin = rope.rope_tables(3, 8, device=device)
    found = snippet.RoPE()(q, k, cos.repeat(1, 2), sin.repeat(1, 2))
    for a, b in zip(found, rope.rope(q, k, cos, sin), strict=True):
        assert torch.allclose(a, b, atol=1e-6)


def test_swiglu_is_one_kernel_that_reads_each_half_once(printed):
    loads = [line for line in printed["SwiGLU"].splitlines() if "tl.load(" in line]
    assert len(loads) == 2 and "1024 + x0" in loads[1] and "1024 + x0" not in loads[0]
    counted = numbers(printed["numbers"])
    assert counted["SwiGLU, kernels"] == 1 and counted["SwiGLU, loads of the input in one"] == 2
    assert counted["SwiGLU, stores in one"] == printed["SwiGLU"].count("tl.store(") == 1


def test_rope_is_two_kernels_each_of_which_reads_an_element_twice(printed):
    """Once for itself, once for its partner, which is loaded by one of two lines."""
    loads = [line for line in printed["RoPE"].splitlines() if "tl.load(in_ptr0" in line]
    own, *partner = loads
    assert "None)" in own and len(partner) == 2 and not any("None)" in line for line in partner)
    counted = numbers(printed["numbers"])
    assert counted["RoPE, kernels"] == 2 and counted["RoPE, loads of the input in one"] == 3
    assert counted["RoPE, stores in one"] == 1
