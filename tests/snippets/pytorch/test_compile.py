# SPDX-License-Identifier: Apache-2.0
"""Three ways into torch.compile: each gives what torch gives, with its gradients; and what the compiler sees of it."""

import pytest
import torch

from snippets.pytorch import compile as snippet

interpreted = not torch.cuda.is_available()


def inputs(device, rows=5, columns=40, dtype=torch.float32):
    random = torch.Generator().manual_seed(rows * columns)
    x = torch.randn(rows, columns, generator=random)
    return x.to(device, dtype), torch.rand(columns, generator=random).to(device, dtype)


@pytest.mark.parametrize("columns", [1, 40, 64, 513])
@pytest.mark.parametrize("norm", [snippet.plain, snippet.closed], ids=["plain", "custom_op"])
def test_a_row_is_normalized(device, norm, columns):
    x, weight = inputs(device, columns=columns)
    torch.testing.assert_close(norm(x, weight), snippet.in_torch(x, weight))


@pytest.mark.skipif(not interpreted, reason="aot_eager can't trace into a compiled plain launch")
def test_the_closed_op_is_traced_and_has_gradients():
    x, weight = inputs("cpu")
    torch.library.opcheck(snippet.closed, (x.clone().requires_grad_(), weight.clone().requires_grad_()))
    found = []
    compiled = torch.compile(snippet.with_neighbors(snippet.closed), backend="aot_eager", fullgraph=True)
    for function in (compiled, snippet.with_neighbors(snippet.in_torch)):
        given = [each.clone().requires_grad_() for each in (x, weight)]
        found.append(torch.autograd.grad(function(*given).square().sum(), given))
    for ours, torchs in zip(*found, strict=True):
        torch.testing.assert_close(ours, torchs, rtol=1e-4, atol=1e-4)


@pytest.mark.gpu
@pytest.mark.parametrize("name", snippet.WAYS)
def test_compiled_it_is_what_torch_gives(name):
    x, weight = inputs("cuda", 8, 512)
    torch._dynamo.reset()
    got = torch.compile(snippet.with_neighbors(snippet.WAYS[name]), fullgraph=True)(x, weight)
    torch.testing.assert_close(got, snippet.with_neighbors(snippet.in_torch)(x, weight), rtol=1e-4, atol=1e-4)
    assert snippet.replays(snippet.WAYS[name], x, weight)
    if name == "a plain launch":
        with pytest.raises(RuntimeError, match="does not require grad"):
            snippet.gradients_agree(snippet.WAYS[name], x, weight)
    else:
        assert snippet.gradients_agree(snippet.WAYS[name], x, weight)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, weight: (x[0], weight), r"x must be \(rows, columns\)"),
        (lambda x, weight: (x, weight[1:]), r"and weight \(columns,\); got \(5, 40\) and \(39,\)"),
        (lambda x, weight: (x, weight.double()), r"one dtype and device; got torch\.float32 .* torch\.float64"),
        (lambda x, weight: (x[:, ::2], weight[::2]), r"must be contiguous; pass x\.contiguous\(\)"),
    ],
)
def test_what_the_kernel_would_get_wrong_is_refused(device, change, message):
    with pytest.raises(ValueError, match=message):
        snippet.plain(*change(*inputs(device)))
