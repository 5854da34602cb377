# SPDX-License-Identifier: Apache-2.0
"""A program that returns before it stores, and what is left in its place. Do not copy from here.

Each row of ``logits`` has a target, and the loss of a row whose target is ``IGNORED`` should be 0:
``out[r] = log(Σ exp(logits[r, c])) - logits[r, target[r]]``. Without ``ALL_STORE``, such a row's program
returns early and leaves to chance what its element of the result holds. Eagerly that is often a 0. Compiled, the result
reuses memory in which another tensor was. Here ``memory`` plays both parts; on a GPU, torch.compile has its own.

Shapes: ``logits`` (rows, columns), float32; ``target`` (rows,), int64; ``out`` (rows,), float32.
Source: the fault was in Liger's loss, https://github.com/linkedin/Liger-Kernel/pull/1338.

Run it with ``TRITON_INTERPRET=1 python early_return_bug.py``, or without the variable on a machine with a GPU.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

IGNORED = tl.constexpr(-100)


# --8<-- [start:kernel]
@triton.jit
def loss_kernel(
    logits_ptr,
    target_ptr,
    out_ptr,
    columns,
    ALL_STORE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(axis=0)
    target = tl.load(target_ptr + row)
    if target == IGNORED:
        if ALL_STORE:
            tl.store(out_ptr + row, 0.0)
        return
    offsets = tl.arange(0, BLOCK)
    logits = tl.load(
        logits_ptr + row * columns + offsets,
        mask=offsets < columns,
        other=-float("inf"),
    )
    top = tl.max(logits, axis=0)
    total = tl.log(tl.sum(tl.exp(logits - top), axis=0)) + top
    own = tl.load(logits_ptr + row * columns + target)
    tl.store(out_ptr + row, total - own)
# --8<-- [end:kernel]


DEVICE = "cuda" if isinstance(loss_kernel, triton.JITFunction) else "cpu"


# --8<-- [start:memory]
def memory(held: float, rows: int) -> Tensor:
    """Return memory as an allocator does: nobody has cleared what was held there."""
    return torch.full((rows,), held, device=DEVICE)


HELD = {"zeros": 0.0, "another tensor's 40": 40.0, "NaN": float("nan")}
# --8<-- [end:memory]


def mean_loss(logits: Tensor, target: Tensor, held: float, all_store: bool) -> float:
    """Return the mean loss of the rows that count, computed into memory that held something."""
    rows, columns = logits.shape
    out = memory(held, rows)
    block = triton.next_power_of_2(columns)
    loss_kernel[(rows,)](logits, target, out, columns, ALL_STORE=all_store, BLOCK=block)
    return (out.sum() / (target != IGNORED.value).sum()).item()


# --8<-- [start:model]
def logits_of(
    x: Tensor, inner: Tensor, outer: Tensor
) -> tuple[Tensor, Tensor]:
    """Return logits of two layers, and the size of each row of x."""
    size = x.square().sum(dim=1)
    return (x @ inner / size[:, None]) @ outer, size


def mean_of(
    x: Tensor, inner: Tensor, outer: Tensor, target: Tensor, all_store: bool
) -> Tensor:
    logits, size = logits_of(x, inner, outer)
    out = torch.empty_like(size)
    block = triton.next_power_of_2(logits.shape[1])
    loss_kernel[(len(out),)](
        logits, target, out, logits.shape[1], all_store, block
    )
    return out.sum() / (target != IGNORED.value).sum()
# --8<-- [end:model]


def eager_and_compiled() -> None:
    """Print the losses of the model, eagerly and compiled, on a GPU."""
    made = lambda *shape: torch.linspace(-3, 3, math.prod(shape), device=DEVICE).view(shape)
    layers, target = (made(4, 8), made(8, 6), made(6, 5)), example()[1]
    logits, size = logits_of(*layers)
    right = torch.nn.functional.cross_entropy(logits, target, ignore_index=IGNORED.value).item()
    print(f"PyTorch's loss: {right:.3f}")
    print(f"with the size of the ignored row as its loss: {right + size[1].item() / 3:.3f}")
    for all_store in (False, True):
        name = "every program stores" if all_store else "a program returns early"
        torch._dynamo.reset()
        compiled = torch.compile(mean_of, fullgraph=True)
        for how, function in {"eager": mean_of, "compiled": compiled}.items():
            print(f"{name}, {how}: {function(*layers, target, all_store).item():.3f}")


def example() -> tuple[Tensor, Tensor]:
    logits = torch.linspace(-3, 3, 20, device=DEVICE).view(4, 5)
    return logits, torch.tensor([1, IGNORED.value, 4, 0], device=DEVICE)


def main():
    if DEVICE == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    logits, target = example()
    right = torch.nn.functional.cross_entropy(logits, target, ignore_index=IGNORED.value).item()
    print(f"PyTorch's loss: {right:.3f}")
    for all_store in (False, True):
        print("## every program stores" if all_store else "## a program returns early")
        for what, held in HELD.items():
            print(f"in memory that held {what}: {mean_loss(logits, target, held, all_store):.3f}")
    if DEVICE == "cuda":
        print("## a model under torch.compile")
        eager_and_compiled()


if __name__ == "__main__":
    main()
