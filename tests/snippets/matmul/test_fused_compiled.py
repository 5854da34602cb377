# SPDX-License-Identifier: Apache-2.0
"""What compiled epilogues hold: counts that can be told by hand, without a GPU."""

from pathlib import Path

import pytest
import torch
from guards import environment

from snippets.matmul import fused_compiled
from snippets.matmul.fused import ACTIVATIONS, in_torch
from tests.processes import run_code

ROOT = str(Path(fused_compiled.__file__).parents[2])


def test_compiled_without_a_gpu():
    """relu is one instruction; a stage has two tiles of 64 x 64 and 8 bytes; half a tile to store, half the buffer."""
    probe = """
from snippets.matmul.fused_compiled import *
print(instructions("relu"), instructions(None))
plain, ours = instructions("gelu", plainly=True), instructions("gelu")
print(plain[0] > ours[0], plain[1], ours[1])
small = Config(64, 64, 64, num_warps=4, num_stages=2)
two, three = (in_parts(small._replace(num_stages=stages), "relu") for stages in (2, 3))
print(two.spilled, three.shared - two.shared, in_parts(small._replace(parts=2), "relu").shared - two.shared)
"""
    env = environment("cuda", PYTHONPATH=ROOT)
    done = run_code(probe, env=env, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "(1.0, 0.0) (0.0, 0.0)",
        "True 1.0 1.0",
        f"0 {2 * 64 * 64 * 2 + 8} {-64 * 32 * 2}",
    ]


def test_compiling_refuses_the_interpreter():
    with pytest.raises(ValueError, match="TRITON_INTERPRET=1 is set"):
        fused_compiled.instructions("relu")


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize("plainly", [False, True])
@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
def test_both_ways_bend_alike(device, activation, plainly):
    x = torch.linspace(-20, 20, 64, device=device)
    out = torch.full((66,), torch.nan, device=device)
    fused_compiled.bend_kernel[(1,)](x, out[1:], activation, plainly, 64)
    torch.testing.assert_close(out[1:65].double(), in_torch(activation)(x.double()), rtol=3e-6, atol=2e-6)
    assert out[0].isnan() and out[65].isnan()
