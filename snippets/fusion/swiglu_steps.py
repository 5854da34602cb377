# SPDX-License-Identifier: Apache-2.0
"""SwiGLU and GEGLU step by step: the three activations, one element by hand, and the gradients checked.

The functions are those of ``swiglu.py``.

Run it on a GPU with ``python swiglu_steps.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import math

import torch
import triton

from snippets.fusion.swiglu import ACTIVATIONS, forward, glu, glu_kernel, halves_in_torch, shown, swiglu


# --8<-- [start:by_hand]
def by_hand(gate: float, up: float) -> dict[str, float]:
    """Return each step of SwiGLU for one element, forward and then backward, with an incoming gradient of 1."""
    p = 1 / (1 + math.exp(-gate))
    slope = p * (1 - p)
    return {
        "part that passes": p,
        "out": gate * p * up,
        "slope of the part": slope,
        "grad_gate": up * (p + gate * slope),
        "grad_up": gate * p,
    }
# --8<-- [end:by_hand]


def as_torch(function, reference, inputs: list[torch.Tensor], grad: torch.Tensor, tolerance=1e-5) -> bool:
    """Return whether the result of ``function`` and the gradients of ``inputs`` are those of ``reference``."""
    found, wanted = ([out := each(*inputs), *torch.autograd.grad(out, inputs, grad)] for each in (function, reference))
    return all(torch.allclose(a, b, rtol=tolerance, atol=tolerance) for a, b in zip(found, wanted, strict=True))


def main():
    device = "cuda" if isinstance(glu_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    print("## activations")
    gate = torch.tensor([2.0, 1.0, 0.0, -1.0, -2.0, -3.0], device=device)
    print("x:        ", shown(gate))
    for activation in ACTIVATIONS:
        print(f"{activation + ':':10}", shown(forward(gate, torch.ones_like(gate), activation)))

    print("## by hand")
    for name, value in by_hand(2.0, 3.0).items():
        print(f"silu, {name}: {value:.4f}")

    print("## gradients")
    torch.manual_seed(0)
    # --8<-- [start:gradcheck]
    options = {"dtype": torch.float64, "device": device, "requires_grad": True}
    gate, up = torch.randn(3, 5, **options), torch.randn(3, 5, **options)
    x = torch.randn(3, 10, **options)
    for activation in ACTIVATIONS:
        separate = torch.autograd.gradcheck(glu, (gate, up, activation))
        halves = torch.autograd.gradcheck(glu, (x, None, activation))
        print(f"{activation}, gradcheck:", separate and halves)
    # --8<-- [end:gradcheck]
    x, grad = torch.randn(64, 1562).to(device).requires_grad_(), torch.randn(64, 781).to(device)
    print("64 x 2 x 781, as torch:", as_torch(swiglu, halves_in_torch, [x], grad))


if __name__ == "__main__":
    main()
