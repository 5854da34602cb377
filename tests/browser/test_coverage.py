# SPDX-License-Identifier: Apache-2.0
"""What the model has, what it has not and says so, and that its tables are complete."""

import pytest
import triton.language as tl

import browser
from browser import coverage
from browser.modules import language_names

ELSEWHERE = {"math", "extra"}  # modules
HEAD = "import torch\nimport triton\nimport triton.language as tl\nfrom triton import jit\n"


def test_each_name_of_the_language_is_modeled_or_listed_as_not():
    have = set(language_names()) | ELSEWHERE
    assert sorted(set(tl.__all__) - have) == sorted(coverage.NOT_MODELED)
    assert have - set(tl.__all__) == {"item"}  # Triton has it, and does not list it


def test_each_method_and_test_of_a_block_and_a_dtype_is_modeled():
    from browser.block import tensor
    from browser.dtypes import float32

    assert [name for name in dir(tl.tensor) if not name.startswith("_") and not hasattr(tensor, name)] == []
    tests = [name for name in dir(tl.dtype) if name.startswith("is_") and "fp8e" not in name]
    assert [name for name in tests if not hasattr(float32, name)] == ["is_const", "is_dtype", "is_void"]


@pytest.mark.parametrize("name", coverage.NOT_MODELED)
def test_what_is_not_modeled_says_so(name):
    with browser.installed(), pytest.raises(NotImplementedError, match=rf"tl\.{name} is not modeled in the browser"):
        browser.load(f"{HEAD}\ntl.{name}", "asked.py")


@pytest.mark.parametrize(
    ("code", "error", "message"),
    [
        ("tl.mean", AttributeError, "module 'triton.language' has no attribute 'mean'"),
        ("torch.fft", NotImplementedError, "torch.fft is not modeled in the browser"),
        ("triton.compile", NotImplementedError, "triton.compile is not modeled in the browser"),
        ("torch.zeros(3, colour=1)", TypeError, "unexpected keyword argument 'colour'"),
        ("torch.zeros(3, device='cuda')", AssertionError, "Torch not compiled with CUDA enabled"),
        (
            "x = torch.ones(3, requires_grad=True); torch.exp(x).sum().backward()",
            NotImplementedError,
            "gradient of torch's exp",
        ),
    ],
)
def test_asking_for_more_raises_an_error_that_names_it(code, error, message):
    with browser.installed(), pytest.raises(error, match=message):
        browser.load(f"{HEAD}\n{code}", "asked.py")
