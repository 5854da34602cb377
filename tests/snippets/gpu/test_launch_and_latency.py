# SPDX-License-Identifier: Apache-2.0
"""powers: right to float32's precision, and inside its tensors."""

import contextlib
from unittest import mock

import pytest
import torch
import triton
from guards import Guarded, as_if_compiled, check_each_once, recorded_accesses, without_memory
from hypothesis import given
from hypothesis import strategies as st

from snippets.gpu import launch_and_latency
from snippets.gpu.launch_and_latency import powers, powers_kernel


def reference(x, k):
    """By its definition, in float64."""
    return sum((x.double() ** power for power in range(1, k + 2)), torch.zeros_like(x, dtype=torch.float64))


def check(x, k, block=None, start=0):
    """Assert that the result is right to ``k`` roundings, and that each element is read and written once."""
    zones = {"before": 64 + start, "after": 2**11, "fill": 0xFF}
    x = Guarded.around(x, **zones)
    out = Guarded(x.tensor.shape, x.tensor.dtype, x.tensor.device, before=64, after=2**11, fill=0x5A)
    before = x.bytes.clone()
    record = x.tensor.device.type == "cpu"
    with recorded_accesses() if record else contextlib.nullcontext() as accesses:
        if block is None:
            with mock.patch.object(torch, "empty_like", return_value=out.tensor):
                assert powers(x.tensor, k) is out.tensor
        elif n := x.tensor.numel():
            powers_kernel[(triton.cdiv(n, block),)](x.tensor, out.tensor, n, k, BLOCK_SIZE=block)
    x.check("x"), out.check("the result")
    assert torch.equal(x.bytes, before), "x is only read"
    exact = reference(x.tensor, k)
    # No term cancels another where x is positive, and |x| ≤ 2 keeps what is carried along small.
    slack = (2 * k + 1) * torch.finfo(torch.float32).eps * reference(x.tensor.abs(), k)
    slack += torch.finfo(x.tensor.dtype).eps * exact.abs() + torch.finfo(x.tensor.dtype).tiny
    assert ((out.tensor.double() - exact).abs() <= slack).all()
    if record:
        check_each_once(accesses, "load", x=x.tensor)
        check_each_once(accesses, "store", out=out.tensor)


def served(device):
    return [dtype for dtype in launch_and_latency.DTYPES if device == "cuda" or dtype != torch.bfloat16]


@given(
    data=st.data(),
    n=st.integers(0, 70),
    k=st.sampled_from([0, 1, 2, 3, 5, 15, 16, 17]),
    block=st.sampled_from([4, 16, 32]),
    start=st.sampled_from([0, 1, 4]),
    seed=st.integers(0, 99),
)
def test_sums_of_powers(device, data, n, k, block, start, seed):
    dtype = data.draw(st.sampled_from(served(device)))
    generator = torch.Generator().manual_seed(seed)
    x = (torch.rand(n, generator=generator) * 2.4 - 1.2).to(dtype).to(device)
    check(x, k, block, start)


@pytest.mark.parametrize("dtype", launch_and_latency.DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(1,), (1023,), (1024,), (2, 1025), (), (3, 0)], ids=str)
def test_the_host_function(device, dtype, shape):
    if dtype not in served(device):
        pytest.skip("refused there, see below")
    torch.manual_seed(0)
    check((torch.rand(shape) * 1.9 - 0.9).to(dtype).to(device), 4)


def test_whole_numbers_are_exact(device):
    x = torch.tensor([-2.0, -1.0, 0.0, 1.0, 3.0], device=device)
    assert powers(x, 3).tolist() == [10.0, 0.0, 0.0, 4.0, 120.0]
    assert powers(x, 0).tolist() == x.tolist()


def test_offsets_past_2_to_the_31():
    x, out = torch.zeros(2, 1)  # the interpreter can run a late program without touching memory
    with recorded_accesses(first_program=(2**29, 0, 0), memory=False) as accesses:
        powers_kernel[(1,)](x, out, 2**31 + 3, 1, BLOCK_SIZE=4)
    offsets = [(at - tensor.data_ptr()) // 4 for (_, at), tensor in zip(accesses, (x, out), strict=True)]
    assert [list(at) for at in offsets] == [[2**31, 2**31 + 1, 2**31 + 2]] * 2


def test_serves_what_is_at_the_limits():
    with mock.patch.object(launch_and_latency, "powers_kernel") as kernel:
        powers(without_memory(1024 * (2**31 - 1)), 2**31 - 1)
        with pytest.raises(ValueError, match="elements are too many"):
            powers(without_memory(1024 * (2**31 - 1) + 1), 1)
    assert kernel.__getitem__.call_args_list == [mock.call((2**31 - 1,))]


def test_a_gpu_takes_bfloat16():
    with as_if_compiled(launch_and_latency, "powers_kernel") as on_gpu:
        launch_and_latency.check_arguments(on_gpu(3), 1)


def test_no_gradient_is_promised_under_no_grad(device):
    with torch.no_grad():
        assert not powers(torch.ones(3, device=device, requires_grad=True), 1).requires_grad
