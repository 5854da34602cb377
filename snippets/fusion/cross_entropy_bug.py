# SPDX-License-Identifier: Apache-2.0
"""Cross-entropy, wrong on purpose in three ways. Do not copy these.

- ``LinearCrossEntropyBug`` gives the loss of each row, makes the gradients in the forward all the same, and scales them
  in the backward. In the gradient of the weight, all rows are added up by then: no number can scale each of them.
- ``late_kernel_bug`` writes the gradient over the logits, and reads the logit of the target after that.
- ``too_small_bug`` divides a float16 gradient by the count in the forward; what is 0 then, no backward brings back.

All else is that of ``cross_entropy.py``; what is right comes from ``library/cross_entropy.py``.
Run it on a GPU with ``python cross_entropy_bug.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import torch
import triton
import triton.language as tl

from snippets.fusion.cross_entropy import (
    launch,
    losses_of,
    maximum_and_sum,
    scale_,
    shown,
    write_gradient,
)
from snippets.fusion.linear_cross_entropy import linear_forward
from snippets.library.cross_entropy import cross_entropy, linear_cross_entropy


# --8<-- [start:afterwards]
class LinearCrossEntropyBug(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight, target):
        one = torch.ones((), device=target.device)
        losses, *grads = linear_forward(
            hidden, weight, target, one, None, (True, True)
        )  # fmt: skip
        ctx.save_for_backward(*grads)
        return losses

    @staticmethod
    def backward(ctx, grad_loss):
        grad_hidden, grad_weight = ctx.saved_tensors
        grad_hidden = grad_hidden * grad_loss[:, None]
        return grad_hidden, grad_weight * grad_loss[0], None


# --8<-- [end:afterwards]


@triton.jit
def late_kernel_bug(
    x_ptr, target_ptr, loss_ptr, columns,
    LOWEST: tl.constexpr, BLOCK: tl.constexpr, LANES: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(axis=0).to(tl.int64)
    x_ptr += row * columns
    target = tl.load(target_ptr + row)
    # --8<-- [start:late]
    maximum, total = maximum_and_sum(
        x_ptr, columns, LOWEST, tl.float32, BLOCK, LANES, WIDE
    )  # fmt: skip
    write_gradient(
        x_ptr, x_ptr, columns, target, maximum, total, 1.0,
        tl.float32, BLOCK,
    )  # fmt: skip
    tl.debug_barrier()
    x_target = tl.load(x_ptr + target)
    tl.store(loss_ptr + row, tl.log(total) + maximum - x_target)
    # --8<-- [end:late]


def late_bug(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return the losses; ``logits``, (rows, columns) of float32 and contiguous, become their gradient."""
    losses = torch.empty(len(logits), device=logits.device)
    late_kernel_bug[(len(logits),)](
        logits, target, losses, logits.shape[1],
        LOWEST=torch.finfo(torch.float32).min, BLOCK=512, LANES=32, WIDE=4, num_warps=1,
    )  # fmt: skip
    return losses


# --8<-- [start:too_small]
def too_small_bug(logits, target, count, grad_loss):
    grad = torch.empty_like(logits)
    launch(logits, target, losses_of(logits), grad, count)
    scale_(grad, grad_loss)
    return grad


# --8<-- [end:too_small]


def as_it_should_be(logits, target, count, grad_loss):
    """Return the same gradient, divided and multiplied in float32."""
    x = logits.detach().requires_grad_()
    return torch.autograd.grad(cross_entropy(x, target, reduction="sum"), x, grad_loss / count)[0]


def main():
    device = "cuda" if isinstance(late_kernel_bug, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    print("## scaled afterwards")
    hidden = torch.eye(2, device=device).requires_grad_()
    weight = torch.tensor([[1.0, 0.0], [3.0, 0.0], [2.0, 0.0], [5.0, 0.0]], device=device).requires_grad_()
    target = torch.tensor([1, 3], device=device)
    right = lambda *inputs: linear_cross_entropy(*inputs, reduction="none")
    for factors in ([1.0, 1.0], [1.0, 0.0]):
        grad_loss = torch.tensor(factors, device=device)
        grads = [
            torch.autograd.grad(function(hidden, weight, target), weight, grad_loss)[0]
            for function in (right, LinearCrossEntropyBug.apply)
        ]
        print(f"factors {factors[0]:g} and {factors[1]:g}")
        for row in range(2):
            for name, grad in zip(("right", "wrong"), grads, strict=True):
                print(f"  row {row}, {name}: {shown(grad[:, row])}")

    print("## read too late")
    logits = torch.tensor([[1.0, 3.0, 2.0, 5.0]], device=device)
    wrong = late_bug(logits, torch.tensor([1], device=device)).item()
    print(f"loss: {wrong:.4f}")
    print("log of the sum of exp:", shown(torch.tensor([[1.0, 3.0, 2.0, 5.0]]).logsumexp(1)))

    print("## too small")
    logits = torch.zeros(1, 2**15, dtype=torch.float16, device=device)
    target, count = torch.tensor([0], device=device), torch.tensor(4096, device=device)
    scaled = torch.tensor(65536.0, device=device)
    for name, function in {"forward": too_small_bug, "backward": as_it_should_be}.items():
        print(f"divided in the {name}: {function(logits, target, count, scaled)[0, 1].item():.6f}")


if __name__ == "__main__":
    main()
