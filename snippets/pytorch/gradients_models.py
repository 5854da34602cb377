# SPDX-License-Identifier: Apache-2.0
"""A kernel in models that save memory, or are spread over ranks: what each needs of it, and what goes wrong without.

- A fake that promises other strides than the op returns: ``opcheck`` finds it, a compiled model reads wrong places.
- A backward that minds no strides: ``opcheck`` finds it, for it compares with a compiled backward's contiguous ones.
- Selective checkpointing: the policy names ops whose results are kept, so the kernel needs a name.
- ``DistributedDataParallel``, with the weight used outside of the module's forward: no gradient is averaged.
- A ``DTensor``, as tensor parallelism passes it: a kernel sees what one rank has.

Run it in the interpreter with ``TRITON_INTERPRET=1 python gradients_models.py``.
Source: PyTorch, *torch.utils.checkpoint*, *torch.library*, *DistributedDataParallel*, *torch.distributed.tensor*.
"""

import os
import re
import subprocess
import sys
from functools import partial

import torch
from torch import Tensor, distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.library import custom_op, opcheck
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from snippets.pytorch.gradients import Net, ScaleRows, free_port, inputs, scaled


# --8<-- [start:fake]
@custom_op("course::padded_bug", mutates_args=())
def padded_bug(x: Tensor, weight: Tensor) -> Tensor:
    room = x.new_empty(len(x), x.shape[1] + 2)
    room[:, : x.shape[1]] = scaled(x, weight, x.stride())
    return room[:, : x.shape[1]]  # rows lie two elements apart


@padded_bug.register_fake
def _(x, weight):
    return torch.empty_like(x)  # and here side by side
# --8<-- [end:fake]


# --8<-- [start:named]
CALLS = []


@custom_op("course::scale_rows", mutates_args=())
def scale_rows(x: Tensor, weight: Tensor) -> Tensor:
    CALLS.append(tuple(x.shape))
    return scaled(x, weight, x.stride())


@scale_rows.register_fake
def _(x, weight):
    return x.new_empty(x.shape)


def setup_context(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def backward(ctx, grad):
    x, weight = ctx.saved_tensors
    # By the op, not by a launch, or nobody could trace it.
    return scale_rows(grad, weight), (grad * x).sum(0)


scale_rows.register_autograd(backward, setup_context=setup_context)
# --8<-- [end:named]


# --8<-- [start:strides]
@custom_op("course::strides_bug", mutates_args=())
def strides_bug(x: Tensor, weight: Tensor) -> Tensor:
    return scaled(x, weight, (x.shape[1], 1))


def backward_bug(ctx, grad):
    x, weight = ctx.saved_tensors
    return strides_bug(grad, weight), (grad * x).sum(0)


strides_bug.register_fake(lambda x, weight: x.new_empty(x.shape))
strides_bug.register_autograd(backward_bug, setup_context=setup_context)
# --8<-- [end:strides]


# --8<-- [start:selective]
def block(x, weight):
    return (scale_rows(x, weight).relu() * 2).square()


def runs_of_the_kernel(kept: list) -> int:
    """Return how often the kernel runs in a step that keeps these results."""
    x, weight = inputs()
    contexts = partial(create_selective_checkpoint_contexts, kept)
    CALLS.clear()
    out = checkpoint(
        block, x, weight, use_reentrant=False, context_fn=contexts
    )
    out.sum().backward()
    return len(CALLS)
# --8<-- [end:selective]


def first_line(error: BaseException) -> str:
    """Return what an error says, in a line."""
    text = re.sub(r"\s+", " ", str(error)).strip()
    return f"{type(error).__name__}: {text[:150]}"


def said(run) -> str:
    try:
        run()
    except Exception as error:
        return first_line(error)
    return "passes"


# --8<-- [start:around]
def through_the_module(net, rows):
    return net(rows)


def around_the_module(net, rows):
    """Call the function with the module's weight, as losses may do."""
    return ScaleRows.apply(rows, net.module.weight).square().mean()
# --8<-- [end:around]


def on_a_rank(rank: int, ranks: int, port: int) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    distributed.init_process_group("gloo", rank=rank, world_size=ranks)
    x, weight = (each.detach() for each in inputs())
    lines = []
    for name, way in (("through the module", through_the_module), ("around the module", around_the_module)):
        net = torch.nn.parallel.DistributedDataParallel(Net())
        way(net, x.chunk(ranks)[rank]).backward()
        every = [torch.empty(6) for _ in range(ranks)]
        distributed.all_gather(every, net.module.weight.grad)
        lines.append(f"{name}, the ranks have one gradient: {torch.equal(*every)}")
    mesh = init_device_mesh("cpu", (ranks,))
    x_sharded, weight_whole = distribute_tensor(x, mesh, [Shard(0)]), distribute_tensor(weight, mesh, [Replicate()])
    lines.append(f"an op of a DTensor: {said(lambda: scale_rows(x_sharded, weight_whole))}")
    local = scale_rows(x_sharded.to_local(), weight_whole.to_local())
    whole = DTensor.from_local(local, mesh, [Shard(0)]).full_tensor()
    lines.append(f"of its local part, put together again, as in one process: {torch.equal(whole, x * weight)}")
    if rank == 0:
        print("\n".join(lines))
    distributed.destroy_process_group()


def main():
    if sys.argv[1:] == ["ranks"]:
        torch.multiprocessing.start_processes(on_a_rank, (2, free_port()), nprocs=2, start_method="spawn")
        return
    x, weight = (each.detach() for each in inputs())
    print("## opcheck")
    print("a fake with other strides:", said(lambda: opcheck(padded_bug, (x, weight))))
    print("a fake that is right:", said(lambda: opcheck(scale_rows, inputs())))
    print("## opcheck of a gradient")
    print("a backward that minds no strides:", said(lambda: opcheck(strides_bug, inputs())))
    print("## Selective checkpointing")
    print("runs of the kernel, nothing kept:", runs_of_the_kernel([]))
    print("runs of the kernel, its result kept:", runs_of_the_kernel([torch.ops.course.scale_rows.default]))
    print("## Two ranks", flush=True)
    subprocess.run([sys.executable, __file__, "ranks"], check=True)


if __name__ == "__main__":
    main()
