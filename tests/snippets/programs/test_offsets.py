# SPDX-License-Identifier: Apache-2.0
"""Offsets: right for any strides, inside of its tensors throughout, and past 2**31."""

from pathlib import Path
from unittest import mock

import pytest
import torch
import triton
from copies import check_copy, noise
from guards import environment, recorded_accesses
from hypothesis import given, settings
from hypothesis import strategies as st
from sanitizer import check_sanitized
from triton.tools.tensor_descriptor import TensorDescriptor

from snippets.programs import offsets as snippet
from snippets.programs.offsets import contiguous, copy_by_descriptor
from snippets.programs.offsets_bug import far_rows
from tests.processes import run_python

SOURCE = Path(snippet.__file__)
ROOT = SOURCE.parents[2]
DTYPES = (
    torch.bool, torch.int8, torch.uint8, torch.float8_e4m3fn, torch.float16, torch.bfloat16, torch.int16,
    torch.float32, torch.int32, torch.float64, torch.int64, torch.complex64,
)  # fmt: skip


def check(x, start=0, run=contiguous, **options):
    check_copy(x, run, start, **options)


EXAMPLES = {
    "contiguous": lambda d: noise(3, 5, device=d),
    "wide": lambda d: noise(2, 9, device=d),
    "tall": lambda d: noise(9, 2, device=d),
    "transposed": lambda d: noise(3, 5, device=d).t(),
    "sliced": lambda d: noise(4, 12, device=d)[1:, 2:11:2],
    "batch": lambda d: noise(3, 5, 6, device=d),
    "batch transposed": lambda d: noise(3, 5, 6, device=d).mT,
    "batch innermost": lambda d: noise(5, 6, 3, device=d).permute(2, 0, 1),
    "batch innermost, sliced": lambda d: noise(5, 6, 9, device=d).permute(2, 1, 0)[1::3],
    "batch of rows": lambda d: noise(5, 3, 6, device=d).transpose(0, 1),
    "batch sliced": lambda d: noise(5, 7, 9, device=d)[::2, 1:6, ::3],
    "expanded": lambda d: noise(2, 1, 5, device=d).expand(2, 3, 5),
    "one element": lambda d: noise(1, 1, 1, device=d),
    "a vector": lambda d: noise(11, device=d),
    "every second": lambda d: noise(11, device=d)[1::2],
    "a scalar": lambda d: noise(1, device=d)[0],
}


@pytest.mark.parametrize("flat", [True, False], ids=["flat", "axes"])
@pytest.mark.parametrize("make", EXAMPLES.values(), ids=EXAMPLES)
def test_any_strides(device, make, flat):
    check(make(device), block=(2, 4), flat=flat)


@pytest.mark.parametrize("inside", [False, True], ids=["from the host", "made inside"])
def test_descriptors(device, inside):
    allow_descriptors(device)
    for x in (noise(4, 8, device=device), noise(3, 12, device=device), noise(9, 24, device=device)[1::2, 4:16]):
        check(x, run=copy_by_descriptor, block=(2, 8), inside=inside)
        check(x, run=copy_by_descriptor, block=(4, 4), inside=inside)


def allow_descriptors(device):
    triton.set_allocator(lambda size, alignment, stream: torch.zeros(size, dtype=torch.int8, device=device))


# Offsets past 2**31: the interpreter can run a late program without touching memory.

FAR = {
    # tile (column, row, batch), arguments of the kernel: rows, columns, strides of x and of the result (batch, row);
    # the first offset to load and to store
    "row": ((0, 2**22, 0), (2**24, 4, 1, 2**10, 1, 1, 4), 2**23 * 2**10, 2**23 * 4),
    "row, stored": ((0, 2**12, 0), (2**14, 2**20, 1, 1, 1, 1, 2**20), 2**13, 2**13 * 2**20),
    "column": ((2**19, 0, 0), (1, 2**22, 1, 1, 2**12, 1, 1), 2**21 * 2**12, 2**21),
    "column, last of a wide row": ((2**30, 0, 0), (1, 2**33, 1, 2**33, 1, 2**33, 2**33), 2**32, 2**32),
    "batch": ((0, 0, 2**15), (2**5, 2**12, 2**20, 1, 1, 2**17, 2**12), 2**35, 2**15 * 2**17),
    "batch of small strides": ((0, 0, 2**15), (2**17, 1, 1, 1, 1, 2**17, 1), 2**15, 2**32),
}


def far(kernel, position, arguments, *more):
    """The first offset that one late program loads, and the first that it stores, in tiles of 2 x 4."""
    x, out = torch.zeros(2, 1, dtype=torch.int8)
    with recorded_accesses(first_program=position, memory=False) as accesses:
        kernel[(1,)](x, out, *arguments, *more, BLOCK_ROWS=2, BLOCK_COLUMNS=4)
    return [int(found[0]) - tensor.data_ptr() for (_, found), tensor in zip(accesses, (x, out), strict=True)]


@pytest.mark.parametrize("position, arguments, loaded, stored", FAR.values(), ids=FAR)
def test_offsets_past_2_to_the_31(position, arguments, loaded, stored):
    assert far(snippet.copy_kernel, position, arguments) == [loaded, stored]


def test_offsets_past_2_to_the_31_over_a_flat_grid():
    # 2**15 tiles across, 2**5 down, so program 2**25 begins batch 32, and 2**20 + 3 * 2**15 + 7 lies in batch 1.
    arguments = (2**6, 2**17, 2**30, 2**20, 1, 2**23, 2**17)
    assert far(snippet.copy_flat_kernel, (2**25, 0, 0), arguments, 2**5, 2**15) == [2**35, 32 * 2**23]
    inner = 3 * 2 * 2**20 + 7 * 4, 3 * 2 * 2**17 + 7 * 4
    position = 2**20 + 3 * 2**15 + 7, 0, 0
    assert far(snippet.copy_flat_kernel, position, arguments, 2**5, 2**15) == [2**30 + inner[0], 2**23 + inner[1]]


# Values


@st.composite
def strided(draw):
    """How to make a tensor of up to three dimensions: its storage, slices, and an order of the dimensions."""
    shape = draw(st.lists(st.integers(0, 9), min_size=1, max_size=3))
    slices = [slice(draw(st.integers(0, 2)), None, draw(st.integers(1, 3))) for _ in shape]
    return shape, tuple(slices), draw(st.permutations(range(len(shape))))


@settings(max_examples=120)
@given(
    how=strided(),
    dtype=st.sampled_from(DTYPES),
    block=st.tuples(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4, 8])),
    start=st.sampled_from([0, 8]),
    flat=st.booleans(),
    seed=st.integers(0, 999),
)
def test_copies_every_bit(device, how, dtype, block, start, flat, seed):
    shape, slices, order = how
    torch.manual_seed(seed)
    x = noise(*shape, dtype=dtype, device=device)[slices].permute(order)
    check(x, start=start, block=block, flat=flat)


@pytest.mark.parametrize("block", [(1, 1), (1, 16), (16, 1), (8, 8), (64, 64), (1, 1024), None], ids=str)
def test_blocks(device, block):
    for make in ("contiguous", "transposed", "batch innermost"):
        check(EXAMPLES[make](device), block=block)


def test_around_the_edges_of_a_block(device):
    for n_rows in (3, 4, 5, 8):
        for n_columns in (7, 8, 9, 16):
            check(noise(n_rows, n_columns, device=device), block=(4, 8))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes(device, dtype):
    check(noise(5, 6, dtype=dtype, device=device).t(), block=(2, 4))
    check(noise(3, 32, dtype=dtype, device=device)[:, :16], run=copy_by_descriptor, block=(2, 16))


def test_the_default_block_follows_the_strides():
    x = torch.empty(2, 2000, 3000)
    for wide in (x, x[0], x[0, 0], x[:, ::2], x[..., ::2]):
        assert snippet.default_block(wide) == (1, 1024)
    assert snippet.default_block(x.mT) == snippet.default_block(x[0].t()) == (64, 64)


def test_the_default_block_is_not_larger_than_the_matrix():
    for shape, along_rows, transposed in (
        ((), (1, 1), (1, 1)),
        ((5000, 3), (256, 4), (1024, 4)),
        ((3, 5000), (1, 1024), (4, 1024)),
        ((5, 5), (8, 8), (8, 8)),
        ((0, 9), (1, 16), (1, 16)),
        ((9, 0), (16, 1), (16, 1)),
    ):
        x = torch.empty(shape)
        assert snippet.default_block(x) == along_rows
        if len(shape) == 2 and 0 not in shape:
            assert snippet.default_block(torch.empty(shape[::-1]).t()) == transposed


def test_tiles_span_the_batch_where_neighbors_lie_along_it(device):
    x = noise(300, 70, 64, device=device).permute(2, 0, 1)  # strides (1, 4480, 64)
    with mock.patch.object(snippet, "copy_kernel") as kernel:
        for turned in (x, x.mT, x[:1], x[:1].expand(64, 300, 70)):
            contiguous(turned, flat=False)
    grids = [call.args[0] for call in kernel.__getitem__.call_args_list]
    # Tiles of 64 x 64: 70 columns across, 64 batch elements down, 300 rows; and transposed. The others: 8 x 128.
    assert grids == [(2, 1, 300), (5, 1, 70), (1, 38, 1), (1, 38, 64)]


def test_no_gradient_is_promised_under_no_grad(device):
    x = torch.ones(2, 3, device=device, requires_grad=True)
    with torch.no_grad():
        assert not contiguous(x).requires_grad and not copy_by_descriptor(torch.ones(4, 4, device=device)).requires_grad


def test_the_result_is_a_copy_also_of_what_is_contiguous(device):
    x = torch.ones(3, device=device)
    assert contiguous(x).data_ptr() != x.data_ptr()


def test_empty(device):
    for shape in ((0,), (3, 0), (0, 3), (2, 0, 3), (0, 2, 3)):
        assert contiguous(torch.ones(shape, device=device)).shape == shape
    for shape in ((0, 4), (4, 0)):
        assert copy_by_descriptor(torch.ones(shape, device=device)).shape == shape


def test_a_large_batch_is_served_by_the_flat_grid():
    x = torch.zeros(1, 1, 1).expand(65536, 1, 1)
    with mock.patch.object(snippet, "copy_flat_kernel") as kernel:
        assert contiguous(x).shape == x.shape
    assert kernel.__getitem__.call_args == mock.call((65536,))


def test_what_triton_itself_demands_of_a_descriptor():
    """What the page says of descriptors is what Triton says, so our refusals are not stricter than they must be."""
    x = torch.zeros(4, 12, dtype=torch.int32)
    TensorDescriptor.from_tensor(x, [2, 4])
    for wrong, message in (
        (x[:, ::2], "Last dimension must be contiguous"),
        (x[:, :5].contiguous(), "strides must be 16-byte aligned"),
        (x[:, 1:5], "base must be 16-byte aligned"),
    ):
        with pytest.raises(AssertionError, match=message):
            TensorDescriptor.from_tensor(wrong, [2, 4])


def test_compiled_refuses_the_cpu():
    call = "import torch; from snippets.programs.offsets import contiguous; contiguous(torch.ones(3))"
    done = run_python("-c", call, env=environment("cuda"), cwd=ROOT)
    assert "ValueError: x is on the CPU; move it to a GPU, or set TRITON_INTERPRET=1" in done.stderr


# The file as a script


def test_rows_2_to_the_31_apart(device):
    """Where offsets of 32 bits wrap around; see test_offsets_bug.py."""
    if device == "cuda" and torch.cuda.mem_get_info()[0] < 8e9:
        pytest.skip("needs 8 GB of free GPU memory")
    for flat in (True, False):
        copy = contiguous(far_rows(2**30, device), flat=flat)
        assert copy.tolist() == [[10 * i + j for j in range(1, 6)] for i in range(3)]


# On a GPU only


def gpu(test):
    return pytest.mark.gpu(pytest.mark.long(test))


@gpu
def test_refuses_the_cpu():
    with pytest.raises(ValueError, match="x is on the CPU; move it to a GPU"):
        contiguous(torch.ones(3))


@gpu
@pytest.mark.parametrize("itemsize, block", [(1, (256, 256)), (4, (128, 128)), (8, (64, 128)), (8, (8192, 1))], ids=str)
def test_the_largest_blocks_fit(itemsize, block):
    dtype = {1: torch.int8, 4: torch.int32, 8: torch.int64}[itemsize]
    x = noise(300, 500, dtype=dtype, device="cuda")
    for tensor in (x, x.t(), x[:, ::2]):
        check(tensor, block=block)


@gpu
def test_more_than_2_to_the_31_elements():
    if torch.cuda.mem_get_info()[0] < 8e9:
        pytest.skip("needs 8 GB of free GPU memory")
    x = torch.randint(-128, 128, (46342, 46342), dtype=torch.int8, device="cuda")  # 2**31 and a little
    for tensor in (x, x.t()):
        out = contiguous(tensor)
        for start in range(0, 46342, 4096):
            assert torch.equal(out[start : start + 4096], tensor[start : start + 4096])
        del out


@gpu
def test_allocates_its_result_and_nothing_else():
    x = torch.ones(512, 512, device="cuda").t()
    contiguous(x)  # compiles
    torch.cuda.synchronize()
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    contiguous(x)
    assert torch.cuda.memory_stats()["allocation.all.allocated"] - before == 1


@gpu
def test_compute_sanitizer_finds_nothing():
    check_sanitized(SOURCE)
