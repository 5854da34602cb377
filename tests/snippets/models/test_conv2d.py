# SPDX-License-Identifier: Apache-2.0
"""The convolution: equal to torch's on ragged sizes, any strides and both layouts; nothing else is read or written."""

import contextlib
from unittest import mock

import pytest
import torch
from guards import Guarded, among_nans, check_each_once, check_inside, precisions_of_dots, recorded_accesses
from hypothesis import given, settings
from hypothesis import strategies as st

from snippets.models import conv2d as snippet
from snippets.models.conv2d import conv2d

LAYOUTS = {
    "contiguous": lambda x: among_nans(x.contiguous()),
    "channels_last": lambda x: among_nans(x.permute(0, 2, 3, 1).contiguous()).permute(0, 3, 1, 2),
    "turned": lambda x: among_nans(x.mT.contiguous()).mT,
    "gaps": lambda x: torch.stack([x, torch.full_like(x, torch.nan)], -1)[..., 0],
}


def served(device):
    return [dtype for dtype in snippet.DTYPES if device == "cuda" or dtype != torch.bfloat16]


def whole(*shape, seed=0, dtype=torch.float32, device="cpu"):
    """Small whole numbers, of which sums are exact in every dtype that is served."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-2, 3, shape, generator=generator).to(dtype).to(device)


def check(x, weight, stride, padding, layouts=("contiguous", "contiguous")):
    """Assert that the result is torch's, that only the tensors are read, and each element of it is stored once."""
    wanted = torch.nn.functional.conv2d(x.double(), weight.double(), stride=stride, padding=padding).to(x.dtype)
    x, weight = LAYOUTS[layouts[0]](x), LAYOUTS[layouts[1]](weight)
    out = Guarded(wanted.shape, x.dtype, x.device, before=64, after=256, fill=0x5A)
    with (
        recorded_accesses() if x.device.type == "cpu" else contextlib.nullcontext() as accesses,
        mock.patch.object(torch, "empty", return_value=out.tensor),
    ):
        assert conv2d(x, weight, stride=stride, padding=padding) is out.tensor
    assert torch.equal(out.tensor, wanted)
    out.check("out")
    if accesses is not None:
        check_each_once(accesses, "store", out=out.tensor)
        check_inside(accesses, "load", x=x, weight=weight)


@settings(max_examples=30)
@given(
    pictures=st.integers(0, 2), channels=st.integers(0, 20), filters=st.integers(0, 20),
    picture=st.tuples(st.integers(1, 9), st.integers(1, 9)), filter_=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    stride=st.integers(1, 3), padding=st.integers(0, 2),
    layouts=st.tuples(st.sampled_from([*LAYOUTS]), st.sampled_from([*LAYOUTS])), data=st.data(),
)  # fmt: skip
def test_equal_to_torch(device, pictures, channels, filters, picture, filter_, stride, padding, layouts, data):
    filter_ = [min(side, size + 2 * padding) for side, size in zip(filter_, picture, strict=True)]
    dtype = data.draw(st.sampled_from(served(device)))
    x = whole(pictures, channels, *picture, dtype=dtype, device=device)
    weight = whole(filters, channels, *filter_, seed=1, dtype=dtype, device=device)
    if not channels or not filters:  # which torch refuses
        out = conv2d(x, weight, stride=stride, padding=padding)
        assert out.shape[:2] == (pictures, filters) and not out.any()
    else:
        check(x, weight, stride, padding, layouts)


@pytest.mark.parametrize("dtype", snippet.DTYPES, ids=str)
@pytest.mark.parametrize(
    "pictures, channels, filters, side, stride",
    [(2, 70, 130, 13, 1), (3, 16, 5, 12, 2), (1, 130, 65, 17, 3)],
)
def test_several_blocks_of_each_kind(device, dtype, pictures, channels, filters, side, stride):
    if dtype not in served(device):
        pytest.skip("refused there, as the contract says")
    x = whole(pictures, channels, side, side + 1, dtype=dtype, device=device)
    weight = whole(filters, channels, 3, 3, seed=1, dtype=dtype, device=device)
    check(x, weight, stride, 1, ("channels_last", "channels_last"))


def test_the_result_lies_as_the_picture_does(device):
    x, weight = whole(2, 3, 5, 4, device=device), whole(6, 3, 3, 3, device=device)
    assert conv2d(x, weight).is_contiguous()
    last = conv2d(x.contiguous(memory_format=torch.channels_last), weight)
    assert last.is_contiguous(memory_format=torch.channels_last) and torch.equal(last, conv2d(x, weight))


def test_sums_are_kept_in_float32(device):
    for dtype in served(device):
        ones = torch.ones(1, 4096, 1, 1, dtype=dtype, device=device)  # in float16, 2048 + 1 is 2048
        assert conv2d(ones, ones).item() == 4096


def test_float32_is_multiplied_as_float32():
    with precisions_of_dots() as seen:
        conv2d(whole(1, 3, 4, 4), whole(2, 3, 3, 3))
    assert seen == {"IEEE"}


def test_pictures_beyond_2_31_elements():
    """The third picture begins at 2**31, and so does its result; of the memory around them nothing is touched."""
    apart = lambda: torch.empty(2**31 + 64, dtype=torch.float16).as_strided((3, 2, 4, 4), (2**30, 16, 4, 1))
    x, out, weight = apart(), apart(), whole(2, 2, 3, 3, dtype=torch.float16)
    x.copy_(whole(3, 2, 4, 4))
    with mock.patch.object(torch, "empty", return_value=out):
        conv2d(x, weight, padding=1)
    assert torch.equal(out.float(), torch.nn.functional.conv2d(x.float(), weight.float(), padding=1))


@pytest.mark.parametrize("name", ["x", "weight", "out"])
@pytest.mark.parametrize("last, refused", [(2**30 - 1, False), (2**30, True)])
def test_how_far_apart_the_elements_of_a_picture_may_be(name, last, refused):
    x = torch.empty(1, device="meta").as_strided((1, 2, 1, 1), (2**40, last, 1, 1))
    with pytest.raises(ValueError, match=rf"{name} of \(1, 2, 1, 1\)") if refused else contextlib.nullcontext():
        snippet.check_spans(**{name: x})


def test_as_many_programs_as_an_axis_takes():
    x, weight = torch.ones(1, 1, 1, 1), torch.ones(1, 1, 1, 1)
    with mock.patch.object(snippet, "conv2d_kernel") as kernel, mock.patch.object(torch, "empty", return_value=x):
        conv2d(x.expand(2**37 - 64, 1, 1, 1), weight)
        conv2d(x, weight.expand(2**16 * 64 - 64, 1, 1, 1))
        for given in ((x.expand(2**37 - 63, 1, 1, 1), weight), (x, weight.expand(2**16 * 64 - 63, 1, 1, 1))):
            with pytest.raises(ValueError, match="too many for one launch"):
                conv2d(*given)
    grids = [call.args[0] for call in kernel.__getitem__.call_args_list]
    assert grids == [(2**31 - 1, 1), (1, 2**16 - 1)]


@pytest.mark.parametrize(
    "dtype, shape, filters, blocks, warps",
    [
        (torch.float16, (1, 256, 28, 28), 256, (64, 128, 64), 4),
        (torch.float16, (1, 256, 128, 128), 128, (128, 128, 64), 8),
        (torch.float16, (1, 256, 256, 256), 256, (128, 256, 64), 8),
        (torch.bfloat16, (1, 64, 7, 7), 100, (64, 128, 64), 4),
        (torch.float32, (1, 3, 56, 56), 20, (64, 32, 16), 4),
    ],
)
def test_blocks_are_no_larger_than_due(dtype, shape, filters, blocks, warps):
    found = snippet.blocks_of(dtype, shape[2] * shape[3], filters, shape[1])
    stages = 4 if blocks[0] == 64 else 3
    assert found == blocks and snippet.options_of(*found[:2]) == {"num_warps": warps, "num_stages": stages}


def test_it_is_launched_where_the_picture_is(device):
    with mock.patch.object(torch.cuda, "device_of", wraps=torch.cuda.device_of) as device_of:
        conv2d(whole(1, 1, 1, 1, device=device), whole(1, 1, 1, 1, device=device))
    assert device_of.called, "or Triton launches on the current device, whatever the tensor's"


def test_what_is_printed(capsys):
    snippet.main()
    said = capsys.readouterr().out
    assert "    [14, 24, 30, 22]\n" in said and "    [14, 30]\n    [57, 99]\n" in said
    assert said.count(": equal to torch") == 4 and "NOT" not in said


def test_without_a_gpu_it_says_what_to_set(monkeypatch):
    monkeypatch.setattr(snippet, "conv2d_kernel", mock.Mock(spec=snippet.triton.JITFunction))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="TRITON_INTERPRET=1"):
        snippet.main()
