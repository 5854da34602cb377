# SPDX-License-Identifier: Apache-2.0
"""RMS norm step by step: the last element of a row by hand, and the gradients checked.

The functions are those of ``norms.py``.

Run it on a GPU with ``python norms_steps.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import math

import torch
import triton

from snippets.fusion.norms import MOST_COLUMNS, programs_for, rms_norm, rms_norm_kernel, toy


# --8<-- [start:in_torch]
def in_torch(x, weight, eps=1e-6):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight
# --8<-- [end:in_torch]


# --8<-- [start:by_hand]
def by_hand(x: list[float], weight: list[float], grad: list[float]) -> dict[str, float]:
    """Return each step for the last element of a row, forward and then backward."""
    square = sum(value**2 for value in x) / len(x)
    rms = math.sqrt(square)
    x_hat = [value / rms for value in x]
    g = [a * b for a, b in zip(grad, weight, strict=True)]
    along = sum(a * b for a, b in zip(g, x_hat, strict=True)) / len(x)
    return {
        "mean of the squares": square,
        "rms": rms,
        "x_hat": x_hat[-1],
        "out": x_hat[-1] * weight[-1],
        "g": g[-1],
        "mean of g * x_hat": along,
        "grad_x": (g[-1] - x_hat[-1] * along) / rms,
        "grad_x, the fourth": (g[-2] - x_hat[-2] * along) / rms,
    }
# --8<-- [end:by_hand]


def main():
    device = "cuda" if isinstance(rms_norm_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    print("## by hand")
    x, weight, grad = toy(device)
    for name, value in by_hand(*(each[0].tolist() for each in (x, weight[None], grad))).items():
        print(f"{name}: {value:.4g}")

    print("## gradients")
    # --8<-- [start:gradcheck]
    options = {"dtype": torch.float64, "device": device, "requires_grad": True}
    x, weight = torch.randn(2, 5, **options), torch.randn(5, **options)
    print("gradcheck:", torch.autograd.gradcheck(rms_norm, (x, weight)))
    # --8<-- [end:gradcheck]
    x, grad = torch.randn(2, 64, 781).to(device)
    inputs = [x.requires_grad_(), torch.randn(781).to(device).requires_grad_()]
    sides = ([out := norm(*inputs), *torch.autograd.grad(out, inputs, grad)] for norm in (rms_norm, in_torch))
    print("64 x 781, as torch:", all(torch.allclose(a, b, atol=1e-4) for a, b in zip(*sides, strict=True)))
    print("most columns:", MOST_COLUMNS)
    print("programs for 4096 columns:", programs_for(4096))


if __name__ == "__main__":
    main()
