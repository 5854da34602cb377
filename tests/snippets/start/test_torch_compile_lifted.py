# SPDX-License-Identifier: Apache-2.0
"""Both kernels agree with torch, stay inside their tensors, and refuse what they cannot serve."""

import contextlib
from unittest import mock

import pytest
import torch
from guards import Guarded, as_if_compiled, check_each_once, check_inside, recorded_accesses
from hypothesis import given
from hypothesis import strategies as st

from snippets.start import torch_compile_lifted as snippet


def random(rows, columns, device):
    numbers = torch.Generator().manual_seed(rows * columns)
    h, weight = torch.randn(rows, columns, generator=numbers), torch.rand(columns, generator=numbers)
    return h.to(device), weight.to(device)


@pytest.mark.parametrize("rows", [1, 8, 32, 64])  # 64: half of the lanes are masked off
def test_lifted_writes_over_its_input_and_nothing_else(device, rows):
    h, weight = random(32, 256, device)
    guarded = Guarded.around(h, before=64, after=64, fill=0xFF)
    with recorded_accesses() if device == "cpu" else contextlib.nullcontext() as accesses:
        assert snippet.lifted(guarded.tensor, weight, rows=rows) is guarded.tensor
    guarded.check("h")
    if accesses is not None:
        check_inside(accesses, "load", h=guarded.tensor, weight=weight)
        check_each_once(accesses, "store", h=guarded.tensor)
    expected = snippet.in_torch(h, weight, torch.relu)
    torch.testing.assert_close(guarded.tensor.double(), expected, rtol=1e-5, atol=1e-6)


@given(rows=st.integers(0, 20), columns=st.integers(1, 70), step=st.sampled_from([1, 2, 8]))
def test_own_agrees_with_torch_at_any_size(device, rows, columns, step):
    h, weight = random(rows, columns, device)
    inputs = [Guarded.around(tensor, before=64, after=64, fill=0xFF) for tensor in (h, weight)]
    out = Guarded(h.shape, h.dtype, h.device, before=64, after=64, fill=0xFF)
    with (
        mock.patch.object(torch, "empty_like", return_value=out.tensor),
        recorded_accesses() if device == "cpu" else contextlib.nullcontext() as accesses,
    ):
        result = snippet.rms_norm_silu(*(guarded.tensor for guarded in inputs), rows=step)
    out.check("the result")
    if accesses is not None:
        check_inside(accesses, "load", h=inputs[0].tensor, weight=inputs[1].tensor)
        if rows:
            check_each_once(accesses, "store", out=out.tensor)
    expected = snippet.in_torch(h, weight, torch.nn.functional.silu)
    torch.testing.assert_close(result.double(), expected, rtol=1e-5, atol=1e-6)


def test_refuses_other_sizes(device):
    with pytest.raises(ValueError, match="compiled for 32 rows of 256"):
        snippet.lifted(*random(31, 256, device))
    with pytest.raises(ValueError, match="at most 2"):
        snippet.rms_norm_silu(*random(1, 2**14 + 1, device))


def test_refuses_the_cpu_when_compiled():
    with as_if_compiled(snippet, "rms_norm_silu_kernel"), pytest.raises(ValueError, match="move it to a GPU"):
        snippet.rms_norm_silu(*random(2, 3, "cpu"))


def test_prints_that_all_agree(capsys):
    snippet.main()
    *agree, refused = capsys.readouterr().out.splitlines()
    assert len(agree) == 3 and all(line.endswith(": True") for line in agree) and "got (5, 100)" in refused
