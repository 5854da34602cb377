# SPDX-License-Identifier: Apache-2.0
"""Layer norm and the gradient of a weight, wrong on purpose in three ways. Do not copy these.

- ``lanes_bug`` subtracts the mean also in lanes that are off, whose 0 then counts in the variance.
- ``squares_bug`` takes ``mean(x**2) - mean(x)**2`` for the variance: two large numbers, of which little is left.
- ``atomic_bug`` adds each row to the gradient as its program comes to it. The sum depends on the order.

The first two leave out weight and bias. The right kernels are those of ``norms.py`` and ``library/norms.py``.
Run it on a GPU with ``python norms_bug.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import torch
import triton
import triton.language as tl

from snippets.fusion.norms import rms_norm, shown
from snippets.library.norms import layer_norm


# --8<-- [start:lanes]
@triton.jit
def lanes_bug(
    x_ptr, out_ptr, columns, EPS: tl.constexpr, BLOCK_SIZE: tl.constexpr
):  # fmt: skip
    row = tl.program_id(axis=0)
    column = tl.arange(0, BLOCK_SIZE)
    mask = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=mask, other=0)
    centered = x - tl.sum(x, axis=0) / columns
    variance = tl.sum(centered * centered, axis=0) / columns
    out = centered * tl.rsqrt(variance + EPS)
    tl.store(out_ptr + row * columns + column, out, mask=mask)
# --8<-- [end:lanes]


# --8<-- [start:squares]
@triton.jit
def squares_bug(
    x_ptr, out_ptr, columns, EPS: tl.constexpr, BLOCK_SIZE: tl.constexpr
):  # fmt: skip
    row = tl.program_id(axis=0)
    column = tl.arange(0, BLOCK_SIZE)
    mask = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=mask, other=0)
    mean = tl.sum(x, axis=0) / columns
    variance = tl.sum(x * x, axis=0) / columns - mean * mean
    out = (x - mean) * tl.rsqrt(variance + EPS)
    tl.store(out_ptr + row * columns + column, out, mask=mask)
# --8<-- [end:squares]


# --8<-- [start:atomic]
@triton.jit
def atomic_bug(
    grad_ptr, x_hat_ptr, grad_weight_ptr, columns,
    BACKWARDS: tl.constexpr, BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(axis=0)
    if BACKWARDS:  # as if the programs came in this order
        row = tl.num_programs(axis=0) - 1 - row
    column = tl.arange(0, BLOCK_SIZE)
    mask = column < columns
    grad = tl.load(grad_ptr + row * columns + column, mask=mask)
    x_hat = tl.load(x_hat_ptr + row * columns + column, mask=mask)
    tl.atomic_add(grad_weight_ptr + column, grad * x_hat, mask=mask)
# --8<-- [end:atomic]


def normalized(kernel, x: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    rows, columns = x.shape
    out = torch.empty_like(x)
    kernel[(rows,)](x, out, columns, EPS=eps, BLOCK_SIZE=triton.next_power_of_2(columns))
    return out


def weight_gradient(grad: torch.Tensor, x_hat: torch.Tensor, backwards: bool) -> torch.Tensor:
    rows, columns = x_hat.shape
    out = torch.zeros_like(x_hat[0])
    block = triton.next_power_of_2(columns)
    atomic_bug[(rows,)](grad, x_hat, out, columns, BACKWARDS=backwards, BLOCK_SIZE=block)
    return out


def main():
    device = "cuda" if isinstance(atomic_bug, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    right = lambda x: layer_norm(x, torch.ones_like(x[0]))

    print("## lanes")
    x = torch.tensor([[2.0, 4.0, 5.0, 6.0, 8.0]], device=device)
    wide = torch.randn(3, 8, generator=torch.Generator().manual_seed(0)).to(device)
    print("layer_norm:", shown(right(x)))
    print("lanes_bug: ", shown(normalized(lanes_bug, x)))
    print("8 columns, as layer_norm:", torch.allclose(normalized(lanes_bug, wide), right(wide), atol=1e-5))

    print("## squares")
    for more in (0, 10_000, 100_000):
        print(f"x + {more}:")
        print("  layer_norm: ", shown(right(x + more)))
        print("  squares_bug:", shown(normalized(squares_bug, x + more)))

    print("## order")
    x_hat = torch.ones(3, 1, device=device)
    grad = torch.tensor([[1.0], [1e8], [-1e8]], device=device)
    for name, backwards in {"first to last": False, "last to first": True}.items():
        print(f"{name}:", weight_gradient(grad, x_hat, backwards).item())
    x, grad = torch.randn(2, 64, 781, generator=torch.Generator().manual_seed(0)).to(device)
    one, other = (weight_gradient(grad, rms_norm(x, torch.ones_like(x[0])), each) for each in (False, True))
    print(f"of 781 sums of 64 rows differ: {(one != other).sum().item()}")


if __name__ == "__main__":
    main()
