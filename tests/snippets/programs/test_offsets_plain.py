# SPDX-License-Identifier: Apache-2.0
"""The plain two-dimensional copy: right for any strides, inside of its tensors, and refused where 32 bits end."""

from pathlib import Path
from unittest import mock

import pytest
import torch
from copies import check_copy, noise
from guards import environment
from hypothesis import given, settings
from hypothesis import strategies as st

from snippets.programs import offsets_plain as snippet
from snippets.programs.offsets_plain import copy_matrix
from tests.processes import run_python

SOURCE = Path(snippet.__file__)
ROOT = SOURCE.parents[2]
DTYPES = (torch.bool, torch.uint8, torch.float16, torch.bfloat16, torch.float32, torch.int64, torch.complex64)


def check(x, **options):
    check_copy(x, copy_matrix, **options)


EXAMPLES = {
    "contiguous": lambda d: noise(3, 5, device=d),
    "wide": lambda d: noise(2, 9, device=d),
    "tall": lambda d: noise(9, 2, device=d),
    "transposed": lambda d: noise(3, 5, device=d).t(),
    "sliced": lambda d: noise(4, 12, device=d)[1:, 2:11:2],
    "expanded": lambda d: noise(1, 5, device=d).expand(3, 5),
    "one element": lambda d: noise(1, 1, device=d),
}


@pytest.mark.parametrize("make", EXAMPLES.values(), ids=EXAMPLES)
def test_any_strides(device, make):
    for block in ((2, 4), (4, 2), (1, 1), (16, 16)):
        check(make(device), block=block)


@settings(max_examples=60)
@given(
    shape=st.tuples(st.integers(0, 9), st.integers(0, 9)),
    slices=st.tuples(*[st.builds(slice, st.integers(0, 2), st.none(), st.integers(1, 3))] * 2),
    transposed=st.booleans(),
    dtype=st.sampled_from(DTYPES),
    block=st.tuples(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4, 8])),
    seed=st.integers(0, 999),
)
def test_copies_every_bit(device, shape, slices, transposed, dtype, block, seed):
    torch.manual_seed(seed)
    x = noise(*shape, dtype=dtype, device=device)[slices]
    check(x.t() if transposed else x, block=block)


def test_default_block(device):
    for x in (noise(65, 130, device=device), noise(70, 65, device=device).t()):
        check(x)


def test_no_gradient_is_promised_under_no_grad(device):
    with torch.no_grad():
        assert not copy_matrix(torch.ones(2, 3, device=device, requires_grad=True)).requires_grad


def test_empty(device):
    for shape in ((0, 3), (3, 0), (0, 0)):
        assert copy_matrix(torch.ones(shape, device=device)).shape == shape


@pytest.mark.parametrize("stride, served", [(2**30 - 1, True), (2**30, False)])
def test_offsets_end_where_32_bits_do(device, stride, served):
    if device == "cuda" and torch.cuda.mem_get_info()[0] < 4e9:
        pytest.skip("needs 4 GB of free GPU memory")
    buffer = torch.empty(2**31 + 16, dtype=torch.int8, device=device)  # promised by the system, hardly touched
    x = buffer.as_strided((3, 2), (stride, 1))
    x.copy_(torch.arange(6, device=device).view(3, 2))
    if served:
        assert copy_matrix(x, block=(2, 4)).tolist() == [[0, 1], [2, 3], [4, 5]]
    else:
        with pytest.raises(ValueError, match="offset 2147483649; it takes offsets below"):
            copy_matrix(x, block=(2, 4))


def test_tiles_across_are_counted_along_axis_0(device):
    with mock.patch.object(snippet, "copy_matrix_kernel") as kernel:
        copy_matrix(torch.zeros(3, 9, device=device), block=(2, 4))
    assert kernel.__getitem__.call_args == mock.call((3, 2))


@pytest.mark.parametrize("rows, block", [(3, (64, 256)), (65535, (1, 1)), (65536, (2, 1))])
def test_serves_what_is_at_the_limits_of_tiles(device, rows, block):
    with mock.patch.object(snippet, "copy_matrix_kernel") as kernel:
        copy_matrix(torch.zeros(1, 1, device=device).expand(rows, 1), block=block)
    assert kernel.__getitem__.call_args == mock.call((1, -(-rows // block[0])))


def test_serves_2_to_the_31_elements(device):
    snippet.check_matrix(torch.zeros(1, 1, dtype=torch.int8, device=device).expand(1, 2**31))


def test_compiled_refuses_the_cpu():
    call = "import torch; from snippets.programs.offsets_plain import copy_matrix; copy_matrix(torch.ones(3, 3))"
    done = run_python("-c", call, env=environment("cuda"), cwd=ROOT)
    assert "ValueError: x is on the CPU; move it to a GPU, or set TRITON_INTERPRET=1" in done.stderr
