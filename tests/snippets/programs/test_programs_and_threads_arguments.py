# SPDX-License-Identifier: Apache-2.0
"""What a kernel finds in its arguments, and what it refuses."""

from pathlib import Path

import pytest
import torch
import triton.language as tl
from guards import Guarded, environment

from snippets.programs import programs_and_threads_arguments as arguments
from tests.processes import run_script


@pytest.mark.parametrize("value, dtype, found", [
    (7, "float64", 7.0), (-7, "float64", -7.0), (2**40 + 1, "float64", 2.0**40 + 1), (1, "float64", 1.0),
    (0, "float64", 0.0),
    (0.1, "float64", 0.10000000149011612), (0.1, "int32", 0.0), (2.75, "float16", 2.75), (None, "float64", -1.0),
])  # fmt: skip
def test_what_a_kernel_receives(device, value, dtype, found):
    assert arguments.received(value, getattr(tl, dtype), device=device) == found


def test_what_a_kernel_does_not_receive(device):
    with pytest.raises(Exception, match="str"):
        arguments.received("text", device=device)


def test_a_bool(device):
    try:
        assert arguments.received(True, device=device) == 1.0
    except ValueError as error:  # of the interpreter, seen in Triton 3.7.1
        assert device == "cpu" and "int1" in str(error)


@pytest.mark.parametrize("value", [7, 1, 0.5, None])
def test_stores_one_number(device, value):
    out = Guarded((1,), torch.float64, torch.device(device), before=8, after=8, fill=0x5A)
    arguments.arguments_kernel[(1,)](out.tensor, value, DTYPE=tl.float64)
    out.check("the result")
    assert out.tensor.item() == (-1 if value is None else value)


def run(device, **more):
    root = Path(arguments.__file__).parents[2]
    given = environment(device, PYTHONPATH=str(root), **more)
    return run_script(arguments.__file__, env=given, cwd=root)


def test_says_so_without_a_gpu():
    done = run("cuda", CUDA_VISIBLE_DEVICES="", HIP_VISIBLE_DEVICES="")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith("no GPU found; set TRITON_INTERPRET=1")


def test_prints(device, capsys):
    arguments.main()
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 8 and "given 0.1, stored as int32: 0" in said
