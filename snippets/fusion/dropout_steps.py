# SPDX-License-Identifier: Apache-2.0
"""Dropout, looked at: the same mask by any block, p at its ends, statistics, and the gradients checked.

The functions are those of ``dropout.py``.

Run it on a GPU with ``python dropout_steps.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import torch
import triton

from snippets.fusion.dropout import add_dropout, add_dropout_kernel, dropout, forward
from snippets.fusion.dropout_plain import rand_at


# --8<-- [start:chi_square]
def chi_square_of_neighbors(keep: torch.Tensor, p: float) -> float:
    """Return how far the counts of the 16 patterns of four neighbors are from the expected: about 15 if by chance.

    By chance alone, one seed in a hundred gives more than 30.6.
    """
    pattern = (keep.view(-1, 4).long() * torch.tensor([8, 4, 2, 1], device=keep.device)).sum(dim=1)
    counts = torch.bincount(pattern, minlength=16).double()
    kept = torch.tensor([number.bit_count() for number in range(16)], device=keep.device).double()
    expected = len(pattern) * (1 - p) ** kept * p ** (4 - kept)
    return ((counts - expected).square() / expected).sum().item()
# --8<-- [end:chi_square]


def main():
    device = "cuda" if isinstance(add_dropout_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    tensor = lambda value: torch.tensor(value, device=device)

    print("## blocks")
    x = torch.ones(10, device=device)
    for block_size in (8, 16, 1024):
        kept = forward(x, None, tensor(27), 0.5, block_size=block_size) > 0
        print(f"block of {block_size:4}:", " ".join("x" if each else "-" for each in kept.tolist()))

    print("## ends")
    for offset in (5145262111, 9297664):
        u = rand_at(tensor(offset), tensor(0))
        print(f"offset {offset:,}, u: {u.item():.8f}")
        print("  p = 0, u >= p:", (u >= 0).item())
        print("  p = 0, u > p: ", (u > 0).item())
        print("  p = 1, u >= p:", (u >= 1).item())
    x = torch.ones(1000, device=device)
    for p in (0, 1):
        print(f"p = {p}, of 1000 kept: {dropout(x, p).sum().item():.0f}")

    print("## statistics")
    n, p = 2**18, 0.1
    one, other = (forward(torch.ones(n, device=device), None, tensor(s), p, block_size=2**15) > 0 for s in (0, 1))
    print(f"elements: {n}")
    print(f"share kept: {one.double().mean().item():.4f}")
    print(f"standard deviations off: {abs(one.sum().item() - n * (1 - p)) / (n * p * (1 - p)) ** 0.5:.1f}")
    print(f"chi-square of four neighbors: {chi_square_of_neighbors(one, p):.1f}")
    print(f"dropped by both seeds, 0 and 1: {(~one & ~other).double().mean().item():.4f}")

    print("## gradients")
    # --8<-- [start:gradcheck]
    options = {"dtype": torch.float64, "device": device, "requires_grad": True}
    x, residual = torch.randn(2, 2, **options), torch.randn(2, 2, **options)
    together = lambda x, residual: add_dropout(x, residual, seed=0)
    print("add_dropout, gradcheck:", torch.autograd.gradcheck(together, (x, residual)))
    print("dropout, gradgradcheck:", torch.autograd.gradgradcheck(lambda x: dropout(x, seed=0), x))
    # --8<-- [end:gradcheck]
    # fullgraph: an error if the compiler has to stop and leave a part to Python
    backend = "inductor" if device == "cuda" else "aot_eager"
    compiled = torch.compile(lambda x: dropout(x, 0.1), fullgraph=True, backend=backend)
    x = torch.ones(64, 781, device=device, requires_grad=True)
    first, second = compiled(x), compiled(x)
    (grad,) = torch.autograd.grad(second.sum(), x)
    print("compiled, the backward drops the same:", torch.equal(grad, second))
    print("compiled, the next call drops the same:", torch.equal(first, second))


if __name__ == "__main__":
    main()
