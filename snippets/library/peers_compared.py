# SPDX-License-Identifier: Apache-2.0
"""Compare a function to copy with torch's, for the cases of other libraries: see ``library/peers_run.py``.

Results and gradients are compared with float64 if they are small, else with float32. They disagree if an element is
off by more than ``TOLERANCE`` of its size and of the root mean square of its tensor; in 16 bits, if it is also off by
more than twice as much as torch is in 16 bits, which is how FlashAttention's own tests judge.
"""

import torch
import triton

F16, BF16, F32, FP8 = torch.float16, torch.bfloat16, torch.float32, torch.float8_e4m3fn
TOLERANCE = {F32: 1e-4, F16: 5e-3, BF16: 3e-2, FP8: 3e-2}


class Refused(Exception):
    """Our function does not serve this, and says so."""


def agrees(ours, exact, *tensors, gradient=True, tolerance=None, floor=0.0, narrow=None) -> bool:
    """Return whether results and gradients of two functions of these tensors agree.

    ``floor`` is for gradients that are 0 but for rounding: so much of the largest counts as the size of each.
    ``narrow`` is the dtype that ours computes in, if it isn't that of the tensors, as under autocast.
    """
    wide = torch.float64 if sum(x.numel() for x in tensors) <= 2**20 else torch.float32
    narrow = narrow or max((x.dtype for x in tensors), key=TOLERANCE.get)
    tolerance = tolerance or TOLERANCE[narrow]
    try:
        found, grads = results(ours, tensors, gradient)
    except (TypeError, ValueError) as error:
        raise Refused(str(error)) from error
    right, _ = results(exact, [x.to(wide) for x in tensors], gradient, grads)
    if [x.shape for x in found] != [x.shape for x in right]:
        return False
    least = floor and floor * max(size(x) for x in right if x.numel())
    wrong = [i for i, pair in enumerate(zip(found, right, strict=True)) if not near(*pair, tolerance, least)]
    if not wrong or tolerance < TOLERANCE[F16]:
        return not wrong
    rounded, _ = results(exact, [x.to(narrow) for x in tensors], gradient, grads)
    return all(farthest(found[i], right[i]) <= 2 * farthest(rounded[i], right[i]) for i in wrong)


def results(function, tensors, gradient, grads=()):
    """Return the results and the gradients of a function, and what flowed back: ``grads``, or else random ones."""
    leaves = [x.detach().requires_grad_(bool(gradient)) for x in tensors]
    outs = function(*leaves)
    outs = outs if isinstance(outs, tuple) else (outs,)
    differ = [out for out in outs if out.requires_grad]
    if grads and [x.shape for x in grads] != [x.shape for x in differ]:
        return [], grads
    grads = [x.to(out.dtype) for x, out in zip(grads or map(torch.randn_like, differ), differ, strict=True)]
    found = torch.autograd.grad(differ, leaves, grads, materialize_grads=True) if differ else ()
    return [*(out.detach() for out in outs), *found], grads


def near(found, right, tolerance, least=0.0) -> bool:
    """Return whether a tensor is right, to some of each element and of their root mean square."""
    if not right.numel() or not found.is_floating_point():
        return torch.equal(found, right)
    scale = right.abs() + max(size(right), least)
    return bool(((found.to(right.dtype) - right).abs() <= tolerance * scale).all())


def size(x) -> float:
    return x.square().mean().sqrt().item()


def farthest(found, right) -> float:
    return (found.to(right.dtype) - right).abs().max().item()


def numbers(*shape, dtype=F32, scale=1.0):
    """Return normal numbers, on the GPU or for the interpreter on the CPU."""
    return (torch.randn(shape, device=device()) * scale).to(dtype)


def whole(low, high, shape):
    return torch.randint(low, high, shape, device=device())


def device():
    return "cpu" if triton.knobs.runtime.interpret else "cuda"
