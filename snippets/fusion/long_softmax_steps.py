# SPDX-License-Identifier: Apache-2.0
"""Softmax of long rows step by step: a row of four by hand, the plans for some shapes, the gradients checked.

The functions are those of ``long_softmax.py``.
Run it on a GPU with ``python long_softmax_steps.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import math

import torch
import triton

from snippets.fusion.long_softmax import Plan, backward, forward, plan, softmax, whole_kernel
from snippets.fusion.long_softmax_blocks import running


def by_hand() -> dict[str, float]:
    """Return each step for the row 1, 3, 2, 5 in blocks of two, and for the gradient of its last share."""
    first = math.exp(1 - 3) + math.exp(3 - 3)
    second = math.exp(2 - 5) + math.exp(5 - 5)
    total = first * math.exp(3 - 5) + second
    share = math.exp(5 - 5) / total
    return {
        "sum of the first block": first,
        "old sum, rescaled": first * math.exp(3 - 5),
        "sum of the second block": second,
        "sum of both": total,
        "last share": share,
        "its gradient for the last x": share * (1 - share),
    }


def with_gradient(function, x: torch.Tensor, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the result of ``function``, and the gradient for ``x``, which lies in memory as ``x`` does."""
    x = x.detach().requires_grad_()
    y = function(x)
    return y.detach(), *torch.autograd.grad(y, x, grad)


def as_torch(found, x: torch.Tensor, grad: torch.Tensor, tolerance=1e-5) -> bool:
    """Return whether result and gradient are torch's, to within this share of the largest result and of ``grad``."""
    wanted = with_gradient(lambda x: torch.softmax(x, dim=-1), x, grad)
    allowed = tolerance * wanted[0].max()
    off = [(a - b).abs().max() for a, b in zip(found, wanted, strict=True)]  # NaN, if anything is
    return bool(off[0] <= allowed and off[1] <= allowed * grad.abs().max())


def main():
    device = "cuda" if isinstance(whole_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    torch.manual_seed(0)

    print("## blocks of two")
    row = torch.tensor([1.0, 3.0, 2.0, 5.0], device=device)
    for block, (maximum, total) in zip(row.view(2, 2).tolist(), running(row, 2), strict=True):
        print(f"after {block[0]:g} {block[1]:g}: maximum {maximum:g}, sum {total:.5f}")

    print("## by hand")
    for name, value in by_hand().items():
        print(f"{name}: {value:.5f}")

    print("## plans")
    for rows, columns in ((4096, 1000), (4096, 32768), (512, 131072), (4, 262144), (1, 2**21)):
        ways = []
        for tensors in (1, 2):
            by = plan(rows, columns, torch.float32, tensors=tensors)
            ways.append(by.way + (f" in {by.parts} parts" if by.parts > 1 else ""))
        print(f"{rows} x {columns}: {ways[0]}; backward: {ways[1]}")

    print("## gradients")
    # --8<-- [start:gradcheck]
    x = torch.randn(2, 7, dtype=torch.float64, device=device, requires_grad=True)
    print("gradcheck:", torch.autograd.gradcheck(softmax, (x,)))
    # --8<-- [end:gradcheck]
    x, grad = torch.randn(2, 3, 10_000, device=device)
    for by in (Plan("whole", 2**14, 16), Plan("online", 4096, 8), Plan("split", 2048, 4, parts=3)):
        y = forward(x, by)
        print(f"3 x 10000, {by.way}, as torch: {as_torch((y, backward(grad, y, by)), x, grad)}")
    # fullgraph: an error if the compiler has to stop and leave a part to Python
    compiled = torch.compile(softmax, fullgraph=True, backend="inductor" if device == "cuda" else "aot_eager")
    x, grad = torch.randn(2, 2, 40_000, device=device)
    for name, function in {"softmax": softmax, "compiled": compiled}.items():
        print(f"2 x 40000, {name}, as torch: {as_torch(with_gradient(function, x, grad), x, grad)}")


if __name__ == "__main__":
    main()
