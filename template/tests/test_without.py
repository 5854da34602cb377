# SPDX-License-Identifier: Apache-2.0
"""What the package does without a GPU, without Triton, and with too old a torch: each in a Python of its own."""

import os
import subprocess
import sys

USE = """
x, weight = torch.randn(3, 5), torch.rand(5)
out = rownorm.rms_norm(x, weight)
wanted = torch.nn.functional.rms_norm(x, (5,), weight, 1e-6)
torch.testing.assert_close(out, wanted)
"""
# --8<-- [start:without]
WITHOUT = "import sys; sys.modules['triton'] = None"  # can't be imported


def python(*lines, interpret="0"):
    """Run lines in a new process; return its status and what it said."""
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        env=os.environ | {"TRITON_INTERPRET": interpret},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stderr


def test_works_on_a_cpu_without_triton():
    assert python(WITHOUT, "import rownorm, torch", USE) == (0, "")


def test_says_that_the_kernel_needs_triton():
    lines = WITHOUT, "import rownorm, torch", USE
    status, said = python(*lines, interpret="1")
    assert status == 1 and "rownorm's kernel needs Triton" in said
# --8<-- [end:without]


def test_importing_it_and_a_call_on_a_cpu_load_no_kernel():
    check = "import sys; assert 'rownorm.kernels' not in sys.modules"
    assert python("import rownorm, torch", check, USE, check) == (0, "")


def test_refuses_a_torch_that_is_too_old():
    old = "import torch; del torch.library.custom_op; torch.__version__ = '2.3.1'"
    status, said = python(old, "import rownorm")
    assert status == 1 and "rownorm needs torch 2.4 or newer" in said and "this is torch 2.3.1" in said
