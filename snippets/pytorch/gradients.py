# SPDX-License-Identifier: Apache-2.0
"""A kernel's gradient in a training loop: strides, in-place stores, autocast, checkpointing, torch.func, two ranks.

``scale_rows`` multiplies each column by a number, with a backward of its own. Beside it stand the same with the faults
that people ship: a backward that takes its gradient for contiguous, one that launches its kernel directly, and a kernel
that writes over its input unannounced. Each passes what usually tests it, and then fails.

Shapes: ``x`` ``(rows, columns)``, ``weight`` ``(columns,)``. The gradients are ``grad * weight`` and
``(grad * x).sum(0)``.
Source: PyTorch, *Extending torch.func with autograd.Function*, *torch.utils.checkpoint* and *DistributedDataParallel*.

Run it on a GPU with ``python gradients.py``, or with ``TRITON_INTERPRET=1 python gradients.py`` in the interpreter.
"""

import os
import socket
import subprocess
import sys
from functools import partial

import torch
import triton
import triton.language as tl
from torch import Tensor, distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.checkpoint import checkpoint

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"


# --8<-- [start:kernel]
@triton.jit
def scale_kernel(
    x_ptr,
    weight_ptr,
    out_ptr,
    columns,
    x_row,
    x_column,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(axis=0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    mask = column < columns
    x = tl.load(x_ptr + row * x_row + column * x_column, mask=mask)
    weight = tl.load(weight_ptr + column, mask=mask)
    tl.store(out_ptr + row * columns + column, x * weight, mask=mask)
# --8<-- [end:kernel]


def scaled(x: Tensor, weight: Tensor, strides: tuple[int, int]) -> Tensor:
    rows, columns = x.shape
    dtype = torch.result_type(x, weight)  # under autocast they may differ
    out = torch.empty(x.shape, device=x.device, dtype=dtype)
    block = triton.next_power_of_2(columns)
    scale_kernel[(rows,)](x, weight, out, columns, *strides, BLOCK=block)
    return out


# --8<-- [start:function]
class ScaleRows(torch.autograd.Function):
    @staticmethod
    def forward(x, weight):
        return scaled(x, weight, x.stride())

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        # By the function itself, not by a launch: torch.func hands over
        # tensors that only a function can unwrap.
        return ScaleRows.apply(grad, weight), (grad * x).sum(0)
# --8<-- [end:function]


# --8<-- [start:bug]
class StridesBug(ScaleRows):
    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        # Who says that the rows of ``grad`` follow one another?
        return scaled(grad, weight, (grad.shape[1], 1)), (grad * x).sum(0)
# --8<-- [end:bug]


# --8<-- [start:launch]
class LaunchBug(ScaleRows):
    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return scaled(grad, weight, grad.stride()), (grad * x).sum(0)
# --8<-- [end:launch]


def in_torch(x: Tensor, weight: Tensor) -> Tensor:
    return x * weight


# --8<-- [start:uses]
USES = {
    "(out * factor).sum()": lambda out: (out * factor_of(out)).sum(),
    "out.square().sum()": lambda out: out.square().sum(),
    "out.sum()": lambda out: out.sum(),
    "torch.cat((out, x), 1)": lambda out: (cat_of(out) * factor_of(out, 2)).sum(),
    "out.t()": lambda out: (out.t() * factor_of(out.t())).sum(),
}
# --8<-- [end:uses]


def factor_of(out: Tensor, times: int = 1) -> Tensor:
    count = out.numel() * times
    return torch.arange(count, device=out.device, dtype=out.dtype).view(len(out), -1) / count


def cat_of(out: Tensor) -> Tensor:
    return torch.cat((out, torch.ones_like(out)), 1)


def inputs(dtype=torch.float32, rows=4, columns=6) -> tuple[Tensor, Tensor]:
    made = torch.Generator().manual_seed(0)
    x, weight = torch.randn(rows, columns, generator=made), torch.randn(columns, generator=made)
    return tuple(each.to(DEVICE, dtype).requires_grad_() for each in (x, weight))


def gradients(function, use) -> list[Tensor]:
    given = inputs()
    return torch.autograd.grad(use(function(*given)), given)


def right(function, use) -> bool:
    """Return whether the gradients are torch's."""
    pairs = zip(gradients(function, use), gradients(in_torch, use), strict=True)
    return all(torch.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in pairs)


# --8<-- [start:in_place]
@triton.jit
def double_in_place_kernel(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(x_ptr + i, 2 * x, mask=i < n)


class DoubleBug(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        double_in_place_kernel[(1,)](x, x.numel(), BLOCK=64)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad


class Double(DoubleBug):
    @staticmethod
    def forward(ctx, x):
        double_in_place_kernel[(1,)](x, x.numel(), BLOCK=64)
        ctx.mark_dirty(x)
        return x
# --8<-- [end:in_place]


def square_then(double) -> str:
    """Square a tensor and then double it in place, and say what becomes of the gradient of the square."""
    x = torch.tensor([3.0], device=DEVICE, requires_grad=True)
    moved = x + 0
    squared = moved.square()  # which keeps ``moved`` for its gradient, 2 * 3
    double.apply(moved)
    try:
        squared.backward()
    except RuntimeError as error:
        return str(error).split(":")[0]
    return f"{x.grad.item():g}"


# --8<-- [start:autocast]
def dtypes_under_autocast() -> str:
    x, weight = inputs(rows=4, columns=16)
    layer = torch.nn.Linear(16, 16).to(DEVICE)
    with torch.autocast(DEVICE, torch.float16):
        projected = layer(x)
        product = projected * weight
        ours = ScaleRows.apply(projected, weight)
    return f"{projected.dtype} * {weight.dtype}: torch {product.dtype}, ours {ours.dtype}"
# --8<-- [end:autocast]


# --8<-- [start:checkpoint]
def calls_and_gradient(checkpointed: bool) -> tuple[int, Tensor]:
    """Return how often the forward ran in a step, and the gradient of x."""
    x, weight = inputs()
    calls = []

    def block(x, weight):
        calls.append(1)
        return ScaleRows.apply(ScaleRows.apply(x, weight), weight)

    run = partial(checkpoint, block, use_reentrant=False) if checkpointed else block
    out = run(x, weight)
    out.square().sum().backward()
    return len(calls), x.grad
# --8<-- [end:checkpoint]


def said(run) -> str:
    """Return what a call came to: ``works``, or the first line of what was raised."""
    try:
        run()
    except (RuntimeError, NotImplementedError) as error:
        return str(error).strip().splitlines()[0]
    return "works"


def tangent():
    x, weight = (each.detach() for each in inputs())
    return torch.func.jvp(lambda x: ScaleRows.apply(x, weight), (x,), (torch.ones_like(x),))


def mapped():
    x, weight = (each.detach() for each in inputs())
    return torch.vmap(lambda x: ScaleRows.apply(x, weight))(torch.stack((x, x)))


def of_func(function=ScaleRows):
    x, weight = (each.detach() for each in inputs())
    return torch.func.grad(lambda x: function.apply(x, weight).sum())(x)


# --8<-- [start:ranks]
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(1.0, 7.0))

    def forward(self, x):
        return ScaleRows.apply(x, self.weight).square().mean()


def train_on_a_rank(rank: int, ranks: int, port: int) -> None:
    """Take a step on this rank's half of the rows, wrapped in two ways; rank 0 says whether the gradients are right."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    distributed.init_process_group("gloo", rank=rank, world_size=ranks)
    x = inputs()[0].detach()
    alone = Net().to(DEVICE)
    alone(x).backward()

    replicated = torch.nn.parallel.DistributedDataParallel(Net().to(DEVICE))
    replicated(x.chunk(ranks)[rank]).backward()
    found = {"DistributedDataParallel": replicated.module.weight.grad}

    sharded = Net().to(DEVICE)
    fully_shard(sharded, mesh=init_device_mesh(DEVICE, (ranks,)))
    sharded(x.chunk(ranks)[rank]).backward()
    found["fully_shard"] = sharded.weight.grad.full_tensor()
    for name, gradient in found.items():
        if rank == 0:
            print(f"{name}, as in one process:", torch.allclose(gradient, alone.weight.grad))
    distributed.destroy_process_group()
# --8<-- [end:ranks]


def free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return asked.getsockname()[1]


def main():
    if sys.argv[1:] == ["ranks"]:
        torch.multiprocessing.start_processes(train_on_a_rank, (2, free_port()), nprocs=2, start_method="spawn")
        return
    if DEVICE == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; run it with TRITON_INTERPRET=1 in the interpreter")
    print("## Behind which use the gradients are right")
    for use, of in USES.items():
        verdicts = ["right" if right(function.apply, of) else "wrong" for function in (ScaleRows, StridesBug)]
        print(f"{use}: {verdicts[0]}, with the bug {verdicts[1]}")
    wide = inputs(torch.float64)
    print("gradcheck of the bug:", "passes" if torch.autograd.gradcheck(StridesBug.apply, wide) else "fails")

    print("## In place")
    print("3 squared, doubled in place, unannounced; the gradient, which is 6:", square_then(DoubleBug))
    print("with mark_dirty:", square_then(Double))

    print("## Autocast")
    print(dtypes_under_autocast())

    print("## Checkpointing")
    plain, again = calls_and_gradient(False), calls_and_gradient(True)
    print("forwards in a step:", plain[0])
    print("forwards in a step, checkpointed:", again[0])
    print("the same gradient:", torch.equal(plain[1], again[1]))

    print("## torch.func")
    print("grad:", said(of_func))
    print("grad, where the backward launches:", said(lambda: of_func(LaunchBug)))
    print("vmap:", said(mapped))
    print("jvp:", said(tangent))

    print("## Two ranks", flush=True)
    environment = os.environ | {"TRITON_INTERPRET": "1"}  # on the CPU: two ranks of one GPU can't talk to each other
    subprocess.run([sys.executable, __file__, "ranks"], check=True, env=environment)


if __name__ == "__main__":
    main()
