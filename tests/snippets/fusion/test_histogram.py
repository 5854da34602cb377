# SPDX-License-Identifier: Apache-2.0
"""Counts are those of torch.bincount, whatever shape, dtype, strides, bins and number of programs; what lies outside is
left out, nothing else is touched, and the order of the programs does not matter."""

import contextlib
from unittest import mock

import numpy as np
import pytest
import torch
from guards import Guarded, handed_out, recorded_accesses
from hypothesis import example, given
from hypothesis import strategies as st

from snippets.fusion import histogram as snippet
from snippets.fusion.histogram import each_forward, histogram, histogram_forward

LAYOUTS = {
    "contiguous": lambda t: t.clone(),
    "turned": lambda t: t.transpose(0, -1).contiguous().transpose(0, -1),
    "every other": lambda t: torch.stack([t, t], dim=-1).clone()[..., 0],
    "stride 0": lambda t: t[:1].clone().expand(t.shape) if len(t) else t,
}


def integers(shape, low, high, dtype, device, seed=0):
    x = torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed))
    info = torch.iinfo(dtype)
    return x.clamp(info.min, info.max).to(device, dtype)


def wanted(x, bins):
    x = x.flatten().long()
    return x[(x >= 0) & (x < bins)].bincount(minlength=bins)


@contextlib.contextmanager
def garbage_in_lanes_that_are_off():
    """In the interpreter: what is loaded where the mask is off and ``other`` is not given is 1, a bin that exists."""
    from triton.runtime.interpreter import interpreter_builder as builder

    load = builder.create_masked_load

    def noted(pointers, mask, other, *rest):
        if other is None:
            other = load(pointers, mask, None, *rest)
            other.data = np.ones_like(other.data)
        return load(pointers, mask, other, *rest)

    with mock.patch.object(builder, "create_masked_load", noted):
        yield


@contextlib.contextmanager
def nothing_but_bins():
    """In the interpreter: what ``tl.histogram`` is told to count is a bin; a GPU may count another value as one."""
    from triton.runtime.interpreter import interpreter_builder as builder

    count = builder.create_histogram

    def checked(data, bins, mask):
        values = data.data[np.broadcast_to(mask.data, data.data.shape).astype(bool)]
        assert ((values >= 0) & (values < bins)).all(), f"{values} are not all from 0 to {bins - 1}"
        return count(data, bins, mask)

    with mock.patch.object(builder, "create_histogram", checked):
        yield


@contextlib.contextmanager
def recorded_atomics():
    """In the interpreter: yield a list that receives the addresses, in bytes, of each atomic operation."""
    from triton.runtime.interpreter import interpreter_builder as builder

    found, rmw = [], builder.create_atomic_rmw

    def noted(op, pointers, value, mask, *rest):
        on = np.broadcast_to(mask.data, pointers.data.shape).astype(bool)
        found.append(pointers.data[on].astype(np.int64))
        return rmw(op, pointers, value, mask, *rest)

    with mock.patch.object(builder, "create_atomic_rmw", noted):
        yield found


@pytest.mark.long  # a GPU's kernels are compiled, for each block and dtype
@example((3, 40), 7, 16, 2, "turned", 0, torch.int32)
@example((300,), 256, 64, 3, "contiguous", 0, torch.uint8)
@example((5,), 0, 16, 1, "contiguous", 0, torch.int64)
@given(
    shape=st.tuples(st.integers(0, 9), st.integers(0, 40)) | st.tuples(st.integers(0, 200)) | st.just(()),
    bins=st.integers(0, 70) | st.sampled_from([128, 200, 256]),
    block=st.sampled_from([16, 64]),
    programs=st.integers(1, 5),
    layout=st.sampled_from(list(LAYOUTS)),
    seed=st.integers(0, 999),
    dtype=st.sampled_from(snippet.DTYPES),
)
def test_as_bincount(device, shape, bins, block, programs, layout, seed, dtype):
    x = integers(shape, -3, bins + 3, dtype, device, seed)
    x = LAYOUTS[layout](x) if shape else x
    off = garbage_in_lanes_that_are_off() if device == "cpu" else contextlib.nullcontext()
    with off:
        found = histogram_forward(x, bins, block, programs)
        assert found.dtype == torch.int64 and torch.equal(found, wanted(x, bins))
        assert torch.equal(each_forward(x, bins, block), found) and torch.equal(histogram(x, bins), found)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_far_outside(device, dtype):
    """Those that would be a bin if only some of their bits counted."""
    info = torch.iinfo(dtype)
    x = torch.tensor([1, info.min, info.max, info.min + 1, 2**31 - 1, -(2**31), 16, 17, -1], dtype=dtype, device=device)
    if dtype == torch.int64:
        x = torch.cat([x, torch.tensor([2**32, 2**32 + 1, -(2**32), 2**40], device=device)])
    with nothing_but_bins() if device == "cpu" else contextlib.nullcontext():
        for found in (histogram(x, 16), each_forward(x, 16)):
            assert found.tolist() == [0, 1, *[0] * 14]


def test_what_is_added_by_atomics():
    """For each bin that a program has found, one number; by the first step, one for each element in a bin."""
    x, out = torch.tensor([3, 1, 3, 3, 0, 3, 1, 9]), torch.zeros(4, dtype=torch.int64)
    for run, wanted in ((histogram_forward, [[1, 3], [0, 1, 3]]), (each_forward, [[3, 1, 3, 3], [0, 3, 1]])):
        with handed_out("zeros", out), recorded_atomics() as found:
            run(x, 4, block=4)
        assert [((at - out.data_ptr()) // 8).tolist() for at in found] == wanted


def test_the_most_bins(device):
    x = torch.arange(snippet.MOST_BINS, device=device).repeat(2)
    assert torch.equal(histogram(x, snippet.MOST_BINS), torch.full((snippet.MOST_BINS,), 2, device=device))


def test_each_element_is_read_once_and_nothing_else_is_touched(device):
    x = Guarded.around(integers((3, 15), 0, 40, torch.int32, device), before=64, after=64, fill=0xFF)
    out = Guarded((33,), torch.int64, device, before=64, after=64, fill=0)
    for run in (lambda: histogram_forward(x.tensor, 33, 16, 2), lambda: each_forward(x.tensor, 33, 16)):
        out.tensor.zero_()
        with handed_out("zeros", out.tensor):
            run()
        out.check("out"), x.check("x")
        assert torch.equal(out.tensor, wanted(x.tensor, 33))
    if device == "cpu":
        with recorded_accesses() as seen:
            histogram_forward(x.tensor, 33, 16, 2)
        loaded = np.sort(np.concatenate([found for op, found in seen if op == "load"]))
        assert ((loaded - x.tensor.data_ptr()) // 4).tolist() == list(range(45))


def test_any_number_and_order_of_programs_gives_the_same(device):
    x = integers((1000,), 0, 20, torch.int32, device)
    for programs in (1, 2, 7, 63, 200):
        assert torch.equal(histogram_forward(x, 20, 16, programs), wanted(x, 20))


@pytest.mark.parametrize("kernel", [snippet.histogram_kernel, snippet.each_kernel], ids=["histogram", "each"])
def test_offsets_are_computed_in_64_bits(kernel):
    x, out = torch.zeros(1, dtype=torch.int32), torch.zeros(4, dtype=torch.int64)
    block, n = 16, 2**31 + 5
    with recorded_accesses(first_program=(2**31 // block, 0, 0), memory=False) as seen:
        if kernel is snippet.each_kernel:
            kernel[(1,)](x, out, n, 0, BLOCK=block)
        else:
            kernel[(1,)](x, out, n, 2**31 // block + 1, 0, BINS=4, BLOCK=block, STAGES=1)
    ((_, found),) = seen
    assert ((found - x.data_ptr()) // 4).tolist() == [2**31 + i for i in range(5)]


def test_under_torch_compile(device):
    torch.compiler.reset()
    backend = "inductor" if device == "cuda" else "aot_eager"
    compiled = torch.compile(lambda x: histogram(x + 1, 9) * 2, fullgraph=True, backend=backend)
    for n in (30, 50):
        x = integers((n,), -3, 12, torch.int32, device, n)
        assert torch.equal(compiled(x), 2 * wanted(x + 1, 9))
    torch.library.opcheck(snippet.histogram_op, (x, 9))


# On a GPU alone


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", snippet.DTYPES)
@pytest.mark.parametrize("bins", [1, 7, 32, 100, 127, 1000, 2048])
def test_real_sizes(dtype, bins):
    for n in (1, 8191, 8193, 10**6 + 7):
        x = integers((n,), -5, bins + 5, dtype, "cuda")
        assert torch.equal(histogram(x, bins), wanted(x, bins))
        assert histogram(torch.zeros_like(x), bins)[0].item() == n


@pytest.mark.gpu
def test_more_than_2_to_the_31_elements():
    if torch.cuda.mem_get_info()[0] < 10e9:
        pytest.skip("needs 10 GB of free GPU memory")
    x = torch.ones(2**31 + 9000, dtype=torch.uint8, device="cuda")
    x[-5:] = 3
    assert histogram(x, 4).tolist() == [0, 2**31 + 8995, 0, 5]


@pytest.mark.gpu
def test_in_a_cuda_graph():
    x = integers((10**5,), 0, 99, torch.int32, "cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        histogram(x, 99)
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = histogram(x, 99)
    for _ in range(2):
        graph.replay()
        assert torch.equal(found, wanted(x, 99))
