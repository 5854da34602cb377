# SPDX-License-Identifier: Apache-2.0
"""SwiGLU of two halves and the gradient of GELU, wrong on purpose. Do not copy these.

- ``stride_bug`` takes ``columns`` for the distance of two rows. Rows of two halves lie ``2 * columns`` apart.
- ``slope_bug`` is given to a forward with the tanh approximation, and takes the slope of the exact GELU.

Both leave out what does not matter here. The right kernels are those of ``swiglu.py``.
Run it on a GPU with ``python swiglu_bug.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import torch
import triton
import triton.language as tl

from snippets.fusion.swiglu import backward, forward, passes, shown, swiglu


# --8<-- [start:stride]
@triton.jit
def stride_bug(x_ptr, out_ptr, columns, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    column = tl.arange(0, BLOCK_SIZE)
    mask = column < columns
    gate = tl.load(x_ptr + row * columns + column, mask=mask)
    up = tl.load(x_ptr + row * columns + columns + column, mask=mask)
    out = gate * tl.sigmoid(gate) * up
    tl.store(out_ptr + row * columns + column, out, mask=mask)


# --8<-- [end:stride]


# --8<-- [start:slope]
@triton.jit
def slope_bug(grad_ptr, x_ptr, grad_x_ptr, n, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    grad = tl.load(grad_ptr + offsets, mask=mask)
    x = tl.load(x_ptr + offsets, mask=mask)
    p, slope = passes(x, "gelu")  # the forward took "gelu_tanh"
    tl.store(grad_x_ptr + offsets, grad * (p + x * slope), mask=mask)


# --8<-- [end:slope]


def halves(x: torch.Tensor) -> torch.Tensor:
    rows, columns = x.shape[0], x.shape[1] // 2
    out = torch.empty(rows, columns, dtype=x.dtype, device=x.device)
    stride_bug[(rows,)](x, out, columns, BLOCK_SIZE=triton.next_power_of_2(columns))
    return out


def gradient(grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    slope_bug[(triton.cdiv(x.numel(), 128),)](grad.contiguous(), x, out, x.numel(), BLOCK_SIZE=128)
    return out


class GELUBug(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return forward(x, torch.ones_like(x), "gelu_tanh")

    @staticmethod
    def backward(ctx, grad):
        return gradient(grad, *ctx.saved_tensors)


def main():
    device = "cuda" if isinstance(stride_bug, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    print("## stride")
    x = torch.tensor([[2.0, 0.0, -2.0, 3.0, 3.0, 3.0], [1.0, -1.0, 4.0, 10.0, 10.0, 10.0]], device=device)
    for name, found in {"swiglu": swiglu(x), "stride_bug": halves(x)}.items():
        for row in range(2):
            print(f"{name + ':':11} row {row}:", shown(found[row]))

    print("## slope")
    x = torch.linspace(-4, 4, 801, device=device, dtype=torch.float64)
    right, _ = backward(torch.ones_like(x), x, torch.ones_like(x), "gelu_tanh")
    wrong = gradient(torch.ones_like(x), x)
    print(f"largest difference: {(wrong - right).abs().max().item():.5f}")
    print("allclose, as for float16:", torch.allclose(wrong.half(), right.half(), rtol=1e-2, atol=1e-2))
    x = torch.tensor([2.0, -1.0], dtype=torch.float64, device=device, requires_grad=True)
    try:
        torch.autograd.gradcheck(GELUBug.apply, (x,))
    except RuntimeError as error:
        print(*[line for line in str(error).splitlines() if line.strip()], sep="\n")


if __name__ == "__main__":
    main()
