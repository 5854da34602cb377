# SPDX-License-Identifier: Apache-2.0
"""A kernel that computes something wrong: its intermediate blocks, stored and compared, say where it begins.

The softmax of each row of a matrix. ``probe_ptr`` is a buffer for what the kernel has in hand on the way: blocks of
``BLOCK`` elements, four for each row. Without it (``None``) the compiler leaves those stores out.

Run it on a GPU with ``python debugging_wrong_value_bug.py``, or with ``TRITON_INTERPRET=1`` in the interpreter.
"""

import torch
import triton
import triton.language as tl


# --8<-- [start:kernel]
@triton.jit
def softmax_kernel_bug(x_ptr, out_ptr, n, BLOCK: tl.constexpr, probe_ptr=None):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    mask = lanes < n
    x = tl.load(x_ptr + row * n + lanes, mask=mask, other=0.0)
    largest = tl.max(x, axis=0)
    e = tl.exp(x - largest)
    total = tl.sum(e, axis=0)
    tl.store(out_ptr + row * n + lanes, e / total, mask=mask)
    if probe_ptr is not None:
        here = probe_ptr + row * 4 * BLOCK + lanes
        tl.store(here, x)  # no mask: also the lanes that are off
        tl.store(here + BLOCK, largest)
        tl.store(here + 2 * BLOCK, e)
        tl.store(here + 3 * BLOCK, total)
# --8<-- [end:kernel]


# --8<-- [start:compare]
def intermediates(x: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return what the kernel should have in hand, by torch, in float64."""
    x = x.double()
    largest = x.amax(dim=1, keepdim=True)
    e = (x - largest).exp()
    return {"x": x, "largest": largest, "e": e, "total": e.sum(dim=1, keepdim=True)}


def compare(probe: torch.Tensor, x: torch.Tensor) -> None:
    """Print for each intermediate block whether its lanes that exist are right."""
    n_columns = x.shape[1]
    for i, (name, expected) in enumerate(intermediates(x).items()):
        error = (probe[:, i, :n_columns] - expected).abs().max().item()
        print(f"{name:8}", "right" if error < 1e-5 else f"wrong by up to {error:.3f}")
# --8<-- [end:compare]


def softmax(kernel, x: torch.Tensor, block: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what the kernel computes and what it had in hand, of shape ``(rows, 4, block)``."""
    out, probe = torch.empty_like(x), torch.empty(len(x), 4, block, device=x.device)
    kernel[(len(x),)](x, out, x.shape[1], BLOCK=block)
    kernel[(len(x),)](x, out, x.shape[1], BLOCK=block, probe_ptr=probe)
    return out, probe


def main():
    device = "cuda" if isinstance(softmax_kernel_bug, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    rounded = lambda values: [round(value, 3) for value in values.tolist()]
    x = torch.tensor([[1.0, 2.0, 3.0], [6.0, 5.0, 4.0]], device=device)
    out, probe = softmax(softmax_kernel_bug, x)
    print("## the result")
    print("row 0:      ", rounded(out[0]), "sums to", round(out[0].sum().item(), 3))
    print("torch:      ", rounded(torch.softmax(x, dim=1)[0]))
    print("## the blocks")
    compare(probe, x)
    print("## all lanes")
    print("x, row 0:   ", rounded(probe[0, 0]))
    print("e, row 0:   ", rounded(probe[0, 2]))


if __name__ == "__main__":
    main()
