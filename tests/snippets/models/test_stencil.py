# SPDX-License-Identifier: Apache-2.0
"""The blur: torch's mean of nine, on any size of picture and tile; nothing outside of the picture is read."""

import contextlib
from unittest import mock

import pytest
import torch
from guards import Guarded, among_nans, check_each_once, check_inside, handed_out, recorded_accesses
from hypothesis import given, settings
from hypothesis import strategies as st

from snippets.models import stencil as module
from snippets.models.stencil import blur


def picture(height, width, device="cpu", dtype=torch.float32, seed=0):
    return torch.randn(height, width, generator=torch.Generator().manual_seed(seed)).to(device, dtype)


def wanted(x):
    return torch.nn.functional.avg_pool2d(x.double()[None], 3, stride=1, padding=1)[0]


@settings(max_examples=30)
@given(
    height=st.integers(1, 20), width=st.integers(1, 20), rows=st.sampled_from([1, 4, 16]),
    columns=st.sampled_from([1, 4, 16]), wider=st.booleans(), dtype=st.sampled_from([torch.float32, torch.float16]),
)  # fmt: skip
def test_as_torch(device, height, width, rows, columns, wider, dtype):
    x = among_nans(picture(height, width + 3 * wider, device, dtype))
    if wider:
        x[:, width:] = torch.nan
        x = x[:, :width]
    out = Guarded((height, width), dtype, device, before=64, after=64, fill=0x5A)
    seen = recorded_accesses() if device == "cpu" else contextlib.nullcontext()
    with handed_out("empty", out.tensor), seen as accesses:
        assert blur(x, rows=rows, columns=columns) is out.tensor
    assert torch.allclose(out.tensor.double(), wanted(x), atol=1e-6 if dtype == torch.float32 else 2e-3)
    out.check("out")
    if device == "cpu":
        check_each_once(accesses, "store", out=out.tensor)
        check_inside(accesses, "load", x=x)


def test_counts_are_those_of_a_program_in_the_middle():
    x = picture(24, 24)
    for rows, columns in ((4, 8), (8, 8), (1, 1)):
        program = (24 // columns // 2, 24 // rows // 2, 0)
        with recorded_accesses(first_program=program) as accesses:
            module.blur_kernel[(1,)](x, torch.empty(24, 24), 24, 24, 24, 24, ROWS=rows, COLUMNS=columns)
        loads = [found for op, found in accesses if op == "load"]
        different = {int(address) for found in loads for address in found.flatten()}
        expected = sum(found.size for found in loads), len(different), rows * columns
        assert module.reads(3, rows, columns) == expected


def test_rows_beyond_2_31_elements():
    x = torch.zeros(64)
    with recorded_accesses(first_program=(0, 4, 0), memory=False) as accesses:
        module.blur_kernel[(1,)](x, x, 20, 4, 2**29, 2**29, ROWS=4, COLUMNS=4)
    for op in ("load", "store"):
        reached = [(found.max().item() - x.data_ptr()) // 4 for kind, found in accesses if kind == op and found.size]
        assert max(reached) == 19 * 2**29 + 3


def test_nothing_to_do(device):
    assert blur(picture(0, 5, device)).shape == (0, 5) and blur(picture(5, 0, device)).shape == (5, 0)


def test_as_many_programs_as_an_axis_takes():
    x = torch.ones(1, 1).expand(2**16, 1)
    with mock.patch.object(module, "blur_kernel") as kernel:
        blur(x[1:], rows=1)
        with pytest.raises(ValueError, match="65536 rows, too many for tiles of 1"):
            blur(x, rows=1)
    assert kernel.__getitem__.call_args.args[0] == (1, 2**16 - 1)


def test_what_is_printed(capsys):
    module.main()
    said = capsys.readouterr().out
    assert " 0  0  0  0  2  2  3  1" in said and said.count(": as torch") == 3 and "NOT" not in said
    assert "4 × 4: 9 loads and 2.25 elements for each result" in said


def test_without_a_gpu_it_says_what_to_set(monkeypatch):
    monkeypatch.setattr(module, "blur_kernel", mock.Mock(spec=module.triton.JITFunction))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="TRITON_INTERPRET=1"):
        module.main()


# On a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-6), (torch.float16, 2e-3), (torch.bfloat16, 2e-2)])
def test_right_gpu(dtype, tolerance):
    for height, width in ((1000, 1000), (1, 3001), (3001, 1), (4096, 512)):
        x = picture(height, width, "cuda", dtype)
        assert torch.allclose(blur(x).double(), wanted(x), atol=tolerance)


@pytest.mark.gpu
def test_more_than_2_31_elements_gpu():
    x = torch.zeros(65536, 32768 + 64, device="cuda", dtype=torch.bfloat16)
    x[-3:, -5:] = 9
    assert x.numel() > 2**31
    out = blur(x)
    assert torch.equal(out[-4:, -8:], blur(x[-5:, -9:].contiguous())[1:, 1:]) and not out[:-4].any()
