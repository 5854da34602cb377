# SPDX-License-Identifier: Apache-2.0
"""The function against PyTorch's own, its gradients, its operator, and what it refuses."""

import os

import pytest
import torch
from torch.nn.functional import rms_norm as expected

from rownorm import rms_norm
from rownorm.ops import MOST_COLUMNS, rms_norm_op

pytest.importorskip("triton")
SHAPES = [(1,), (3, 5), (2, 3, 64), (4, 1000), (1, 1024), (0, 8)]
# The interpreter computes with NumPy, which has no bfloat16: test that on a GPU.
DTYPES = [torch.float32, torch.float16]
if os.environ.get("TRITON_INTERPRET") != "1":
    DTYPES.append(torch.bfloat16)


def inputs(shape, device, dtype=torch.float32):
    """A pair of tensors that want gradients."""
    torch.manual_seed(0)
    x, weight = torch.randn(shape), torch.rand(shape[-1]) + 0.5
    return [each.to(device, dtype).requires_grad_() for each in (x, weight)]


def gradients(norm, function, tensors):
    """Of a sum in which each element counts differently."""
    out = function(norm, *tensors)
    scale = torch.linspace(-1, 1, out.numel(), device=out.device).view(out.shape)
    return torch.autograd.grad((out.float() * scale).sum(), tensors)


def reference(x, weight, eps=1e-6):
    return expected(x, x.shape[-1:], weight, eps)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_is_pytorchs(shape, dtype, device):
    x, weight = inputs(shape, device, dtype)
    wanted = reference(x.float(), weight.float()).to(dtype)
    torch.testing.assert_close(rms_norm(x, weight), wanted)


def test_is_served_by_the_kernel(device, monkeypatch):
    from rownorm import kernels

    calls = []
    launch = kernels.launch
    monkeypatch.setattr(kernels, "launch", lambda *given: calls.append(given) or launch(*given))
    rms_norm(*inputs((3, 5), device))
    assert len(calls) == 1
    rms_norm(*inputs((1, MOST_COLUMNS + 1), device))  # in PyTorch
    assert len(calls) == 1


def test_another_eps(device):
    x, weight = inputs((3, 5), device)
    torch.testing.assert_close(rms_norm(x, weight, 0.5), reference(x, weight, 0.5))


def test_rows_of_any_strides(device):
    x, weight = inputs((6, 40), device)
    for view in (x[:, ::2], x.t()[:, :5].t()[:, 3:23], x[:1, :20].expand(4, 20)):
        ours, theirs = (norm(view, weight[::2]) for norm in (rms_norm, reference))
        assert ours.is_contiguous()
        torch.testing.assert_close(ours, theirs)


# --8<-- [start:strided]
@pytest.mark.parametrize(
    "function",
    [
        lambda norm, x, weight: norm(x, weight),
        # The gradient that comes back is a part of a wider tensor.
        lambda norm, x, weight: torch.cat([norm(x, weight), x], -1),
        # And here one number, expanded: all of its strides are 0.
        lambda norm, x, weight: norm(x, weight).sum(),
    ],
    ids=["alone", "behind torch.cat", "behind sum"],
)
def test_gradients_are_pytorchs(function, device):
    tensors = inputs((3, 5, 20), device)
    ours, theirs = (
        gradients(norm, function, tensors) for norm in (rms_norm, reference)
    )
    torch.testing.assert_close(ours, theirs)
# --8<-- [end:strided]


# --8<-- [start:op]
@pytest.mark.parametrize("turned", [False, True], ids=["rows", "turned"])
def test_operator_keeps_its_promises(turned, device):
    x, weight = inputs((5, 5), device)
    arguments = (x.t() if turned else x, weight, 1e-6)
    torch.library.opcheck(rms_norm_op, arguments)


def test_compiles_into_one_graph(device):
    # Without a GPU, all of torch.compile but the code that it writes.
    backend = "inductor" if device == "cuda" else "aot_eager"
    x, weight = inputs((3, 20), device)
    tensors = (x, weight)
    around = lambda norm, x, weight: torch.relu(norm(2 * x, weight) + 1)
    compiled = torch.compile(
        lambda x, weight: around(rms_norm, x, weight),
        fullgraph=True, backend=backend,
    )  # fmt: skip
    ours = gradients(compiled, lambda norm, *given: norm(*given), tensors)
    theirs = gradients(reference, around, tensors)
    torch.testing.assert_close(ours, theirs)
# --8<-- [end:op]


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_on_a_gpu_that_is_not_the_current_one():
    x, weight = inputs((3, 20), "cuda:1")
    with torch.cuda.device(0):
        torch.testing.assert_close(rms_norm(x, weight), reference(x, weight))


def test_what_it_refuses(device):
    x, weight = inputs((3, 5), device)
    with pytest.raises(ValueError, match=r"got \(3, 5\) and \(4,\)"):
        rms_norm(x, weight[:4])
    with pytest.raises(ValueError, match=r"got \(\) and"):
        rms_norm(x[0, 0], weight[:1])
    with pytest.raises(ValueError, match="at least one column"):
        rms_norm(x[:, :0], weight[:0])
    with pytest.raises(ValueError, match=r"got torch\.float32 and torch\.float16"):
        rms_norm(x, weight.half())
    with pytest.raises(ValueError, match=r"got torch\.float64 and torch\.float64"):
        rms_norm(x.double(), weight.double())
    with pytest.raises(ValueError, match=r"one device; got .* and meta"):
        rms_norm(x, weight.to("meta"))
