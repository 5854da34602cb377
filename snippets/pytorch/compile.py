# SPDX-License-Identifier: Apache-2.0
"""One Triton kernel under torch.compile, in three ways: a plain launch, ``triton_op`` and ``custom_op``.

The kernel is RMS norm of rows, ``out = x / sqrt(mean(x²) + eps) * weight``. All three ways return the same. They differ
in what torch.compile sees: the launch and its kernel, the same under a name of its own, or a closed box.

Shapes: ``x`` and the result ``(rows, columns)``, ``weight`` ``(columns,)``, contiguous.
Source: PyTorch, *Using User-Defined Triton Kernels with torch.compile*, and the documentation of ``torch.library``.

Run it on a GPU with ``python compile.py``: torch.compile runs Triton only there.
"""

import re

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import custom_op, register_autograd, triton_op, wrap_triton


# --8<-- [start:kernel]
@triton.jit
def rms_norm_kernel(
    x_ptr,
    weight_ptr,
    out_ptr,
    columns,
    eps,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(axis=0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    mask = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=mask, other=0.0)
    x = x.to(tl.float32)
    weight = tl.load(weight_ptr + column, mask=mask)
    scale = tl.rsqrt(tl.sum(x * x) / columns + eps)
    out = x * scale * weight
    tl.store(out_ptr + row * columns + column, out, mask=mask)
# --8<-- [end:kernel]


# --8<-- [start:plain]
def plain(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    """Normalize each row of ``x``, by a launch as in any other lesson.

    >>> plain(torch.tensor([[3.0, 4.0]]), torch.ones(2), 0.0)
    tensor([[0.8485, 1.1314]])
    """
    check_arguments(x, weight)
    out = torch.empty_like(x)
    rows, columns = x.shape
    block = triton.next_power_of_2(columns)
    rms_norm_kernel[(rows,)](x, weight, out, columns, eps, BLOCK=block)
    return out
# --8<-- [end:plain]


# --8<-- [start:triton_op]
@triton_op("course::rms_norm", mutates_args={})
def named(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    check_arguments(x, weight)
    out = torch.empty_like(x)
    rows, columns = x.shape
    block = triton.next_power_of_2(columns)
    wrap_triton(rms_norm_kernel)[(rows,)](
        x, weight, out, columns, eps, BLOCK=block
    )
    return out
# --8<-- [end:triton_op]


# --8<-- [start:custom_op]
@custom_op("course::rms_norm_closed", mutates_args=())
def closed(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    return plain(x, weight, eps)


@closed.register_fake
def _(x, weight, eps=1e-6):
    return torch.empty_like(x)
# --8<-- [end:custom_op]


# --8<-- [start:gradient]
def setup_context(ctx, inputs, output):
    x, weight, ctx.eps = inputs
    ctx.save_for_backward(x, weight)


def backward(ctx, grad):
    x, weight = ctx.saved_tensors
    wide = x.float()
    scale = torch.rsqrt(wide.square().mean(1, keepdim=True) + ctx.eps)
    normal, slope = wide * scale, grad.float() * weight.float()
    shared = (slope * normal).mean(1, keepdim=True)
    grad_x = scale * (slope - normal * shared)
    grad_weight = (grad.float() * normal).sum(0)
    return grad_x.to(x.dtype), grad_weight.to(weight.dtype), None


for op in ("course::rms_norm", "course::rms_norm_closed"):
    register_autograd(op, backward, setup_context=setup_context)
# --8<-- [end:gradient]

WAYS = {"a plain launch": plain, "triton_op": named, "custom_op": closed}


def check_arguments(x: Tensor, weight: Tensor) -> None:
    """Raise ``ValueError`` for arguments that the kernel would get wrong."""
    if x.ndim != 2 or weight.shape != x.shape[1:]:
        raise ValueError(
            f"x must be (rows, columns) and weight (columns,); got {tuple(x.shape)} and {tuple(weight.shape)}"
        )
    if weight.dtype != x.dtype or weight.device != x.device:
        given = f"{x.dtype} on {x.device} and {weight.dtype} on {weight.device}"
        raise ValueError(f"x and weight must have one dtype and device; got {given}")
    if not (x.is_contiguous() and weight.is_contiguous()):
        raise ValueError("x and weight must be contiguous; pass x.contiguous(), weight.contiguous()")


def in_torch(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    return torch.nn.functional.rms_norm(x, x.shape[1:], weight, eps)


# --8<-- [start:neighbors]
def with_neighbors(norm):
    """Return a function with neighbors that can be fused."""
    return lambda x, weight: torch.relu(norm(2 * x, weight) + 1)
# --8<-- [end:neighbors]


# --8<-- [start:kernels_of]
def kernels_of(function, *inputs) -> list[str]:
    """Return the kernels and ops that a compiled function calls, in their order."""
    from torch._inductor.utils import run_and_get_code

    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True)
    _, (code, *_) = run_and_get_code(compiled, *inputs)
    return called_in(code)


def called_in(code: str) -> list[str]:
    """Return what the code that torch.compile wrote calls.

    >>> called_in("        triton_poi_fused_mul_0.run(a, b)\\n        buf1 = torch.ops.course.norm.default(buf0)")
    ['triton_poi_fused_mul_0', 'torch.ops.course.norm']
    """
    pattern = r"(?m)^ +(?:\w+ = )?(\w+)\.run\(|^ +(?:\w+ = )?(torch\.ops\.course\.\w+)"
    return [kernel or op for kernel, op in re.findall(pattern, code)]
# --8<-- [end:kernels_of]


def graphs_for(function, weight, sizes) -> int:
    """Return how many graphs torch.compile makes for inputs of these numbers of rows."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(function, fullgraph=True)
    for rows in sizes:
        compiled(torch.ones(rows, len(weight), device=weight.device, dtype=weight.dtype), weight)
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


def gradients_agree(norm, x, weight) -> bool:
    """Return whether the compiled gradients are torch's."""
    torch._dynamo.reset()
    found = []
    for function in (torch.compile(with_neighbors(norm), fullgraph=True), with_neighbors(in_torch)):
        inputs = [each.detach().clone().requires_grad_() for each in (x, weight)]
        found.append(torch.autograd.grad(function(*inputs).square().sum(), inputs))
    return all(torch.allclose(a, b, rtol=1e-3, atol=1e-3) for a, b in zip(*found, strict=True))


# --8<-- [start:graph]
def captured(norm, x, weight):
    """Return a CUDA graph of a call, and the tensor that each replay writes its result to."""
    norm(x, weight)  # compile first: a capture can't wait for that
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = norm(x, weight)
    return graph, out
# --8<-- [end:graph]


def replays(norm, x, weight) -> bool:
    """Return whether a replay computes from what its input holds by then."""
    x = x.clone()
    graph, out = captured(norm, x, weight)
    x.mul_(-3).add_(1)
    graph.replay()
    return torch.allclose(out, in_torch(x, weight), rtol=1e-4, atol=1e-4)


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; torch.compile runs Triton only on one")
    random = torch.Generator("cuda").manual_seed(0)
    x = torch.randn(256, 1024, device="cuda", generator=random)
    weight = torch.rand(1024, device="cuda", generator=random)
    wanted = with_neighbors(in_torch)(x, weight)
    for name, norm in WAYS.items():
        print(f"## {name}")
        torch._dynamo.reset()
        got = torch.compile(with_neighbors(norm), fullgraph=True)(x, weight)
        print(f"{name}, as torch:", torch.allclose(got, wanted, rtol=1e-4, atol=1e-4))
        kernels = kernels_of(with_neighbors(norm), x, weight)
        print(f"{name}, calls:", ", ".join(kernels))
        print(f"{name}, number of calls:", len(kernels))
        print(f"{name}, graphs:", graphs_for(with_neighbors(norm), weight, (64, 128, 256, 300)))
        print(f"{name}, replayed from a CUDA graph, as torch:", replays(norm, x, weight))
        try:
            print(f"{name}, gradients as torch's:", gradients_agree(norm, x, weight))
        except RuntimeError as error:
            print(f"{name}, gradients:", str(error).strip().splitlines()[0])
    print("## torch's own")
    kernels = kernels_of(with_neighbors(in_torch), x, weight)
    print("torch's own, calls:", ", ".join(kernels))
    print("torch's own, number of calls:", len(kernels))


if __name__ == "__main__":
    main()
