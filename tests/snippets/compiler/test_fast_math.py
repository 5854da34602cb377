# SPDX-License-Identifier: Apache-2.0
"""Which operations the compiler approximates, that each kernel computes what its line says, and where to run it."""

import math
from unittest import mock

import pytest
import torch
from guards import Guarded, environment

from snippets.compiler import fast_math as module
from tests.processes import run_script

EXPECTED = {  # of x and y; the interpreter computes them as NumPy does
    "tl.exp(x)": lambda x, y: math.exp(x),
    "tl.sigmoid(x)": lambda x, y: 1 / (1 + math.exp(-x)),
    "x / y": lambda x, y: x / y,
    "tl.div_rn(x, y)": lambda x, y: x / y,
    "tl.sqrt(x)": lambda x, y: math.sqrt(x),
    "tl.sqrt_rn(x)": lambda x, y: math.sqrt(x),
    "tl.rsqrt(x)": lambda x, y: 1 / math.sqrt(x),
    "x * y + x": lambda x, y: x * y + x,
    "x * y + x, not fused": lambda x, y: x * y + x,
}


@pytest.fixture(scope="module")
def printed() -> dict[str, str]:
    done = run_script(module.__file__, env=environment("cuda"))  # it compiles, and needs no GPU
    assert done.returncode == 0, done.stderr
    at = max(map(len, module.OPERATIONS))
    return {line[:at].rstrip(): line[at:].strip() for line in done.stdout.splitlines()[2:]}


def test_exp_division_and_root_are_approximate_unless_asked_otherwise(printed):
    assert list(printed) == list(module.OPERATIONS)
    assert printed["tl.exp(x)"] == "mul.f32, ex2.approx.f32"
    assert printed["x / y"] == "div.full.f32" and printed["tl.div_rn(x, y)"] == "div.rn.f32"
    assert printed["tl.sqrt(x)"] == "sqrt.approx.ftz.f32" and printed["tl.sqrt_rn(x)"] == "sqrt.rn.f32"
    assert printed["tl.rsqrt(x)"] == "rsqrt.approx.ftz.f32"
    assert printed["tl.sigmoid(x)"].endswith("ex2.approx.f32, add.f32, div.full.f32")
    assert printed["libdevice.exp(x)"].endswith(" instructions")


def test_multiplication_and_addition_are_one_unless_asked_otherwise(printed):
    assert printed["x * y + x"] == "fma.rn.f32"
    assert printed["x * y + x, not fused"] == "mul.rn.f32, add.rn.f32"


@pytest.mark.parametrize("text", EXPECTED)
def test_each_operation_is_the_one_of_its_line(text, device):
    x = torch.linspace(0.25, 4, 128, device=device)
    y = torch.linspace(3, 0.5, 128, device=device)
    out = Guarded((128,), torch.float32, device, before=8, after=8, fill=0x5A)
    operation, _ = module.OPERATIONS[text]
    module.apply_kernel[(1,)](x, y, out.tensor, OPERATION=operation)
    out.check("the result")
    expected = [EXPECTED[text](*pair) for pair in zip(x.tolist(), y.tolist(), strict=True)]
    assert out.tensor.tolist() == pytest.approx(expected, rel=1e-6)


def test_the_exponential_of_libdevice_is_one():
    with mock.patch.object(module, "libdevice") as library:  # which the interpreter does not have
        module.exponential_of_libdevice.fn("x", "y")  # a call would leave the interpreter in triton.language
    assert library.mock_calls == [mock.call.exp("x")]


def test_refuses_the_interpreter(device):
    if device != "cpu":
        pytest.skip("kernels are compiled here")
    with pytest.raises(ValueError, match="TRITON_INTERPRET=1 is set"):
        module.instructions(module.divide)
