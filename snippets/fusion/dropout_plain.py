# SPDX-License-Identifier: Apache-2.0
"""Dropout in its shortest form: a copy with one condition, by a random number for each element.

::

    out = x / (1 - p)  where u >= p,  else 0

``u``, from 0 to below 1, depends on the seed and the element's index alone: Philox, a function of both, gives it. The
backward is the same call for the incoming gradient, by the same seed. ``dropout.py`` is what to build on: it has the
gradient, checks what it is given, and draws eight elements' bits at a time.

Shapes: ``x`` and the result are equal in shape, without gaps. ``seed`` is an int64 on the GPU.

Run it on a GPU with ``python dropout_plain.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import torch
import triton
import triton.language as tl

from snippets.fusion.dropout import BLOCK_SIZE, scale_of, warps_of


# --8<-- [start:kernel]
@triton.jit
def dropout_kernel(
    x_ptr, out_ptr, seed_ptr, n, p, scale, BLOCK_SIZE: tl.constexpr
):  # fmt: skip
    start = tl.program_id(axis=0).to(tl.int64) * BLOCK_SIZE
    offsets = start + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    u = tl.rand(tl.load(seed_ptr), offsets)
    out = tl.where(u >= p, x * scale, 0)
    tl.store(out_ptr + offsets, out, mask=mask)
# --8<-- [end:kernel]


# --8<-- [start:plain]
def plain_dropout(x: torch.Tensor, p: float, seed: torch.Tensor, block_size: int = BLOCK_SIZE) -> torch.Tensor:
    """Drop elements of a float tensor without gaps; with the same seed, of a gradient those that ``x`` lost.

    >>> plain_dropout(torch.arange(1.0, 7.0), 0.5, torch.tensor(27))
    tensor([ 2.,  4.,  0.,  0.,  0., 12.])
    """
    out = torch.empty_like(x)
    dropout_kernel[(triton.cdiv(x.numel(), block_size),)](
        x, out, seed, x.numel(), p, scale_of(p), BLOCK_SIZE=block_size, num_warps=warps_of(block_size)
    )
    return out
# --8<-- [end:plain]


# --8<-- [start:rand]
@triton.jit
def rand_kernel(offset_ptr, out_ptr, seed_ptr, n, BLOCK_SIZE: tl.constexpr):
    lane = tl.arange(0, BLOCK_SIZE)
    offset = tl.load(offset_ptr + lane, mask=lane < n)
    u = tl.rand(tl.load(seed_ptr), offset)
    tl.store(out_ptr + lane, u, mask=lane < n)
# --8<-- [end:rand]


def rand_at(offsets: torch.Tensor, seed: torch.Tensor) -> torch.Tensor:
    """Return what ``tl.rand`` gives for a few offsets."""
    out = torch.empty(offsets.shape, device=offsets.device)
    n = offsets.numel()
    rand_kernel[(1,)](offsets, out, seed, n, BLOCK_SIZE=triton.next_power_of_2(n))
    return out


def shown(values: torch.Tensor, digits: int = 2) -> str:
    return " ".join(f"{value:4.{digits}f}" for value in values.flatten().tolist())


def main():
    device = "cuda" if isinstance(dropout_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    tensor = lambda value: torch.tensor(value, device=device)

    print("## six numbers")
    x = torch.arange(1.0, 7.0, device=device)
    grad = torch.ones_like(x)
    print("x:     ", shown(x, 0))
    print("u:     ", shown(rand_at(torch.arange(6, device=device), tensor(27))))
    print("out:   ", shown(plain_dropout(x, 0.5, tensor(27), block_size=4), 0))
    print("grad:  ", shown(grad, 0))
    print("grad_x:", shown(plain_dropout(grad, 0.5, tensor(27), block_size=4), 0))


if __name__ == "__main__":
    main()
