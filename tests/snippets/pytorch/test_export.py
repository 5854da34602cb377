# SPDX-License-Identifier: Apache-2.0
"""A model with a kernel is exported, saved, and loaded where its operator is, and where it is not."""

import contextlib

import pytest
import torch
from guards import Guarded, check_each_once, recorded_accesses

from snippets.pytorch import export as snippet


def test_it_serves_any_number_of_rows(device):
    model = snippet.exported().module()
    for rows in (2, 7):
        x = torch.linspace(-5, 5, rows * 4, device=device).view(rows, 4)
        torch.testing.assert_close(model(x), (2 * (x + 1)).relu())


@pytest.mark.parametrize("layout", [lambda x: x.T, lambda x: x[:, ::2], lambda x: x[:0]])
def test_any_strides(device, layout):
    x = layout(torch.linspace(-5, 5, 24, device=device).view(4, 6))
    torch.testing.assert_close(snippet.double(x), 2 * x)
    torch.library.opcheck(snippet.double, (x,))


def test_who_loads_it_needs_the_operator(tmp_path, device):
    path = tmp_path / "model.pt2"
    torch.export.save(snippet.exported(), path)
    said = {name: snippet.loaded(path, register) for name, register in snippet.REGISTER.items()}
    assert said["with the operator"] == "result: [42.0, 42.0, 42.0, 42.0]"
    assert "failed to resolve torch.ops.course.double.default" in said["without it"]


@pytest.mark.parametrize("n", [1, 5, 16, 21])
def test_each_element_is_doubled_once(device, n):
    x = Guarded.around(torch.randn(n, device=device), before=64, after=64, fill=0xFF)
    out = Guarded((n,), torch.float32, device, before=64, after=64, fill=0xFF)
    with recorded_accesses() if device == "cpu" else contextlib.nullcontext() as accesses:
        snippet.double_kernel[(-(-n // 8),)](x.tensor, out.tensor, n, BLOCK=8)
    if accesses:
        check_each_once(accesses, "load", x=x.tensor)
        check_each_once(accesses, "store", out=out.tensor)
    out.check("out")
    assert torch.equal(out.tensor, 2 * x.tensor)
