# SPDX-License-Identifier: Apache-2.0
"""Cross-entropy step by step: a row by hand, its gradient in place, the memory of a layer in chunks, gradients checked.

The functions are those of ``cross_entropy.py`` and ``linear_cross_entropy.py``.
Run it on a GPU with ``python cross_entropy_steps.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import math

import torch
import triton

from snippets.fusion.cross_entropy import (
    blocks_for,
    count_of,
    cross_entropy,
    cross_entropy_kernel,
    launch,
    losses_of,
    shown,
    toy,
)
from snippets.fusion.linear_cross_entropy import linear_cross_entropy, rows_of_a_chunk


# --8<-- [start:by_hand]
def by_hand(row: list[float], target: int) -> dict[str, float]:
    """Return each step for a row of logits: the loss, and the gradient of two of them."""
    maximum = max(row)
    total = sum(math.exp(x - maximum) for x in row)
    shares = [math.exp(x - maximum) / total for x in row]
    return {
        "sum": total,
        "log of the sum": math.log(total),
        "loss": math.log(total) + maximum - row[target],
        "share of the target": shares[target],
        "gradient of the target": shares[target] - 1,
        "gradient of the last": shares[-1],
    }


# --8<-- [end:by_hand]


def memory(tokens: int, hidden: int, columns: int) -> dict[str, float]:
    """Return the GB in bfloat16 that a loss and its gradients take, beside hidden and weight themselves."""
    elements = {
        "logits of all rows": tokens * columns,
        "logits of a chunk": rows_of_a_chunk(tokens, (columns, hidden), torch.bfloat16, True) * columns,
        "gradient of hidden": tokens * hidden,
        "gradient of weight in float32": 2 * columns * hidden,
        "gradient of weight": columns * hidden,
    }
    return {name: 2 * each / 1e9 for name, each in elements.items()}


def in_torch(logits, target):
    """Compute what :func:`cross_entropy` does, by torch."""
    return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), target.reshape(-1).long())


def as_torch(function, reference, inputs: list[torch.Tensor], tolerance=1e-5) -> bool:
    """Return whether the result of ``function`` and the gradients of ``inputs`` are those of ``reference``."""
    found, wanted = ([out := each(*inputs), *torch.autograd.grad(out, inputs)] for each in (function, reference))
    return all(torch.allclose(a, b, rtol=tolerance, atol=tolerance) for a, b in zip(found, wanted, strict=True))


def main():
    device = "cuda" if isinstance(cross_entropy_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    print("## by hand")
    logits, target = toy(device)
    for name, value in by_hand(logits[0].tolist(), 1).items():
        print(f"{name}: {value:.5f}")

    print("## in place")
    launch(logits, target, losses_of(logits), logits, count_of(target))
    print("the logits now:", shown(logits[0]))

    print("## memory")
    for name, gigabytes in memory(32768, 4096, 128256).items():
        print(f"{name}, GB: {gigabytes:.2f}")
    for rows in (32768, 8192):
        print(f"rows of a chunk, of {rows}:", rows_of_a_chunk(rows, (128256, 4096), torch.bfloat16, True))

    print("## blocks")
    for columns in (128256, 32000, 1000):
        by = blocks_for(columns, torch.bfloat16)
        print(f"columns of a block, of {columns}: {by.block}")
        print(f"warps for {columns}: {by.num_warps}")

    print("## gradients")
    random = torch.Generator().manual_seed(0)
    numbers = lambda *shape, dtype=torch.float32: torch.randn(shape, generator=random, dtype=dtype).to(device)
    # --8<-- [start:gradcheck]
    gradcheck = torch.autograd.gradcheck
    target = torch.tensor([2, -100], device=device)
    logits = numbers(2, 4, dtype=torch.float64).requires_grad_()
    hidden = numbers(2, 1, dtype=torch.float64).requires_grad_()
    weight = numbers(4, 1, dtype=torch.float64).requires_grad_()
    alone = lambda logits: cross_entropy(logits, target)
    linear = lambda *given: linear_cross_entropy(*given, target, chunk=1)
    print("gradcheck, logits:", gradcheck(alone, (logits,)))
    print("gradcheck, layer:", gradcheck(linear, (hidden, weight)))
    # --8<-- [end:gradcheck]
    logits = numbers(5, 40_000).requires_grad_()
    target = torch.tensor([0, 39_999, -100, 7, 12_345], device=device)
    same = as_torch(lambda x: cross_entropy(x, target), lambda x: in_torch(x, target), [logits])
    print("5 x 40000, cross_entropy, as torch:", same)
    inputs = [numbers(5, 16).requires_grad_(), numbers(1000, 16).requires_grad_()]
    target %= 1000
    same = as_torch(
        lambda x, w: linear_cross_entropy(x, w, target, chunk=2), lambda x, w: in_torch(x @ w.t(), target), inputs
    )
    print("5 x 16 x 1000, linear_cross_entropy, as torch:", same)


if __name__ == "__main__":
    main()
