# SPDX-License-Identifier: Apache-2.0
"""What ``torch._grouped_mm`` leaves unwritten: the rows behind the last expert's, in the result and in a gradient.

A batch that has room for more rows than there are leaves some to no expert. Their rows of the result are whatever was
in that memory before, and a weight of 0 doesn't help: 0 times NaN is NaN. PyTorch fills fresh memory with NaN here, as
``torch.use_deterministic_algorithms`` asks it to, so that each run shows what a busy memory shows now and then.

Shapes: tokens (rows, 16), weights (experts, 16, 16), bfloat16.
Source: https://github.com/pytorch/pytorch/issues/193633.

Run it with ``python experts_bug.py``; it takes no GPU.
"""

import contextlib

import torch


@contextlib.contextmanager
def poisoned_memory():
    """Fill fresh memory with NaN."""
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def with_nan(x: torch.Tensor) -> str:
    return " ".join(map(str, x.isnan().any(1).nonzero().flatten().tolist())) or "none"


def main():
    torch.manual_seed(0)
    print("## Rows of no expert")
    with poisoned_memory():
        # --8<-- [start:rows]
        tokens = torch.randn(6, 16).bfloat16().requires_grad_()
        weights = torch.randn(2, 16, 16).bfloat16()
        # rows 0 and 1, rows 2 and 3; nobody has 4 and 5
        ends = torch.tensor([2, 4], dtype=torch.int32)
        out = torch._grouped_mm(tokens, weights, offs=ends)
        # --8<-- [end:rows]
        print("rows with NaN:", with_nan(out))
        # --8<-- [start:zero]
        belongs = (torch.arange(6) < ends[-1])[:, None]
        by_zero = out * belongs
        chosen = torch.where(belongs, out, 0)
        # --8<-- [end:zero]
        print("after multiplying by 0:", with_nan(by_zero))
        print("after torch.where:", with_nan(chosen))
        (grad,) = torch.autograd.grad(chosen.float().sum(), tokens)
        print("in the gradient of the tokens:", with_nan(grad))


if __name__ == "__main__":
    main()
